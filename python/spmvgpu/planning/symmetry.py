"""What is known of a matrix's symmetry, and what follows for the matrices that are made of it."""

from __future__ import annotations

from enum import Flag
from typing import Literal

import numpy as np

from .._util.types import DType


class Symmetry(Flag):
    """Whether a matrix is its own transpose, or its own conjugate transpose; a real one is both or neither.

    None in its place: nothing is known, and ``format="auto"`` may find out.
    """

    NEITHER = 0  # or so its owner says, and no format looks for symmetry
    SYMMETRIC = 1
    HERMITIAN = 2
    BOTH = 3


def declared(symmetric: object, dtype: DType) -> Symmetry | None:
    """What is known of a matrix of which its owner says `symmetric`, as `aslinearoperator` takes it.

    A real matrix that is said to be Hermitian is known as that alone: its new values are looked at, too.
    """
    if symmetric is None:
        return None
    if not symmetric:
        return Symmetry.NEITHER
    if symmetric == "hermitian":
        return Symmetry.HERMITIAN
    return Symmetry.SYMMETRIC if dtype.kind == "c" else Symmetry.BOTH


def stored_as(
    known: Symmetry | None, by_half: Literal["symmetric", "hermitian"] | None, dtype: DType
) -> Symmetry | None:
    """What is known of a stored matrix; `by_half` says of which kind it is where that is by half."""
    if by_half is None:
        return known
    found = declared(by_half, dtype)
    return found if known is None or found is None else known | found


# Conjugates and transposes of a matrix are what it is, and so are its values in another precision. A real
# matrix is both or neither, which as a complex one it still is.


def of_part(known: Symmetry | None) -> Symmetry | None:
    """Of some rows and columns: whoever says that a matrix is not symmetric says so of its parts, too."""
    return Symmetry.NEITHER if known == Symmetry.NEITHER else None


def of_multiple(known: Symmetry | None, factor: complex) -> Symmetry | None:
    """Of the matrix times a number, or divided by one: what is Hermitian stays so if the number is real."""
    if not known or np.imag(factor) == 0:
        return known
    return Symmetry.SYMMETRIC if Symmetry.SYMMETRIC in known else None


def simplest(known: Symmetry | None, dtype: DType, transposed: bool, conjugated: bool) -> tuple[bool, bool]:
    """The least that makes a matrix its transpose, its conjugate or both: to transpose, to conjugate.

    ``(False, False)``: it is that already.
    """
    is_complex = dtype.kind == "c"
    if known and transposed:
        transposed = False
        if Symmetry.SYMMETRIC not in known:
            conjugated = not conjugated
    return transposed, conjugated and is_complex and known != Symmetry.BOTH
