"""Matrices as they are stored, which operators with the same values share."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TypeAlias

import scipy.sparse as sp

from .. import _core
from .._core import AnyMatrix, Matrix
from ..arrays import ArrayInfo
from ..devices import CPU, at_most, device_name
from ..formats import needs_symmetry
from ..inputs.csr import CanonicalCsr
from ..multi_device.division import DevicePart
from ..planning.parts import options, to_csr
from ..planning.symmetry import stored_as
from ..planning.tuning import Tuning
from .description import Description
from .operands import check_place

#: Whether a matrix is the transpose of another, and whether its conjugate.
Variant: TypeAlias = tuple[bool, bool]


class Stored:
    """A matrix in its format, and its transpose and conjugates where they were made.

    Its values do not change as long as several operators have it. One that has it alone may change them, if
    it forgets `copies` before.

    Attributes
    ----------
    matrix : AnyMatrix
        Stores the canonical matrix that the constructor takes besides.
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
        For a ``with`` statement: no other thread makes copies meanwhile, or changes the values.
    copies : dict
        Those there are, by what they are.
    declared_x : array or None
        What the matrix keeps gathered values of.
    """

    def __init__(
        self,
        csr: CanonicalCsr,
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
        is_whole = needs_symmetry(description.choice.format) and csr.shape[0] == csr.shape[1]
        by_half = options(matrix).get("symmetry") if is_whole else None
        self.symmetry = stored_as(description.request.symmetric, by_half, csr.dtype)
        self.ordinals = tuple(part.ordinal for part in parts) or description.ordinals
        self.ordinal = next((ordinal for ordinal in self.ordinals if ordinal != CPU), CPU)
        self.places = sorted({ordinal for ordinal in self.ordinals if ordinal != CPU}) or [CPU]
        self._lock = _core.Lock()
        self.copies: dict[Variant, Stored] = {}
        self.declared_x: object = None
        self._copy_of: tuple[Variant, weakref.ref[Stored]] | None = None
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
        return _core.Hold(self._lock)

    @property
    def nbytes_of_copies(self) -> int:
        """Bytes of the copies on the device."""
        return sum(copy.matrix.nbytes for copy in list(self.copies.values()))

    def to_csr(self) -> sp.csr_array:
        """The entries as a new canonical ``csr_array``."""
        with at_most(self.description.threads):
            return to_csr(self.matrix)

    def canonical(self) -> CanonicalCsr:
        """The entries as a new canonical matrix."""
        return CanonicalCsr.of(self.to_csr())

    def canonical_there(self) -> CanonicalCsr:
        """The same on the device, if that has room and the matrix is in one format."""
        if isinstance(self.matrix, Matrix):
            try:
                with at_most(self.description.threads):
                    source = _core.CsrSource.of(self.matrix)
            except MemoryError:
                return self.canonical()
            return CanonicalCsr.on(source, self.shape, self.dtype, self.matrix.nnz, self.ordinal)
        return self.canonical()

    def belongs_to(self, op: object) -> None:
        """Count an operator that has it, as long as it lives and has no other; `lock` is held."""
        count = len(self._operators)
        if count & (count - 1) == 0:  # powers of 2, and so seldom
            self._operators = [other for other in self._operators if other() is not None]
        self._operators.append(weakref.ref(op))

    def is_shared(self, op: object) -> bool:
        """Whether anything but this operator relies on the values; `lock` is held."""
        alive = (reference() for reference in self._operators)
        has_other = any(getattr(other, "_stored", None) is self for other in alive if other is not op)
        return has_other or self._original() is not None

    def variant(self, which: Variant, make: Callable[[], Stored]) -> Stored:
        """The transpose or a conjugate, which is made once, and of which this one is the same."""
        original = self._original()
        if original is not None and self._copy_of is not None and self._copy_of[0] == which:
            return original
        with self.lock:
            if which not in self.copies:
                made = make()
                # A weak reference, so that the pair is freed as soon as nobody uses it.
                made._copy_of = which, weakref.ref(self)
                self.copies[which] = made
            return self.copies[which]

    def _original(self) -> Stored | None:
        """The matrix that this is a copy of, while that has the values of which it was made."""
        if self._copy_of is None:
            return None
        which, reference = self._copy_of
        original = reference()
        return original if original is not None and original.copies.get(which) is self else None
