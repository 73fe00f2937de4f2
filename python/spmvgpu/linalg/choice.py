"""Which solver and which preconditioner suit a matrix: THE decision of `solve` and of the command line."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from .._util.types import HostArray

# Preconditioners that leave the system unsymmetric.
_UNSYMMETRIC = ("ilu0",)

# Incomplete factors are stable where the diagonal outweighs its rows, or nearly so. Where it does so by far,
# the diagonal is a good preconditioner alone.
_STABLE, _DOMINANT = 0.99, 1.1


class Approach(NamedTuple):
    """A solver with a preconditioner, by their names; "none" stands for no preconditioner."""

    solver: str
    preconditioner: str

    def __str__(self) -> str:
        return self.solver if self.preconditioner == "none" else f"{self.solver} with {self.preconditioner}"


def choose(
    hermitian: bool,
    positive_diagonal: bool,
    preconditioner: str,
    kind: str,
    *,
    indefinite: bool = False,
    divides: bool = True,
    dominance: float = 0.0,
    on_gpu: bool = False,
) -> tuple[list[Approach], str]:
    """What to try with a matrix, each where the one before fails, and why the first was chosen.

    Parameters
    ----------
    hermitian : bool
        Whether the matrix is symmetric, or Hermitian if it is complex.
    positive_diagonal : bool
        Whether all of its diagonal is positive, without which no matrix is positive definite.
    preconditioner : str
        The only one to use, or "auto".
    kind : {"symmetric", "Hermitian"}
        What a matrix of this type is called that equals its (conjugate) transpose.
    indefinite : bool
        Whether steps of the Lanczos method have shown that it is not positive definite.
    divides : bool
        Whether all of the diagonal has an inverse, without which there are no preconditioners.
    dominance : float
        As `dominance` gives it; 0 if it is not known.
    on_gpu : bool
        Whether solvers run on a GPU, where a solve with triangular factors may take as long as a thousand
        products.
    """
    solvers, reason = _solvers(hermitian, positive_diagonal, preconditioner, kind, indefinite)
    if preconditioner != "auto":
        return [Approach(solver, preconditioner) for solver in solvers], reason
    jacobi = "jacobi" if divides else "none"
    factors = ["ilu0"] if divides else []
    if not hermitian:
        factors_first = _STABLE <= dominance < _DOMINANT and not on_gpu
        names = [*factors, jacobi] if factors_first else [jacobi, *factors]
        return [Approach(solver, name) for name in names for solver in solvers], reason
    approaches = [Approach(solver, jacobi) for solver in solvers]
    if "cg" in solvers:
        approaches[1:1] = [Approach("cg", name) for name in ("amg", "ic0")]
    approaches += [Approach("gmres", name) for name in (*factors, jacobi)]
    return approaches, reason


def _solvers(
    hermitian: bool, positive_diagonal: bool, preconditioner: str, kind: str, indefinite: bool
) -> tuple[tuple[str, ...], str]:
    if not hermitian:
        return ("bicgstab", "gmres"), f"the matrix is not {kind}"
    if preconditioner in _UNSYMMETRIC:
        return ("bicgstab", "gmres"), f"{preconditioner} is not {kind}"
    if not positive_diagonal:
        why = f"the matrix is {kind}, and not positive definite: its diagonal is not positive"
        return ("minres",), why
    if indefinite:
        why = f"the matrix is {kind}, and not positive definite: so steps of the Lanczos method show"
        return ("minres",), why
    return ("cg", "minres"), f"the matrix is {kind} with a positive diagonal"


def dominance(matrix: sp.sparray, diagonal: HostArray) -> float:
    """The least ratio of an entry of the diagonal to the sum of the others of its row, by their sizes."""
    sums = np.asarray(abs(matrix).sum(axis=1)).reshape(-1)
    sizes = np.abs(diagonal)
    others = sums - sizes
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(others > 1e-14 * sums, sizes / others, np.inf)
    return float(ratios.min(initial=np.inf))
