"""Preconditioners made of products: blocks of the diagonal, Chebyshev polynomials, multigrid cycles."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from ..arguments import one_of, real_number, whole_number, with_hints
from ..construct import aslinearoperator
from ..inputs.compressed import storage_dtype, wanted_dtype
from ..operator import SparseOperator
from ..value_types import core_class
from .preconditioners import (
    DevicePreconditioner,
    check_operator,
    inverse_of,
    positive_inverse,
    requested_device,
    what_fits,
)
from .vectors import NOTHING, staged

_EIGENVALUE_STEPS = 15  # of the power method, whose estimate is then raised by a tenth
_SMOOTHED = 8.0  # part of the spectrum, above what coarser levels correct
_LARGEST_COARSE = 4000  # unknowns of which a dense inverse is made


class _Level(NamedTuple):
    """A grid: the matrix, what its smoother needs, and the ways to the next one."""

    A: SparseOperator | None = None
    inverse_diagonal: npt.NDArray[Any] | None = None
    low: float = 1.0
    high: float = 1.0
    degree: int = 1
    R: SparseOperator | None = None
    P: SparseOperator | None = None
    inverse: SparseOperator | None = None

    def adjoint(self) -> _Level:
        """What makes the adjoint of a cycle from those of its levels.

        A smoother is ``p(D^-1 A) D^-1`` with a real polynomial, so that of the adjoints is its adjoint; and a
        cycle smooths in the same way before and after the correction.
        """
        A, R, P, inverse = (op and op.H for op in (self.A, self.R, self.P, self.inverse))
        diagonal = None if self.inverse_diagonal is None else self.inverse_diagonal.conj()
        return self._replace(A=A, inverse_diagonal=diagonal, R=P, P=R, inverse=inverse)


class Cycle(DevicePreconditioner):
    """A multigrid cycle or a Chebyshev polynomial; made by `aspreconditioner` and `chebyshev`.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(sg.gallery.poisson2d(10), device="cpu")
    >>> (sg.linalg.chebyshev(op) @ np.ones(100)).shape
    (100,)
    """

    def __init__(self, finest: SparseOperator, levels: list[_Level]) -> None:
        super().__init__(finest.dtype, finest.shape, finest._ordinal)
        self._finest = finest
        # With copies of the diagonals: what comes from a pickle may lie in memory of others.
        self._levels = [
            level._replace(inverse_diagonal=np.array(level.inverse_diagonal, finest.dtype))
            if level.inverse_diagonal is not None
            else level
            for level in levels
        ]
        self._diagonals = [
            NOTHING if level.inverse_diagonal is None else staged(level.inverse_diagonal, self._ordinal)
            for level in self._levels
        ]

    def _is_polynomial_in(self, op: SparseOperator) -> bool:
        finest = self._levels[0].A
        return len(self._levels) == 1 and finest is not None and finest._matrix is op._matrix

    def _core_map(self) -> Any:
        levels = [
            (
                _matrix(level.A),
                diagonal.pointer,
                level.low,
                level.high,
                level.degree,
                _matrix(level.R),
                _matrix(level.P),
                _matrix(level.inverse),
            )
            for level, diagonal in zip(self._levels, self._diagonals, strict=True)
        ]
        return core_class("CycleMap", self.dtype)(levels, self._memory)

    def _conjugate_transposed(self) -> Cycle:
        finest = self._finest.H
        if len(self._levels) == 1 and finest is self._finest:  # a polynomial in a matrix that is declared so
            return self
        return Cycle(finest, [level.adjoint() for level in self._levels])

    def __reduce__(self) -> tuple[Any, ...]:
        return Cycle, (self._finest, self._levels)


def _matrix(op: SparseOperator | None) -> Any:
    return None if op is None else op._matrix


@with_hints
def chebyshev(op: SparseOperator, degree: int = 4, ratio: float = 30.0) -> Cycle:
    """A Chebyshev polynomial in a symmetric or Hermitian positive definite matrix, near its inverse.

    It is applied by products alone, so it needs no more memory than two vectors, and costs ``degree - 1``
    products.

    Parameters
    ----------
    op : SparseOperator
    degree : int
        Of the polynomial times the matrix.
    ratio : float
        The polynomial is small on the eigenvalues of the scaled matrix from the largest one, which is
        estimated, down to the `ratio`-th part of it.

    Returns
    -------
    Cycle

    Raises
    ------
    numpy.linalg.LinAlgError
        If an entry of the diagonal is not positive, or an entry of the matrix not finite.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(sg.gallery.poisson2d(30), device="cpu")
    >>> x, info = sg.linalg.cg(op, np.ones(900), M=sg.linalg.chebyshev(op))
    >>> info, op.solve_info.iterations < 20
    (0, True)
    """
    check_operator(op)
    whole_number("degree", degree, 1, 1000)
    if not real_number("ratio", ratio) > 1:
        raise ValueError(f"ratio={ratio!r} is not allowed; give a number above 1")
    op = op._snapshot()
    inverse = positive_inverse("chebyshev", op.diagonal(), op.dtype)
    return Cycle(op, [_smoothed(op, degree, ratio, inverse)])


def _smoothed(op: SparseOperator, degree: int, ratio: float, inverse: npt.NDArray[Any]) -> _Level:
    """A level with a Chebyshev smoother, whose largest eigenvalue is estimated by the power method."""
    v = np.random.default_rng(1).standard_normal(op.shape[0]).astype(op.dtype)
    largest = 1.0
    for _ in range(_EIGENVALUE_STEPS):
        v /= np.linalg.norm(v)
        w = inverse * (op @ v)
        largest, v = float(np.linalg.norm(w)), w
    largest *= 1.1
    if not np.isfinite(largest):
        raise np.linalg.LinAlgError(
            f"the matrix holds inf or NaN, or products with it overflow in {op.dtype}; scale it, or mend it"
        )
    return _Level(op, inverse, largest / ratio, largest, degree)


@with_hints
def aspreconditioner(
    ml: Any, *, device: str = "auto", dtype: Any = None, smoother: str = "chebyshev", degree: int = 2
) -> Cycle:
    """A hierarchy of pyamg's as a preconditioner that runs on the device: one V-cycle from zero.

    pyamg does the setup. The matrices of all levels are made into operators of one dtype, and smoothing,
    restriction and prolongation are products with them; the coarsest system is solved by its dense inverse.

    Parameters
    ----------
    ml : pyamg.multilevel.MultilevelSolver
        As `pyamg.ruge_stuben_solver` or `pyamg.smoothed_aggregation_solver` make it. Its own smoothers and
        coarse solver are not used.
    device, dtype : optional
        As in `aslinearoperator`: those of the operator that is solved with. Without `dtype`, that of the
        finest level, and complex where any level is: pyamg may have coarser levels in others.
    smoother : {"chebyshev", "jacobi"}
        Before and after the correction from the coarser level; both keep the cycle symmetric.
    degree : int
        Of the polynomial of "chebyshev".

    Returns
    -------
    Cycle

    Raises
    ------
    TypeError, ValueError
        If `ml` has no levels, or matrices in them that do not fit together or are not finite, or its coarsest
        level has too many unknowns for a dense inverse.
    numpy.linalg.LinAlgError
        If an entry of the diagonal of a level is zero.

    Examples
    --------
    >>> import numpy as np, pyamg, spmvgpu as sg  # doctest: +SKIP
    >>> A = sg.gallery.poisson2d(100)  # doctest: +SKIP
    >>> M = sg.linalg.aspreconditioner(pyamg.ruge_stuben_solver(A))  # doctest: +SKIP
    >>> x, info = sg.linalg.cg(sg.aslinearoperator(A), np.ones(10_000), M=M)  # doctest: +SKIP
    """
    one_of("smoother", smoother, ("chebyshev", "jacobi"))
    whole_number("degree", degree, 1, 1000)
    grids = _grids_of(ml)
    coarsest = grids[-1]["A"]
    if coarsest.shape[0] > _LARGEST_COARSE:
        raise ValueError(
            f"the coarsest level has {coarsest.shape[0]} unknowns; at most {_LARGEST_COARSE} are solved by a "
            "dense inverse: give pyamg a smaller max_coarse, or more max_levels"
        )
    common = _common_dtype([matrix for grid in grids for matrix in grid.values()], dtype)

    def build(matrix: Any) -> SparseOperator:
        op: SparseOperator = aslinearoperator(matrix, device=device, dtype=common)
        return op

    levels = []
    for number, grid in enumerate(grids[:-1]):
        A = build(grid["A"])
        diagonal = A.diagonal()
        inverse = inverse_of(diagonal, common)
        bad = np.flatnonzero(~np.isfinite(inverse))
        if len(bad):
            raise np.linalg.LinAlgError(
                f"level {number} of ml: {len(bad)} of {len(diagonal)} diagonal entries cannot be divided by "
                f"in {common}, the first in row {bad[0]} ({diagonal[bad[0]]:g}); use ml.aspreconditioner(), "
                "whose smoothers are pyamg's"
            )
        steps, ratio = (degree, _SMOOTHED) if smoother == "chebyshev" else (1, 2.0)
        level = _smoothed(A, steps, ratio, inverse)
        levels.append(level._replace(R=build(grid["R"]), P=build(grid["P"])))
    dense = coarsest.toarray().astype(np.complex128 if common.kind == "c" else np.float64)
    inverse_matrix = build(np.linalg.pinv(dense, rcond=len(dense) * np.finfo(dense.dtype).eps))
    levels.append(_Level(inverse=inverse_matrix))
    return Cycle(levels[0].A or inverse_matrix, levels)


def _grids_of(ml: Any) -> list[dict[str, Any]]:
    """The matrices A, R and P of all levels, of the coarsest one A alone, as CSR that fits together."""
    grids = getattr(ml, "levels", None)
    if not grids:
        raise TypeError(f"ml must be a hierarchy of pyamg's, with levels; {type(ml).__name__} has none")
    found: list[dict[str, Any]] = []
    for number, grid in enumerate(grids):
        names = ("A", "R", "P") if number + 1 < len(grids) else ("A",)
        for name in names:
            if not hasattr(grid, name):
                raise TypeError(f"level {number} of ml, which must be a hierarchy of pyamg's, has no {name}")
        found.append({name: sp.csr_array(getattr(grid, name)) for name in names})
    sizes = [grid["A"].shape[0] for grid in found]
    for number, grid in enumerate(found):
        n, coarser = sizes[number], (*sizes, 0)[number + 1]
        for name, fitting in (("A", (n, n)), ("R", (coarser, n)), ("P", (n, coarser))):
            matrix = grid.get(name)
            if matrix is None:
                continue
            if matrix.shape != fitting:
                raise ValueError(
                    f"level {number} of ml: {name} has shape {matrix.shape}; beside the other matrices it "
                    f"must be {fitting}"
                )
            if not np.isfinite(matrix.data).all():
                raise ValueError(f"level {number} of ml: {name} holds inf or NaN")
    return found


def _common_dtype(matrices: list[Any], dtype: Any) -> np.dtype[Any]:
    """The type of a hierarchy: as asked for, or that of the finest level, complex where any matrix is."""
    wanted = wanted_dtype(dtype)
    if wanted is not None:
        return wanted
    has_complex = any(matrix.dtype.kind == "c" for matrix in matrices)
    finest = storage_dtype(matrices[0].dtype, None)
    return np.result_type(finest, np.complex64) if has_complex else finest


@with_hints
def block_jacobi(op: SparseOperator, block: int = 3) -> SparseOperator:
    """The block Jacobi preconditioner: the inverses of square blocks along the diagonal.

    For matrices with several unknowns a node, as those of elasticity. It is an operator on the device of
    `op`, of its dtype.

    Parameters
    ----------
    op : SparseOperator
    block : int
        Rows of a block; the last one may have fewer.

    Returns
    -------
    SparseOperator

    Raises
    ------
    numpy.linalg.LinAlgError
        If a block is singular, or so nearly that its inverse is made of rounding errors, or not finite.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(sg.gallery.elasticity3d(4), device="cpu")
    >>> M = sg.linalg.block_jacobi(op, 3)
    >>> sg.linalg.cg(op, np.ones(op.shape[0]), M=M)[1]
    0
    """
    check_operator(op)
    size = whole_number("block", block, 1, 1024)
    n = op.shape[0]
    A = op.tocsr().tocoo()
    within = A.row // size == A.col // size
    row, col = A.row[within], A.col[within]
    blocks = np.zeros((-(-n // size), size, size), np.result_type(op.dtype, np.float64))
    blocks[row // size, row % size, col % size] = A.data[within]
    for missing in range(n, len(blocks) * size):  # what the last block lacks
        blocks[-1, missing % size, missing % size] = 1.0
    inverses = _inverses(blocks, op, size)
    places = np.arange(len(blocks) + 1)
    inverse = sp.bsr_array((inverses, places[:-1], places), shape=(len(blocks) * size,) * 2)
    made: SparseOperator = aslinearoperator(
        sp.csr_array(inverse)[:n, :n], device=requested_device(op), dtype=op.dtype
    )
    return made


def _inverses(blocks: npt.NDArray[Any], op: SparseOperator, size: int) -> npt.NDArray[Any]:
    """The inverses of blocks, or LinAlgError that says which one has none."""
    try:
        inverses: npt.NDArray[Any] = np.linalg.inv(blocks)
    except np.linalg.LinAlgError:
        inverses = np.array([_inverse_or_nan(block) for block in blocks])
    with np.errstate(all="ignore"):
        # An inverse times its block has ones on its diagonal: how much larger are the terms of these sums?
        # Other than the condition number, that does not depend on how rows and columns are scaled.
        cancelled = np.abs(inverses * blocks.swapaxes(1, 2)).sum(axis=2).max(axis=1)
        fits = np.isfinite(inverses.astype(op.dtype)).all(axis=(1, 2))
    bad = np.flatnonzero(~(fits & (cancelled * np.finfo(op.dtype).eps < 1)))
    if len(bad):
        begin, end = int(bad[0]) * size, min((int(bad[0]) + 1) * size, op.shape[0])
        why, instead = "holds inf or NaN", "a matrix without them"
        if np.isfinite(blocks[bad[0]]).all():
            why = "is singular"
            instead = f"another block size than {size}, or {what_fits(op.diagonal(), op.dtype)}"
        raise np.linalg.LinAlgError(
            f"block {bad[0]} of the diagonal, rows {begin} to {end - 1}, {why} (the first of {len(bad)} "
            f"among {len(blocks)} blocks); use {instead}"
        )
    return inverses


def _inverse_or_nan(block: npt.NDArray[Any]) -> npt.NDArray[Any]:
    try:
        inverse: npt.NDArray[Any] = np.linalg.inv(block)
    except np.linalg.LinAlgError:
        return np.full_like(block, np.nan)
    return inverse
