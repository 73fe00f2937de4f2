"""What setup.json says: what it takes from a matrix to an operator, beside CuPy, and the goals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from experiments.records import Row, geometric_mean

from .markdown import number
from .summary import Mark, Results

VARIANTS = ("csr", "auto, tune=off", "auto")
HEAD = (
    "matrix",
    "dtype",
    "M non-zeros",
    "CuPy",
    *VARIANTS,
    "auto, x",
    "format",
    "from CuPy: auto",
    "products",
)
NOTE = (
    "Times in microseconds to make an operator on the GPU from a SciPy matrix with a million "
    "non-zeros or more, with an empty cache: CuPy's `csr_matrix(A)` and `aslinearoperator`. *x* is "
    "the time of `auto` over CuPy's time. The last columns are for a CuPy matrix, which is already on "
    "the GPU: the time of `auto`, and that time in products in the chosen format."
)
LEAST_NNZ = 1e6  # what the goals are for
GOAL, WORST, PRODUCTS = 0.75, 1.2, 60

Case = dict[tuple[str, str, str], Row]


def _cases(results: Results) -> Iterator[tuple[str, Case]]:
    """The rows of every matrix and type, by library, variant and source."""
    if "setup" not in results or results["setup"]["environment"]["cuda"] is None:
        return
    found: dict[tuple[str, str], Case] = {}
    for row in results["setup"]["rows"]:
        if row["nnz"] >= LEAST_NNZ:
            key = (row["library"], row["variant"], row["source"])
            found.setdefault((row["matrix"], row["dtype"]), {})[key] = row
    for (matrix, dtype), case in found.items():
        if ("cupy", "csr", "scipy") in case and ("spmvgpu", "auto", "cupy") in case:
            yield f"{matrix} {dtype}", case


def _over_cupy(case: Case) -> float:
    auto, cupy = case["spmvgpu", "auto", "scipy"], case["cupy", "csr", "scipy"]
    return float(auto["time_us"] / cupy["time_us"])


def _in_products(case: Case) -> float:
    auto = case["spmvgpu", "auto", "cupy"]
    return float(auto["time_us"] / auto["product_us"])


def rows(results: Results) -> list[tuple[str, ...]]:
    """The table, as `HEAD` names its columns; empty where nothing was measured on a GPU."""
    body = []
    for name, case in _cases(results):
        matrix, dtype = name.rsplit(" ", 1)
        ours: list[Any] = [case["spmvgpu", variant, "scipy"] for variant in VARIANTS]
        times = [number(row["time_us"], 0) for row in (case["cupy", "csr", "scipy"], *ours)]
        there = case["spmvgpu", "auto", "cupy"]
        cells = [number(_over_cupy(case)), ours[-1]["format"]]
        cells += [number(there["time_us"], 0), number(_in_products(case), 0)]
        body.append((matrix, dtype, number(ours[0]["nnz"] / 1e6, 1), *times, *cells))
    return body


def marks(results: Results) -> list[Mark]:
    """The goals beside what was measured; none where nothing was."""
    over = {name: _over_cupy(case) for name, case in _cases(results)}
    if not over:
        return []
    products = {name: _in_products(case) for name, case in _cases(results)}
    mean, worst, longest = (
        geometric_mean(over.values()),
        max(over, key=over.__getitem__),
        max(products.values()),
    )
    within = sum(count <= PRODUCTS for count in products.values())
    return [
        Mark(
            f"auto from SciPy over CuPy's upload, {len(over)} cases",
            f"mean <= {GOAL:g}, each <= {WORST:g}",
            f"geometric mean {mean:.2f}, worst {over[worst]:.2f} at {worst}, "
            f"{sum(x <= WORST for x in over.values())} within",
            mean <= GOAL and over[worst] <= WORST,
        ),
        Mark(
            f"auto from CuPy, in products of the chosen format, {len(over)} cases",
            f"each <= {PRODUCTS}",
            f"{within} within, most {longest:.0f}",
            longest <= PRODUCTS,
        ),
    ]
