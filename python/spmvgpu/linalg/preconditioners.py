"""Diagonal preconditioners, and the conversion of any other preconditioner for the core."""

from __future__ import annotations

import inspect
import math
import weakref
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from scipy.sparse.linalg import LinearOperator

from .. import _core
from .._core import LinearMap
from .._util.locks import ForkableLock
from .._util.show import fit
from .._util.types import DType, HostArray
from ..arrays import AnyArray, AnyLibrary, ArrayInfo, array_and_library, library_of, on_host
from ..arrays.products import kind_of
from ..devices import CPU, at_most, device_name, resolve_device
from ..inputs.canonical import ForeignOperator, sparse_source
from ..inputs.csr import CanonicalCsr
from ..inputs.source import Source
from ..operator.composed import Composable, ComposedOperator
from ..operator.construct import as_operator, aslinearoperator
from ..operator.new_values import NewValues
from ..operator.operands import check_place, multiply_by, multiply_by_map
from ..operator.operator import SparseOperator
from ..operator.stored import StoredMatrix
from .forecast import OnesInSystem
from .systems import (
    DeviceVector,
    OverRanks,
    System,
    Vectors,
    callback_map,
    check_square,
    empty,
    staged,
    staged_numpy,
)

# A result of `checked_preconditioner`, of which an array is a dense matrix or the inverse of a diagonal.
AnyPreconditioner: TypeAlias = Any

_P = ParamSpec("_P")
_R = TypeVar("_R")

# Types of preconditioners and of systems between which the core converts.
_SINGLES = [(np.dtype(single), np.dtype(double)) for single, double in (("f4", "f8"), ("c8", "c16"))]


class Preconditioner(Composable):
    """A preconditioner of this package, which multiplies the arrays that an operator multiplies."""

    _stream: int | None = None
    # The matrix that it was made of. Its values may change, except over ranks.
    _pattern_of: StoredMatrix | OverRanks | None = None

    def __repr__(self) -> str:
        (rows, cols), facts = self.shape, self._facts()
        where = repr(", ".join(map(device_name, self._ordinals())))
        return fit(
            f"<{rows}x{cols} {type(self).__name__} of {self.dtype} on {where}{f': {facts}' if facts else ''}>"
        )

    def _facts(self) -> str:
        """How it was made, for `repr`."""
        return ""

    def _ordinals(self) -> Sequence[int]:
        """The devices where it is."""
        raise NotImplementedError

    def _check_device(self, name: str, located: ArrayInfo, beside: int | None = None) -> None:
        """Refuse, with ValueError, an array on another device than the preconditioner."""

    def _product_of(self, x: ArrayInfo) -> AnyArray:
        """The product with an operand, which is real where the preconditioner is."""
        raise NotImplementedError

    def _times(self, x: AnyArray, library: AnyLibrary) -> AnyArray:
        return multiply_by(self, self._product_of, x, library)

    def _transpose(self) -> LinearOperator:
        return super()._transpose() if self.dtype.kind == "c" else self.adjoint()

    def update_values(self, data: object) -> None:
        """Compute the preconditioner again for a matrix with the same sparsity pattern and other values.

        `H`, `T`, sums and products that were made of the preconditioner before have the new values, too.

        Parameters
        ----------
        data : sparse matrix, SparseOperator, dense matrix, or (nnz,) array
            The matrix or its values, as `SparseOperator.update_values` takes them.

        Raises
        ------
        TypeError, ValueError
            As `SparseOperator.update_values`. TypeError if the preconditioner does not know the pattern of a
            matrix: it was made of something else, or is an adjoint or a copy. Make a new one.
        numpy.linalg.LinAlgError
            As the function that made the preconditioner. After an error, it has the old values.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> A = sg.gallery.poisson2d(30)
        >>> M = sg.linalg.chebyshev(sg.aslinearoperator(A, device="cpu"))
        >>> M.update_values(2 * A)
        >>> sg.linalg.cg(2 * A, np.ones(900), M=M)[1]
        0
        """
        with at_most(self._max_threads):
            self._renew(data)

    @property
    def _max_threads(self) -> int | None:
        """The bound of the operator that it was made of."""
        stored = self._pattern_of
        return stored.description.threads if isinstance(stored, StoredMatrix) else None

    def _renew(self, data: object) -> None:
        """Take new values of the matrix, as a caller gives them."""
        raise NotImplementedError


