"""How the format of an operator is found: predicted, tried, remembered."""

import math
import multiprocessing
import os
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import CASES, matrix, vector
from reference import assert_product
from spmvgpu import _core, gallery
from spmvgpu._core import PartedMatrix
from spmvgpu.devices import CPU
from spmvgpu.formats import Choice, candidates, traits
from spmvgpu.inputs.canonical import canonical_csr
from spmvgpu.inputs.csr import CanonicalCsr
from spmvgpu.multi_device import division
from spmvgpu.operator import build
from spmvgpu.papers import guo2011_planning
from spmvgpu.papers.guo2011 import Separator
from spmvgpu.planning import choosing, predict, profile, trials, tuning_cache
from spmvgpu.planning.profile import SHIPPED, Profile
from spmvgpu.planning.reordering import in_order
from spmvgpu.planning.request import MODES, Request
from spmvgpu.planning.symmetry import declared, of_part
from support import explained, over

A = gallery.poisson2d(40)

CLOSE = {"csr": 10.0, "sell": 10.5, "coo": 30.0, "bsell": 10.6, "dia": 10.1}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SPMVGPU_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tuning"


def choose(A, format, ordinal, mode, options, symmetric=None, budget=math.inf):
    """With time for every trial, unless a budget is given."""
    request = Request(format, options, mode, budget, symmetric)
    return choosing.choose(CanonicalCsr.of(sp.csr_array(A)), request, ordinal)


def table_of(times, error=0.1):
    """Predictions, of which those without a time are refusals."""
    return [
        (name, {}, times.get(name), 1 if name in times else None, 1.0, error, "") for name in sg.formats()
    ]


@pytest.fixture
def predicted(monkeypatch):
    """Sets the predicted times, of a large matrix."""

    whole = choosing.ranked

    def set_times(times):
        def ranked(csr, request, ordinal, spent_us):
            if request.format != "auto":
                return whole(csr, request, ordinal, spent_us)
            limits = request.budget, spent_us(), False
            is_timed, found = _core.rank_predictions(table_of(times), csr.nnz, ordinal, request.tune, *limits)
            return is_timed, [(Choice(*entry), trial_us) for *entry, trial_us in found]

        monkeypatch.setattr(choosing, "ranked", ranked)

    return set_times


@pytest.fixture
def measured(monkeypatch):
    """Replaces building by a record of what was built, with times given per format, on devices not there."""
    monkeypatch.setattr(tuning_cache, "slug", lambda ordinal: f"device {ordinal}")
    monkeypatch.setattr(tuning_cache, "load_profile", lambda ordinal: SimpleNamespace(measured={}))
    monkeypatch.setattr(CanonicalCsr, "at", lambda csr, ordinal: csr)
    plan = CanonicalCsr.plan
    monkeypatch.setattr(
        CanonicalCsr, "plan", lambda csr, format, ordinal, options: plan(csr, format, CPU, options)
    )
    machine = SimpleNamespace(cache_bytes=10**9, memory_bandwidth=1e9)
    monkeypatch.setattr(trials, "load_profile", lambda ordinal: machine)
    built = []

    class Matrix:
        alive = 0

        def __init__(self, time):
            self.time = time
            Matrix.alive += 1
            self.most = max(Matrix.alive, built[-1].most if built else 0)

        def __del__(self):
            Matrix.alive -= 1

        def try_products(self, product_us=None):
            return self.time, 13

    def set_times(times):
        def build(csr, choice, ordinal):
            time = times[choice.format]
            if callable(time):
                time = time(choice.options)
            if isinstance(time, Exception):
                raise time
            made = Matrix(time)
            built.append(type("Record", (), {"choice": choice, "most": made.most}))
            return made

        monkeypatch.setattr(choosing, "build", build)
        return built

    return set_times


def test_off_times_nothing_and_writes_nothing(predicted, measured, cache):
    predicted(CLOSE)
    built = measured(dict.fromkeys(sg.formats(), 1.0))
    choice, _, tuning = choose(A, "auto", 0, "off", {})
    assert [record.choice.format for record in built] == ["csr"]
    assert (choice.format, tuning.products, tuning.trials) == ("csr", 0, [])
    assert "predicted" in choice.reason
    assert not cache.exists()


def test_the_close_ones_are_tried_and_the_fastest_kept(predicted, measured):
    predicted(CLOSE)
    built = measured({"csr": 5.0, "sell": 3.0, "dia": 4.0})
    choice, made, tuning = choose(A, "auto", 0, "cached", {})
    # bsell is close, too, but three are enough
    assert [record.choice.format for record in built] == ["csr", "dia", "sell"]
    assert choice.format == "sell"
    assert made.time == 3.0
    assert [trial.format for trial in tuning.trials] == ["csr", "dia", "sell"]
    assert tuning.products == 3 * 13
    assert not tuning.cached
    assert max(record.most for record in built) == 2  # the best so far, and the one in trial


def mesh_of_nodes(side):
    """Blocks on a grid, no two values the same."""
    A = gallery.elasticity3d(side)
    A.data = np.random.default_rng(0).random(A.nnz)
    return A


H100 = Profile.read(SHIPPED / "nvidia-h100-80gb-hbm3.json")


