"""Tables, numbers and names as the reports write them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from .records import Row, geometric_mean

# A row of results is shown as its time, None as a dash, a float with two decimals.
Cell = str | int | float | Row | None


def table(head: Sequence[str], rows: Iterable[Sequence[Cell]], words: int = 2) -> str:
    """A Markdown table: the first columns, two or as many as it says, are text, the others numbers."""
    rule = ["---" if column < words else "--:" for column in range(len(head))]
    return "\n".join("| " + " | ".join(map(shown, cells)) + " |" for cells in (head, rule, *rows))


def shown(cell: Cell) -> str:
    """A cell as text."""
    if isinstance(cell, dict):
        return three_digits(cell["time_us"])
    return "-" if cell is None else f"{cell:.2f}" if isinstance(cell, float) else str(cell)


def number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def three_digits(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def duration(us: float) -> str:
    """Three digits, with the unit."""
    unit, size = ("us", 1.0) if us < 999.5 else ("ms", 1e3) if us < 999.5e3 else ("s", 1e6)
    value = us / size
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f} {unit}"


def bold_above_1(value: float | None) -> str:
    return "-" if value is None else f"**{value:.2f}**" if value > 1 else f"{value:.2f}"


def mean_and_extremes(quotients: Iterable[float | None]) -> tuple[str, ...]:
    """The geometric mean, the smallest and the largest of the given values; above 1 in bold."""
    known = [quotient for quotient in quotients if quotient is not None]
    if not known:
        return ("-", "-", "-")
    return tuple(map(bold_above_1, (geometric_mean(known), min(known), max(known))))


def short_name(device: str) -> str:
    """What a device is called in headings and sentences: "H200" for "NVIDIA H200", "Xeon" for Intel's."""
    dropped = r"\((?:R|TM)\)|\b(?:NVIDIA|AMD|Intel|Processor)\b|[ -]\d+GB\b.*"
    return re.sub(dropped, "", device).strip() or device


def machine(environment: dict[str, Any]) -> str:
    """The short name of a device, and of a CPU the number of its cores."""
    cores = environment.get("cores") if environment["cuda"] is None else None
    return short_name(environment["device"]) + (f", {cores} cores" if cores else "")
