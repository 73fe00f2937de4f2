"""Formats that are found by timing: what is tried, which one is kept, and what is remembered of it.

Products take the times that a test says.
"""

import json
import math
import multiprocessing
import os
import re
import warnings
from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import matrix, vector
from internals import CPU, formats_to_consider, let_searches_take, own_profile, refuse_to_build, take_times
from reference import assert_product
from spmvgpu import gallery
from support import explained, write_profile

A = gallery.poisson2d(40)
BAND = gallery.banded_random(50_000, 12, 200)  # of which csr and sell are predicted to be close


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SPMVGPU_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tuning"


@pytest.fixture
def take(monkeypatch):
    """Say how many microseconds products in some formats take, where others take 20, or raise an error."""

    def take(**times):
        def time_of(format, options, order, before_us):
            found = times.get(format, 20.0)
            if isinstance(found, Exception):
                raise found
            return found(options) if callable(found) else found

        take_times(monkeypatch, time_of)

    return take


def full(**options):
    return sg.aslinearoperator(A, **{"device": "cpu", "tune": "full", "reorder": False} | options)


# Trials


def test_the_fastest_is_kept(take):
    take(csr=5.0, sell=3.0, dia=4.0)
    op = full()
    assert op.format == "sell"
    assert {"csr", "sell", "dia"} <= {trial.format for trial in op.tuning.trials}
    assert op.tuning.products >= 13 * len(op.tuning.trials)
    assert f"it was the fastest of {len(op.tuning.trials)} timed variants, at 3.0 us" in explained(op)
    x = vector(A.shape[1], A.dtype)
    assert_product(op @ x, A, x)


@pytest.mark.parametrize(("sell", "format"), [(4.9, "csr"), (4.0, "sell")])
def test_a_trial_must_be_clear_to_contradict_the_prediction(gpu, take, sell, format):
    take(csr=5.0, sell=sell)
    op = sg.aslinearoperator(BAND, device=gpu, budget=math.inf)
    assert (op.format, len(op.tuning.trials)) == (format, 3)
    noise = re.search(
        r"a product took 5.0 us; sell.* took 4.9 us, a difference within the noise", explained(op)
    )
    assert bool(noise) == (format == "csr")


@pytest.mark.parametrize(
    ("budget", "fastest", "count"),
    [(math.inf, 1.0, 3), (1e9, 1e-6, 1), (1e9, 1.0, 3), (0, 1.0, 0), (50, 1.0, 0)],
)
def test_a_budget_that_is_used_up_ends_the_trials(gpu, take, budget, fastest, count):
    take(csr=fastest, sell=fastest)
    op = sg.aslinearoperator(BAND, device=gpu, budget=budget)
    assert len(op.tuning.trials) == count
    assert op.tuning.out_of_time == (count == 1)
    assert ("there was no time to time other formats" in explained(op)) == (count == 1)


@pytest.mark.parametrize("on_gpu", [False, True])
def test_trials_of_what_does_not_fit(on_gpu, take, request):
    device = request.getfixturevalue("gpu") if on_gpu else "cpu"
    how = {"budget": math.inf} if on_gpu else {"tune": "full", "reorder": False}
    take(csr=MemoryError("too large"), dia=sg.FormatError("no"), sell=3.0)
    op = sg.aslinearoperator(BAND, device=device, **how)
    assert op.format == "sell"
    assert not {"csr", "dia"} & {trial.format for trial in op.tuning.trials}
    take(**dict.fromkeys(sg.formats(), MemoryError("too large")))
    with sg.cache.ignored(), pytest.raises(MemoryError, match="too large"):
        sg.aslinearoperator(BAND, device=device, **how)


def test_what_does_not_fit_is_passed_over(gpu, monkeypatch):
    too_large = MemoryError("too large")
    assert sg.aslinearoperator(BAND, device=gpu, tune="off").format == "csr"
    with monkeypatch.context() as patch:
        refuse_to_build(patch, csr=too_large)
        op = sg.aslinearoperator(BAND, device=gpu, tune="off")
        assert (op.format, "csr did not fit" in explained(op)) == ("sell", True)
        refuse_to_build(patch, **dict.fromkeys(sg.formats(), too_large))
        with pytest.raises(MemoryError, match="too large"):
            sg.aslinearoperator(BAND, device=gpu, tune="off")


