"""What halos.json says: how much of x the ranks of a product need from others."""

from __future__ import annotations

from typing import Any

SHOWN = (8, 64, 1024)  # ranks
HEAD = (
    "matrix",
    "rows",
    "division",
    *(f"{name}, {count}" for count in SHOWN for name in ("halo", "messages")),
)
NOTE = (
    "What the busiest rank receives for a product with 8, 64 and 1,024 ranks. *halo* is the number of "
    "entries of `x` from other ranks over the number of its own rows. *messages* is the number of "
    "ranks that send them. The rows are in the given order, in reverse Cuthill-McKee order, or "
    "divided by METIS. These are counts, not times."
)


def rows(content: dict[str, Any]) -> list[tuple[str, ...]]:
    """The table, as `HEAD` names its columns."""
    cases: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
    for row in content["rows"]:
        cases.setdefault((row["matrix"], row["partition"]), {})[row["ranks"]] = row
    body = []
    for (matrix, partition), found in cases.items():
        cells = []
        for count in SHOWN:
            row = found.get(count)
            halo = "-" if row is None else f"{row['largest_halo'] / (row['rows'] / count):.2f}"
            cells += [halo, "-" if row is None else str(row["most_messages"])]
        body.append((matrix, f"{next(iter(found.values()))['rows']:,}", partition, *cells))
    return body


def summary(content: dict[str, Any]) -> str:
    """A line per matrix and division."""
    return "\n".join("  ".join(row) for row in (HEAD, *rows(content)))
