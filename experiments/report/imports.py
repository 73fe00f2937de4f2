"""What imports.json and info.json say: what importing takes beside other libraries, and the goals."""

from __future__ import annotations

from .jobs import duration
from .summary import Mark, Results

LIMITS_US = {"imports": 250e3, "info": 600e3}

HEAD = ("library", "imported", "time", "memory", "of the process then")
NOTE = (
    "Time and memory of an import beyond NumPy and SciPy, in a new process, and the resident set of "
    "the process after it."
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
    """The goals beside what was measured; none where nothing was."""
    names = {"imports": "import beyond SciPy's", "info": "`python -m spmvgpu info`"}
    return [
        Mark(
            name,
            f"<= {duration(LIMITS_US[file])}",
            duration(row["time_us"]),
            bool(row["time_us"] <= LIMITS_US[file]),
        )
        for file, name in names.items()
        for row in results.get(file, {}).get("rows", [])
        if row["library"] == "spmvgpu"
    ]


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
