"""What multi.json and multi_cg.json say: a table of products and cg over several devices, and the goals."""

from __future__ import annotations

import itertools

from experiments.records import Row

from .summary import Mark, Results

GOALS = {2: 1.85, 4: 3.5}  # speed over one GPU with vectors that stay on the devices
VARIANTS = {"distributed": "vectors on the devices", "cg": "an iteration of cg"}
LEAST_NNZ = 500_000_000
FILES = ("multi", "multi_cg")

HEAD = (
    "matrix",
    "devices",
    "dtype",
    "nnz",
    "format",
    "vectors stay",
    "speed",
    "TB/s",
    "NumPy",
    "speed",
    "cg",
    "speed",
)
NOTE = (
    "Times in microseconds per product over several devices. *vectors stay*: x and y stay on the "
    "devices (`op.distribute`). *NumPy*: they are transferred with every product. *cg*: an iteration "
    "of `linalg.cg`, whose vectors stay too. *speed* is relative to the first device alone. *TB/s* is "
    "the bytes of matrix and vectors over the time with vectors that stay."
)

Case = tuple[str, str, tuple[str, ...]]


def _times(results: Results) -> dict[Case, dict[str, Row]]:
    """Rows of a list of devices by variant; in the order measured."""
    found: dict[Case, dict[str, Row]] = {}
    for row in [row for name in FILES if name in results for row in results[name]["rows"]]:
        case = (row["matrix"], row["dtype"], tuple(row["devices"]))
        found.setdefault(case, {})[row["variant"]] = row
    return found


def _speed(times: dict[Case, dict[str, Row]], case: Case, variant: str) -> float | None:
    """Over the first device of the list by itself."""
    alone = times.get((case[0], case[1], case[2][:1]), {}).get(variant)
    row = times[case].get(variant)
    return alone["time_us"] / row["time_us"] if alone and row else None


def rows(results: Results) -> list[tuple[str, ...]]:
    """The table, as `HEAD` names its columns; empty where nothing was measured."""
    times = _times(results)
    body: list[tuple[str, ...]] = []
    for case, by_variant in times.items():
        staying = by_variant.get("distributed")
        rate = None if staying is None else staying["bytes"] / staying["time_us"] / 1e6
        row = staying or by_variant.get("cg")
        if row is None:
            continue
        measured = {
            variant: (_time(by_variant.get(variant)), _number(_speed(times, case, variant)))
            for variant in ("distributed", "numpy", "cg")
        }
        body.append(
            (
                case[0], " + ".join(case[2]), case[1], f"{row['nnz'] / 1e6:.0f}M", row["format"],
                *measured["distributed"], _number(rate), *measured["numpy"], *measured["cg"],
            )
        )  # fmt: skip
    return body


def marks(results: Results) -> list[Mark]:
    """The goals beside what was measured; none where nothing was."""
    if any(results[name]["environment"]["cuda"] is None for name in FILES if name in results):
        return []
    times = _times(results)
    found = []
    for (variant, what), (count, goal) in itertools.product(VARIANTS.items(), GOALS.items()):
        speeds = {}
        for case, by_variant in times.items():
            large = min((row["nnz"] for row in by_variant.values()), default=0) >= LEAST_NNZ
            speed = _speed(times, case, variant)
            if speed is not None and large and len(case[2]) == count and "cpu" not in case[2]:
                speeds[case[1]] = speed
        if speeds:
            text = ", ".join(f"{dtype} {speed:.2f}x" for dtype, speed in speeds.items())
            name = f"{count} GPUs over one, {what}"
            found.append(Mark(name, f">= {goal}x", text, min(speeds.values()) >= goal))
    return found


def _time(row: Row | None) -> str:
    return "-" if row is None else f"{row['time_us']:.0f}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
