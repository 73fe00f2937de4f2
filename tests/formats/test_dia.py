"""The dia format: full diagonals, and padding that stored zeros are never taken for."""

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import banded, vector
from reference import assert_product
from support import assert_same_entries

PITCH = 32


def with_stored_zero(dtype, extra=()):
    """Diagonals -1 and 0 with a stored zero at (2, 2), nothing at (3, 3), and `extra` in the last row."""
    extra = np.asarray(extra, dtype)
    data = np.concatenate([np.array([1, 2, 3, 4, 0, 5], dtype), extra])
    rows = np.concatenate([[0, 1, 1, 2, 2, 3], np.full(extra.size, 4)])
    cols = np.concatenate([[0, 0, 1, 1, 2, 2], np.arange(extra.size)])
    return sp.csr_array((data, (rows, cols)), shape=(5, max(5, extra.size)))


def not_a_number(dtype, payload):
    """The quiet NaN with the given payload."""
    bits = np.array(np.nan, dtype).view(f"u{dtype.itemsize}") + np.array(payload, f"u{dtype.itemsize}")
    return bits.view(dtype)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_a_stored_zero_multiplies_and_padding_does_not(special, dtype, device):
    """Column 2 is used by the stored zero; column 3 by no entry, though row 3 has a padded slot there."""
    op = sg.aslinearoperator(with_stored_zero(dtype), format="dia", device=device)
    np.testing.assert_array_equal(op @ np.array([1, 1, special, 1, 1], dtype), [1, 5, np.nan, 5 * special, 0])
    np.testing.assert_array_equal(op @ np.array([1, 1, 1, special, special], dtype), [1, 5, 4, 5, 0])


def test_a_stored_zero_costs_no_memory(dtype):
    with_zero = sg.aslinearoperator(with_stored_zero(dtype), format="dia", device="cpu")
    without = with_stored_zero(dtype)
    without.data[without.data == 0] = 6
    assert with_zero.nbytes == sg.aslinearoperator(without, format="dia", device="cpu").nbytes
    assert with_zero.nnz == with_zero.tocsr().nnz == 6


@pytest.mark.parametrize("stored", [[], [0], [0, 1], [1, 2], [1, 2, 3, 5], [2**20, 1, 2]], ids=str)
def test_padding_evades_every_stored_nan(stored, dtype, device):
    """With zeros stored, padding is some NaN that is not: whichever NaNs are stored come back bit by bit."""
    entries = [not_a_number(dtype, payload) for payload in stored] + [-0.0, 0.0, np.inf]
    A = with_stored_zero(dtype, entries)
    op = sg.aslinearoperator(A, format="dia", device=device)
    assert_same_entries(op.tocsr(), A)
    np.testing.assert_array_equal((op @ np.ones(A.shape[1], dtype))[:4], [1, 5, 4, 5])


def test_negative_zero_is_no_padding(dtype, device):
    A = sp.csr_array((np.array([1, -0.0, 2], dtype), ([0, 1, 2], [0, 1, 2])), shape=(4, 4))
    op = sg.aslinearoperator(A, format="dia", device=device)
    assert op.tocsr().data.tobytes() == A.data.tobytes()
    np.testing.assert_array_equal(op @ np.array([1, np.inf, 1, np.inf], dtype), [1, np.nan, 2, 0])


@pytest.mark.parametrize("block_size", [64, 128, 256, 512])
@pytest.mark.parametrize("shape", [(1000, 1000), (700, 1500), (1500, 700), (513, 512), (33, 1025)], ids=str)
def test_shapes(shape, block_size, dtype, device):
    """Diagonals that begin left of the first row or end below the last, more of them than fly at a time."""
    rows, cols = shape
    offsets = [1 - rows, -rows // 2, -300, -2, -1, 0, 1, 5, 31, 32, 400, cols // 2, cols - 1]
    offsets = sorted({offset for offset in offsets if -rows < offset < cols})
    A = sp.diags_array([1.0] * len(offsets), offsets=offsets, shape=shape, format="csr", dtype=dtype)
    A.data[:] = vector(A.nnz, dtype)
    op = sg.aslinearoperator(A, format="dia", device=device, block_size=block_size)
    np.testing.assert_array_equal(op.arrays()["offsets"], offsets)
    x = vector(cols, dtype)
    assert_product(op @ x, A, x)
    np.testing.assert_array_equal(op.tocsr().toarray(), A.toarray())


def test_one_entry_per_diagonal_is_refused_before_memory_is_taken():
    """The slots would be 20 GB: refused by their number, which takes a bit per diagonal to find."""
    n = 50_000
    i = np.arange(n)
    A = sp.csr_array((np.ones(n), (i, i[::-1])), shape=(n, n))
    with pytest.raises(sg.FormatError, match=str(n * (-(-n // PITCH) * PITCH * 8 + 4))):
        sg.aslinearoperator(A, format="dia", device="cpu")


def test_smallest_of_all_on_a_full_band():
    A = sp.csr_array(banded(10_000, [-100, -1, 0, 1, 100]))
    sizes = {name: sg.estimate(A, name)["bytes"] for name in sg.formats()}
    assert sizes["dia"] < 0.7 * sizes["csr"]
