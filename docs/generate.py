"""Tables, pages and pictures of results and of the package, made by each build in ``docs/generated``.

Tables, the pages of devices, the claims of the papers and the pictures of speed come from the files in
``benchmarks/results``, the pictures of the formats from the arrays that they store.
"""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Callable
from contextlib import redirect_stdout
from itertools import groupby
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("agg")  # no display is needed, or asked for
from matplotlib import pyplot as plt

import spmvgpu as sg
from experiments import report
from experiments.papers import PAPERS
from experiments.papers.run import Run
from experiments.tables import short_name
from spmvgpu import gallery

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
OUT = (
    Path(__file__).parent / "generated"
)  # texts without a heading of their own are included by pages beside it

Rows = list[dict[str, Any]]

WIDTH = 4.8  # inches of a chart, which leave its letters 10 pixels on a phone
SCREEN = 110  # pixels of an inch


def generate() -> None:
    """All of it; what an earlier build left is deleted first."""
    shutil.rmtree(OUT, ignore_errors=True)
    for folder in (OUT, OUT / "tables", OUT / "results"):
        folder.mkdir()
    # The choice must not depend on what was tuned or calibrated on the machine that builds the site.
    with sg.cache.empty():
        explanation()
        layouts()
        cards()
    papers()
    speeds()
    for name, table in report.tables(RESULTS).items():
        _write(f"tables/{name}.md", table)
    for slug, results in report.devices_in(RESULTS).items():
        _write(f"results/{slug}.md", report.page(results))


# -- the package itself --------------------------------------------------------------------------------------


def explanation() -> None:
    op = sg.aslinearoperator(gallery.powerlaw(50_000, 8.0), device="cpu")
    _write("explain.txt", op.explain())


def layouts() -> None:
    """A section per format: what its header says, and what it makes of a small matrix."""
    parts = []
    for format in sg.formats():
        title, figure = _layout(format)
        if format != "tsmv":  # whose table has as many columns as it has threads
            figure.set_figwidth(WIDTH)
        _save(figure, f"layout_{format}.png")
        parts.append(
            f"## {format}\n\n{_header(format)}\n\n"
            + _figure(f"layout_{format}.png", _seen(format), title)
            + "\n"
        )
    _write("layouts.md", "\n".join(parts))


def _layout(format: str) -> tuple[str, Any]:
    """In words, and drawn: a matrix with rows of different lengths, or what suits the format better."""
    if format == "tsmv":  # of which there is more to see than slots: blocks, threads and steps
        op = sg.aslinearoperator(gallery.elasticity2d(6), format, "cpu")
        title = "What each thread does in each step, for elasticity on 6 x 6 nodes: rows, columns of blocks."
        return title, sg.plot.tsmv_schedule(op, threads=24).figure
    uneven = gallery.powerlaw(40, 4.0, exponent=3.0, max_length=9, seed=3)
    grid = gallery.poisson2d(6)
    try:
        return f"40 rows of different lengths, {uneven.nnz} entries.", sg.plot.layout(uneven, format)
    except sg.FormatError:
        return f"A grid of 6 x 6 points, {grid.nnz} entries.", sg.plot.layout(grid, format)


def _seen(format: str) -> str:
    """What a picture of a layout shows, in words."""
    if format == "tsmv":
        return "A table of threads and steps of tsmv, with the row and the columns of the block in each cell"
    return f"The arrays of {format} as cells in the order of memory, coloured by row; padding is grey"


def _header(format: str) -> str:
    """The comment at the begin of a format's header; indented lines, which are pictures, as they are."""
    (path,) = (ROOT / "cpp" / "formats").glob(f"**/{format}/layout.hpp")
    text = path.read_text(encoding="utf-8")
    comment = re.match(r"(?://.*\n)+", text)
    if comment is None:
        raise RuntimeError(f"{path} does not begin with a comment that describes the layout")
    unguarded = re.sub(r"^// clang-format (on|off)\n", "", comment[0], flags=re.MULTILINE)
    lines = re.sub(r"^// ?", "", unguarded, flags=re.MULTILINE).rstrip().splitlines()
    parts = []
    for drawn, run in groupby(lines, lambda line: line.startswith("  ")):
        text = "\n".join(run)
        parts.append(f"```text\n{text}\n```" if drawn else re.sub(r"([*<>\[\]|])", r"\\\1", text))
    return "\n\n".join(parts)