class Jacobi(Preconditioner):
    """Multiplication by the inverse of the diagonal of a matrix.

    A `LinearOperator`, for the solvers of `spmvgpu.linalg` and of SciPy. `jacobi` makes one from an operator.
    ``Jacobi(inverse_diagonal)`` makes one from a vector, which it copies. One that `jacobi` made keeps the
    matrix in memory, for `update_values`; copies and pickles do not.

    Attributes
    ----------
    inverse_diagonal : (n,) numpy.ndarray
        Read-only.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> M = sg.linalg.Jacobi(np.array([0.25, 0.5]))
    >>> M @ np.ones(2)
    array([0.25, 0.5 ])
    """

    def __init__(self, inverse_diagonal: object) -> None:
        own = np.array(on_host("inverse_diagonal", inverse_diagonal))
        if kind_of(own.dtype) not in "biufc":
            raise TypeError(f"inverse_diagonal has dtype {own.dtype}; allowed are numbers")
        if own.ndim != 1 and own.shape[1:] != (1,):
            raise ValueError(f"inverse_diagonal has shape {own.shape}; give a vector, (n,) or (n, 1)")
        own = own.reshape(-1)
        own.flags.writeable = False
        super().__init__(own.dtype, (len(own), len(own)))
        self._copies: dict[tuple[int, DType], DeviceVector] = {}
        self._operators: dict[int, SparseOperator] = {}  # of GPUs, for products with arrays there
        self._inverse_diagonal: HostArray | None = own

    @classmethod
    def _there(cls, vector: DeviceVector, length: int, dtype: DType, ordinal: int) -> Jacobi:
        """Of the inverse of a diagonal on a device, which crosses the bus if it is asked for."""
        made = cls.__new__(cls)
        super().__init__(made, dtype, (length, length))
        made._copies, made._operators, made._inverse_diagonal = {(ordinal, dtype): vector}, {}, None
        return made

    def _renew(self, data: object) -> None:
        if isinstance(self._pattern_of, OverRanks):
            op = self._pattern_of._snapshot()
            op.update_values(data)
            made = _jacobi_over_ranks(op)
        else:
            made = _jacobi(matrix_with(self, data))
        # One call of a dict, so that no signal handler finds, or leaves, half of it.
        self.__dict__.update(made.__dict__)

    @property
    def inverse_diagonal(self) -> HostArray:
        if self._inverse_diagonal is None:
            own = np.empty(self.shape[0], self.dtype)
            next(iter(self._copies.values())).read(own)
            own.flags.writeable = False
            self._inverse_diagonal = own
        return self._inverse_diagonal

    def _ordinals(self) -> Sequence[int]:
        return sorted({ordinal for ordinal, _ in self._copies}) or [CPU]

    def _product_of(self, x: ArrayInfo) -> AnyArray:
        if x.host is not None:
            return self.inverse_diagonal.reshape(-1, *[1] * (x.host.ndim - 1)) * x.host
        if x.ordinal not in self._operators:
            diagonal = sp.diags_array(self.inverse_diagonal)
            self._operators[x.ordinal] = aslinearoperator(diagonal, device=device_name(x.ordinal))
        return self._operators[x.ordinal] @ x.array

    def _adjoint(self) -> Jacobi:
        is_real = self.dtype.kind != "c" or self._pattern_of is not None  # of a diagonal that is positive
        return self if is_real else Jacobi(self.inverse_diagonal.conj())

    def _transpose(self) -> Jacobi:
        return self

    def _on_device(self, system: System, ordinal: int) -> DeviceVector:
        """A copy for a system of the same size, made once for each device and dtype."""
        _check_shape(system, self)
        key = ordinal, system.dtype
        if key not in self._copies:
            self._copies[key] = staged_numpy(system, self.inverse_diagonal, ordinal)
        return self._copies[key]

    def __reduce__(self) -> tuple[object, ...]:
        return Jacobi, (self.inverse_diagonal,)


