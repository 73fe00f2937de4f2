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
    "What the rank that gets most gets for a product, with 8, 64 and 1,024 ranks: the entries of other ranks'"
    " `x`, as a part of its own rows' number, and messages. Meshes of `SPMVGPU_MATRICES` and grids of the"
    " gallery, with 5, 7 and 27 points, in the order that they have, in that of reverse Cuthill-McKee, and"
    " divided by METIS. Counted, not timed."
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