# -- the front page ------------------------------------------------------------------------------------------


def cards() -> None:
    """A small picture for each card of the front page."""
    _card("card_tutorial", _pattern)
    _card("card_solvers", _residuals)
    _card("card_formats", _storage)
    _card("card_performance", _solutions)


def _card(name: str, draw: Callable[[Any], None]) -> None:
    figure, ax = plt.subplots(figsize=(2.2, 1.5), layout="constrained")
    draw(ax)
    _save(figure, f"{name}.png")


def _residuals(ax: Any) -> None:
    A = gallery.poisson2d(60)
    op = sg.aslinearoperator(A, device="cpu")
    for degree in (0, 2, 4):
        history: list[float] = []
        M = sg.linalg.chebyshev(op, degree) if degree else None
        sg.linalg.cg(op, np.ones(A.shape[0]), rtol=1e-8, M=M, residuals=history)
        ax.semilogy(history, linewidth=2)
    ax.set(xlabel="iterations", yticks=[], ylabel="residual")


def _storage(ax: Any) -> None:
    """Rows of different lengths, in the slices of `sell`."""
    lengths = np.sort(np.diff(gallery.powerlaw(32, 5.0, max_length=12, seed=1).tocsr().indptr))[::-1]
    slots = np.full((lengths.size, lengths.max()), np.nan)
    for begin in range(0, lengths.size, 8):
        rows = slice(begin, begin + 8)
        slots[rows, : lengths[begin]] = -1
        for row in range(begin, begin + 8):
            slots[row, : lengths[row]] = row
    colours = plt.get_cmap("viridis").with_extremes(under="#d9d9d9", bad="white")
    ax.pcolormesh(slots[::-1], cmap=colours, vmin=0, edgecolors="white", linewidth=0.5)
    ax.set(xticks=[], yticks=[], xlabel="slots", ylabel="rows")


def _pattern(ax: Any) -> None:
    ax.spy(gallery.elasticity2d(12), markersize=1, color="#2a5db0")
    ax.set(xticks=[], yticks=[])


def _solutions(ax: Any) -> None:
    """Time from matrix to solution of one system, on the first GPU that has results."""
    results = report.first_complete(report.devices_in(RESULTS).values())
    assert results is not None
    cases = report.job_times(results, report.SOLUTION)
    (us,) = (case["us"] for case in cases if case["matrix"] == "poisson3d_100")
    shown = {"SciPy": "scipy cpu", "CuPy": "cupy gpu", "spmvgpu": "spmvgpu gpu"}
    seconds = [us[name] / 1e6 for name in shown.values()]
    ax.barh(list(shown), seconds, color=["#8a8f98", "#c0792a", "#2a5db0"])
    ax.set(xscale="log", xlabel="seconds")
    ax.xaxis.set_major_formatter("{x:g}")


# -- papers --------------------------------------------------------------------------------------------------


def papers() -> None:
    """For each paper its claims beside what was measured, and the figures."""
    tally = ["| paper | device | " + " | ".join(VERDICTS) + " |", "| --- | --- |" + " --: |" * len(VERDICTS)]
    for file in sorted(RESULTS.glob("*/reproduce/*.json")):
        run = json.loads(file.read_text(encoding="utf-8"))
        name = f"{file.parents[1].name}_{file.stem}"
        verdicts = [claim["verdict"] for claim in run["claims"]]
        counts = " | ".join(str(verdicts.count(verdict)) for verdict in VERDICTS)
        paper = PAPERS[file.stem]
        title = paper.TITLE.partition(":")[0]
        again = Run(name, run["environment"]["backend"], OUT, False, run)
        with redirect_stdout(io.StringIO()):  # its tables
            paper.report(again)
        tally.append(f"| [{title}](generated/claims_{name}.md) | {run['environment']['device']} | {counts} |")
        _write(f"claims_{name}.md", _claims(title, run, again.figures))
    _write("tally.md", "\n".join(tally))


