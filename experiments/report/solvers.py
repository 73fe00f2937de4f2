"""What solvers.json says: a table of iterations and solutions, and the goals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from experiments.records import Row

from .markdown import number
from .summary import Mark, Results

HEAD = (
    "system", "rows", "solver", "preconditioner", "ours", "CuPy", "PyTorch", "SciPy", "CuPy / ours",
    "ours, ms", "CuPy, ms", "SciPy or pyamg, ms",
)  # fmt: skip
NOTE = (
    "Times in float64: microseconds of an iteration, and milliseconds from a right-hand side to a "
    "solution with a relative residual of 1e-8 (`minres` has its own stopping test in all libraries). "
    "Vectors are where the library keeps them. *symmetric* is an operator made with `symmetric=True`, "
    "which may store half of the matrix. The rows with multigrid compare with pyamg's own solver."
)
# How many times faster than CuPy's an iteration is to be.
CG = {
    "poisson2d_100": 25.0, "elast_59k": 8.0, "poisson3d_100": 5.5, "poisson2d_1000": 5.5, "elast_470k": 4.0,
    "poisson2d_3000": 2.8,
}  # fmt: skip
OTHERS, OTHERS_BELOW = 3.0, 1_000_000  # rows
MULTIGRID = 20.0  # times pyamg's solve on the CPU
Case = tuple[str, str, str]


def _cases(content: dict[str, Any]) -> Iterator[tuple[Case, dict[str, Row]]]:
    """By system, solver and preconditioner, the rows of the libraries."""
    cases: dict[Case, dict[str, Row]] = {}
    for row in content["rows"]:
        what = "symmetric" if row.get("symmetric") else row["preconditioner"]
        cases.setdefault((row["system"], row["solver"], what), {})[row["library"]] = row
    yield from cases.items()


def _peers(content: dict[str, Any], system: str, solver: str) -> dict[str, Row]:
    """The rows without a preconditioner, which others are compared with where nobody else has their kind."""
    return dict(_cases(content)).get((system, solver, "none"), {})


def _quotient(above: Row | None, below: Row | None, field: str) -> float | None:
    if above is None or below is None or not above.get(field) or not below.get(field):
        return None
    value: float = above[field] / below[field]
    return value


def _value(row: Row | None, field: str, scale: float = 1.0) -> str:
    value = None if row is None else row.get(field)
    if value is None:
        return "-"
    scaled = value * scale
    return f"{scaled:.2f}" if scaled < 10 else f"{scaled:.1f}" if scaled < 100 else f"{scaled:.0f}"


def rows(results: Results) -> list[tuple[str, ...]]:
    """The table, as `HEAD` names its columns; empty where nothing was measured."""
    content = results.get("solvers", {"rows": []})
    body = []
    for (system, solver, what), found in _cases(content):
        ours = found.get("spmvgpu")
        if ours is None:
            continue
        others = _peers(content, system, solver) if what == "symmetric" else found
        iterations = [
            _value(row, "iteration_us") for row in (ours, *map(others.get, ("cupy", "torch", "scipy")))
        ]
        host = others.get("scipy", others.get("pyamg"))
        times = [_value(row, "time_us", 1e-3) for row in (ours, others.get("cupy"), host)]
        ratio = number(_quotient(others.get("cupy"), ours, "iteration_us"))
        body.append((system, f"{ours['rows']:,}", solver, what, *iterations, ratio, *times))
    return body


def marks(results: Results) -> list[Mark]:
    """The goals beside what was measured; none where nothing was."""
    content = results.get("solvers")
    if content is None or content["environment"]["cuda"] is None:
        return []
    cases = dict(_cases(content))
    found = []
    for system, goal in CG.items():
        peers = _peers(content, system, "cg")
        for what in ("none", "symmetric"):
            ours = cases.get((system, "cg", what), {}).get("spmvgpu")
            said = " with symmetric=True" if what == "symmetric" else ""
            found.append(
                _mark(f"CuPy's iteration of cg over ours{said}, {system}", goal, peers.get("cupy"), ours)
            )
    for (system, solver, what), libraries in cases.items():
        ours = libraries.get("spmvgpu")
        if solver != "cg" and what == "none" and ours is not None and ours["rows"] < OTHERS_BELOW:
            name = f"CuPy's iteration of {solver} over ours, {system}"
            found.append(_mark(name, OTHERS, libraries.get("cupy"), ours))
        if what == "amg" and ours is not None:
            name = f"pyamg's solve over ours, {system}"
            found.append(_mark(name, MULTIGRID, libraries.get("pyamg"), ours, "time_us"))
    return [mark for mark in found if mark.reached is not None]


def _mark(name: str, goal: float, theirs: Row | None, ours: Row | None, field: str = "iteration_us") -> Mark:
    value = _quotient(theirs, ours, field)
    return Mark(name, f">= {goal:g}", number(value), None if value is None else value >= goal)
