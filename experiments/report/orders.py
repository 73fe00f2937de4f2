"""What orders.json says: products in other orders of rows and columns, and what finding them takes."""

from __future__ import annotations

from experiments.records import Row

from .markdown import number
from .summary import Results

ORDERS = ("given", "rcm", "clusters")
HEAD = ("matrix", "dtype", "format", *("product", "made") * 3, "order, in products")
NOTE = (
    "Times in microseconds of a product, and of making the operator of a matrix that is already on "
    "the GPU. The rows and columns are in the given order, in reverse Cuthill-McKee order (found on "
    "the CPU), or ordered by clusters (found on the GPU; its cost is also given in products in the "
    "given order)."
)


def rows(results: Results) -> list[tuple[str, ...]]:
    """The table, as `HEAD` names its columns."""
    cases: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in results["orders"]["rows"] if "orders" in results else []:
        if row["variant"] != "auto":
            cases.setdefault((row["matrix"], row["dtype"], row["variant"]), {})[row["order"]] = row
    return [_row(name, case) for name, case in cases.items()]


def _row(name: tuple[str, str, str], case: dict[str, Row]) -> tuple[str, ...]:
    times: list[str] = []
    for order in ORDERS:
        found = case.get(order)
        times += ["-", "-"] if found is None else [number(found["time_us"], 1), number(found["setup_us"], 0)]
    took = "-"
    if "clusters" in case:
        took = number(case["clusters"]["order_us"] / case["given"]["time_us"], 0)
    return (*name, *times, took)