def ranking(table, mode, products=math.inf, spent_us=0.0, has_last_resort=False):
    """Formats in the order in which a GPU tries them, or takes the first that fits, and which of both."""
    is_timed, found = _core.rank_predictions(table, 1_000_000, 0, mode, products, spent_us, has_last_resort)
    return [format for format, *_ in found], is_timed


def test_tables_are_ranked():
    table = table_of(CLOSE)
    by_risk = ["csr", "dia", "sell", "bsell", "coo"]
    assert ranking(table, "off") == (by_risk, False)
    assert ranking(table, "cached") == (["csr", "dia", "sell"], True)
    assert ranking(table, "cached", products=0) == (by_risk, False)
    assert ranking(table, "cached", 1e4, spent_us=1e5 - 1600) == (by_risk, False)  # one trial decides nothing
    assert ranking(table, "full") == (["csr", "dia", "sell", "bsell", "coo"], True)
    assert ranking([*table, ("stencil", {}, None, 1, 1.0, None, "not known")], "full")[0][-1] == "stencil"
    assert ranking([*table, ("stencil", {}, None, 1, 1.0, None, "not known")], "off") == (by_risk, False)
    reason = _core.rank_predictions([("sell", {}, None, 1, 1.0, None, "")], 10**6, 0, "off", 0, 0, True)
    assert reason[1][0][0] == "csr"
    assert "has no times" in reason[1][0][2]
    assert ranking(table_of({"coo": 1.0}), "off", has_last_resort=True) == (["coo", "csr"], False)
    assert ranking(table_of({"csr": 1.0}), "off", has_last_resort=True) == (["csr"], False)


def test_a_large_error_of_a_prediction_is_a_risk():
    table = [
        ("sell", {}, 10.0, 1, 1.0, 0.8, ""),
        ("csr", {}, 13.0, 1, 1.0, 0.05, ""),
        ("coo", {}, 30.0, 1, 1.0, 0.05, ""),
    ]
    assert ranking(table, "off")[0] == ["csr", "sell", "coo"]
    assert ranking(table, "cached") == (["sell", "csr"], True)


def test_other_options_are_predicted_of_what_is_stored():
    """A plan that sorts rows says nothing of rows in order."""
    csr = canonical_csr(matrix("two_populations", np.dtype("float64")))
    taken = csr.plan("sell", 0, {}, 132).options["sigma"]
    assert taken > 1
    found, _ = csr.source.predict_considered(0, H100.model(csr.dtype, True), "cached", None, math.inf)
    sigmas = {options["sigma"] for format, options, *_ in found if format == "sell" and "sigma" in options}
    assert sigmas <= {0, taken}


@over("case", [*CASES, "poisson2d", "powerlaw", "uniform_random", "elasticity3d", "mesh of nodes", "pairs"])
def test_what_is_not_planned_would_not_have_been_chosen(case):
    made = {
        "pairs": lambda: sp.kron(
            sp.diags_array([1.0, 9.0, 1.0], offsets=[-1, 0, 1], shape=(9000, 9000)), np.ones((2, 2))
        ),
        "poisson2d": lambda: gallery.poisson2d(300),
        "powerlaw": lambda: gallery.powerlaw(20_000, 12),
        "uniform_random": lambda: gallery.uniform_random(20_000, 20_000, 30),
        "elasticity3d": lambda: gallery.elasticity3d(8),
        "mesh of nodes": lambda: mesh_of_nodes(14),
    }
    csr = canonical_csr(made[case]() if case in made else matrix(case, np.dtype("float64")))
    model = H100.model(csr.dtype, True)
    every, _ = csr.source.predict_considered(0, model, "off", None)
    for mode, products in (("off", 0.0), ("cached", 0.0), ("cached", math.inf)):
        some, _ = csr.source.predict_considered(0, model, mode, None, products)
        with_own_options = [prediction for prediction in some if not prediction[1]]
        assert all(prediction in every for prediction in with_own_options)
        assert ranking(some, mode, products)[0][0] == ranking(every, mode, products)[0][0]
        if case in made:
            assert len(with_own_options) < len(every)


def test_a_clear_prediction_is_not_tried(predicted, measured):
    predicted({"csr": 10.0, "sell": 20.0})
    measured({"csr": 5.0, "sell": 3.0})
    choice, _, tuning = choose(A, "auto", 0, "cached", {})
    assert (choice.format, tuning.products) == ("csr", 0)


def test_what_does_not_fit_is_passed_over(predicted, measured):
    predicted(CLOSE)
    measured({"csr": MemoryError("too large"), "dia": sg.FormatError("no"), "sell": 3.0})
    choice, _, tuning = choose(A, "auto", 0, "cached", {})
    assert (choice.format, len(tuning.trials)) == ("sell", 1)
    predicted({"csr": 10.0, "sell": 20.0})
    choice, _, _ = choose(A, "auto", 0, "off", {})
    assert choice.format == "sell"


def test_the_first_refusal_is_raised_if_nothing_fits(predicted, measured):
    predicted(CLOSE)
    measured(dict.fromkeys(sg.formats(), MemoryError("too large")))
    for mode in MODES:
        with pytest.raises(MemoryError, match="too large"):
            choose(A, "auto", 0, mode, {})


