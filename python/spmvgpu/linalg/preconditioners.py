"""What all preconditioners have in common."""

from __future__ import annotations

import inspect
import math
import weakref
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
from scipy.sparse.linalg import LinearOperator

from .. import _core
from .._core import LinearMap
from .._util.locks import ForkableLock
from .._util.show import fit
from .._util.types import DType
from ..arrays import AnyArray, AnyLibrary, ArrayInfo
from ..devices import at_most, device_name, resolve_device
from ..inputs.csr import CanonicalCsr
from ..operator.composed import Composable, ComposedOperator
from ..operator.construct import as_operator, aslinearoperator
from ..operator.new_values import NewValues
from ..operator.operands import check_place, multiply_by, multiply_by_map
from ..operator.operator import SparseOperator
from ..operator.stored import StoredMatrix
from .systems import OverRanks, System, check_square
from .vectors import staged

_P = ParamSpec("_P")
_R = TypeVar("_R")


class PreconditionerMap(NamedTuple):
    """A preconditioner as the core applies it."""

    core: LinearMap
    owner: object  # kept alive as long as the core uses it
    is_diagonal: bool = False


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

    def _keeps_pieces(self, system: System) -> bool:
        """Whether the core keeps the vectors in pieces on several devices, wherever they are given."""
        return system.pieces > 1 and self._divides(system._matrix)

    def _map_for(self, system: System, ordinal: int) -> PreconditionerMap | None:
        """Itself for a system of its size; None for another type, or for vectors on another device."""
        if not self._keeps_pieces(system) and (ordinal != self._ordinal or system.dtype != self.dtype):
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


def check_shape(system: System, M: Any) -> None:
    """Refuse, with ValueError, a preconditioner that has not the shape of the operator."""
    if tuple(M.shape) != system.shape:
        raise ValueError(
            f"M has shape {tuple(M.shape)}; it must have the shape of the operator, {system.shape}"
        )


def requested_device(op: SparseOperator) -> str:
    """An operator's device as the caller named it, which pickles go by; if that is another now, its name."""
    requested = op._stored.description.device
    if isinstance(requested, str) and resolve_device(requested) == op._ordinal:
        return requested
    return device_name(op._ordinal)
