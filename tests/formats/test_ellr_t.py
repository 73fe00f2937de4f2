"""The ellr_t format: an ELLPACK-R in which several threads share a row."""

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import from_lengths, matrix
from support import each_type

PITCH = 32
THREADS = [1, 2, 4, 8, 16, 32]


@pytest.mark.parametrize("threads", THREADS)
@each_type
def test_slot_of_every_entry(threads, dtype):
    """Entry k of a row is read by the row's thread k % T as the entry k // T of that thread."""
    A = matrix("half_warp_lengths", dtype)
    op = sg.aslinearoperator(A, format="ellr_t", device="cpu", threads_per_row=threads)
    values = op.arrays()["values"].reshape(-(-17 // threads), -1)
    assert values.shape[1] % PITCH == 0
    for row in range(0, A.shape[0], 7):
        entries = A.data[A.indptr[row] : A.indptr[row + 1]]
        k = np.arange(entries.size)
        np.testing.assert_array_equal(values[k // threads, row * threads + k % threads], entries)


@pytest.mark.parametrize(
    ("rows", "length", "threads"),
    [(1, 5000, 32), (1000, 7, 1), (1000, 16, 2), (1000, 40, 4), (1000, 130, 16), (140_000, 16, 1)],
)
def test_automatic_threads(rows, length, threads):
    """Few long rows share many threads; many rows, or short ones, take one each."""
    A = sp.csr_array(
        (np.ones(rows * length), np.tile(np.arange(length), rows), np.arange(rows + 1) * length),
        shape=(rows, length),
    )
    op = sg.aslinearoperator(A, format="ellr_t", device="cpu")
    assert op.options["threads_per_row"] == threads
    assert op.nbytes == sg.estimate(A, "ellr_t")["bytes"]


def test_threads_without_entries_of_their_own_count_as_padding():
    A = from_lengths(np.full(4000, 3), 5000)
    assert sg.estimate(A, "ellr_t", threads_per_row=8)["padding"] == pytest.approx(8 / 3)
    with pytest.raises(sg.FormatError, match="max_padding"):
        sg.estimate(A, "ellr_t", threads_per_row=32)
