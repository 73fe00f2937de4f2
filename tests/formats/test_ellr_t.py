"""The ellr_t format: an ELLPACK-R in which several threads share a row."""

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import from_lengths, matrix, vector
from examples import BELL_GARLAND as MATRIX
from reference import assert_product
from support import each_type, poisoned

PITCH = 32
THREADS = [1, 2, 4, 8, 16, 32]


def test_golden_arrays_of_two_threads(dtype, device):
    """The picture of the header: each thread of the four rows has a slot in every column."""
    op = sg.aslinearoperator(MATRIX, format="ellr_t", device=device, dtype=dtype, threads_per_row=2)
    arrays = op.arrays()
    columns = arrays["col_indices"].reshape(2, PITCH)
    values = arrays["values"].reshape(2, PITCH)
    np.testing.assert_array_equal(columns[:, :8], [[0, 1, 1, 2, 0, 2, 1, 3], [-1, -1, -1, -1, 3, -1, -1, -1]])
    np.testing.assert_array_equal(values[:, :8], [[1, 7, 2, 8, 5, 3, 6, 4], [0, 0, 0, 0, 9, 0, 0, 0]])
    assert (columns[:, 8:] == -1).all()
    np.testing.assert_array_equal(arrays["row_lengths"], [2, 2, 3, 2])
    assert arrays["values"].dtype == dtype


def test_one_thread_is_ellpack_r(dtype):
    one = sg.aslinearoperator(MATRIX, format="ellr_t", device="cpu", dtype=dtype, threads_per_row=1).arrays()
    other = sg.aslinearoperator(MATRIX, format="ellpack_r", device="cpu", dtype=dtype).arrays()
    assert set(one) == set(other)
    for name, array in other.items():
        np.testing.assert_array_equal(one[name], array)


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


@pytest.mark.parametrize("block_size", [64, 128, 256, 512])
@pytest.mark.parametrize("threads", THREADS)
@each_type
@pytest.mark.parametrize("case", ["warp_lengths", "growing_rows", "rows_1025", "no_entries", "wide"])
def test_every_shape_of_the_kernel(case, threads, block_size, dtype, device):
    A = matrix(case, dtype)
    options = {"threads_per_row": threads, "block_size": block_size, "max_padding": 1e6}
    op = sg.aslinearoperator(A, format="ellr_t", device=device, **options)
    x = vector(A.shape[1], dtype)
    assert_product(op.spmv(x, out=poisoned(A.shape[0], dtype)), A, x)
    y = vector(A.shape[0], dtype, seed=21)
    assert_product(op.spmv(x, out=y.copy(), alpha=2.0, beta=-0.5), A, x, 2.0, -0.5, y)
    np.testing.assert_array_equal(op.tocsr().toarray(), A.toarray())


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
