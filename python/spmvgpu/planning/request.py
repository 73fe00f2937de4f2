"""What is asked of the storage of a matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .symmetry import Symmetry

#: What choosing may take, in products of the matrix, unless the caller says otherwise.
BUDGET = 50.0


@dataclass(frozen=True)
class Request:
    """What a format is chosen by: arguments of `aslinearoperator`.

    Attributes
    ----------
    format, options, tune, budget
        As `aslinearoperator` takes them.
    symmetric : Symmetry or None
        What is known of the matrix; None for nothing.
    """

    format: str = "auto"
    options: Mapping[str, int | float | str] = field(default_factory=dict)
    tune: str = "cached"
    budget: float = BUDGET
    symmetric: Symmetry | None = None
