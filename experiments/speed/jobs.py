"""Whole jobs, as users run them: matrix to solution, SciPy's loops, start of a process, products from Python.

What is measured is in the folder `jobs`; here stand the command, and what the report says.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from experiments import peers
from experiments.engine import Experiment, Report, Run, Table
from experiments.goals import Mark, at_most
from experiments.jobs import libraries, loops, products, solve, start
from experiments.pictures import GREY, OTHER, OWN
from experiments.records import Content, Results, Row, fastest
from experiments.tables import bold_above_1, duration, machine, mean_and_extremes, short_name, table

THREAD_SETTINGS = (
    "OMP_", "GOMP_", "KMP_", "OPENBLAS_", "GOTO_NUM_THREADS", "MKL_", "BLIS_NUM_THREADS",
    "SPMVGPU_NUM_THREADS", "SPMVGPU_THREADS",
)  # fmt: skip


def prepare(run: Run) -> None:
    """Refuse settings that users do not have, and say what the jobs are measured with."""
    set_here = thread_settings(initial_environment())
    if set_here:
        raise ValueError(
            "the jobs are measured with default settings, as users run them, but this process was started "
            f"with {', '.join(set_here)}; start it without: "
            f"env -u {' -u '.join(set_here)} python -m experiments jobs"
        )
    if run.on_gpu and peers.cupy.available() is not None:
        raise ValueError("a GPU is measured beside CuPy, which is not installed; or give --device cpu")
    facts, missing = run.record.environment, libraries.missing(run.on_gpu)
    if "load_average" not in facts:
        if run.on_gpu:
            facts["versions"].update(peers.cupy.versions())
        facts |= {"missing_peers": missing, "load_average": os.getloadavg()[0]}
        facts["budget_seconds"] = run.options.budget_seconds
        for library, reason in missing.items():
            run.record.skip(reason, library=library)


def initial_environment() -> dict[str, str]:
    """The environment that the process was started with, whatever has been changed since."""
    file = Path("/proc/self/environ")
    if not file.is_file():
        return dict(os.environ)
    entries = (entry.decode(errors="replace") for entry in file.read_bytes().split(b"\0"))
    return {name: value for name, equals, value in (entry.partition("=") for entry in entries) if equals}


def thread_settings(variables: Mapping[str, str]) -> list[str]:
    """Variables that tell some library how many threads to use, or how these wait."""
    return sorted(name for name in variables if name.startswith(THREAD_SETTINGS))


# -- tables --------------------------------------------------------------------------------------------------

CG_LOOP = loops.LOOP.format("cg")
# Columns of the table, in this order: title, library, device.
COLUMNS = (
    ("spmvgpu, GPU", "spmvgpu", "gpu"),
    ("CuPy", "cupy", "gpu"),
    ("PyTorch, GPU", "torch", "gpu"),
    ("spmvgpu, CPU", "spmvgpu", "cpu"),
    ("SciPy", "scipy", "cpu"),
    ("PyTorch, CPU", "torch", "cpu"),
)
NOTE = (
    "All jobs are in float64, measured in one run with default settings. *Matrix to solution* solves "
    "with conjugate gradients to a residual of 1e-8; it includes conversion, choice of the format and "
    "transfers. *Loops* are times per product in SciPy's solvers; they include SciPy's vector work. "
    "Where there are two times, the first is with an empty cache and the second with the cache that "
    "the first left. *x* is the first time over the time of the fastest other library; for the CPU, "
    "of the fastest other library there. Below 1 is faster, **above 1** slower."
)
LOOP_HEAD = ("loop", "matrix", "library", "rows", "time", "vector work", "product alone", "time over both")
LOOP_NOTE = (
    "Times are per product. *Vector work* is the time of the loop around an operator that returns "
    "stored results. *Product alone* is the time of `A @ x` with the operands of the loop."
)

Cases = dict[tuple[str, str], list[Row]]


def cases(content: Content | None) -> Cases:
    """Rows by job and matrix, in the order measured."""
    found: Cases = {}
    for row in content.rows if content else ():
        found.setdefault((row["job"], row["matrix"]), []).append(row)
    return found


def find(rows: Iterable[Row], library: str, device: str) -> list[Row]:
    """The rows of one contestant: two (first, again), one or none."""
    return [row for row in rows if (row["library"], row["device"]) == (library, device)]


def over_the_best(
    rows: Sequence[Row], device: str, everywhere: bool = False, variant: int = 0
) -> float | None:
    """Our time over that of the fastest other library on that device, or on any; None if one is missing."""
    ours = find(rows, "spmvgpu", device)
    others = [
        row["time_us"]
        for row in rows
        if row["library"] != "spmvgpu" and (everywhere or row["device"] == device)
    ]
    return float(ours[variant]["time_us"] / min(others)) if len(ours) > variant and others else None


def _columns(content: Content) -> dict[str, list[tuple[str, str]]]:
    """By device, titles and libraries that were measured."""
    present = {(row["library"], row["device"]) for row in content.rows}
    found: dict[str, list[tuple[str, str]]] = {}
    for title, library, device in COLUMNS:
        if (library, device) in present:
            found.setdefault(device, []).append((title, library))
    return found


def head(content: Content) -> list[str]:
    """The titles; *x* follows the last column of each device."""
    columns = _columns(content).values()
    return ["job", "matrix", "rows", *(title for own in columns for title in (*dict(own), "x"))]


def rows(content: Content) -> Table:
    """One line per job and matrix."""
    for (job, matrix), found in cases(content).items():
        cells = [job, matrix, f"{found[0]['rows']:,}"]
        for device, columns in _columns(content).items():
            for _, library in columns:
                times = (duration(row["time_us"]) for row in find(found, library, device))
                cells.append(" / ".join(times) or "-")
            cells.append(bold_above_1(over_the_best(found, device, everywhere=device == "gpu")))
        yield cells


def more(content: Content) -> Iterator[str]:
    """What the time budget, or a failure, left out; and where SciPy's loops spend their time."""
    names = []
    for entry in content.skipped:
        what = " ".join(str(entry[key]) for key in ("job", "matrix", "library", "device") if key in entry)
        names.append(f"{what} ({entry['reason']})")
    yield f"Jobs not measured: {'; '.join(names)}." if names else ""
    yield from ("### SciPy's loops", LOOP_NOTE, table(LOOP_HEAD, _loop_rows(content), words=3))


