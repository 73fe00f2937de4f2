"""Speed in the README: a picture, a few sentences, and when another library is the better choice."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import median
from typing import Any

from experiments.records import Row, geometric_mean

from . import jobs
from .jobs import duration, find
from .markdown import short_name
from .products import speeds
from .summary import Results

OVERVIEW = "overview.png"  # in docs/plots
ALT = "Time from matrix to solution, and speed of products, beside CuPy, PyTorch, SciPy and cuSPARSE"
MANY = 1_000_000  # non-zeros of the matrices for which the cost of an operator is given


def repository() -> str:
    """The address of the repository, which pyproject.toml has."""
    metadata = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r'^Repository = "(.+)"', metadata, re.MULTILINE)
    if found is None:
        raise RuntimeError("pyproject.toml has no Repository among its URLs")
    return found[1]


def facts(results: Results) -> str:
    """How fast solutions and products are beside other libraries; empty where jobs were not measured."""
    solutions = [rows for (job, _), rows in jobs.cases(results).items() if job == jobs.SOLVE]
    if not solutions:
        return ""
    environment = results["jobs"]["environment"]
    gpu, cpu = short_name(environment["device"]), short_name(environment["cpu"])
    cores = f"{environment['cores']} CPU cores ({cpu})"
    sentences = []
    if environment["cuda"] is not None:
        over_cupy, over_scipy = _range(solutions, "gpu", "cupy"), _range(solutions, "gpu", "scipy")
        sentences.append(
            f"On one {gpu}, spmvgpu goes from a SciPy matrix to a solution {over_cupy} times as fast as "
            f"CuPy and {over_scipy} times as fast as SciPy."
        )
    over_scipy = _range(solutions, "cpu", "scipy")
    sentences.append(f"On {cores}, it is {over_scipy} times as fast as SciPy.")
    for label, values in speeds(results, "f64").items():
        if label.startswith("cuSPARSE"):
            sentences.append(
                f"A product on the GPU is {geometric_mean(values):.1f} times as fast as the best algorithm "
                f"of cuSPARSE (geometric mean of {len(values)} matrices)."
            )
    return " ".join(sentences)


def _range(solutions: list[list[Row]], device: str, library: str) -> str:
    """From the least to the most, how many times as fast we are."""
    found = []
    for rows in solutions:
        ours = find(rows, "spmvgpu", device)
        theirs = [row for row in rows if row["library"] == library]
        if ours and theirs:
            found.append(min(row["time_us"] for row in theirs) / ours[0]["time_us"])
    if not found:
        return "-"
    least, most = min(found), max(found)
    return f"{_times(least)} to {_times(most)}"


def _times(value: float) -> str:
    return f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def reasons_against(results: Results) -> str:
    """Jobs for which others are as good or better, with their measured times."""
    found = jobs.cases(results)
    lines = []
    smallest = min(
        (rows for (job, _), rows in found.items() if job == jobs.SOLVE), key=_rows_of, default=None
    )
    if smallest:
        ours, scipy = (find(smallest, library, "cpu") for library in ("spmvgpu", "scipy"))
        if ours and scipy and ours[0]["time_us"] > scipy[0]["time_us"]:
            lines.append(
                f"- **Small systems on a CPU.** A system of {_rows_of(smallest):,} rows takes "
                f"{duration(ours[0]['time_us'])} to solve, and {duration(scipy[0]['time_us'])} with SciPy."
            )
    smallest = min(
        (rows for (job, _), rows in found.items() if job.startswith("1,000 products")),
        key=_rows_of,
        default=None,
    )
    if smallest:
        best = min(smallest, key=lambda row: row["time_us"])
        ours = find(smallest, "spmvgpu", "gpu") or find(smallest, "spmvgpu", "cpu")
        if ours and best["library"] != "spmvgpu":
            lines.append(
                f"- **Small products with NumPy vectors.** 1,000 products with {_rows_of(smallest):,} rows "
                f"take {duration(ours[0]['time_us'])}, and {duration(best['time_us'])} with {_name(best)}."
            )
    lines += _cost_of_an_operator(results)
    return "\n".join(lines)


def _cost_of_an_operator(results: Results) -> list[str]:
    """How many products take as long as making the operator for them."""
    rows = [
        row
        for row in results.get("setup", {}).get("rows", [])
        if row["variant"] == "auto"
        and row["source"] == "scipy"
        and row["nnz"] >= MANY
        and row.get("product_us")
    ]
    if not rows:
        return []
    products = median(row["time_us"] / row["product_us"] for row in rows)
    return [
        f"- **Few products.** Making an operator on the GPU takes as long as {round(products, -1):.0f} "
        f"products (median of {len(rows)} matrices with a million non-zeros or more, transfer included)."
    ]


def _rows_of(rows: list[Row]) -> int:
    count: int = rows[0]["rows"]
    return count


def _name(row: dict[str, Any]) -> str:
    names = {"torch": "PyTorch", "cupy": "CuPy", "scipy": "SciPy"}
    return f"{names[row['library']]} on the {row['device'].upper()}"


def readme(results: Results) -> str:
    """The text between the marker lines of the README; index pages show no relative links and pictures."""
    address = repository()
    pictures = address.replace("github.com", "raw.githubusercontent.com")
    return "\n\n".join(
        (
            f"![{ALT}]({pictures}/main/docs/plots/{OVERVIEW})",
            f"<!-- facts:begin -->\n\n{facts(results)}\n\n<!-- facts:end -->",
            f"[All measurements]({address}/blob/main/docs/performance.md) are public, losses included.",
        )
    )
