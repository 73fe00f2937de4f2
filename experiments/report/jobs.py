"""What jobs.json says: a table of whole jobs, where SciPy's loops spend their time, and the goals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from experiments.records import Row, geometric_mean

from .markdown import machine, mean_and_extremes
from .summary import Mark, Results, format_mark

LOOP_LIMIT, CUPY_LIMIT, OVERHEAD_LIMIT = 1.15, 1.0, 0.6
SOLVE, CG_LOOP, OWN_CG = "matrix to solution", "SciPy's cg loop", "iteration of the library's own cg"
START = "process start to first product"

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

Case = tuple[str, str]


def cases(results: Results) -> dict[Case, list[Row]]:
    """Rows by job and matrix, in the order measured."""
    found: dict[Case, list[Row]] = {}
    for row in results.get("jobs", {}).get("rows", []):
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
    if len(ours) <= variant or not others:
        return None
    quotient: float = ours[variant]["time_us"] / min(others)
    return quotient


def _columns(found: dict[Case, list[Row]]) -> list[tuple[str, str, str]]:
    present = {(row["library"], row["device"]) for rows in found.values() for row in rows}
    return [column for column in COLUMNS if column[1:] in present]


def head(results: Results) -> tuple[str, ...]:
    """The titles of `table_rows`; *x* follows the last column of each device."""
    titles = ["job", "matrix", "rows"]
    columns = _columns(cases(results))
    for device in ("gpu", "cpu"):
        own = [title for title, _, where in columns if where == device]
        titles += [*own, "x"] if own else []
    return tuple(titles)


# What the short table sums up: the beginning of the jobs' names, and what it calls them.
OVERVIEW = (
    (SOLVE, "from SciPy matrix to solution"),
    (OWN_CG, "an iteration of conjugate gradients on the device"),
    ("SciPy's", "a product in SciPy's own solvers"),
    ("1,000 products", "1,000 products, NumPy vectors"),
    ("op @ X", "`op @ X`, 8 and 32 columns"),
    (START, "from the start of Python to the first product"),
)
OVERVIEW_HEAD = ("job", "cases", "GPU: mean", "best", "worst", "CPU: mean", "best", "worst")


def overview_rows(results: Results) -> list[tuple[str, ...]]:
    """Our (first) time over that of the fastest other library: mean, best and worst of all cases."""
    found = cases(results)
    lines: list[tuple[str, ...]] = []
    for begin, name in OVERVIEW:
        chosen = [rows for (job, _), rows in found.items() if job.startswith(begin)]
        if chosen:
            gpu = mean_and_extremes(over_the_best(rows, "gpu", everywhere=True) for rows in chosen)
            cpu = mean_and_extremes(over_the_best(rows, "cpu") for rows in chosen)
            lines.append((name, str(len(chosen)), *gpu, *cpu))
    return lines


def table_rows(results: Results) -> list[tuple[str, ...]]:
    """One line per job and matrix."""
    found = cases(results)
    devices = [where for where in ("gpu", "cpu") if any(where == column[2] for column in _columns(found))]
    lines = []
    for (job, matrix), rows in found.items():
        cells = [job, matrix, f"{rows[0]['rows']:,}"]
        for device in devices:
            for _, library, where in _columns(found):
                if where == device:
                    cells.append(
                        " / ".join(duration(row["time_us"]) for row in find(rows, library, where)) or "-"
                    )
            quotient = over_the_best(rows, device, everywhere=device == "gpu")
            cells.append(
                "-" if quotient is None else f"**{quotient:.2f}**" if quotient > 1 else f"{quotient:.2f}"
            )
        lines.append(tuple(cells))
    return lines


def duration(us: float) -> str:
    """Three digits, with the unit."""
    unit, size = ("us", 1.0) if us < 999.5 else ("ms", 1e3) if us < 999.5e3 else ("s", 1e6)
    value = us / size
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f} {unit}"


def loop_rows(results: Results) -> list[tuple[str, ...]]:
    """Where SciPy's loops spend their time."""
    lines = []
    for (job, matrix), rows in cases(results).items():
        for row in rows:
            if "free_us" in row:
                parts = (duration(row[key]) for key in ("time_us", "free_us", "product_us"))
                name = f"{row['library']}, {row['device'].upper()}"
                lines.append((job, matrix, name, f"{row['rows']:,}", *parts, f"{_over_parts(row):.2f}"))
    return lines