def _loop_rows(content: Content) -> Table:
    for (job, matrix), found in cases(content).items():
        for row in found:
            if "free_us" in row:
                times = (duration(row[key]) for key in ("time_us", "free_us", "product_us"))
                name = f"{row['library']}, {row['device'].upper()}"
                yield job, matrix, name, f"{row['rows']:,}", *times, _over_parts(row)


def _over_parts(row: Row) -> float:
    return float(row["time_us"] / (row["free_us"] + row["product_us"]))


# -- goals ---------------------------------------------------------------------------------------------------

LOOP_LIMIT, CUPY_LIMIT, OVERHEAD_LIMIT = 1.15, 1.0, 0.6


def goals(content: Content) -> Iterator[Mark]:
    found = cases(content)
    for device in ("gpu", "cpu"):
        yield from _loop_goals(found, device)
        names = dict.fromkeys(job for job, _ in found if job != start.JOB and not job.startswith("SciPy's"))
        for job in names:
            for variant, suffix in ((0, ""), (1, ", with what the first time left in the cache")):
                ratios = {
                    matrix: over_the_best(rows, device, variant=variant)
                    for (other, matrix), rows in found.items()
                    if other == job
                }
                name = f"{job}{suffix}, {device.upper()}, over the fastest other library there"
                yield from at_most(name, ratios, each=1.0)


def _loop_goals(found: Cases, device: str) -> Iterator[Mark]:
    over_parts, over_cupy, beyond = {}, {}, {}
    for (job, matrix), rows in found.items():
        ours = [row for row in find(rows, "spmvgpu", device) if "free_us" in row]
        theirs = find(rows, "cupy", device)
        case = f"{job}, {matrix}"
        if ours:
            over_parts[case] = _over_parts(ours[0])
        if ours and theirs:
            over_cupy[case] = ours[0]["time_us"] / theirs[0]["time_us"]
            rest = theirs[0]["time_us"] - theirs[0]["free_us"]
            if rest > 0:  # else the loop's vector work hides all that the operator takes
                beyond[case] = (ours[0]["time_us"] - ours[0]["free_us"]) / rest
    where = f"SciPy's loops, operator on the {device.upper()}"
    yield from at_most(f"{where}, over vector work + product alone", over_parts, LOOP_LIMIT)
    yield from at_most(f"{where}, over the same around CuPy", over_cupy, CUPY_LIMIT)
    yield from at_most(f"{where}, beyond vector work, over the same around CuPy", beyond, OVERHEAD_LIMIT)


