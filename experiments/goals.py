"""Goals of the project, and whether what was measured reaches them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .records import geometric_mean
from .tables import three_digits


@dataclass(frozen=True)
class Mark:
    """A goal beside what was measured."""

    name: str
    goal: str
    measured: str
    reached: bool

    def __str__(self) -> str:
        verdict = "reached" if self.reached else "MISSED"
        return f"{verdict:>8}  {self.name}: {self.measured} (goal {self.goal})"


def at_most(
    name: str, values: Mapping[str, float | None], each: float | None = None, mean: float | None = None
) -> list[Mark]:
    """A goal for values by case that should be small: for each of them, for their geometric mean, or both.

    Returns a list of one mark; of none if there are no values.
    """
    return _judged(name, values, each, mean, "<=")


def at_least(
    name: str, values: Mapping[str, float | None], each: float | None = None, mean: float | None = None
) -> list[Mark]:
    """As `at_most`, for values that should be large."""
    return _judged(name, values, each, mean, ">=")


def _judged(
    name: str, values: Mapping[str, float | None], each: float | None, mean: float | None, sign: str
) -> list[Mark]:
    known = {case: value for case, value in values.items() if value is not None}
    if not known:
        return []

    def within(value: float, limit: float | None) -> bool:
        return limit is None or (value <= limit if sign == "<=" else value >= limit)

    average = geometric_mean(value for value in known.values() if value > 0)
    worst = (max if sign == "<=" else min)(known, key=lambda case: known[case])
    limits = {"mean": mean, "each": each}
    goal = ", ".join(f"{what} {sign} {limit:g}" for what, limit in limits.items() if limit is not None)
    bound = mean if each is None else each
    count = sum(within(value, bound) for value in known.values())
    text = f"{three_digits(known[worst])} at {worst}"
    if len(known) > 1:
        text = (
            f"geometric mean {three_digits(average)}, worst {text}, {count} of {len(known)} within {bound:g}"
        )
    return [Mark(name, goal, text, within(average, mean) and within(known[worst], each))]
