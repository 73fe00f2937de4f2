"""The time of one product, of every library's every variant, on every matrix."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import spmvgpu as sg
from experiments import peers
from experiments.clock import DeviceClock, Launch, Timing, take_turns, wall_us
from experiments.engine import Experiment, Report, Run, Table
from experiments.environment import usable_cores
from experiments.goals import Mark, at_least, at_most
from experiments.peers.base import Variant
from experiments.peers.problem import Problem
from experiments.pictures import OWN, drawing
from experiments.records import Case, Content, Results, Row, geometric_mean, ratio
from experiments.suite import suite_items
from experiments.tables import Cell, mean_and_extremes, table

WALL_SECONDS = 0.3  # spent on the wall-clock timing of one variant on the CPU
BESIDE_SECONDS = 0.05  # the same for SciPy beside a GPU
CASE_SECONDS = 5.0  # building the variants of one matrix beyond this, the optional ones are left out

# -- what is measured ----------------------------------------------------------------------------------------


def products(run: Run, problem: Problem, flushes: bool = True) -> Iterator[Row]:
    """A row for every variant of the run's peers, and for each number of threads on a CPU.

    With `flushes`, small matrices are also measured with nothing in the cache.
    """
    if run.clock is None:
        yield from _on_cpu(run, problem)
    else:
        yield from _on_device(run, run.clock, problem, flushes)


def built_variants(run: Run, problem: Problem, others: Iterable[Any]) -> dict[str, Variant]:
    """The variants that can be built and are right, by "library/variant"; the others are noted."""
    variants = {}
    start = time.perf_counter()
    for peer in others:
        for job in peers.jobs(peer, problem, run.device, run.experiment.variants):
            name = f"{peer.NAME}/{job.name}"
            if run.options.skip and re.search(run.options.skip, name):
                continue
            with _noted(run, problem, name):
                if job.optional and time.perf_counter() - start > CASE_SECONDS:
                    raise peers.NotApplicableError(f"building the others took over {CASE_SECONDS:g} s")
                variant = job.build()
                problem.check(variant.result())
                variants[f"{peer.NAME}/{variant.name}"] = variant
    return variants


def _noted(run: Run, problem: Problem, name: str) -> AbstractContextManager[None]:
    library, _, variant = name.partition("/")
    return run.noted(**problem.case, library=library, variant=variant)


def _on_device(run: Run, clock: DeviceClock, problem: Problem, flushes: bool) -> Iterator[Row]:
    variants = built_variants(run, problem, run.peers)
    launches = captured(run, clock, problem, variants)
    in_cache = {
        name: launch
        for name, launch in launches.items()
        if flushes and variants[name].nbytes + problem.vector_bytes <= clock.l2_bytes
    }
    for cache, times in (("hot", clock.hot(launches)), ("cold", clock.cold(in_cache) if in_cache else {})):
        for name, timing in times.items():
            if timing.us < 0.01:  # a cold time is a difference
                with _noted(run, problem, name):
                    raise peers.NotApplicableError(f"the {cache} time is lost in noise")
            else:
                yield row_of(problem, variants[name], timing, cache=cache, how="graph")
    for variant in variants.values():
        if variant.call is not None:
            if variant.library == "scipy":  # on the CPU of the same machine
                variant.call()
                timing = Timing.of(wall_us(variant.call, BESIDE_SECONDS, least=3))
            else:
                timing = clock.python_calls(variant.call).batch
            yield row_of(problem, variant, timing, cache="hot", how="call")


def captured(
    run: Run, clock: DeviceClock, problem: Problem, variants: Mapping[str, Variant]
) -> dict[str, Launch]:
    """The launches of the variants that a graph can hold; the others are noted."""
    launches = {}
    for name, variant in variants.items():
        if variant.launch is not None:
            with _noted(run, problem, name):
                clock.capture([variant.launch])
                launches[name] = variant.launch
    return launches


def _on_cpu(run: Run, problem: Problem) -> Iterator[Row]:
    """Every thread count builds its own variants: work is split among threads when an operator is made."""
    cores = usable_cores()
    for threads in sorted({1, min(2, cores), cores}):
        others = [peer for peer in run.peers if threads == 1 or peer.THREADED]
        with limit_threads(threads):
            variants = built_variants(run, problem, others)
            calls = {name: variant.call for name, variant in variants.items() if variant.call is not None}
            for name, timing in take_turns(calls, WALL_SECONDS).items():
                yield row_of(problem, variants[name], timing, cache="hot", how="call", threads=threads)


@contextmanager
def limit_threads(threads: int) -> Iterator[None]:
    """Context in which our own loops and MKL use this many threads."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(threads), sg.limit_threads(threads):
        yield


