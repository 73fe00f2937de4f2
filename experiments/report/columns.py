"""What matmat.json says: a table of products with several columns, and the goals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from experiments.records import Row, ratio

from .markdown import microseconds, number
from .summary import Mark, Results, format_mark

HEAD = (
    "matrix", "dtype", "order", "columns", "CuPy", "PyTorch", "SciPy", "csr", "sell", "auto",
    "of which kernel", "x", "copies",
)  # fmt: skip
NOTE = (
    "Times in microseconds of `op @ X` called from Python. Orders C and F are arrays on the device. "
    "*numpy* is a C-ordered array in host memory; its time includes the transfers. *x* is the time of "
    "`auto` over the time of the fastest other library, *of which kernel* the time on the GPU alone, "
    "and *copies* the time of the kernel over the time of a copy of matrix, X and Y."
)
SPEED, COPIES, NUMPY = 0.5, 3.0, 0.4
IRREGULAR = "powerlaw"
Case = tuple[str, str, str, int]


def _cases(content: dict[str, Any]) -> Iterator[tuple[Case, dict[tuple[str, str], Row]]]:
    cases: dict[Case, dict[tuple[str, str], Row]] = {}
    for row in content["rows"]:
        order = "numpy" if row["variant"] == "numpy" else row["order"]
        case = row["matrix"], row["dtype"], order, row["columns"]
        cases.setdefault(case, {})[row["library"], row["variant"]] = row
    yield from cases.items()


def _ours(found: dict[tuple[str, str], Row], name: str) -> Row | None:
    """As called from Python."""
    for variant in (f"{name}_called", "numpy" if name == "auto" else "", name):
        row = found.get(("spmvgpu", variant))
        if row is not None and row["how"] == "call":
            return row
    return None


def _best_other(found: dict[tuple[str, str], Row]) -> Row | None:
    others = [row for (library, _), row in found.items() if library != "spmvgpu"]
    return min(others, key=lambda row: row["time_us"], default=None)


def _copies(found: dict[tuple[str, str], Row]) -> float | None:
    kernel = found.get(("spmvgpu", "auto"))
    return None if kernel is None or "copy_us" not in kernel else kernel["time_us"] / kernel["copy_us"]


def rows(results: Results) -> list[tuple[str, ...]]:
    """The table, as `HEAD` names its columns; empty where nothing was measured."""
    body = []
    for (matrix, dtype, order, columns), found in _cases(results.get("matmat", {"rows": []})):
        named = {library: row for (library, _), row in found.items() if library != "spmvgpu"}
        kernel = found.get(("spmvgpu", "auto"))
        times = [named.get(library) for library in ("cupy", "torch", "scipy")]
        times += [_ours(found, name) for name in ("csr", "sell", "auto")]
        times.append(kernel if kernel is not None and kernel["how"] == "graph" else None)
        ours = ratio(_ours(found, "auto"), _best_other(found))
        cells = [*map(microseconds, times), number(ours), number(_copies(found))]
        body.append((matrix, dtype, order, str(columns), *cells))
    return body


def summary(results: Results) -> str:
    """A line per product, what was skipped, and the goals."""
    if "matmat" not in results:
        return "nothing measured"
    body = [HEAD, *rows(results)]
    widths = [max(len(row[column]) for row in body) for column in range(len(HEAD))]
    text = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in body]
    text += [f"skipped: {entry}" for entry in results["matmat"]["skipped"]]
    return "\n".join(text + [format_mark(mark) for mark in marks(results)])


def marks(results: Results) -> list[Mark]:
    """The goals beside what was measured; none where nothing was."""
    content = results.get("matmat")
    if content is None or content["environment"]["cuda"] is None:
        return []
    speed: dict[str, float] = {}
    numpy_speed: dict[str, float] = {}
    copies = {}
    for (matrix, dtype, order, columns), found in _cases(content):
        name = f"{matrix} {dtype}, {columns} columns in order {order}"
        against = ratio(_ours(found, "auto"), _best_other(found))
        if against is not None:
            (numpy_speed if order == "numpy" else speed)[name] = against
        times = _copies(found)
        if times is not None and columns == 32 and not matrix.startswith(IRREGULAR):
            copies[name] = times
    return [
        _mark("products with columns over the better of CuPy and PyTorch", SPEED, speed),
        _mark("the same with NumPy arrays, over CuPy", NUMPY, numpy_speed),
        _mark("products with 32 columns over a copy of the bytes, regular matrices", COPIES, copies),
    ]


def _mark(name: str, limit: float, values: dict[str, float]) -> Mark:
    if not values:
        return Mark(name, f"<= {limit:g}", "-", None)
    worst = max(values, key=lambda case: values[case])
    within = sum(value <= limit for value in values.values())
    text = f"worst {values[worst]:.2f} at {worst}, {within} of {len(values)} within"
    return Mark(name, f"<= {limit:g}", text, values[worst] <= limit)
