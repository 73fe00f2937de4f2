"""Random choices that all kinds share: matrices, operands, and what is neither."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import spmvgpu as sg

LARGEST = 2.0**40  # products and sums of them stay finite in float32
REAL_TYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]
VALUE_TYPES = [*REAL_TYPES, "F", "D"]  # of matrices
NUMBER_TYPES = [*VALUE_TYPES, "f2", "g", "G"]
CONTAINERS = ["tuple", "dense", "csr", "csc", "coo", "bsr", "dia", "lil", "dok"]


def pick(rng: np.random.Generator, options: Sequence[Any]) -> Any:
    """One of the options, as it is."""
    return options[int(rng.integers(len(options)))]


def maybe(rng: np.random.Generator, probability: float) -> bool:
    """True with this probability."""
    return bool(rng.random() < probability)


def numbers(rng: np.random.Generator, count: int, dtype: Any) -> np.ndarray:
    """Numbers of every size that the type has, zeros of both signs among them."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(count) < 0.5
    if dtype.kind in "iu":
        low, high = (0 if dtype.kind == "u" else -9, 10) if maybe(rng, 0.8) else _limits(dtype)
        return rng.integers(low, high, count, dtype=dtype, endpoint=True)
    if dtype.kind == "c":
        part = np.empty(0, dtype).real.dtype
        return (numbers(rng, count, part) + 1j * numbers(rng, count, part)).astype(dtype)
    pool = np.concatenate([[0.0, -0.0, 1.0, -1.0, 0.5], rng.standard_normal(8)])
    if dtype.itemsize > 2 and maybe(rng, 0.3):
        pool = np.concatenate([pool, [LARGEST, -LARGEST, 1 / LARGEST, 1e-42]])
    return rng.choice(pool, count).astype(dtype)


def _limits(dtype: np.dtype) -> tuple[int, int]:
    info = np.iinfo(dtype)
    return max(int(info.min), -(2**40)), min(int(info.max), 2**40)


class Triplets(NamedTuple):
    """A matrix by its entries, in any order, duplicates included."""

    row: np.ndarray
    col: np.ndarray
    data: np.ndarray
    shape: tuple[int, int]

    def reference(self, dtype: Any) -> sp.csr_array:
        """CSR with values of the operator's type, for `reference.assert_product`; nothing is summed."""
        order = np.argsort(self.row, kind="stable")
        counts = np.bincount(self.row, minlength=self.shape[0])
        indptr = np.concatenate([[0], np.cumsum(counts)])
        return sp.csr_array((self.data[order].astype(dtype), self.col[order], indptr), shape=self.shape)


def triplets(rng: np.random.Generator, symmetric: bool = False, dtype: Any = None) -> Triplets:
    """A matrix with one of many patterns."""
    sides = [0, 1, 2, 3, 7, 31, 32, 33, 64, 65, 100, 257]
    rows = pick(rng, sides)
    cols = rows if symmetric or maybe(rng, 0.4) else pick(rng, sides)
    row, col = _pattern(rng, rows, cols)
    if not maybe(rng, 0.2):  # else with duplicates, if there are any
        row, col = np.divmod(np.unique(row * max(cols, 1) + col), max(cols, 1))
    data = numbers(rng, row.size, pick(rng, REAL_TYPES) if dtype is None else dtype)
    if symmetric:
        row, col, data = _mirrored(row, col, data)
    order = rng.permutation(row.size) if maybe(rng, 0.5) else np.lexsort((col, row))
    return Triplets(row[order], col[order], data[order], (rows, cols))


def _mirrored(row: np.ndarray, col: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, ...]:
    lower = row >= col
    row, col, data = row[lower], col[lower], data[lower]
    off = row != col
    coords = np.concatenate([row, col[off]]), np.concatenate([col, row[off]])
    return *coords, np.concatenate([data, data[off]])


