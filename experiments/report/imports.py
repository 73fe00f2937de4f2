"""What imports.json says: what importing takes beside other libraries, and the goal."""

from __future__ import annotations

from .jobs import duration
from .summary import Mark, Results

LIMIT_US = 250e3

HEAD = ("library", "imported", "time", "memory", "of the process then")
NOTE = (
    "What importing takes beyond NumPy and SciPy, in a new process, and the resident set of the whole "
    "process after it:"
)


def rows(results: Results) -> list[tuple[str, ...]]:
    """The table, as `HEAD` names its columns; empty where nothing was measured."""
    return [
        (
            row["library"],
            f"`{row['variant']}`",
            duration(row["time_us"]),
            _megabytes(row["bytes"]),
            _megabytes(row["resident_bytes"]),
        )
        for row in results.get("imports", {}).get("rows", [])
    ]


def marks(results: Results) -> list[Mark]:
    """The goal beside what was measured; none where nothing was."""
    return [
        Mark(
            "import beyond SciPy's",
            f"<= {duration(LIMIT_US)}",
            duration(row["time_us"]),
            bool(row["time_us"] <= LIMIT_US),
        )
        for row in results.get("imports", {}).get("rows", [])
        if row["library"] == "spmvgpu"
    ]


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
