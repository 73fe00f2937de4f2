"""What is asked of the storage of a matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from .._util.plugins import Plugins
from .._util.types import Options
from ..formats import Choice
from ..inputs.csr import CanonicalCsr
from .symmetry import Symmetry

#: Default time limit of choosing, in products of the matrix.
BUDGET = 50.0

MODES = ("off", "cached", "full")  # of `Request.tune`

#: Chooses for a canonical matrix, a device and the options that were given.
Chooser: TypeAlias = Callable[[CanonicalCsr, int, Options], Choice]
#: Plug-ins that choose what is stored. A caller gives the name of one in place of a format.
CHOOSERS: Mapping[str, Chooser] = Plugins("chooser")


@dataclass(frozen=True)
class Request:
    """What a format is chosen by: arguments of `aslinearoperator`.

    Attributes
    ----------
    format, options, tune, budget
        As `aslinearoperator` takes them.
    symmetric : Symmetry or None
        What is known of the matrix; None for nothing, and some formats find out. NEITHER keeps formats for
        symmetric matrices out.
    """

    format: str = "auto"
    options: Options = field(default_factory=dict)
    tune: str = "cached"
    budget: float = BUDGET
    symmetric: Symmetry | None = None

    @property
    def declared(self) -> bool | None:
        """Whether the matrix is known to be symmetric or Hermitian; None if nothing is known."""
        return None if self.symmetric is None else bool(self.symmetric)

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to be predicted or timed."""
        return self.format in CHOOSERS or (self.format != "auto" and self.tune != "full")

    def choice(self, csr: CanonicalCsr, ordinal: int) -> Choice:
        """What a matrix is stored as if a format or a chooser is asked for by name."""
        if self.format in CHOOSERS:
            return CHOOSERS[self.format](csr, ordinal, self.options)
        return Choice(self.format, dict(self.options))
