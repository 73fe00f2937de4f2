"""What updates.json says: how long new values take in every format, in products, and the goal."""

from __future__ import annotations

from experiments.records import Row

from .markdown import number
from .summary import Mark, Results

HEAD = ("matrix", "format", "product", "new values", "products", "from NumPy", "map, bytes per non-zero")
NOTE = (
    "Times in microseconds of `op.update_values(data)` until it is complete, for values on the GPU, "
    "also in products of the same format; the time for values from NumPy; and the memory that an "
    "operator keeps from the first update on."
)
GOAL = 3


def _cases(results: Results) -> list[dict[str, Row]]:
    """The rows of every matrix and format, by source."""
    found: dict[tuple[str, str], dict[str, Row]] = {}
    for row in results["updates"]["rows"] if "updates" in results else []:
        found.setdefault((row["matrix"], row["variant"]), {})[row["source"]] = row
    return [case for case in found.values() if "device" in case]


def _products(case: dict[str, Row]) -> float:
    return float(case["device"]["time_us"] / case["device"]["product_us"])


def rows(results: Results) -> list[tuple[str, ...]]:
    """The table, as `HEAD` names its columns."""
    return [
        (
            row["matrix"],
            row["variant"],
            number(row["product_us"], 1),
            number(row["time_us"], 0),
            number(_products(case), 1),
            number(case["numpy"]["time_us"], 0),
            number(row["map_bytes"] / row["nnz"], 2),
        )
        for case in _cases(results)
        for row in [case["device"]]
    ]


def marks(results: Results) -> list[Mark]:
    """The goal beside what was measured; none where nothing was."""
    products = {f"{c['device']['matrix']} {c['device']['variant']}": _products(c) for c in _cases(results)}
    if not products:
        return []
    worst = max(products, key=lambda name: products[name])
    within = sum(found <= GOAL for found in products.values())
    text = f"{within} of {len(products)} within, most {products[worst]:.1f} at {worst}"
    return [Mark("new values, in products", f"<= {GOAL}", text, within == len(products))]