# -- the first device in README.md and docs/performance.md, and docs/solvers.md ------------------------------

# What the short table sums up: the beginning of the jobs' names, and what it calls them.
OVERVIEW = (
    (solve.JOB, "from SciPy matrix to solution"),
    (loops.DEVICE_CG, "an iteration of conjugate gradients on the device"),
    ("SciPy's", "a product in SciPy's own solvers"),
    ("1,000 products", "1,000 products, NumPy vectors"),
    ("op @ X", "`op @ X`, 8 and 32 columns"),
    (start.JOB, "from the start of Python to the first product"),
)


def overview(results: Results) -> Table:
    """Our (first) time over that of the fastest other library: mean, best and worst of all cases."""
    found = cases(results.get("jobs"))
    for begin, name in OVERVIEW:
        chosen = [rows for (job, _), rows in found.items() if job.startswith(begin)]
        if chosen:
            gpu = mean_and_extremes(over_the_best(rows, "gpu", everywhere=True) for rows in chosen)
            cpu = mean_and_extremes(over_the_best(rows, "cpu") for rows in chosen)
            yield name, str(len(chosen)), *gpu, *cpu


def facts(results: Results) -> Iterator[str]:
    """How fast solutions are beside other libraries."""
    solutions = list(_of_job(results, solve.JOB).values())
    if solutions:
        environment = results["jobs"].environment
        gpu, cpu = short_name(environment["device"]), short_name(environment["cpu"])
        if environment["cuda"] is not None:
            over_cupy, over_scipy = (_range(solutions, "gpu", other) for other in ("cupy", "scipy"))
            yield (
                f"On one {gpu}, spmvgpu goes from a SciPy matrix to a solution {over_cupy} times as fast as "
                f"CuPy and {over_scipy} times as fast as SciPy."
            )
        over_scipy = _range(solutions, "cpu", "scipy")
        cores = f"{environment['cores']} CPU cores ({cpu})"
        yield f"On {cores}, it is {over_scipy} times as fast as SciPy."


def _of_job(results: Results, begin: str) -> dict[str, list[Row]]:
    """By matrix, the rows of a job, which `begin` begins the name of."""
    found = cases(results.get("jobs"))
    return {matrix: rows for (job, matrix), rows in found.items() if job.startswith(begin)}


def _range(solutions: list[list[Row]], device: str, library: str) -> str:
    """From the least to the most, how many times as fast we are."""
    found = []
    for rows in solutions:
        ours = find(rows, "spmvgpu", device)
        theirs = [row["time_us"] for row in rows if row["library"] == library]
        if ours and theirs:
            found.append(min(theirs) / ours[0]["time_us"])
    if not found:
        return "-"
    ends = (f"{value:.1f}" if value < 9.95 else f"{value:.0f}" for value in (min(found), max(found)))
    return " to ".join(ends)


def against(results: Results) -> Iterator[str]:
    """Jobs for which others are as good or better, with their measured times."""

    def smallest(begin: str) -> list[Row]:
        return min(_of_job(results, begin).values(), key=lambda rows: rows[0]["rows"], default=[])

    system, products = smallest(solve.JOB), smallest("1,000 products")
    ours, scipy = (find(system, library, "cpu") for library in ("spmvgpu", "scipy"))
    if ours and scipy and ours[0]["time_us"] > scipy[0]["time_us"]:
        yield (
            f"**Small systems on a CPU.** A system of {ours[0]['rows']:,} rows takes "
            f"{duration(ours[0]['time_us'])} to solve, and {duration(scipy[0]['time_us'])} with SciPy."
        )
    ours = find(products, "spmvgpu", "gpu") or find(products, "spmvgpu", "cpu")
    best = fastest(products)
    if ours and best and best["library"] != "spmvgpu":
        names = {"torch": "PyTorch", "cupy": "CuPy", "scipy": "SciPy"}
        other = f"{names[best['library']]} on the {best['device'].upper()}"
        yield (
            f"**Small products with NumPy vectors.** 1,000 products with {best['rows']:,} rows "
            f"take {duration(ours[0]['time_us'])}, and {duration(best['time_us'])} with {other}."
        )


