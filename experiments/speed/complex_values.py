"""Products with complex matrices beside cuSPARSE and CuPy: the matrices of `speed` with random phases."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.engine import Experiment, Report, Table
from experiments.goals import Mark, at_most
from experiments.records import Case, Content, Row, fastest, ratio
from experiments.suite import suite_items

from .products import products

FORMATS = ("csr", "sell", "auto")
HEAD = ("matrix", "dtype", "cuSPARSE", "of it", "CuPy", "csr", "sell", "auto", "better of csr and sell, x")
NOTE = (
    "Times in microseconds of products with complex matrices: the best algorithm of cuSPARSE and its "
    "name, CuPy's `A @ x`, and spmvgpu. *x* is the time of the faster of `csr` and `sell` over the "
    "time of the best of cuSPARSE."
)


def _cases(content: Content) -> Iterator[tuple[Case, list[Row | None], Row | None]]:
    """Ours by format, and the best of cuSPARSE."""
    for case in content.cases():
        ours = [content.row(case, "spmvgpu", name) for name in FORMATS]
        yield case, ours, content.best(case, "cusparse")


def rows(content: Content) -> Table:
    for case, ours, best in _cases(content) if content.on_gpu else ():
        cupy = next((row for row in content.of_case(case) if row["library"] == "cupy"), None)
        over = ratio(fastest(ours[:2]), best)
        yield *case, best, best["variant"] if best else None, cupy, *ours, over


def goals(content: Content) -> list[Mark]:
    over = {" ".join(case): ratio(fastest(ours[:2]), best) for case, ours, best in _cases(content)}
    return at_most("complex csr or sell over the best of cuSPARSE", over, mean=0.85)


EXPERIMENTS = [
    Experiment(
        command="complex",
        about="products with complex matrices beside cuSPARSE and CuPy",
        file="complex",
        items=suite_items,
        dtypes=("c128",),
        peers={"cuda": ("cusparse", "cupy"), "cpu": ("scipy",)},
        variants={name: {"format": name} for name in FORMATS},
        measure=products,
        report=Report(60, "Complex matrices", NOTE, HEAD, rows, goals=goals, needs_gpu=True),
    )
]
