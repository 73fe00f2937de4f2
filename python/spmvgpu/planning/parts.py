"""Matrices made of parts, each in a format of its own: how they are built, and what they consist of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import scipy.sparse as sp

from .. import _core
from .._core import AnyMatrix, Matrix, MultiDeviceMatrix, PartedMatrix, StreamedMatrix
from .._util.types import HostArray, Options
from ..devices import CPU
from ..formats import Choice, Indices, Order, Part, indices_of, traits
from ..inputs import limits
from ..inputs.csr import CanonicalCsr


class Orders(NamedTuple):
    """Row i of a stored matrix is row ``rows[i]`` of the given one, likewise for columns."""

    rows: Order
    cols: Order

    def indices(self) -> tuple[Indices, Indices]:
        """Both as arrays, one and the same if rows and columns are in the same order."""
        rows = indices_of(self.rows)
        return rows, rows if self.cols is self.rows else indices_of(self.cols)


def reordered(choice: Choice, orders: Orders) -> Choice:
    """`choice` for a matrix that is stored in other orders; products are the same as without."""
    which = "columns" if isinstance(orders.rows, range) else "rows and columns"
    reason = f"{choice.reason}; {which} are reordered"
    if not choice.parts:
        return replace(choice, reason=reason, parts=(Part(orders.rows, choice, orders.cols),))
    rows, cols = orders.indices()
    made = tuple(
        Part(rows[part.rows], part.choice, cols if part.cols is None else cols[part.cols])
        for part in choice.parts
    )
    return replace(choice, reason=reason, parts=made)


def wrapped(matrix: AnyMatrix, orders: Orders) -> AnyMatrix:
    """The matrix whose `reordered` form `matrix` is."""
    if isinstance(orders.rows, _core.Permutation) and isinstance(matrix, Matrix):
        return PartedMatrix(matrix, orders.rows)
    rows, cols = orders.indices()
    made = [(matrix, rows, cols)]
    if isinstance(matrix, PartedMatrix):
        made = [(part, rows[own], cols if its is None else cols[its]) for part, own, its in _made_of(matrix)]
    return _parted((len(rows), len(cols)), made)


def transposed(choice: Choice) -> Choice:
    """The choice for the transposed matrix: the same where it can be."""
    reason = "the original operator has this format"
    if len(choice.parts) > 1:
        return Choice("csr", {}, "the transposed matrix cannot be divided like the original")
    swapped = tuple(Part(part.cols, part.choice, part.rows) for part in choice.parts if part.cols is not None)
    return Choice(choice.format, choice.options, reason, swapped)


def build(csr: CanonicalCsr, choice: Choice, ordinal: int) -> AnyMatrix:
    """A canonical matrix, as chosen, on a device.

    Raises
    ------
    ValueError
        If the parts do not hold every row once, or not every entry.
    FormatError, MemoryError, CudaError
        As for a matrix in one format.
    """
    made: list[tuple[AnyMatrix, int | Indices, int | Indices]] = []
    if choice.parts:
        # The core checks once more what would corrupt memory.
        check_sets([part.rows for part in choice.parts], csr.shape[0], "the parts must")
        for part in choice.parts:
            stored = build(submatrix(csr, part.rows, part.cols), part.choice, ordinal)
            made.append((stored, part.rows, 0 if part.cols is None else part.cols))
    else:
        first = 0
        for chunk in pieces_for(csr, choice.format):
            made.append((chunk.build(choice.format, choice.options, ordinal), first, 0))
            first += chunk.shape[0]
        if len(made) == 1:
            return made[0][0]
    return _parted(csr.shape, made)


def check_sets(sets: Sequence[HostArray], count: int, who: str) -> None:
    """Raise ValueError, with `who` as in "the sets must", unless the sets hold each of `count` rows once."""
    every = np.concatenate(sets)
    outside = every[(every < 0) | (every >= count)]
    if outside.size:
        wrong = f"row {outside[0]} does not exist"
    elif not (times := np.bincount(every, minlength=count)).all():
        wrong = f"row {np.argmin(times)} is in no set"
    elif len(every) > count:
        wrong = f"row {np.argmax(times)} is in several sets"
    else:
        return
    raise ValueError(f"{who} hold each of the {count} rows once; {wrong}")


def _parted(
    shape: tuple[int, int], made: Sequence[tuple[AnyMatrix, int | Indices, int | Indices]]
) -> PartedMatrix:
    """The matrix of parts; one whose rows and columns are permuted alike has one array for both."""
    if len(made) == 1:
        matrix, rows, cols = made[0]
        made = [(matrix, rows, rows if rows is cols or np.array_equal(rows, cols) else cols)]
    return PartedMatrix(*shape, made)


def bytes_of(csr: CanonicalCsr, choice: Choice, ordinal: int) -> int:
    """Bytes that the matrix takes that `build` makes."""
    if not choice.parts:
        return int(estimate_csr(csr, choice.format, ordinal, choice.options)["bytes"])
    return sum(
        bytes_of(submatrix(csr, part.rows, part.cols), part.choice, ordinal)
        + part.rows.nbytes
        + (0 if part.cols is None else part.cols.nbytes)
        for part in choice.parts
    )


def estimate_csr(
    csr: CanonicalCsr, format: str, ordinal: int, options: Options | None = None
) -> dict[str, float]:
    """`spmvgpu.estimate` of a canonical matrix.

    For a GPU that is not here, without what would be planned for it.
    """
    ordinal = ordinal if ordinal < _core.device_count() else CPU
    plans = [(piece.nnz, piece.plan(format, ordinal, options)) for piece in pieces_for(csr, format)]
    if len(plans) == 1:
        _, plan = plans[0]
        return {"bytes": plan.bytes, "padding": plan.padding}
    slots = sum(nnz * plan.padding for nnz, plan in plans)
    return {"bytes": sum(plan.bytes for _, plan in plans), "padding": slots / csr.nnz}


def pieces_for(csr: CanonicalCsr, format: str) -> Iterator[CanonicalCsr]:
    """The pieces that a canonical matrix is stored in: one, unless it has 2**31 entries or more.

    Raises
    ------
    FormatError
        If there are several, and the format holds whole matrices only.
    """
    if csr.is_wide and traits(format).needs_symmetry:
        raise _core.FormatError(
            f"format {format!r} holds at most {limits.ENTRY_LIMIT} stored entries; this matrix has "
            f"{csr.nnz}. Use format='csr', which takes {csr.nnz * (4 + csr.dtype.itemsize)} bytes"
        )
    return csr.pieces()


def submatrix(csr: CanonicalCsr, rows: Indices, cols: Indices | None = None) -> CanonicalCsr:
    """``csr[rows][:, cols]`` where the matrix lies; `cols` holds every column once."""
    part = csr.rows(rows)
    return part if cols is None else part.transposed().rows(cols).transposed()


def _made_of(matrix: AnyMatrix) -> list[tuple[AnyMatrix, Indices, Indices | None]]:
    """The matrices that a matrix is made of, with their rows and columns."""
    if isinstance(matrix, PartedMatrix):
        return [
            (part, _index_map(rows, part.rows), _index_map(cols, part.cols))
            for part, rows, cols in matrix.parts
        ]
    assert isinstance(matrix, MultiDeviceMatrix)
    return [(part, _index_map(rows, part.rows), None) for part, rows, *_ in matrix.parts]


def _parts_of(matrix: AnyMatrix) -> list[AnyMatrix]:
    assert isinstance(matrix, PartedMatrix | MultiDeviceMatrix)
    return [made[0] for made in matrix.parts]


def _index_map(indices: int | Indices, count: int) -> Indices:
    return np.arange(indices, indices + count, dtype=np.int32) if isinstance(indices, int) else indices


def to_csr(matrix: AnyMatrix) -> sp.csr_array:
    """The matrix as a new canonical csr_array, whatever it is made of."""
    shape = matrix.rows, matrix.cols
    if isinstance(matrix, Matrix | StreamedMatrix):
        return sp.csr_array(matrix.to_csr(), shape=shape)
    made_of = _made_of(matrix)
    index_type = np.int32 if matrix.nnz <= limits.ENTRY_LIMIT else np.int64
    data, indices = np.empty(matrix.nnz, matrix.dtype), np.empty(matrix.nnz, index_type)
    indptr = np.zeros(shape[0] + 1, index_type)
    row, begin = 0, 0
    for part, rows, cols in made_of:  # one at a time, for the memory's sake
        own = to_csr(part)
        end = begin + own.nnz
        data[begin:end] = own.data
        indices[begin:end] = own.indices if cols is None else cols[own.indices]
        indptr[row + 1 : row + 1 + len(rows)] = begin + own.indptr[1:].astype(index_type, copy=False)
        row, begin = row + len(rows), end
    stacked = sp.csr_array((data, indices, indptr), shape=shape)
    every_row = np.concatenate([rows for _, rows, _ in made_of])
    if (np.diff(every_row) != 1).any():
        stacked = stacked[np.argsort(every_row, kind="stable")]
    stacked.sort_indices()
    return stacked


def _stored_in_one(matrix: AnyMatrix) -> Iterator[Matrix | StreamedMatrix]:
    """The matrices in one format that a matrix is made of in the end; itself if it is one."""
    if isinstance(matrix, Matrix | StreamedMatrix):
        yield matrix
    else:
        for part in _parts_of(matrix):
            yield from _stored_in_one(part)


def formats_in(matrix: AnyMatrix) -> set[str]:
    """The formats that a matrix is stored in."""
    return {part.format if isinstance(part, Matrix) else "csr" for part in _stored_in_one(matrix)}


def format_of(matrix: AnyMatrix) -> str:
    """The format, or the formats of the parts."""
    stored = _stored_in_one(matrix)
    names = (part.format if isinstance(part, Matrix) else "csr, streamed" for part in stored)
    return " + ".join(dict.fromkeys(names))


def options(matrix: AnyMatrix) -> dict[str, Any]:
    """The tunables in force; of several parts a list of them, with their formats."""
    if isinstance(matrix, Matrix):
        return dict(matrix.options)
    if isinstance(matrix, StreamedMatrix):
        return {}
    every = _parts_of(matrix)
    if len(every) == 1:
        return options(every[0])
    return {"parts": [{"format": format_of(part), **options(part)} for part in every]}


def counts(matrix: AnyMatrix) -> dict[str, float]:
    """What the format counts of what it stores, by name; of parts the sums."""
    total: Counter[str] = Counter()
    for part in _stored_in_one(matrix):
        total.update(part.counts if isinstance(part, Matrix) else {})  # which adds them
    return dict(total)


def whole(matrix: AnyMatrix) -> AnyMatrix:
    """The only part of a matrix over a list of one device, or else the matrix itself."""
    if isinstance(matrix, MultiDeviceMatrix):
        (part, first, *_), *others = matrix.parts
        if not others and isinstance(first, int):
            return part
    return matrix


def takes_new_values(matrix: AnyMatrix) -> TypeGuard[Matrix | PartedMatrix]:
    """Whether the values of a matrix can be replaced where it is stored."""
    return matrix.is_reordered if isinstance(matrix, PartedMatrix) else isinstance(matrix, Matrix)


def value_map_bytes(matrix: AnyMatrix) -> int:
    """What updates of the values have the matrix keep, besides its arrays."""
    own = matrix.value_map_bytes if isinstance(matrix, PartedMatrix) else 0
    return own + sum(part.value_map_bytes for part in _stored_in_one(matrix) if isinstance(part, Matrix))


def arrays(matrix: AnyMatrix) -> dict[str, HostArray]:
    """Copies of the stored arrays by name; of parts with their number before it."""
    if isinstance(matrix, Matrix):
        return dict(matrix.arrays())
    if isinstance(matrix, StreamedMatrix):
        return dict(zip(("values", "col_indices", "row_offsets"), matrix.to_csr(), strict=True))
    named = {}
    for number, (part, rows, cols) in enumerate(_made_of(matrix)):
        stored = {"rows": rows, **({} if cols is None else {"cols": cols}), **arrays(part)}
        named.update({f"{number}.{name}": array for name, array in stored.items()})
    return named
