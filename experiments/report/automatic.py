"""What auto.json says: the chosen format beside the best algorithm of cuSPARSE, by family, and the goals."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from experiments.records import Row, Times, geometric_mean, ratio
from experiments.speed import families

from .markdown import number
from .summary import Mark, Results, format_mark

HEAD = ("family", "dtype", "cases", "auto, times as fast", "least", "at", "csr", "formats")
NOTE = (
    'Speed of `format="auto"` over the best algorithm of cuSPARSE {version} for the matrix (CSR with '
    "and without preprocessing, COO, SELL, BSR and, where that version has it, SpMVOp). The columns "
    "are the geometric mean over a family of matrices, the least value and its matrix, the mean for "
    "`csr`, and the formats that were chosen. Above 1 is faster."
)
FLOOR = 0.5  # microseconds
FEW, MANY = 100_000, 1_000_000  # non-zeros of small matrices
# Family -> by how much `auto` is to be faster in float64 and in float32.
GOALS = {
    families.CONSTANT_7: (4.0, 4.0),
    families.CONSTANT_27: (6.0, 6.0),
    families.STENCIL: (1.4, 1.8),
    families.SYMMETRIC_FEM: (1.8, 1.8),
    families.UNSYMMETRIC_FEM: (1.35, 1.7),
    families.FEW_VALUES: (2.0, 2.0),
    families.GRAPH: (1.6, 1.6),
    families.TALL: (2.0, 2.0),
    families.UNIFORM: (1.1, 1.4),
}
MEAN, LEAST, CALLED, SMALL = 1.8, 0.98, 4.0, 1.8
# On a CPU, over MKL, with matrices beyond the cache.
CPU_MEAN, CPU_LEAST = 1.3, 0.95

Case = tuple[str, str]


def _times(results: Results) -> Times | None:
    """Of a GPU; None where nothing was measured on one."""
    if "auto" not in results or results["auto"]["environment"]["cuda"] is None:
        return None
    return Times(results["auto"])


def _speeds(times: Times, variant: str, holds: Callable[[Row], bool]) -> dict[Case, float]:
    """How many times as fast as the best of cuSPARSE a variant of ours is, where that is asked for."""
    found = {}
    for case in times.cases():
        own = times.row(*case, "spmvgpu", variant)
        over = ratio(times.best(*case, "cusparse"), own)
        if own is not None and over is not None and holds(own):
            found[case] = over
    return found


def rows(results: Results) -> list[tuple[str, ...]]:
    """The table, as `HEAD` names its columns: a line for every family and type; empty without a GPU."""
    times = _times(results)
    if times is None:
        return []
    groups = dict.fromkeys((row["group"], row["dtype"]) for row in results["auto"]["rows"])
    body: list[tuple[str, ...]] = []
    for group, dtype in sorted(groups):
        of_group = _of(group, dtype)
        auto, csr = _speeds(times, "auto", of_group), _speeds(times, "csr", of_group)
        if not auto:
            continue
        least = min(auto, key=lambda case: auto[case])
        chosen = dict.fromkeys(_format(times.row(*case, "spmvgpu", "auto")) for case in auto)
        numbers = (number(geometric_mean(auto.values())), number(auto[least]), least[0])
        body.append(
            (group, dtype, str(len(auto)), *numbers, number(geometric_mean(csr.values())), ", ".join(chosen))
        )
    return body


def _of(group: str | None, dtype: str) -> Callable[[Row], bool]:
    """Whether a row is of that type and family; None: of any."""
    return lambda row: bool(group in (None, row["group"]) and row["dtype"] == dtype)


def _format(row: Row | None) -> str:
    return "-" if row is None else f"`{row['options']['format']}`"


def note(results: Results) -> str:
    return NOTE.format(version=results["auto"]["environment"]["versions"].get("cusparse", "unknown"))


def marks(results: Results) -> list[Mark]:
    """The goals beside what was measured; none where nothing was."""
    times = _times(results)
    if times is None:
        return _cpu_marks(Times(results["auto"])) if "auto" in results else []
    found = []
    for dtype in ("f64", "f32"):
        speeds = _speeds(times, "auto", _of(None, dtype))
        found += _mark(f"auto over the best of all cuSPARSE, {dtype}", speeds, MEAN)
        found += _mark(f"the same, no matrix slower, {dtype}", speeds, LEAST, of_each=True)
    for family, goals in GOALS.items():
        for dtype, goal in zip(("f64", "f32"), goals, strict=True):
            found += _mark(f"the same, {family}, {dtype}", _speeds(times, "auto", _of(family, dtype)), goal)
    between = _speeds(times, "auto", lambda row: bool(FEW <= row["nnz"] < MANY))
    found += _mark("the same, 0.1 to 1 M non-zeros", between, SMALL)
    return found + _floor_marks(times) + _called_marks(times)


def _cpu_marks(times: Times) -> list[Mark]:
    """Matrices beyond the cache beside MKL, with each number of threads."""
    cache, found = times.environment.get("cache_bytes") or 0, []
    for threads in times.threads:
        speeds = {}
        for case in times.cases():
            theirs = times.row(*case, "mkl", "csr", threads=threads)
            over = ratio(theirs, times.row(*case, "spmvgpu", "auto", threads=threads))
            if theirs is not None and over is not None and theirs["bytes"] > cache:
                speeds[case] = over
        name = f"auto over MKL, matrices beyond the cache, {threads} threads"
        found += _mark(name, speeds, CPU_MEAN) + _mark(
            f"{name}, none slower", speeds, CPU_LEAST, of_each=True
        )
    return found


def _mark(name: str, speeds: dict[Case, float], goal: float, of_each: bool = False) -> list[Mark]:
    if not speeds:
        return []
    mean, least = geometric_mean(speeds.values()), min(speeds, key=lambda case: speeds[case])
    below = sum(speed < goal for speed in speeds.values())
    text = (
        f"geometric mean {mean:.2f}, least {speeds[least]:.2f} at {' '.join(least)}, {below} below {goal:g}"
    )
    reached = below == 0 if of_each else mean >= goal
    return [Mark(f"{name}, {len(speeds)} cases", f"{'each ' if of_each else ''}>= {goal:g}", text, reached)]


def _floor_marks(times: Times) -> list[Mark]:
    """Small matrices beside a kernel that does nothing and the time in which a copy moves their bytes."""
    empty, bandwidth = (times.environment[key] for key in ("empty_kernel_us", "copy_kernel_bandwidth"))
    own = [times.row(*case, "spmvgpu", "auto") for case in times.cases()]
    beyond = {
        f"{row['matrix']} {row['dtype']}": row["time_us"] - empty - row["bytes"] / bandwidth * 1e6
        for row in own
        if row is not None and row["nnz"] < FEW
    }
    if not beyond:
        return []
    worst = max(beyond, key=lambda case: beyond[case])
    within = sum(time <= FLOOR for time in beyond.values())
    mean = sum(beyond.values()) / len(beyond)
    text = f"mean {mean:.2f} us, most {beyond[worst]:.2f} us at {worst}, {within} within"
    name = f"auto beyond an empty kernel and its bytes, under 100 k non-zeros, {len(beyond)} cases"
    return [Mark(name, f"<= {FLOOR:g} us", text, within == len(beyond))]


def _called_marks(times: Times) -> list[Mark]:
    speeds = {}
    for case in times.cases():
        over = ratio(times.row(*case, "cupy", "csr"), times.row(*case, "spmvgpu", "auto_called"))
        if over is not None:
            speeds[case] = over
    return _mark("`op @ x` over CuPy's `A @ x`, both called from Python", speeds, CALLED)


def summary(results: Results) -> str:
    """A line per family, and the goals."""
    lines: Iterable[str] = ("  ".join(row) for row in (HEAD, *rows(results)))
    return "\n".join([*lines, *(format_mark(mark) for mark in marks(results))])
