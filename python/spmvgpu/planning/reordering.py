"""Symmetric reordering of a matrix, so that neighbouring rows gather neighbouring entries of x.

The order is `scipy.sparse.csgraph.reverse_cuthill_mckee`'s (Cuthill and McKee 1969, reversed by George 1971).
Mironowicz et al. put it before their symmetric format: a narrow band fills the blocks along the diagonal.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ..inputs import compressed

Reorder = Literal["rcm", "auto"] | None

# With reorder="auto": entries that lie closer to the diagonal than this on average gather x from the nearest
# cache already, and an order that does not halve the distance is not worth gathering x once more per product.
_NEAR_BYTES = 32 * 1024
_WORTHWHILE_GAIN = 2.0


def check_reorder(reorder: Any) -> None:
    """Refuse what `order_for` does not take."""
    if reorder is None or (isinstance(reorder, str) and reorder in ("rcm", "auto")):
        return
    raise ValueError(f"reorder={reorder!r} is not allowed; give 'rcm', 'auto' or None")


def order_for(csr: Any, reorder: Reorder) -> np.ndarray[Any, Any] | None:
    """The new order of rows and columns, or None to leave the matrix as it is.

    Parameters
    ----------
    csr : csr_array
        Canonical.
    reorder : {None, "rcm", "auto"}
        "rcm": reverse Cuthill-McKee of the pattern of ``A + A.T``. "auto": the same where entries are far
        from the diagonal and it brings them at least twice as close.

    Returns
    -------
    ndarray of int32 or None
        Row ``order[i]`` of the matrix becomes row ``i``, and so do the columns.

    Raises
    ------
    ValueError
        For another value, and for "rcm" with a matrix that is not square.
    """
    check_reorder(reorder)
    if reorder is None:
        return None
    rows, cols = csr.shape
    if rows != cols:
        if reorder == "auto":
            return None
        raise ValueError(
            f"reorder='rcm' orders rows and columns alike and needs a square matrix, not {rows} x {cols}; "
            "give reorder=None or 'auto'"
        )
    if csr.nnz == 0:
        return None
    if csr.nnz > compressed.ENTRY_LIMIT:  # more than SciPy counts
        if reorder == "auto":
            return None
        raise ValueError(
            f"reorder='rcm' is for matrices of at most {compressed.ENTRY_LIMIT} stored entries, and this one "
            f"has {csr.nnz}; give reorder=None or 'auto'"
        )
    if reorder == "rcm":
        return _reverse_cuthill_mckee(csr)
    distance = _mean_distance(csr)
    if distance * csr.dtype.itemsize <= _NEAR_BYTES:
        return None
    order = _reverse_cuthill_mckee(csr)
    return order if _WORTHWHILE_GAIN * _mean_distance(csr, order) <= distance else None


def _reverse_cuthill_mckee(csr: Any) -> np.ndarray[Any, Any]:
    from scipy.sparse.csgraph import reverse_cuthill_mckee  # not at the top: few need it

    order: np.ndarray[Any, Any] = reverse_cuthill_mckee(csr, symmetric_mode=False)
    return order.astype(np.int32, copy=False)


def _mean_distance(csr: Any, order: np.ndarray[Any, Any] | None = None) -> float:
    """Mean distance of an entry from the diagonal, in columns."""
    rows = np.repeat(np.arange(csr.shape[0], dtype=np.int32), np.diff(csr.indptr))
    cols = csr.indices
    if order is not None:
        position = np.empty_like(order)
        position[order] = np.arange(order.size, dtype=order.dtype)
        rows, cols = position[rows], position[cols]
    return float(np.abs(rows - cols).mean())