def test_full_tries_every_format_and_the_tunables_of_those_that_come_close(predicted, measured):
    predicted({"csr": 10.0, "sell": 15.0, "coo": 300.0})
    built = measured({"csr": 7.0, "sell": 3.0, "coo": 5.0})
    choice, _, tuning = choose(A, "auto", 0, "full", {})
    assert [record.choice.name for record in built[:3]] == ["csr", "sell", "coo"]
    assert {record.choice.format for record in built[3:]} == {"sell", "coo"}
    assert choice.format == "sell"
    assert f"the fastest of {len(tuning.trials)} timed variants" in choice.reason
    resolved = [
        tuple(sorted(CanonicalCsr.of(A).plan(name, CPU, options).options.items()))
        for name, options in ((trial.format, trial.options) for trial in tuning.trials)
    ]
    assert len(set(resolved)) == len(resolved)


def test_full_ends_where_bytes_alone_take_longer_than_the_best(predicted, measured, monkeypatch):
    predicted({"dia": 8.0, "sell": 9.0, "coo": 10.0, "csr": 11.0})
    built = measured({"dia": 2.0, "sell": 9.0, "coo": 10.0, "csr": 11.0})
    machine = SimpleNamespace(cache_bytes=0, memory_bandwidth=1e6)  # of a device that reads a byte in 1 us
    monkeypatch.setattr(trials, "load_profile", lambda ordinal: machine)
    choose(A, "auto", 0, "full", {})
    assert {record.choice.format for record in built} == {"dia", "csr"}  # csr decides whether orders help


@pytest.fixture
def timed(monkeypatch):
    """Replaces the times of trials by what a function says of a stored matrix."""

    def by(time_of):
        monkeypatch.setattr(
            trials.Trials, "_series", lambda self, matrix, product_us=None: time_of(matrix, product_us)
        )

    return by


def holds(A, format):
    try:
        return CanonicalCsr.of(A).plan(format, CPU).bytes > 0
    except sg.FormatError:
        return False


def test_on_the_cpu_full_tries_every_format_once(timed):
    timed(lambda *_: 1.0)
    op = sg.aslinearoperator(A, device="cpu", tune="full", reorder=False)
    allowed = [name for name in sg.formats() if not traits(name).only_if_asked and holds(A, name)]
    tried = [trial.format for trial in op.tuning.trials]
    assert set(tried) == set(allowed)
    assert all(trial.reorder is False for trial in op.tuning.trials)
    # Tunables of kernels on a GPU have no effect; tiles of tsmv are stored in other sizes.
    assert sorted(name for name in tried if name != "tsmv") == sorted(set(allowed) - {"tsmv"})


def shuffled():
    order = np.random.default_rng(1).permutation(A.shape[0])
    return sp.csr_array(A[order][:, order])


@pytest.mark.parametrize("best", ["clusters", "rcm"])
def test_full_finds_an_order(best, timed, cache):
    B = shuffled()
    rcm = in_order(CanonicalCsr.of(B), "rcm", CPU)[0]

    def time_of(matrix, _):
        if not isinstance(matrix, PartedMatrix):
            return 10.0 if matrix.format == "csr" else 20.0
        ((part, rows, _),) = matrix.parts
        is_best = np.array_equal(rows, rcm) == (best == "rcm")
        return (5.0 if is_best else 9.0) * (1 if part.format == "sell" else 1.1)

    timed(time_of)
    op = sg.aslinearoperator(B, device="cpu", tune="full")
    fastest = min(op.tuning.trials, key=lambda trial: trial.time_us)
    assert (op.format, fastest.format, fastest.reorder) == ("sell", "sell", best)
    assert f"sell reorder={best}" in repr(op.tuning)
    assert "reordered" in explained(op)
    x = vector(B.shape[1], B.dtype)
    assert_product(op @ x, B, x)
    # The order is kept with the format.
    again = sg.aslinearoperator(B, device="cpu", tune="full")
    assert again.tuning.cached
    assert (again.format, again.nbytes) == (op.format, op.nbytes)
    assert_product(again @ x, B, x)
    # What takes thousands of products to find is not found anew by default.
    later = sg.aslinearoperator(B, device="cpu")
    assert later.tuning.cached == (best == "clusters")
    # What is to stay as given has trials of its own.
    assert not sg.aslinearoperator(B, device="cpu", tune="full", reorder=False).tuning.cached


def test_an_order_that_does_not_help_csr_is_left(timed):
    timed(lambda matrix, _: 12.0 if isinstance(matrix, PartedMatrix) else 10.0)
    op = sg.aslinearoperator(shuffled(), device="cpu", tune="full")
    assert [trial.name for trial in op.tuning.trials if trial.reorder] == [
        "csr reorder=clusters",
        "csr reorder=rcm",
    ]
    assert not isinstance(op._stored.matrix, PartedMatrix)


@pytest.mark.parametrize("shape", [(5, 5), (5, 7), (0, 0)])
def test_full_tuning_of_what_has_no_order(shape, device):
    B = sp.csr_array(shape)
    op = sg.aslinearoperator(B, device=device, tune="full")
    assert not any(trial.reorder for trial in op.tuning.trials)
    assert (op @ np.ones(shape[1])).shape == shape[:1]


def test_what_is_close_is_timed_again_in_turns(timed):
    short, long = {"csr": 10.0, "coo": 9.9, "sell": 16.0}, {"csr": 12.0, "coo": 12.4}
    timed(lambda matrix, product_us: (short if product_us is None else long).get(matrix.format, 99.0))
    op = sg.aslinearoperator(A, device="cpu", tune="full", reorder=False)
    assert op.format == "csr"
    found = {trial.format: trial.time_us for trial in op.tuning.trials}
    assert (found["csr"], found["coo"], found["sell"]) == (12.0, 12.4, 16.0)


