"""Tables and numbers as the reports write them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from experiments.records import Row


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
