"""Turn results into tables and plots: ``python -m experiments report``; the goals alone: ``--check``.

README.md gets a picture and a few sentences about the first device, which is a GPU if there is one, and
docs/performance.md a table. A page per device in docs/results has everything. Several other pages have a
table between two marker lines.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from experiments.records import RESULTS, Row, Times, geometric_mean, ratio, read

from . import (
    automatic,
    columns,
    complex_values,
    halos,
    imports,
    jobs,
    models,
    multi,
    orders,
    overview,
    products,
    scaling,
    setup,
    solvers,
    symmetric,
    updates,
)
from .markdown import machine, microseconds, number, table
from .summary import Mark, Results, format_mark, marks

Lines = tuple[str, str]


def marker_lines(name: str) -> Lines:
    """Between these two lines of a page stands what is made here."""
    return f"<!-- {name}:begin -->", f"<!-- {name}:end -->"


PICTURE, AGAINST, TABLES, SOLVERS, HALOS, MEASURED, BESIDE, AHEAD = map(
    marker_lines, ("picture", "against", "benchmarks", "solvers", "halos", "scaling", "petsc", "ahead")
)
OVERVIEW_NOTE = (
    "Each number is the time of spmvgpu over the time of the fastest other library (CuPy, PyTorch or "
    "SciPy), all with default settings. Below 1 is faster, **above 1** slower. Jobs include "
    "conversion, choice of the format and transfers. A job on the GPU is compared with the fastest "
    "other library on either device, a product on the GPU with products on the GPU."
)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments report", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--readme", type=Path, default=Path("README.md"))
    parser.add_argument("--pages", type=Path, help="folder of a page per device (default: docs/results)")
    parser.add_argument("--plots", type=Path, default=Path("docs/plots"), help="folder of the pictures")
    parser.add_argument(
        "--check", action="store_true", help="print the goals beside what was measured, write nothing"
    )
    options = parser.parse_args(arguments)
    devices = devices_in(options.results)
    if not devices:
        print(f"no results in {options.results}; run python -m experiments speed first", file=sys.stderr)
        return 2
    if options.check:
        for slug, results in devices.items():
            print(f"{slug}:")
            print("\n".join(map(format_mark, all_marks(results))))
        return 0
    pages = options.pages or options.readme.parent / "docs" / "results"
    pages.mkdir(parents=True, exist_ok=True)
    for slug, results in devices.items():
        pictures = _draw(slug, results, options.plots)
        text = section(results, _linked(pictures, pages))
        (pages / f"{slug}.md").write_text(f"{text}\n", encoding="utf-8")
    first = next(iter(devices.values()))
    if "jobs" in first:
        write_between(options.readme, PICTURE, overview.readme(first))
        write_between(options.readme, AGAINST, overview.reasons_against(first))
        _draw_overview(first, options.plots)
    texts = {
        pages.parent / "performance.md": (TABLES, overview_table(devices)),
        pages.parent / "solvers.md": (
            SOLVERS,
            table(jobs.SOLVER_HEAD, jobs.solver_rows(devices.values()), words=1),
        ),
    }
    for path, (lines, text) in texts.items():
        if path.is_file():  # not where pages go to a folder of their own
            write_between(path, lines, text)
    counted, hosts = options.results / "halos.json", pages.parent / "many-hosts.md"
    if counted.is_file() and hosts.is_file():
        rows = halos.rows(json.loads(counted.read_text()))
        write_between(hosts, HALOS, f"{halos.NOTE}\n\n{table(halos.HEAD, rows, words=3)}")
    page = pages.parent / "scaling.md"
    if page.is_file():
        for results in devices.values():
            if "scaling" in results:
                _write_scaling(page, results["scaling"])
    print(f"{options.readme}: {len(devices)} devices")
    return 0


def _write_scaling(page: Path, content: dict[str, Any]) -> None:
    beside = scaling.beside_petsc(content)
    if beside:
        write_between(page, BESIDE, f"{scaling.BESIDE_NOTE}\n\n{table(scaling.BESIDE, beside)}")
    if content["environment"]["cuda"] is None:
        return
    note = scaling.NOTE.format(device=content["environment"]["device"])
    write_between(page, MEASURED, f"{note}\n\n{table(scaling.HEAD, scaling.measured(content), words=4)}")
    write_between(
        page, AHEAD, f"{scaling.AHEAD_NOTE}\n\n{table(scaling.AHEAD, scaling.ahead(content), words=1)}"
    )


def _linked(paths: Iterable[Path], folder: Path) -> list[str]:
    """As a page in that folder names them."""
    return [Path(os.path.relpath(path, folder)).as_posix() for path in paths]


def devices_in(folder: Path) -> dict[str, Results]:
    """Results by device; GPUs first."""
    found = {path.name: read(path) for path in sorted(folder.glob("*")) if path.is_dir()}
    found = {slug: results for slug, results in found.items() if results}
    return dict(sorted(found.items(), key=lambda pair: _environment(pair[1])["cuda"] is None))


def _environment(results: Results) -> dict[str, Any]:
    environment: dict[str, Any] = next(iter(results.values()))["environment"]
    return environment


def _draw(slug: str, results: Results, folder: Path) -> list[Path]:
    if find_spec("matplotlib") is None:
        print("no plots: matplotlib is not installed", file=sys.stderr)
        return []
    from . import plots

    return plots.draw(slug, results, folder)


def _draw_overview(results: Results, folder: Path) -> None:
    if find_spec("matplotlib") is not None:
        from . import plots

        plots.draw_overview(results, folder)


def write_between(readme: Path, lines: Lines, text: str) -> None:
    """Replace what stands between the two marker lines."""
    content = readme.read_text(encoding="utf-8")
    before, begin, rest = content.partition(lines[0])
    _, end, after = rest.partition(lines[1])
    if not begin or not end:
        raise SystemExit(f"{readme} lacks the lines {lines[0]} and {lines[1]}, between which results go")
    readme.write_text(f"{before}{begin}\n{text.strip()}\n{end}{after}", encoding="utf-8")


def overview_table(devices: dict[str, Results]) -> str:
    """The whole jobs and products of the first device, beside the fastest other library."""
    results = next(iter(devices.values()))
    rows = jobs.overview_rows(results) + products.overview_rows(results)
    return f"{OVERVIEW_NOTE}\n\n{table(jobs.OVERVIEW_HEAD, rows, words=1)}" if rows else ""


def section(results: Results, pictures: Sequence[str] = ()) -> str:
    """All that is said about one device."""
    parts = {
        "Whole jobs": _jobs_part(results),
        "Goals": [_mark_table(goals)] if (goals := _goals(results)) else [],
        "The chosen format": _automatic_part(results),
        "Products": [
            *(f"![{Path(picture).stem}]({picture})" for picture in pictures),
            *_product_parts(results),
        ],
        "Making an operator": _setup_part(results),
        "New values": _updates_part(results),
        "Orders of rows": _orders_part(results),
        "Products with several columns": _columns_part(results),
        "Complex matrices": _complex_part(results),
        "Solvers": _solvers_part(results),
        "Symmetric matrices": _symmetric_part(results),
        "Several devices": _multi_part(results),
        "Performance models": _model_part(results),
        "Calls from Python": _overhead_part(results),
        "NumPy round trips": _roundtrip_part(results),
        "Memory": _memory_part(results),
        "Imports": _imports_part(results),
        "Not measured": _skipped_part(results),
    }
    texts = [_heading(results)]
    for title, content in parts.items():
        body = [text for text in content if text]
        texts += [f"## {title}", *body] if body else []
    return "\n\n".join(texts)


def all_marks(results: Results) -> list[Mark]:
    """The goals of all experiments beside what was measured."""
    others = (imports, automatic, setup, updates, columns, complex_values, solvers, symmetric, multi, models)
    return [
        *jobs.marks(results),
        *marks(results),
        *(mark for other in others for mark in other.marks(results)),
    ]


def _goals(results: Results) -> list[Mark]:
    """The goals of a page, without memory, which has its own section."""
    return all_marks({name: content for name, content in results.items() if name != "memory"})


def _mark_table(goals: Iterable[Mark]) -> str:
    verdicts = {True: "reached", False: "missed", None: "not measured"}
    head = ("what", "goal", "measured", "")
    rows = [(mark.name, mark.goal, mark.measured, verdicts[mark.reached]) for mark in goals]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, ("---",) * len(head), *rows))


def _jobs_part(results: Results) -> list[str]:
    if "jobs" not in results:
        return []
    loops = table(jobs.LOOP_HEAD, jobs.loop_rows(results), words=3)
    return [
        jobs.NOTE,
        table(jobs.head(results), jobs.table_rows(results)),
        jobs.skipped_text(results),
        "### SciPy's loops",
        jobs.LOOP_NOTE,
        loops,
    ]


def _automatic_part(results: Results) -> list[str]:
    rows = automatic.rows(results)
    return [automatic.note(results), table(automatic.HEAD, rows)] if rows else []


def _product_parts(results: Results) -> list[str]:
    if "spmv" not in results:
        return []
    times = Times(results["spmv"])
    return products.cpu_parts(times) if times.threads else products.device_parts(times)


def _heading(results: Results) -> str:
    environment = _environment(results)
    facts = [f"commit `{environment['commit'][:12]}`", environment["date"][:10]]
    if environment["cuda"] is not None:
        facts += [f"driver {environment['driver']}", f"CUDA {environment['cuda']}"]
    elif "cores" in environment:
        facts.append(f"{environment['cores']} cores")
    facts += [f"{name} {version}" for name, version in environment["versions"].items() if name != "spmvgpu"]
    bandwidth = environment.get("copy_bandwidth")
    if isinstance(bandwidth, dict):
        speeds = [f"{value / 1e9:.1f} GB/s on {count} threads" for count, value in bandwidth.items()]
        facts.append("copy bandwidth " + ", ".join(speeds))
    elif bandwidth is not None:
        facts.append(f"device-to-device memcpy {bandwidth / 1e12:.2f} TB/s")
    if "copy_kernel_bandwidth" in environment:
        facts.append(f"copy kernel {environment['copy_kernel_bandwidth'] / 1e12:.2f} TB/s")
    text = f"# {machine(environment)}\n\n{environment['device']}, " + ", ".join(facts) + "."
    later: dict[str, list[str]] = {}
    for name, content in results.items():
        commit = content["environment"]["commit"][:12]
        if commit != environment["commit"][:12]:
            later.setdefault(commit, []).append(f"{name}.json")
    others = (f"{', '.join(names)} at commit `{commit}`" for commit, names in later.items())
    return f"{text} Measured apart: {'; '.join(others)}." if later else text


def _setup_part(results: Results) -> list[str]:
    rows = setup.rows(results)
    return [setup.NOTE, table(setup.HEAD, rows)] if rows else []


def _complex_part(results: Results) -> list[str]:
    rows = complex_values.rows(results)
    return [complex_values.NOTE, table(complex_values.HEAD, rows)] if rows else []


def _solvers_part(results: Results) -> list[str]:
    rows = solvers.rows(results)
    return [solvers.NOTE, table(solvers.HEAD, rows, words=4)] if rows else []


def _columns_part(results: Results) -> list[str]:
    rows = columns.rows(results)
    return [columns.NOTE, table(columns.HEAD, rows, words=3)] if rows else []


def _symmetric_part(results: Results) -> list[str]:
    rows = symmetric.rows(results)
    if not rows:
        return []
    return [symmetric.NOTE, table(symmetric.HEAD, rows)]


def _orders_part(results: Results) -> list[str]:
    rows = orders.rows(results)
    return [orders.NOTE, table(orders.HEAD, rows, words=3)] if rows else []


def _updates_part(results: Results) -> list[str]:
    rows = updates.rows(results)
    return [updates.NOTE, table(updates.HEAD, rows, words=2)] if rows else []


def _multi_part(results: Results) -> list[str]:
    rows = multi.rows(results)
    return [multi.NOTE, table(multi.HEAD, rows)] if rows else []


def _model_part(results: Results) -> list[str]:
    rows = models.rows(results)
    if not rows:
        return []
    return [models.NOTE, table(models.HEAD, rows)]


def _overhead_part(results: Results) -> list[str]:
    rows = results.get("overhead", {}).get("rows", [])
    if not any(row.get("kernel_us") for row in rows):
        return []
    times = ("kernel_us", "time_us", "overhead_us", "issue_us", "latency_us")
    body = []
    for row in rows:
        format, _, call = row["variant"].partition(": ")
        numbers = [number(row[key], 1) for key in times]
        body.append((row["matrix"], f"{row['library']} {format}: `{call}`", row["dtype"], *numbers))
    head = ("matrix", "call", "dtype", "kernel", "per call", "overhead", "host time", "one call and wait")
    return [
        "Times in microseconds of calls with a CuPy array. *Overhead* is the time per call in a row "
        "of calls, less the time of the kernel.",
        table(head, body),
    ]


def _roundtrip_part(results: Results) -> list[str]:
    pairs: dict[tuple[str, str], dict[str, Row]] = {}
    for row in results.get("roundtrip", {}).get("rows", []):
        pairs.setdefault((row["matrix"], row["dtype"]), {})[row["library"]] = row
    body = [
        (
            *case, str(pair["spmvgpu"]["rows"]), microseconds(pair["cupy"]), microseconds(pair["spmvgpu"]),
            number(ratio(pair["spmvgpu"], pair["cupy"])),
        )
        for case, pair in pairs.items()
        if {"spmvgpu", "cupy"} <= set(pair)
    ]  # fmt: skip
    if not body:
        return []
    mean = geometric_mean(float(cells[-1]) for cells in body if float(cells[-1]) > 0)
    return [
        f"With a NumPy array, `op @ x` takes {mean:.2f} times as long as `cupy.asnumpy(G @ cupy.asarray(x))` "
        "(geometric mean).",
        table(("matrix", "dtype", "rows", "CuPy, us", "spmvgpu, us", "x"), body),
    ]


def _memory_part(results: Results) -> list[str]:
    lines = [f"- {mark.name}: {mark.measured}" for mark in marks({"memory": results.get("memory", {})})]
    return ["\n".join(lines)] if lines else []


def _imports_part(results: Results) -> list[str]:
    rows = imports.rows(results)
    return [imports.NOTE, table(imports.HEAD, rows)] if rows else []


def _skipped_part(results: Results) -> list[str]:
    """Libraries and matrices that were not measured at all."""
    skipped = results.get("spmv", {}).get("skipped", [])
    whole = [row for row in skipped if not ({"library", "matrix"} <= set(row))]
    if not whole:
        return []
    names = [f"{row.get('library') or row.get('matrix')} ({row['reason']})" for row in whole]
    return ["\n".join(f"- {name}" for name in names)]
