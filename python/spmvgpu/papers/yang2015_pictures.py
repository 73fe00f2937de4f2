"""Pictures of row lengths and of partitions of the rows, after Yang et al. 2015."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from .._util.arguments import with_hints
from ..multi_device import partitions as rows_of
from ..multi_device.partitions import Partition
from ..plot.figures import PADDING, axes_or_new, panels, pyplot_module
from .yang2015 import pmf

if TYPE_CHECKING:  # importing it takes long, and it may be missing
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@with_hints
def row_lengths(A: object, *, ax: Axes | None = None) -> Axes:
    """Draw the distribution of the row lengths.

    Parameters
    ----------
    A : sparse matrix or array of int
        The matrix, or the lengths of its rows.
    ax : matplotlib.axes.Axes, optional
        Where to draw. The default is a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    See Also
    --------
    spmvgpu.partition.pmf : The numbers that are drawn.

    Examples
    --------
    >>> import spmvgpu as sg
    >>> ax = sg.plot.row_lengths(sg.gallery.powerlaw(1000, 5.0))
    >>> ax.get_ylabel()
    'fraction of the rows'
    """
    ax = axes_or_new(ax)
    lengths, probabilities = pmf(A)
    ax.vlines(lengths, 0, probabilities, linewidth=1.5)
    ax.plot(lengths, probabilities, "o", markersize=4)
    if len(lengths) and lengths[-1] > 20 * max(lengths[0], 5):
        ax.set_xscale("symlog", linthresh=10)
    ax.set(xlabel="entries of a row", ylabel="fraction of the rows", ylim=(0, None))
    ax.grid(axis="y", alpha=0.3)
    return ax


@with_hints
def partition_rows(A: object, partitions: Mapping[str, Partition], *, pixels: int = 800) -> Figure:
    """Draw the length of every row, one part after the other, and the padding of each part.

    Each part has a colour. Padding, up to the longest row of a part, is grey.

    Parameters
    ----------
    A : sparse matrix or array of int
        The matrix, or the lengths of its rows.
    partitions : dict of str to Partition
        The partitions to compare, by title. Each has a panel.
    pixels : int, default 800
        Largest number of columns to draw. With more rows, a column is the mean of several.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import spmvgpu as sg
    >>> A = sg.gallery.powerlaw(1000, 5.0)
    >>> cuts = {"rows": sg.partition.by_rows(A, [1, 1]), "pmf": sg.partition.by_pmf(A, [1, 1])}
    >>> len(sg.plot.partition_rows(A, cuts).axes)
    2
    """
    pyplot = pyplot_module()
    lengths = rows_of.row_lengths(A)
    figure, axes = panels(len(partitions), 0.4 + 1.7 * len(partitions), sharex=True)
    colours = pyplot.colormaps["tab10"].colors
    for ax, (title, parts) in zip(axes, partitions.items(), strict=True):
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
    axes[-1].set_xlabel("rows, part after part")
    axes[-1].xaxis.get_major_locator().set_params(integer=True)
    return figure


@with_hints
def partition_densities(partitions: Mapping[str, Partition], *, ax: Axes | None = None) -> Axes:
    """Draw the mean density of partitions as bars, and the density of each part as a dot.

    Parameters
    ----------
    partitions : dict of str to Partition
        The partitions to compare, by title.
    ax : matplotlib.axes.Axes, optional
        Where to draw. The default is a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import spmvgpu as sg
    >>> A = sg.gallery.powerlaw(1000, 5.0)
    >>> cuts = {"rows": sg.partition.by_rows(A, [1, 1]), "pmf": sg.partition.by_pmf(A, [1, 1])}
    >>> [text.get_text() for text in sg.plot.partition_densities(cuts).get_xticklabels()]
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
