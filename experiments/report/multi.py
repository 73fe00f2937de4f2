"""What multi.json says: a table of products over several devices, and the goals."""

from __future__ import annotations

from typing import Any

from experiments.records import Row

from .summary import Mark, Results

GOALS = {2: 1.85, 4: 3.5}  # speed over one GPU with vectors that stay on the devices
LEAST_NNZ = 500_000_000

HEAD = ("matrix", "devices", "dtype", "nnz", "format", "vectors stay", "speed", "TB/s", "NumPy", "speed")
NOTE = (
    "Microseconds per product over several devices. *vectors stay*: x and y lie in pieces on the devices"
    " (`op.distribute`); *NumPy*: they cross the bus in every product. *speed* is that over the first device"
    " alone, *TB/s* are the true bytes of matrix and vectors over the time with vectors that stay."
)

Case = tuple[str, str, tuple[str, ...]]


def _times(content: dict[str, Any]) -> dict[Case, dict[str, Row]]:
    """Rows of a list of devices by variant; in the order measured."""
    found: dict[Case, dict[str, Row]] = {}
    for row in content["rows"]:
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
    if "multi" not in results:
        return []
    times = _times(results["multi"])
    body: list[tuple[str, ...]] = []
    for case, by_variant in times.items():
        staying = by_variant.get("distributed")
        if staying is None:
            continue
        numpy = by_variant.get("numpy")
        body.append(
            (
                case[0], " + ".join(case[2]), case[1], f"{staying['nnz'] / 1e6:.0f}M", staying["format"],
                f"{staying['time_us']:.0f}", _number(_speed(times, case, "distributed")),
                _number(staying["bytes"] / staying["time_us"] / 1e6),
                "-" if numpy is None else f"{numpy['time_us']:.0f}", _number(_speed(times, case, "numpy")),
            )
        )  # fmt: skip
    return body


def marks(results: Results) -> list[Mark]:
    """The goals beside what was measured; none where nothing was."""
    if "multi" not in results or results["multi"]["environment"]["cuda"] is None:
        return []
    times = _times(results["multi"])
    found = []
    for count, goal in GOALS.items():
        speeds = {}
        for case, by_variant in times.items():
            large = min((row["nnz"] for row in by_variant.values()), default=0) >= LEAST_NNZ
            speed = _speed(times, case, "distributed")
            if speed is not None and large and len(case[2]) == count and "cpu" not in case[2]:
                speeds[case[1]] = speed
        if speeds:
            text = ", ".join(f"{dtype} {speed:.2f}x" for dtype, speed in speeds.items())
            name = f"{count} GPUs over one, vectors on the devices"
            found.append(Mark(name, f">= {goal}x", text, min(speeds.values()) >= goal))
    return found


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