def _pattern(rng: np.random.Generator, rows: int, cols: int) -> tuple[np.ndarray, np.ndarray]:
    if rows * cols == 0 or maybe(rng, 0.03):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    way = pick(rng, ["uniform", "diagonals", "long rows", "empty rows", "blocks", "full"])
    if way == "diagonals":
        row, col = np.divmod(np.arange(rows * cols), cols)
        kept = np.isin(col - row, [*rng.integers(-rows, cols, 4).tolist(), 0])
    elif way == "full":
        row, col = np.divmod(np.arange(rows * cols), cols)
        kept = rng.random(row.size) < pick(rng, [0.2, 0.9, 1.0])
    else:
        count = int(rng.integers(1, 6 * rows + 2))
        row, col = rng.integers(0, rows, count), rng.integers(0, cols, count)
        if way == "long rows":
            row = np.where(rng.random(count) < 0.7, pick(rng, row), row)
        elif way == "empty rows":
            row = row - row % 7
        elif way == "blocks":
            row, col = (np.repeat(row // 3 * 3, 9) + np.tile(np.repeat(np.arange(3), 3), count),
                        np.repeat(col // 3 * 3, 9) + np.tile(np.arange(3), 3 * count))  # fmt: skip
        kept = (row < rows) & (col < cols)
    return row[kept], col[kept]


def contained(rng: np.random.Generator, entries: Triplets, kind: str) -> tuple[Any, dict[str, Any]]:
    """The matrix as `aslinearoperator` takes it, and the `shape` that must go with it."""
    row, col, data, shape = entries
    index = pick(rng, ["i4", "i8"])
    coo = sp.coo_array((data, (row.astype(index), col.astype(index))), shape=shape)
    if kind == "coo":
        return coo, {}
    if kind == "dense":
        return _dense(entries), {}
    if kind in ("tuple", "csr"):  # by hand: SciPy would sum the duplicates in their own type
        order = np.argsort(row, kind="stable")
        indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=shape[0]))]).astype(index)
        arrays = data[order], col[order].astype(index), indptr
        return (arrays, {"shape": shape}) if kind == "tuple" else (sp.csr_array(arrays, shape=shape), {})
    whole = sp.coo_array(_dense(entries))
    if kind == "bsr":
        sides = [next(size for size in (3, 2, 1) if n % size == 0) for n in shape]
        whole = whole.tocsr() if min(shape) == 0 else sp.bsr_array(whole, blocksize=tuple(sides))
        return whole, {}
    return whole.asformat(kind), {}


def _dense(entries: Triplets) -> np.ndarray:
    dense = np.zeros(entries.shape, np.result_type(entries.data.dtype, np.float64))
    np.add.at(dense, (entries.row, entries.col), entries.data)
    return dense


def format_choice(rng: np.random.Generator, names: Sequence[str] = ()) -> dict[str, Any]:
    """A format, some of its options with allowed values, and no more limits than have to be."""
    name = pick(rng, names or sg.formats())
    chosen: dict[str, Any] = {"format": name}
    for option in sg.format_options(name):
        allowed = option["allowed"]
        if option["name"] in ("max_padding", "max_memory"):
            chosen[option["name"]] = allowed[1]
        elif option["name"] == "max_stencils":
            chosen[option["name"]] = pick(rng, [1, 200, allowed[1]])
        elif maybe(rng, 0.4):
            chosen[option["name"]] = pick(
                rng, [0, 1, 3, 200, "max"] if isinstance(allowed, tuple) else allowed
            )
    return chosen


LAYOUTS = ["C", "C", "F", "strided", "reversed", "read-only", "unaligned", "swapped", "broadcast"]


def laid_out(array: np.ndarray, layout: str) -> np.ndarray:
    """The same numbers in another layout (but for "broadcast", which repeats the first)."""
    if layout == "F":
        return np.asfortranarray(array)
    if layout == "strided":
        return np.repeat(array, 2, axis=0)[::2]
    if layout == "reversed":
        return array[::-1].copy()[::-1]
    if layout == "read-only":
        array = array.copy()
        array.flags.writeable = False
    elif layout == "unaligned" and not array.dtype.hasobject:  # references have no bytes to be moved
        moved = np.zeros(array.nbytes + 1, np.uint8)[1:]
        moved[:] = np.frombuffer(array.tobytes(), np.uint8)
        return moved.view(array.dtype).reshape(array.shape) if array.size else array
    elif layout == "swapped":
        return array.astype(array.dtype.newbyteorder())
    elif layout == "broadcast" and array.size:
        return np.broadcast_to(array.reshape(-1)[0], array.shape)
    return array


