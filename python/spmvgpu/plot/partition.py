"""Pictures of partitions: how long the rows are, which part they are in, and how much the parts pad.

Only a call needs matplotlib.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import partition
from .figures import PADDING, axes_or_new, pyplot_module

__all__ = ["densities", "pmf", "row_lengths"]


def pmf(A: Any, *, ax: Any = None) -> Any:
    """Draw the probability mass function of the row lengths.

    Parameters
    ----------
    A : matrix or array of int
        As `spmvgpu.partition.by_rows` takes it.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure without it.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import spmvgpu as sg
    >>> ax = sg.plot_partition.pmf(sg.gallery.powerlaw(1000, 5.0))
    >>> ax.get_ylabel()
    'fraction of the rows'
    """
    ax = axes_or_new(ax)
    lengths, probabilities = partition.pmf(A)
    ax.vlines(lengths, 0, probabilities, linewidth=1.5)
    ax.plot(lengths, probabilities, "o", markersize=4)
    if len(lengths) and lengths[-1] > 20 * max(lengths[0], 5):
        ax.set_xscale("symlog", linthresh=10)
    ax.set(xlabel="entries of a row", ylabel="fraction of the rows", ylim=(0, None))
    ax.grid(axis="y", alpha=0.3)
    return ax


def row_lengths(A: Any, partitions: Mapping[str, partition.Partition], *, pixels: int = 800) -> Any:
    """Draw the rows of each part side by side, as high as they are long, on the padding they need.

    Parts are coloured; grey is the padding to the longest row of a part.

    Parameters
    ----------
    A : matrix or array of int
        The matrix, or the lengths of its rows.
    partitions : mapping
        Title to `Partition`; each gets a panel.
    pixels : int
        Largest number of columns drawn: with more rows, a column is the mean of its rows.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import spmvgpu as sg
    >>> A = sg.gallery.powerlaw(1000, 5.0)
    >>> cuts = {"rows": sg.partition.by_rows(A, [1, 1]), "pmf": sg.partition.by_pmf(A, [1, 1])}
    >>> len(sg.plot_partition.row_lengths(A, cuts).axes)
    2
    """
    pyplot = pyplot_module()
    lengths = partition.row_lengths(A)
    figure, axes = pyplot.subplots(
        len(partitions),
        1,
        figsize=(9, 0.4 + 1.7 * len(partitions)),
        sharex=True,
        layout="constrained",
        squeeze=False,
    )
    colours = pyplot.colormaps["tab10"].colors
    for ax, (title, parts) in zip(axes[:, 0], partitions.items(), strict=True):
        begin = 0
        for number, (rows, width) in enumerate(zip(parts.sets, parts.width, strict=True)):
            count = min(len(rows), max(1, pixels * len(rows) // max(len(lengths), 1)))
            if count:
                edges = np.linspace(0, len(rows), count + 1).astype(np.int64)
                heights = np.add.reduceat(lengths[rows], edges[:-1]) / np.diff(edges)
                ax.stairs([width], [begin, begin + len(rows)], fill=True, color=PADDING)
                colour = colours[number % len(colours)]
                ax.stairs(heights, begin + edges, fill=True, color=colour)
            begin += len(rows)
        density = f"mean density {100 * parts.mean_density:.0f} %"
        balance = f"relative difference {parts.relative_difference:.3g} %"
        ax.set_title(f"{title}: {density}, {balance}", loc="left", fontsize=10)
        ax.set(ylabel="entries", ylim=(0, None), xlim=(0, max(len(lengths), 1)))
    axes[-1, 0].set_xlabel("rows, part after part")
    axes[-1, 0].xaxis.get_major_locator().set_params(integer=True)
    return figure


def densities(partitions: Mapping[str, partition.Partition], *, ax: Any = None) -> Any:
    """Draw the mean density of partitions as bars, and the densities of their parts as dots.

    Parameters
    ----------
    partitions : mapping
        Title to `Partition`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure without it.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import spmvgpu as sg
    >>> A = sg.gallery.powerlaw(1000, 5.0)
    >>> cuts = {"rows": sg.partition.by_rows(A, [1, 1]), "pmf": sg.partition.by_pmf(A, [1, 1])}
    >>> [text.get_text() for text in sg.plot_partition.densities(cuts).get_xticklabels()]
    ['rows', 'pmf']
    """
    ax = axes_or_new(ax)
    for position, parts in enumerate(partitions.values()):
        ax.bar(position, parts.mean_density, 0.6, color="#9bbbe0", label=None if position else "all parts")
        held = parts.rows > 0
        dots = np.full(int(held.sum()), position)
        label = None if position else "each part"
        ax.plot(dots, parts.density[held], "o", color="#2a5db0", markersize=5, label=label)
    ax.set_xticks(range(len(partitions)), list(partitions))
    ax.set(ylabel="density: entries per slot", ylim=(0, 1.05))
    ax.grid(axis="y", alpha=0.3)
    ax.set_axisbelow(True)
    ax.legend()
    return ax
