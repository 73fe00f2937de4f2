"""Matrices as they are stored, which operators with the same values share."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, TypeAlias

from .. import _core
from .._util.value_types import AnyMatrix
from ..formats import needs_symmetry
from ..planning import parts
from ..planning.symmetry import stored_as

#: Whether a matrix is the transpose of another, and whether its conjugate.
Variant: TypeAlias = tuple[bool, bool]


class Stored:
    """A matrix in its format, and its transpose and conjugates where they were made.

    Its values do not change as long as several operators have it. One that has it alone may change them, if
    it forgets `copies` before.

    Attributes
    ----------
    matrix : AnyMatrix
    shape : tuple of int
    origin : spmvgpu.operator.Origin
    symmetry : Symmetry or None
        What `origin` says, and what the format knows.
    lock : _core.Hold
        For a ``with`` statement: no other thread makes copies meanwhile, or changes the values.
    copies : dict
        Those there are, by what they are.
    declared_x : array or None
        What the matrix keeps gathered values of.
    """

    def __init__(self, matrix: AnyMatrix, shape: tuple[int, int], origin: Any) -> None:
        if origin.threads is not None:
            matrix.max_threads = origin.threads
        self.matrix = matrix
        self.shape = shape
        self.origin = origin
        # A format for symmetric matrices may hold some rows of one, of which it knows nothing then.
        is_whole = needs_symmetry(origin.choice.format) and shape[0] == shape[1]
        by_half = parts.options(matrix).get("symmetry") if is_whole else None
        self.symmetry = stored_as(origin.symmetric, by_half, matrix.dtype)
        self._lock = _core.Lock()
        self.copies: dict[Variant, Stored] = {}
        self.declared_x: Any = None
        self._copy_of: tuple[Variant, weakref.ref[Stored]] | None = None
        # Not a WeakSet: its callbacks are Python code, in which what a signal handler raises gets lost.
        self._operators: list[weakref.ref[Any]] = []

    @property
    def lock(self) -> _core.Hold:
        return _core.Hold(self._lock)

    @property
    def nbytes(self) -> int:
        """Bytes on the device, those of the copies included."""
        return self.matrix.nbytes + sum(copy.nbytes for copy in list(self.copies.values()))

    def belongs_to(self, op: object) -> None:
        """Count an operator that has it, as long as it lives and has no other; `lock` is held."""
        count = len(self._operators)
        if count & (count - 1) == 0:  # powers of 2, and so seldom
            self._operators = [other for other in self._operators if other() is not None]
        self._operators.append(weakref.ref(op))

    def is_shared(self, op: object) -> bool:
        """Whether anything but this operator relies on the values; `lock` is held."""
        alive = (reference() for reference in self._operators)
        others = (other for other in alive if other is not None and other is not op)
        return self._original() is not None or any(other._stored is self for other in others)

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