def test_full_tries_the_tunables_of_those_that_come_close(gpu, take):
    take(**dict.fromkeys(sg.formats(), 70.0) | {"sell": 3.0, "csr": 5.0})
    trials = sg.aslinearoperator(BAND, device=gpu, tune="full", reorder=False).tuning.trials
    counts = Counter(trial.format for trial in trials)
    assert min(counts["sell"], counts["csr"]) > 1
    assert len({trial.name for trial in trials}) == len(trials)
    assert counts["bsell"] == 1


def test_full_ends_after_some_set_ups_or_seconds(take, monkeypatch):
    take()
    alone = {"reorder": None, "budget": math.inf}
    every = full(**alone).tuning
    assert not every.out_of_time

    def counted(seconds, **options):
        let_searches_take(monkeypatch, seconds)
        with sg.cache.ignored():
            tuning = full(**alone | options).tuning
        assert tuning.out_of_time == (len(tuning.trials) < len(every.trials))
        return len(tuning.trials)

    # 2 s, and 4 s: products take 20 us.
    assert counted(0.5, budget=50) < counted(0.5, budget=2e5) < len(every.trials)
    assert counted(0.5) == counted(0.001, budget=50) == len(every.trials)


def test_what_full_found_in_less_time_is_not_used_for_more(take, monkeypatch):
    take()
    let_searches_take(monkeypatch, 0.5)
    assert full().tuning.out_of_time
    assert full().tuning.cached
    assert not full(budget=math.inf).tuning.cached
    assert full(budget=math.inf).tuning.cached
    assert full().tuning.cached


def test_full_tuning_of_a_format_keeps_given_options(gpu, take):
    take(sell=lambda options: 3.0 + (options["warps_per_slice"] != 4))
    op = full(format="sell", device=gpu, sigma=1)
    assert {trial.options["sigma"] for trial in op.tuning.trials} == {1}
    warps = [trial.options.get("warps_per_slice") for trial in op.tuning.trials]
    assert len(set(warps)) == len(warps) > 1
    assert op.options["warps_per_slice"] == 4


def test_full_ends_where_bytes_alone_take_longer_than_the_best(take):
    """In a device without a cache, whose memory is slow."""
    write_profile(own_profile(), cache_bytes=1, memory_bandwidth=1e9)
    take(**dict.fromkeys(sg.formats(), 0.1))
    first, *others = full().tuning.trials
    assert first.format != "csr"
    assert [trial.format for trial in others] == ["csr"]  # which decides whether orders help


def test_what_is_close_is_timed_again_in_turns(monkeypatch):
    short, long = {"csr": 10.0, "coo": 9.9}, {"csr": 12.0, "coo": 12.4}

    def time_of(format, options, order, before_us):
        return (short if before_us is None else long).get(format, 16.0)

    take_times(monkeypatch, time_of)
    op = full()
    times = {trial.format: trial.time_us for trial in op.tuning.trials}
    assert op.format == "csr"
    assert times.items() >= long.items()


# Orders of rows and columns


def shuffled():
    order = np.random.default_rng(1).permutation(A.shape[0])
    return sp.csr_array(A[order][:, order])


@pytest.mark.parametrize("best", ["clusters", "rcm"])
def test_full_finds_an_order(best, monkeypatch):
    B = shuffled()
    rcm = sg.aslinearoperator(B, "csr", "cpu", reorder="rcm").arrays()["0.rows"]

    def time_of(format, options, order, before_us):
        if order is None:
            return 10.0 if format == "csr" else 20.0
        is_best = np.array_equal(order, rcm) == (best == "rcm")
        return (5.0 if is_best else 9.0) * (1 if format == "sell" else 1.1)

    take_times(monkeypatch, time_of)
    found = sg.aslinearoperator(B, device="cpu", tune="full")
    # The order is kept with the format.
    op = sg.aslinearoperator(B, device="cpu", tune="full")
    assert (found.tuning.cached, op.tuning.cached, found.format, op.format) == (False, True, "sell", "sell")
    for made in (found, op):
        np.testing.assert_array_equal(np.array_equal(made.arrays()["0.rows"], rcm), best == "rcm")
        assert "reordered" in explained(made)
    x = vector(B.shape[1], B.dtype)
    assert_product(op @ x, B, x)
    # What takes thousands of products to find is not found anew by default.
    assert sg.aslinearoperator(B, device="cpu").tuning.cached == (best == "clusters")
    # What is to stay as given has trials of its own.
    assert not sg.aslinearoperator(B, device="cpu", tune="full", reorder=False).tuning.cached


