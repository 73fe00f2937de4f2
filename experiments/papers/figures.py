"""The papers' bar charts. Only drawing needs matplotlib; without it a note says what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

WIDTH = 4.8  # inches: on a phone, letters of 10 points have 10 pixels
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
    unit: str,
    matrices: Sequence[str],
    series: Mapping[str, Mapping[str, float]],
) -> Path:
    """Draw a group of bars per matrix, one bar per kernel; a missing value leaves a gap.

    Parameters
    ----------
    path : Path
        PNG to write.
    title, unit : str
        Of the chart.
    matrices : sequence of str
        The groups.
    series : mapping
        Kernel name to {matrix: value}.
    """
    from matplotlib.figure import Figure  # no pyplot: no window, no state shared with the caller

    count = len(series)
    figure: Any = Figure(figsize=(WIDTH, 1.6 + 0.14 * (count + 1) * len(matrices)), layout="constrained")
    axes = figure.add_subplot()
    width = 0.85 / max(count, 1)
    for number, (label, values) in enumerate(series.items()):
        shift = (number - (count - 1) / 2) * width
        places = [place + shift for place, name in enumerate(matrices) if name in values]
        axes.barh(places, [values[name] for name in matrices if name in values], width, label=label)
    axes.set_yticks(range(len(matrices)), matrices)
    axes.invert_yaxis()
    drawn = [value for values in series.values() for value in values.values()]
    if min(drawn) > 0 and max(drawn) > 30 * min(drawn):  # the shortest bars could not be seen
        axes.set_xscale("log")
        axes.set_xlim(left=min(drawn) / 2)
    figure.suptitle(title, fontsize=10, wrap=True)
    axes.set(xlabel=unit, ylim=(len(matrices) - 0.4, -0.6))
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path, dpi=200)
    return path
