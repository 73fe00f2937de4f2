"""Partitioning: the paper's example, Theorem 1, and sets that are disjoint and complete whatever comes in."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given
from hypothesis import strategies as st

from battery import CASES, matrix
from spmvgpu import partition

# Yang et al. 2015, section 4.1: rows of each length, counted from 1.
PAPER = {
    1: (5, 16),
    2: (1, 7, 19),
    3: (3, 13),
    5: (2, 6, 10),
    6: (8, 17),
    7: (4, 11, 15),
    9: (12,),
    10: (14, 20),
    13: (9, 18),
}
POWERS = [1, 2, 6]
BY_POWERS = [partition.by_rows, partition.by_nnz, partition.by_pmf]


def paper_lengths():
    lengths = np.zeros(20, int)
    for length, rows in PAPER.items():
        lengths[np.array(rows) - 1] = length
    return lengths


def matrix_of(lengths, cols=None):
    """A matrix with rows of these lengths."""
    lengths = np.asarray(lengths)
    cols = int(lengths.max(initial=0)) if cols is None else cols
    rng = np.random.default_rng(0)
    columns = [np.sort(rng.choice(cols, n, replace=False)) for n in lengths if n]
    arrays = (
        np.ones(lengths.sum()),
        np.concatenate([np.empty(0, int), *columns]),
        np.concatenate([[0], np.cumsum(lengths)]),
    )
    return sp.csr_array(arrays, shape=(len(lengths), cols))


# -- the paper's example -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("split", "sets", "nnz", "width", "density", "padded", "mean"),
    [
        (
            partition.by_rows,
            [range(1, 3), range(3, 7), range(7, 21)],
            [7, 16, 94],
            [5, 7, 13],
            [70, 57, 52],
            [3, 12, 88],
            53,
        ),
        (
            partition.by_nnz,
            [range(1, 4), range(4, 9), range(9, 21)],
            [10, 21, 86],
            [5, 7, 13],
            [67, 60, 55],
            [5, 14, 70],
            57,
        ),
        (
            partition.by_pmf,
            [(1, 3, 5, 7, 13, 16, 19), (2, 6, 8, 10, 17), (4, 9, 11, 12, 14, 15, 18, 20)],
            [14, 27, 76],
            [3, 6, 13],
            [67, 90, 73],
            [7, 3, 28],
            75,
        ),
    ],
    ids=["algorithm 1", "algorithm 2", "algorithm 3"],
)
@pytest.mark.parametrize("given_as", [list, matrix_of], ids=["lengths", "matrix"])
def test_worked_example(split, sets, nnz, width, density, padded, mean, given_as):
    parts = split(given_as(paper_lengths()), POWERS)
    assert [(rows + 1).tolist() for rows in parts.sets] == [list(rows) for rows in sets]
    np.testing.assert_array_equal(parts.nnz, nnz)
    np.testing.assert_array_equal(parts.width, width)
    np.testing.assert_array_equal(parts.rows, [len(rows) for rows in sets])
    np.testing.assert_array_equal(parts.elements, parts.rows * parts.width)
    np.testing.assert_array_equal(parts.elements - parts.nnz, padded)
    np.testing.assert_array_equal(np.round(100 * parts.density), density)
    np.testing.assert_allclose(parts.fill, 1 - parts.density)
    assert round(100 * parts.mean_density) == mean
    assert parts.mean_fill == pytest.approx(1 - parts.mean_density)
    shares = np.array([13, 26, 78])
    assert parts.relative_difference == pytest.approx(100 * np.sum(np.abs(nnz - shares) / shares))
    # Formulas (12) and (13), in single precision.
    storage = parts.elements * 8 + parts.rows * 4
    np.testing.assert_array_equal(parts.storage(4, 4), storage)
    assert parts.transfer_time(1e9, 4, 4) == pytest.approx(1e-9 * (8 * parts.elements.sum() + 4 * 20))
    assert parts.transfer_time(1e9) == pytest.approx(1e-9 * (12 * parts.elements.sum() + 4 * 20))


def test_pmf():
    lengths, probabilities = partition.pmf(paper_lengths())
    assert lengths.tolist() == list(PAPER)
    np.testing.assert_allclose(probabilities, [len(rows) / 20 for rows in PAPER.values()])
    lengths, probabilities = partition.pmf([])
    assert (lengths.size, probabilities.size) == (0, 0)


# -- whatever comes in ---------------------------------------------------------------------------------------

lengths_of_rows = st.lists(st.sampled_from([0, 0, 1, 1, 2, 3, 7, 40, 1000]), max_size=60)
several_powers = st.lists(
    st.sampled_from([0, 0.1, 0.2, 1, 1, 3, 75, 1e-9, 1e12]), min_size=1, max_size=9
).filter(any)


@pytest.mark.parametrize("split", BY_POWERS)
@given(lengths=lengths_of_rows, powers=several_powers)
@example(lengths=[], powers=[1, 1])
@example(lengths=[0, 0, 0], powers=[0, 1, 0])
@example(lengths=[1], powers=[0.1] * 9)
@example(lengths=[3] * 10, powers=[0.1, 0.2, 0.7])
def test_every_row_is_in_one_set(split, lengths, powers):
    parts = split(lengths, powers)
    assert len(parts.sets) == len(powers)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts.sets)), np.arange(len(lengths)))
    for rows, power in zip(parts.sets, powers, strict=True):
        assert (np.diff(rows) > 0).all()
        assert power > 0 or len(rows) == 0
    assert parts.nnz.sum() == sum(lengths)
    assert ((parts.density >= 0) & (parts.density <= 1)).all()
    assert 0 <= parts.mean_density <= 1
    again = split(np.array(lengths, dtype=np.int32), tuple(powers))
    assert all(itertools.starmap(np.array_equal, zip(parts.sets, again.sets, strict=True)))


@given(lengths=lengths_of_rows, powers=several_powers)
def test_parts_get_their_share(lengths, powers):
    """Rows to within one; non-zeros to within half a row, but for what the last parts are left."""
    shares = np.array(powers) / sum(powers)
    by_rows = partition.by_rows(lengths, powers)
    assert (np.abs(by_rows.rows - shares * len(lengths)) < 1 + 1e-6).all()
    last = np.flatnonzero(powers)[-1]
    for split in (partition.by_nnz, partition.by_pmf):
        nnz = split(lengths, powers).nnz
        served = (np.cumsum(nnz) < sum(lengths))[:last]  # there were rows left
        error = (nnz - shares * sum(lengths))[:last][served]
        assert (np.abs(error) <= max(lengths, default=0) / 2 + 1e-5).all()


def test_parts_of_many_rows_are_balanced():
    lengths = np.concatenate([np.full(20_000, 5), np.full(20_000, 28)])
    powers = [75, 75, *[1] * 6]
    assert partition.by_rows(lengths, powers).relative_difference > 500
    assert partition.by_nnz(lengths, powers).relative_difference < 5
    assert partition.by_pmf(lengths, powers).relative_difference < 5


@pytest.mark.parametrize("split", BY_POWERS)
def test_only_the_ratio_of_powers_counts(split):
    parts = [
        split(paper_lengths(), powers).nnz.tolist() for powers in ([1, 2, 6], [0.1, 0.2, 0.6], [3, 6, 18])
    ]
    assert parts[0] == parts[1] == parts[2]


def test_rows_longer_than_sixteen_bits_tell():
    parts = partition.by_pmf([70_000, 3, 65_537, 2], [1, 1])
    assert [rows.tolist() for rows in parts.sets] == [[1, 2, 3], [0]]


def test_nothing_to_pad():
    parts = partition.by_pmf([0, 0, 0], [1, 1])
    assert parts.mean_density == 1
    assert parts.density.tolist() == [1, 1]
    assert parts.relative_difference == 0
    assert parts.transfer_time(1.0, 4, 4) == 12


# -- Theorem 1 -----------------------------------------------------------------------------------------------


def partitions_with_the_same_nnz(lengths, nnz):
    """All assignments of rows to parts that give every part its non-zeros."""
    lengths = np.array(lengths)
    for owner in itertools.product(range(len(nnz)), repeat=len(lengths)):
        if np.array_equal(np.bincount(owner, lengths, len(nnz)), nnz):
            yield partition.Partition.from_sets(
                [np.flatnonzero(np.array(owner) == part) for part in range(len(nnz))], lengths
            )


@given(
    lengths=st.lists(st.integers(0, 5), min_size=2, max_size=7),
    powers=st.lists(st.integers(1, 4), min_size=2, max_size=3),
)
def test_no_partition_with_the_same_nnz_has_fewer_elements(lengths, powers):
    """Theorem 1 where it holds: parts in the order of their widths, or all with equally many non-zeros."""
    ours = partition.by_pmf(lengths, powers)
    if ours.nnz.min() == 0:
        return
    equal = len(set(ours.nnz.tolist())) == 1
    for other in partitions_with_the_same_nnz(lengths, ours.nnz):
        if equal or (np.diff(other.width) >= 0).all():
            assert ours.elements.sum() <= other.elements.sum()
            assert ours.mean_density >= other.mean_density  # Corollary 1
            assert ours.mean_fill <= other.mean_fill  # Corollary 2


def test_theorem_1_needs_the_order_of_widths():
    """As the theorem is worded, this is a counterexample to it: the same non-zeros, fewer elements."""
    lengths = [1] * 10 + [2] * 20 + [10]
    ours = partition.by_pmf(lengths, [1, 5])
    swapped = partition.Partition.from_sets([[30], range(30)], lengths, [1, 5])
    np.testing.assert_array_equal(swapped.nnz, ours.nnz)
    assert (ours.elements.sum(), swapped.elements.sum()) == (220, 70)
    assert partition.by_pmf(lengths, [5, 1]).elements.sum() == 70


# -- sets of one's own ---------------------------------------------------------------------------------------


def test_sets_of_ones_own():
    parts = partition.Partition.from_sets([[3, 0], [], [2, 1]], [4, 1, 2, 5])
    assert [rows.tolist() for rows in parts.sets] == [[0, 3], [], [1, 2]]
    assert (parts.nnz.tolist(), parts.width.tolist()) == ([9, 0, 3], [5, 0, 2])


@pytest.mark.parametrize(
    ("sets", "error", "message"),
    [
        ([[0, 1], [1, 2]], ValueError, "row 1 is in several"),
        ([[0], [2]], ValueError, "row 1 is in no set"),
        ([[0, 1, 2], [3]], ValueError, "row 3 does not exist"),
        ([[0, -1], [2]], ValueError, "row -1 does not exist"),
        ([[0.5], [1, 2]], TypeError, "must be sequences of row numbers"),
    ],
)
def test_sets_that_are_none(sets, error, message):
    with pytest.raises(error, match=message):
        partition.Partition.from_sets(sets, [1, 1, 1])


def test_a_power_per_set():
    with pytest.raises(ValueError, match="2 sets and 3 powers"):
        partition.Partition.from_sets([[0], [1]], [1, 1], [1, 1, 1])


# -- submatrices ---------------------------------------------------------------------------------------------


def test_submatrices_of_a_dense_matrix():
    A = sp.csr_array(np.arange(1.0, 50).reshape(7, 7))
    parts = partition.by_submatrices(A, block_size=3)
    expected = np.zeros((7, 7), bool)
    expected[:3, :3] = expected[3:6, 3:6] = expected[6:, 6:] = True
    np.testing.assert_array_equal(parts.blocks.toarray(), np.where(expected, A.toarray(), 0))
    np.testing.assert_array_equal(parts.remainder.toarray(), np.where(expected, 0, A.toarray()))
    assert parts.offsets.tolist() == [-2, -1, 0, 1, 2]
    assert parts.nnz.tolist() == [19, 30]
    assert parts.elements.tolist() == [35, 30]
    np.testing.assert_allclose(parts.density, [19 / 35, 1])
    assert parts.mean_density == pytest.approx(49 / 65)
    assert parts.storage(8, 4).tolist() == [35 * 8 + 5 * 4, 30 * 12 + 8 * 4]
    assert parts.relative_difference == pytest.approx(100 * 2 * 5.5 / 24.5)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("block_size", [1, 16, 32, 10**6])
def test_submatrices_add_up(name, block_size):
    A = sp.csr_array(matrix(name, np.dtype("float32")))
    parts = partition.by_submatrices(A, block_size=block_size)
    for part, inside in ((parts.blocks, True), (parts.remainder, False)):
        rows = np.repeat(np.arange(A.shape[0]), np.diff(part.indptr))
        assert ((rows // block_size == part.indices // block_size) == inside).all()
    # Explicit zeros stay.
    np.testing.assert_array_equal(parts.blocks.indptr + parts.remainder.indptr, A.indptr)
    assert abs(parts.blocks + parts.remainder - A).sum() == 0
    assert parts.blocks.dtype == A.dtype
    assert parts.blocks.has_canonical_format
    assert parts.remainder.has_canonical_format


def test_submatrices_take_two_powers():
    with pytest.raises(ValueError, match="give two"):
        partition.by_submatrices(sp.eye_array(3), [1, 1, 1])


# -- bad input -----------------------------------------------------------------------------------------------
