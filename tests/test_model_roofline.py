"""The library's own model: what products take by the plans of the formats."""

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import CASES, matrix
from spmvgpu import _core, gallery
from spmvgpu.devices import CPU
from spmvgpu.formats import variant_name
from spmvgpu.gallery import meshes
from spmvgpu.inputs.csr import CanonicalCsr
from spmvgpu.planning import calibrate

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


def test_the_name_of_a_variant_says_its_options():
    assert variant_name("csr", {}) == "csr"
    assert variant_name("csr", {"kernel": "shared", "a": 1}) == "csr a=1 kernel=shared"
