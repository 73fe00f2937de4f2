"""Matrices on one device that are made of parts, each in a format of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from . import _core, tune
from .tune import Choice

PartedMatrix: TypeAlias = _core.PartedMatrixF32 | _core.PartedMatrixF64
AnyMatrix: TypeAlias = tune.Matrix | PartedMatrix
Indices: TypeAlias = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Part:
    """The part A[rows, cols] of a matrix A, and how it is stored.

    Attributes
    ----------
    rows : (m,) array of int32
        Rows of A, in the order in which the part has them.
    choice : Choice
        Format and options of the part.
    cols : (n,) array of int32, optional
        Columns of A, in the order in which the part has them; all of them by default. What the part's rows
        have in other columns must be empty.
    """

    rows: Indices
    choice: Choice
    cols: Indices | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", np.ascontiguousarray(self.rows, dtype=np.int32))
        if self.cols is not None:
            object.__setattr__(self, "cols", np.ascontiguousarray(self.cols, dtype=np.int32))


def reordered(choice: Choice, permutation: Any) -> Choice:
    """`choice` for a square matrix whose rows and columns are stored in another order.

    Row i of the stored matrix is row ``permutation[i]`` of the given one, likewise for columns; products are
    the same as without.
    """
    order = np.ascontiguousarray(permutation, dtype=np.int32)
    reason = f"{choice.reason}; rows and columns are stored in another order"
    return replace(choice, reason=reason, parts=(Part(order, choice, order),))


def partitioned(rows: Sequence[Any], choices: Sequence[Choice], reason: str) -> Choice:
    """The choice of one format per set of rows; together the sets hold every row once."""
    made = tuple(Part(own, choice) for own, choice in zip(rows, choices, strict=True))
    return Choice("partitioned", {}, reason, made)


def transposed(choice: Choice) -> Choice:
    """The choice for the transposed matrix: the same where it can be."""
    reason = "the operator that it transposes has it"
    if len(choice.parts) > 1:
        return Choice("csr", {}, "it holds the transposed matrix, whose rows are not those of the parts")
    swapped = tuple(Part(part.cols, part.choice, part.rows) for part in choice.parts if part.cols is not None)
    return Choice(choice.format, choice.options, reason, swapped)


def build(csr: Any, choice: Choice, ordinal: int) -> AnyMatrix:
    """A matrix that is canonical CSR, as chosen, on a device.

    Raises
    ------
    ValueError
        If the parts do not hold every row once, or not every entry.
    FormatError, MemoryError, CudaError
        As for a matrix in one format.
    """
    if not choice.parts:
        return tune.build(csr, choice, ordinal)
    _check_rows(choice.parts, csr.shape[0])
    every_column = np.arange(csr.shape[1], dtype=np.int32)
    made = [
        (
            tune.build(submatrix(csr, part.rows, part.cols), part.choice, ordinal),
            part.rows,
            every_column if part.cols is None else part.cols,
        )
        for part in choice.parts
    ]
    parted_type = _core.PartedMatrixF32 if csr.dtype == np.float32 else _core.PartedMatrixF64
    return parted_type(csr.shape[0], csr.shape[1], made)


def _check_rows(parts: Sequence[Part], rows: int) -> None:
    """Before anything is built; the core checks once more what would corrupt memory."""
    every = np.concatenate([part.rows for part in parts])
    if every.size and (every.min() < 0 or every.max() >= rows):
        raise ValueError(
            f"the parts' rows must lie in 0..{rows - 1}; these reach from {every.min()} to {every.max()}"
        )
    count = np.bincount(every, minlength=rows)
    if (count != 1).any():
        row = int(np.argmax(count != 1))
        raise ValueError(f"row {row} lies in {count[row]} parts; every row must lie in one")


def submatrix(csr: Any, rows: Any, cols: Any = None) -> Any:
    """``csr[rows][:, cols]`` as canonical CSR; every column without `cols`.

    Raises
    ------
    ValueError
        If the rows have entries in other columns, which would be lost.
    """
    part = csr[rows]
    indices, width = part.indices, csr.shape[1]
    if cols is not None:
        width = len(cols)
        position = np.full(csr.shape[1], -1, np.int32)
        position[cols] = np.arange(width, dtype=np.int32)
        indices = position[part.indices]
        if (indices < 0).any():
            k = int(np.argmax(indices < 0))
            row = rows[np.searchsorted(part.indptr, k, side="right") - 1]
            raise ValueError(f"entry ({row}, {part.indices[k]}) lies outside the columns of its part")
    arrays = (
        part.data,
        indices.astype(np.int32, copy=False),
        part.indptr.astype(np.int32, copy=False),
    )
    return sp.csr_array(arrays, shape=(len(rows), width)).sorted_indices()


def to_csr(matrix: AnyMatrix, shape: tuple[int, int]) -> Any:
    """The matrix as a new canonical csr_array, whatever it is made of."""
    if not isinstance(matrix, PartedMatrix):
        return sp.csr_array(matrix.to_csr(), shape=shape)
    pieces, every_row = [], []
    for part, rows, cols in matrix.parts:
        piece = to_csr(part, (len(rows), len(cols)))
        pieces.append(
            sp.csr_array((piece.data, cols[piece.indices], piece.indptr), shape=(len(rows), shape[1]))
        )
        every_row.append(rows)
    position = np.argsort(np.concatenate(every_row), kind="stable")
    return sp.csr_array(sp.vstack(pieces, format="csr")[position]).sorted_indices()


def options(matrix: AnyMatrix) -> dict[str, Any]:
    """The tunables in force; of several parts a list of them, with their formats."""
    if not isinstance(matrix, PartedMatrix):
        return matrix.options
    every = [part for part, _, _ in matrix.parts]
    if len(every) == 1:
        return options(every[0])
    return {"parts": [{"format": part.format, **options(part)} for part in every]}


def arrays(matrix: AnyMatrix) -> dict[str, np.ndarray[Any, Any]]:
    """Copies of the stored arrays by name; of parts with their number before it."""
    if not isinstance(matrix, PartedMatrix):
        return matrix.arrays()
    named = {}
    for number, (part, rows, cols) in enumerate(matrix.parts):
        stored = {"rows": rows, "cols": cols, **arrays(part)}
        named.update({f"{number}.{name}": array for name, array in stored.items()})
    return named
