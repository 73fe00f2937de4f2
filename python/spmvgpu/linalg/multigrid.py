"""Multigrid hierarchies of aggregates as preconditioners."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp

from .. import _core
from .._core import AnyMatrix, LinearMap
from .._util.types import HostArray
from ..arrays import library_of
from ..devices import CPU, device_name, resolve_device
from ..inputs.canonical import canonical_csr
from ..inputs.csr import CanonicalCsr
from ..inputs.source import device_csr
from ..operator.build import build
from ..operator.description import Description
from ..operator.multi_device_operator import operator_of
from ..operator.new_values import NewValues, with_values
from ..operator.operator import SparseOperator
from ..planning.parts import takes_new_values
from ..planning.request import Request
from ..planning.symmetry import Symmetry
from .preconditioners import (
    DevicePreconditioner,
    diagonal_of,
    positive_inverse,
    requested_device,
    what_fits,
)
from .systems import OverRanks

LARGEST_DIRECT = 2000  # unknowns of a coarsest level of which a dense inverse is made
_ROUNDINGS = 16  # or more have gone into an entry of a coarsest matrix, however small that is
_SAFETY = 1.05  # of estimates of eigenvalues, which are from below
_SMOOTHED = 8.0  # part of the spectrum, above what coarser levels correct
# Entries of a level that is visited twice, of the next finer one: all levels take 5 times as long at most.
_SMALLER = 0.4

# As the core takes a level.
_Matrix: TypeAlias = AnyMatrix | None
_CoreLevel: TypeAlias = tuple[_Matrix, int, float, float, int, _Matrix, _Matrix, _Matrix]


class Level(NamedTuple):
    """A level of a `Multigrid` hierarchy.

    Attributes
    ----------
    A : SparseOperator
        The matrix.
    R, P : SparseOperator or None
        Restriction to the next coarser level and prolongation from it. None on the coarsest level.
    """

    A: SparseOperator
    R: SparseOperator | None = None
    P: SparseOperator | None = None


class Arguments(NamedTuple):
    """What a hierarchy is made with, apart from the matrix."""

    B: HostArray | None  # a constant for each unknown of a node
    block: int
    strength: float
    smoother: str
    degree: int
    # Of a product with a smoothed prolongator, for an entry of the matrix and a column of B: on the
    # finest level, and on others.
    most_terms: tuple[float, float]
    max_coarse: int
    max_levels: int


class Multigrid(DevicePreconditioner):
    """A multigrid hierarchy as a preconditioner, as `amg` returns it.

    A `LinearOperator`, for the solvers of `spmvgpu.linalg` and of SciPy. One application is one cycle.

    Attributes
    ----------
    A : SparseOperator
        The matrix. Pass it to the solver, so that the matrix is stored once.
    levels : tuple of Level
        The operators of each level, finest first.
    operator_complexity : float
        Number of stored entries of all levels, divided by the number of the finest.
    nbytes : int
        Bytes of the hierarchy on the device, with the finest matrix in CSR.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> sg.linalg.amg(sg.gallery.poisson2d(60), device="cpu")
    <3600x3600 Multigrid of float64 on 'cpu': 3600, 693 and 75 unknowns, operator complexity 1.48>
    """

    def __init__(self, A: SparseOperator, csr: CanonicalCsr, arguments: Arguments) -> None:
        super().__init__(A.dtype, A.shape, A._ordinal)
        self._arguments = arguments
        self._requested = requested_device(A)
        self._hierarchy = _core.Hierarchy(
            csr.source,
            arguments.B,
            arguments.block,
            arguments.strength,
            arguments.most_terms,
            arguments.max_coarse,
            arguments.max_levels,
        )
        self._check(csr)
        self._set_up(A)

    def _check(self, csr: CanonicalCsr) -> None:
        """Raise LinAlgError if the matrix is not positive definite, or not finite."""
        refusal = self._hierarchy.refusal
        if refusal is None:
            return
        level, is_finite = refusal
        diagonal = diagonal_of(csr.host)
        if level > 0:
            raise np.linalg.LinAlgError(
                f"products with the matrix overflow in {csr.dtype} on level {level} of the hierarchy; scale "
                "the matrix"
            )
        if not is_finite:
            raise np.linalg.LinAlgError("the matrix contains inf or NaN; use a matrix without them")
        positive_inverse("amg", diagonal, csr.dtype)
        raise np.linalg.LinAlgError(
            f"the matrix is not positive definite, which amg requires; use {what_fits(diagonal, csr.dtype)}"
        )

    def _set_up(self, A: SparseOperator) -> None:
        """The operators of all levels from the core's matrices."""
        hierarchy = self._hierarchy
        levels = [Level(A)]
        for number in range(1, hierarchy.levels):
            R, P = (self._operator(number - 1, name) for name in "RP")
            levels[-1] = Level(levels[-1].A, R, P)
            levels.append(Level(self._operator(number, "A")))
        self.levels = tuple(levels)
        self._inverse = self._inverse_of_coarsest()
        hierarchy.drop_values()

    def _csr(self, level: int, name: str) -> CanonicalCsr:
        """What the core's hierarchy has, until it drops the values."""
        rows, cols, nnz = self._hierarchy.size(level, name)
        source = self._hierarchy.source(level, name)
        return CanonicalCsr.on(source, (rows, cols), self.dtype, nnz, self._ordinal)

    def _operator(self, level: int, name: str) -> SparseOperator:
        request = Request(tune="off", symmetric=Symmetry.NEITHER)
        return stored(self._csr(level, name), self._requested, request)

    def _inverse_of_coarsest(self) -> SparseOperator | None:
        coarsest = self.levels[-1].A
        if coarsest.shape[0] > LARGEST_DIRECT:
            return None
        inverse = _dense_inverse(coarsest.tocsr().toarray()).astype(self.dtype)
        dense = CanonicalCsr.of(sp.csr_array(inverse))
        return stored(dense, self._requested, Request("csr", symmetric=Symmetry.NEITHER))

    @property
    def A(self) -> SparseOperator:  # noqa: N802
        return self.levels[0].A

    @property
    def operator_complexity(self) -> float:
        return sum(level.A.nnz for level in self.levels) / max(1, self.A.nnz)

    @property
    def nbytes(self) -> int:
        stored = [op for level in self.levels for op in level if op is not None][1:]
        inverse = 0 if self._inverse is None else self._inverse.nbytes
        return sum(op.nbytes for op in stored) + inverse + self._hierarchy.nbytes + self._memory.nbytes

    def __repr__(self) -> str:
        *finer, coarsest = (str(level.A.shape[0]) for level in self.levels)
        unknowns = f"{', '.join(finer)} and {coarsest}" if finer else coarsest
        return (
            f"<{self.shape[0]}x{self.shape[1]} Multigrid of {self.dtype} on {device_name(self._ordinal)!r}: "
            f"{unknowns} unknowns, operator complexity {self.operator_complexity:.2f}"
            f"{', AMLI cycles' if self._hierarchy.smoothed_levels < len(finer) else ''}>"
        )

    def update_values(self, new: object) -> None:
        """Take a matrix with the same sparsity pattern and other values.

        Aggregates and the patterns of all levels stay, so this takes less time than `amg`.

        Parameters
        ----------
        new : SparseOperator, sparse matrix, or (nnz,) array
            The matrix, or its values in the order of ``M.A.tocsr().data``. An array may be on the device.

        Raises
        ------
        TypeError, ValueError
            If `new` has another dtype, another number of values or another sparsity pattern.
        numpy.linalg.LinAlgError
            As `amg`. The hierarchy is no longer usable then.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> A = sg.gallery.poisson2d(30)
        >>> M = sg.linalg.amg(A, device="cpu")
        >>> M.update_values(2 * A)
        >>> sg.linalg.cg(M.A, np.ones(900), M=M)[1]
        0
        """
        A = self._renewed(new)
        self._own_adjoint = None
        for number, level in enumerate(self.levels):
            R, P = (self._renewed_operator(number, name, getattr(level, name)) for name in "RP")
            coarse = A if number == 0 else self._renewed_operator(number, "A", level.A)
            self.levels = (*self.levels[:number], Level(coarse, R, P), *self.levels[number + 1 :])
        self._inverse = self._inverse_of_coarsest()
        self._hierarchy.drop_values()

    def _renewed(self, new: object) -> SparseOperator:
        """The finest operator with new values, which the core's hierarchy has then."""
        new = np.asarray(new) if isinstance(new, list) else new  # values, as `SparseOperator.update_values`
        if library_of(new) is not None and getattr(new, "ndim", 1) == 1:
            NewValues(self.A._stored, new).renew(self._hierarchy)
        else:
            check_kind(new)
            self._renew_as(self._canonical(new))
        if self._hierarchy.levels == 0:
            return self.A
        csr = self._csr(0, "A")
        self._check(csr)
        if isinstance(new, SparseOperator) and self._is_alike(new):
            return new._snapshot()
        made: SparseOperator = operator_of(with_values(self.A._stored, csr))
        return made

    def _is_alike(self, op: SparseOperator) -> bool:
        return op._ordinal == self._ordinal and op.dtype == self.dtype

    def _canonical(self, new: object) -> CanonicalCsr:
        """A matrix of the hierarchy's type, on its device."""
        if isinstance(new, SparseOperator) and self._is_alike(new):
            return new._stored.canonical_there()
        there = None if self._ordinal == CPU else device_csr(new, self._ordinal, None, self.dtype)
        return canonical_csr(new, dtype=self.dtype).at(self._ordinal) if there is None else there

    def _renew_as(self, csr: CanonicalCsr) -> None:
        if csr.shape == self.shape and csr.nnz == self.A.nnz and self._hierarchy.renew_as(csr.source):
            return
        raise ValueError(
            f"the new matrix has shape {csr.shape} and {csr.nnz} stored entries; update_values needs the "
            f"sparsity pattern of the old one, with shape {self.shape} and {self.A.nnz} entries in the same "
            "places; use amg(A) for another pattern"
        )

    def _renewed_operator(self, level: int, name: str, op: SparseOperator | None) -> Any:
        if op is None:
            return None
        matrix = op._matrix
        if takes_new_values(matrix):
            try:
                matrix.update_values_at(self._hierarchy.values(level, name), op.nnz)
            except _core.FormatError:
                return self._operator(level, name)
            return op
        return self._operator(level, name)

    def _core_map(self) -> LinearMap:
        smoothed = self._arguments.smoother == "chebyshev"
        degree, ratio = (self._arguments.degree, _SMOOTHED) if smoothed else (1, 2.0)
        levels: list[_CoreLevel] = []
        for number, (A, R, P) in enumerate(self.levels):
            if R is None and self._inverse is not None:
                levels.append((None, 0, 1.0, 1.0, 1, None, None, self._inverse._matrix))
                continue
            high = _SAFETY * self._hierarchy.largest_eigenvalue(number) or 1.0  # of a matrix of zeros
            diagonal = self._hierarchy.inverse_diagonal(number)
            to_coarser = R and R._matrix, P and P._matrix
            levels.append((A._matrix, diagonal, high / ratio, high, degree, *to_coarser, None))
        return _core.cycle_map(self.dtype, levels, self._memory, self._visited_twice())

    def _visited_twice(self) -> list[int]:
        """The levels that a cycle solves for twice: unsmoothed, and much smaller than the next finer one.

        None if the coarsest system is not solved: what is known of the eigenvalues of cycles needs that.
        """
        if self._inverse is None:
            return []
        entries = [level.A.nnz for level in self.levels]
        first = self._hierarchy.smoothed_levels + 1
        return [k for k in range(first, len(entries) - 1) if entries[k] <= _SMALLER * entries[k - 1]]

    def _conjugate_transposed(self) -> Multigrid:
        adjoints = tuple(Level(A.H, R, P) for A, R, P in self.levels)
        inverse = self._inverse and self._inverse.H
        if inverse is self._inverse and all(
            made.A is level.A for made, level in zip(adjoints, self.levels, strict=True)
        ):
            return self
        made = Multigrid.__new__(Multigrid)
        DevicePreconditioner.__init__(made, self.dtype, self.shape, self._ordinal)
        made._arguments, made._requested, made._hierarchy = self._arguments, self._requested, self._hierarchy
        made.levels, made._inverse = adjoints, inverse
        return made

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self.A, self._arguments)


