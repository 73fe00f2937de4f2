"""Results in a few lines of text, and the marks that the project has set itself."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from experiments.records import Row, Times, geometric_mean, ratio

Results = dict[str, dict[str, Any]]
MODEST_CACHE = 64 << 20  # a virtual machine may report the cache of a whole socket and have a few cores of it
BEST_CSR = "csr_alg"  # prefix of all of cuSPARSE's CSR algorithms


@dataclass(frozen=True)
class Mark:
    """A goal and what was measured."""

    name: str
    goal: str
    measured: str
    reached: bool | None  # None: not measured


def summary(results: Results) -> str:
    """One line per matrix and dtype, then the marks. Short: consoles keep only the end of what is printed."""
    lines = []
    if "spmv" in results:
        times = Times(results["spmv"])
        lines += _cpu_lines(times) if times.threads else _device_lines(times)
    lines += [format_mark(mark) for mark in marks(results)]
    skipped = results.get("spmv", {}).get("skipped", [])
    failed = [
        row for row in skipped if row.get("library") == "spmvgpu" and "lost in noise" not in row["reason"]
    ]
    for row in failed[:3]:
        lines.append(
            f"ours skipped: {row.get('matrix')} {row.get('dtype')} {row.get('variant')}: {row['reason'][:90]}"
        )
    if len(failed) > 3:
        lines.append(f"... and {len(failed) - 3} more of ours skipped")
    return "\n".join(lines)


def format_mark(mark: Mark) -> str:
    verdict = {True: "reached", False: "MISSED", None: "not measured"}[mark.reached]
    return f"{verdict:>12}  {mark.name}: {mark.measured} (goal {mark.goal})"


def _device_lines(times: Times) -> list[str]:
    lines = ["us: best cuSPARSE CSR|ours csr, over it|csr tuned over it|cuSPARSE SELL, ours, over it"]
    for matrix, dtype in times.cases():
        base = times.best(matrix, dtype, "cusparse", BEST_CSR)
        csr = times.row(matrix, dtype, "spmvgpu", "csr")
        tuned = times.row(matrix, dtype, "spmvgpu", "csr_tuned")
        their_sell = times.row(matrix, dtype, "cusparse", "sell")
        sell = times.row(matrix, dtype, "spmvgpu", "sell")
        lines.append(
            f"{matrix[:16]:16} {dtype[1:]}{short_us(base)} {_short_name(base):3}"
            f"|{short_us(csr)} {_x(csr, base)}|{_x(tuned, base)} {_short_options(tuned):6}"
            f"|{short_us(their_sell)}{short_us(sell)} {_x(sell, their_sell)}"
        )
    return lines


def _cpu_lines(times: Times) -> list[str]:
    lines = ["speed over SciPy (on 1 thread), per format and number of threads; c: fits the cache"]
    cache = times.environment.get("cache_bytes") or 0
    for matrix, dtype in times.cases():
        base = times.row(matrix, dtype, "scipy", "csr", threads=1)
        parts = []
        for threads in times.threads:
            for row in times.rows(matrix, dtype, threads=threads):
                if row["library"] != "scipy" and base is not None:
                    name = row["variant"] if row["library"] == "spmvgpu" else row["library"]
                    parts.append(f"{name}@{threads} {base['time_us'] / row['time_us']:.2f}")
        mark = "c" if base is not None and base["bytes"] <= cache else " "
        lines.append(f"{matrix[:17]:17} {dtype[1:]}{mark} {short_us(base)} us " + " ".join(parts))
    return lines


def short_us(row: Row | None) -> str:
    """Three digits of a time."""
    if row is None:
        return "     -"
    us = row["time_us"]
    return f"{us:6.2f}" if us < 10 else f"{us:6.1f}" if us < 1000 else f"{us:6.0f}"


def _x(row: Row | None, base: Row | None) -> str:
    quotient = ratio(row, base)
    return "   -" if quotient is None else f"{quotient:4.2f}"


def _short_name(row: Row | None) -> str:
    return "-" if row is None else row["variant"].replace("csr_alg", "a").replace("_preprocess", "p")


def _short_options(row: Row | None) -> str:
    """What tuning chose: the kernel's first letters and the numbers that are not automatic."""
    if row is None:
        return ""
    values = [value for key, value in row.get("options", {}).items() if key != "format" and value]
    return "".join(value[:2] if isinstance(value, str) else f" {value}" for value in values)


def marks(results: Results) -> list[Mark]:
    """The project's goals beside what these results say."""
    found: list[Mark] = []
    if "spmv" in results:
        times = Times(results["spmv"])
        found += _cpu_marks(times) if times.threads else _csr_marks(times)
    return found + _python_marks(results) + _memory_marks(results)


def _csr_marks(times: Times) -> list[Mark]:
    found = []
    for variant in ("csr", "csr_tuned"):
        ratios = _ratios(times, ("spmvgpu", variant), ("cusparse", BEST_CSR))
        mean, (worst, where) = geometric_mean(ratios.values()), _worst(ratios)
        reached = mean <= 0.85 and worst <= 1.1 if ratios else None
        found.append(
            Mark(
                f"{variant} over best cuSPARSE CSR, {len(ratios)} cases",
                "mean <= 0.85, worst <= 1.10",
                f"geometric mean {mean:.3f}, worst {worst:.2f} at {where}, {_above(ratios, 1.1)} above 1.10",
                reached,
            )
        )
    ratios = _ratios(times, ("spmvgpu", "sell"), ("cusparse", "sell"))
    mean, (worst, where) = geometric_mean(ratios.values()), _worst(ratios)
    text = f"geometric mean {mean:.3f}, worst {worst:.2f} at {where}, {_above(ratios, 1.0)} above 1.00"
    name = f"sell over cuSPARSE SELL, {len(ratios)} cases"
    return [*found, Mark(name, "<= 1.00", text, worst <= 1.0 if ratios else None)]


