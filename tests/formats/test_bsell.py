"""The format bsell: slices of dense blocks, with columns of 16 bits where neighbours are near each other."""

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import COMPLEX_TYPES, TYPES, vector
from reference import assert_product
from spmvgpu import gallery
from spmvgpu.gallery import meshes
from support import assert_multiplies, assert_same_entries, build


def blocks(pattern, side, dtype=np.float64, seed=0):
    """Every entry of a pattern as a dense block of values that are all different."""
    matrix = meshes.blocks(sp.csr_array(pattern).astype(np.int8), side)
    values = np.random.default_rng(seed).uniform(1, 2, matrix.nnz)
    return sp.csr_array((values.astype(dtype), matrix.indices, matrix.indptr), shape=matrix.shape)


def side_of(op):
    """Rows and columns of the blocks that are stored."""
    arrays = op.arrays()
    return round((arrays["values"].size / arrays["near_cols"].size) ** 0.5)


def pattern(rows=60, cols=70, seed=1):
    """Rows of 0 to 9 entries."""
    rng = np.random.default_rng(seed)
    dense = rng.random((rows, cols)) < rng.random((rows, 1)) * 0.2
    dense[5] = False
    return sp.csr_array(dense)


def test_layout():
    A = sp.csr_array(
        np.array([[1, 2, 0, 0, 5, 6], [3, 4, 0, 0, 7, 8], [0, 0, 9, 10, 0, 0], [0, 0, 11, 12, 0, 0]], float)
    )
    op = build(A, "bsell", sigma=1)
    arrays = op.arrays()
    assert side_of(op) == 2
    assert arrays["slice_offsets"].tolist() == [0, 64]
    assert arrays["bases"].tolist() == [0, 2]
    padding = 65535
    assert arrays["near_cols"].reshape(2, 32)[:, :3].tolist() == [[0, 1, padding], [0, padding, padding]]
    values = arrays["values"].reshape(2, 2, 2, 32)
    assert values[0, :, :, 0].tolist() == [[1, 2], [3, 4]]
    assert values[0, :, :, 1].tolist() == [[9, 10], [11, 12]]
    assert values[1, :, :, 0].tolist() == [[5, 6], [7, 8]]
    assert not values[1, :, :, 1:].any()
    assert arrays["far_cols"].size == arrays["permutation"].size == 0


@pytest.mark.parametrize("side", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("dtype", [*TYPES, *COMPLEX_TYPES])
@pytest.mark.parametrize("warps_per_slice", [1, 2, 8])
def test_blocks(side, dtype, warps_per_slice, device):
    A = blocks(pattern(), side, dtype)
    if np.dtype(dtype).kind == "c":
        A.data *= 1 - 2j
    for sigma in (1, 32):
        op = build(A, "bsell", device, warps_per_slice=warps_per_slice, sigma=sigma)
        assert side_of(op) == side
        assert_multiplies(op, A)
        assert_same_entries(op.tocsr(), A)
        X = vector(3 * A.shape[1], dtype).reshape(A.shape[1], 3)
        assert_product(op @ X, A, X)


def test_a_matrix_of_larger_blocks_is_one_of_smaller_ones(device):
    A = blocks(pattern(), 6)
    for most, side in ((1, 1), (2, 2), (3, 3), (4, 3), (6, 6)):
        op = build(A, "bsell", device, max_block=most)
        assert side_of(op) == side
        assert_multiplies(op, A)


@pytest.mark.parametrize(
    "flaw", ["an entry less", "a column beside", "a row of its own", "blocks that lie across"]
)
def test_what_is_not_made_of_blocks_is_stored_by_entries(flaw, device):
    A = sp.lil_array(blocks(sp.csr_array(np.eye(50) + np.eye(50, k=3)), 3))
    if flaw == "an entry less":
        A[61, 60] = 0
    elif flaw == "a column beside":
        A[60, 62], A[60, 5] = 0, 1.0
    elif flaw == "a row of its own":
        A[62] = 0
    else:
        A = sp.lil_array(sp.csr_array(A.tocsr()[:, np.r_[1:150, 0]]))
    A = sp.csr_array(A)
    op = build(A, "bsell", device)
    assert side_of(op) == 1
    assert_multiplies(op, A)


def test_columns_far_apart(device):
    """Slots whose columns are further apart than 16 bits say have columns of 32, and the others of 16."""
    n = 200_000
    near = sp.csr_array(sp.diags_array([1.0, 2.0, 3.0], offsets=[-1, 0, 1], shape=(n, n)))
    far = sp.lil_array((n, n))
    for row in range(100, 120):
        far[row, (row * 7919) % n] = 5.0
    A = sp.csr_array(near + far.tocsr())
    op = build(A, "bsell", device, sigma=1)
    arrays = op.arrays()
    wide = int((arrays["bases"] < 0).sum())
    assert 0 < wide < 20
    assert arrays["far_cols"].size == 32 * wide
    assert sorted(~arrays["bases"][arrays["bases"] < 0]) == list(range(wide))
    assert_multiplies(op, A)
    assert_same_entries(op.tocsr(), A)


@pytest.mark.parametrize("apart", [65533, 65534, 65535, 65536])
def test_the_last_column_that_16_bits_hold(apart, device):
    A = sp.csr_array(([1.0, 2.0], ([0, 1], [3, 3 + apart])), shape=(2, 70_000))
    op = build(A, "bsell", device)
    assert (op.arrays()["bases"] >= 0).all() == (apart < 65535)
    assert_multiplies(op, A)


def test_rows_in_order_unless_that_saves_padding():
    even = blocks(sp.csr_array(np.eye(500) + np.eye(500, k=2)), 3)
    assert build(even, "bsell").options["sigma"] == 1
    lengths = np.where(np.arange(2000) % 7 == 0, 60, 4)
    rows = np.repeat(np.arange(2000), lengths)
    cols = np.concatenate([np.arange(n) for n in lengths])
    uneven = sp.csr_array((np.ones(len(rows)), (rows, cols)), shape=(2000, 2000))
    op = build(uneven, "bsell")
    assert op.options["sigma"] > 1
    assert_multiplies(op, uneven)
    with pytest.raises(sg.FormatError, match="max_padding"):
        build(uneven, "bsell", sigma=1, max_padding=2.0)


def test_few_bytes():
    """Two bytes for a block's column, and a sixteenth of four for its slot's base."""
    A = gallery.elasticity3d(20)
    A.data = np.random.default_rng(0).random(A.nnz)
    op = build(A, "bsell")
    assert side_of(op) == 3
    assert op.nbytes < 1.06 * (8 + 2.2 / 9) * A.nnz
    assert sg.estimate(A, "bsell", op.device)["bytes"] == op.nbytes


def test_the_cpu_and_a_gpu_store_the_same(device):
    for A in (gallery.elasticity3d(8), gallery.powerlaw(3000, 9), blocks(pattern(), 4)):
        for sigma in (1, 128):  # left open it is what suits the device
            expected, found = (
                build(A, "bsell", where, sigma=sigma, max_padding=100).arrays() for where in ("cpu", device)
            )
            for name, array in expected.items():
                assert found[name].tobytes() == array.tobytes(), name