VERDICTS = ("holds", "holds in part", "no longer holds", "not judged")


def _claims(title: str, run: dict[str, Any], figures: dict[str, str]) -> str:
    environment = run["environment"]
    versions = ", ".join(f"{name} {version}" for name, version in environment["versions"].items())
    where = [
        environment["device"],
        f"commit `{environment['commit'][:12]}`",
        environment["date"][:10],
        versions,
    ]
    parts = [f"# {title}", "Measured on " + ", ".join(where) + "."]
    for number, claim in enumerate(run["claims"], 1):
        parts.append(f"**{number}. {_plain(claim['paper'])}** (section {claim['where']})")
        parts.append(f"*{claim['verdict']}*: {_plain(claim['here'])}.")
        parts += [f"Why: {_plain(claim['why'])}."] if claim["why"] else []
    for figure, drawn in figures.items():
        seen = ", ".join(drawn.splitlines())
        parts.append(f"```{{figure}} {figure}\n:alt: {seen}\n:figclass: chart\n```")
    return "\n\n".join(parts)


def _plain(text: str) -> str:
    """Without what Markdown would take for markup."""
    return re.sub(r"([*_<>\[\]|`\\])", r"\\\1", text)


# -- speed ---------------------------------------------------------------------------------------------------


def speeds() -> None:
    """Two pictures for each GPU: products beside the best of cuSPARSE, and beside the roofline."""
    parts = []
    for folder in sorted(path for path in RESULTS.iterdir() if path.is_dir()):
        file = folder / "auto.json"
        if not file.is_file():
            continue
        measured = json.loads(file.read_text(encoding="utf-8"))
        if measured["environment"]["cuda"] is None:
            continue
        device, slug = short_name(measured["environment"]["device"]), folder.name
        _save(_roofline(measured, _bandwidths(folder)), f"roofline_{slug}.png")
        speeds = _speeds(measured["rows"])
        ratios = speeds["f64"].values()
        _save(_per_matrix(speeds), f"speed_{slug}.png")
        parts += [
            _figure(
                f"speed_{slug}.png",
                "Bars, one per matrix, from the slowest to the fastest: "
                f"{sum(value >= 1 for value in ratios)} of {len(ratios)} are at 1 or right of it",
                f"Speed of the format that `auto` chooses over the fastest algorithm of cuSPARSE, on one "
                f"{device}. Left of 1 is slower.",
            ),
            _figure(
                f"roofline_{slug}.png",
                "Points along rising lines: large matrices near the speed of copies, small ones below",
                f"Products on one {device} beside the roofline. A product is bound by memory: the lines are "
                "the speed of copies of the same bytes. A copy writes as much as it reads, so a product may "
                "exceed it. Points far below the lines are small matrices, bound by latency, or matrices "
                "with scattered columns.",
            ),
        ]
    _write("speeds.md", "\n\n".join(parts))


def _figure(name: str, alternative: str, caption: str) -> str:
    return f"```{{figure}} generated/{name}\n:alt: {alternative}\n:figclass: chart\n\n{caption}\n```"


def _bandwidths(folder: Path) -> dict[str, float]:
    """How fast copies were that the device's results name: bytes read and written, a second."""
    names = {"copy_bandwidth": "memcpy", "copy_kernel_bandwidth": "copy by a kernel"}
    found: dict[str, float] = {}
    for file in folder.glob("*.json"):
        environment = json.loads(file.read_text(encoding="utf-8"))["environment"]
        for key, name in names.items():
            found[name] = max(found.get(name, 0.0), environment.get(key, 0.0))
    return {name: speed for name, speed in found.items() if speed > 0}


