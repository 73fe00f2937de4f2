"""What complex.json says: a table of products with complex matrices, and the goal."""

from __future__ import annotations

from experiments.records import Row, Times, geometric_mean, ratio

from .markdown import microseconds, number
from .summary import Mark, Results, format_mark

HEAD = ("matrix", "dtype", "cuSPARSE", "of it", "CuPy", "csr", "sell", "auto", "better of csr and sell, x")
NOTE = (
    "Times in microseconds of products with complex matrices: the best algorithm of cuSPARSE and its "
    "name, CuPy's `A @ x`, and spmvgpu. *x* is the time of the faster of `csr` and `sell` over the "
    "time of the best of cuSPARSE."
)
GOAL = 0.85


def _better(times: Times, matrix: str, dtype: str) -> Row | None:
    rows = [times.row(matrix, dtype, "spmvgpu", name) for name in ("csr", "sell")]
    return min((row for row in rows if row is not None), key=lambda row: row["time_us"], default=None)


def rows(results: Results) -> list[tuple[str, ...]]:
    """The table, as `HEAD` names its columns; empty where nothing was measured on a GPU."""
    if "complex" not in results or results["complex"]["environment"]["cuda"] is None:
        return []
    times = Times(results["complex"])
    body = []
    for matrix, dtype in times.cases():
        best = times.best(matrix, dtype, "cusparse", "")
        cupy = next((row for row in times.rows(matrix, dtype) if row["library"] == "cupy"), None)
        ours = [times.row(matrix, dtype, "spmvgpu", name) for name in ("csr", "sell", "auto")]
        cells = [microseconds(row) for row in (cupy, *ours)]
        name = "-" if best is None else best["variant"]
        against = number(ratio(_better(times, matrix, dtype), best))
        body.append((matrix, dtype, microseconds(best), name, *cells, against))
    return body


def marks(results: Results) -> list[Mark]:
    """The goal beside what was measured; none where nothing was."""
    if "complex" not in results or results["complex"]["environment"]["cuda"] is None:
        return []
    times = Times(results["complex"])
    found = {
        f"{matrix} {dtype}": ratio(_better(times, matrix, dtype), times.best(matrix, dtype, "cusparse", ""))
        for matrix, dtype in times.cases()
    }
    known = {case: value for case, value in found.items() if value is not None}
    if not known:
        return []
    mean, worst = geometric_mean(known.values()), max(known, key=lambda case: known[case])
    name = f"complex csr or sell over the best of cuSPARSE, {len(known)} cases"
    measured = f"geometric mean {mean:.3f}, worst {known[worst]:.2f} at {worst}"
    return [Mark(name, f"mean <= {GOAL:g}", measured, mean <= GOAL)]


def summary(results: Results) -> str:
    """A line per matrix, and the goal."""
    lines = ["  ".join(row) for row in (HEAD, *rows(results))]
    return "\n".join(lines + [format_mark(mark) for mark in marks(results)])
