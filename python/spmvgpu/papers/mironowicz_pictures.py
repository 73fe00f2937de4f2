"""Pictures of the format of Mironowicz et al., from stored arrays: tiles, and the schedule of a tile."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from .._util.arguments import whole_number, with_hints
from .._util.show import Brief
from .._util.types import HostArray
from ..operator.operator import SparseOperator
from ..plot.figures import PADDING, axes_or_new, pyplot_module
from ..plot.matrices import spy

if TYPE_CHECKING:  # importing it takes long, and it may be missing
    from matplotlib.axes import Axes

_FAKE_COLUMN, _FAKE_COORDINATE = 0xFFFF, 0xFFFFFFFF  # in the arrays, as cpp/formats/tsmv/layout.hpp has them
_OWN, _HALO = "#c0392b", "#e59866"


@dataclass(frozen=True, eq=False, repr=False)
class TsmvSchedule(Brief):
    """What each thread of a block does in each step, for one tile of format ``"tsmv"``.

    All arrays have shape (steps, threads).

    Attributes
    ----------
    rows, columns : ndarray of int
        Row and column of the entry. `FAKE` marks a fake entry, `NO_SLOT` a place where nothing is stored
        because no later thread has an entry either. For a block of entries, its first row and column.
    heights, widths : ndarray of int
        Rows and columns of the block; 1 for a single entry.
    stores : ndarray of bool
        Whether this entry completes the thread's row, so that its sum is stored.

    Examples
    --------
    >>> import spmvgpu as sg
    >>> op = sg.aslinearoperator(sg.gallery.elasticity2d(6), format="tsmv", device="cpu")
    >>> schedule = sg.plot.TsmvSchedule.of(op)
    >>> schedule.rows.shape == schedule.stores.shape
    True
    """

    FAKE: ClassVar[int] = -1
    NO_SLOT: ClassVar[int] = -2

    rows: HostArray
    columns: HostArray
    heights: HostArray
    widths: HostArray
    stores: HostArray

    @classmethod
    def of(cls, op: SparseOperator, tile: int = 0) -> TsmvSchedule:
        """Read the schedule of one tile from an operator.

        Parameters
        ----------
        op : SparseOperator
            An operator in format ``"tsmv"``.
        tile : int, default 0
            Number of the tile, from 0.

        Returns
        -------
        TsmvSchedule

        Raises
        ------
        ValueError
            If the operator has another format, or no such tile.

        Examples
        --------
        >>> import spmvgpu as sg
        >>> op = sg.aslinearoperator(sg.gallery.elasticity2d(6), format="tsmv", device="cpu")
        >>> sg.plot.TsmvSchedule.of(op).entries
        584
        """
        arrays = _arrays(op)
        tile = whole_number("tile", tile, 0, len(arrays["tiles"]) - 2)
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
        empty = np.where(stored, cls.FAKE, cls.NO_SLOT)
        return cls(
            np.where(real, begin_of[at_row], empty),
            np.where(real, begin_of[at_column], empty),
            np.where(real, begin_of[at_row + 1] - begin_of[at_row], 0),
            np.where(real, begin_of[at_column + 1] - begin_of[at_column], 0),
            stores & real,
        )

    @property
    def entries(self) -> int:
        """Number of real entries."""
        return int((self.heights * self.widths).sum())

    @property
    def fake(self) -> int:
        """Number of fake entries."""
        return int((self.rows == self.FAKE).sum())


def _last_of_slice(real: HostArray, slice_of_step: HostArray) -> HostArray:
    """Where a thread, which keeps its row to the end of the slice, has its last entry there."""
    later = np.zeros_like(real)
    for step in range(len(real) - 1)[::-1]:
        if slice_of_step[step] == slice_of_step[step + 1]:
            later[step] = later[step + 1] | real[step + 1]
    last: HostArray = real & ~later
    return last


def _node_rows(op: SparseOperator, arrays: dict[str, HostArray]) -> HostArray:
    """First row of each node, and the number of rows."""
    if len(arrays["node_rows"]):
        return arrays["node_rows"]
    return np.arange(arrays["tiles"][-1, 0] + 1) * int(op.options["block"])


@with_hints
def tsmv_schedule(op: SparseOperator, tile: int = 0, *, threads: int = 32, ax: Axes | None = None) -> Axes:
    """Draw which entry of a tile each thread works on in each step.

    Each cell says ``row, column``, or the ranges of a block. Its colour shows the row; a fake entry is grey.
    A frame marks the entry that completes a row.

    Parameters
    ----------
    op : SparseOperator
        An operator in format ``"tsmv"``.
    tile : int, default 0
        Number of the tile, from 0.
    threads : int, default 32
        Number of threads to draw, from the first one.
    ax : matplotlib.axes.Axes, optional
        Where to draw. The default is a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    See Also
    --------
    TsmvSchedule : The numbers that are drawn.

    Examples
    --------
    >>> import spmvgpu as sg
    >>> op = sg.aslinearoperator(sg.gallery.elasticity2d(6), format="tsmv", device="cpu")
    >>> ax = sg.plot.tsmv_schedule(op, threads=8)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('step', 'thread')
    """
    pyplot = pyplot_module()
    from matplotlib.patches import Rectangle

    found = TsmvSchedule.of(op, tile)
    steps, threads = len(found.rows), min(threads, found.rows.shape[1])
    rows, columns = found.rows[:, :threads], found.columns[:, :threads]
    ax = axes_or_new(ax, figsize=(1.2 + 0.62 * max(steps, 4), 1.0 + 0.24 * max(threads, 4)))
    low, high = rows[rows >= 0].min(initial=0), max(rows.max(initial=0), 1)
    colours = pyplot.colormaps["viridis"]((rows - low) / max(high - low, 1))
    colours[rows == found.FAKE] = PADDING
    colours[rows == found.NO_SLOT] = (1, 1, 1, 1)
    if rows.size:
        ax.imshow(colours.transpose(1, 0, 2), interpolation="nearest", aspect="auto")
    for step, thread in np.argwhere(rows != found.NO_SLOT):
        row = rows[step, thread]
        is_fake = row == found.FAKE
        own = _range(row, found.heights[step, thread])
        others = _range(columns[step, thread], found.widths[step, thread])
        text = "fake" if is_fake else f"{own}, {others}"
        is_dark = not is_fake and row - low < 0.6 * (high - low)
        colour = "white" if is_dark else "black"
        ax.text(step, thread, text, ha="center", va="center", fontsize=7, color=colour)
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


@with_hints
def tsmv_tiles(op: SparseOperator, *, ax: Axes | None = None) -> Axes:
    """Draw the tiles of format ``"tsmv"`` over the entries of the matrix.

    The rows and columns of a tile are a square on the diagonal. The columns of its halo, to the left, are
    shaded.

    Parameters
    ----------
    op : SparseOperator
        An operator in format ``"tsmv"``.
    ax : matplotlib.axes.Axes, optional
        Where to draw. The default is a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import spmvgpu as sg
    >>> op = sg.aslinearoperator(sg.gallery.elasticity2d(6), format="tsmv", device="cpu")
    >>> ax = sg.plot.tsmv_tiles(op)
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


def _arrays(op: SparseOperator) -> dict[str, HostArray]:
    if op.format != "tsmv":
        raise ValueError(
            f"the operator has format {op.format!r}; only 'tsmv' has tiles, see aslinearoperator(A, 'tsmv')"
        )
    return op.arrays()