class DevicePreconditioner(Preconditioner):
    """A preconditioner that the core applies; made by functions of `spmvgpu.linalg`.

    A `LinearOperator`, so that SciPy's solvers take it too, with NumPy vectors.
    """

    def __init__(self, dtype: DType, shape: tuple[int, int], ordinal: int) -> None:
        super().__init__(dtype, shape)
        self._ordinal = ordinal
        self._memory = _core.SolverMemory(ordinal)
        self._state: Any = None  # what `_core_map` is made of; one assignment replaces all of it
        self._adjoint_of: DevicePreconditioner | None = None
        # A weak reference, so that the pair is freed as soon as nothing uses it.
        self._own_adjoint: weakref.ref[DevicePreconditioner] | None = None
        self._turned: tuple[Any, Any] | None = None  # a state and that of the adjoint, made at first use
        self._turning = ForkableLock()

    def _ordinals(self) -> Sequence[int]:
        return [self._ordinal]

    def _now(self) -> Any:
        """The state: for an adjoint, the one that follows from that of the original."""
        original = self._adjoint_of
        if original is None:
            return self._state
        state = original._now()
        with original._turning.hold():  # one state for all threads: a map of the core has its addresses
            turned = original._turned
            if turned is None or turned[0] is not state:
                turned = original._turned = state, original._conjugate_transposed(state)
        return turned[1]

    def _renew(self, data: object) -> None:
        if self._adjoint_of is not None:
            raise TypeError(
                f"this {type(self).__name__} is the adjoint H of another one; update that, and the adjoint "
                "has the new values, too"
            )
        self._state = self._state_with(data)

    def _state_with(self, data: object) -> Any:
        """The state for new values of the matrix, as a caller gives them."""
        raise NotImplementedError

    def _core_map(self) -> LinearMap:
        """What the core applies, with memory for one solve."""
        raise NotImplementedError

    def _conjugate_transposed(self, state: Any) -> Any:
        """The state of the adjoint, which may be the same."""
        raise NotImplementedError

    def _divides(self, matrix: object) -> bool:
        """Whether it keeps vectors in the pieces in which this matrix of the core divides them."""
        return False

    def _map_for(self, system: System, ordinal: int) -> PreconditionerMap | None:
        """Itself for a system of its size; None for another type, or for vectors on another device."""
        if not keeps_pieces(system, self) and (ordinal != self._ordinal or system.dtype != self.dtype):
            return None
        state = self._now()  # which new values may replace while the core has it
        return PreconditionerMap(self._core_map(), (self, state))

    def _adjoint(self) -> DevicePreconditioner:
        if self._adjoint_of is not None:
            return self._adjoint_of
        made = None if self._own_adjoint is None else self._own_adjoint()
        if made is None:
            made = type(self).__new__(type(self))
            made.__dict__.update(self.__dict__)
            DevicePreconditioner.__init__(made, self.dtype, self.shape, self._ordinal)
            made._adjoint_of = self
            if made._now() is self._now():
                return self
            self._own_adjoint = weakref.ref(made)
        return made

    def __reduce__(self) -> tuple[object, ...]:
        """Of the original, as `_reduced`."""
        return self._reduced() if self._adjoint_of is None else (_adjoint_of, (self._adjoint_of,))

    def _reduced(self) -> tuple[object, ...]:
        """What `__reduce__` is to return."""
        raise NotImplementedError

    def _check_device(self, name: str, located: ArrayInfo, beside: int | None = None) -> None:
        check_place(name, located, (self._ordinal,), "the preconditioner is on")

    def _product_of(self, x: ArrayInfo) -> AnyArray:
        state = self._now()  # held to the end, as the core has its addresses and new values may replace it
        if x.host is None:
            return multiply_by_map(self._core_map(), self.shape, self.dtype, x)
        n, columns = self.shape[0], math.prod(x.shape[1:])
        given = np.require(x.host.T, self.dtype, ["C", "A"])
        results = np.empty_like(given)
        if columns:
            source, target = staged(given, self._ordinal), staged(results, self._ordinal, upload=False)
            _core.apply_map(self._core_map(), source.pointer, target.pointer, n, columns, self._ordinal)
            target.read(results)
        del state
        return results.T


def _adjoint_of(M: DevicePreconditioner) -> DevicePreconditioner:
    """What pickle calls."""
    return M._adjoint()


