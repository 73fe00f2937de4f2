"""Matrices as they are stored, which operators with the same values share."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar, cast

import scipy.sparse as sp

from .. import _core
from .._core import AnyMatrix, Matrix
from .._util.locks import ForkableLock
from ..arrays import ArrayInfo
from ..devices import CPU, at_most, device_name
from ..formats import traits
from ..inputs.csr import CanonicalCsr
from ..inputs.rows import DividedCsr
from ..multi_device.division import DevicePart
from ..planning.parts import options, to_csr, whole
from ..planning.symmetry import stored_as
from ..planning.tuning import Tuning
from .description import Description
from .operands import check_place

#: Two answers: is a matrix the transpose of another one, and is it the conjugate.
Transposition: TypeAlias = tuple[bool, bool]

OpT = TypeVar("OpT")  # an operator


class StoredMatrix:
    """A matrix in its format, which operators with the same values share.

    Its values do not change as long as several operators share it.

    Attributes
    ----------
    matrix : AnyMatrix
        Stores the matrix that the constructor takes besides.
    shape : tuple of int
    dtype : numpy.dtype
    description : Description
        How it is stored.
    parts : sequence of DevicePart
        The rows on each of several devices; empty for one device.
    tuning : Tuning or None
        How the format was found, if that was when the matrix was stored.
    symmetry : Symmetry or None
        What the description says, and what the format knows.
    ordinals : tuple of int
        The devices that hold rows.
    ordinal : int
        The device that vectors of solvers are on.
    places : list of int
        The devices where arrays may lie: the GPUs, or the CPU where there is none.
    lock : _core.Hold
        For a ``with`` statement: no other thread makes variants meanwhile, or changes the values.
    variants : dict
        The transpose and the conjugates that were made: of each, the matrix, and the operator that callers
        get.
    references : dict
        What the matrix reads, and must live as long.
    """

    def __init__(
        self,
        csr: DividedCsr,
        matrix: AnyMatrix,
        description: Description,
        parts: Sequence[DevicePart] = (),
        tuning: Tuning | None = None,
    ) -> None:
        if description.threads is not None:
            matrix.max_threads = description.threads
        self.matrix = matrix
        self.shape, self.dtype = csr.shape, csr.dtype
        self.description = description
        self.parts = parts
        self.tuning = tuning
        # A format for symmetric matrices may hold some rows of one, of which it knows nothing then.
        is_whole = traits(description.choice.format).needs_symmetry and csr.shape[0] == csr.shape[1]
        by_half = options(matrix).get("symmetry") if is_whole else None
        self.symmetry = stored_as(description.request.symmetric, by_half, csr.dtype)
        self.ordinals = tuple(part.ordinal for part in parts) or description.ordinals
        self.ordinal = next((ordinal for ordinal in self.ordinals if ordinal != CPU), CPU)
        self.places = sorted({ordinal for ordinal in self.ordinals if ordinal != CPU}) or [CPU]
        self._lock = ForkableLock()
        self.variants: dict[Transposition, tuple[StoredMatrix, Any]] = {}
        self.references: dict[str, object] = {}
        self._variant_of: tuple[Transposition, weakref.ref[StoredMatrix]] | None = None
        # Not a WeakSet: its callbacks are Python code, in which what a signal handler raises gets lost.
        self._operators: list[weakref.ref[object]] = []

    @property
    def device(self) -> str | tuple[str, ...]:
        """The name of the device, or the names of several."""
        names = tuple(map(device_name, self.ordinals))
        return names if self.parts else names[0]

    def check_device(self, name: str, located: ArrayInfo, beside: int | None = None) -> None:
        """Refuse an array that lies on another device than the matrix, or than x, which lies `beside`."""
        if beside is None:
            check_place(name, located, self.places)
        else:
            check_place(name, located, (beside,), "x is on")

    @property
    def lock(self) -> _core.Hold:
        return self._lock.hold()

    def memory_of_variants(self) -> tuple[int, int]:
        """Bytes of the variants on the device, and of what solvers left with them."""
        made = list(self.variants.values())
        return sum(stored.matrix.nbytes for stored, _ in made), sum(
            op._solver_memory.nbytes for _, op in made
        )

    def to_csr(self) -> sp.csr_array:
        """The entries as a new canonical ``csr_array``."""
        with at_most(self.description.threads):
            return to_csr(self.matrix)

    def canonical(self) -> CanonicalCsr:
        """The entries as a new canonical matrix."""
        return CanonicalCsr.of(self.to_csr())

    def canonical_there(self, *, may_lend: bool = False) -> CanonicalCsr:
        """The same on the device, if that has room and the matrix is in one format.

        With `may_lend`, its values may be those that are stored, which later ones replace.
        """
        matrix = whole(self.matrix)
        if isinstance(matrix, Matrix):
            try:
                with at_most(self.description.threads):
                    source = _core.CsrSource.of(matrix, may_lend)
            except MemoryError:
                return self.canonical()
            return CanonicalCsr.on(source)
        return self.canonical()

    def belongs_to(self, op: object) -> None:
        """Count an operator that has it, as long as it lives and has no other; `lock` is held."""
        count = len(self._operators)
        if count & (count - 1) == 0:  # powers of 2, and so seldom
            self._operators = [other for other in self._operators if other() is not None]
        self._operators.append(weakref.ref(op))

    def _owners(self) -> Iterator[Any]:
        alive = (reference() for reference in self._operators)
        return (op for op in alive if getattr(op, "_stored", None) is self)

    def is_shared(self, op: object) -> bool:
        """Whether anything but this operator relies on the values; `lock` is held."""
        return any(other is not op for other in self._owners()) or self._original() is not None

    def variant(
        self,
        which: Transposition,
        kind: Callable[[StoredMatrix], OpT],
        make: Callable[[StoredMatrix, Transposition], StoredMatrix],
    ) -> OpT:
        """The operator of the transpose or a conjugate, which is made once.

        All operators of this matrix get the same one, to which a caller may give new values.
        """
        stored, op = self.variants.get(which, (None, None))
        if op is not None and op._stored is stored:
            return cast("OpT", op)  # without a lock: as a rule it was asked for before
        original = self._original()
        if original is not None and self._variant_of is not None and self._variant_of[0] == which:
            return original._operator(kind)
        with self.lock:
            stored, op = self.variants.get(which, (None, None))
            if stored is None:
                stored = make(self, which)
                # A weak reference, so that the pair is freed with the last operator that uses it.
                stored._variant_of = which, weakref.ref(self)
            if op is None or op._stored is not stored:
                op = kind(stored)
                self.variants[which] = stored, op
            return cast("OpT", op)

    def _operator(self, kind: Callable[[StoredMatrix], OpT]) -> OpT:
        """The operator that a caller has of this matrix, or a new one."""
        with self.lock:
            for op in self._owners():
                if type(op) is kind and not op._is_snapshot:
                    return op  # type: ignore[no-any-return]
        return kind(self)

    def _original(self) -> StoredMatrix | None:
        """The matrix of which this is a variant, while that has the values of which it was made."""
        if self._variant_of is None:
            return None
        which, reference = self._variant_of
        original = reference()
        is_current = original is not None and original.variants.get(which, (None,))[0] is self
        return original if is_current else None