def test_full_tuning_of_a_format_keeps_given_options(measured):
    built = measured({"sell": 3.0})
    choose(A, "sell", 0, "full", {"sigma": 1})
    assert len(built) == len({options["warps_per_slice"] for options in candidates("sell")})
    assert all(record.choice.options["sigma"] == 1 for record in built)
    built.clear()
    choose(A, "sell", 0, "full", {"warps_per_slice": 4})  # which leaves nothing to try
    assert len(built) == 1


def test_results_are_remembered(predicted, measured, cache):
    predicted(CLOSE)
    built = measured({"csr": 5.0, "sell": 3.0, "dia": 4.0})
    choose(A, "auto", 0, "cached", {})
    assert len(os.listdir(cache)) == 1
    built.clear()
    choice, _, tuning = choose(A, "auto", 0, "cached", {})
    assert [record.choice.format for record in built] == ["sell"]
    assert tuning.cached
    assert tuning.products == 0
    assert choice.format == "sell"
    assert "like this one" in choice.reason
    choose(gallery.poisson2d(41), "auto", 0, "cached", {})  # another matrix
    choose(A.astype(np.float32), "auto", 0, "cached", {})  # another dtype
    assert len(os.listdir(cache)) == 3


def tuned(options):
    """The time of a format that chooses its options worse than one can."""
    return 3.0 if options else 3.5


def test_what_full_found_is_used_later(predicted, measured):
    predicted(CLOSE)
    for format, device, modes in (
        ("auto", -1, ("cached", "full")),
        ("auto", 0, ("cached",)),
        ("sell", 0, ("full",)),
    ):
        measured({"csr": 5.0, "sell": tuned, "bsell": 4.0, "dia": 4.0, "coo": 6.0})
        found, _, tuning = choose(A, format, device, "full", {})
        assert not tuning.cached
        for mode in modes:
            again, _, tuning = choose(A, format, device, mode, {})
            assert (again.format, again.options) == (found.format, found.options) != ("csr", {})
            assert (tuning.cached, tuning.products) == (True, 0)
    own, _, tuning = choose(A, "sell", 0, "full", {"sigma": 32})
    assert own.options["sigma"] == 32
    assert not tuning.cached


@pytest.mark.parametrize("mode", ["cached", "off"])
def test_a_format_that_was_asked_for_does_not_depend_on_earlier_tuning(mode, measured):
    measured({"sell": tuned})
    found, _, _ = choose(A, "sell", 0, "full", {})
    assert found.options != {}
    own, _, tuning = choose(A, "sell", 0, mode, {})
    assert own.options == {}
    assert not tuning.cached


def test_ignoring_the_cache_neither_reads_nor_writes(predicted, measured, cache):
    predicted(CLOSE)
    measured({"csr": 5.0, "sell": 3.0, "dia": 4.0})
    with sg.cache.ignored():
        choose(A, "auto", 0, "cached", {})
        assert not cache.exists()
    choose(A, "auto", 0, "cached", {})
    with sg.cache.ignored():
        assert not choose(A, "auto", 0, "cached", {})[2].cached
    assert choose(A, "auto", 0, "cached", {})[2].cached


def test_predictions_are_not_written(predicted, measured, cache, monkeypatch):
    predicted({"csr": 10.0, "sell": 20.0})
    measured({"csr": 5.0, "sell": 3.0})
    monkeypatch.setattr(tuning_cache, "fingerprint", None)  # nothing is looked up where nothing is kept
    for _ in range(2):
        choice, _, tuning = choose(A, "auto", 0, "cached", {})
        assert (choice.format, tuning.cached, tuning.trials) == ("csr", False, [])
    assert not cache.exists()


def test_another_profile_tries_anew(predicted, measured, monkeypatch):
    predicted(CLOSE)
    measured({"csr": 5.0, "sell": 3.0, "dia": 4.0})
    choose(A, "auto", 0, "cached", {})
    assert choose(A, "auto", 0, "cached", {})[2].cached
    other = SimpleNamespace(measured={"date": "today"})
    monkeypatch.setattr(tuning_cache, "load_profile", lambda ordinal: other)
    measured({"csr": 3.0, "sell": 5.0, "dia": 4.0})
    choice, _, tuning = choose(A, "auto", 0, "cached", {})
    assert (choice.format, tuning.cached) == ("csr", False)


def test_a_trial_must_be_clear_to_contradict_the_prediction(predicted, measured):
    predicted(CLOSE)
    measured({"csr": 5.0, "sell": 6.0, "dia": 4.9})
    choice, _, _ = choose(A, "auto", 0, "cached", {})
    assert choice.format == "csr"
    assert "5.0 us" in choice.reason
    assert "dia took 4.9 us, a difference within the noise" in choice.reason


def test_the_reason_is_what_the_predictions_say(predicted, measured):
    measured({"csr": 5.0, "sell": MemoryError("too large")})
    predicted({"csr": 12.0, "sell": 10.0})
    reason = choose(A, "auto", 0, "off", {})[0].reason
    assert "12.0 us +- 10%" in reason
    assert "sell did not fit" in reason
    assert "least" not in reason


