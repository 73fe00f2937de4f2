"""What the performance model sees of a matrix."""

import numpy as np
import pytest
import scipy.sparse as sp

from battery import CASES, matrix
from spmvgpu import _core, gallery
from spmvgpu.inputs.csr import CanonicalCsr


def features(A):
    return features_of(CanonicalCsr.of(A))


def features_of(csr):
    """The features of a canonical matrix, by name."""
    found = csr.features
    return {name: getattr(found, name) for name in dir(found) if not name.startswith("_")}


def of(lengths, columns, cols, dtype=np.float64):
    indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    data = np.ones(indptr[-1], dtype)
    return features(sp.csr_array((data, np.asarray(columns, np.int32), indptr), shape=(len(lengths), cols)))


def test_row_lengths():
    found = of([3, 0, 1, 2], [0, 1, 2, 5, 0, 7], 8)
    assert (found["rows"], found["cols"], found["nnz"]) == (4, 8, 6)
    assert (found["empty_rows"], found["longest"], found["mean"]) == (1, 3, 1.5)
    assert found["deviation"] == pytest.approx(np.std([3, 0, 1, 2]))


def test_rounds_of_loads_of_warps():
    lengths = [1, 2, 3, 4] * 10  # 40 rows: one warp of 32 rows and one of 8
    found = of(lengths, [c for k in lengths for c in range(k)], 4)
    for i, lanes in enumerate((1, 2, 4, 8, 16, 32)):
        rows = 32 // lanes
        warps = [lengths[k : k + rows] for k in range(0, len(lengths), rows)]
        assert found["warp_steps"][i] == sum(-(-max(warp) // lanes) for warp in warps)


@pytest.mark.parametrize(("dtype", "per_sector"), [(np.float32, 8), (np.float64, 4)])
def test_sectors_of_a_full_matrix(dtype, per_sector):
    n = 64
    found = of([n] * n, list(range(n)) * n, n, dtype)
    assert found["run_sectors"] == pytest.approx(n / per_sector / n**2)


def test_rows_longer_than_lanes_are_for():
    """Lanes are as many as the threads of a block leave, by the rows of the same warp."""

    def longer(lengths):
        return list(of(lengths, [c for k in lengths for c in range(k)], 600)["longer"])

    assert longer([1] * 31 + [17]) == [1, 1, 1]
    assert longer([64] * 32) == [0, 0, 0]  # 32, 16 and 8 lanes each
    assert longer([64] * 31 + [600]) == [1, 1, 1]
    assert longer([40] * 31 + [200]) == [0, 1, 1]  # 16, 8 and 4 lanes
    assert longer([1] * 31 + [17] + [17] * 32) == [1, 1, 1]  # 8, 4 and 2 lanes in the second warp


def test_sectors_of_scattered_columns():
    rng = np.random.default_rng(0)
    n, cols = 2000, 8_000_000
    columns = np.sort(rng.integers(0, cols, (n, 4), dtype=np.int32), axis=1).reshape(-1)
    found = of([4] * n, columns, cols)
    assert found["run_sectors"] > 0.99


def sectors_per_entry(csr, groups):
    """Of groups, each a list of rounds, each a list of places of entries."""
    sectors = csr.indices // (32 // csr.dtype.itemsize)
    rounds = [places for group in groups for places in group]
    found = sum(np.unique(sectors[places]).size for places in rounds)
    return found / max(1, sum(len(places) for places in rounds))


def expected_sectors(csr):
    """As the features are described, one group after the other."""
    nnz, found = csr.nnz, {}
    for name, window in {"run_sectors": 1 << 12, "long_run_sectors": 1 << 19}.items():
        windows = -(-nnz // window)
        taken = min(windows, max(2, (1 << 18) // window))
        firsts = [window * (windows * s // taken) for s in range(taken)]
        found[name] = sectors_per_entry(csr, [[np.arange(k, min(k + window, nnz))] for k in firsts])
    return found


# Rows around the limits of what is looked at: 64 rounds, and 2048 entries.
LENGTHS = {
    "short": [3] * 700,
    "one_round": [128] * 20,
    "limit_of_entries": [63, 64, 65, 0] * 90,
    "limit_of_rounds": [0, 63, 64, 65, 2047, 2048, 2049, 4096] * 5,
    "one_longest": [1] * 300 + [9000] + [1] * 300,
    "longest_of_each_block": ([5000] + [2] * 255) * 3,
    "long_runs": [4096] * 300,
    "many_blocks": [1, 0, 7, 2] * 5000,
    "none": [0] * 40,
    "no_rows": [],
}


def of_lengths(case, dtype, cols=20_000):
    """A matrix with rows of these lengths, in random columns."""
    rng = np.random.default_rng(14)
    columns = [np.sort(rng.choice(cols, length, replace=False)) for length in LENGTHS[case]]
    indptr = np.concatenate(([0], np.cumsum(LENGTHS[case]))).astype(np.int32)
    indices = np.concatenate([*columns, []]).astype(np.int32)
    return sp.csr_array((np.ones(indices.size, dtype), indices, indptr), shape=(indptr.size - 1, cols))


@pytest.mark.parametrize("case", list(LENGTHS))
def test_sectors_are_those_of_loads_one_by_one(case, dtype):
    csr = of_lengths(case, dtype)
    found, expected = features(csr), expected_sectors(csr)
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("case", list(LENGTHS))
def test_diagonals_of_some_rows(case, dtype):
    csr = of_lengths(case, dtype)
    rows, sampled = csr.shape[0], min(csr.shape[0], 48)
    found = set()
    for row in (rows * i // sampled for i in range(sampled)):
        found.update((csr.indices[csr.indptr[row] : csr.indptr[row + 1]][:64] - row).tolist())
    assert features(csr)["diagonals"] == len(found)


def test_no_more_diagonals_than_there_are():
    assert features(gallery.poisson3d(20))["diagonals"] == 7
    columns = [column for row in range(50) for column in (row, row + 7, row + 2**31 - 60)]
    assert of([3] * 50, columns, 2**31 - 1)["diagonals"] == 3


def test_rows_that_are_the_same():
    n, same = 100, gallery.poisson2d(100)
    found = features(same)
    assert found["different_rows"] < 10
    assert found["different_values"] == 2
    changed = same.copy()
    changed.data += np.arange(same.nnz) * 1e-3
    found = features(changed)
    assert (found["different_rows"], found["different_values"]) == (48, 256)
    # What is the same in the values may differ in the columns.
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(0, n, (n, 3)) + n * np.arange(3), axis=1)
    assert features_of_ones(columns, 3 * n)["different_rows"] > 40
    assert features_of_ones(columns, 3 * n)["different_values"] == 1


def features_of_ones(columns, cols):
    return of([columns.shape[1]] * columns.shape[0], columns.ravel(), cols)


def test_rows_and_values_of_small_matrices():
    empty = of([0] * 5, [], 4)
    assert (empty["different_rows"], empty["different_values"]) == (1, 0)
    three = of([1, 0, 2], [0, 0, 1], 4)
    assert (three["different_rows"], three["different_values"]) == (3, 1)


def test_a_band_is_read_from_near():
    near = features(gallery.banded_random(20_000, 8, 20))
    far = features(gallery.banded_random(20_000, 8, 8000))
    for name in ("run_sectors", "long_run_sectors"):
        assert near[name] < 0.2 < far[name] or name == "long_run_sectors"
        assert near[name] <= far[name]


@pytest.mark.parametrize("case", CASES)
def test_features_of_every_matrix_are_finite(case, dtype):
    found = features(matrix(case, dtype))
    for value in found.values():
        assert np.all(np.isfinite(value))


def test_the_same_matrix_has_the_same_features():
    A = gallery.powerlaw(20_000, 8)
    assert features(A) == features(A.copy())


def test_broken_arrays_are_refused():
    with pytest.raises(ValueError, match="inconsistent"):
        _core.CsrSource(np.array([0, 3], np.int32), np.array([0], np.int32), np.ones(1), 4, -1)
    with pytest.raises(ValueError, match="inconsistent"):
        _core.CsrSource(np.array([0, 1], np.int32), np.array([0], np.int32), np.ones(2), 4, -1)