def jacobi(op: object) -> Jacobi:
    """Return the Jacobi preconditioner of a positive definite matrix.

    It multiplies by the inverse of the diagonal.

    Parameters
    ----------
    op : SparseOperator, array, sparse matrix or DistributedOperator
        Square.

    Returns
    -------
    Jacobi
        For a `DistributedOperator`, the piece of this rank. Its `update_values` takes what the
        `update_values` of the operator takes, and all ranks call it.

    Raises
    ------
    TypeError, ValueError
        If `op` is neither a matrix nor an operator that has one, or is not square.
    numpy.linalg.LinAlgError
        If an entry of the diagonal is not positive, unless all of its row is zero. The matrix is not positive
        definite then. With `gmres` and `bicgstab`, pass ``M=1 / op.diagonal()`` instead.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [1.0, 2.0]]), device="cpu")
    >>> sg.linalg.jacobi(op).inverse_diagonal
    array([0.25, 0.5 ])
    """
    if isinstance(op, OverRanks):
        made = _jacobi_over_ranks(op)
        made._pattern_of = op._snapshot()
        return made
    own = square_operator(op)
    with at_most(own.max_threads):
        made = _jacobi(own._stored.canonical_there())
    made._pattern_of = own._stored
    return made


def _jacobi_over_ranks(op: OverRanks) -> Jacobi:
    with op.agreement():
        check_square(op.shape)
        return Jacobi(positive_inverse("jacobi", diagonal_of(op), op.dtype, op.row_ranges.begin))


def _jacobi(csr: CanonicalCsr) -> Jacobi:
    found = _inverse_diagonal(csr)
    if found.negative == found.others == 0:
        return found.inverse
    return Jacobi(positive_inverse("jacobi", diagonal_of(csr.host), csr.dtype))


def matrix_with(M: Any, data: object) -> CanonicalCsr:
    """The matrix of a preconditioner with the values that a caller gives; TypeError if it is not known."""
    stored: StoredMatrix | None = M._pattern_of
    if stored is None:
        raise TypeError(
            f"this {type(M).__name__} does not know the matrix that it was made of; make a new one"
        )
    return NewValues(stored, data).canonical(stored)


