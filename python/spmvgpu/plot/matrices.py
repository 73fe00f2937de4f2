"""Pictures of a matrix: where it has entries, how a format stores them, how fast a solver converges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from .._util.arguments import with_hints
from .._util.types import Format, HostArray
from ..formats import traits
from ..inputs.canonical import canonical_csr
from ..operator.construct import aslinearoperator
from .figures import PADDING, axes_or_new, panels, pyplot_module

if TYPE_CHECKING:  # importing it takes long, and it may be missing
    from matplotlib.axes import Axes
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure

_BLUE = "#2a5db0"
_WARP = 32  # slots that the threads of a warp read together


@with_hints
def spy(A: Any, *, ax: Axes | None = None, pixels: int = 400, title: str | None = None) -> Axes:
    """Draw the sparsity pattern of a matrix.

    A small matrix is drawn entry by entry. A large one is divided into at most `pixels` by `pixels` cells; a
    cell with more entries is darker.

    Parameters
    ----------
    A : matrix
        As in `aslinearoperator`.
    ax : matplotlib.axes.Axes, optional
        Where to draw. The default is a new figure.
    pixels : int, default 400
        Largest number of cells along an axis.
    title : str, optional
        Title of the picture. The default is the shape and the number of non-zeros.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import spmvgpu as sg
    >>> ax = sg.plot.spy(sg.gallery.poisson2d(10))
    >>> ax.get_title()
    '100 x 100, 460 non-zeros'
    """
    pyplot_module()  # says what to install
    from matplotlib.colors import LogNorm

    if pixels < 1:
        raise ValueError(f"pixels is {pixels}; it must be at least 1")
    matrix = sp.coo_array(canonical_csr(A).host)
    rows, cols = matrix.shape
    ax = axes_or_new(ax)
    ax.set(xlabel="column", ylabel="row", title=title or f"{rows} x {cols}, {matrix.nnz} non-zeros")
    ax.set_facecolor("white")
    if matrix.nnz == 0:
        ax.set(xlim=(-0.5, max(cols, 1) - 0.5), ylim=(max(rows, 1) - 0.5, -0.5))
        return ax

    density, filled = _density(matrix, pixels)
    # Edges at half-integers, so that the tick of a row or column points at the middle of its entries.
    placing: dict[str, Any] = {
        "extent": (-0.5, cols - 0.5, rows - 0.5, -0.5),
        "interpolation": "nearest",
        "aspect": "auto",
    }
    if density.shape == (rows, cols):
        ax.imshow(np.ma.masked_equal(filled > 0, 0), cmap=_one_colour(), vmin=0, vmax=1, **placing)
    else:
        shown = np.ma.masked_equal(density, 0)
        low, high = float(shown.min()), float(shown.max())
        norm = LogNorm(low / 3, max(high, low * 1.01))  # the lightest cell must still stand out from white
        image = ax.imshow(shown, cmap="Blues", norm=norm, **placing)
        ax.figure.colorbar(image, ax=ax, label="fraction of a cell that holds entries")
    if max(rows, cols) <= 4 * min(rows, cols):
        ax.set_aspect("equal")
    return ax


@with_hints
def layout(A: Any, format: Format, *, line: int | None = None, **options: Any) -> Figure:
    """Draw how a format lays out the entries of a small matrix in memory, padding included.

    Each slot of an array of values is a cell. Its colour shows the row of the entry; padding is grey.
    Addresses increase to the right, then downwards.

    Parameters
    ----------
    A : matrix
        As in `aslinearoperator`.
    format : str
        One of `spmvgpu.formats()`.
    line : int, optional
        Slots in a line of the picture. By default, a line is a column of a padded format, or the 32 slots of
        a warp where rows are contiguous.
    **options
        Options of the format, see `spmvgpu.format_options`.

    Returns
    -------
    matplotlib.figure.Figure
        One panel for each array of values of the format.

    Notes
    -----
    The picture is made from the stored arrays: every entry gets a number as its value, and the numbers are
    found again. All values are therefore different, so that ``"packed_sell"`` packs none of them, and
    ``"stencil"`` finds no equal rows. ``"packed_sell"`` also shows the bytes of its columns in grey.

    Examples
    --------
    >>> import spmvgpu as sg
    >>> figure = sg.plot.layout(sg.gallery.powerlaw(20, 3.0), "ellpack")
    >>> figure.axes[0].get_title(loc="left")
    'ellpack: values, 256 slots, 204 of them padding'
    """
    pyplot = pyplot_module()
    given = canonical_csr(A).host
    numbers = np.arange(1.0, given.nnz + 1) + 0.1  # which no format can store in fewer bits
    numbered = sp.csr_array((numbers, given.indices, given.indptr), shape=given.shape)
    row_of = np.repeat(np.arange(numbered.shape[0]), np.diff(numbered.indptr))
    stored = numbered
    if traits(format).needs_symmetry and given.shape[0] == given.shape[1]:
        # Two entries that are stored once have one number.
        mirrored = sp.csr_array(sp.triu(numbered) + sp.triu(numbered, 1).T)
        if all(np.array_equal(getattr(mirrored, s), getattr(numbered, s)) for s in ("indptr", "indices")):
            stored = mirrored
    arrays = aslinearoperator(stored, format, "cpu", **options).arrays()
    found_in = {name: _numbers_in(array, numbered.data) for name, array in arrays.items()}
    shown = [
        (name, found, line or _line_length(found, row_of)) for name, found in found_in.items() if found.any()
    ]
    heights = [-(-len(array) // width) + 2 for _, array, width in shown]  # 2: its title
    height = 0.6 + 0.22 * sum(heights)
    figure, axes = panels(max(len(shown), 1), height, height_ratios=heights or None)
    colours = pyplot.colormaps["viridis"]
    for ax, (name, array, width) in zip(axes, shown, strict=False):  # one is empty without any
        cells = np.ones((-(-len(array) // width) * width, 4))  # white beyond the end
        filled = array != 0
        cells[: len(array)][~filled] = PADDING
        rows = row_of[array[filled].astype(np.int64) - 1]
        cells[: len(array)][filled] = colours(rows / max(numbered.shape[0] - 1, 1))
        ax.imshow(cells.reshape(-1, width, 4), interpolation="nearest", aspect="auto")
        slots = f"{len(array)} slots, {len(array) - int(filled.sum())} of them padding"
        ax.set_title(f"{format}: {name}, {slots}", loc="left", fontsize=10)
        ax.set(xticks=[0, width - 1], yticks=[])
        ax.set_xticks(np.arange(width) - 0.5, minor=True)
        ax.set_yticks(np.arange(len(cells) // width) - 0.5, minor=True)
        ax.grid(which="minor", color="white", linewidth=0.5 if width <= 128 else 0.1)
        ax.tick_params(which="minor", length=0)
    scale = pyplot.cm.ScalarMappable(pyplot.Normalize(0, max(numbered.shape[0] - 1, 1)), colours)
    figure.colorbar(scale, ax=axes.tolist(), label="row", fraction=0.03, pad=0.01)
    return figure


def _numbers_in(array: HostArray, numbers: HostArray) -> HostArray:
    """The number of the entry in every slot of an array of values, or of bytes; 0 where there is none."""
    is_packed = array.dtype == np.uint8
    if not is_packed and array.dtype.kind != "f":
        return np.empty(0)
    values = array.view(np.float64) if is_packed else array
    holds = np.isin(values, numbers)
    if not is_packed and not (holds | (values == 0)).all():
        return np.empty(0)  # values, but not of the matrix
    return np.where(holds, np.floor(values, where=holds, out=np.zeros(values.shape)), 0)


@with_hints
def residual_history(
    residuals: Sequence[float] | Mapping[str, Sequence[float]],
    *,
    ax: Axes | None = None,
    rtol: float | None = None,
    label: str | None = None,
    norm: float | None = None,
) -> Axes:
    """Draw norms of residuals over the iterations, relative to the first, on a logarithmic scale.

    Parameters
    ----------
    residuals : sequence of float, or dict of them
        The norm before the first iteration and after each one, as solvers of `spmvgpu.linalg` return them in
        ``residuals=[]``. A dict has a curve for each label. `gmres` returns norms of preconditioned
        residuals, whose heights do not compare with other curves.
    ax : matplotlib.axes.Axes, optional
        Where to draw. The default is a new figure. Give the same axes again to compare solvers.
    rtol : float, optional
        Tolerance to mark with a line.
    label : str, optional
        Name of a single curve in the legend.
    norm : float, optional
        What to divide by in place of the first norm of each curve, which is ``norm(b)`` unless the solver
        had an initial guess. Then pass ``norm(b)`` here, because `rtol` is relative to it.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(sg.gallery.poisson2d(20), device="cpu")
    >>> curves = {"none": [], "amg": []}
    >>> for name, residuals in curves.items():
    ...     M = None if name == "none" else name
    ...     x, info = sg.linalg.cg(op, np.ones(400), rtol=1e-8, M=M, residuals=residuals)
    >>> ax = sg.plot.residual_history(curves, rtol=1e-8)
    >>> len(ax.lines), ax.get_yscale()
    (3, 'log')
    """
    if isinstance(residuals, Mapping) and label is not None:
        raise ValueError("label names a single curve: the keys of residuals are the labels of several")
    curves = residuals if isinstance(residuals, Mapping) else {label: residuals}
    ax = axes_or_new(ax)
    for name, values in curves.items():
        norms = np.asarray(values, dtype=float)
        scale = norms[0] if norm is None and norms.size else norm
        ax.semilogy(
            norms if scale is None else norms / np.where(scale == 0, 1, scale), label=name, linewidth=1.5
        )
    mark = None if rtol is None else f"rtol = {rtol:g}"
    if rtol is not None and mark not in [line.get_label() for line in ax.lines]:
        ax.axhline(rtol, color="grey", linestyle="--", linewidth=1, label=mark)
    divisor = "r_0" if norm is None else "b"
    ax.set(xlabel="iteration", ylabel=rf"relative residual  $\|r_k\| \, / \, \|{divisor}\|$")
    ax.grid(True, which="major", alpha=0.3)
    if ax.get_legend_handles_labels()[1]:
        ax.legend()
    return ax


def _line_length(array: HostArray, row_of: HostArray) -> int:
    """Slots from one column of a padded format to the next, or a warp's where rows are contiguous."""
    slots = np.flatnonzero(array)
    entry = array[slots].astype(np.int64) - 1
    order = np.argsort(entry)
    slots, row = slots[order], row_of[entry[order]]
    strides = np.diff(slots)[np.diff(row) == 0]
    strides = strides[strides > 1]
    if len(strides) == 0:
        return _WARP
    common = int(np.bincount(strides).argmax())
    # Where several threads share a row, the step to the next column is less than a column.
    rounded = -(-common // _WARP) * _WARP
    return rounded if len(array) % rounded == 0 else common


def _density(matrix: sp.coo_array, pixels: int) -> tuple[HostArray, HostArray]:
    """Fraction of filled places and number of entries per cell, `pixels` cells along an axis at most."""
    rows, cols = matrix.shape
    height, width = min(rows, pixels), min(cols, pixels)
    row, col = matrix.row, matrix.col
    cell = (row.astype(np.int64) * height // rows) * width + col.astype(np.int64) * width // cols
    filled = np.bincount(cell, minlength=height * width).reshape(height, width)
    # Cells differ by a row or column in size where the matrix does not divide evenly.
    tall = np.bincount(np.arange(rows, dtype=np.int64) * height // rows, minlength=height)
    wide = np.bincount(np.arange(cols, dtype=np.int64) * width // cols, minlength=width)
    return filled / np.outer(tall, wide), filled


def _one_colour() -> ListedColormap:
    from matplotlib.colors import ListedColormap

    return ListedColormap([_BLUE])