def row_of(problem: Problem, variant: Variant, timing: Timing, **more: Any) -> Row:
    """What is stored of a variant and its time."""
    return {
        **problem.describe(),
        "library": variant.library,
        "variant": variant.name,
        **more,
        **timing.fields(),
        "bytes": int(variant.nbytes + problem.vector_bytes),
        "options": variant.options,
        "setup_seconds": {key: round(seconds, 6) for key, seconds in variant.setup_seconds.items()},
    }


# -- products on a GPU ---------------------------------------------------------------------------------------

BEST_CSR = ("cusparse", "csr_alg")  # library, and the beginning of the names of its CSR algorithms
NOTE = (
    "Times in microseconds per product, for products in a row, replayed from a CUDA graph. *x* is "
    "the time over the time of the fastest cuSPARSE CSR algorithm (for `sell`: of cuSPARSE SELL). "
    "Below 1 is faster. *TB/s* is the bytes of our fastest product over its time; a matrix that "
    "fits the L2 cache exceeds the bandwidth of the memory. CuPy and PyTorch are `A @ x` called "
    "from Python."
)
HEAD = (
    "matrix", "dtype", "nnz", "best cuSPARSE CSR", "csr", "x", "csr tuned", "x",
    "cuSPARSE SELL", "sell", "x", "our fastest", "", "TB/s", "CuPy", "PyTorch",
)  # fmt: skip
COMPARISONS = (
    ("csr", "best cuSPARSE CSR", BEST_CSR),
    ("csr_tuned", "best cuSPARSE CSR", BEST_CSR),
    ("sell", "cuSPARSE SELL", ("cusparse", "sell")),
    ("coo", "best cuSPARSE COO", ("cusparse", "coo")),
    ("auto", "best of all cuSPARSE", ("cusparse", "")),
    ("auto_called", "CuPy `A @ x`, both called from Python", ("cupy", "csr")),
    ("auto_called", "PyTorch `A @ x`, both called from Python", ("torch", "csr")),
)


def over(
    content: Content, variant: str, theirs: tuple[str, str], cache: str = "hot", dtype: str | None = None
) -> dict[str, float]:
    """Our times over those of the fastest of theirs, by case, where there are both."""
    pick = content.row if variant.endswith("_called") else content.best

    def quotient(case: Case) -> float | None:
        ours = content.row(case, "spmvgpu", variant, cache=cache) if dtype in (None, case[1]) else None
        return ratio(ours, pick(case, *theirs, cache=cache))

    return content.each(quotient)


def _more(content: Content) -> list[str]:
    if content.threads:
        return _cpu_parts(content)
    rows = []
    for variant, against, theirs in COMPARISONS:
        for cache in ("hot", "cold"):
            found = over(content, variant, theirs, cache).values()
            if found:
                numbers = (geometric_mean(found), min(found), max(found))
                rows.append((f"`{variant}`", against, cache, len(found), *numbers))
    parts = [table(("spmvgpu", "over", "cache", "cases", "geometric mean", "best", "worst"), rows), NOTE]
    groups = {row["matrix"]: row["group"] for row in content.rows}
    for title, real in (("", False), ("### Real matrices", True)):
        cases = [case for case in content.cases() if (groups[case[0]] == "real") == real]
        if cases:
            parts += [title, table(HEAD, (_cells(content, case) for case in cases))]
    return parts


def _cells(content: Content, case: Case) -> tuple[Any, ...]:
    base, their_sell = content.best(case, *BEST_CSR), content.row(case, "cusparse", "sell")
    csr, tuned, sell = (content.row(case, "spmvgpu", name) for name in ("csr", "csr_tuned", "sell"))
    fastest = content.best(case, "spmvgpu")
    return (
        *case, f"{content.of_case(case)[0]['nnz'] / 1e6:.2f}M", base, csr, ratio(csr, base), tuned,
        ratio(tuned, base), their_sell, sell, ratio(sell, their_sell),
        f"`{fastest['variant']}`" if fastest else None, fastest,
        fastest["bytes"] / fastest["time_us"] / 1e6 if fastest else None,
        content.row(case, "cupy", "csr"), content.row(case, "torch", "csr"),
    )  # fmt: skip


# -- products on a CPU ---------------------------------------------------------------------------------------

MODEST_CACHE = 64 << 20  # a virtual machine may report the cache of a whole socket and have a few cores of it


def over_scipy(
    content: Content, library: str, variant: str, threads: int, larger: float = 0
) -> dict[str, float]:
    """Speed over SciPy on one core, by case, of the matrices with more than so many bytes."""

    def speed(case: Case) -> float | None:
        base = content.row(case, "scipy", "csr", threads=1)
        large = base is not None and base["bytes"] > larger
        return ratio(base, content.row(case, library, variant, threads=threads)) if large else None

    return content.each(speed)


