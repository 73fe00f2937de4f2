"""The pictures of the report."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # no display is needed, or asked for
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from experiments.records import Times, ratio

from .summary import BEST_CSR, Results

OURS = (("csr", "csr", "o"), ("csr_tuned", "csr, tuned", "^"), ("sell", "sell", "s"))


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
