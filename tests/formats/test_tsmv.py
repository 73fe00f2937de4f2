"""The tsmv format: half of a symmetric matrix, scheduled so that no two threads add to the same place."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import matrix, symmetric, uniform, values, vector
from reference import assert_product
from support import assert_multiplies, assert_same_entries, check_refusal, each_type

FAKE = 0xFFFF
VARIANTS = ["halo", "poster"]
# Of the format's header.
MATRIX = sp.csr_array(
    np.array(
        [[1, 0, 0, 0, 5], [0, 2, 6, 0, 0], [0, 6, 3, 7, 0], [0, 0, 7, 4, 8], [5, 0, 0, 8, 9]], dtype=float
    )
)


def build(A, device="cpu", **options):
    return sg.aslinearoperator(A, format="tsmv", device=device, **options)


def nodes_of(op, arrays):
    """First row of every node, and the end."""
    if arrays["node_rows"].size:
        return arrays["node_rows"]
    return np.arange(0, op.shape[0] + 1, op.options["block"])


def slots_of(op):
    """(tile, slice, step, thread, slot) of every slot, and the arrays."""
    arrays = op.arrays()
    tiles, steps, offsets = arrays["tiles"], arrays["slice_steps"], arrays["step_offsets"]
    for tile in range(len(tiles) - 1):
        for slice_ in range(tiles[tile][2], tiles[tile + 1][2]):
            for step in range(steps[slice_], steps[slice_ + 1]):
                for slot in range(offsets[step], offsets[step + 1]):
                    yield tile, slice_, step, slot - offsets[step], slot


def places(op):
    """(tile, slice, step, thread, row node, column node) of every block that is not fake."""
    arrays = op.arrays()
    threads, tiles = op.options["threads"], arrays["tiles"]
    for tile, slice_, step, thread, slot in slots_of(op):
        first, halo, _ = tiles[tile]
        width = tiles[tile + 1][1] - halo
        column = int(arrays["columns"][slot])
        if column == FAKE:
            continue
        node = int(arrays["thread_nodes"][slice_ * threads + thread])
        number = [first + n - width if n >= width else arrays["halo_nodes"][halo + n] for n in (node, column)]
        yield tile, slice_, step, thread, int(number[0]), int(number[1])


# -- layout --------------------------------------------------------------------------------------------------


def test_golden_arrays(dtype, device):
    op = build(MATRIX, device, dtype=dtype, threads=64, slices=1, block=1)
    arrays = op.arrays()
    np.testing.assert_array_equal(arrays["tiles"], [[0, 0, 0], [5, 0, 1]])
    np.testing.assert_array_equal(arrays["thread_nodes"][:6], [4, 2, 3, 0, 1, FAKE])
    np.testing.assert_array_equal(arrays["slice_steps"], [0, 3])
    np.testing.assert_array_equal(arrays["step_offsets"], [0, 5, 10, 15])
    # The diagonal of row 3 would read the bank that row 4 reads in step 1.
    columns = [[0, 1, 2, FAKE, FAKE], [3, 2, FAKE, 0, 1], [4, FAKE, 3, FAKE, FAKE]]
    np.testing.assert_array_equal(arrays["columns"], np.ravel(columns))
    np.testing.assert_array_equal(arrays["values"], [5, 6, 7, 0, 0, 8, 3, 0, 1, 2, 9, 0, 4, 0, 0])
    assert arrays["values"].dtype == dtype


def test_golden_halo():
    """A tile of 64 rows and one of a single row, which has its neighbour in its halo."""
    A = sp.diags_array([np.arange(1.0, 65.0), np.full(65, 99.0), np.arange(1.0, 65.0)], offsets=[-1, 0, 1])
    arrays = build(A, threads=64, slices=1, block=1).arrays()
    np.testing.assert_array_equal(arrays["tiles"], [[0, 0, 0], [64, 0, 1], [65, 1, 2]])
    np.testing.assert_array_equal(arrays["halo_nodes"], [63])
    np.testing.assert_array_equal(arrays["columns"][-2:], [0, 1])
    np.testing.assert_array_equal(arrays["values"][-2:], [64, 99])
    np.testing.assert_array_equal(arrays["merge_nodes"], [63])
    np.testing.assert_array_equal(arrays["merge_offsets"], [0, 1])
    np.testing.assert_array_equal(arrays["merge_sources"], [0])


def test_golden_blocks(dtype):
    """Two nodes of two rows; entry by entry of their blocks, the values of both threads."""
    A = symmetric(sp.csr_array(np.arange(1.0, 17).reshape(4, 4)))
    arrays = build(A, dtype=dtype, threads=64, slices=1, block=2).arrays()
    np.testing.assert_array_equal(arrays["thread_nodes"][:3], [1, 0, FAKE])
    np.testing.assert_array_equal(arrays["columns"], [0, FAKE, 1, 0])
    np.testing.assert_array_equal(arrays["values"][:8], [9, 0, 10, 0, 13, 0, 14, 0])
    np.testing.assert_array_equal(arrays["values"][8:], [11, 1, 15, 5, 15, 5, 16, 6])
    assert arrays["node_rows"].size == arrays["halo_nodes"].size == 0


@pytest.mark.parametrize("block", [1, 2, 3])
@pytest.mark.parametrize("case", ["sym_random", "sym_blocks", "sym_mixed_nodes", "sym_band"])
def test_the_schedule_keeps_its_promises(case, block):
    A = matrix(case, np.dtype("float64"))
    op = build(A, threads=64, slices=2, block=block, max_memory=100)
    taken, seen = set(), set()
    for tile, slice_, step, thread, node, column in places(op):
        assert column <= node
        if column < node:  # adds to y[column]: alone in this step
            assert (tile, step, column) not in taken
            taken.add((tile, step, column))
        assert (slice_, step, thread) not in seen
        seen.add((slice_, step, thread))
    rows = nodes_of(op, op.arrays())
    covered = np.zeros(A.shape, int)
    for *_, node, column in places(op):
        block_rows, block_cols = (slice(rows[n], rows[n + 1]) for n in (node, column))
        covered[block_rows, block_cols] += 1
        if node != column:
            covered[block_cols, block_rows] += 1
    rest = op.arrays()["remainder_row_offsets"]
    if rest.size:
        covered[np.repeat(np.arange(A.shape[0]), np.diff(rest)), op.arrays()["remainder_col_indices"]] += 1
    pattern = np.zeros(A.shape, int)
    stored = A.tocoo()
    pattern[stored.row, stored.col] = 1
    np.testing.assert_array_equal(covered, pattern)


def test_poster_schedule_keeps_its_promises():
    """No two threads on one column, none that finishes a row another one works on, sums finished once."""
    A = matrix("sym_band", np.dtype("float64"))
    op = build(A, variant="poster", threads=64, slices=4, max_memory=100)
    coordinates, finished = op.arrays()["coordinates"], []
    step_now, busy = None, {}
    for tile, _, step, thread, slot in slots_of(op):
        packed = int(coordinates[slot])
        if packed == 0xFFFFFFFF:
            continue
        row, column, last = packed >> 17, packed >> 1 & 0xFFFF, packed & 1
        if step != step_now:
            step_now, busy = step, {}
        for place in {column} - {row} | ({row} if last else set()):
            assert busy.setdefault(place, thread) == thread
        if last:
            finished.append((tile, row))
    assert len(finished) == len(set(finished))


@pytest.mark.parametrize(("unknowns", "block"), [(1, 1), (2, 2), (3, 3), (4, 2), (6, 3)])
def test_nodes_are_found(unknowns, block, dtype, device):
    graph = symmetric(uniform(200, 200, 5) + sp.eye_array(200))
    A = symmetric(sp.kron(graph, np.ones((unknowns, unknowns)))).astype(dtype)
    op = build(A, device)
    assert op.options["block"] == block
    assert op.arrays()["node_rows"].size == 0  # all nodes alike
    assert_multiplies(op, A)
    assert_same_entries(op.tocsr(), A)


def test_half_the_memory(dtype):
    graph = symmetric(sp.diags_array(np.ones((9, 6000)), offsets=range(-4, 5), shape=(6000, 6000)))
    A = symmetric(sp.kron(graph, np.ones((3, 3)))).astype(dtype)
    ours, csr = build(A), sg.aslinearoperator(A, format="csr", device="cpu")
    assert ours.nbytes < 0.65 * csr.nbytes
    assert ours.arrays()["remainder_values"].size == 0


# -- products ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    "case", ["sym_random", "sym_mixed_nodes", "sym_hubs", "sym_band", "sym_explicit_zeros"]
)
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
@each_type
def test_inf_and_nan_stay_where_they_belong(special, case, variant, dtype, device):
    A = matrix(case, dtype)
    op = build(A, device, variant=variant, max_memory=1e6)
    for place in (0, A.shape[0] // 2, A.shape[0] - 1):
        x = vector(A.shape[0], dtype)
        x[place] = special
        assert_product(op @ x, A, x)


def test_hubs_are_left_to_the_remainder(dtype, device):
    A = matrix("sym_hubs", dtype)
    op = build(A, device, block=1)
    arrays = op.arrays()
    longest = np.diff(arrays["slice_steps"]).max()
    assert arrays["remainder_values"].size > 0
    assert longest < 64
    assert_multiplies(op, A)


def test_rows_in_many_halos(dtype, device):
    """The first rows lie in the halo of every tile: long lists to merge."""
    n = 30_000
    i = np.arange(n)
    far = sp.csr_array((values(np.random.default_rng(5), n), (i, i // 256 % 8)), shape=(n, n))
    A = symmetric(far + sp.eye_array(n)).astype(dtype)
    op = build(A, device, threads=64, slices=1, max_memory=100)
    assert_multiplies(op, A)


# -- what the operator is ------------------------------------------------------------------------------------


def test_it_is_its_own_transpose(dtype):
    op = build(matrix("sym_band", dtype))
    assert op.T is op
    assert op.H is op
    copy = pickle.loads(pickle.dumps(op))
    assert (copy.format, copy.T is copy) == ("tsmv", True)
    assert_same_entries(copy.tocsr(), matrix("sym_band", dtype))


@pytest.mark.parametrize("triangle", ["lower", "upper"])
def test_one_triangle_is_enough(triangle, dtype):
    A = matrix("sym_band", dtype)
    half = sp.tril(A) if triangle == "lower" else sp.triu(A)
    assert_same_entries(build(half, symmetric=triangle).tocsr(), A)


# -- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ((3, 4), 5.0, r"entry \(3, 4\) is 5, but \(4, 3\) is 8"),
        ((4, 3), 5.0, r"entry \(3, 4\) is 8, but \(4, 3\) is 5"),
        ((1, 4), 0.5, r"entry \(1, 4\) is 0.5, but \(4, 1\) is not stored"),
        ((4, 1), 0.5, r"entry \(4, 1\) is 0.5, but \(1, 4\) is not stored"),
        ((2, 1), np.nextafter(6, 7), r"entry \(1, 2\) is 6, but \(2, 1\) is not the same to the last bit"),
    ],
)
def test_the_first_asymmetry_is_named(place, value, message):
    A = sp.lil_array(MATRIX)
    A[place] = value
    A = sp.csr_array(A)
    with pytest.raises(sg.FormatError, match=message) as refused:
        build(A)
    check_refusal(A, "tsmv", str(refused.value))


def test_a_zero_without_its_mirror_image_is_one():
    A = sp.csr_array((np.array([1.0, 0.0]), (np.array([0, 1]), np.array([0, 0]))), shape=(2, 2))
    with pytest.raises(sg.FormatError, match=r"\(1, 0\) is 0, but \(0, 1\) is not stored"):
        build(A)


def test_nan_equals_nan(dtype):
    A = sp.csr_array(np.array([[1, np.nan], [np.nan, 2]], dtype))
    assert_same_entries(build(A).tocsr(), A)


def test_a_large_asymmetry_is_found(dtype):
    """By whichever thread."""
    A = matrix("sym_band", dtype).copy()
    for k in (1, A.nnz // 3, A.nnz - 2):
        B = sp.csr_array((A.data.copy(), A.indices, A.indptr), shape=A.shape)
        B.data[k] += 1
        row = np.searchsorted(A.indptr, k, side="right") - 1
        if row != A.indices[k]:
            i, j = sorted((row, A.indices[k]))
            with pytest.raises(sg.FormatError, match=rf"entry \({i}, {j}\)"):
                build(B)


def test_rectangles_are_refused():
    with pytest.raises(sg.FormatError, match="square") as refused:
        build(uniform(30, 40, 3))
    check_refusal(uniform(30, 40, 3), "tsmv", str(refused.value))


def test_more_memory_than_csr_is_refused(dtype):
    A = symmetric(uniform(40_000, 40_000, 4)).astype(dtype)
    with pytest.raises(sg.FormatError, match="max_memory=1") as refused:
        build(A, block=1)
    check_refusal(A, "tsmv", str(refused.value))
    with pytest.raises(sg.FormatError, match="max_memory"):
        sg.estimate(A, "tsmv", block=1)
    assert_multiplies(build(A, max_memory=10), A)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("case", ["sym_band", "sym_hubs", "sym_mixed_nodes"])
def test_estimate_is_exact(case, variant, dtype):
    A = matrix(case, dtype)
    estimate = sg.estimate(A, "tsmv", "cpu", variant=variant, max_memory=100)
    op = build(A, variant=variant, max_memory=100)
    op @ np.ones(A.shape[1], dtype)
    assert estimate["bytes"] == op.nbytes
    assert estimate["padding"] >= 1.0
