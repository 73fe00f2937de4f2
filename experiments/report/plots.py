"""The pictures of the report."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no display is needed, or asked for
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from experiments.records import Row, Times, geometric_mean, ratio

from . import jobs
from .markdown import short_name
from .overview import OVERVIEW
from .products import speeds
from .summary import BEST_CSR, Results

OURS = (("csr", "csr", "o"), ("csr_tuned", "csr, tuned", "^"), ("sell", "sell", "s"))
OWN, GREY = "#2a5db0", "#8a8f98"
# Libraries of the overview: label, library, device, colour, marker. Markers of CPUs are hollow.
SOLVERS = (
    ("spmvgpu, GPU", "spmvgpu", "gpu", OWN, "o"),
    ("CuPy, GPU", "cupy", "gpu", "#c0792a", "s"),
    ("spmvgpu, CPU", "spmvgpu", "cpu", OWN, "o"),
    ("SciPy, CPU", "scipy", "cpu", GREY, "D"),
)


def draw_overview(results: Results, folder: Path) -> Path | None:
    """Draw whole jobs and products beside other libraries in one picture; None where either is missing."""
    solutions = {matrix: rows for (job, matrix), rows in jobs.cases(results).items() if job == jobs.SOLVE}
    beside = speeds(results, "f64")
    if not solutions or not beside:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(11, 4.4), layout="constrained", width_ratios=(1.15, 1)
    )
    _solutions(left, solutions)
    _products(right, beside)
    environment = results["jobs"]["environment"]
    figure.suptitle(
        f"{short_name(environment['device'])} GPU, and {environment['cores']} cores of a"
        f" {short_name(environment['cpu'])} CPU, float64",
        fontsize=11,
    )
    return _save(figure, folder / OVERVIEW)


def _solutions(panel: Any, solutions: dict[str, list[Row]]) -> None:
    """Time from a SciPy matrix to the solution, a line per system."""
    systems = sorted(solutions, key=lambda matrix: solutions[matrix][0]["nnz"], reverse=True)
    for label, library, device, colour, marker in SOLVERS:
        points = [
            (found[0]["time_us"] / 1e6, line)
            for line, matrix in enumerate(systems)
            if (found := jobs.find(solutions[matrix], library, device))
        ]
        if points:
            faces = colour if device == "gpu" else "white"
            panel.plot(
                *zip(*points, strict=True),
                marker,
                color=colour,
                markerfacecolor=faces,
                markersize=8,
                label=label,
            )
    names = [f"{_kind(matrix)}\n{solutions[matrix][0]['rows']:,} rows" for matrix in systems]
    panel.set_yticks(range(len(systems)), names, fontsize=8)
    panel.set(xscale="log", xlabel="seconds", ylim=(-0.5, len(systems) - 0.5))
    panel.xaxis.set_major_formatter("{x:g}")
    panel.set_title("From SciPy matrix to solution, conjugate gradients", fontsize=10)
    panel.grid(alpha=0.3)
    panel.set_axisbelow(True)
    panel.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=4, frameon=False)


def _kind(matrix: str) -> str:
    """What a system of the jobs is, in words: "Poisson, 2-D" for poisson2d_100."""
    found = re.match(r"poisson(\d)d", matrix)
    return f"Poisson, {found[1]}-D" if found else "elasticity, 3-D" if matrix.startswith("elast") else matrix


def _products(panel: Any, beside: dict[str, list[float]]) -> None:
    """How many times as fast our product is, a line per library and a point per matrix."""
    for line, values in enumerate(reversed(beside.values())):
        spread = [line + 0.3 * ((7 * k) % 11 / 5 - 1) for k in range(len(values))]
        panel.plot(values, spread, ".", color=OWN, alpha=0.3, markersize=5)
        mean = geometric_mean(values)
        panel.plot([mean, mean], [line - 0.38, line + 0.38], color="black", linewidth=1.5)
        panel.annotate(f" {mean:.1f}x", (mean, line + 0.4), ha="center", fontsize=9)
    panel.axvline(1.0, color="black", linewidth=0.8)
    panel.set_yticks(range(len(beside)), list(reversed(beside)), fontsize=8)
    panel.set(
        xscale="log",
        xlabel="times as fast as it (bar: geometric mean)",
        ylim=(-0.6, len(beside) - 0.2),
    )
    panel.xaxis.set_major_formatter("{x:g}")
    panel.set_title("One product on the GPU, a point per matrix", fontsize=10)
    panel.grid(axis="x", alpha=0.3)


def draw(slug: str, results: Results, folder: Path) -> list[Path]:
    """Draw what the results allow; returns the files."""
    if "spmv" not in results:
        return []
    times = Times(results["spmv"])
    folder.mkdir(parents=True, exist_ok=True)
    if times.threads:
        return [_cpu_speed(times, folder / f"{slug}.png")]
    return [_speed_by_size(times, folder / f"{slug}.png")]


def _speed_by_size(times: Times, path: Path) -> Path:
    """Speed-up over the best cuSPARSE CSR algorithm against the number of entries, one panel per dtype."""
    dtypes = sorted({dtype for _, dtype in times.cases()}, reverse=True)
    figure, panels = plt.subplots(
        1, len(dtypes), figsize=(11, 4.2), sharey=True, layout="constrained", squeeze=False
    )
    panels = panels[0]
    for panel, dtype in zip(panels, dtypes, strict=True):
        for variant, label, marker in OURS:
            points = []
            for case in times.cases():
                base = times.best(*case, "cusparse", BEST_CSR)
                speed = ratio(base, times.row(*case, "spmvgpu", variant))
                if case[1] == dtype and base is not None and speed is not None:
                    points.append((base["nnz"], speed))
            if points:
                panel.plot(*zip(*points, strict=True), marker, label=label, alpha=0.75, markersize=5)
        panel.axhline(1.0, color="black", linewidth=0.8)
        panel.set(xscale="log", yscale="log", xlabel="non-zeros", title=f"float{dtype[1:]}")
        panel.set_yticks([0.25, 0.5, 1, 2, 4], ["1/4", "1/2", "1", "2", "4"])
        panel.minorticks_off()
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("speed over the best cuSPARSE CSR")
    panels[0].legend()
    figure.suptitle(f"{times.environment['device']}, hot, device time")
    return _save(figure, path)


def _cpu_speed(times: Times, path: Path) -> Path:
    """Speed of csr over SciPy per number of threads."""
    figure, panel = plt.subplots(figsize=(8, 4.2), layout="constrained")
    for threads in times.threads:
        points = []
        for case in times.cases():
            base = times.row(*case, "scipy", "csr", threads=1)
            speed = ratio(base, times.row(*case, "spmvgpu", "csr", threads=threads))
            if base is not None and speed is not None:
                points.append((base["bytes"] / 2**20, speed))
        panel.plot(
            *zip(*points, strict=True) if points else ([], []),
            "o",
            label=f"{threads} threads",
            alpha=0.75,
            markersize=5,
        )
    panel.axhline(1.0, color="black", linewidth=0.8)
    cache = times.environment.get("cache_bytes")
    if cache:
        panel.axvline(cache / 2**20, color="grey", linestyle=":", label="cache")
    panel.set(xscale="log", xlabel="MiB as CSR", ylabel="speed over SciPy", title=times.environment["device"])
    panel.grid(alpha=0.3)
    panel.legend()
    return _save(figure, path)


def _save(figure: Figure, path: Path) -> Path:
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path
