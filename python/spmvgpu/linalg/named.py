"""THE table of preconditioners that solvers and the command line know by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np
from scipy.sparse.linalg import LinearOperator

from .._util.arguments import one_of
from ..operator.operator import SparseOperator
from .amg import amg
from .block_jacobi import block_jacobi
from .cycles import chebyshev
from .diagonals import diagonal_of, inverse_of, what_fits
from .incomplete import ic0, ilu0
from .jacobi import Jacobi, inverse_diagonal
from .systems import OverRanks

#: A function of an operator and of options that makes a preconditioner.
Maker: TypeAlias = Callable[..., LinearOperator]

# The solvers whose preconditioners have to be symmetric or Hermitian, and positive definite.
SYMMETRIC_SOLVERS = ("cg", "minres")


def _jacobi(op: SparseOperator | OverRanks, definite: bool) -> Jacobi:
    """As of `jacobi`, but with the sizes of negative entries, or with these as they are."""
    if isinstance(op, SparseOperator):
        found = inverse_diagonal(op, of_sizes=definite)
        if found.others == 0:
            return found.inverse
    diagonal = diagonal_of(op)
    inverse = inverse_of(np.abs(diagonal) if definite else diagonal, op.dtype)
    bad = np.flatnonzero(~np.isfinite(inverse))
    if len(bad):
        what = f"entries without a finite inverse in {op.dtype}" if diagonal[bad].all() else "zeros"
        row = bad[0] + (op.row_ranges.begin if isinstance(op, OverRanks) else 0)
        raise ValueError(
            f"the diagonal has {what}, the first in row {row}; use {what_fits(diagonal, op.dtype)}"
        )
    return Jacobi(inverse)


_OF_ENTRIES: dict[str, Maker] = {
    "block_jacobi": block_jacobi,
    "chebyshev": chebyshev,
    "ic0": ic0,
    "ilu0": ilu0,
    "amg": partial(amg, cycle="once"),
}
NAMES = ("jacobi", *_OF_ENTRIES)


def named(name: str, op: SparseOperator | OverRanks, solver: str, **options: object) -> LinearOperator:
    """The preconditioner of a name for an operator and a solver, as solvers take it.

    Over ranks it is that of this rank's block of the diagonal, except for "jacobi" and "amg".

    Raises
    ------
    ValueError
        For an unknown name, and as the preconditioners.
    """
    one_of("M", name, NAMES)
    if name == "jacobi":
        return _jacobi(op, solver in SYMMETRIC_SOLVERS)
    is_whole = isinstance(op, SparseOperator) or name == "amg"
    return _OF_ENTRIES[name](op if is_whole else op._block, **options)
