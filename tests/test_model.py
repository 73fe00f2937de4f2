"""What the performance model sees of a matrix, and what products take by the plans of the formats."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import CASES, matrix
from spmvgpu import _core, gallery
from spmvgpu.devices import CPU
from spmvgpu.gallery import meshes
from spmvgpu.inputs.csr import CanonicalCsr
from spmvgpu.planning import calibrate, profile

# Features


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


def test_rows_that_share_their_columns_are_counted_by_their_entries():
    def node_rows(sizes, length):  # rows of a node have the columns of the node
        sizes = np.tile(sizes, 3000 // sum(sizes))
        columns = np.repeat(np.arange(len(sizes)), sizes)[:, None] + np.arange(length)
        return features_of_ones(columns, len(sizes) + length)["node_rows"]

    assert node_rows([1], 5) == 1
    assert node_rows([3], 70) == pytest.approx(3, rel=0.1)
    assert node_rows([8], 5) == pytest.approx(8, rel=0.25)
    assert node_rows([16], 5) == pytest.approx(8, rel=0.25)  # the most that share
    assert node_rows([1, 5], 5) == pytest.approx(3, rel=0.1)
    assert of([0] * 5, [], 4)["node_rows"] == of([2], [0, 1], 4)["node_rows"] == 1


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


# Times

PROCESSORS = 100


def gpu(cache_bytes=1 << 25, **rates):
    return _core.Machine(True, cache_bytes, PROCESSORS, rates)


def plan_of(A, format, on_gpu=True, **options):
    # A GPU need not be here.
    return CanonicalCsr.of(A).plan(format, 0 if on_gpu else CPU, options, PROCESSORS)


def time_of(A, plan, machine):
    csr = CanonicalCsr.of(A)
    return _core.roofline_time_us(csr.features, csr.dtype.itemsize, machine, plan)


def test_a_rate_that_is_not_named_is_that_of_the_reference():
    A = gallery.poisson2d(60)
    plan = plan_of(A, "csr")
    ones = dict.fromkeys(_core.list_rates(), 1.0)
    assert time_of(A, plan, gpu()) == time_of(A, plan, gpu(**ones)) == time_of(A, plan, gpu(magic=7.0))


def test_a_device_that_takes_twice_as_long_for_everything_does_so_for_products():
    A = gallery.poisson2d(60)
    for format in sg.formats():
        try:
            plan = plan_of(A, format)
        except sg.FormatError:
            continue
        twice = gpu(**dict.fromkeys(_core.list_rates(), 2.0))
        assert time_of(A, plan, twice) == pytest.approx(2 * time_of(A, plan, gpu()))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("format", _core.formats_to_consider(0, "cached", True))
def test_no_matrix_takes_less_than_it_takes_at_least(case, format):
    """What is not planned because of it would not have been chosen."""
    csr = CanonicalCsr.of(matrix(case, np.dtype("float64")))
    try:
        plan = plan_of(csr, format)
    except sg.FormatError:
        return
    least = _core.RooflineModel(gpu(), np.dtype(float), {}).least_time_us(csr.features, format, 0)
    assert least <= time_of(csr, plan, gpu()) * (1 + 1e-12)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("on_gpu", [True, False], ids=["gpu", "cpu"])
def test_times_of_every_matrix_are_finite_and_positive(case, on_gpu):
    A = matrix(case, np.dtype("float64"))
    machine = gpu() if on_gpu else _core.Machine(False, 1 << 20, 4, {})
    for format in sg.formats():
        try:
            plan = plan_of(A, format, on_gpu)
        except sg.FormatError:
            continue
        assert 0 <= time_of(A, plan, machine) < np.inf


def test_a_matrix_beyond_the_cache_comes_from_memory():
    A = gallery.poisson2d(150)
    plan = plan_of(A, "csr")
    slow = {"memory": 100.0}
    assert time_of(A, plan, gpu(1 << 30, **slow)) == time_of(A, plan, gpu(1 << 30))
    assert time_of(A, plan, gpu(1 << 16, **slow)) > 2 * time_of(A, plan, gpu(1 << 16))


def test_halos_and_small_blocks_take_time_in_tsmv():
    A = meshes.symmetric_values(sp.kron(gallery.poisson3d(24), np.ones((3, 3)), "csr"), 1)
    n = A.shape[0]
    shuffled = meshes.permuted(
        A, np.random.default_rng(1).permutation(n // 3).repeat(3) * 3 + np.arange(n) % 3
    )
    machine = _core.Machine(True, 400e3 * PROCESSORS, PROCESSORS, {})

    def time(A, **options):
        return time_of(A, plan_of(A, "tsmv", max_memory=1e6, **options), machine)

    assert time(shuffled) > 1.1 * time(A)
    assert time(A, block=1) > 1.1 * time(A, block=3)


def rows_of(lengths, seed=1):
    """A matrix with so many entries in its rows, from the diagonal on."""
    n, rng = len(lengths), np.random.default_rng(seed)
    rows = np.repeat(np.arange(n), lengths)
    cols = (rows + np.arange(rows.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)) % n
    return sp.csr_array((rng.standard_normal(rows.size), (rows, cols)), shape=(n, n))


@pytest.mark.parametrize("format", ["csr", "sell", "bsell", "coo"])
def test_an_x_that_the_l1_holds_is_read_once(format, rng):
    """It does not matter then whether the columns of a row lie apart."""
    rows, length = 200_000, 8

    def time(cols, apart):
        columns = (rng.integers(0, cols, rows)[:, None] + apart * np.arange(length)) % cols
        indptr = np.arange(rows + 1) * length
        A = sp.csr_array((np.ones(rows * length), columns.ravel(), indptr), shape=(rows, cols))
        A.sort_indices()
        return time_of(A, plan_of(A, format), gpu())

    assert time(4_000, 499) == pytest.approx(time(4_000, 1), rel=0.01)
    assert time(400_000, 49_999) > 1.1 * time(400_000, 1)


def test_rows_that_are_sorted_apart_take_sectors_of_their_own_from_the_cache():
    rng = np.random.default_rng(1)
    alike = np.where(np.arange(40_000) % 5 == 0, 20, 0)  # empty rows part nobody
    unlike = rng.permutation(np.repeat((0, 1, 10, 29), 10_000))
    slow = {"x_cache": 1000.0}

    def time(lengths, cache_bytes):
        A = rows_of(lengths)
        plan = plan_of(A, "sell", sigma=4096, warps_per_slice=1, max_padding=1e6)
        return time_of(A, plan, gpu(cache_bytes, **slow)) / A.nnz

    assert time(alike, 1 << 28) < 0.7 * time(unlike, 1 << 28)
    assert time(unlike, 1 << 16) < 0.7 * time(unlike, 1 << 28)  # while the matrix comes from memory


def test_rows_beside_others_as_long_get_lanes_enough():
    together = np.repeat((3, 60), (40_000, 10_000))
    apart = np.random.default_rng(1).permutation(together)

    def time(lengths):
        A = rows_of(lengths)
        return time_of(A, plan_of(A, "csr", kernel="balanced", tile=1024), gpu(1 << 28))

    assert time(together) < 0.95 * time(apart)


def test_formats_take_the_options_that_are_predicted_to_be_fastest():
    A = gallery.powerlaw(30_000, 8)
    machine = _core.Machine(True, 400e3 * PROCESSORS, PROCESSORS, {})
    asked = {
        "csr": [{"kernel": "shuffle", "lanes_per_row": lanes} for lanes in (1, 2, 4, 8, 16, 32)]
        + [{"kernel": "balanced", "tile": tile} for tile in (512, 1024, 2048, 4096)],
        "sell": [{"warps_per_slice": warps, "max_padding": 1e6} for warps in (1, 2, 4, 8, 16, 32)],
    }
    for format, options in asked.items():
        free = {"max_padding": 1e6} if format == "sell" else {}
        chosen = time_of(A, plan_of(A, format, **free), machine)
        best = min(time_of(A, plan_of(A, format, **each), machine) for each in options)
        assert chosen == pytest.approx(best, rel=0.05)  # what is found of x differs


def records(machine, matrices):
    for A in matrices:
        csr = CanonicalCsr.of(A)
        for format in ("csr", "sell", "coo", "dia"):
            plan = csr.plan(
                format, 0, {"max_padding": 1e6} if format != "csr" and format != "coo" else {}, 100
            )
            time_us = _core.roofline_time_us(csr.features, csr.dtype.itemsize, machine, plan)
            yield {
                "format": format, "features": csr.features, "plan": plan,
                "item_bytes": csr.dtype.itemsize, "time_us": time_us,
            }  # fmt: skip


def test_calibration_finds_the_rates_of_a_device_and_names_what_it_kept():
    matrices = [gallery.poisson2d(n) for n in (20, 60, 150, 300, 600)]
    matrices += [gallery.poisson3d(n) for n in (10, 20, 40, 60)]
    true = gpu(1 << 22, launch=2.0, memory=3.0, cache=2.0, load=1.5)
    timed = list(records(true, matrices))
    rates = calibrate.fit_rates(timed, True, 1 << 22, PROCESSORS)
    machine = gpu(1 << 22, **rates)
    known = {"tsmv": {"scale": 1.5, "error": 0.3}}
    found, kept = calibrate.fit_formats(timed, machine, known)
    assert all(found[name]["error"] < 0.1 for name in ("csr", "sell", "coo", "dia"))
    assert found["tsmv"] == known["tsmv"]
    assert set(kept) == set(sg.formats()) - {"csr", "sell", "coo", "dia"}


# Rates of devices


def test_shipped_profiles_name_rates_that_the_model_has():
    for path in profile.SHIPPED.glob("*.json"):
        assert set(json.loads(path.read_text())["rates"]) <= set(_core.list_rates())


def test_a_gpu_without_a_profile_is_scaled_from_another_one():
    reference = profile.Profile.read(profile.SHIPPED / "nvidia-h100-80gb-hbm3.json")
    half = {
        "multiprocessors": 66, "clock": 1.98e9, "memory_bandwidth": 1.676e12, "l2_bytes": 1 << 25,
    }  # fmt: skip
    found = profile.scaled(reference, half)
    assert (found.processors, found.cache_bytes) == (66, 1 << 25)
    assert found.rates["memory"] == found.rates["work"] == 2
    assert found.rates["load"] == 1
    assert found.power["f64"] == reference.power["f64"] / 2
