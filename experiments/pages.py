"""Turn results into tables and plots: ``python -m experiments report``; the goals alone: ``--check``.

README.md gets a picture and a few sentences about the first device with results of whole jobs, which is a
GPU if there is one, and docs/performance.md a table. A page per device in docs/results has everything.
Several other pages have a table between two marker lines.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from .engine import Report, load_experiments, read
from .goals import Mark
from .pictures import drawing
from .records import RESULTS, Content, Results
from .tables import machine, short_name, table

OVERVIEW = "overview.png"  # in docs/plots
ALT = "Time from matrix to solution, and speed of products, beside CuPy, PyTorch, SciPy and cuSPARSE"
OVERVIEW_HEAD = ("job", "cases", "GPU: mean", "best", "worst", "CPU: mean", "best", "worst")
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
            print("\n".join([f"{slug}:", *map(str, marks(results))]))
        return 0
    pages = options.pages or options.readme.parent / "docs" / "results"
    pages.mkdir(parents=True, exist_ok=True)
    for slug, results in devices.items():
        text = page(results, charts(slug, results, options.plots, pages))
        (pages / f"{slug}.md").write_text(f"{text}\n", encoding="utf-8")
    complete = [results for results in devices.values() if "jobs" in results]
    first = next(iter([*complete, *devices.values()]))
    texts = {(pages.parent / "performance.md", "benchmarks"): overview_table(first)}
    if "jobs" in first:
        texts |= readme_texts(options.readme, first, options.plots)
    everywhere = [*devices.values(), read(options.results)]  # what does not depend on a device comes last
    for file, report in reports().items():
        contents = [results[file] for results in everywhere if file in results]
        for (name, marker), inset in report.insets.items() if contents else ():
            texts[pages.parent / name, marker] = inset(contents)
    for (path, marker), text in texts.items():
        if text and (path == options.readme or path.is_file()):  # not where pages go to a folder of their own
            write_between(path, marker, text)
    print(f"{options.readme}: {len(devices)} devices")
    return 0


def reports() -> dict[str, Report]:
    """Those of all experiments, by file."""
    return {experiment.file: experiment.report for experiment in load_experiments()}


def devices_in(folder: Path) -> dict[str, Results]:
    """Results by device; GPUs first."""
    found = {path.name: read(path) for path in sorted(folder.glob("*")) if path.is_dir()}
    found = {slug: results for slug, results in found.items() if results}
    return dict(sorted(found.items(), key=lambda pair: not next(iter(pair[1].values())).on_gpu))


# -- a page per device ---------------------------------------------------------------------------------------


def page(results: Results, pictures: Mapping[str, str] | None = None) -> str:
    """All that is said about one device; `pictures` by file."""
    sections: list[tuple[str, list[str]]] = []
    for file, report in reports().items():
        content = joined(results, file, *report.also)
        if content is not None and report.title:
            picture = (pictures or {}).get(file)
            body = [f"![{Path(picture).stem}]({picture})"] if picture else []
            body += report.section(content)
            if report.goals_apart:
                body.append("\n".join(f"- {mark.name}: {mark.measured}" for mark in report.marks(content)))
            sections.append((report.title, body))
    goals = marks(results, apart=False)
    sections.insert(1 if "jobs" in results else 0, ("Goals", [mark_table(goals)] if goals else []))
    skipped = [
        f"- {row.get('library') or row.get('matrix')} ({row['reason']})"
        for row in (results["spmv"].skipped if "spmv" in results else ())
        if not {"library", "matrix"} <= row.keys()
    ]
    sections.append(("Not measured", ["\n".join(skipped)]))
    texts = [_heading(results)]
    for title, body in sections:
        paragraphs = [text for text in body if text]
        texts += [f"## {title}", *paragraphs] if paragraphs else []
    return "\n\n".join(texts)


def joined(results: Results, *files: str) -> Content | None:
    """The rows of several files, with all else of the first that is there."""
    found = [results[file] for file in files if file in results]
    if len(found) < 2:
        return found[0] if found else None
    rows = [row for content in found for row in content.rows]
    return Content(found[0].environment, rows, found[0].skipped, found[0].parts)


def marks(results: Results, apart: bool = True) -> list[Mark]:
    """The goals of all experiments beside what was measured, with or without those that stand apart."""
    chosen = {file: report for file, report in reports().items() if apart or not report.goals_apart}
    return [mark for file, report in chosen.items() for mark in report.marks(results.get(file))]


def mark_table(goals: list[Mark]) -> str:
    rows = ((mark.name, mark.goal, mark.measured, "reached" if mark.reached else "missed") for mark in goals)
    return table(("what", "goal", "measured", ""), rows, words=4)


def charts(slug: str, results: Results, plots: Path, pages: Path) -> dict[str, str]:
    """Draw what the results allow; returns the pictures by file, as a page in that folder names them."""
    drawn: dict[str, str] = {}
    for file, report in reports().items():
        if report.chart is not None and file in results and can_draw():
            path = plots / f"{slug}.png"
            report.chart(results[file], path)
            drawn[file] = Path(os.path.relpath(path, pages)).as_posix()
    return drawn


def can_draw() -> bool:
    if find_spec("matplotlib") is None:
        print("no plots: matplotlib is not installed", file=sys.stderr)
        return False
    return True


def _heading(results: Results) -> str:
    environment = next(iter(results.values())).environment
    commit = environment["commit"][:12]
    facts = [f"commit `{commit}`", environment["date"][:10]]
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
        other = content.environment["commit"][:12]
        if other != commit:
            later.setdefault(other, []).append(f"{name}.json")
    others = (f"{', '.join(names)} at commit `{other}`" for other, names in later.items())
    return f"{text} Measured apart: {'; '.join(others)}." if later else text


# -- the first device in other pages -------------------------------------------------------------------------


def overview_table(results: Results) -> str:
    """Whole jobs and products beside the fastest other library."""
    rows = [line for report in reports().values() for line in report.overview(results)]
    return f"{OVERVIEW_NOTE}\n\n{table(OVERVIEW_HEAD, rows, words=1)}" if rows else ""


def readme_texts(readme: Path, results: Results, plots: Path) -> dict[tuple[Path, str], str]:
    """What goes between the marker lines of the README; index pages show no relative links and pictures."""
    address = repository()
    pictures = address.replace("github.com", "raw.githubusercontent.com")
    facts = " ".join(fact for report in reports().values() for fact in report.facts(results))
    parts = (
        f"![{ALT}]({pictures}/main/docs/plots/{OVERVIEW})",
        f"<!-- facts:begin -->\n\n{facts}\n\n<!-- facts:end -->",
        f"[All measurements]({address}/blob/main/docs/performance.md) are public, losses included.",
    )
    against = "\n".join(f"- {line}" for report in reports().values() for line in report.against(results))
    if can_draw():
        draw_overview(results, plots / OVERVIEW)
    return {(readme, "picture"): "\n\n".join(parts), (readme, "against"): against}


def draw_overview(results: Results, path: Path) -> None:
    """Draw whole jobs and products beside other libraries in one picture; none where a part is missing."""
    drawers = [report.panel(results) for report in reports().values() if report.panel is not None]
    panels = [drawer for drawer in drawers if drawer is not None]
    if len(panels) < len(drawers):
        return
    environment = results["jobs"].environment
    with drawing(path, 1, len(panels), figsize=(11, 4.4), width_ratios=(1.15, 1)) as (figure, axes):
        for panel, ax in zip(panels, axes, strict=True):
            panel(ax)
        figure.suptitle(
            f"{short_name(environment['device'])} GPU, and {environment['cores']} cores of a"
            f" {short_name(environment['cpu'])} CPU, float64",
            fontsize=11,
        )


def repository() -> str:
    """The address of the repository, which pyproject.toml has."""
    metadata = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r'^Repository = "(.+)"', metadata, re.MULTILINE)
    if found is None:
        raise RuntimeError("pyproject.toml has no Repository among its URLs")
    return found[1]


def write_between(path: Path, marker: str, text: str) -> None:
    """Replace what stands between the two marker lines."""
    begin, end = f"<!-- {marker}:begin -->", f"<!-- {marker}:end -->"
    before, first, rest = path.read_text(encoding="utf-8").partition(begin)
    _, last, after = rest.partition(end)
    if not first or not last:
        raise SystemExit(f"{path} lacks the lines {begin} and {end}, between which results go")
    path.write_text(f"{before}{begin}\n{text.strip()}\n{end}{after}", encoding="utf-8")
