"""Tables, numbers and names as the report writes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any

from .records import Row


def table(head: Sequence[str], rows: Iterable[Sequence[object]], words: int = 2) -> str:
    """A Markdown table whose first columns are text and whose others are numbers."""
    rule = ["---" if column < words else "--:" for column in range(len(head))]
    return "\n".join("| " + " | ".join(map(_shown, cells)) + " |" for cells in (head, rule, *rows))


def _shown(cell: object) -> str:
    if isinstance(cell, list):
        return ", ".join(map(str, cell))
    return "-" if cell is None else f"{cell:.2f}" if isinstance(cell, float) else str(cell).replace("|", "/")


def duration(us: float) -> str:
    """Three digits, with the unit."""
    unit, size = ("us", 1.0) if us < 999.5 else ("ms", 1e3) if us < 999.5e3 else ("s", 1e6)
    value = us / size
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f} {unit}"


def pivot(
    rows: Iterable[Row],
    index: str,
    columns: str,
    value: str = "time_us",
    show: Callable[[float], str] = duration,
) -> str:
    """A table of least values: a line for each case, a column for each way to do it; empty without values.

    `index` and `columns` name the fields that tell cases and ways apart, separated by spaces. If ways are
    libraries, a last column has our value over the least of the others.
    """
    lines: dict[tuple[str, ...], dict[str, float]] = {}
    for row in rows:
        if row.get(value):
            case = tuple(_shown(row.get(field)) for field in index.split())
            way = " ".join(str(row[field]) for field in columns.split() if row.get(field))
            cells = lines.setdefault(case, {})
            cells[way] = min(row[value], cells.get(way, inf))
    ways = list(dict.fromkeys(way for cells in lines.values() for way in cells))
    body: list[list[object]] = [
        [*case, *(show(cells[way]) if way in cells else None for way in ways)]
        for case, cells in lines.items()
    ]
    is_compared = columns == "library" and len(ways) > 1
    for line, cells in zip(body, lines.values(), strict=True) if is_compared else ():
        others = [us for way, us in cells.items() if way != "spmvgpu"]
        line.append(cells["spmvgpu"] / min(others) if others and "spmvgpu" in cells else None)
    head = [*index.split(), *ways, *(["over the fastest other"] if is_compared else [])]
    return table(head, body, len(index.split())) if body else ""


def short_name(device: str) -> str:
    """Short name of a device in headings and sentences: "H200" for "NVIDIA H200", "Xeon" for Intel's."""
    dropped = r"\((?:R|TM)\)|\b(?:NVIDIA|AMD|Intel|Processor)\b|[ -]\d+GB\b.*"
    return re.sub(dropped, "", device).strip() or device


def machine(environment: dict[str, Any]) -> str:
    """The short name of a device, and of a CPU the number of its cores."""
    cores = environment.get("cores") if environment["cuda"] is None else None
    return short_name(environment["device"]) + (f", {cores} cores" if cores else "")