def _restored(A: SparseOperator, arguments: Arguments) -> Multigrid:
    """What pickle calls."""
    B = arguments.B
    own = arguments._replace(B=None if B is None else np.require(B, None, ["C", "A"]))
    return Multigrid(A, A._stored.canonical_there().at(A._ordinal), own)


def stored(csr: CanonicalCsr, device: str, request: Request) -> SparseOperator:
    """A matrix of a hierarchy, in a format that is predicted to suit."""
    description = Description(device, (resolve_device(device),), request, reorder=False)
    made: SparseOperator = operator_of(build(csr, description))
    return made


def _dense_inverse(dense: HostArray) -> HostArray:
    """The inverse of the coarsest matrix, or a pseudoinverse if it is singular to working precision."""
    eps = float(np.finfo(dense.dtype).eps)
    wide = dense.astype(np.result_type(dense.dtype, np.float64))
    diagonal = np.diag(wide).real
    scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    scaled = scale[:, np.newaxis] * wide * scale
    return scale[:, np.newaxis] * _inverse_of_scaled(scaled, max(len(wide), _ROUNDINGS) * eps) * scale


def _inverse_of_scaled(matrix: HostArray, rounding: float) -> HostArray:
    """The inverse of a matrix with ones on its diagonal."""
    adjoint = matrix.conj().T
    if np.abs(matrix - adjoint).max(initial=0) > 100 * rounding:
        return np.asarray(np.linalg.pinv(matrix, rcond=rounding))
    hermitian = (matrix + adjoint) / 2
    inverse = hermitian.copy()
    if _core.invert_definite(inverse, 100 * rounding):
        return (inverse + inverse.conj().T) / 2
    return np.asarray(la.pinvh(hermitian, rtol=rounding))


def check_kind(A: object) -> None:
    """Refuse what is on several devices, or in several processes."""
    if isinstance(A, OverRanks) or (isinstance(A, SparseOperator) and A._stored.description.is_divided):
        raise TypeError(
            f"amg is for a matrix on one device, not for a {type(A).__name__}; use jacobi(op) or "
            "chebyshev(op)"
        )