def _ratios(times: Times, ours: tuple[str, str], theirs: tuple[str, str]) -> dict[str, float]:
    """Our variant over the best of theirs with that prefix, for every case that has both."""
    found = {}
    for matrix, dtype in times.cases():
        quotient = ratio(times.row(matrix, dtype, *ours), times.best(matrix, dtype, *theirs))
        if quotient is not None:
            found[f"{matrix} {dtype}"] = quotient
    return found


def _worst(ratios: dict[str, float]) -> tuple[float, str]:
    return max(((value, case) for case, value in ratios.items()), default=(math.nan, "-"))


def _above(ratios: dict[str, float], limit: float) -> int:
    return sum(value > limit for value in ratios.values())


def scipy_speeds(
    times: Times, variant: str, threads: int, library: str = "spmvgpu", larger_than: float = 0
) -> dict[str, float]:
    """Speed over SciPy on one core, by case, of the matrices with more than so many bytes."""
    speeds = {}
    for matrix, dtype in times.cases():
        base = times.row(matrix, dtype, "scipy", "csr", threads=1)
        speed = ratio(base, times.row(matrix, dtype, library, variant, threads=threads))
        if base is not None and speed is not None and base["bytes"] > larger_than:
            speeds[f"{matrix} {dtype}"] = speed
    return speeds


def _cpu_marks(times: Times) -> list[Mark]:
    """Over matrices larger than the cache the system reports, and than a part of it; and over all of them."""
    cache = times.environment.get("cache_bytes") or 0
    found = []
    for size in sorted({cache, min(cache, MODEST_CACHE)}, reverse=True):
        for threads, goal in ((1, 0.85), (2, 1.6)):
            speeds = scipy_speeds(times, "csr", threads, larger_than=size)
            if speeds:
                least, where = min((value, case) for case, value in speeds.items())
                text = f"geometric mean {geometric_mean(speeds.values()):.2f}x, least {least:.2f}x at {where}"
                name = f"CPU csr, {threads} threads, over SciPy, {len(speeds)} cases over {size >> 20} MiB"
                found.append(Mark(name, f">= {goal}x", text, least >= goal))
    # Those that fit the cache too: what users get by default should not lose.
    for variant in ("csr", "auto"):
        for threads in times.threads:
            speeds = scipy_speeds(times, variant, threads)
            if speeds:
                slower = {case: speed for case, speed in speeds.items() if speed < 1}
                text = f"geometric mean {geometric_mean(speeds.values()):.2f}x, {len(slower)} slower"
                text += "".join(f", {case} {speed:.2f}x" for case, speed in slower.items())
                name = f"CPU {variant}, {threads} threads, over SciPy, all {len(speeds)} cases"
                found.append(Mark(name, ">= 1x", text, not slower))
    return found


def _python_marks(results: Results) -> list[Mark]:
    found = []
    rows = [row for row in results.get("overhead", {}).get("rows", []) if row.get("overhead_us") is not None]
    ours = [row for row in rows if row["library"] == "spmvgpu" and row["variant"].endswith("op @ x")]
    if ours:
        worst = max(ours, key=lambda row: row["overhead_us"])
        theirs = [row["overhead_us"] for row in rows if row["library"] == "cupy"]
        text = f"worst {worst['overhead_us']:.1f} us at {worst['matrix']} {worst['dtype']}"
        text += f", host time of a call up to {max(row['issue_us'] for row in ours):.1f} us"
        text += f"; CuPy's A @ x up to {max(theirs):.1f} us" if theirs else ""
        found.append(Mark("overhead of op @ cupy_array", "< 12 us", text, worst["overhead_us"] < 12))
    pairs: dict[str, dict[str, float]] = {}
    for row in results.get("roundtrip", {}).get("rows", []):
        pairs.setdefault(f"{row['matrix']} {row['dtype']}", {})[row["library"]] = row["time_us"]
    ratios = {case: pair["spmvgpu"] / pair["cupy"] for case, pair in pairs.items() if len(pair) == 2}
    if ratios:
        worst_ratio, where = _worst(ratios)
        text = f"geometric mean {geometric_mean(ratios.values()):.2f}x, worst {worst_ratio:.2f}x at {where}"
        text += f", {_above(ratios, 0.4)} of {len(ratios)} above 0.40"
        found.append(Mark("NumPy round trip over CuPy's", "<= 0.40x", text, worst_ratio <= 0.4))
    return found


def _memory_marks(results: Results) -> list[Mark]:
    found = []
    rows = results.get("memory", {}).get("rows", [])
    for row in rows:
        if row["measure"] == "nbytes" and row["allocator"] == "device":
            off = abs(row["bytes_taken"] / row["bytes"] - 1)
            text = f"{row['bytes']} said, {row['bytes_taken']} taken ({off:.2%} off)"
            found.append(
                Mark(f"nbytes of {row['variant']} on {row['matrix']}", "within 1 %", text, off <= 0.01)
            )
        elif row["measure"] == "cycles":
            lost = row["device_bytes_lost"]
            resident = row["resident_bytes_lost"]
            text = f"resident {resident / 2**20:+.1f} MiB" + (
                "" if lost is None else f", device {lost} bytes lost"
            )
            # The resident set breathes by a few pages; a leak of whole operators would be far more.
            reached = (lost is None or lost <= 0) and resident < 16 * 2**20
            found.append(
                Mark(
                    f"{row['cycles']} cycles of {row['variant']} on {row['matrix']}", "no leak", text, reached
                )
            )
    return found
