"""Text, tables and pictures of README.md and the docs, made from the files in ``benchmarks/results``.

``python -m experiments report`` writes the sentences and the pictures of README.md. The build of the docs
writes the tables of its pages, and a page for each device.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import linear_regression, median
from typing import Any, TypeVar

from .records import RESULTS, Row, geometric_mean
from .tables import duration, machine, pivot, short_name, table

Results = dict[str, Any]  # of one device: parsed files by name
Case = tuple[str, str]  # matrix and dtype
Key = TypeVar("Key")

SOLUTION, CG_LOOP, OWN_CG = "matrix to solution", "SciPy's cg loop", "iteration of the library's own cg"
SERIES, START = "1,000 products", "process start"
CALLED = "auto_called"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments report", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--readme", type=Path, default=Path("README.md"))
    parser.add_argument("--pictures", type=Path, default=Path("docs/plots"))
    options = parser.parse_args(arguments)
    devices = list(devices_in(options.results).values())
    first = first_complete(devices)
    if first is None:
        parser.error(f"no jobs.json and auto.json of one device in {options.results}; measure them first")
    draw_overview(first, options.pictures)
    write_between(options.readme, "tasks", "\n".join(f"- {line}" for line in tasks(devices)) + "\n")
    write_between(options.readme, "facts", f"\n{' '.join(facts(first))}\n\n")
    write_between(options.readme, "against", "\n".join(f"- {line}" for line in against(first)) + "\n")
    return 0


def devices_in(folder: Path) -> dict[str, Results]:
    """Results by device; GPUs first."""
    found: dict[str, Results] = {}
    for path in sorted(folder.glob("*/*.json")):
        found.setdefault(path.parent.name, {})[path.stem] = json.loads(path.read_text(encoding="utf-8"))
    return dict(sorted(found.items(), key=lambda pair: environment_of(pair[1])["cuda"] is None))


def environment_of(results: Results) -> dict[str, Any]:
    return dict(next(iter(results.values()))["environment"])


def first_complete(devices: Iterable[Results]) -> Results | None:
    """The device that README.md is about."""
    return next((results for results in devices if {"jobs", "auto"} <= results.keys()), None)


def rows_of(results: Results, name: str) -> list[Row]:
    return list(results[name]["rows"]) if name in results else []


def repository() -> str:
    """The address of the repository, which pyproject.toml has."""
    metadata = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r'^Repository = "(.+)"', metadata, re.MULTILINE)
    assert found is not None
    return found[1]


def write_between(path: Path, marker: str, text: str) -> None:
    """Replace what stands between the two marker lines."""
    begin, end = f"<!-- {marker}:begin -->\n", f"<!-- {marker}:end -->"
    before, first, rest = path.read_text(encoding="utf-8").partition(begin)
    _, last, after = rest.partition(end)
    if not first or not last:
        raise SystemExit(f"{path} lacks the lines {begin.strip()} and {end}, between which results go")
    path.write_text(f"{before}{begin}{text}{end}{after}", encoding="utf-8")


# -- comparisons ---------------------------------------------------------------------------------------------


def least(rows: Iterable[Row], library: str, variant: str | None = None) -> dict[Case, float]:
    """The least time of a library, or of one of its variants, by case, with a warm cache."""
    found: dict[Case, float] = {}
    for row in rows:
        if (row["library"], row["cache"]) == (library, "hot") and variant in (None, row["variant"]):
            case = row["matrix"], row["dtype"]
            found[case] = min(row["time_us"], found.get(case, row["time_us"]))
    return found


def over(above: dict[Key, float], below: dict[Key, float]) -> list[float]:
    return [above[case] / below[case] for case in above if case in below]


def job_times(results: Results, begin: str) -> list[dict[str, Any]]:
    """Matrix, rows and times by "library device" of each case of a job; our times are with an empty cache."""
    cases: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows_of(results, "jobs"):
        if row["job"].startswith(begin) and row["variant"] != "again":
            case = cases.setdefault(
                (row["job"], row["matrix"]), {"matrix": row["matrix"], "rows": row["rows"], "us": {}}
            )
            case["us"][f"{row['library']} {row['device']}"] = row["time_us"]
    return list(cases.values())


def over_others(case: dict[str, Any], device: str, elsewhere: bool = False) -> float | None:
    """Our time over that of the fastest other library on a device, or on any; None if one is missing."""
    us = case["us"]
    others = [us[key] for key in us if not key.startswith("spmvgpu") and (elsewhere or key.endswith(device))]
    ours = us.get(f"spmvgpu {device}")
    return float(ours / min(others)) if ours and others else None


# -- README.md -----------------------------------------------------------------------------------------------


def tasks(devices: list[Results]) -> Iterator[str]:
    """What a reader may want to do: the call, and what it was measured to take."""
    solves = _solves(devices, library="hypre")
    large = [row for row in solves if row["part"] == "whole" and row["rows"] >= 1_000_000]
    quotients = over(_times(large, library="cupy"), _times(large, variant="solve()"))
    where = solves[0]["machine"]
    systems = f"{len(quotients)} systems of a million unknowns or more"
    yield (
        f"**Solve a system:** `x = sg.linalg.solve(A, b)`. "
        f"On one {where} it is {_as_fast(quotients, 'the `cg` of CuPy', systems)}."
    )
    poisson = [row for row in large if row["matrix"] == "poisson3d_160"]
    us = min(_times(poisson, variant="once").values())
    others = {"AMGX": "amgx", "hypre": "hypre"}
    them = {name: _times(poisson, library=library) for name, library in others.items()}
    times = ", ".join(f"{name} {duration(min(found.values()))}" for name, found in them.items() if found)
    yield (
        '**Multigrid on the GPU in one call:** `x, info = sg.linalg.cg(A, b, rtol=1e-8, M="amg")`. '
        f"From a Poisson matrix with {poisson[0]['rows']:,} rows to the solution it takes "
        f"{duration(us)} on one {where} ({times})."
    )
    spectra = _solves(devices, part="eigenvalues")
    laplacian = [row for row in spectra if row["matrix"] == "laplacian2d_1000"]
    us, scipy = (
        min(_times(laplacian, variant="smallest", library=name).values()) for name in ("spmvgpu", "scipy")
    )
    ours, cupy = (_times(spectra, variant="svds", library=name) for name in ("spmvgpu", "cupy"))
    largest = max(cupy, key=cupy.__getitem__)
    yield (
        '**Eigenvalues and singular values:** `sg.linalg.eigsh(A, k=6, sigma=0.0, inner="cg", '
        'preconditioner="amg")`, `svds`. '
        f"With {laplacian[0]['rows'] / 1e6:.1f} million rows and `tol=1e-8`, they take {duration(us)} and "
        f"{duration(ours[largest])} on one {spectra[0]['machine']}. SciPy's `eigsh` takes {duration(scipy)}, "
        f"CuPy's `svds` {duration(cupy[largest])}."
    )
    yield _gradients()
    yield _several(devices)


def _solves(devices: list[Results], **fields: str) -> list[Row]:
    """The rows of solves on the first device with a row that has these fields."""
    for results in devices:
        rows = rows_of(results, "solve")
        if any(_has(row, fields) for row in rows):
            return [row | {"machine": machine(environment_of(results))} for row in rows]
    raise SystemExit(f"no solve.json has rows with {fields}; measure them first")


def _has(row: Row, fields: dict[str, str]) -> bool:
    return all(row.get(name) == value for name, value in fields.items())


def _times(rows: Iterable[Row], **fields: str) -> dict[str, float]:
    """Least times of rows with these fields, by matrix."""
    found: dict[str, float] = {}
    for row in rows:
        if _has(row, fields):
            found[row["matrix"]] = min(row["time_us"], found.get(row["matrix"], row["time_us"]))
    return found


def _gradients() -> str:
    """What the notebook on gradients has stored."""
    text = (Path(__file__).parents[1] / "notebooks" / "gradients.ipynb").read_text(encoding="utf-8")
    outputs = (output for cell in json.loads(text)["cells"] for output in cell.get("outputs", ()))
    printed = "".join(line for output in outputs for line in output.get("text", ()))
    (device,) = re.findall(r"^cuda:0: (.+)$", printed, re.MULTILINE)
    (unknowns,) = re.findall(r"^([\d,]+ unknowns)", printed, re.MULTILINE)
    ms = dict(re.findall(r"^(\w+(?:, spmvgpu, amg| alone)) +([\d.]+) ms", printed, re.MULTILINE))
    ours, alone = (
        " and ".join(duration(1e3 * float(ms[f"{library}{way}"])) for library in ("PyTorch", "JAX"))
        for way in (", spmvgpu, amg", " alone")
    )
    return (
        '**Gradients through a solve:** `x = sg.torch.solve(A, b, "cg", M="amg")` or `sg.jax.solve`. '
        f"A gradient with {unknowns} takes {ours} on one {short_name(device)}, and {alone} with PyTorch and "
        "JAX alone."
    )


def _several(devices: list[Results]) -> str:
    """An iteration with the first matrix on the first device of which more than two were there."""
    most: dict[int, float] = {}
    for results in devices:
        rows = rows_of(results, "multi_cg")
        rows = [row for row in rows if row["matrix"] == rows[0]["matrix"]]
        us = {row["pieces"]: row["time_us"] for row in rows}
        if len(us) > 2:
            where, unknowns, most = machine(environment_of(results)), rows[0]["rows"], us
            break
    else:
        raise SystemExit("no multi_cg.json is about more than two devices; measure them first")
    return (
        '**Several GPUs and hosts:** `op = sg.aslinearoperator(A, device=["cuda:0", "cuda:1"])`, or MPI. '
        f"An iteration of `cg` with {unknowns:,} unknowns takes {duration(most[1])} on one {where}, and "
        f"{duration(most[max(most)])} on {max(most)}."
    )


def _as_fast(quotients: list[float], as_what: str, of_what: str) -> str:
    """By median and range."""
    middle, low, high = (
        f"{value:.1f}" if value < 9.95 else f"{value:.0f}"
        for value in (median(quotients), min(quotients), max(quotients))
    )
    return f"{middle} times as fast as {as_what} (median of {of_what}; {low} to {high})"


def facts(results: Results) -> Iterator[str]:
    """How fast solutions and products are beside other libraries."""
    cases, environment = job_times(results, SOLUTION), results["jobs"]["environment"]

    def times(device: str, library: str, name: str) -> str:
        found = [
            min(us for key, us in case["us"].items() if key.startswith(library)) / case["us"][ours]
            for case in cases
            if (ours := f"spmvgpu {device}") in case["us"] and any(library in key for key in case["us"])
        ]
        return _as_fast(found, name, f"{len(found)} systems")

    device = short_name(environment["device"])
    if environment["cuda"] is not None:
        yield (
            "From a SciPy matrix to a solution by conjugate gradients, transfer and conversion included, one "
            f"{device} with spmvgpu is {times('gpu', 'cupy', 'with CuPy')}."
        )
    cores = f"{environment['cores']} CPU cores ({short_name(environment['cpu'])})"
    yield f"On {cores}, spmvgpu is {times('cpu', 'scipy', 'SciPy')}."
    rows = [row for row in rows_of(results, "auto") if row["dtype"] == "f64"]
    speeds = over(least(rows, "cusparse"), least(rows, "spmvgpu", "auto"))
    if speeds:
        which = _as_fast(speeds, "the fastest algorithm of cuSPARSE", f"{len(speeds)} matrices")
        yield f"A product on the {device} is {which}."


def against(results: Results) -> Iterator[str]:
    """Jobs for which others are as good or better, with their measured times."""
    smallest: list[dict[str, Any]] = [
        min(job_times(results, begin), key=lambda case: case["rows"], default={"us": {}})
        for begin in (SOLUTION, SERIES)
    ]
    ours, scipy = (smallest[0]["us"].get(f"{library} cpu", 0.0) for library in ("spmvgpu", "scipy"))
    if ours > scipy:
        yield (
            f"**Small systems on a CPU.** A system of {smallest[0]['rows']:,} rows takes "
            f"{duration(ours)} to solve, and {duration(scipy)} with SciPy."
        )
    us = smallest[1]["us"]
    best = min(us, key=us.__getitem__, default="spmvgpu")
    if not best.startswith("spmvgpu"):
        library, device = best.split()
        name = {"torch": "PyTorch", "cupy": "CuPy", "scipy": "SciPy"}[library]
        yield (
            f"**Small products with NumPy vectors.** 1,000 products with {smallest[1]['rows']:,} rows take "
            f"{duration(us.get('spmvgpu gpu', us['spmvgpu cpu']))}, and {duration(us[best])} with {name} "
            f"on the {device.upper()}."
        )
    products = [
        row["time_us"] / row["product_us"]
        for row in rows_of(results, "setup")
        if (row["variant"], row["source"]) == ("auto", "scipy") and row["nnz"] >= 1_000_000
    ]
    if products:
        yield (
            f"**Few products.** Making an operator on the GPU takes as long as "
            f"{round(median(products), -1):.0f} products (median of {len(products)} matrices with a million "
            "non-zeros or more, transfer included)."
        )


OURS, GREY, OTHER = "#2a5db0", "#8a8f98", "#c0792a"


def draw_overview(results: Results, folder: Path) -> None:
    """Draw whole jobs, and products, beside other libraries. On a phone, letters keep 10 pixels."""
    import matplotlib

    matplotlib.use("Agg")  # needs no display
    from matplotlib import pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in (("solutions", _draw_solutions), ("products", _draw_products)):
        figure, ax = plt.subplots(layout="constrained", figsize=(4.8, 4.2))
        draw(results, ax)
        ax.xaxis.set_major_formatter("{x:g}")
        ax.grid(axis="x", alpha=0.3)
        ax.set_axisbelow(True)
        figure.savefig(folder / f"{name}.png", dpi=176)
        plt.close(figure)


def _draw_solutions(results: Results, ax: Any) -> None:
    """Time from a SciPy matrix to the solution, a line per system; markers of CPUs are hollow."""
    environment = results["jobs"]["environment"]
    cases = job_times(results, SOLUTION)[::-1]
    for label, key, colour, marker in (
        ("spmvgpu, GPU", "spmvgpu gpu", OURS, "o"), ("CuPy, GPU", "cupy gpu", OTHER, "s"),
        ("spmvgpu, CPU", "spmvgpu cpu", OURS, "o"), ("SciPy, CPU", "scipy cpu", GREY, "D"),
    ):  # fmt: skip
        points = [(case["us"][key] / 1e6, line) for line, case in enumerate(cases) if key in case["us"]]
        faces = colour if key.endswith("gpu") else "white"
        ax.plot(
            *zip(*points, strict=True), marker, color=colour, markerfacecolor=faces, markersize=8, label=label
        )
    names = [f"{case['matrix']}\n{case['rows']:,} rows" for case in cases]
    ax.set_yticks(range(len(cases)), names)
    ax.set(xscale="log", xlabel="seconds from matrix to solution", ylim=(-0.5, len(cases) - 0.5))
    device, cpu = short_name(environment["device"]), short_name(environment["cpu"])
    ax.set_title(f"{device}, and {environment['cores']} cores of a {cpu}, float64", fontsize=11)
    ax.legend(loc="upper center", bbox_to_anchor=(0.35, -0.15), ncols=2, frameon=False)


def _draw_products(results: Results, ax: Any) -> None:
    """How many times as fast our product is, a line per library and a point per matrix."""
    rows = [row for row in rows_of(results, "auto") if row["dtype"] == "f64"]
    beside = {
        "CuPy,\nA @ x\nin Python": over(least(rows, "cupy", "csr"), least(rows, "spmvgpu", CALLED)),
        "cuSPARSE,\nits fastest\nalgorithm": over(least(rows, "cusparse"), least(rows, "spmvgpu", "auto")),
    }
    for line, values in enumerate(beside.values()):
        spread = [line + 0.3 * ((7 * k) % 11 / 5 - 1) for k in range(len(values))]
        ax.plot(values, spread, ".", color=OURS, alpha=0.3, markersize=6)
        middle = median(values)
        ax.plot([middle, middle], [line - 0.38, line + 0.38], color="black", linewidth=1.5)
        ax.annotate(f" {middle:.1f}x", (middle, line + 0.4), ha="center")
    ax.axvline(1.0, color="black", linewidth=0.8)
    ax.set_yticks(range(len(beside)), list(beside))
    ax.set(xscale="log", xlabel="times as fast (bar: median)", ylim=(-0.6, len(beside) - 0.2))
    device = short_name(results["auto"]["environment"]["device"])
    ax.set_title(f"a product on the {device}, a point per matrix, float64", fontsize=11)


# -- tables of the docs --------------------------------------------------------------------------------------

OVERVIEW = {
    SOLUTION: "from SciPy matrix to solution",
    OWN_CG: "an iteration of conjugate gradients on the device",
    "SciPy's": "a product in SciPy's own solvers",
    SERIES: "1,000 products, NumPy vectors",
    "op @ X": "`op @ X`, 8 and 32 columns",
    START: "from the start of Python to the first product",
}  # by the beginning of the names of jobs


def tables(folder: Path) -> dict[str, str]:
    """The tables of the docs by name."""
    devices = list(devices_in(folder).values())
    named = {
        name: [row | {"machine": machine(environment_of(results))} for results in devices
               for row in rows_of(results, name)]
        for name in ("solve", "scaling")
    }  # fmt: skip
    parts = {part: list(rows) for part, rows in groupby(named["solve"], lambda row: row["part"])}
    spectra = parts.get("eigenvalues", []) + parts.get("least squares", [])
    halos = json.loads((folder / "halos.json").read_text(encoding="utf-8"))["rows"]
    return {
        "overview": _overview(first_complete(devices)),
        "cg": _cg_iterations(devices),
        "choices": _choices(parts.get("which", [])),
        "whole": pivot(parts.get("whole", []), "kind machine rows", "library variant"),
        "spectra": pivot(spectra, "kind machine variant rows", "library"),
        "scaling": _scaling(named["scaling"]),
        "more_gpus": more_gpus(devices),
        "halos": _halos(halos),
    }  # fmt: skip


def _overview(results: Results | None) -> str:
    """Our times over those of the fastest other library: mean, best and worst of all cases."""

    def cells(quotients: Iterable[float | None]) -> list[str]:
        known = [quotient for quotient in quotients if quotient is not None]
        found = (geometric_mean(known), min(known), max(known)) if known else ()
        return [f"**{value:.2f}**" if value > 1 else f"{value:.2f}" for value in found] or ["-"] * 3

    if results is None:
        return ""
    lines: list[list[object]] = []
    for begin, name in OVERVIEW.items():
        cases = job_times(results, begin)
        on_gpu, on_cpu = (
            cells(over_others(case, device, elsewhere=device == "gpu") for case in cases)
            for device in ("gpu", "cpu")
        )
        lines.append([name, len(cases), *on_gpu, *on_cpu])
    rows = rows_of(results, "auto")
    for name, ours, theirs in (
        ("a product, format chosen, over the best of all cuSPARSE", "auto", least(rows, "cusparse")),
        ("a product called from Python, over CuPy's", CALLED, least(rows, "cupy", "csr")),
    ):
        quotients = over(least(rows, "spmvgpu", ours), theirs)
        lines.append([name, len(quotients), *cells(quotients), *cells([])])
    head = ("job", "cases", "GPU: mean", "best", "worst", "CPU: mean", "best", "worst")
    return table(head, lines, words=1)


def _cg_iterations(devices: list[Results]) -> str:
    """Time of an iteration of cg, in SciPy around the operator and in `spmvgpu.linalg`, per machine."""
    lines: dict[str, list[object]] = {}
    for results in devices:
        rows = [row for row in rows_of(results, "jobs") if row["library"] == "spmvgpu"]
        own = {(row["matrix"], row["device"]): row["time_us"] for row in rows if row["job"] == OWN_CG}
        loops = [row for row in rows if row["job"] == CG_LOOP and (row["matrix"], row["device"]) in own]
        for row in sorted(loops, key=lambda row: -row["rows"]):
            environment = results["jobs"]["environment"]
            cpu = {"device": environment["cpu"], "cuda": None} if row["device"] == "cpu" else {}
            times = row["time_us"], row["free_us"], own[row["matrix"], row["device"]]
            name = machine(environment | cpu)
            lines.setdefault(name, [name, f"{row['rows']:,}", *map(duration, times)])
    head = ("machine", "rows", "SciPy's `cg`", "of which vector work", "`spmvgpu.linalg.cg`")
    return table(head, lines.values(), words=1)


def _choices(rows: list[Row]) -> str:
    """The choice of `solve` for each system, beside the fastest method by name."""

    def lines() -> Iterator[list[object]]:
        for _, group in groupby(rows, lambda row: (row["machine"], row["matrix"])):
            own, *others = sorted(group, key=lambda row: row["solver"] != "solve()")
            best = min((row for row in others if "time_us" in row), key=lambda row: row["time_us"])
            name = best["solver"] + (
                "" if best["preconditioner"] == "none" else f" with {best['preconditioner']}"
            )
            times = (duration(row["time_us"]) if "time_us" in row else None for row in (own, best))
            yield [
                own["kind"],
                own.get("chose", own["outcome"]),
                name,
                own["machine"],
                f"{own['rows']:,}",
                *times,
            ]

    return table(
        ("system", "`solve` chose", "fastest by name", "machine", "rows", "`solve`", "fastest"), lines(), 4
    )


def _scaling(rows: list[Row]) -> str:
    """Times over ranks with GPUs, and how many times as fast as one GPU with all rows, or with its share."""
    times: dict[tuple[str, int, int, str], dict[str, float]] = {}
    for row in rows:
        if row["dtype"] == "f64" and row["variant"] in ("product", "cg"):
            via = "-" if row["ranks"] == 1 else re.split(r" [(\d]", row["transport"])[0]
            times.setdefault((row["scaling"], row["rows"], row["ranks"], via), {})[row["variant"]] = row[
                "time_us"
            ]
    alone = {scaling: us for (scaling, _, ranks, _), us in times.items() if ranks == 1}
    lines = [
        (scaling, f"{count:,}", ranks, via,
         *(cell for name, value in us.items() for cell in (f"{value:,.0f} us", alone[scaling][name] / value)))
        for (scaling, count, ranks, via), us in times.items()
    ]  # fmt: skip
    head = ("scaling", "rows", "ranks", "transport", "product", "as fast", "cg", "as fast")
    return table(head, lines, words=4)


def more_gpus(devices: list[Results]) -> str:
    """Times of an iteration on one, two and four GPUs, and the model a / k + b of one on k GPUs."""
    times: dict[tuple[str, str, str], dict[int, float]] = {}
    for results in devices:
        for method, name in (("`cg`", "multi_cg"), ("`cg` with `amg`", "multi_amg")):
            for row in rows_of(results, name):
                us = row["time_us"] if name == "multi_cg" else row["solve_us"] / row["iterations"]
                if row["dtype"] == "f64" and "cpu" not in row["devices"]:
                    case = machine(environment_of(results)), method, row["matrix"]
                    times.setdefault(case, {})[len(row["devices"])] = us

    def lines() -> Iterator[list[object]]:
        for case, of_count in times.items():
            if set(of_count) != {1, 2, 4}:
                continue
            a, b = linear_regression([1 / count for count in of_count], list(of_count.values()))
            expected = (of_count[1] / (a / count + b) for count in (8, 16, 64))
            yield [*case, *map(duration, [*of_count.values(), b]), *expected]

    head = ("machine", "iteration of", "matrix", "1 GPU", "2", "4", "b", "times as fast: 8 GPUs", "16", "64")
    return table(head, lines(), words=3)


def _halos(rows: list[Row]) -> str:
    """Entries over its own rows, and messages, that the busiest rank receives."""
    lines: dict[tuple[str, str, str], list[object]] = {}
    for row in rows:
        if row["ranks"] in (8, 64, 1024):
            cells = lines.setdefault((row["matrix"], f"{row['rows']:,}", row["partition"]), [])
            cells += [row["largest_halo"] * row["ranks"] / row["rows"], row["most_messages"]]
    counts = (f"{what}, {n}" for n in ("8", "64", "1,024") for what in ("halo", "messages"))
    return table(
        ("matrix", "rows", "division", *counts), ((*case, *cells) for case, cells in lines.items()), 3
    )


# -- a page per device ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Section:
    """Section of a device's page about one file: a `pivot` of its rows, or of some of them."""

    title: str
    note: str
    index: str
    columns: str
    keeps: Callable[[Row], bool] = lambda row: True
    value: str = "time_us"