# What no argument is, or only few are.
NASTY: list[Any] = [
    None, True, False, 0, -1, 1, 2, 3, 7, 2**31 - 1, 2**31, 2**32, 2**63, 2**64, -(2**63), 2**70, 10**400,
    0.0, -0.0, 0.5, 1.0, 1e-300, 1e300, float("nan"), float("inf"), -float("inf"), 1j, Decimal(2),
    "", "auto", "csr", "dia", "cpu", "cuda", "cuda:0", "cuda:-1", "cuda:" + "9" * 30, "nnz", "pmf", "lower",
    "rcm", "full", "bogus", "\0", "\udc80", "x" * 5000, b"csr", [], [1], [None], ["cpu"], ["cpu", "cpu"],
    [1, 2], [1e300, 1e300], [0, 0], [-1, 2], ["a", 1], [[1], [2, 3]], [[0], [1]], (), (1,), (1, 2), (3, 3, 3),
    {}, {"a": 1}, set(), object(), lambda: 0, int, range(3), slice(None), pathlib.Path("x"),
    memoryview(b"ab"),
    np.int64(3), np.uint8(2), np.float32(2), np.float64("nan"), np.bool_(True), np.str_("csr"), np.ma.masked,
    np.datetime64("2020-01-01"), np.array(3), np.array([1, 2]), np.array([1.0, 1.0]), np.array([]),
    np.array(["a"]), np.array([None]), np.zeros((2, 2)), np.ma.masked_equal([1, 2], 2), np.dtype("f4"),
    "f4", "float64", np.float32, "D", sp.csr_array((2, 2)), sp.eye_array(3),
]  # fmt: skip

_INTEGERS = [-1, -(2**31), -(2**63), 2**31 - 1, 2**31, 2**32, 2**32 + 1, 2**63 - 1, 0, 1, 10**6]
_TYPES = [*NUMBER_TYPES, "O", "S4", "U4", "M8[s]", "m8[s]", "V8", "i4,f8"]


def spoiled(rng: np.random.Generator, given: Any) -> Any:
    """What somebody might have put in the place of an array."""
    try:
        array = np.asarray(given)
    except ValueError:  # ragged lists, put there before
        array = np.empty(0)
    way = int(rng.integers(9))
    if way == 0:
        return pick(rng, NASTY)
    if way == 1:
        return _with_wild_numbers(rng, array)
    if way == 2:
        try:
            return array.astype(pick(rng, _TYPES))
        # OverflowError: of Python's large numbers; RuntimeError: of dates with more digits than there are.
        except (TypeError, ValueError, OverflowError, RuntimeError):
            return array.astype("O")
    if way == 3:
        return array[: int(rng.integers(array.shape[0] + 1))] if array.ndim else array
    if way == 4:
        return np.concatenate([array.reshape(-1), array.reshape(-1)[: 1 + int(rng.integers(4))]])
    if way == 5:
        first = array.reshape(-1)[0] if array.size else 0
        return pick(rng, [array[None], array[..., None], array.reshape(-1), first, array.reshape(-1)[:0]])
    if way == 6:
        return laid_out(array, pick(rng, LAYOUTS)) if array.ndim else array
    if way == 7:
        return pick(
            rng, [array.tolist(), tuple(array.reshape(-1).tolist()), np.ma.masked_array(array, mask=False)]
        )
    return array[rng.permutation(len(array))] if array.ndim else array


def _with_wild_numbers(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """Some entries replaced by numbers that fit nowhere, in the array's own type or a wider one."""
    if array.dtype.kind in "iu":
        array = array.astype(pick(rng, ["i8", "f8", array.dtype]))
    wild = np.array(_INTEGERS if array.dtype.kind in "iu" else [np.nan, np.inf, 1e300, 2.5])
    changed = array.copy()
    if changed.size and changed.dtype.kind in "iufcO":
        places = rng.integers(changed.size, size=1 + int(rng.integers(3)))
        changed.reshape(-1)[places] = pick(rng, wild.astype(changed.dtype))
    return changed
