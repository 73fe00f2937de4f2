"""The least that products need of an operator."""

from __future__ import annotations

from .._core import AnyMatrix
from ..arrays import AnyArray, array_and_library
from ..planning.symmetry import simplest
from . import algebra
from .operands import multiply_now
from .stored import Stored


class Held:
    """What an operator multiplies by now, without its methods: made in less time than a small product takes.

    It keeps the values. With `matrix`, which has the structure of the stored one, it multiplies by that and
    keeps nothing.
    """

    def __init__(self, stored: Stored, matrix: AnyMatrix | None = None) -> None:
        self.shape, self.dtype = stored.shape, stored.dtype
        self._stream, self._check_device = stored.description.stream, stored.check_device
        self._stored = stored
        if matrix is None:
            with stored.lock:
                stored.belongs_to(self)
        self._matrix: AnyMatrix = stored.matrix if matrix is None else matrix

    def _held(self) -> Held:
        return self

    _snapshot = _held

    @property
    def H(self) -> Held:  # noqa: N802
        own = self._stored
        which = simplest(own.symmetry, self.dtype, True, True)
        if which == (False, False):
            return self
        return Held(own.variant(which, lambda: algebra.variant(own, which)))

    def __matmul__(self, x: object) -> AnyArray:
        return multiply_now(self, *array_and_library("x", x))
