"""Turn results into tables and plots: ``python -m experiments report``; the goals alone: ``--check``.

The README gets a short table of the first device, a GPU if there is one; a page per device in `docs/results`
has everything; docs/solvers.md says what an iteration takes, and docs/many-hosts.md what ranks send.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Sequence
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
    scaling,
    setup,
    solvers,
    symmetric,
    updates,
)
from .markdown import microseconds, number, table
from .products import cpu_parts, device_parts, overview_rows
from .summary import Mark, Results, format_mark, marks

# What is made here of the README, and of the pages about solvers and many hosts, lies between these lines.
TABLES = ("<!-- benchmarks:begin -->", "<!-- benchmarks:end -->")
SOLVERS = ("<!-- solvers:begin -->", "<!-- solvers:end -->")
HALOS = ("<!-- halos:begin -->", "<!-- halos:end -->")
MEASURED = ("<!-- scaling:begin -->", "<!-- scaling:end -->")
BESIDE = ("<!-- petsc:begin -->", "<!-- petsc:end -->")
AHEAD = ("<!-- ahead:begin -->", "<!-- ahead:end -->")
OVERVIEW_NOTE = (
    "Time over that of the fastest other library (CuPy, PyTorch, SciPy), with default settings: below 1 is "
    "faster, **above 1** slower. Conversion, choice of the format and transfers are in it. On the GPU it is "
    "the fastest of both sides; products by themselves are compared with other products on the GPU."
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
    links = _linked((pages / f"{slug}.md" for slug in devices), options.readme.parent)
    write_between(options.readme, TABLES, overview(devices, links))
    guide = pages.parent / "solvers.md"
    if guide.is_file():  # not where pages go to a folder of their own
        texts = map(jobs.solver_text, devices.values())
        write_between(guide, SOLVERS, "\n".join(text for text in texts if text))
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
    try:
        from .plots import draw
    except ImportError:
        print("no plots: matplotlib is not installed", file=sys.stderr)
        return []
    return draw(slug, results, folder)


def write_between(readme: Path, lines: tuple[str, str], text: str) -> None:
    """Replace what stands between the two marker lines."""
    content = readme.read_text(encoding="utf-8")
    before, begin, rest = content.partition(lines[0])
    _, end, after = rest.partition(lines[1])
    if not begin or not end:
        raise SystemExit(f"{readme} lacks the lines {lines[0]} and {lines[1]}, between which results go")
    readme.write_text(f"{before}{begin}\n{text.strip()}\n{end}{after}", encoding="utf-8")


def overview(devices: dict[str, Results], links: Sequence[str]) -> str:
    """What the README says: the whole jobs and products of the first device, and where the rest is."""
    results = next(iter(devices.values()))
    rows = jobs.overview_rows(results)
    if "spmv" in results:
        rows += overview_rows(Times(results["spmv"]))
    environment = _environment(results)
    measured = f"{environment['device']}, commit `{environment['commit'][:12]}`, {environment['date'][:10]}."
    table_and_note = [f"{measured} {OVERVIEW_NOTE}", table(jobs.OVERVIEW_HEAD, rows, words=1)] if rows else []
    pages = []
    for own, link in zip(devices.values(), links, strict=True):
        cores = _environment(own).get("cores")
        where = f", {cores} cores" if _environment(own)["cuda"] is None and cores else ""
        pages.append(f"[{_environment(own)['device']}{where}]({link})")
    return "\n\n".join([*table_and_note, f"Every job, matrix and format, and the goals: {'; '.join(pages)}."])


def section(results: Results, pictures: Sequence[str] = ()) -> str:
    """All that is said about one device."""
    parts = [_heading(results), *_jobs_part(results)]
    goals = _goals(results)
    if goals:
        parts += ["What was aimed at, and what was measured:", _mark_table(goals)]
    parts += _automatic_part(results) + _product_parts(results)
    parts += [f"![{Path(picture).stem}]({picture})" for picture in pictures]
    parts += _setup_part(results) + _updates_part(results) + _orders_part(results)
    parts += _columns_part(results) + _complex_part(results)
    parts += _solvers_part(results)
    parts += _symmetric_part(results) + _multi_part(results) + _model_part(results)
    parts += (
        _overhead_part(results) + _roundtrip_part(results) + _memory_part(results) + _imports_part(results)
    )
    parts += _skipped_part(results)
    return "\n\n".join(part for part in parts if part)


def all_marks(results: Results) -> list[Mark]:
    """The goals of all experiments beside what was measured."""
    others = (imports, automatic, setup, updates, columns, complex_values, solvers, symmetric, multi, models)
    return [
        *jobs.marks(results),
        *marks(results),
        *(mark for other in others for mark in other.marks(results)),
    ]


def _goals(results: Results) -> list[Mark]:
    """Those of a page; what was measured of memory has a part of its own there."""
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
        jobs.LOOP_NOTE,
        loops,
        jobs.skipped_text(results),
    ]


def _automatic_part(results: Results) -> list[str]:
    rows = automatic.rows(results)
    return [automatic.note(results), table(automatic.HEAD, rows)] if rows else []


def _product_parts(results: Results) -> list[str]:
    if "spmv" not in results:
        return []
    times = Times(results["spmv"])
    return cpu_parts(times) if times.threads else device_parts(times)


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
    text = f"### {environment['device']}\n\n" + ", ".join(facts) + "."
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
    title = "<details><summary>Symmetric matrices in half the storage</summary>"
    return [f"{title}\n\n{symmetric.NOTE}\n\n{table(symmetric.HEAD, rows)}\n\n</details>"]


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
    text = f"{models.NOTE}\n\n{table(models.HEAD, rows)}"
    return [f"<details><summary>Performance models</summary>\n\n{text}\n\n</details>"]


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
        "Calls from Python with a CuPy array, microseconds; *overhead* is the time per call, back to back, "
        "above the kernel's own:",
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
        "<details><summary>NumPy in, NumPy out: `op @ x` takes "
        f"{mean:.2f} times as long as `cupy.asnumpy(G @ cupy.asarray(x))` (geometric mean)</summary>\n\n"
        + table(("matrix", "dtype", "rows", "CuPy, us", "spmvgpu, us", "x"), body)
        + "\n\n</details>"
    ]


def _memory_part(results: Results) -> list[str]:
    lines = [f"- {mark.name}: {mark.measured}" for mark in marks({"memory": results.get("memory", {})})]
    return ["Memory:\n\n" + "\n".join(lines)] if lines else []


def _imports_part(results: Results) -> list[str]:
    rows = imports.rows(results)
    return [imports.NOTE, table(imports.HEAD, rows)] if rows else []


def _skipped_part(results: Results) -> list[str]:
    """Peers and matrices that were not measured at all."""
    skipped = results.get("spmv", {}).get("skipped", [])
    whole = [row for row in skipped if not ({"library", "matrix"} <= set(row))]
    if not whole:
        return []
    names = [f"{row.get('library') or row.get('matrix')} ({row['reason']})" for row in whole]
    return ["Not measured: " + "; ".join(names) + "."]
