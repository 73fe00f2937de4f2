"""What one gets by default: ``format="auto"`` beside all of cuSPARSE, on matrices of every kind.

``op @ x`` is measured beside CuPy's `A @ x`; on a CPU, MKL and SciPy are the others. The environment variable
CUSPARSE_LIBRARY names another cuSPARSE than CuPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from experiments import families
from experiments.engine import Experiment, Report, Run, Table
from experiments.goals import Mark, at_least
from experiments.records import Case, Content, Row, geometric_mean, ratio

from .products import products

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


def time_empty_kernel(run: Run) -> None:
    """Note the device time of a kernel that does nothing, among others like it in a graph."""
    if run.clock is not None:
        import cupy as cp

        kernel = cp.RawKernel('extern "C" __global__ void nothing() {}', "nothing")
        timing = run.clock.hot({"nothing": lambda stream: kernel((1,), (32,), ())})["nothing"]
        run.record.environment["empty_kernel_us"] = timing.us


def _speeds(content: Content, variant: str, holds: Callable[[Row], bool]) -> dict[str, float]:
    """How many times as fast as the best of cuSPARSE a variant of ours is, where that is asked for."""

    def speed(case: Case) -> float | None:
        own = content.row(case, "spmvgpu", variant)
        return ratio(content.best(case, "cusparse"), own) if own is not None and holds(own) else None

    return content.each(speed)


def _of(dtype: str, family: str | None = None) -> Callable[[Row], bool]:
    """Whether a row is of that type and family, or of any family."""
    return lambda row: bool(family in (None, row["group"]) and row["dtype"] == dtype)


def rows(content: Content) -> Table:
    """A line for every family and type; none without a GPU."""
    groups = {(row["group"], row["dtype"]) for row in content.rows} if content.on_gpu else ()
    for group, dtype in sorted(groups):
        auto, csr = (_speeds(content, name, _of(dtype, group)) for name in ("auto", "csr"))
        if auto:
            least = min(auto, key=lambda case: auto[case])
            chosen = dict.fromkeys(
                f"`{row['options']['format']}`"
                for row in content.rows
                if (row["group"], row["dtype"], row["variant"]) == (group, dtype, "auto")
            )
            means = [geometric_mean(speeds.values()) for speeds in (auto, csr)]
            matrix = least.removesuffix(f" {dtype}")
            yield group, dtype, len(auto), means[0], auto[least], matrix, means[1], ", ".join(chosen)


def note(content: Content) -> str:
    return NOTE.format(version=content.environment["versions"].get("cusparse", "unknown"))


def goals(content: Content) -> list[Mark]:
    return _gpu_goals(content) if content.on_gpu else _cpu_goals(content)


def _gpu_goals(content: Content) -> list[Mark]:
    found = []
    for dtype in ("f64", "f32"):
        speeds = _speeds(content, "auto", _of(dtype))
        found += at_least(f"auto over the best of all cuSPARSE, {dtype}", speeds, mean=MEAN)
        found += at_least(f"the same, no matrix slower, {dtype}", speeds, each=LEAST)
    for family, limits in GOALS.items():
        for dtype, goal in zip(("f64", "f32"), limits, strict=True):
            found += at_least(
                f"the same, {family}, {dtype}", _speeds(content, "auto", _of(dtype, family)), mean=goal
            )
    between = _speeds(content, "auto", lambda row: bool(FEW <= row["nnz"] < MANY))
    found += at_least("the same, 0.1 to 1 M non-zeros", between, mean=SMALL)
    found += _floor_goal(content)
    called = content.each(
        lambda case: ratio(content.row(case, "cupy", "csr"), content.row(case, "spmvgpu", "auto_called"))
    )
    return found + at_least("`op @ x` over CuPy's `A @ x`, both called from Python", called, mean=CALLED)


def _floor_goal(content: Content) -> list[Mark]:
    """Small matrices beside a kernel that does nothing and the time in which a copy moves their bytes."""
    empty, bandwidth = (content.environment[key] for key in ("empty_kernel_us", "copy_kernel_bandwidth"))
    beyond = {
        f"{row['matrix']} {row['dtype']}": row["time_us"] - empty - row["bytes"] / bandwidth * 1e6
        for case in content.cases()
        if (row := content.row(case, "spmvgpu", "auto")) and row["nnz"] < FEW
    }
    if not beyond:
        return []
    worst, within = max(beyond, key=lambda case: beyond[case]), sum(us <= FLOOR for us in beyond.values())
    mean = sum(beyond.values()) / len(beyond)
    text = f"mean {mean:.2f} us, worst {beyond[worst]:.2f} us at {worst}, {within} of {len(beyond)} within"
    name = "auto beyond an empty kernel and its bytes, under 100 k non-zeros"
    return [Mark(name, f"each <= {FLOOR:g} us", text, within == len(beyond))]


def _cpu_goals(content: Content) -> list[Mark]:
    """Matrices beyond the cache beside MKL, with each number of threads."""
    cache, found = content.environment.get("cache_bytes") or 0, []
    for threads in content.threads:

        def speed(case: Case, threads: int = threads) -> float | None:
            theirs = content.row(case, "mkl", "csr", threads=threads)
            large = theirs is not None and theirs["bytes"] > cache
            return ratio(theirs, content.row(case, "spmvgpu", "auto", threads=threads)) if large else None

        speeds = content.each(speed)
        name = f"auto over MKL, matrices beyond the cache, {threads} threads"
        found += at_least(name, speeds, mean=CPU_MEAN) + at_least(
            f"{name}, none slower", speeds, each=CPU_LEAST
        )
    return found


EXPERIMENTS = [
    Experiment(
        command="auto",
        about="what one gets by default beside all of cuSPARSE, on matrices of every kind",
        file="auto",
        items=families.all_items,
        peers={"cuda": ("cusparse", "cupy"), "cpu": ("scipy", "mkl")},
        variants={"csr": {"format": "csr"}, "auto": {"format": "auto"}, "auto_called": {"format": "auto"}},
        start=time_empty_kernel,
        measure=partial(products, flushes=False),
        report=Report(10, "The chosen format", note, HEAD, rows, goals=goals),
    )
]
