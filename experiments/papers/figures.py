"""The papers' bar charts. Only drawing needs matplotlib; without it a note says what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

NO_MATPLOTLIB = (
    'figures left out: matplotlib is not installed (pip install "spmvgpu[plot]"); the numbers are complete'
)


def available() -> bool:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def bars(
    path: Path,
    title: str,
    ylabel: str,
    matrices: Sequence[str],
    series: Mapping[str, Mapping[str, float]],
) -> Path:
    """Draw a group of bars per matrix, one bar per kernel; a missing value leaves a gap.

    Parameters
    ----------
    path : Path
        PNG to write.
    title, ylabel : str
        Of the chart.
    matrices : sequence of str
        The groups.
    series : mapping
        Kernel name to {matrix: value}.
    """
    from matplotlib.figure import Figure  # no pyplot: no window, no state shared with the caller

    figure: Any = Figure(figsize=(max(7.0, 1.1 * len(matrices)), 4.2), layout="constrained")
    axes = figure.add_subplot()
    width = 0.8 / max(len(series), 1)
    for number, (label, values) in enumerate(series.items()):
        shift = (number - (len(series) - 1) / 2) * width
        places = [place + shift for place, name in enumerate(matrices) if name in values]
        heights = [values[name] for name in matrices if name in values]
        axes.bar(places, heights, width, label=label)
    axes.set_xticks(range(len(matrices)), matrices, rotation=30, ha="right")
    axes.set(title=title, ylabel=ylabel)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    axes.legend()
    figure.savefig(path, dpi=110)
    return path
