"""The pictures of Guo et al. 2011 that are not bar charts: figures 3 to 6, and predictions.

They are drawn from plain numbers, as the JSON file of a run has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.papers.figures import WIDTH

Points = Sequence[tuple[float, float]]  # of a curve, in ascending order


def fits(path: Path, title: str, xlabel: str, measured: Points, fitted: Points) -> Path:
    """Samples as dots and what was fitted to them as a line: figures 3, 4 and 6."""
    figure, axes = _new()
    axes.plot(*_columns(measured), "o", color="black", markersize=4, label="samples")
    axes.plot(*_columns(fitted), label="fit")
    figure.suptitle(title, fontsize=10, wrap=True)
    axes.set(xlabel=xlabel, ylabel="microseconds", xlim=(0, None), ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend()
    return _save(figure, path)


def surface(
    path: Path, title: str, widths: Sequence[float], rows: Sequence[float], time_us: Sequence[Sequence[float]]
) -> Path:
    """Figure 5: time over entries per row and rows, all of them as logarithms.

    Parameters
    ----------
    path : Path
        PNG to write.
    title : str
        Of the chart.
    widths, rows : sequence of float
        The grid.
    time_us : nested sequence
        Microseconds, ``time_us[i][j]`` of ``widths[i]`` and ``rows[j]``; nan where there is none.
    """
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(WIDTH, 4.2), layout="constrained")
    axes = figure.add_subplot(projection="3d")
    x, y = np.meshgrid(np.log2(widths), np.log2(rows), indexing="ij")
    axes.plot_surface(x, y, np.log10(time_us), cmap="viridis", rstride=1, cstride=1)
    axes.set(xlabel="log2 of entries a row", ylabel="log2 of rows", zlabel="log10 of microseconds")
    axes.set_box_aspect(None, zoom=0.85)  # with room for the labels
    figure.suptitle(title, fontsize=10, wrap=True)
    return _save(figure, path)


def predictions(path: Path, title: str, formats: Mapping[str, Points], tolerance: float) -> Path:
    """Predicted against measured time, a colour for each format, and a grey band of that relative error."""
    figure, axes = _new()
    everything = [value for points in formats.values() for point in points for value in point]
    ends = np.array([min(everything), max(everything)])
    axes.plot(ends, ends, color="black", linewidth=0.8)
    axes.fill_between(ends, ends * (1 - tolerance), ends * (1 + tolerance), color="gray", alpha=0.25)
    for format, points in formats.items():
        axes.plot(*_columns(points), "o", markersize=3.5, alpha=0.8, label=format)
    figure.suptitle(title, fontsize=10, wrap=True)
    axes.set(xlabel="measured (microseconds)", ylabel="predicted (microseconds)")
    axes.set(xscale="log", yscale="log")
    axes.grid(alpha=0.3)
    axes.legend(markerscale=1.5)
    return _save(figure, path)


def _columns(points: Points) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _new() -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # no pyplot: no window, no state shared with the caller

    figure: Any = Figure(figsize=(WIDTH, 3.8), layout="constrained")
    return figure, figure.add_subplot()


def _save(figure: Any, path: Path) -> Path:
    figure.savefig(path, dpi=200)
    return path