def test_full_finds_an_order_of_columns_of_which_some_are_frequent(monkeypatch):
    share = np.random.default_rng(1).permutation(np.repeat([0.9, 0.02], [4, 36]))
    B = sp.csr_array((np.random.default_rng(2).random((300, 40)) < share).astype(float))
    take_times(monkeypatch, lambda format, options, order, before_us: 10.0 if order is None else 9.0)
    found = sg.aslinearoperator(B, device="cpu", tune="full")
    again = sg.aslinearoperator(B, device="cpu", tune="full")
    assert (found.tuning.cached, again.tuning.cached) == (False, True)
    for op in (found, again):
        np.testing.assert_array_equal(op.arrays()["0.rows"], np.arange(300))
        assert (np.diff(op.arrays()["0.cols"]) != 1).any()
        assert "columns are reordered" in explained(op)
        assert_product(op @ np.ones(40), B, np.ones(40))


def test_an_order_that_does_not_help_csr_is_left(monkeypatch):
    take_times(monkeypatch, lambda format, options, order, before_us: 10.0 if order is None else 12.0)
    op = sg.aslinearoperator(shuffled(), device="cpu", tune="full")
    ordered = [trial.name for trial in op.tuning.trials if trial.reorder]
    assert ordered == ["csr reorder=clusters", "csr reorder=rcm"]
    assert "reordered" not in explained(op)


def test_on_the_cpu_full_tries_every_format_once():
    op = full()
    allowed = {entry.format for entry in sg.predict(A, "cpu") if entry.bytes}
    names = [trial.format for trial in op.tuning.trials]
    assert set(names) <= allowed & set(formats_to_consider(CPU, "full", None))
    # Tunables of kernels on a GPU have no effect; tiles of tsmv are stored in other sizes.
    assert len(set(names) - {"tsmv"}) == len([name for name in names if name != "tsmv"])
    text = explained(op)
    assert f"tuning took {op.tuning.products} products" in text
    assert all(f"{trial.format} " in text and f"{trial.time_us:.2f} us" in text for trial in op.tuning.trials)


# Results are kept


def test_results_are_kept_by_what_they_depend_on(gpu, take):
    take(csr=5.0, sell=3.0)
    kept = [
        {},
        {"A": gallery.banded_random(50_001, 12, 200)},
        {"dtype": np.float32},
        {"device": "cpu", "tune": "full", "reorder": False},
        {"budget": 1e9},
        {"tune": "full", "format": "sell"},
        {"symmetric": False},
        {"reorder": None},
    ]
    for number, given in enumerate(kept):
        given = {"A": BAND, "device": gpu, "budget": math.inf, "reorder": False} | given
        first, again = sg.aslinearoperator(**given), sg.aslinearoperator(**given)
        assert (first.tuning.cached, again.tuning.cached) == (False, True), given
        assert sg.cache.info().tuning_entries == number + 1
        assert (again.format, again.tuning.products) == (first.format, 0)
        assert "like this one" in explained(again)
    assert not sg.aslinearoperator(BAND, device=gpu, tune="off").tuning.cached


def test_what_full_found_is_used_later(gpu, take):
    how = {"device": gpu, "budget": math.inf, "reorder": False}
    take(csr=3.0, sell=5.0)
    assert sg.aslinearoperator(BAND, **how).format == "csr"
    take(csr=5.0, sell=3.0)
    assert sg.aslinearoperator(BAND, **how).format == "csr"
    assert sg.aslinearoperator(BAND, **how, tune="full").format == "sell"
    assert sg.aslinearoperator(BAND, **how).format == "sell"


def test_ignoring_the_cache_neither_reads_nor_writes(cache):
    with sg.cache.ignored():
        sg.aslinearoperator(A, device="cpu", tune="full")
        assert not cache.exists()
    sg.aslinearoperator(A, device="cpu", tune="full")
    with sg.cache.ignored():
        assert not sg.aslinearoperator(A, device="cpu", tune="full").tuning.cached
    assert sg.aslinearoperator(A, device="cpu", tune="full").tuning.cached


