"""Preconditioners made of products: block Jacobi, Chebyshev polynomials and multigrid cycles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp

from .. import _core
from .._core import LinearMap
from .._util.arguments import one_of, real_number, whole_number, with_hints
from .._util.types import Device, DType, HostArray
from ..devices import device_name
from ..inputs.source import storage_dtype, wanted_dtype
from ..operator.construct import aslinearoperator
from ..operator.operator import SparseOperator
from .diagonals import diagonal_of, inverse_of, positive_inverse
from .preconditioners import (
    DevicePreconditioner,
    PreconditionerMap,
    of_own_block,
    square_operator,
)
from .systems import System
from .vectors import NO_VECTOR, DeviceVector, staged

_EIGENVALUE_STEPS = 15  # of the power and of the Lanczos method
_POWER_SAFETY, _LANCZOS_SAFETY = 1.1, 1.05  # of their estimates, which are from below
_SMOOTHED = 8.0  # part of the spectrum, above what coarser levels correct
# Smoothers of pyamg that a Chebyshev polynomial can replace. Others are for matrices that it may not suit.
_REPLACED = {"none", "jacobi", "gauss_seidel", "sor", "richardson", "chebyshev"}
_REPLACED |= {"block_jacobi", "block_gauss_seidel"}
_LARGEST_COARSE = 4000  # unknowns of which a dense inverse is made


class _Level(NamedTuple):
    """A grid: the matrix, what its smoother needs, and the ways to the next one."""

    A: SparseOperator | None = None
    R: SparseOperator | None = None
    P: SparseOperator | None = None
    inverse: SparseOperator | None = None
    inverse_diagonal: HostArray | None = None
    low: float = 1.0
    high: float = 1.0
    degree: int = 1

    def adjoint(self) -> _Level:
        """The level of the adjoint cycle.

        A smoother is ``p(D^-1 A) D^-1`` with a real polynomial, so that of the adjoints is its adjoint; and a
        cycle smooths in the same way before and after the correction.
        """
        diagonal = None if self.inverse_diagonal is None else self.inverse_diagonal.conj()
        turned = self.changed(lambda op: op.H)
        return turned._replace(inverse_diagonal=diagonal, R=turned.P, P=turned.R)

    def changed(self, change: Callable[[SparseOperator], SparseOperator]) -> _Level:
        """The level with the operators that a function makes of its own."""
        A, R, P, inverse = (op and change(op) for op in self[:4])
        return self._replace(A=A, R=R, P=P, inverse=inverse)


class _Cycle(NamedTuple):
    """What a cycle is made of.

    Attributes
    ----------
    finest : SparseOperator
        The matrix, or for one that has no finer level, its inverse.
    levels : list of _Level
    diagonals : list of DeviceVector
        The inverse diagonals of the levels on the device.
    copies : dict
        Cycles on other devices, or of other dtypes, made at first use.
    """

    finest: SparseOperator
    levels: list[_Level]
    diagonals: list[DeviceVector]
    copies: dict[tuple[int, DType], Cycle]


class Cycle(DevicePreconditioner):
    """A Chebyshev polynomial or a multigrid cycle, as `chebyshev` and `aspreconditioner` return it.

    A `LinearOperator`, for the solvers of `spmvgpu.linalg` and of SciPy. `update_values` is for a polynomial.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(sg.gallery.poisson2d(10), device="cpu")
    >>> (sg.linalg.chebyshev(op) @ np.ones(100)).shape
    (100,)
    """

    def __init__(
        self, finest: SparseOperator, levels: list[_Level], polynomial: tuple[int, float] | None = None
    ) -> None:
        super().__init__(finest.dtype, finest.shape, finest._ordinal)
        self._polynomial = polynomial  # the arguments of `chebyshev`
        self._state = _cycle(finest, levels)

    def _ordinals(self) -> Sequence[int]:
        ordinals: Sequence[int] = self._now().finest._stored.ordinals
        return ordinals

    def _facts(self) -> str:
        levels = self._now().levels
        degree, ratio = levels[0].degree, levels[0].high / levels[0].low
        kind = "chebyshev" if self._polynomial is not None else f"pyamg, {len(levels)} levels, smoother"
        return f"{kind} of degree {degree}, ratio {ratio:.4g}"

    def _map_for(self, system: System, ordinal: int) -> PreconditionerMap | None:
        """As that of other preconditioners; for vectors elsewhere, that of a copy made at first use."""
        there = ordinal, system.dtype
        stays = there == (self._ordinal, self.dtype) or self._keeps_pieces(system)
        if stays or (self.dtype.kind == "c" and system.dtype.kind != "c"):
            return super()._map_for(system, ordinal)
        copies: dict[tuple[int, DType], Cycle] = self._now().copies
        if there not in copies:

            def moved(op: SparseOperator) -> SparseOperator:
                return op.to(device_name(ordinal)).astype(system.dtype, copy=False)

            levels = [level.changed(moved) for level in self._now().levels]
            copies[there] = Cycle(levels[0].A or moved(self._now().finest), levels)
        return copies[there]._map_for(system, ordinal)

    def _divides(self, matrix: object) -> bool:
        levels = self._now().levels
        finest = levels[0].A
        return len(levels) == 1 and finest is not None and finest._matrix is matrix

    def _core_map(self) -> LinearMap:
        _, own, diagonals, _ = self._now()
        levels = []
        for (*ops, _, low, high, degree), diagonal in zip(own, diagonals, strict=True):
            A, R, P, inverse = (op and op._matrix for op in ops)
            levels.append((A, diagonal.pointer, low, high, degree, R, P, inverse))
        return _core.cycle_map(self.dtype, levels, self._memory)

    def _state_with(self, data: object) -> _Cycle:
        if self._polynomial is None:
            raise TypeError(
                "this Cycle was made of a hierarchy of pyamg, whose setup is pyamg's; make a new one, or use "
                "amg(A), whose hierarchy takes new values"
            )
        op = self._state.finest._snapshot()
        op.update_values(data)
        return _cycle(op, [_polynomial(op, *self._polynomial)])

    def _conjugate_transposed(self, state: _Cycle) -> _Cycle:
        finest = state.finest.H
        if len(state.levels) == 1 and finest is state.finest:  # a polynomial in a matrix that is declared so
            return state
        return _cycle(finest, [level.adjoint() for level in state.levels])

    def _reduced(self) -> tuple[object, ...]:
        return Cycle, (self._state.finest, self._state.levels, self._polynomial)


def _cycle(finest: SparseOperator, given: list[_Level]) -> _Cycle:
    levels, diagonals = [], []
    for level in given:
        own, vector = level.inverse_diagonal, NO_VECTOR
        if own is not None:  # a copy, as what comes from a pickle may lie in memory of others
            own = np.array(own, finest.dtype)
            vector = staged(own, finest._ordinal)
        levels.append(level._replace(inverse_diagonal=own))
        diagonals.append(vector)
    return _Cycle(finest, levels, diagonals, {})


@with_hints
@of_own_block
def chebyshev(op: object, degree: int = 4, ratio: float = 30.0) -> Cycle:
    """Return a Chebyshev polynomial preconditioner of a positive definite matrix.

    It approximates the inverse of the matrix by ``degree - 1`` products with it, scaled by its diagonal [1]_.
    It needs the memory of two vectors.

    Parameters
    ----------
    op : SparseOperator, array, sparse matrix or DistributedOperator
        Symmetric or Hermitian, and positive definite. A matrix is converted with the defaults of
        `aslinearoperator`. For an operator over ranks, each rank makes the preconditioner of its diagonal
        block.
    degree : int, default 4
        Number of steps of the Chebyshev iteration, from 1 to 1000.
    ratio : float, default 30.0
        Ratio of the largest to the smallest eigenvalue that the polynomial damps, above 1. The largest
        eigenvalue is estimated by the Lanczos method.

    Returns
    -------
    Cycle

    Raises
    ------
    TypeError, ValueError
        If `op` is neither a matrix nor an operator that has one, is not square, or if `degree` or `ratio` is
        out of range.
    numpy.linalg.LinAlgError
        If an entry of the diagonal is not positive, or an entry of the matrix is not finite.

    References
    ----------
    .. [1] Y. Saad, "Iterative Methods for Sparse Linear Systems", 2nd ed., SIAM, 2003, algorithm 12.1.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(sg.gallery.poisson2d(30), device="cpu")
    >>> x, info = sg.linalg.cg(op, np.ones(900), M=sg.linalg.chebyshev(op))
    >>> info, op.solve_info.iterations < 20
    (0, True)
    """
    own = square_operator(op)._snapshot()
    whole_number("degree", degree, 1, 1000)
    real_number("ratio", ratio, "a number above 1", lambda number: number > 1)
    return Cycle(own, [_polynomial(own, degree, ratio)], (degree, ratio))


def _polynomial(op: SparseOperator, degree: int, ratio: float) -> _Level:
    inverse = positive_inverse("chebyshev", diagonal_of(op), op.dtype)
    return _smoothed(op, degree, ratio, inverse, _by_lanczos(op, inverse))


def _by_power(op: SparseOperator, inverse: HostArray) -> float:
    """The largest eigenvalue of a matrix that is scaled by its diagonal; it need not be Hermitian."""
    v, largest = _start(op), 1.0
    for _ in range(_EIGENVALUE_STEPS):
        v /= np.linalg.norm(v)
        w = inverse * (op @ v)
        largest, v = float(np.linalg.norm(w)), w
    return _POWER_SAFETY * largest


def _by_lanczos(op: SparseOperator, inverse: HostArray) -> float:
    """The largest eigenvalue of a Hermitian matrix that is scaled by its positive diagonal.

    It is also found where it lies alone above the others, which the power method takes long to see.
    """
    root = np.sqrt(inverse.real).astype(op.dtype)
    v = _start(op)
    v /= np.linalg.norm(v) or 1.0
    before, beside = np.zeros_like(v), 0.0
    diagonal: list[float] = []
    off_diagonal: list[float] = []
    for _ in range(min(_EIGENVALUE_STEPS, len(v))):
        w = root * (op @ (root * v)) - beside * before
        diagonal.append(float(np.vdot(v, w).real))
        w -= diagonal[-1] * v
        beside = float(np.linalg.norm(w))
        if not np.isfinite(beside):
            return beside
        if beside <= 100 * np.finfo(op.dtype).eps * abs(diagonal[0]):
            break
        off_diagonal.append(beside)
        before, v = v, w / beside
    if not diagonal:
        return 1.0
    values = la.eigvalsh_tridiagonal(diagonal, off_diagonal[: len(diagonal) - 1])
    return _LANCZOS_SAFETY * float(values[-1])


def _start(op: SparseOperator) -> HostArray:
    v: HostArray = np.random.default_rng(1).standard_normal(op.shape[0]).astype(op.dtype)
    return v


def _smoothed(op: SparseOperator, degree: int, ratio: float, inverse: HostArray, largest: float) -> _Level:
    """A level with a Chebyshev smoother, given the largest eigenvalue."""
    if not np.isfinite(largest):
        raise np.linalg.LinAlgError(
            f"the matrix contains inf or NaN, or products with it overflow in {op.dtype}; check or scale the "
            "matrix"
        )
    largest = largest or 1.0  # of a matrix of zeros, where any number does
    return _Level(op, None, None, None, inverse, largest / ratio, largest, degree)


@with_hints
def aspreconditioner(
    ml: object, *, device: Device = "auto", dtype: object = None, smoother: str | None = None, degree: int = 2
) -> Cycle:
    """Return a multigrid hierarchy of pyamg as a preconditioner on a device.

    pyamg does the setup. One application is one V-cycle. Smoothing, restriction and prolongation are products
    on the device. The coarsest system is solved with its dense inverse.

    Parameters
    ----------
    ml : pyamg.multilevel.MultilevelSolver
        From `pyamg.ruge_stuben_solver` or `pyamg.smoothed_aggregation_solver`. Its smoothers and its coarse
        solver are replaced.
    device : str, default "auto"
        Device that the hierarchy is moved to at once. In a solve with an operator on another device, or of
        another dtype, it follows that: a copy is made at first use.
    dtype : dtype, optional
        Dtype of the hierarchy. By default the dtype of the finest level, or a complex one if any level is
        complex.
    smoother : {"chebyshev", "jacobi"}, optional
        Smoother before and after the correction from the coarser level. The cycle is symmetric with both.
        By default "chebyshev" takes the place of the Jacobi, Gauss-Seidel, SOR, Richardson and Chebyshev
        methods of pyamg, by points or by blocks, and a hierarchy with another smoother is refused.
    degree : int, default 2
        Degree of the "chebyshev" smoother.

    Returns
    -------
    Cycle

    Raises
    ------
    TypeError, ValueError
        If `ml` has no levels, or a smoother that is refused, if the matrices of the levels do not fit
        together or are not finite, or if the coarsest level has more than 4000 unknowns.
    numpy.linalg.LinAlgError
        If an entry of the diagonal of a level is zero.

    Examples
    --------
    >>> import numpy as np, pyamg, spmvgpu as sg  # doctest: +SKIP
    >>> A = sg.gallery.poisson2d(100)  # doctest: +SKIP
    >>> M = sg.linalg.aspreconditioner(pyamg.ruge_stuben_solver(A))  # doctest: +SKIP
    >>> op = sg.aslinearoperator(A)  # doctest: +SKIP
    >>> x, info = sg.linalg.cg(op, np.ones(10_000), M=M)  # doctest: +SKIP
    """
    if smoother is not None:
        one_of("smoother", smoother, ("chebyshev", "jacobi"))
    whole_number("degree", degree, 1, 1000)
    grids = _grids_of(ml)
    if smoother is None:
        _check_smoothers(ml)
    coarsest = grids[-1]["A"]
    if coarsest.shape[0] > _LARGEST_COARSE:
        raise ValueError(
            f"the coarsest level has {coarsest.shape[0]} unknowns; at most {_LARGEST_COARSE} are allowed, "
            "because its inverse is dense; give pyamg a smaller max_coarse or a larger max_levels"
        )
    common = wanted_dtype(dtype)
    if common is None:
        has_complex = any(matrix.dtype.kind == "c" for grid in grids for matrix in grid.values())
        common = storage_dtype(grids[0]["A"].dtype, None)
        common = np.result_type(common, np.complex64) if has_complex else common

    def build(matrix: object) -> SparseOperator:
        return aslinearoperator(matrix, device=device, dtype=common)

    levels = []
    for number, grid in enumerate(grids[:-1]):
        A = build(grid["A"])
        diagonal = A.diagonal()
        inverse = inverse_of(diagonal, common)
        bad = np.flatnonzero(~np.isfinite(inverse))
        if len(bad):
            raise np.linalg.LinAlgError(
                f"level {number} of ml: {len(bad)} of {len(diagonal)} diagonal entries have no finite "
                f"inverse in {common}, the first in row {bad[0]} ({diagonal[bad[0]]:g}); use "
                "ml.aspreconditioner() of pyamg"
            )
        steps, ratio = (degree, _SMOOTHED) if smoother != "jacobi" else (1, 2.0)
        level = _smoothed(A, steps, ratio, inverse, _by_power(A, inverse))
        levels.append(level._replace(R=build(grid["R"]), P=build(grid["P"])))
    dense = coarsest.toarray().astype(np.complex128 if common.kind == "c" else np.float64)
    inverse_matrix = build(np.linalg.pinv(dense, rcond=len(dense) * np.finfo(dense.dtype).eps))
    levels.append(_Level(inverse=inverse_matrix))
    return Cycle(levels[0].A or inverse_matrix, levels)


def _check_smoothers(ml: Any) -> None:
    """Refuse, with ValueError, a hierarchy with a smoother that a Chebyshev polynomial cannot replace."""
    for number, level in enumerate(ml.levels[:-1]):
        for place in ("presmoother", "postsmoother"):
            name = getattr(getattr(level, place, None), "__name__", None)
            if name is not None and name not in _REPLACED:
                raise ValueError(
                    f"level {number} of ml has the {place} {name!r}, which is not available here; use "
                    'ml.aspreconditioner() of pyamg, or give smoother="chebyshev" or "jacobi" in its place'
                )


def _grids_of(ml: object) -> list[dict[str, sp.csr_array]]:
    """The matrices A, R and P of all levels, of the coarsest one A alone, as CSR that fits together."""
    grids = getattr(ml, "levels", None)
    if not grids:
        raise TypeError(f"ml must be a pyamg hierarchy with levels, not {type(ml).__name__}")
    found: list[dict[str, sp.csr_array]] = []
    sizes = [*(getattr(getattr(grid, "A", None), "shape", (0,))[0] for grid in grids), 0]
    for number, grid in enumerate(grids):
        n, coarser = sizes[number : number + 2]
        shapes = {"A": (n, n), "R": (coarser, n), "P": (n, coarser)}
        found.append({})
        for name in shapes if number + 1 < len(grids) else "A":
            if not hasattr(grid, name):
                raise TypeError(f"level {number} of ml has no {name}; give a pyamg hierarchy")
            matrix = found[-1][name] = sp.csr_array(getattr(grid, name))
            fitting = shapes[name]
            if matrix.shape != fitting:
                raise ValueError(
                    f"level {number} of ml: {name} has shape {matrix.shape}; it must have shape {fitting} to "
                    "fit the other matrices"
                )
            if not np.isfinite(matrix.data).all():
                raise ValueError(f"level {number} of ml: {name} contains inf or NaN")
    return found
