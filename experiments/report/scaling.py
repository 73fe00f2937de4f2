"""What scaling.json says of ranks with a GPU each, and a model of it for more of them than there were."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from experiments.records import Row

HEAD = (
    *("scaling", "rows", "ranks", "transport"),
    *("product", "as fast", "cg", "as fast"),
    *("model, product", "model, cg"),
)
NOTE = (
    "Times in microseconds of a product and of an iteration of `linalg.cg`, in float64 on {device}. "
    "The matrix is a 27-point stencil, divided into ranges of rows. For strong scaling, *as fast* is "
    "relative to one GPU with all rows. For weak scaling, it is the time of one GPU with its share of "
    "the rows over this time. *model* is the prediction of the model below and its error."
)
AHEAD = (
    *("GPUs", "strong, NVLink", "speed", "strong, network", "speed"),
    *("weak, NVLink", "kept", "weak, network", "kept"),
)
AHEAD_NOTE = (
    "These times are predicted, not measured: microseconds of an iteration of `cg`. Strong scaling "
    "has 20 M rows in total and is compared with one GPU. Weak scaling has 5 M rows per GPU; *kept* "
    "is the part of the speed of one GPU."
)

BESIDE = ("ranks", "rows", "iterations", "PETSc's", "difference of the solutions")
BESIDE_NOTE = (
    "One system, solved by `linalg.cg` and by PETSc's KSP with `distributed.petsc(op)` on the cores "
    "of a CPU, to a relative residual of 1e-8. The last column is the norm of the difference over the "
    "norm of the solution."
)

NVLINK = 450e3  # bytes a microsecond in one direction, of an H200
NETWORK = 50e3  # of 400 Gb/s for every GPU
HOP = 5.0  # microseconds from GPU to GPU over a network; assumed
NEAR_HOP = 1.0  # over NVLink; assumed
# Microseconds a row: ranks read two vectors for a sum that one GPU has from the product.
UNFUSED = 16 / 4.25e6
ISLAND = 8  # GPUs that NVLink connects in most hosts
LINKS = {"NVLink": math.inf, "network": ISLAND}  # how many GPUs NVLink connects
SUMS = 2  # over all ranks in an iteration of cg


@dataclass(frozen=True)
class Model:
    """Microseconds of a rank's own work, which are linear in its rows, and of what ranks add to that.

    Attributes
    ----------
    product, cg : (float, float)
        Of the work: once, and per row.
    exchange : float
        Of what of an exchange between two GPUs is not hidden behind the product.
    total : float
        Of a sum over two GPUs. Every further doubling takes two hops.
    """

    product: tuple[float, float]
    cg: tuple[float, float]
    exchange: float
    total: float

    def time(
        self, variant: str, rows: int, ranks: int, reach: float = 0.0, connected: float = math.inf
    ) -> float:
        """Of ranks that have ranges of so many rows in all, and send `reach` entries to each neighbour.

        Beyond as many GPUs as NVLink connects, messages and the doublings of sums go over the network.
        """
        once, per_row = self.product if variant == "product" else self.cg
        own = once + per_row * rows / ranks
        if ranks == 1:
            return own
        far = ranks > connected
        message = 2 * 8 * reach / (NETWORK if far else NVLINK) + (HOP if far else 0.0)
        hidden_behind = self.product[0] + self.product[1] * rows / ranks
        exchange = self.exchange + max(0.0, message - hidden_behind)
        if variant == "product":
            return own + exchange
        near = min(ranks, connected)
        hops = 2 * NEAR_HOP * math.log2(near / 2) + 2 * HOP * math.log2(ranks / near)
        return own + exchange + UNFUSED * rows / ranks + SUMS * (self.total + hops)


def fitted(rows: list[Row]) -> Model | None:
    """The model of the rows of one dtype over NCCL; None if they do not say enough."""
    alone: dict[str, list[Row]] = {"product": [], "cg": []}
    for row in rows:
        if row["ranks"] == 1:
            alone[row["variant"]].append(row)
    pairs = [row for row in rows if row["ranks"] == 2 and row["transport"].startswith("NCCL")]
    if not pairs or any(len({row["rows"] for row in found}) < 2 for found in alone.values()):
        return None
    lines = {variant: _line(found) for variant, found in alone.items()}
    bare = Model(lines["product"], lines["cg"], 0.0, 0.0)
    extra = {
        variant: [r["time_us"] - bare.time(variant, r["rows"], 2) for r in pairs if r["variant"] == variant]
        for variant in lines
    }
    exchange, iteration = (max(0.0, sum(found) / len(found)) for found in extra.values())
    return Model(lines["product"], lines["cg"], exchange, max(0.0, iteration - exchange) / SUMS)


def _line(rows: list[Row]) -> tuple[float, float]:
    low, high = (pick(rows, key=lambda row: row["rows"]) for pick in (min, max))
    slope = (high["time_us"] - low["time_us"]) / (high["rows"] - low["rows"])
    return low["time_us"] - slope * low["rows"], slope


def _name(transport: str) -> str:
    """The one that `explain` describes, as in "NCCL" and "CUDA-aware MPI"."""
    return re.split(r" [(\d]", transport)[0]


def measured(content: dict[str, Any]) -> list[tuple[str, ...]]:
    """The table, as `HEAD` names its columns."""
    rows = _of_float64(content)
    model = fitted(rows)
    times: dict[tuple[str, int, int, str], dict[str, float]] = {}
    for row in rows:
        transport = "-" if row["ranks"] == 1 else _name(row["transport"])
        case = row["scaling"], row["rows"], row["ranks"], transport
        times.setdefault(case, {})[row["variant"]] = row["time_us"]
    body = []
    for (scaling, count, ranks, transport), found in times.items():
        cells = [scaling, f"{count:,}", str(ranks), transport]
        base = next(t for (kind, _, n, _), t in times.items() if (kind, n) == (scaling, 1))
        for variant in ("product", "cg"):
            cells += [f"{found[variant]:,.0f}", f"{base[variant] / found[variant]:.2f}"]
        for variant in ("product", "cg"):
            if model is None or "MPI" in transport:
                cells.append("-")
                continue
            says = model.time(variant, count, ranks)
            cells.append(f"{says:,.0f} ({100 * (says / found[variant] - 1):+.0f} %)")
        body.append(tuple(cells))
    return body


def ahead(content: dict[str, Any]) -> list[tuple[str, ...]]:
    """The table, as `AHEAD` names its columns; empty without a model."""
    rows = _of_float64(content)
    model = fitted(rows)
    if model is None:
        return []
    strong, weak = (
        max(r["rows"] for r in rows if r["ranks"] == 1 and r["scaling"] == s) for s in ("strong", "weak")
    )
    body = []
    for ranks in (8, 16, 32, 64, 128, 256, 512, 1024):
        cells = [f"{ranks:,}"]
        for kind, count in (("strong", strong), ("weak", weak * ranks)):
            reach = round(count ** (1 / 3)) ** 2  # a layer of the grid, as wide as a range's neighbours reach
            for connected in LINKS.values():
                us = model.time("cg", count, ranks, reach, connected)
                alone = model.time("cg", strong if kind == "strong" else weak, 1)
                gain = f"{alone / us:.1f}" if kind == "strong" else f"{100 * alone / us:.0f} %"
                cells += [f"{us:,.0f}", gain]
        body.append(tuple(cells))
    return body


def beside_petsc(content: dict[str, Any]) -> list[tuple[str, ...]]:
    """The table, as `BESIDE` names its columns; empty where PETSc was not asked."""
    return [
        (
            str(row["ranks"]),
            f"{row['rows']:,}",
            str(row["iterations"]),
            str(row["petsc_iterations"]),
            f"{row['difference']:.1e}",
        )
        for row in content["rows"]
        if row["variant"] == "beside petsc"
    ]


def _of_float64(content: dict[str, Any]) -> list[Row]:
    return [row for row in content["rows"] if row["dtype"] == "f64" and row["variant"] in ("product", "cg")]