def of_own_block(make: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a function of a matrix: of one over ranks, each rank makes a preconditioner of its block.

    It takes no more threads than the operator does.
    """
    name = next(iter(inspect.signature(make).parameters))

    @wraps(make)
    def of_any(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        op = args[0] if args else kwargs.get(name)
        if not isinstance(op, OverRanks):
            with at_most(getattr(op, "max_threads", None)):
                return make(*args, **kwargs)
        with op.agreement():
            check_square(op.shape)
            others: Any = {key: value for key, value in kwargs.items() if key != name}
            of_block: Callable[..., _R] = make
            return of_block(op._block, *args[1:], **others)

    return of_any


def square_operator(op: object, name: str = "op") -> SparseOperator:
    """The operator of a square matrix whose entries are known."""
    try:
        made = as_operator(op)
        if isinstance(made, ComposedOperator):
            made = aslinearoperator(made, device=made.device)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name} is not a matrix: {error}") from error
    if not isinstance(made, SparseOperator):
        raise TypeError(
            f"{name} must be a matrix or a SparseOperator from spmvgpu.aslinearoperator, not "
            f"{type(op).__name__}, whose entries are not known"
        )
    check_square(made.shape)
    return made


class InverseDiagonal(NamedTuple):
    """The inverse of a diagonal, unless `others` entries are zero, not real or have no finite inverse.

    An empty row, as of a vertex of a graph without edges, has a one: what is left of `b` there stays.

    Attributes
    ----------
    inverse : Jacobi
    negative, others, empty_rows : int
        Numbers of entries, and of rows.
    ones : OnesInSystem, optional
        Without empty rows; None if not all of the diagonal is positive.
    """

    inverse: Jacobi
    negative: int
    others: int
    empty_rows: int
    ones: OnesInSystem | None


def inverse_diagonal(op: SparseOperator, of_sizes: bool = False) -> InverseDiagonal:
    """The inverse of the diagonal, or of the sizes of its entries, made where the matrix is stored."""
    with at_most(op.max_threads):
        return _inverse_diagonal(op._stored.canonical_there(), of_sizes)


def _inverse_diagonal(csr: CanonicalCsr, of_sizes: bool = False) -> InverseDiagonal:
    rows = csr.shape[0]
    vector = empty((rows,), csr.dtype, csr.ordinal)
    inverse = Jacobi._there(vector, rows, csr.dtype, csr.ordinal)
    if csr.is_wide:
        return InverseDiagonal(inverse, 0, rows, 0, None)
    found = csr.source.invert_diagonal(of_sizes, vector.pointer)
    negative, others, without_entries = found[:3]
    ones = OnesInSystem(rows - without_entries, *found[3:]) if negative == others == 0 else None
    return InverseDiagonal(inverse, negative, others, without_entries, ones)


def empty_rows(csr: sp.csr_array) -> HostArray:
    """Of each row, whether it has no entry but zeros."""
    before = np.concatenate(([0], np.cumsum(csr.data != 0)))
    empty: HostArray = np.diff(before[csr.indptr]) == 0
    return empty


def diagonal_of(matrix: SparseOperator | OverRanks | sp.csr_array) -> HostArray:
    """The diagonal that preconditioners invert: there is a one in an empty row, whose residual stays."""
    diagonal: HostArray = matrix.diagonal()
    if diagonal.all():
        return diagonal
    try:
        rows = matrix.tocsr()
    except TypeError:  # the transpose of an operator over ranks holds columns
        return diagonal
    return np.where(empty_rows(rows), diagonal.dtype.type(1), diagonal)


def with_unit_rows(csr: sp.csr_array) -> sp.csr_array:
    """A canonical matrix, with a row of the identity in place of each empty one."""
    empty = empty_rows(csr)
    if not empty.any():
        return csr
    lengths, rows = np.diff(csr.indptr), np.flatnonzero(empty)
    stays = ~np.repeat(empty, lengths)
    places = np.cumsum(np.where(empty, 0, lengths))[rows]  # of the new entries among those that stay
    indptr = np.concatenate(([0], np.cumsum(np.where(empty, 1, lengths)))).astype(csr.indptr.dtype)
    indices, data = np.insert(csr.indices[stays], places, rows), np.insert(csr.data[stays], places, 1)
    made = sp.csr_array((data, indices, indptr), shape=csr.shape)
    made.has_canonical_format = True
    return made


def inverse_of(diagonal: HostArray, dtype: DType) -> HostArray:
    """The inverse of a diagonal; not finite where there is none.

    Imaginary parts that are rounding errors, of a Hermitian matrix that was computed, are left out.
    """
    rounding = np.sqrt(np.finfo(diagonal.dtype).eps)
    is_real = np.abs(diagonal.imag) <= rounding * np.abs(diagonal.real)
    with np.errstate(all="ignore"):
        inverse: HostArray = (1 / np.where(is_real, diagonal.real, diagonal)).astype(dtype)
    inverse[~np.isfinite(diagonal)] = np.nan
    return inverse


def positive_inverse(name: str, diagonal: HostArray, dtype: DType, first_row: int = 0) -> HostArray:
    """The inverse of a diagonal, or of a piece from `first_row` on; LinAlgError if it is not positive."""
    inverse = inverse_of(diagonal, dtype)
    bad = np.flatnonzero(~((inverse.real > 0) & (inverse.imag == 0) & np.isfinite(inverse)))
    if len(bad):
        raise np.linalg.LinAlgError(
            f"the matrix is not positive definite, which {name} requires: {len(bad)} of {len(diagonal)} "
            f"diagonal entries are not positive or have no finite inverse in {dtype}, the first in row "
            f"{first_row + bad[0]} ({diagonal[bad[0]]:g}); use {what_fits(diagonal, dtype)}"
        )
    return inverse.real.astype(dtype)


def what_fits(diagonal: HostArray, dtype: DType) -> str:
    """What solves with a matrix that a preconditioner refuses, for its message."""
    if not np.isfinite(diagonal).all():
        return "a matrix without inf or NaN"
    inverse = inverse_of(diagonal, dtype)
    if not np.isfinite(inverse).all():
        return "gmres or bicgstab without M, or minres without M if the matrix is symmetric"
    if not ((inverse.real > 0) & (inverse.imag == 0)).all():
        return (
            "gmres or bicgstab with M=1 / op.diagonal(), or minres with M=1 / abs(op.diagonal()) if the "
            "matrix is symmetric"
        )
    return "jacobi(op), with minres or gmres if the matrix is not positive definite"


def requested_device(op: SparseOperator) -> str:
    """An operator's device as the caller named it, which pickles go by; if that is another now, its name."""
    requested = op._stored.description.device
    if isinstance(requested, str) and resolve_device(requested) == op._ordinal:
        return requested
    return device_name(op._ordinal)


class PreconditionerMap(NamedTuple):
    """A preconditioner as the core applies it."""

    core: LinearMap
    owner: object  # kept alive as long as the core uses it
    is_diagonal: bool = False


def checked_preconditioner(M: AnyPreconditioner) -> AnyPreconditioner:
    """A preconditioner that a caller gave: what has products of its own, a sparse matrix, or an array.

    Raises
    ------
    TypeError
        For what is none of these.
    """
    if M is None or isinstance(M, LinearOperator | OverRanks):
        return M
    source = sparse_source(M)
    if source is not None:
        return M if isinstance(source, ForeignOperator) else source
    if hasattr(M, "levels"):
        raise TypeError(
            f"M must be a preconditioner, not the hierarchy {type(M).__name__}; give "
            "spmvgpu.linalg.aspreconditioner(M)"
        )
    allowed = (
        "a preconditioner of spmvgpu.linalg, the inverse of a diagonal as a 1-D array, a matrix, or a "
        "LinearOperator"
    )
    M, library = array_and_library("M", M, allowed)
    located = library.locate(M, "M")
    if located.host is not None:
        return located.host
    is_vector = len(located.shape) == 1 or located.shape[1:] == (1,)
    return M if is_vector else on_host("M", M)


def map_of_preconditioner(system: System, M: AnyPreconditioner, vectors: Vectors) -> PreconditionerMap | None:
    """A checked preconditioner for the core: on the device if possible, or a function that it calls."""
    if M is None:
        return None
    if isinstance(M, OverRanks):
        return PreconditionerMap(system.map_of(M), M)
    if is_diagonal(system, M):
        if isinstance(M, Jacobi):
            diagonal = M._on_device(system, vectors.ordinal)
        elif isinstance(M, np.ndarray):
            diagonal = staged_numpy(system, M, vectors.ordinal)
        else:
            diagonal = vectors.take("M", M)
        return PreconditionerMap(_core.diagonal_map(system.dtype, diagonal.pointer), diagonal, True)
    _check_shape(system, M)
    if isinstance(M, Source | np.ndarray):
        M = as_operator(M, device=device_name(vectors.ordinal), dtype=system.dtype)
    if isinstance(M, DevicePreconditioner) and (there := M._map_for(system, vectors.ordinal)):
        return there
    is_there = isinstance(M, DevicePreconditioner | SparseOperator) and M._ordinal == vectors.ordinal
    is_single = is_there and (np.dtype(M.dtype), system.dtype) in _SINGLES
    if is_there and (is_single or M.dtype == system.dtype):
        core = _core.matrix_map(M._matrix) if isinstance(M, SparseOperator) else M._core_map()
        if is_single:
            memory, columns = _core.SolverMemory(vectors.ordinal), system.columns or 1
            core = _core.converted_map(core, system.shape[0], columns, memory)
        return PreconditionerMap(core, M)
    return PreconditionerMap(callback_map(system, "M", sla.aslinearoperator(M), vectors.ordinal), M)


def is_diagonal(system: System, M: AnyPreconditioner) -> bool:
    """Whether a preconditioner is a diagonal, or the array of one."""
    if isinstance(M, Jacobi | LinearOperator):
        return isinstance(M, Jacobi)
    if isinstance(M, np.ndarray):
        return M.ndim == 1 or M.shape == (system.shape[0], 1)
    return library_of(M) is not None


def keeps_pieces(system: System, M: AnyPreconditioner) -> bool:
    """Whether the core keeps the vectors in pieces on several devices, wherever they are given."""
    if system.pieces < 2:
        return False
    if isinstance(M, DevicePreconditioner):
        return M._divides(system._matrix)
    return M is None or is_diagonal(system, M)


def _check_shape(system: System, M: AnyPreconditioner) -> None:
    if tuple(M.shape) != system.shape:
        raise ValueError(
            f"M has shape {tuple(M.shape)}; it must have the shape of the operator, {system.shape}"
        )