def _cpu_variants(content: Content, threads: int) -> dict[str, tuple[str, str]]:
    """Library and variant by the name that tables have for them."""
    found = dict.fromkeys(
        (row["library"], row["variant"])
        for case in content.cases()
        for row in content.of_case(case, threads=threads)
        if row["library"] != "scipy"
    )
    return {"MKL" if library == "mkl" else variant: (library, variant) for library, variant in found}


def _cpu_parts(content: Content) -> list[str]:
    cache = content.environment.get("cache_bytes") or 0
    measured = [(n, name, key) for n in content.threads for name, key in _cpu_variants(content, n).items()]
    summary: list[Sequence[Cell]] = []
    for threads, name, key in measured:
        speeds = over_scipy(content, *key, threads)
        if speeds:
            least, where = min((speed, case) for case, speed in speeds.items())
            slower = sum(speed < 1 for speed in speeds.values())
            title, mean = name if name == "MKL" else f"`{name}`", geometric_mean(speeds.values())
            summary.append((title, str(threads), len(speeds), mean, f"{least:.2f}, {where}", slower))
    rows: list[Sequence[Cell]] = []
    for case in content.cases():
        base = content.row(case, "scipy", "csr", threads=1)
        if base is not None:
            size = f"{base['bytes'] / 2**20:.0f}" + ("" if base["bytes"] > cache else " *")
            found = (ratio(base, content.row(case, *key, threads=threads)) for threads, _, key in measured)
            rows.append((*case, f"{base['nnz'] / 1e6:.2f}M", size, base, *found))
    heads = (f"{name}, {threads} thr." for threads, name, _ in measured)
    return [
        table(("format", "threads", "cases", "geometric mean", "least", "slower than SciPy"), summary),
        "Speed over SciPy's `A @ x` (on one core) per format and number of threads; above 1 is faster. "
        f"A star marks matrices within the {cache / 2**20:.0f} MiB cache.",
        table(("matrix", "dtype", "nnz", "MiB", "SciPy, us", *heads), rows),
    ]


# -- goals ---------------------------------------------------------------------------------------------------


def goals(content: Content) -> list[Mark]:
    if not content.threads:
        found = []
        for variant in ("csr", "csr_tuned"):
            name = f"{variant} over best cuSPARSE CSR"
            found += at_most(name, over(content, variant, BEST_CSR), mean=0.85, each=1.1)
        return found + at_most(
            "sell over cuSPARSE SELL", over(content, "sell", ("cusparse", "sell")), each=1.0
        )
    # Over matrices larger than the cache that the system reports, and than a part of it; and over all.
    cache, found = content.environment.get("cache_bytes") or 0, []
    for size in sorted({cache, min(cache, MODEST_CACHE)}, reverse=True):
        for threads, goal in ((1, 0.85), (2, 1.6)):
            name = f"CPU csr, {threads} threads, over SciPy, over {size >> 20} MiB"
            found += at_least(name, over_scipy(content, "spmvgpu", "csr", threads, size), each=goal)
    # Those that fit the cache too: what users get by default should not lose.
    for variant in ("csr", "auto"):
        for threads in content.threads:
            name = f"CPU {variant}, {threads} threads, over SciPy, all matrices"
            found += at_least(name, over_scipy(content, "spmvgpu", variant, threads), each=1.0)
    return found


# -- pictures, and the first device in README.md and docs/performance.md -------------------------------------

NEWEST = ("auto", "spmv")  # files that have the chosen format beside other libraries
OVERVIEW = {
    "a product, format chosen, over the best of all cuSPARSE": ("auto", ("cusparse", "")),
    "a product called from Python, over CuPy's": ("auto_called", ("cupy", "csr")),
}
# Label, our variant, the other library's.
BESIDE = {
    "cuSPARSE,\nits fastest algorithm": ("auto", ("cusparse", "")),
    "CuPy,\nA @ x in Python": ("auto_called", ("cupy", "csr")),
    "PyTorch,\nA @ x in Python": ("auto_called", ("torch", "csr")),
    "SciPy,\nA @ x on one core": ("auto_called", ("scipy", "csr")),
}


def overview(results: Results) -> Table:
    """Products on a GPU as lines of the short table, which `jobs.OVERVIEW_HEAD` has the titles of."""
    content = next((results[name] for name in NEWEST if name in results), None)
    for name, comparison in OVERVIEW.items():
        found = over(content, *comparison).values() if content else ()
        if found:
            yield name, len(found), *mean_and_extremes(found), "-", "-", "-"


def speeds(results: Results, dtype: str = "f64") -> dict[str, list[float]]:
    """How many times as fast a product is as each library's, by matrix, in the newest file that has both."""
    found: dict[str, list[float]] = {}
    for label, comparison in BESIDE.items():
        for name in NEWEST:
            quotients = over(results[name], *comparison, dtype=dtype) if name in results else {}
            if quotients and label not in found:
                found[label] = [1 / quotient for quotient in quotients.values()]
    return found


