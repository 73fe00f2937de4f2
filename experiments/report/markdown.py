"""Tables and numbers as the reports write them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from experiments.records import Row, geometric_mean


def table(head: Sequence[str], rows: Iterable[Sequence[str]], words: int = 2) -> str:
    """A Markdown table: the first columns, two or as many as it says, are text, the others numbers."""
    rule = ["---" if column < words else "--:" for column in range(len(head))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *rows))


def number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def microseconds(row: Row | None) -> str:
    if row is None:
        return "-"
    us: float = row["time_us"]
    return f"{us:.2f}" if us < 10 else f"{us:.1f}" if us < 100 else f"{us:.0f}"


def mean_and_extremes(quotients: Iterable[float | None]) -> tuple[str, str, str]:
    """Geometric mean, least and largest of those that are there; above 1 in bold."""
    known = [quotient for quotient in quotients if quotient is not None]
    if not known:
        return ("-", "-", "-")
    numbers = (geometric_mean(known), min(known), max(known))
    mean, least, largest = (f"**{value:.2f}**" if value > 1 else f"{value:.2f}" for value in numbers)
    return mean, least, largest


def short_name(device: str) -> str:
    """What a device is called in headings and sentences: "H200" for "NVIDIA H200", "Xeon" for Intel's."""
    return re.sub(r"\((?:R|TM)\)|\b(?:NVIDIA|AMD|Intel|Processor)\b", "", device).strip() or device


def machine(environment: dict[str, Any]) -> str:
    """The short name of a device, and of a CPU the number of its cores."""
    cores = environment.get("cores") if environment["cuda"] is None else None
    return short_name(environment["device"]) + (f", {cores} cores" if cores else "")
