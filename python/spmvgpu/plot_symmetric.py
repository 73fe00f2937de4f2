"""Pictures of the symmetric format: its tiles over the matrix, and the schedule of a tile step by step.

Made from the stored arrays. Only drawing needs matplotlib.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from .operator import SparseOperator
from .plot import _PADDING, _pyplot, spy

__all__ = ["Schedule", "schedule", "schedule_of", "tiles"]

_Array = npt.NDArray[Any]

FAKE, NO_SLOT = -1, -2  # as a row or column of a Schedule

_FAKE_COLUMN, _NO_ROW = 0xFFFF, 0xFFFF  # in the arrays, as cpp/formats/tsmv.hpp has them
_FAKE_COORDINATE = 0xFFFFFFFF
_OWN, _HALO = "#c0392b", "#e59866"


@dataclass(frozen=True)
class Schedule:
    """What each thread of a block does in each step: arrays of shape (steps, threads).

    Attributes
    ----------
    rows, columns : ndarray of int
        Of the entry in the matrix; `FAKE` for a fake entry, `NO_SLOT` where nothing is stored because no
        later thread has an entry either. Of a thread that has a group of rows, the first one.
    lengths : ndarray of int
        Rows of the thread's group: so many entries, one below the other.
    stores : ndarray of bool
        With this entry the thread's rows are complete, and their sums are stored.
    """

    rows: _Array
    columns: _Array
    lengths: _Array
    stores: _Array

    @property
    def entries(self) -> int:
        return int(self.lengths.sum())

    @property
    def fake(self) -> int:
        return int((self.rows == FAKE).sum())


def schedule_of(op: SparseOperator, tile: int = 0) -> Schedule:
    """The schedule of one tile of an operator in format ``"tsmv"``.

    Raises
    ------
    ValueError
        For another format, or a tile that there is not.
    """
    arrays = _arrays(op)
    count = len(arrays["tiles"]) - 1
    if not 0 <= tile < count:
        raise ValueError(f"tile is {tile}; the operator has {count}")
    (row, halo, first), (end_row, end_halo, end) = arrays["tiles"][tile : tile + 2]
    numbering = np.concatenate([arrays["halo_columns"][halo:end_halo], np.arange(row, end_row)])
    steps = np.arange(arrays["slice_steps"][first], arrays["slice_steps"][end])
    begins = arrays["step_offsets"][steps]
    widths = arrays["step_offsets"][steps + 1] - begins
    shape = (len(steps), int(widths.max(initial=0)))
    stored = np.arange(shape[1]) < widths[:, None]
    slots = np.where(stored, begins[:, None] + np.arange(shape[1]), 0)
    threads, group = op.options["threads"], op.options["row_group"]
    slice_of_step = np.repeat(np.arange(first, end), np.diff(arrays["slice_steps"][first : end + 1]))
    if op.options["variant"] == "poster":
        packed = arrays["coordinates"][slots] if slots.size else np.zeros(shape, np.uint32)
        real = stored & (packed != _FAKE_COORDINATE)
        rows, columns = packed >> 17, packed >> 1 & 0xFFFF
        lengths = np.ones(shape, int)
        stores = real & (packed & 1 == 1)
    else:
        columns = arrays["columns"][slots] if slots.size else np.zeros(shape, np.uint16)
        real = stored & (columns != _FAKE_COLUMN)
        groups = arrays["thread_rows"].reshape(-1, group, threads)[slice_of_step, :, : shape[1]]
        rows, lengths = groups[:, 0], (groups != _NO_ROW).sum(axis=1)
        # A thread keeps its rows to the end of the slice.
        later = np.zeros(shape, dtype=bool)
        for step in range(len(steps) - 1)[::-1]:
            if slice_of_step[step] == slice_of_step[step + 1]:
                later[step] = later[step + 1] | real[step + 1]
        stores = real & ~later
    empty = np.where(stored, FAKE, NO_SLOT)
    return Schedule(
        np.where(real, numbering[np.where(real, rows, 0)], empty),
        np.where(real, numbering[np.where(real, columns, 0)], empty),
        np.where(real, lengths, 0),
        stores,
    )


def schedule(op: SparseOperator, tile: int = 0, *, threads: int = 32, ax: Any = None) -> Any:
    """Draw which entry each thread works on in each step, as ``row, column``, or ``rows, column`` of a group.

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
    """
    pyplot = _pyplot()
    from matplotlib.patches import Rectangle

    found = schedule_of(op, tile)
    steps, threads = len(found.rows), min(threads, found.rows.shape[1])
    rows, columns = found.rows[:, :threads], found.columns[:, :threads]
    if ax is None:
        size = (1.2 + 0.62 * max(steps, 4), 1.0 + 0.24 * max(threads, 4))
        ax = pyplot.figure(figsize=size, layout="constrained").add_subplot()
    low, high = rows[rows >= 0].min(initial=0), max(rows.max(initial=0), 1)
    colours = pyplot.colormaps["viridis"]((rows - low) / max(high - low, 1))
    colours[rows == FAKE] = _PADDING
    colours[rows == NO_SLOT] = (1, 1, 1, 1)
    if rows.size:
        ax.imshow(colours.transpose(1, 0, 2), interpolation="nearest", aspect="auto")
    for step, thread in np.argwhere(rows != NO_SLOT):
        row, length = rows[step, thread], found.lengths[step, thread]
        group = f"{row}" if length == 1 else f"{row}-{row + length - 1}"
        text = "fake" if row == FAKE else f"{group}, {columns[step, thread]}"
        dark = row != FAKE and row - low < 0.6 * (high - low)
        ax.text(step, thread, text, ha="center", va="center", fontsize=7, color="white" if dark else "black")
        if found.stores[step, thread]:
            frame = Rectangle((step - 0.46, thread - 0.42), 0.92, 0.84, fill=False, color=_OWN, linewidth=1.5)
            ax.add_patch(frame)
    ax.set(xlabel="step", ylabel="thread", xticks=range(steps), yticks=range(0, threads, 4))
    share = found.fake / max(found.entries + found.fake, 1)
    ax.set_title(
        f"tile {tile}: {found.entries} entries in {steps} steps, {found.fake} fake ones ({share:.0%})",
        fontsize=10,
    )
    return ax


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
    """
    arrays = _arrays(op)
    ax = spy(op, ax=ax)
    from matplotlib.patches import Rectangle

    begins = arrays["tiles"]
    for (row, halo, _), (end_row, end_halo, _) in pairwise(begins):
        columns = arrays["halo_columns"][halo:end_halo]
        for run in np.split(columns, np.flatnonzero(np.diff(columns) > 1) + 1):
            if len(run):
                place, size = (run[0] - 0.5, row - 0.5), (len(run), end_row - row)
                ax.add_patch(Rectangle(place, *size, facecolor=_HALO, alpha=0.35, linewidth=0))
        side = end_row - row
        ax.add_patch(Rectangle((row - 0.5, row - 0.5), side, side, fill=False, color=_OWN, linewidth=1.2))
    most = int(np.diff(begins[:, 0]).max(initial=0))
    ax.set_title(f"{op.options['variant']}: {len(begins) - 1} tiles of at most {most} rows", fontsize=10)
    return ax


def _arrays(op: SparseOperator) -> dict[str, _Array]:
    if op.format != "tsmv":
        raise ValueError(f"the operator is in format {op.format!r}; tiles are those of 'tsmv'")
    return op._arrays()