def _is_default(row: Row) -> bool:
    return bool(row["library"] != "spmvgpu" or row["variant"] == "auto")


BESIDE = "Times of a product with the default format, and with the fastest variant of each other library."
SECTIONS = {
    "jobs": Section(
        "Whole jobs",
        "Default settings, float64. The first time of spmvgpu is with an empty cache, *again* with the cache "
        "of the first. Loops are times per product in SciPy's solvers.",
        "job matrix rows", "library device variant",
    ),
    "auto": Section("The chosen format", BESIDE, "group matrix dtype nnz", "library", _is_default),
    "unseen": Section(
        "Unseen matrices",
        f"Matrices drawn at random. {BESIDE} *dasp* is DASP, called from C: its result is in an order of "
        "rows of its own.",
        "matrix dtype nnz", "library", _is_default,
    ),
    "regret": Section(
        "Unseen matrices beside the best format",
        "Times of the default, of `tune=\"full\"`, and of the best of all formats, kernels and orders.",
        "matrix dtype nnz", "variant", lambda row: row["library"] == "spmvgpu",
    ),
    "spmv": Section("Products", BESIDE, "matrix dtype nnz threads", "library", _is_default),
    "symmetric": Section(
        "Symmetric matrices", "Times of a product. The symmetric format is `tsmv`.", "matrix dtype nnz",
        "library variant", lambda row: row["library"] == "spmvgpu" or row["variant"] == "sell",
    ),
    "orders": Section(
        "Orders of rows", "Times of a product of meshes whose nodes are numbered at random.",
        "matrix dtype variant", "order",
    ),
    "setup": Section(
        "Making an operator",
        "Times of `aslinearoperator` with an empty cache, and of CuPy's `csr_matrix(A)`, from a matrix "
        "of SciPy or CuPy (*source*).",
        "matrix dtype nnz source", "library variant",
    ),
    "algebra": Section(
        "Sparse times sparse",
        "Times of `A @ A` (*product*) and `A + A` (*sum*) in CSR, in float64. `spmvgpu` also plans products "
        "with the result.",
        "matrix nnz entries variant", "library",
    ),
    "solvers": Section(
        "Solvers", "Times of an iteration, with vectors where the library keeps them, in float64.",
        "system rows solver preconditioner symmetric", "library", value="iteration_us",
    ),
    "solve": Section(
        "From a matrix to a solution",
        "Times from a SciPy matrix to a result in NumPy in float64, and of an iteration of `cg`.",
        "part kind rows", "library device variant solver preconditioner columns",
    ),
    "batches": Section(
        "Many systems of one pattern",
        "Times of `cg` for all *systems* to a relative residual of 1e-8, with vectors where libraries "
        "keep them.",
        "kind rows systems", "library variant",
    ),
    "exponential": Section(
        "Exponentials of matrices",
        "Times of `expm_multiply` from a SciPy matrix to a result in NumPy in float64.",
        "kind rows", "library device variant",
    ),
    "vibrations": Section(
        "Vibrations",
        "Times of `eigsh` from SciPy matrices of stiffness and mass to ten modes in NumPy in float64.",
        "kind rows", "library device variant",
    ),
    "multi_setup": Section(
        "Operators over several devices",
        "Times of `aslinearoperator` with an empty cache, from a matrix of SciPy or CuPy (*source*).",
        "matrix dtype devices", "source",
    ),
    "multi": Section(
        "Several devices",
        "Times of a product: *distributed* with vectors that stay on the devices, *numpy* with transfers.",
        "matrix dtype devices", "variant",
    ),
    "multi_cg": Section(
        "Solvers on several devices", "Times of an iteration of `cg`.", "matrix dtype devices", "variant"
    ),
    "multi_amg": Section(
        "Multigrid on several devices", "Times of `amg` and `cg` to a relative residual of 1e-8.",
        "matrix devices", "library",
    ),
}  # fmt: skip


def page(results: Results) -> str:
    """All that was measured on one device."""
    environment = environment_of(results)
    parts = [f"# {machine(environment)}", f"{environment['device']}."]
    for name, section in SECTIONS.items():
        content = results.get({"regret": "unseen"}.get(name, name))
        if content is not None:
            rows = sorted(filter(section.keeps, content["rows"]), key=lambda row: str(row.get("part")))
            found = [
                pivot(group, section.index, section.columns, section.value)
                for _, group in groupby(rows, lambda row: row.get("part"))
            ]
            parts += [f"## {section.title}", f"{_origin(content['environment'])} {section.note}", *found]
    return "\n\n".join(filter(None, parts))


def _origin(environment: dict[str, Any]) -> str:
    """The commit, the date and the versions of a measurement."""
    versions = {name: version for name, version in environment["versions"].items() if name != "spmvgpu"}
    if environment["cuda"] is not None:
        versions = {"driver": environment["driver"], "CUDA": environment["cuda"], **versions}
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"Commit `{environment['commit'][:12]}`, {environment['date'][:10]}, {listed}."
