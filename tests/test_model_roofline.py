"""The library's own model: its terms and its fit, which start from the plans of the formats."""

from itertools import product

import numpy as np
import pytest

import spmvgpu as sg
from battery import CASES, matrix
from spmvgpu import _core, gallery
from spmvgpu.devices import CPU
from spmvgpu.formats import kernels, variant_name
from spmvgpu.inputs.csr import CanonicalCsr
from spmvgpu.planning import calibrate
from support import over

PROCESSORS = 100
GPU = _core.Machine(True, 1 << 25, PROCESSORS, PROCESSORS)
SOMEWHERE, FAR_AWAY = [0.0] * 8, [50.0] * 8


def plan_of(A, format, on_gpu=True, **options):
    # A GPU need not be here.
    return CanonicalCsr.of(A).plan(format, 0 if on_gpu else CPU, options, PROCESSORS)


def terms_of(A, plan, machine=GPU):
    csr = CanonicalCsr.of(A)
    return _core.roofline_terms(csr.features, csr.dtype.itemsize, machine, plan)


def model(*variants, places=()):
    given = [(format, {}, norm, costs, residuals, None) for format, norm, costs, residuals in variants]
    return _core.RooflineModel(GPU, "F64", given, places, 1.0, 1e12)


def test_time_is_the_norm_of_the_costs():
    A = gallery.poisson2d(60)
    plan = plan_of(A, "csr")
    terms = terms_of(A, plan)
    costs = {"launch": 3.0, "cache": 20.0}
    case = model(("csr", 1.0, costs, []), ("csr", 2.0, costs, [])).case(
        CanonicalCsr.of(A).features, PROCESSORS
    )
    launch, cache = 3.0, 20.0 * terms["cache"]
    assert cache > 1
    assert case.time_us(0, plan) == pytest.approx(launch + cache)
    assert case.time_us(1, plan) == pytest.approx(np.hypot(launch, cache))


def test_a_cost_that_this_version_does_not_know_is_none():
    A = gallery.poisson2d(10)
    case = model(("csr", 1.0, {"launch": 3.0, "magic": 7.0}, [])).case(
        CanonicalCsr.of(A).features, PROCESSORS
    )
    assert case.time_us(0, plan_of(A, "csr")) == pytest.approx(3)


def test_samples_at_the_same_place_correct_what_is_predicted_there():
    residuals = [0.3, -0.1]
    here, elsewhere = _core.roofline_corrections([SOMEWHERE, FAR_AWAY], [SOMEWHERE] * 2, residuals)
    assert here == pytest.approx(np.exp(0.2 / 2.5))
    assert elsewhere == pytest.approx(1)
    with pytest.raises(ValueError, match="as many residuals"):
        _core.roofline_corrections([SOMEWHERE], [SOMEWHERE], residuals)


def test_a_sample_that_a_format_refused_says_nothing_of_it():
    A = gallery.poisson2d(10)
    place = _core.roofline_point(CanonicalCsr.of(A).features)
    costs = {"launch": 2.0}
    case = model(
        ("csr", 1.0, costs, [0.3, None]), ("csr", 1.0, costs, [None, None]), places=[place, place]
    ).case(CanonicalCsr.of(A).features, PROCESSORS)
    plan = plan_of(A, "csr")
    assert case.time_us(0, plan) == pytest.approx(2 * np.exp(0.3 / 1.5))
    assert case.time_us(1, plan) == pytest.approx(2)


@over(("case", "format"), product(CASES, _core.formats_to_consider(0, "cached", None)))
def test_no_matrix_takes_less_than_it_takes_at_least(case, format):
    """What is not planned because of it would not have been chosen."""
    csr = CanonicalCsr.of(matrix(case, np.dtype("float64")))
    try:
        plan = plan_of(csr, format)
    except sg.FormatError:
        return
    costs = dict.fromkeys(terms_of(csr, plan), 1.0)
    asked = model((format, 1.0, costs, [])).case(csr.features, PROCESSORS)
    assert asked.least_time_us(0, 0) <= asked.time_us(0, plan) * (1 + 1e-12)


def test_fit_recovers_the_costs():
    rng = np.random.default_rng(0)
    terms = [{"launch": 1.0, "memory": m, "entries": e} for m, e in rng.uniform(0.1, 50, (60, 2))]
    times = [2 + 3 * term["memory"] + 0.5 * term["entries"] for term in terms]
    fit = calibrate.fit(terms, rng.normal(size=(60, 8)).tolist(), times)
    assert fit.norm == 1.0
    assert fit.costs == pytest.approx({"launch": 2, "memory": 3, "entries": 0.5})
    assert fit.error < 1e-6


def test_costs_are_never_negative():
    rng = np.random.default_rng(1)
    terms = [{"launch": 1.0, "memory": m, "rows": r} for m, r in rng.uniform(0.1, 50, (60, 2))]
    times = [100 + 3 * term["memory"] - 0.5 * term["rows"] for term in terms]
    assert min(calibrate.fit(terms, rng.normal(size=(60, 8)).tolist(), times).costs.values()) > 0


@over("case", CASES)
@pytest.mark.parametrize("on_gpu", [True, False], ids=["gpu", "cpu"])
def test_terms_of_every_matrix_are_finite_and_not_negative(case, on_gpu):
    A = matrix(case, np.dtype("float64"))
    machine = GPU if on_gpu else _core.Machine(False, 1 << 20, 4, 8)
    for format, options in ((name, options) for name in sg.formats() for options in kernels(name)):
        try:
            plan = plan_of(A, format, on_gpu, **options)
        except sg.FormatError:
            continue
        terms = terms_of(A, plan, machine)
        assert all(np.isfinite(value) and value >= 0 for value in terms.values())


def test_a_matrix_beyond_the_cache_comes_from_memory():
    A = gallery.poisson2d(150)
    plan = plan_of(A, "csr")
    small, large = (terms_of(A, plan, _core.Machine(True, size, 100, 100)) for size in (1 << 30, 1 << 16))
    assert small["memory"] == large["cache"] == small["x_memory"] == 0
    assert small["cache"] == large["memory"] > 0
    assert large["x_memory"] > 0


def test_the_terms_follow_what_a_format_chooses():
    A = gallery.powerlaw(3000, 8)
    for format, option in ("csr", "lanes_per_row"), ("sell", "warps_per_slice"):
        kernel = {"kernel": "shuffle"} if format == "csr" else {"max_padding": 1e6}
        one, eight = (plan_of(A, format, **kernel, **{option: lanes}) for lanes in (1, 8))
        chosen = plan_of(A, format, **kernel)
        again = plan_of(A, format, **kernel, **{option: chosen.options[option]})
        assert terms_of(A, chosen) == terms_of(A, again)
        assert terms_of(A, one)["chain"] == 8 * terms_of(A, eight)["chain"]


def test_the_name_of_a_variant_says_its_options():
    assert variant_name("csr", {}) == "csr"
    assert variant_name("csr", {"kernel": "shared", "a": 1}) == "csr a=1 kernel=shared"


def test_no_profile_of_the_package_predicts_less_time_for_more_work():
    from spmvgpu.planning.profile import SHIPPED, Profile

    for path in SHIPPED.glob("*.json"):
        profile = Profile.read(path)
        for parameters in profile.roofline.values():
            for variant in parameters["variants"]:
                assert all(cost > 0 for cost in variant["costs"].values())
