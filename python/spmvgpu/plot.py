"""Pictures: where a matrix has entries, and how fast a solver converges. Only a call needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["residual_history", "spy"]

_BLUE = "#2a5db0"


def spy(A: Any, *, ax: Any = None, pixels: int = 400, title: str | None = None) -> Any:
    """Draw where a matrix has entries.

    A small matrix is drawn entry by entry. A larger one is cut into at most `pixels` by `pixels` cells, and a
    cell is the darker the more of its places hold an entry.

    Parameters
    ----------
    A : sparse matrix, sparse array or SparseOperator
        The matrix.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure without it.
    pixels : int
        Largest number of cells along an axis.
    title : str, optional
        Shape and number of non-zeros without it.

    Returns
    -------
    matplotlib.axes.Axes
    """
    pyplot = _pyplot()
    from matplotlib.colors import LogNorm

    if pixels < 1:
        raise ValueError(f"pixels is {pixels}; it must be at least 1")
    matrix = sp.coo_array(A if sp.issparse(A) else A.tocsr())
    rows, cols = matrix.shape
    if ax is None:
        ax = pyplot.figure(layout="constrained").add_subplot()
    ax.set(xlabel="column", ylabel="row", title=title or f"{rows} x {cols}, {matrix.nnz} non-zeros")
    ax.set_facecolor("white")
    if matrix.nnz == 0:
        ax.set(xlim=(-0.5, max(cols, 1) - 0.5), ylim=(max(rows, 1) - 0.5, -0.5))
        return ax

    density, filled = _density(matrix, pixels)
    # Edges at half-integers, so that the tick of a row or column points at the middle of its entries.
    placing = {"extent": (-0.5, cols - 0.5, rows - 0.5, -0.5), "interpolation": "nearest", "aspect": "auto"}
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


def residual_history(
    residuals: Sequence[float], *, ax: Any = None, rtol: float | None = None, label: str | None = None
) -> Any:
    """Draw the relative residual over the iterations, on a logarithmic scale.

    Parameters
    ----------
    residuals : sequence of float
        ``||b - A x|| / ||b||`` before the first iteration and after each.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure without it. Call again with the same axes to compare solvers.
    rtol : float, optional
        Tolerance to mark with a line.
    label : str, optional
        Name of the curve in the legend.

    Returns
    -------
    matplotlib.axes.Axes
    """
    pyplot = _pyplot()
    if ax is None:
        ax = pyplot.figure(layout="constrained").add_subplot()
    ax.semilogy(range(len(residuals)), residuals, label=label, linewidth=1.5)
    if rtol is not None:
        ax.axhline(rtol, color="grey", linestyle="--", linewidth=1, label=f"rtol = {rtol:g}")
    ax.set(xlabel="iteration", ylabel=r"relative residual  $\|b - A x\| \, / \, \|b\|$")
    ax.grid(True, which="major", alpha=0.3)
    if label is not None or rtol is not None:
        ax.legend()
    return ax


def _density(matrix: sp.coo_array, pixels: int) -> tuple[Any, Any]:
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


def _one_colour() -> Any:
    from matplotlib.colors import ListedColormap

    return ListedColormap([_BLUE])


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as pyplot
    except ImportError as error:
        raise ImportError('spmvgpu.plot needs matplotlib: pip install "spmvgpu[plot]"') from error
    return pyplot
