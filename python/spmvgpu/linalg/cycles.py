"""Preconditioners made of products: blocks of the diagonal, Chebyshev polynomials, multigrid cycles."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from ..arguments import one_of, real_number, whole_number
from ..construct import aslinearoperator
from ..devices import device_name
from ..operator import SparseOperator
from ..value_types import core_class
from .preconditioners import DevicePreconditioner, check_operator, of_diagonal
from .vectors import DeviceVector, staged

_EIGENVALUE_STEPS = 15  # of the power method, whose estimate is then raised by a tenth
_SMOOTHED = 8.0  # part of the spectrum, above what coarser levels correct
_LARGEST_COARSE = 4000  # unknowns of which a dense inverse is made


class _Level(NamedTuple):
    """A grid: the matrix, what its smoother needs, and the ways to the next one."""

    A: SparseOperator | None
    inverse_diagonal: DeviceVector
    low: float
    high: float
    degree: int
    R: SparseOperator | None = None
    P: SparseOperator | None = None
    inverse: SparseOperator | None = None


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
        super().__init__(finest)
        self._levels = levels

    def _is_polynomial_in(self, op: SparseOperator) -> bool:
        finest = self._levels[0].A
        return len(self._levels) == 1 and finest is not None and finest._matrix is op._matrix

    def _core_map(self) -> Any:
        levels = [
            (
                _matrix(level.A),
                level.inverse_diagonal.pointer,
                level.low,
                level.high,
                level.degree,
                _matrix(level.R),
                _matrix(level.P),
                _matrix(level.inverse),
            )
            for level in self._levels
        ]
        return core_class("CycleMap", self.dtype)(levels, self._memory)

    def _adjoint(self) -> Cycle:
        return self


def _matrix(op: SparseOperator | None) -> Any:
    return None if op is None else op._matrix


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
        If an entry of the diagonal is not positive.

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
    return Cycle(op, [_smoothed(op, degree, ratio, op.tocsr().diagonal())])


def _smoothed(op: SparseOperator, degree: int, ratio: float, diagonal: npt.NDArray[Any]) -> _Level:
    """A level with a Chebyshev smoother, whose largest eigenvalue is estimated by the power method."""
    inverse = of_diagonal(diagonal, op.dtype, 0).inverse_diagonal
    v = np.random.default_rng(1).standard_normal(op.shape[0]).astype(op.dtype)
    largest = 1.0
    for _ in range(_EIGENVALUE_STEPS):
        v /= np.linalg.norm(v)
        w = inverse * (op @ v)
        largest, v = float(np.linalg.norm(w)), w
    largest *= 1.1
    return _Level(op, staged(inverse, op._ordinal), largest / ratio, largest, degree)


def aspreconditioner(
    ml: Any, *, device: str = "auto", dtype: Any = None, smoother: str = "chebyshev", degree: int = 2
) -> Cycle:
    """A hierarchy of pyamg's as a preconditioner that runs on the device: one V-cycle from zero.

    pyamg does the setup. The matrices of all levels are made into operators, and smoothing, restriction and
    prolongation are products with them; the coarsest system is solved by its dense inverse.

    Parameters
    ----------
    ml : pyamg.multilevel.MultilevelSolver
        As `pyamg.ruge_stuben_solver` or `pyamg.smoothed_aggregation_solver` make it. Its own smoothers and
        coarse solver are not used.
    device, dtype : optional
        As in `aslinearoperator`: those of the operator that is solved with.
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
        If `ml` has no levels, or its coarsest level has too many unknowns for a dense inverse.

    Examples
    --------
    >>> import numpy as np, pyamg, spmvgpu as sg  # doctest: +SKIP
    >>> A = sg.gallery.poisson2d(100)  # doctest: +SKIP
    >>> M = sg.linalg.aspreconditioner(pyamg.ruge_stuben_solver(A))  # doctest: +SKIP
    >>> x, info = sg.linalg.cg(sg.aslinearoperator(A), np.ones(10_000), M=M)  # doctest: +SKIP
    """
    one_of("smoother", smoother, ("chebyshev", "jacobi"))
    whole_number("degree", degree, 1, 1000)
    grids = getattr(ml, "levels", None)
    if not grids or not hasattr(grids[0], "A"):
        raise TypeError(f"ml must be a hierarchy of pyamg's, with levels, not {type(ml).__name__}")
    coarsest = grids[-1].A
    if coarsest.shape[0] > _LARGEST_COARSE:
        raise ValueError(
            f"the coarsest level has {coarsest.shape[0]} unknowns; at most {_LARGEST_COARSE} are solved by a "
            "dense inverse: give pyamg a smaller max_coarse, or more max_levels"
        )

    def build(matrix: Any) -> SparseOperator:
        op: SparseOperator = aslinearoperator(sp.csr_array(matrix), device=device, dtype=dtype)
        return op

    levels = []
    for grid in grids[:-1]:
        A = build(grid.A)
        steps, ratio = (degree, _SMOOTHED) if smoother == "chebyshev" else (1, 2.0)
        level = _smoothed(A, steps, ratio, sp.csr_array(grid.A).diagonal())
        levels.append(level._replace(R=build(grid.R), P=build(grid.P)))
    inverse = build(np.linalg.pinv(sp.csr_array(coarsest).toarray()))
    levels.append(_Level(None, DeviceVector(0, None), 1.0, 1.0, 1, inverse=inverse))
    return Cycle(levels[0].A or inverse, levels)


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
        If a block is singular.

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
    inverse = sp.bsr_array((np.linalg.inv(blocks), np.arange(len(blocks)), np.arange(len(blocks) + 1)))
    made: SparseOperator = aslinearoperator(
        sp.csr_array(inverse)[:n, :n], device=device_name(op._ordinal), dtype=op.dtype
    )
    return made