def facts(results: Results) -> Iterator[str]:
    for label, values in speeds(results).items():
        if label.startswith("cuSPARSE"):
            yield (
                f"A product on the GPU is {geometric_mean(values):.1f} times as fast as the best algorithm "
                f"of cuSPARSE (geometric mean of {len(values)} matrices)."
            )


def panel(results: Results) -> Callable[[Any], None] | None:
    beside = speeds(results)
    return partial(_draw_speeds, beside) if beside else None


def _draw_speeds(beside: dict[str, list[float]], ax: Any) -> None:
    """How many times as fast our product is, a line per library and a point per matrix."""
    for line, values in enumerate(reversed(beside.values())):
        spread = [line + 0.3 * ((7 * k) % 11 / 5 - 1) for k in range(len(values))]
        ax.plot(values, spread, ".", color=OWN, alpha=0.3, markersize=5)
        mean = geometric_mean(values)
        ax.plot([mean, mean], [line - 0.38, line + 0.38], color="black", linewidth=1.5)
        ax.annotate(f" {mean:.1f}x", (mean, line + 0.4), ha="center", fontsize=9)
    ax.axvline(1.0, color="black", linewidth=0.8)
    ax.set_yticks(range(len(beside)), list(reversed(beside)), fontsize=8)
    ax.set(xscale="log", xlabel="times as fast as it (bar: geometric mean)", ylim=(-0.6, len(beside) - 0.2))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set_title("One product on the GPU, a point per matrix", fontsize=10)
    ax.grid(axis="x", alpha=0.3)


def chart(content: Content, path: Path) -> None:
    (_cpu_chart if content.threads else _gpu_chart)(content, path)


def _gpu_chart(content: Content, path: Path) -> None:
    """Speed-up over the best cuSPARSE CSR algorithm against the number of entries, one panel per dtype."""
    dtypes = sorted({dtype for _, dtype in content.cases()}, reverse=True)
    with drawing(path, 1, len(dtypes), figsize=(11, 4.2), sharey=True) as (figure, panels):
        for ax, dtype in zip(panels, dtypes, strict=True):
            for variant, label, marker in (
                ("csr", "csr", "o"), ("csr_tuned", "csr, tuned", "^"), ("sell", "sell", "s")
            ):  # fmt: skip
                quotients = over(content, variant, BEST_CSR, dtype=dtype)
                nnz = {" ".join(case): content.of_case(case)[0]["nnz"] for case in content.cases()}
                points = [(nnz[case], 1 / quotient) for case, quotient in quotients.items()]
                if points:
                    ax.plot(*zip(*points, strict=True), marker, label=label, alpha=0.75, markersize=5)
            ax.axhline(1.0, color="black", linewidth=0.8)
            ax.set(xscale="log", yscale="log", xlabel="non-zeros", title=f"float{dtype[1:]}")
            ax.set_yticks([0.25, 0.5, 1, 2, 4], ["1/4", "1/2", "1", "2", "4"])
            ax.minorticks_off()
            ax.grid(alpha=0.3)
        panels[0].set_ylabel("speed over the best cuSPARSE CSR")
        panels[0].legend()
        figure.suptitle(f"{content.environment['device']}, hot, device time")


def _cpu_chart(content: Content, path: Path) -> None:
    """Speed of csr over SciPy per number of threads."""
    with drawing(path, figsize=(8, 4.2)) as (_, (ax,)):
        size = {
            f"{row['matrix']} {row['dtype']}": row["bytes"]
            for row in content.rows
            if row["library"] == "scipy"
        }
        for threads in content.threads:
            found = over_scipy(content, "spmvgpu", "csr", threads)
            sizes = [size[case] / 2**20 for case in found]
            ax.plot(sizes, list(found.values()), "o", label=f"{threads} threads", alpha=0.75, markersize=5)
        ax.axhline(1.0, color="black", linewidth=0.8)
        cache = content.environment.get("cache_bytes")
        if cache:
            ax.axvline(cache / 2**20, color="grey", linestyle=":", label="cache")
        ax.set(
            xscale="log", xlabel="MiB as CSR", ylabel="speed over SciPy", title=content.environment["device"]
        )
        ax.grid(alpha=0.3)
        ax.legend()


EXPERIMENTS = [
    Experiment(
        command="speed",
        about="products of every library; calls from Python, round trips, memory",
        file="spmv",
        items=suite_items,
        peers=peers.ALL,
        measure=products,
        report=Report(
            place=20, title="Products", more=_more, goals=goals, chart=chart,
            overview=overview, facts=facts, panel=panel,
        ),
    )
]  # fmt: skip
