"""What finding a format took."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..steps import Step

#: A later trial is kept only if it was faster by more than times vary from one short series to the next.
NOISE = 1.05


@dataclass(frozen=True)
class Trial:
    """A variant that was built and timed."""

    format: str
    options: dict[str, Any]
    time_us: float


@dataclass
class Tuning:
    """What finding the format took.

    Attributes
    ----------
    mode : {"off", "cached", "full"}
    trials : list of Trial
        What was timed.
    products : int
        Products that the timing took, of all trials together.
    seconds : float
        Time that choosing took, trials and their conversions included.
    cached : bool
        Whether the result of an earlier tuning was used.
    out_of_time : bool
        Whether the budget ended before all had been tried that it was to last for.
    steps : list of Step
        Where the time went, from the matrix that was given to the operator: for every step its `name`
        ("upload", "checks", "features", "plan", "convert", "trial", ...), which format it is `of`, and its
        `seconds`. They add up to the whole.
    """

    mode: str
    trials: list[Trial] = field(default_factory=list)
    products: int = 0
    seconds: float = 0.0
    cached: bool = False
    out_of_time: bool = False
    steps: list[Step] = field(default_factory=list)
