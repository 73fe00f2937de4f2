"""Other orders of rows and columns, so that neighbouring rows gather neighbouring entries of x.

`scipy.sparse.csgraph.reverse_cuthill_mckee` (Cuthill and McKee 1969, reversed by George 1971) makes the band
narrow: Mironowicz et al. put it before their symmetric format, for it fills the blocks along the diagonal. It
runs on the CPU. An order by clusters is made on the device of the matrix, in the time of some dozen products:
rows are neighbours if breadth-first searches from many roots at once have reached them from the same root.
Both are symmetric. Columns by their numbers of entries bring together what most rows read, as the words that
most texts have.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ..formats import Indices
from ..inputs import limits
from ..inputs.csr import CanonicalCsr
from .parts import Orders, submatrix

Reorder = Literal["rcm", "clusters", "columns", "auto", False] | None

#: The order that is found sooner comes first. "auto" is none of its own.
NAMED: tuple[Reorder, ...] = ("columns", "clusters", "rcm")
ORDERS = (*NAMED, "auto")

# With reorder="auto": entries that lie closer to the diagonal than this on average gather x from the nearest
# cache already, and an order that does not halve the distance is not worth gathering x once more per product.
_NEAR_BYTES = 32 * 1024
_WORTHWHILE_GAIN = 2.0
# Entries in a sample of columns, and how much more often two of them share a column that is frequent.
_SAMPLE, _MORE_OFTEN = 1 << 16, 4.0


def check_reorder(reorder: Any) -> None:
    """Refuse what is no order to ask for."""
    if reorder is None or reorder is False or (isinstance(reorder, str) and reorder in ORDERS):
        return
    allowed = ", ".join(map(repr, ORDERS))
    raise ValueError(f"reorder={reorder!r} is not allowed; give {allowed}, False or None")


def in_order(csr: CanonicalCsr, reorder: Reorder, ordinal: int) -> tuple[Orders | None, CanonicalCsr]:
    """The orders of rows and columns that are asked for, and the matrix in them.

    Parameters
    ----------
    csr : CanonicalCsr
    reorder : {None, False, "rcm", "clusters", "columns", "auto"}
        "rcm": reverse Cuthill-McKee of the pattern of ``A + A.T``. "auto": the same where entries are far
        from the diagonal and it brings them at least twice as close. "clusters": rows that are near each
        other in the graph of the matrix. "columns": those with the most entries first, and the rows as given.
    ordinal : int
        The device that the matrix is for.

    Returns
    -------
    orders : Orders or None
        None: the matrix stays as it is.
    csr : CanonicalCsr

    Raises
    ------
    ValueError
        For an order that is asked for by name, of a matrix that has more entries than one format holds or,
        but for "columns", is not square, or, for "clusters", has a row of many thousand entries.
    """
    rows, cols = csr.shape
    unfit = None
    if not reorder or (csr.nnz == 0 and (rows == cols or reorder == "columns")):
        return None, csr
    if rows != cols and reorder != "columns":
        unfit = f"needs a square matrix, not {rows} x {cols}"
    elif csr.is_wide:
        unfit = f"is allowed for at most {limits.ENTRY_LIMIT} stored entries, and this matrix has {csr.nnz}"
    if unfit is not None:
        if reorder == "auto":
            return None, csr
        raise ValueError(f"reorder={reorder!r} {unfit}; give reorder=None or 'auto'")
    if reorder == "clusters":
        permutation, found = csr.at(ordinal).by_clusters()  # on the device, if it has room
        return Orders(permutation, permutation), found
    if reorder == "columns":
        most_first, found = csr.at(ordinal).by_entries_of_columns()
        return Orders(range(rows), most_first), found
    distance = _mean_distance(csr) if reorder == "auto" else 0.0
    if reorder == "auto" and distance * csr.dtype.itemsize <= _NEAR_BYTES:
        return None, csr
    order = _reverse_cuthill_mckee(csr)
    if reorder == "auto" and _WORTHWHILE_GAIN * _mean_distance(csr, order) > distance:
        return None, csr
    return Orders(order, order), submatrix(csr, order, order)


def has_frequent_columns(csr: CanonicalCsr) -> bool:
    """Whether two entries of a sample share a column clearly more often than if all were equally frequent."""
    rows, cols = csr.shape
    _, columns = csr.sample(max(rows, 1), max(csr.nnz // _SAMPLE, 1))
    counts = np.bincount(columns).astype(float)
    pairs = len(columns) * (len(columns) - 1.0)
    return cols * float(counts @ (counts - 1)) > _MORE_OFTEN * pairs


def _reverse_cuthill_mckee(csr: CanonicalCsr) -> Indices:
    from scipy.sparse.csgraph import reverse_cuthill_mckee  # not at the top: few need it

    order: Indices = reverse_cuthill_mckee(csr.host, symmetric_mode=False).astype(np.int32, copy=False)
    return order


def _mean_distance(csr: CanonicalCsr, order: Indices | None = None) -> float:
    """Mean distance of an entry from the diagonal, in columns."""
    rows = np.repeat(np.arange(csr.shape[0], dtype=np.int32), np.diff(csr.indptr))
    cols = csr.indices
    if order is not None:
        position = np.empty_like(order)
        position[order] = np.arange(order.size, dtype=order.dtype)
        rows, cols = position[rows], position[cols]
    return float(np.abs(rows - cols).mean())