# Label, library, device, colour, marker. Markers of CPUs are hollow.
SOLVERS = (
    ("spmvgpu, GPU", "spmvgpu", "gpu", OWN, "o"),
    ("CuPy, GPU", "cupy", "gpu", OTHER, "s"),
    ("spmvgpu, CPU", "spmvgpu", "cpu", OWN, "o"),
    ("SciPy, CPU", "scipy", "cpu", GREY, "D"),
)


def panel(results: Results) -> Callable[[Any], None] | None:
    solutions = _of_job(results, solve.JOB)
    return partial(_draw_solutions, solutions) if solutions else None


def _draw_solutions(solutions: dict[str, list[Row]], ax: Any) -> None:
    """Time from a SciPy matrix to the solution, a line per system."""
    systems = sorted(solutions, key=lambda matrix: solutions[matrix][0]["nnz"], reverse=True)
    for label, library, device, colour, marker in SOLVERS:
        points = [
            (found[0]["time_us"] / 1e6, line)
            for line, matrix in enumerate(systems)
            if (found := find(solutions[matrix], library, device))
        ]
        if points:
            faces = colour if device == "gpu" else "white"
            style = {"color": colour, "markerfacecolor": faces, "markersize": 8, "label": label}
            ax.plot(*zip(*points, strict=True), marker, **style)
    names = [f"{_kind(matrix)}\n{solutions[matrix][0]['rows']:,} rows" for matrix in systems]
    ax.set_yticks(range(len(systems)), names, fontsize=8)
    ax.set(xscale="log", xlabel="seconds", ylim=(-0.5, len(systems) - 0.5))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set_title("From SciPy matrix to solution, conjugate gradients", fontsize=10)
    ax.grid(alpha=0.3)
    ax.set_axisbelow(True)
    ax.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=4, frameon=False)


def _kind(matrix: str) -> str:
    """What a system of the jobs is, in words: "Poisson, 2-D" for poisson2d_100."""
    found = re.match(r"poisson(\d)d", matrix)
    return f"Poisson, {found[1]}-D" if found else "elasticity, 3-D" if matrix.startswith("elast") else matrix


SOLVER_HEAD = ("machine", "rows", "SciPy's `cg`", "of which vector work", "`spmvgpu.linalg.cg`")


def solver_rows(contents: Iterable[Content]) -> Table:
    """Time of an iteration of cg, in SciPy around the operator and in `spmvgpu.linalg`, per machine."""
    lines: dict[str, Sequence[str]] = {}
    for content in contents:
        found = cases(content)
        for device in ("gpu", "cpu"):
            measured = [
                (loop[0], own[0])
                for (job, matrix), rows in found.items()
                if job == CG_LOOP
                and (loop := find(rows, "spmvgpu", device))
                and (own := find(found.get((loops.DEVICE_CG, matrix), []), "spmvgpu", device))
            ]
            if measured:
                slow, fast = max(measured, key=lambda pair: pair[0]["rows"])
                cpu = {"device": content.environment["cpu"], "cuda": None}
                name = machine(content.environment | (cpu if device == "cpu" else {}))
                times = (slow["time_us"], slow["free_us"], fast["time_us"])
                lines.setdefault(name, (name, f"{slow['rows']:,}", *map(duration, times)))
    return lines.values()


def solver_table(contents: list[Content]) -> str:
    return table(SOLVER_HEAD, solver_rows(contents), words=1)


# -- the command ---------------------------------------------------------------------------------------------

REPORT = Report(
    0, "Whole jobs", NOTE, head, rows, more=more, goals=goals, overview=overview, facts=facts,
    against=against, panel=panel, insets={("solvers.md", "solvers"): solver_table},
)  # fmt: skip


def experiment(
    name: str,
    job: Callable[[Run], Iterator[Row]],
    reserve: float,
    file: str = "jobs",
    report: Report = REPORT,
) -> Experiment:
    """A job, with the part of the time that is kept for it."""
    return Experiment(
        command="jobs",
        about="whole jobs: matrix to solution, SciPy's loops, start of a process",
        file=file,
        name=name,
        dtypes=(),
        seconds=240,
        reserve=reserve,
        start=prepare,
        measure=job,
        report=report,
    )


# In this order PyTorch, with threads of its own, is loaded last.
EXPERIMENTS = [
    experiment("solve", solve.solve, 0.35),
    experiment("loops", loops.loops, 0.27),
    experiment("start", start.start, 0.09),
    experiment("thousand", products.thousand, 0.09),
    experiment("columns", products.columns, 0.09),
]