def _over_parts(row: Row) -> float:
    quotient: float = row["time_us"] / (row["free_us"] + row["product_us"])
    return quotient


SOLVER_HEAD = ("machine", "rows", "SciPy's `cg`", "of which vector work", "`spmvgpu.linalg.cg`")


def solver_rows(devices: Iterable[Results]) -> list[tuple[str, ...]]:
    """Time of an iteration of cg, in SciPy around the operator and in `spmvgpu.linalg`, per machine."""
    lines: dict[str, tuple[str, ...]] = {}
    for results in devices:
        found = cases(results)
        for device in ("gpu", "cpu"):
            measured = [
                (loop[0], own[0])
                for (job, matrix), rows in found.items()
                if job == CG_LOOP
                and (loop := find(rows, "spmvgpu", device))
                and (own := find(found.get((OWN_CG, matrix), []), "spmvgpu", device))
            ]
            if measured:
                slow, fast = max(measured, key=lambda pair: pair[0]["rows"])
                environment = results["jobs"]["environment"]
                where = (
                    environment
                    if device == "gpu"
                    else {**environment, "device": environment["cpu"], "cuda": None}
                )
                times = (slow["time_us"], slow["free_us"], fast["time_us"])
                name = machine(where)
                lines.setdefault(name, (name, f"{slow['rows']:,}", *map(duration, times)))
    return list(lines.values())


def skipped_text(results: Results) -> str:
    """What the time budget, or a failure, left out."""
    entries = results.get("jobs", {}).get("skipped", [])
    names = []
    for entry in entries:
        what = " ".join(str(entry[key]) for key in ("job", "matrix", "library", "device") if key in entry)
        names.append(f"{what} ({entry['reason']})")
    return f"Jobs not measured: {'; '.join(names)}." if names else ""


def marks(results: Results) -> list[Mark]:
    """The goals beside what was measured; none where nothing was."""
    found = cases(results)
    goals: list[Mark] = []
    for device in ("gpu", "cpu"):
        goals += _loop_marks(found, device)
        jobs = dict.fromkeys(job for job, _ in found if job != START and not job.startswith("SciPy's"))
        for job in jobs:
            for variant, suffix in ((0, ""), (1, ", with what the first time left in the cache")):
                ratios = {
                    matrix: quotient
                    for (other, matrix), rows in found.items()
                    if other == job and (quotient := over_the_best(rows, device, variant=variant)) is not None
                }
                name = f"{job}{suffix}, {device.upper()}, over the fastest other library there"
                goals += _mark(name, ratios, 1.0)
    return goals


def _loop_marks(found: dict[Case, list[Row]], device: str) -> list[Mark]:
    over_parts, over_cupy, beyond = {}, {}, {}
    for (job, matrix), rows in found.items():
        ours = [row for row in find(rows, "spmvgpu", device) if "free_us" in row]
        if not ours:
            continue
        case = f"{job}, {matrix}"
        over_parts[case] = _over_parts(ours[0])
        theirs = find(rows, "cupy", device)
        if theirs:
            over_cupy[case] = ours[0]["time_us"] / theirs[0]["time_us"]
            rest = theirs[0]["time_us"] - theirs[0]["free_us"]
            if rest > 0:  # else the loop's vector work hides all that the operator takes
                beyond[case] = (ours[0]["time_us"] - ours[0]["free_us"]) / rest
    where = f"SciPy's loops, operator on the {device.upper()}"
    return [
        *_mark(f"{where}, over vector work + product alone", over_parts, LOOP_LIMIT),
        *_mark(f"{where}, over the same around CuPy", over_cupy, CUPY_LIMIT),
        *_mark(f"{where}, beyond vector work, over the same around CuPy", beyond, OVERHEAD_LIMIT),
    ]


def _mark(name: str, ratios: dict[str, float], limit: float) -> list[Mark]:
    if not ratios:
        return []
    worst, where = max((value, case) for case, value in ratios.items())
    above = sum(value > limit for value in ratios.values())
    positive = [value for value in ratios.values() if value > 0]
    text = f"geometric mean {geometric_mean(positive):.2f}, worst {worst:.2f} at {where}"
    text += f", {above} of {len(ratios)} above"
    return [Mark(name, f"<= {limit:g}", text, worst <= limit)]


def summary(content: dict[str, object]) -> str:
    """The goals and what was left out, in a few lines."""
    results: Results = {"jobs": content}
    return "\n".join([*map(format_mark, marks(results)), skipped_text(results)])
