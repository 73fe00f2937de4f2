"""The library's own model: its terms and its fit, which start from the plans of the formats."""

import numpy as np
import pytest

import spmvgpu as sg
from battery import CASES, matrix
from spmvgpu import gallery
from spmvgpu.devices import CPU
from spmvgpu.formats import plan_csr
from spmvgpu.inputs.canonical import canonical_csr
from spmvgpu.planning.model import roofline
from spmvgpu.planning.model.predict import features
from spmvgpu.planning.model.roofline import Case, Corrections, Fit, Machine, Work
from support import over

GPU = Machine("cuda", 100, 1 << 25, 100)
NO_RESIDUALS = np.zeros(0)


def work(A, format, machine=GPU, **options):
    csr = canonical_csr(A)
    ordinal = CPU if machine.kind == "cpu" else 0  # which need not be here
    plan = plan_csr(csr, format, ordinal, options, machine.processors)
    return Work(Case(features(csr), csr.dtype.itemsize, machine), plan)


def test_time_is_the_norm_of_the_costs():
    terms = {"launch": 1.0, "memory": 4.0, "entries": 7.0}
    costs = {"launch": 3.0, "memory": 1.0}
    assert Fit(1.0, costs, NO_RESIDUALS, 0.1).time(terms, 1.0) == pytest.approx(7)
    assert Fit(2.0, costs, NO_RESIDUALS, 0.1).time(terms, 1.1) == pytest.approx(5.5)


def test_a_sample_at_the_same_place_corrects_what_is_predicted_there():
    refused = np.nan
    fit = Fit(1.0, {"launch": 2.0}, np.array([0.3, refused]), 0.1)
    unknown = Fit(1.0, {}, np.array([refused, refused]), 0.1)
    twice = Fit(1.0, {"launch": 2.0}, np.array([0.3, -0.1]), 0.1)
    corrections = Corrections(np.zeros((2, 8)), [unknown, fit, twice])
    assert corrections.at([0.0] * 8) == pytest.approx([1, np.exp(0.3 / 1.5), np.exp(0.2 / 2.5)])
    assert corrections.at([50.0] * 8) == pytest.approx([1, 1, 1])


def test_fit_recovers_the_costs():
    rng = np.random.default_rng(0)
    terms = [{"launch": 1.0, "memory": m, "entries": e} for m, e in rng.uniform(0.1, 50, (60, 2))]
    times = [2 + 3 * term["memory"] + 0.5 * term["entries"] for term in terms]
    fit = roofline.fit(terms, rng.normal(size=(60, 8)).tolist(), times)
    assert fit.norm == 1.0
    assert fit.costs == pytest.approx({"launch": 2, "memory": 3, "entries": 0.5})
    assert fit.error < 1e-6


def test_costs_are_never_negative():
    rng = np.random.default_rng(1)
    terms = [{"launch": 1.0, "memory": m, "rows": r} for m, r in rng.uniform(0.1, 50, (60, 2))]
    times = [100 + 3 * term["memory"] - 0.5 * term["rows"] for term in terms]
    assert min(roofline.fit(terms, rng.normal(size=(60, 8)).tolist(), times).costs.values()) > 0


@over("case", CASES)
@pytest.mark.parametrize("machine", [GPU, Machine("cpu", 4, 1 << 20, 8)], ids=["gpu", "cpu"])
def test_terms_of_every_matrix_are_finite_and_not_negative(case, machine):
    A = matrix(case, np.dtype("float64"))
    for name in (*sg.formats(), "csr kernel=shuffle", "csr kernel=balanced", "a format of tomorrow"):
        format, *options = name.split() if name.split()[0] in sg.formats() else ["csr"]
        try:
            terms = roofline.terms_of(name, work(A, format, machine, **dict(o.split("=") for o in options)))
        except sg.FormatError:
            continue
        assert all(np.isfinite(value) and value >= 0 for value in terms.values())


def test_a_matrix_beyond_the_cache_comes_from_memory():
    A = gallery.poisson2d(150)
    small = work(A, "csr", Machine("cuda", 100, 1 << 30, 100)).base()
    large = work(A, "csr", Machine("cuda", 100, 1 << 16, 100)).base()
    assert small["memory"] == large["cache"] == small["x_memory"] == 0
    assert small["cache"] == large["memory"] > 0
    assert large["x_memory"] > 0


def test_the_terms_follow_what_a_format_chooses():
    A = gallery.powerlaw(3000, 8)
    for name, format, option in (
        ("csr kernel=shuffle", "csr", "lanes_per_row"),
        ("ellr_t", "ellr_t", "threads_per_row"),
        ("sell", "sell", "warps_per_slice"),
    ):
        kernel = {"kernel": "shuffle"} if format == "csr" else {"max_padding": 1e6}
        one, eight = (work(A, format, **kernel, **{option: lanes}) for lanes in (1, 8))
        chosen = work(A, format, **kernel)
        again = work(A, format, **kernel, **{option: chosen.option(option)})
        assert roofline.terms_of(name, chosen) == roofline.terms_of(name, again)
        assert roofline.terms_of(name, one)["chain"] == 8 * roofline.terms_of(name, eight)["chain"]


def test_the_name_of_a_variant_says_its_options():
    assert roofline.variant_name("csr", {}) == "csr"
    assert roofline.variant_name("csr", {"kernel": "shared", "a": 1}) == "csr a=1 kernel=shared"


def test_no_profile_of_the_package_predicts_less_time_for_more_work():
    from spmvgpu.planning.model.profile import SHIPPED, Profile

    for path in SHIPPED.glob("*.json"):
        profile = Profile.read(path)
        for parameters in profile.roofline.values():
            for variant in parameters["variants"]:
                assert all(cost > 0 for cost in variant["costs"].values())
