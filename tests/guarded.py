"""Products between pages that nobody may touch: the process ends where they read or write anything else.

To be run in a process of its own, by test_windows.py.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

import spmvgpu as sg
from battery import banded, from_lengths, symmetric, typed, uniform, vector
from fuzz.every_kernel import TYPES, variants
from reference import assert_product
from spmvgpu.devices import CPU
from spmvgpu.formats import Choice
from spmvgpu.inputs.csr import CanonicalCsr
from spmvgpu.multi_device import division

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_PROT_NONE = 0


@contextlib.contextmanager
def guarded(whole: np.ndarray, first: int, end: int, at_end: bool) -> Iterator[tuple[int, np.ndarray]]:
    """A copy of the elements [first, end) of a vector, next to a page that nobody may touch, and its address.

    Nobody may touch what lies around either, as far as the whole vector would reach.
    """
    item, page = whole.dtype.itemsize, mmap.PAGESIZE
    around = -(-whole.nbytes // page) * page + page
    inside = -(-(end - first) * item // page) * page
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    reserved = _LIBC.mmap(None, 2 * around + inside, _PROT_NONE, flags, -1, 0)
    assert reserved not in (None, ctypes.c_void_p(-1).value)
    begin = reserved + around
    assert _LIBC.mprotect(begin, inside, mmap.PROT_READ | mmap.PROT_WRITE) == 0
    if at_end:
        begin += inside - (end - first) * item
    values = np.frombuffer((ctypes.c_char * ((end - first) * item)).from_address(begin), whole.dtype)
    values[:] = whole[first:end]
    yield begin - first * item, values
    assert _LIBC.munmap(reserved, 2 * around + inside) == 0


def matrices() -> Iterator[sp.csr_array]:
    """Small matrices with columns that no entry is in, no entries, no rows or no columns."""
    for shape in [(0, 0), (1, 1), (3, 3), (70, 70), (0, 5), (5, 0), (33, 7), (7, 33)]:
        yield sp.csr_array(shape)
    inner = sp.lil_array((100, 100))
    inner[40:43, 50:53] = 1.5
    inner[50:53, 40:43] = 1.5
    yield sp.csr_array(inner)
    yield sp.csr_array(([2.0], ([64], [64])), shape=(70, 70))
    yield sp.csr_array(symmetric(banded(97, [-20, -1, 0])))
    yield sp.csr_array(symmetric(uniform(90, 90, 2)))
    yield sp.csr_array(sp.kron(symmetric(banded(30, [-4, 0])), np.ones((3, 3))))
    lengths = np.arange(80) % 5 // 4 * 6
    yield from_lengths(lengths, 300)
    yield from_lengths(lengths, 40)
    yield sp.csr_array(sp.hstack([sp.csr_array((60, 50)), uniform(60, 20, 3), sp.csr_array((60, 50))]))


def check_windows(name: str) -> int:
    """Products of parts in a format, which get what `division._window` says of x; how many there were."""
    parts = []
    for whole in matrices():
        whole.sort_indices()
        rows = whole.shape[0]
        parts += [
            (whole, range(*ends))
            for ends in sorted({(0, rows), (0, rows // 3), (rows // 3, rows), (rows, rows)})
        ]
    made = 0
    for number, options in enumerate(variants(name)):
        # The defaults with all of them, what differs from them with some in turn.
        for k, (whole, rows) in enumerate(parts if number == 0 else parts[number % 7 :: 7]):
            dtype = TYPES[(number + k) % len(TYPES)]
            A = sp.csr_array((typed(whole, dtype), whole.indices, whole.indptr), shape=whole.shape)
            made += _check_part(CanonicalCsr.of(A).rows(rows), Choice(name, options))
    return made


def _check_part(own: CanonicalCsr, choice: Choice) -> bool:
    try:
        matrix: Any = own.build(choice.format, choice.options, CPU)
    except sg.FormatError:
        return False
    x, start = vector(own.shape[1], own.dtype), vector(own.shape[0], own.dtype, seed=40)
    window = division._window(own, own.column_reach(), matrix)
    for at_end, beta in ((False, 0.0), (True, 2.0)):
        before = start if beta else np.full_like(start, np.nan)
        with guarded(x, *window, at_end) as (read, _), guarded(before, 0, start.size, at_end) as (written, y):
            matrix.multiply_pointers(read, written, 1.0, beta, 0)
            assert_product(y.copy(), own.host, x, 1.0, beta, start)
    return True


def main() -> None:
    """Every format, and how many products it made."""
    faulthandler.enable()
    for name in sg.formats():
        print(name, flush=True)  # the last one is where the process ended
        assert check_windows(name) > 0


if __name__ == "__main__":
    main()
