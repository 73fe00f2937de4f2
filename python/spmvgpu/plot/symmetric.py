"""Pictures of the symmetric format: its tiles over the matrix, and the schedule of a tile step by step.

Made from the stored arrays. Only drawing needs matplotlib.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ..operator import SparseOperator
from .figures import PADDING, axes_or_new, pyplot_module
from .matrices import spy

__all__ = ["Schedule", "schedule", "schedule_of", "tiles"]

_Array = npt.NDArray[Any]

FAKE, NO_SLOT = -1, -2  # as a row or column of a Schedule

_FAKE_COLUMN, _FAKE_COORDINATE = 0xFFFF, 0xFFFFFFFF  # in the arrays, as cpp/formats/tsmv.hpp has them
_OWN, _HALO = "#c0392b", "#e59866"


@dataclass(frozen=True)
class Schedule:
    """What each thread of a block does in each step: arrays of shape (steps, threads).

    Attributes
    ----------
    rows, columns : ndarray of int
        Of the entry in the matrix; `FAKE` for a fake entry, `NO_SLOT` where nothing is stored because no
        later thread has an entry either. Where rows are taken together as nodes, the first of the block's.
    heights, widths : ndarray of int
        Rows and columns of the block; 1 for a single entry.
    stores : ndarray of bool
        With this entry the thread's row is complete, and its sum is stored.

    Examples
    --------
    >>> import spmvgpu as sg
    >>> op = sg.aslinearoperator(sg.gallery.elasticity2d(6), format="tsmv", device="cpu")
    >>> schedule = sg.plot_symmetric.schedule_of(op)
    >>> schedule.rows.shape == schedule.stores.shape
    True
    """

    rows: _Array
    columns: _Array
    heights: _Array
    widths: _Array
    stores: _Array

    @property
    def entries(self) -> int:
        return int((self.heights * self.widths).sum())

    @property
    def fake(self) -> int:
        return int((self.rows == FAKE).sum())


def schedule_of(op: SparseOperator, tile: int = 0) -> Schedule:
    """The schedule of one tile of an operator in format ``"tsmv"``.

    Raises
    ------
    ValueError
        For another format, or a tile that there is not.

    Examples
    --------
    >>> import spmvgpu as sg
    >>> op = sg.aslinearoperator(sg.gallery.elasticity2d(6), format="tsmv", device="cpu")
    >>> schedule = sg.plot_symmetric.schedule_of(op)
    >>> schedule.entries
    584
    """
    arrays = _arrays(op)
    count = len(arrays["tiles"]) - 1
    if not 0 <= tile < count:
        raise ValueError(f"tile is {tile}; the operator has {count}")
    (node, halo, first), (end_node, end_halo, end) = arrays["tiles"][tile : tile + 2]
    numbering = np.concatenate([arrays["halo_nodes"][halo:end_halo], np.arange(node, end_node)])
    steps = np.arange(arrays["slice_steps"][first], arrays["slice_steps"][end])
    slice_of_step = np.repeat(np.arange(first, end), np.diff(arrays["slice_steps"][first : end + 1]))
    begins = arrays["step_offsets"][steps]
    lengths = arrays["step_offsets"][steps + 1] - begins
    shape = (len(steps), int(lengths.max(initial=0)))
    stored = np.arange(shape[1]) < lengths[:, None]
    slots = (begins[:, None] + np.arange(shape[1]))[stored]
    nodes, columns = np.full(shape, _FAKE_COLUMN), np.full(shape, _FAKE_COLUMN)
    stores = np.zeros(shape, dtype=bool)
    if op.options["variant"] == "poster":
        packed = arrays["coordinates"][slots]
        columns[stored] = np.where(packed == _FAKE_COORDINATE, _FAKE_COLUMN, packed >> 1 & 0xFFFF)
        nodes[stored] = packed >> 17
        stores[stored] = packed & 1 == 1
    else:
        columns[stored] = arrays["columns"][slots]
        nodes[:] = arrays["thread_nodes"].reshape(-1, op.options["threads"])[slice_of_step, : shape[1]]
        stores[:] = _last_of_slice(columns != _FAKE_COLUMN, slice_of_step)
    real = columns != _FAKE_COLUMN
    begin_of = _node_rows(op, arrays)
    at_row, at_column = (numbering[np.where(real, local, 0)] for local in (nodes, columns))
    empty = np.where(stored, FAKE, NO_SLOT)
    return Schedule(
        np.where(real, begin_of[at_row], empty),
        np.where(real, begin_of[at_column], empty),
        np.where(real, begin_of[at_row + 1] - begin_of[at_row], 0),
        np.where(real, begin_of[at_column + 1] - begin_of[at_column], 0),
        stores & real,
    )


def _last_of_slice(real: _Array, slice_of_step: _Array) -> _Array:
    """Where a thread, which keeps its row to the end of the slice, has its last entry there."""
    later = np.zeros_like(real)
    for step in range(len(real) - 1)[::-1]:
        if slice_of_step[step] == slice_of_step[step + 1]:
            later[step] = later[step + 1] | real[step + 1]
    last: _Array = real & ~later
    return last


def _node_rows(op: SparseOperator, arrays: dict[str, _Array]) -> _Array:
    """First row of each node, and the number of rows."""
    if len(arrays["node_rows"]):
        return arrays["node_rows"]
    return np.arange(arrays["tiles"][-1, 0] + 1) * int(op.options["block"])


def schedule(op: SparseOperator, tile: int = 0, *, threads: int = 32, ax: Any = None) -> Any:
    """Draw which entry each thread works on in each step, as ``row, column``; of a block, the ranges.

    An entry has the colour of its row; fake entries are grey, and a frame marks those with which a row's sum
    is complete and stored.

    Parameters
    ----------
    op : SparseOperator
        In format ``"tsmv"``.
    tile : int
    threads : int
        Draw the first so many.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure without it.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import spmvgpu as sg
    >>> op = sg.aslinearoperator(sg.gallery.elasticity2d(6), format="tsmv", device="cpu")
    >>> ax = sg.plot_symmetric.schedule(op, threads=8)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('step', 'thread')
    """
    pyplot = pyplot_module()
    from matplotlib.patches import Rectangle

    found = schedule_of(op, tile)
    steps, threads = len(found.rows), min(threads, found.rows.shape[1])
    rows, columns = found.rows[:, :threads], found.columns[:, :threads]
    ax = axes_or_new(ax, figsize=(1.2 + 0.62 * max(steps, 4), 1.0 + 0.24 * max(threads, 4)))
    low, high = rows[rows >= 0].min(initial=0), max(rows.max(initial=0), 1)
    colours = pyplot.colormaps["viridis"]((rows - low) / max(high - low, 1))
    colours[rows == FAKE] = PADDING
    colours[rows == NO_SLOT] = (1, 1, 1, 1)
    if rows.size:
        ax.imshow(colours.transpose(1, 0, 2), interpolation="nearest", aspect="auto")
    for step, thread in np.argwhere(rows != NO_SLOT):
        row = rows[step, thread]
        height, width = found.heights[step, thread], found.widths[step, thread]
        text = "fake" if row == FAKE else f"{_range(row, height)}, {_range(columns[step, thread], width)}"
        dark = row != FAKE and row - low < 0.6 * (high - low)
        ax.text(step, thread, text, ha="center", va="center", fontsize=7, color="white" if dark else "black")
        if found.stores[step, thread]:
            frame = Rectangle((step - 0.46, thread - 0.42), 0.92, 0.84, fill=False, color=_OWN, linewidth=1.5)
            ax.add_patch(frame)
    ax.set(xlabel="step", ylabel="thread", xticks=range(steps), yticks=range(0, threads, 4))
    fraction = found.fake / max(found.entries + found.fake, 1)
    ax.set_title(
        f"tile {tile}: {found.entries} entries in {steps} steps, {found.fake} fake ones ({fraction:.0%})",
        fontsize=10,
    )
    return ax


def _range(first: int, length: int) -> str:
    return f"{first}" if length == 1 else f"{first}-{first + length - 1}"


def tiles(op: SparseOperator, *, ax: Any = None) -> Any:
    """Draw the tiles of an operator in format ``"tsmv"`` over the entries of its matrix.

    A tile's own rows and columns are a square on the diagonal; the columns of its halo, left of that, are
    shaded.

    Parameters
    ----------
    op : SparseOperator
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure without it.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import spmvgpu as sg
    >>> op = sg.aslinearoperator(sg.gallery.elasticity2d(6), format="tsmv", device="cpu")
    >>> ax = sg.plot_symmetric.tiles(op)
    >>> ax.get_title()
    'halo: 1 tiles of at most 72 rows'
    """
    arrays = _arrays(op)
    ax = spy(op, ax=ax)
    from matplotlib.patches import Rectangle

    begins, begin_of = arrays["tiles"], _node_rows(op, arrays)
    for (node, halo, _), (end_node, end_halo, _) in pairwise(begins):
        row, side = begin_of[node], begin_of[end_node] - begin_of[node]
        nodes = arrays["halo_nodes"][halo:end_halo]
        for run in np.split(nodes, np.flatnonzero(np.diff(nodes) > 1) + 1):
            if len(run):
                column, width = begin_of[run[0]], begin_of[run[-1] + 1] - begin_of[run[0]]
                corner = (column - 0.5, row - 0.5)
                ax.add_patch(Rectangle(corner, width, side, facecolor=_HALO, alpha=0.35, linewidth=0))
        ax.add_patch(Rectangle((row - 0.5, row - 0.5), side, side, fill=False, color=_OWN, linewidth=1.2))
    most = int(np.diff(begin_of[begins[:, 0]]).max(initial=0))
    ax.set_title(f"{op.options['variant']}: {len(begins) - 1} tiles of at most {most} rows", fontsize=10)
    return ax


def _arrays(op: SparseOperator) -> dict[str, _Array]:
    if op.format != "tsmv":
        raise ValueError(f"the operator is in format {op.format!r}; tiles are those of 'tsmv'")
    return op.arrays()
