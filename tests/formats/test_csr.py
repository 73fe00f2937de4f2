"""The csr format: its arrays, and each of its kernels with each of its shapes through the battery."""

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import from_lengths, typed, vector
from internals import plan
from reference import assert_product, assert_within, reference
from support import each_type


# Below and above what a GPU loads at once: rows are cut more finely below.
@pytest.mark.parametrize("kernel", ["balanced", "nodes"])
@pytest.mark.parametrize("others", [500, 120_000])
@each_type
def test_a_row_of_several_blocks_is_summed_anew_by_every_product(others, kernel, dtype, device):
    """What a block leaves for the one that adds a row up is not what it left for the product before."""
    A = from_lengths([3] * 300 + [9000, 0, 5000] + [17] * others, 9001)
    A = sp.csr_array((typed(A, dtype), A.indices, A.indptr), shape=A.shape)
    op = sg.aslinearoperator(A, format="csr", kernel=kernel, device=device)
    x = vector(A.shape[1], dtype)
    expected, bound = reference(A, x)
    for scale in 2.0 ** np.arange(20):
        assert_within(op @ (x * dtype.type(scale)), scale * expected, scale * bound)


def test_long_rows_are_cut_finely_where_they_are_all_that_is_waited_for():
    A = from_lengths([3] * 300 + [9000, 0, 5000] + [17] * 500, 9001)

    def bytes_on(processors):  # each segment takes some
        return plan(A, "csr", processors=processors, kernel="balanced").bytes

    assert bytes_on(132) > bytes_on(1)


@pytest.mark.parametrize("tile", [512, 2048])
def test_rows_of_some_thousand_entries_are_whole_where_most_are_that_long(tile):
    def bytes_of(lengths):
        A = from_lengths(lengths, 5001)
        return plan(A, "csr", kernel="balanced", tile=tile).bytes - 4 * len(lengths)

    whole = bytes_of([3000] * 40)
    assert whole < bytes_of([5000] * 24)  # each segment takes some
    assert whole < bytes_of([3000] * 39 + [1] * 3000)


def test_a_row_of_several_blocks_of_which_one_has_a_nan_of_ones(device):
    """Every bit of which is set: it stays a NaN, and the sum is not waited for."""
    for dtype, bits in ((np.float32, np.uint32), (np.float64, np.uint64)):
        A = sp.csr_array(np.ones((2, 20_000), dtype))
        A.data[30_000:30_100] = np.full(100, ~bits(0)).view(dtype)
        y = sg.aslinearoperator(A, format="csr", kernel="balanced", device=device) @ np.ones(20_000, dtype)
        assert y[0] == 20_000
        assert np.isnan(y[1])


@pytest.mark.parametrize("rows", [400_000, 250_000])
def test_tiles_are_small_where_gathers_are_far_apart(rows, dtype):
    def tile_of(band):
        A = sg.gallery.banded_random(rows, 12, band).astype(dtype)
        return plan(A, "csr", kernel="balanced").options["tile"]

    assert tile_of(rows) < tile_of(100)


def test_rows_that_are_waited_for_are_shared_by_a_block():
    """One long row is too much for the few lanes that are enough for the others."""

    def kernel_of(rows, longest):
        lengths = np.full(rows, 4)  # for which two lanes are enough
        lengths[rows // 2] = longest
        indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
        places = np.arange(indptr[-1]) - np.repeat(indptr[:-1], lengths)
        A = sp.csr_array((np.ones(indptr[-1]), places.astype(np.int32), indptr), shape=(rows, rows))
        return plan(A, "csr").options["kernel"]

    for rows in (5000, 50_000, 500_000):
        assert kernel_of(rows, 16) == "shuffle"
        assert kernel_of(rows, 1000) == "balanced"


def in_nodes(sizes, length=40, repeats=1):
    """Rows of `length` entries in neighbouring columns, where as many as these sizes have equal columns."""
    sizes = np.tile(sizes, repeats)
    node = np.repeat(np.arange(len(sizes)), sizes)
    cols = (7 * node[:, None] + np.arange(length)).ravel()
    indptr = length * np.arange(len(node) + 1)
    values = np.random.default_rng(3).uniform(-1, 1, len(cols))
    return sp.csr_array((values, cols, indptr), shape=(len(node), 7 * len(sizes) + length))


@each_type
def test_neighbouring_rows_with_equal_columns_are_a_node(dtype, device):
    A = in_nodes([1, 3, 8, 9, 20, 5])
    A = sp.csr_array((typed(A, dtype), A.indices, A.indptr), shape=A.shape)
    for lanes in (8, 16, 32):
        op = sg.aslinearoperator(A, format="csr", kernel="nodes", lanes_per_row=lanes, device=device)
        assert_product(op @ vector(A.shape[1], dtype), A, vector(A.shape[1], dtype))
        if device != "cpu":
            nodes = op.arrays()["nodes"].reshape(-1, 4)
            assert nodes[:, 1].tolist() == [1, 3, 8, 5, 4, 7, 7, 6, 5]
            assert (nodes[:, 3] == 40).all()


@pytest.mark.parametrize("size", [2, 3])
def test_the_bytes_of_nodes_are_counted(size):
    """Products with several vectors need tiles unless most nodes have three rows."""
    A = in_nodes([size], repeats=20)
    rows, tiles = (plan(A, "csr", kernel=kernel, tile=1024).bytes for kernel in ("shuffle", "balanced"))
    assert plan(A, "csr", kernel="nodes", tile=1024).bytes == (tiles if size == 2 else rows) + 16 * 20


def test_kernels_are_chosen_by_how_many_rows_share_their_columns():
    def kernel_of(sizes):
        return plan(in_nodes(sizes, 80, 20_000 // sum(sizes)), "csr").options["kernel"]

    assert kernel_of([8]) == kernel_of([3, 7, 12]) == "nodes"
    assert kernel_of([1]) != "nodes"


def test_nodes_take_eight_lanes_or_more():
    chosen = plan(in_nodes([4]), "csr", kernel="nodes", lanes_per_row=4).options
    assert chosen["lanes_per_row"] == 8