def test_predictions_are_not_written(cache):
    op = sg.aslinearoperator(A, device="cpu")
    assert (op.format, op.tuning.cached, op.tuning.trials, op.tuning.products) == ("csr", False, [], 0)
    assert not cache.exists()


@pytest.mark.parametrize("mode", ["cached", "off"])
def test_a_format_that_was_asked_for_does_not_depend_on_earlier_tuning(mode, gpu, take):
    take(sell=lambda options: 3.0 + (options["warps_per_slice"] != 16))
    assert sg.aslinearoperator(A, "sell", gpu, tune="full").options["warps_per_slice"] == 16
    assert sg.aslinearoperator(A, "sell", gpu, tune="full").tuning.cached
    own = sg.aslinearoperator(A, "sell", gpu, tune=mode)
    assert own.options["warps_per_slice"] != 16
    assert not own.tuning.cached


def test_a_remembered_format_that_no_longer_fits_is_found_anew(cache):
    B = gallery.powerlaw(300, 3, max_length=200)
    how = {"format": "dia", "device": "cpu", "tune": "full", "max_padding": 1e6}
    assert not sg.aslinearoperator(B, **how).tuning.cached
    (path,) = cache.iterdir()
    kept = json.loads(path.read_text())
    sg.aslinearoperator(B, device="cpu", tune="full")
    (other,) = set(cache.iterdir()) - {path}
    other.write_text(json.dumps(kept | {"options": {}}))
    op = sg.aslinearoperator(B, device="cpu", tune="full")
    assert not op.tuning.cached


def test_the_cache_is_bounded(cache, monkeypatch):
    """It is also where another process stores results."""
    monkeypatch.setattr(sg.cache, "MAX_TUNING_ENTRIES", 20)

    def tune(n):
        return sg.aslinearoperator(gallery.poisson1d(n), "coo", "cpu", tune="full")

    for n in range(2, 42):
        tune(n)
        assert len(os.listdir(cache)) <= 20
        for path in cache.iterdir():  # each is older than the next
            os.utime(path, ns=(path.stat().st_mtime_ns - 10**9,) * 2)
    assert tune(41).tuning.cached
    assert not tune(2).tuning.cached
    for i in range(30):
        (cache / f"of another {i}.json").touch()
    tune(50)
    assert len(os.listdir(cache)) <= 20


@pytest.mark.parametrize("shape", [(5, 5), (5, 7), (0, 0)])
def test_full_tuning_of_what_has_no_order(shape, device):
    B = sp.csr_array(shape)
    op = sg.aslinearoperator(B, device=device, tune="full")
    assert not any(trial.reorder for trial in op.tuning.trials)
    assert (op @ np.ones(shape[1])).shape == shape[:1]


def _tune_often(clears):
    warnings.simplefilter("error")  # as of a result that is damaged
    for _ in range(30):
        op = sg.aslinearoperator(A, "coo", "cpu", tune="full")
        assert op.format == "coo"
        if clears:
            sg.cache.clear()


def test_processes_do_not_disturb_each_other(cache):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_tune_often, args=(clears,)) for clears in (False, True)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert {path.suffix for path in cache.iterdir()} <= {".json"}


@pytest.mark.parametrize("mode", ["off", "cached", "full"])
@pytest.mark.parametrize("case", ["power_law_rows", "uniform", "0x0", "0x5", "5x0", "no_entries"])
def test_products_are_right_in_every_mode(mode, case, device, dtype):
    B = matrix(case, dtype)
    op = sg.aslinearoperator(B, device=device, tune=mode)
    x = vector(B.shape[1], dtype)
    assert_product(op @ x, B, x)
    assert op.tuning.mode == mode
    assert (op.tuning.products > 0) == bool(op.tuning.trials)


# Budgets


def test_budgets_that_are(device):
    for budget in (0, 50, 2.5, np.float32(3), math.inf):
        op = sg.aslinearoperator(A, device=device, budget=budget)
        assert sg.aslinearoperator(op, budget=50) is op
    assert sg.aslinearoperator(A, device=["cpu", "cpu"], budget=0).nnz == A.nnz


def test_trials_of_a_large_matrix_are_few(device):
    B = gallery.poisson2d(470)
    assert B.nnz > 1_000_000
    assert sg.aslinearoperator(B, device=device, budget=math.inf).tuning.products <= 40