def test_a_remembered_format_that_no_longer_fits_is_found_anew(predicted, measured):
    predicted(CLOSE)
    measured({"csr": 5.0, "sell": 3.0, "dia": 4.0})
    choose(A, "auto", 0, "cached", {})
    measured({"csr": 5.0, "sell": MemoryError("too large"), "dia": 4.0})
    choice, _, tuning = choose(A, "auto", 0, "cached", {})
    assert choice.format == "dia"
    assert not tuning.cached


def test_the_cache_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(sg.cache, "MAX_TUNING_ENTRIES", 8)
    for i in range(20):
        path = tmp_path / f"{i:02}.json"
        tuning_cache.keep(path, Choice("csr"), 1.0)
        os.utime(path, (i, i))
        assert len(os.listdir(tmp_path)) <= 8
    left = sorted(os.listdir(tmp_path))
    assert left[-1] == "19.json"


def test_results_are_counted_now_and_then(tmp_path, monkeypatch):
    """And also where another process stores some: as many as are stored before the next time are too many."""
    listings = []
    listed = sg.cache._results
    monkeypatch.setattr(sg.cache, "_results", lambda folder: listings.append(folder) or listed(folder))
    monkeypatch.setattr(sg.cache, "MAX_TUNING_ENTRIES", 100)
    for i in range(200):
        tuning_cache.keep(tmp_path / f"{i:03}.json", Choice("csr"), 1.0)
        assert len(os.listdir(tmp_path)) <= 100
    assert 4 <= len(listings) <= 16
    for i in range(150):
        (tmp_path / f"of another {i}.json").touch()
    for i in range(sg.cache._ROOM_AT_ONCE + 1):
        tuning_cache.keep(tmp_path / f"{i:03}.json", Choice("csr"), 1.0)
    assert len(os.listdir(tmp_path)) <= 100
    elsewhere = tmp_path / "elsewhere" / "0.json"
    tuning_cache.keep(elsewhere, Choice("csr"), 1.0)
    assert listings[-1] == elsewhere.parent


def _keep_often(path, format):
    for _ in range(50):
        tuning_cache.keep(path, Choice(format), 1.0)
        assert tuning_cache.recall(path, "auto", {}) is not None