def _roofline(measured: dict[str, Any], bandwidths: dict[str, float]) -> Any:
    """Flops a second over flops per byte, and what the bandwidth of copies allows."""
    environment = measured["environment"]
    cache = environment["cache_bytes"]
    figure, ax = plt.subplots(figsize=(WIDTH, 4.8), layout="constrained")
    rows = [row for row in measured["rows"] if _is(row, "spmvgpu", "auto", "hot")]
    for dtype, colour in (("f32", "#c0792a"), ("f64", "#2a5db0")):
        for fits, marker, what in (
            (True, "o", "fits the L2 cache"),
            (False, "s", "does not"),
        ):
            shown = [row for row in rows if row["dtype"] == dtype and (row["bytes"] <= cache) == fits]
            intensity = [2 * row["nnz"] / row["bytes"] for row in shown]
            speed = [2e-3 * row["nnz"] / row["time_us"] for row in shown]
            filled = colour if not fits else "none"
            label = f"float{dtype[1:]}, {what}"
            ax.scatter(intensity, speed, 26, marker=marker, facecolors=filled, edgecolors=colour, label=label)
    intensities = [2 * row["nnz"] / row["bytes"] for row in rows]
    ends = np.array([0.9 * min(intensities), 1.1 * max(intensities)])
    for (name, bandwidth), style in zip(bandwidths.items(), ("-", "--"), strict=False):
        label = f"{name}, {bandwidth / 1e12:.2f} TB/s"
        ax.plot(ends, ends * bandwidth / 1e9, f"k{style}", linewidth=1, label=label)
    ax.set(xscale="log", yscale="log", xlim=ends, xlabel="flops per byte moved", ylabel="Gflop/s")
    ticks = [0.1, 0.2, 0.5, 1, 2, 5, 10]
    ax.set_xticks(ticks, map(str, ticks))
    ax.minorticks_off()
    ax.set_title("format auto, a point per matrix and type", fontsize=11)
    ax.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def _speeds(rows: Rows) -> dict[str, dict[str, float]]:
    """By type and matrix: speed of the format that is chosen over the fastest algorithm of cuSPARSE."""
    speeds: dict[str, dict[str, float]] = {}
    for dtype in ("f64", "f32"):
        ours = {
            row["matrix"]: row["time_us"] for row in _of(rows, dtype) if _is(row, "spmvgpu", "auto", "hot")
        }
        best: dict[str, float] = {}
        for row in _of(rows, dtype):
            if row["library"] == "cusparse" and row["cache"] == "hot":
                best[row["matrix"]] = min(best.get(row["matrix"], np.inf), row["time_us"])
        speeds[dtype] = {matrix: best[matrix] / ours[matrix] for matrix in ours if matrix in best}
    return speeds


def _per_matrix(speeds: dict[str, dict[str, float]]) -> Any:
    """A bar per matrix, and a point in single precision."""
    names = sorted(speeds["f64"], key=speeds["f64"].__getitem__)
    figure, ax = plt.subplots(figsize=(WIDTH, 1 + 0.18 * len(names)), layout="constrained")
    ax.barh(names, [speeds["f64"][name] for name in names], color="#9bbbe0", label="float64")
    both = [name for name in names if name in speeds["f32"]]
    ax.plot([speeds["f32"][name] for name in both], both, ".", color="#c0792a", label="float32")
    ax.axvline(1, color="black", linewidth=0.8)
    ax.set(xscale="log", xlabel="times as fast as the best of cuSPARSE", ylim=(-1, len(names)))
    ticks = [0.5, 0.75, 1, 1.5, 2, 3, 5, 8]
    ax.set_xticks(ticks, map(str, ticks))
    ax.minorticks_off()
    ax.grid(axis="x", alpha=0.3)
    ax.set_axisbelow(True)
    ax.legend(loc="lower right")
    return figure


def _of(rows: Rows, dtype: str) -> Rows:
    return [row for row in rows if row["dtype"] == dtype]


def _is(row: dict[str, Any], library: str, variant: str, cache: str) -> bool:
    return (row["library"], row["variant"], row["cache"]) == (library, variant, cache)


def _save(figure: Any, name: str) -> None:
    """Twice as fine as it is shown on a wide screen."""
    figure.savefig(OUT / name, dpi=2 * SCREEN)
    plt.close(figure)


def _write(name: str, text: str) -> None:
    (OUT / name).write_text(f"{text}\n", encoding="utf-8")