def test_processes_do_not_disturb_each_other(tmp_path):
    context = multiprocessing.get_context("spawn")
    path = tmp_path / "shared.json"
    workers = [context.Process(target=_keep_often, args=(path, name)) for name in ("csr", "sell")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert os.listdir(tmp_path) == ["shared.json"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", ["power_law_rows", "uniform", "0x0", "0x5", "5x0", "no_entries"])
def test_products_are_right_in_every_mode(mode, case, device, dtype):
    B = matrix(case, dtype)
    op = sg.aslinearoperator(B, device=device, tune=mode)
    x = vector(B.shape[1], dtype)
    assert_product(op @ x, B, x)
    assert op.tuning.mode == mode
    assert (op.tuning.products > 0) == bool(op.tuning.trials)


# Budgets


@pytest.fixture
def clock(monkeypatch):
    """Replaces the clock by one that stands still until it is set, in seconds."""
    now = SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(choosing, "perf_counter", lambda: now.seconds)
    return now


# What each of the close ones is expected to take: a plan or a conversion, and 51 products.
TRIALS = {"csr": 400 + 51 * 10.0, "dia": 600 + 51 * 10.1, "sell": 600 + 51 * 10.5}


@over(
    ("products", "tried"),
    [
        (0, []),
        (50, []),
        (sum(TRIALS.values()) / 10 - 1, ["csr", "dia"]),
        ((TRIALS["csr"] + TRIALS["dia"]) / 10 + 1, ["csr", "dia"]),
        ((TRIALS["csr"] + TRIALS["dia"]) / 10 - 1, []),  # one alone would decide nothing
        (sum(TRIALS.values()) / 10 + 1, ["csr", "dia", "sell"]),
        (math.inf, ["csr", "dia", "sell"]),
    ],
)
def test_what_the_budget_lasts_for_is_tried(products, tried, predicted, measured, clock):
    predicted(CLOSE)
    measured({"csr": 10.0, "sell": 9.0, "dia": 9.9})
    with sg.cache.ignored():
        choice, _, tuning = choose(A, "auto", 0, "cached", {}, budget=products)
    assert [trial.format for trial in tuning.trials] == tried
    if not tried:
        assert choice.format == "csr"
        assert f"timing them would take longer than {products:g} products" in choice.reason
    assert not tuning.out_of_time


def test_a_budget_that_is_used_up_ends_the_trials(predicted, measured, clock, monkeypatch):
    predicted(CLOSE)
    measured({"csr": 10.0, "sell": 3.0, "dia": 9.9})
    build = choosing.build
    products = sum(TRIALS.values()) / 10 + 1

    def build_slowly(*arguments):
        clock.seconds += 1e-6 * TRIALS["csr"] * clock.slowness
        return build(*arguments)

    monkeypatch.setattr(choosing, "build", build_slowly)
    for factor, tried in (0.9, ["csr", "dia", "sell"]), (1.5, ["csr", "dia"]), (3, ["csr"]):
        clock.slowness = factor
        with sg.cache.ignored():
            choice, _, tuning = choose(A, "auto", 0, "cached", {}, budget=products)
        assert [trial.format for trial in tuning.trials] == tried
        assert tuning.out_of_time == (len(tried) < 3)
    assert choice.reason.startswith("there was no time to time other formats")


def test_faster_products_leave_less_time(predicted, measured, clock):
    predicted(CLOSE)
    measured({"csr": 0.1, "sell": 3.0, "dia": 9.9})
    _, _, tuning = choose(A, "auto", 0, "cached", {}, budget=sum(TRIALS.values()) / 10 + 1)
    assert [trial.format for trial in tuning.trials] == ["csr"]
    assert tuning.out_of_time


def test_what_was_predicted_takes_time_too(predicted, measured, clock, monkeypatch):
    predicted(CLOSE)
    measured({"csr": 10.0, "sell": 3.0, "dia": 9.9})
    rank = choosing.ranked

    def rank_slowly(*arguments):
        clock.seconds += 3e-6 * sum(TRIALS.values())
        return rank(*arguments)

    monkeypatch.setattr(choosing, "ranked", rank_slowly)
    _, _, tuning = choose(A, "auto", 0, "cached", {}, budget=sum(TRIALS.values()) / 10 + 1)
    assert tuning.trials == []


def test_a_larger_budget_does_not_take_what_a_smaller_one_predicted(predicted, measured):
    predicted(CLOSE)
    measured({"csr": 10.0, "sell": 3.0, "dia": 9.9})
    assert choose(A, "auto", 0, "cached", {}, budget=50)[0].format == "csr"
    choice, _, tuning = choose(A, "auto", 0, "cached", {})
    assert (choice.format, tuning.cached) == ("sell", False)
    assert not choose(A, "auto", 0, "cached", {}, budget=50)[2].cached


@over(
    ("budget", "error"),
    [(-1, ValueError), (math.nan, ValueError), ("50", TypeError), (None, TypeError), (True, TypeError)],
)
def test_what_is_no_budget(budget, error):
    with pytest.raises(error, match=rf"budget={budget!r} is not allowed; give a number of products"):
        sg.aslinearoperator(A, device="cpu", budget=budget)


def test_budgets_that_are(device):
    for budget in (0, 50, 2.5, np.float32(3), math.inf):
        op = sg.aslinearoperator(A, device=device, budget=budget)
        assert sg.aslinearoperator(op, budget=50) is op
    assert sg.aslinearoperator(A, device=["cpu", "cpu"], budget=0).nnz == A.nnz


def test_trials_of_a_large_matrix_are_few(device):
    B = gallery.poisson2d(470)
    assert B.nnz > 1_000_000
    assert sg.aslinearoperator(B, device=device, budget=math.inf).tuning.products <= 40


def test_trials_count_their_products():
    made = canonical_csr(gallery.poisson2d(470)).build("csr", {}, -1)
    _, products = made.try_products()
    assert 1 <= products <= 13


def test_explain_says_what_tuning_took():
    op = sg.aslinearoperator(A, device="cpu", tune="full")
    text = explained(op)
    assert f"tuning took {op.tuning.products} products" in text
    for trial in op.tuning.trials:
        assert f"{trial.format} " in text
        assert f"{trial.time_us:.2f} us" in text


def test_memory_is_planned_for_formats_that_may_be_chosen(monkeypatch):
    """Not for one that takes fewer bytes, and that nobody gets on a GPU unasked."""
    monkeypatch.setattr(profile, "load_profile", lambda _: H100)
    csr = CanonicalCsr.of(gallery.poisson2d(60))
    expected = predict.fastest(predict.predict_considered(csr, Request(), 0))
    assert expected.format in _core.formats_to_consider(0, "cached", None)
    assert division._bytes_needed(csr, Request(), 0) == expected.bytes


def no_model():
    raise AssertionError("a model was loaded")


@pytest.mark.parametrize("mode", ["off", "cached"])
def test_a_small_matrix_for_a_gpu_is_csr_without_a_look_at_it(mode):
    csr = CanonicalCsr.of(A)
    is_timed, found, steps = csr.source.rank(0, "auto", {}, mode, None, 50.0, 0.0, no_model)
    ((format, options, reason, _),) = found
    assert (is_timed, format, options, steps) == (False, "csr", {}, [])
    assert "so small a matrix" in reason


@pytest.mark.parametrize(("sell", "taken"), [(9.5, "csr"), (9.0, "sell")])
def test_csr_stays_where_others_bring_little(predicted, measured, sell, taken):
    predicted({"csr": 10.0, "sell": sell, "coo": 30.0})
    measured(dict.fromkeys(sg.formats(), 1.0))
    for given in ({"mode": "off"}, {"mode": "cached", "budget": 0.0}):
        choice, _, _ = choose(A, "auto", 0, options={}, **given)
        assert choice.format == taken
        assert ("needs no conversion" in choice.reason) == (taken == "csr")


def test_formats_that_plan_for_long_need_a_symmetric_matrix():
    def considered(ordinal, mode, symmetric, has_few_values=False):
        return set(_core.formats_to_consider(ordinal, mode, symmetric, has_few_values))

    cpu, gpu = -1, 0
    every = {name for name in sg.formats() if not traits(name).only_if_asked}
    assert not every & {"csr_m", "csr_b", "ellpack", "ellpack_r", "ellr_t", "hyb"}
    for mode in ("off", "cached"):
        assert considered(gpu, mode, None) == every - {"packed_sell", "tsmv"}
        assert considered(gpu, mode, False) == every - {"packed_sell", "tsmv", "sdia"}
        assert considered(gpu, mode, True) == every - {"packed_sell"}
        assert considered(gpu, mode, None, has_few_values=True) == every - {"tsmv"}
        assert considered(cpu, mode, None) == every - {"packed_sell", "sdia", "tsmv"}
        assert considered(cpu, mode, False) == every - {"packed_sell", "sdia", "tsmv"}
    assert considered(gpu, "full", None) == every
    assert considered(gpu, "full", False) == every - {"sdia", "tsmv"}


@pytest.mark.gpu
def test_a_format_that_stores_values_once_is_planned_where_there_are_few():
    rng = np.random.default_rng(1)
    near, far = gallery.banded_random(1_000_000, 24, 100), gallery.uniform_random(150_000, 150_000, 8)
    for A, data, few in (
        (near, rng.integers(1, 13, near.nnz) / 7, True),
        (near, np.ones(near.nnz, np.float32), True),
        (near, rng.uniform(size=near.nnz), False),
        (far, np.ones(far.nnz), False),  # what takes the time there is x
    ):
        A = sp.csr_array((data, A.indices, A.indptr), shape=A.shape)
        op = sg.aslinearoperator(A, device="cuda")
        planned = {step.of for step in op.tuning.steps if step.name == "plan"}
        assert ("packed_sell" in planned) == few


def known_of(op):
    return op._stored.description.request.symmetric


@pytest.mark.parametrize("said", [None, False, True])
def test_what_was_said_of_the_symmetry_is_kept(said, monkeypatch):
    """An operator that goes elsewhere, and its parts, look for symmetry no more than it did."""
    asked = []

    def ask(csr, request, ordinal, may_reorder=False):
        asked.append(request.symmetric)
        return choosing.choose(csr, request, ordinal)

    op, known = sg.aslinearoperator(A, device="cpu", symmetric=said), declared(said, A.dtype)
    for module in (build, division):
        monkeypatch.setattr(module, "choose", ask)
    several = op.to(["cpu", "cpu"])
    of_parts = of_part(known)
    assert asked == [of_parts, of_parts]
    assert known_of(several.to(["cpu"]).to("cpu")) is known
    assert asked[2:] == [of_parts, known]
    assert known_of(pickle.loads(pickle.dumps(several))) is known
    for other in (op, several):
        assert known_of(other[:5]) is of_parts
        assert known_of(2 * other) is known


@pytest.mark.parametrize("mode", ["off", "cached"])
def test_on_the_cpu_csr_is_taken_without_predictions_or_trials(mode, monkeypatch, cache):
    monkeypatch.setattr(choosing, "load_model", no_model)
    choice, _, tuning = choose(A, "auto", -1, mode, {})
    assert (choice.format, tuning.products) == ("csr", 0)
    assert "on a CPU, csr needs no conversion" in choice.reason
    assert not cache.exists()


@pytest.mark.parametrize(
    ("beside", "format"), [([1, 1], "stencil"), ([1, 3], "dia"), ([np.nan, np.nan], "dia"), ([1, 0], "dia")]
)
def test_rows_are_like_the_next_one_in_values_and_places(beside, format):
    """Every row has an entry on the diagonal; what is beside it in even and in odd rows is given."""
    diagonals = [np.full(80_000, 2.0), np.tile(beside, 40_000)[:-1]]
    A = sp.csr_array(sp.diags_array(diagonals, offsets=[0, 1]))
    A.eliminate_zeros()
    assert sg.aslinearoperator(A, device="cpu").format == format


def valued(pattern):
    """The pattern with values that all differ."""
    A = sp.csr_array(pattern)
    values = np.random.default_rng(3).permutation(A.nnz) + 1.0
    return sp.csr_array((values, A.indices, A.indptr), shape=A.shape)


def blocks(side, nodes=3000):
    """A mesh with so many unknowns a node."""
    graph = gallery.banded_random(nodes, 5, 200, seed=1)
    return valued(sp.kron(graph, np.ones((side, side)), format="csr"))


def short_rows(longest, rows):
    """Rows of any length up to the longest."""
    rng = np.random.default_rng(4)
    counts = rng.integers(1, longest, rows, endpoint=True)
    at = np.repeat(np.arange(rows), counts)
    cols = np.clip(at + rng.integers(-500, 500, len(at)), 0, rows - 1)
    A = sp.csr_array((np.ones(len(at)), (at, cols)), shape=(rows, rows))
    A.sum_duplicates()
    return valued(A)


KINDS = {
    "constant coefficients": (lambda: gallery.poisson2d(150), "stencil"),
    "diagonals": (lambda: valued(gallery.poisson2d(150)), "dia"),
    "blocks of 2": (lambda: blocks(2), "csr"),
    "blocks of 3": (lambda: blocks(3), "bsell"),
    "blocks of 6": (lambda: blocks(6, 600), "bsell"),
    "blocks of 5": (lambda: blocks(5), "csr"),
    "short rows": (lambda: short_rows(12, 80_000), "sell"),
    "few short rows": (lambda: short_rows(12, 40_000), "csr"),
    "longer rows": (lambda: short_rows(60, 80_000), "csr"),
    "random": (lambda: gallery.uniform_random(20_000, 20_000, 16, seed=5), "csr"),
    "hubs": (lambda: gallery.powerlaw(30_000, 4, exponent=1.8, max_length=10_000, seed=6), "csr"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_on_the_cpu_a_sample_of_rows_finds_the_format(kind):
    make, format = KINDS[kind]
    A = make()
    ops = [sg.aslinearoperator(A, device="cpu", max_threads=threads) for threads in (1, 2, None)]
    assert [op.format for op in ops] == [format] * 3
    assert all(op.tuning.products == 0 for op in ops)
    x = vector(A.shape[1], A.dtype)
    for op in ops:
        assert_product(op @ x, A, x)


@pytest.mark.parametrize("kind", ["blocks of 3", "blocks of 6"])
def test_on_the_cpu_the_whole_matrix_decides_if_the_sample_misleads(kind):
    """One entry more, in one of the thousands of rows."""
    B = sp.lil_array(KINDS[kind][0]())
    row = B.shape[0] // 2 + 25
    B[row, next(col for col in range(B.shape[1]) if B[row, col] == 0)] = 5.0
    assert sg.aslinearoperator(sp.csr_array(B), device="cpu").format == "csr"


def test_on_the_cpu_diagonals_are_counted_before_they_are_stored():
    """The rows at the end have entries anywhere."""
    A = sp.lil_array(valued(gallery.poisson2d(150)))
    rng = np.random.default_rng(7)
    for row in range(A.shape[0] - 11, A.shape[0]):
        A[row, rng.integers(0, A.shape[1], 20)] = 1.5
    assert sg.aslinearoperator(sp.csr_array(A), device="cpu").format == "csr"


def test_numpy_numbers_are_options():
    op = sg.aslinearoperator(
        A, format="sell", device="cpu", sigma=np.int64(32), max_padding=np.float32(4), tune="full"
    )
    assert op.options["sigma"] == 32
    op = sg.aslinearoperator(A, format="partitioned", device="cpu", separator=np.int64(3), tune="off")
    assert op.format == "partitioned"


def test_symmetric_matrices_are_remembered_apart(predicted, measured, cache):
    predicted(CLOSE)
    measured({"csr": 5.0, "sell": 3.0, "dia": 4.0})
    for symmetric in (False, True, True):
        _, _, tuning = choose(A, "auto", 0, "cached", {}, symmetric)
    assert tuning.cached
    assert len(os.listdir(cache)) == 2


def test_an_unknown_mode_is_refused():
    with pytest.raises(ValueError, match=r"sometimes.*off.*cached.*full"):
        sg.aslinearoperator(A, device="cpu", tune="sometimes")


# format="partitioned"


def uneven(dtype="float64"):
    """A few long rows among many short ones."""
    lengths = np.full(30_000, 2)
    lengths[::100] = 400
    columns = np.concatenate([np.arange(k) * (20_000 // k) for k in lengths])
    indptr = np.concatenate(([0], np.cumsum(lengths)))
    return sp.csr_array((np.ones(len(columns), dtype), columns, indptr), shape=(30_000, 20_000))


def test_a_cut_that_leaves_long_rows_below_it_is_refused(device, dtype):
    with pytest.raises(sg.FormatError, match="ellpack"):
        sg.aslinearoperator(uneven(dtype), format="partitioned", device=device, separator=1)


@pytest.mark.parametrize("cut", [300, 29_999])
def test_a_matrix_cut_where_asked(cut, device, dtype):
    B = uneven(dtype)
    op = sg.aslinearoperator(B, format="partitioned", device=device, separator=cut)
    x = vector(B.shape[1], dtype)
    assert_product(op @ x, B, x)
    assert op.format == "partitioned"
    assert (op.tocsr() != B).nnz == 0
    assert "was given" in explained(op)


def test_the_model_cuts(monkeypatch, device):
    B = uneven()
    found = sg.partition.separator(B, device)
    op = sg.aslinearoperator(B, format="partitioned", device=device)
    assert op.format == found.format
    cut = Separator("partitioned", 300, 5.0, *(np.zeros(1),) * 3, {"csr": 9.0, "coo": 8.0})
    monkeypatch.setattr(guo2011_planning, "separator_csr", lambda *_: cut)
    op = sg.aslinearoperator(B, format="partitioned", device=device)
    assert "300 of 30000 rows" in explained(op)
    assert "coo alone 8.0 us" in explained(op)
    x = vector(B.shape[1], B.dtype)
    assert_product(op @ x, B, x)


def test_what_is_not_worth_cutting_stays_whole(device):
    op = sg.aslinearoperator(A, format="partitioned", device=device)
    assert op.format in ("csr", "ellpack", "coo", "hyb")
    assert "not predicted to be faster" in explained(op)


@pytest.mark.parametrize("cut", [-1, 1600, 2.5, "half"])
def test_a_bad_separator_is_refused(cut):
    with pytest.raises(ValueError, match=rf"separator={cut!r}.*1599"):
        sg.aslinearoperator(A, format="partitioned", device="cpu", separator=cut)


def test_partitioned_has_one_option_and_no_order():
    with pytest.raises(TypeError, match=r"no option 'kernel'.*separator"):
        sg.aslinearoperator(A, format="partitioned", device="cpu", kernel="shared")
    with pytest.raises(ValueError, match=r"rcm.*partitioned"):
        sg.aslinearoperator(A, format="partitioned", device="cpu", reorder="rcm")
