"""How the format of an operator is found: predicted, tried, remembered. Most of it is tested on tables."""

import math
import multiprocessing
import os
import pickle
import re
import weakref
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import CASES, matrix, vector
from reference import assert_product
from spmvgpu import _core, gallery
from spmvgpu.devices import CPU
from spmvgpu.formats import Choice, candidates, traits
from spmvgpu.inputs.canonical import canonical_csr
from spmvgpu.inputs.csr import CanonicalCsr
from spmvgpu.multi_device import division
from spmvgpu.papers import guo2011_planning
from spmvgpu.papers.guo2011 import Separator
from spmvgpu.planning import choosing, predict, profile, tuning_cache
from spmvgpu.planning.profile import SHIPPED, Profile
from spmvgpu.planning.reordering import in_order
from spmvgpu.planning.request import MODES, Request
from spmvgpu.planning.symmetry import declared, of_part
from spmvgpu.planning.trials import Ordered, Trials
from spmvgpu.planning.tuning import Trial, Tuning, reason_for
from support import explained

A = gallery.poisson2d(40)
H100 = Profile.read(SHIPPED / "nvidia-h100-80gb-hbm3.json")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SPMVGPU_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tuning"


# Predictions are ranked


def table_of(times, error=0.1):
    """Predictions, of which those without a time are refusals."""
    return [
        (name, {}, times.get(name), 1 if name in times else None, 1.0, error, "") for name in sg.formats()
    ]


CLOSE = table_of({"csr": 10.0, "sell": 10.5, "coo": 30.0, "bsell": 10.6, "dia": 10.1})
BY_RISK = "csr dia sell bsell coo"
UNKNOWN = ("stencil", {}, None, 1, 1.0, None, "not known")
UNSURE = [
    (name, {}, us, 1, 1.0, error, "")
    for name, us, error in (("sell", 10.0, 0.8), ("csr", 13.0, 0.05), ("coo", 30.0, 0.05))
]
# What each of the close ones is expected to take: a plan or a conversion, and 51 products.
TRIALS = {"csr": 400 + 51 * 10.0, "dia": 600 + 51 * 10.1, "sell": 600 + 51 * 10.5}
ALL_TRIALS = sum(TRIALS.values())


FEW = (TRIALS["csr"] + TRIALS["dia"]) / 10  # products that take as long as two trials
NEAR, FAR = (table_of({"csr": 10.0, "sell": us, "coo": 30.0}) for us in (9.5, 9.0))
# A table, the mode and the budget in products, the formats in their order, and the reason for the first.
RANKED = [
    (CLOSE, "off", math.inf, BY_RISK, "predicted"),
    (CLOSE, "cached", 0, BY_RISK, ""),
    (CLOSE, "cached", FEW - 1, BY_RISK, "timing them would take longer than 201.5"),  # one decides nothing
    (table_of({"csr": 10.0, "sell": 20.0}), "cached", math.inf, "csr sell", ""),
    ([*CLOSE, UNKNOWN], "off", math.inf, BY_RISK, ""),
    (UNSURE, "off", math.inf, "csr sell coo", ""),
    (NEAR, "off", math.inf, "csr sell coo", "needs no conversion"),
    (NEAR, "cached", 0, "csr sell coo", "needs no conversion"),
    (FAR, "off", math.inf, "sell csr coo", r"9.0 us \+- 10%"),
]
TIMED = [
    (CLOSE, "cached", math.inf, "csr dia sell", ""),  # bsell is close, too, but three are enough
    (CLOSE, "cached", FEW + 1, "csr dia", ""),
    (CLOSE, "cached", ALL_TRIALS / 10 - 1, "csr dia", ""),
    (CLOSE, "cached", ALL_TRIALS / 10 + 1, "csr dia sell", ""),
    (CLOSE, "full", math.inf, BY_RISK, ""),
    ([*CLOSE, UNKNOWN], "full", math.inf, f"{BY_RISK} stencil", ""),
    (UNSURE, "cached", math.inf, "sell csr", ""),
]


@pytest.mark.parametrize(
    ("is_timed", "row"), [*((False, row) for row in RANKED), *((True, row) for row in TIMED)]
)
def test_tables_are_ranked(is_timed, row):
    table, mode, products, expected, reason = row
    found = _core.rank_predictions(table, 10**6, 0, mode, products, 0.0, False)
    assert (found[0], [format for format, *_ in found[1]]) == (is_timed, expected.split())
    assert re.search(reason, found[1][0][2])


def test_time_that_is_spent_counts():
    assert not _core.rank_predictions(CLOSE, 10**6, 0, "cached", 1e4, 1e5 - 1600, False)[0]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (table_of({"coo": 1.0}), "coo csr"),
        (table_of({"csr": 1.0}), "csr"),
        ([("sell", {}, None, 1, 1.0, None, "")], "csr"),
    ],
)
def test_csr_is_the_last_resort(table, expected):
    _, found = _core.rank_predictions(table, 10**6, 0, "off", math.inf, 0.0, True)
    assert [format for format, *_ in found] == expected.split()
    assert ("has no times" in found[0][2]) == (len(table) == 1)


def ranking(table, mode, products=math.inf):
    return [format for format, *_ in _core.rank_predictions(table, 10**6, 0, mode, products, 0.0, False)[1]]


def no_model():
    raise AssertionError("a model was loaded")


@pytest.mark.parametrize("mode", ["off", "cached"])
@pytest.mark.parametrize(
    ("ordinal", "reason"), [(0, "so small a matrix"), (CPU, "on a CPU, csr needs no conversion")]
)
def test_csr_without_predictions(mode, ordinal, reason):
    is_timed, found, steps = CanonicalCsr.of(A).source.rank(
        ordinal, "auto", {}, mode, None, 50.0, 0.0, no_model
    )
    ((format, options, said, _),) = found
    assert (is_timed, format, options, steps) == (False, "csr", {}, [])
    assert reason in said


def mesh_of_nodes(side):
    """Blocks on a grid, no two values the same."""
    A = gallery.elasticity3d(side)
    A.data = np.random.default_rng(0).random(A.nnz)
    return A


def test_other_options_are_predicted_of_what_is_stored():
    """A plan that sorts rows says nothing of rows in order."""
    csr = canonical_csr(matrix("two_populations", np.dtype("float64")))
    taken = csr.plan("sell", 0, {}, 132).options["sigma"]
    assert taken > 1
    found, _ = csr.source.predict_considered(0, H100.model(csr.dtype, True), "cached", None, math.inf)
    sigmas = {options["sigma"] for format, options, *_ in found if format == "sell" and "sigma" in options}
    assert sigmas <= {0, taken}


@pytest.mark.parametrize(
    "case", [*CASES, "poisson2d", "powerlaw", "uniform_random", "elasticity3d", "mesh", "pairs"]
)
def test_what_is_not_planned_would_not_have_been_chosen(case):
    made = {
        "pairs": lambda: sp.kron(
            sp.diags_array([1.0, 9.0, 1.0], offsets=[-1, 0, 1], shape=(9000, 9000)), np.ones((2, 2))
        ),
        "poisson2d": lambda: gallery.poisson2d(300),
        "powerlaw": lambda: gallery.powerlaw(20_000, 12),
        "uniform_random": lambda: gallery.uniform_random(20_000, 20_000, 30),
        "elasticity3d": lambda: gallery.elasticity3d(8),
        "mesh": lambda: mesh_of_nodes(14),
    }
    csr = canonical_csr(made[case]() if case in made else matrix(case, np.dtype("float64")))
    model = H100.model(csr.dtype, True)
    every, _ = csr.source.predict_considered(0, model, "off", None)
    for mode, products in (("off", 0.0), ("cached", 0.0), ("cached", math.inf)):
        some, _ = csr.source.predict_considered(0, model, mode, None, products)
        with_own_options = [prediction for prediction in some if not prediction[1]]
        assert all(prediction in every for prediction in with_own_options)
        assert ranking(some, mode, products)[0] == ranking(every, mode, products)[0]
        if case in made:
            assert len(with_own_options) < len(every)


# What is ranked is built


def building(refused):
    def build(choice):
        if choice.format in refused:
            raise refused[choice.format]
        return choice.format

    return build


def test_what_does_not_fit_is_passed_over():
    choices = [Choice(name, {}, "predicted") for name in ("csr", "dia", "sell")]
    refused = {"csr": MemoryError("too large"), "dia": sg.FormatError("no")}
    choice, made = choosing.first_that_fits(choices, building(refused))
    assert (choice.format, choice.reason, made) == ("sell", "predicted; csr, dia did not fit", "sell")
    assert choosing.first_that_fits(choices, building({}))[0] is choices[0]
    with pytest.raises(MemoryError, match="too large"):
        choosing.first_that_fits(choices[:2], building(refused))


@pytest.mark.parametrize(
    ("fastest", "spent", "tried"),
    [
        (10, 0, "csr dia sell"),
        (10, 0.9, "csr dia sell"),
        (10, 1.5, "csr dia"),
        (10, 3, "csr"),
        (0.1, 0, "csr"),
    ],
)
def test_a_budget_that_is_used_up_ends_the_trials(fastest, spent, tried):
    tuning, found = Tuning("cached"), []
    choices = [(Choice(name), us) for name, us in TRIALS.items()]

    def spent_us():
        return spent * sum(TRIALS[name] for name in found)

    for choice in choosing.while_time_lasts(choices, tuning, ALL_TRIALS / 10 + 1, spent_us):
        found.append(choice.format)
        tuning.trials.append(Trial(choice.format, {}, fastest))
    assert found == tried.split()
    assert tuning.out_of_time == (len(found) < 3)
    if len(found) == 1:
        assert reason_for(tuning, fastest).startswith("there was no time to time other formats")


@dataclass(eq=False)
class Stored:
    """A matrix whose products take a given time."""

    time_us: float

    def try_products(self, product_us=None):
        return self.time_us, 13


@dataclass
class Tried:
    """Trials of a matrix with given plans and times, by format, and what was built in them."""

    times: dict
    mode: str = "cached"
    format: str = "auto"
    nbytes: dict = field(default_factory=dict)
    is_wide: bool = False  # as a CanonicalCsr

    def __post_init__(self):
        self.tuning, self.built, self.alive, self.most = Tuning(self.mode), [], weakref.WeakSet(), 0
        self.trials = Trials(Request(self.format, tune=self.mode), CPU, self.tuning, self.build)

    def plan(self, format, ordinal, options):
        """Every option is stored otherwise."""
        nbytes = self.nbytes.get(format, 0) + sum(map(hash, options.values())) % 97
        return SimpleNamespace(options=options, bytes=nbytes, padding=1.0)

    def build(self, csr, choice):
        time = self.times[choice.format]
        if isinstance(time, Exception):
            raise time
        self.built.append(choice)
        made = Stored(time(choice.options) if callable(time) else time)
        self.alive.add(made)
        self.most = max(self.most, len(self.alive))
        return made

    def add(self, names):
        for name in names.split():
            self.trials.add(Ordered(self), Choice(name))
        return self.trials.best

    def add_all(self, names, **options):
        self.trials.add_all(self, lambda csr: [Choice(name, options) for name in names.split()], False)
        return self.trials.best


def test_the_fastest_is_kept():
    tried = Tried({"csr": 5.0, "sell": 3.0, "dia": 4.0})
    best = tried.add("csr dia sell")
    assert (best.choice.format, best.matrix.time_us) == ("sell", 3.0)
    assert [trial.format for trial in tried.tuning.trials] == ["csr", "dia", "sell"]
    assert tried.tuning.products == 3 * 13
    assert tried.most == 2  # the best so far, and the one in trial
    assert reason_for(tried.tuning, 3.0) == "it was the fastest of 3 timed variants, at 3.0 us per product"


def test_a_trial_must_be_clear_to_contradict_the_prediction():
    tried = Tried({"csr": 5.0, "sell": 6.0, "dia": 4.9})
    assert tried.add("csr dia sell").choice.format == "csr"
    said = "a product took 5.0 us; dia took 4.9 us, a difference within the noise"
    assert said in reason_for(tried.tuning, 5.0)


@pytest.mark.parametrize("mode", ["cached", "full"])
def test_trials_of_what_does_not_fit(mode):
    refused = {"csr": MemoryError("too large"), "dia": sg.FormatError("no")}
    tried = Tried({**refused, "sell": 3.0}, mode)
    assert tried.add("csr dia sell").choice.format == "sell"
    assert len(tried.tuning.trials) == 1
    with pytest.raises(MemoryError, match="too large"):
        Tried(refused, mode).add("csr dia")


def test_full_tries_the_tunables_of_those_that_come_close():
    tried = Tried({"csr": 7.0, "sell": 3.0, "coo": 5.0}, "full")
    assert tried.add_all("csr sell coo").choice.format == "sell"
    assert [choice.format for choice in tried.built[:3]] == ["csr", "sell", "coo"]
    assert {choice.format for choice in tried.built[3:]} == {"sell", "coo"}
    stored = [(choice.format, *sorted(choice.options.items())) for choice in tried.built]
    assert len(set(stored)) == len(stored)


def test_full_ends_where_bytes_alone_take_longer_than_the_best():
    tried = Tried({"dia": 2.0, "sell": 9.0, "csr": 11.0}, "full", nbytes={"sell": 10**12, "csr": 10**12})
    tried.add_all("dia sell csr")
    assert {choice.format for choice in tried.built} == {"dia", "csr"}  # csr decides whether orders help


def test_what_is_close_is_timed_again_in_turns():
    short, long = {"csr": 10.0, "coo": 9.9, "sell": 16.0}, {"csr": 12.0, "coo": 12.4}

    class Turns(Stored):
        def try_products(self, product_us=None):
            return (short if product_us is None else long)[self.time_us], 1

    tried = Tried({}, "full")
    tried.trials._build = lambda csr, choice: Turns(choice.format)
    assert tried.add("csr coo sell").choice.format == "csr"
    assert {trial.format: trial.time_us for trial in tried.tuning.trials} == {**long, "sell": 16.0}


def test_full_tuning_of_a_format_keeps_given_options():
    tried = Tried({"sell": 3.0}, "full", "sell")
    tried.add_all("sell", sigma=1)
    assert len(tried.built) == 1 + len({options["warps_per_slice"] for options in candidates("sell")})
    assert all(choice.options["sigma"] == 1 for choice in tried.built)


# Orders of rows and columns


class Timed(Trials):
    """Trials of stored matrices whose times follow from a function of them."""

    def __init__(self, B, time_of):
        self.csr, self.time_of = canonical_csr(B), time_of
        request = Request(tune="full")
        super().__init__(request, CPU, Tuning("full"), lambda csr, choice: choosing.build(csr, choice, CPU))

        def ranked(csr):
            return [choice for choice, _ in choosing.ranked(csr, request, CPU, float)[1]]

        self.add_all(self.csr, ranked, may_reorder=True)
        tuning_cache.Results(self.csr, CPU, request, True).keep(
            self.best.choice, self.best.time_us, self.best.where.reorder
        )

    def _series(self, matrix, product_us=None):
        return self.time_of(matrix)


def shuffled():
    order = np.random.default_rng(1).permutation(A.shape[0])
    return sp.csr_array(A[order][:, order])


@pytest.mark.parametrize("best", ["clusters", "rcm"])
def test_full_finds_an_order(best):
    B = shuffled()
    rcm = in_order(CanonicalCsr.of(B), "rcm", CPU)[0]

    def time_of(matrix):
        if not isinstance(matrix, _core.PartedMatrix):
            return 10.0 if matrix.format == "csr" else 20.0
        ((part, rows, _),) = matrix.parts
        is_best = np.array_equal(rows, rcm) == (best == "rcm")
        return (5.0 if is_best else 9.0) * (1 if part.format == "sell" else 1.1)

    found = Timed(B, time_of).best
    assert (found.choice.format, found.where.reorder) == ("sell", best)
    # The order is kept with the format.
    op = sg.aslinearoperator(B, device="cpu", tune="full")
    assert (op.tuning.cached, op.format) == (True, "sell")
    assert "reordered" in explained(op)
    x = vector(B.shape[1], B.dtype)
    assert_product(op @ x, B, x)
    # What takes thousands of products to find is not found anew by default.
    assert sg.aslinearoperator(B, device="cpu").tuning.cached == (best == "clusters")
    # What is to stay as given has trials of its own.
    assert not sg.aslinearoperator(B, device="cpu", tune="full", reorder=False).tuning.cached


def test_an_order_that_does_not_help_csr_is_left():
    trials = Timed(shuffled(), lambda matrix: 12.0 if isinstance(matrix, _core.PartedMatrix) else 10.0)
    assert [trial.name for trial in trials._tuning.trials if trial.reorder] == [
        "csr reorder=clusters",
        "csr reorder=rcm",
    ]
    assert not trials.best.where.reorder


def test_on_the_cpu_full_tries_every_format_once():
    op = sg.aslinearoperator(A, device="cpu", tune="full", reorder=False)
    considered = {name for name in sg.formats() if not traits(name).only_if_asked}
    allowed = {entry.format for entry in sg.predict(A, "cpu") if entry.bytes} & considered
    tried = [trial.format for trial in op.tuning.trials]
    assert set(tried) <= allowed
    # Tunables of kernels on a GPU have no effect; tiles of tsmv are stored in other sizes.
    assert len(set(tried) - {"tsmv"}) == len([name for name in tried if name != "tsmv"])
    text = explained(op)
    assert f"tuning took {op.tuning.products} products" in text
    assert all(f"{trial.format} " in text and f"{trial.time_us:.2f} us" in text for trial in op.tuning.trials)


# Results are kept


def results(A, format="auto", mode="cached", ordinal=0, may_reorder=False, **more):
    request = Request(format, {}, mode, **more)
    return tuning_cache.Results(CanonicalCsr.of(sp.csr_array(A)), ordinal, request, may_reorder)


def known(*arguments, **options):
    """The formats that are known of, the best first."""
    return [choice.format for choice, _ in results(*arguments, **options).known()]


@pytest.fixture
def gpu(monkeypatch):
    """What results are kept for on a GPU that need not be there: its name and its profile."""
    known = SimpleNamespace(measured={})
    monkeypatch.setattr(tuning_cache, "slug", lambda ordinal: f"device {ordinal}")
    monkeypatch.setattr(tuning_cache, "load_profile", lambda ordinal: known)
    return known


def test_results_are_kept_by_what_they_depend_on(gpu, cache):
    kept = [
        {},
        {"A": gallery.poisson2d(41)},
        {"A": A.astype(np.float32)},
        {"ordinal": 1},
        {"ordinal": CPU},
        {"budget": 500.0},
        {"mode": "full", "format": "sell"},
        {"symmetric": declared(True, A.dtype)},
        {"symmetric": declared(False, A.dtype)},
        {"may_reorder": True},
    ]
    for number, given in enumerate(kept):
        assert known(**{"A": A, **given}) == []
        results(**{"A": A, **given}).keep(Choice("sell"), 3.0, False)
        assert len(os.listdir(cache)) == number + 1
        ((choice, reorder),) = results(**{"A": A, **given}).known()
        assert (choice.format, choice.options, reorder) == ("sell", {}, None)
        assert "like this one" in choice.reason
    assert known(A, mode="off") == []
    gpu.measured["date"] = "today"
    assert known(A) == []


def test_what_full_found_is_used_later(gpu):
    results(A).keep(Choice("csr"), 5.0, False)
    results(A, mode="full").keep(Choice("sell"), 3.0, False)
    assert known(A, mode="full") == ["sell"]
    assert known(A) == ["sell", "csr"]
    results(A, mode="full", may_reorder=True).keep(Choice("dia"), 3.0, "rcm")
    assert known(A, may_reorder=True) == []
    assert known(A, mode="full", may_reorder=True) == ["dia"]


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
def test_a_format_that_was_asked_for_does_not_depend_on_earlier_tuning(mode):
    results(A, "sell", "full", CPU).keep(Choice("sell", {"sigma": 32}), 3.0, False)
    assert sg.aslinearoperator(A, "sell", "cpu", tune="full").tuning.cached
    own = sg.aslinearoperator(A, "sell", "cpu", tune=mode)
    assert (own.options["sigma"], own.tuning.cached) == (1, False)


def test_a_remembered_format_that_no_longer_fits_is_found_anew():
    B = gallery.powerlaw(300, 3, max_length=200)
    results(B, "dia", "full", CPU).keep(Choice("dia", {"max_padding": 1.0}), 3.0, False)
    op = sg.aslinearoperator(B, "dia", "cpu", tune="full", max_padding=1e6)
    assert not op.tuning.cached
    results(B, "auto", "full", CPU, may_reorder=True).keep(Choice("dia"), 3.0, False)
    op = sg.aslinearoperator(B, device="cpu", tune="full")
    assert not op.tuning.cached


def test_the_cache_is_bounded(tmp_path, monkeypatch):
    """It is also where another process stores results."""
    monkeypatch.setattr(sg.cache, "MAX_TUNING_ENTRIES", 100)
    for i in range(200):
        path = tmp_path / f"{i:03}.json"
        tuning_cache.keep(path, Choice("csr"), 1.0)
        os.utime(path, (i, i))
        assert len(os.listdir(tmp_path)) <= 100
    assert max(os.listdir(tmp_path)) == "199.json"
    for i in range(150):
        (tmp_path / f"of another {i}.json").touch()
    tuning_cache.keep(tmp_path / "000.json", Choice("csr"), 1.0)
    assert len(os.listdir(tmp_path)) <= 100


@pytest.mark.parametrize("shape", [(5, 5), (5, 7), (0, 0)])
def test_full_tuning_of_what_has_no_order(shape, device):
    B = sp.csr_array(shape)
    op = sg.aslinearoperator(B, device=device, tune="full")
    assert not any(trial.reorder for trial in op.tuning.trials)
    assert (op @ np.ones(shape[1])).shape == shape[:1]


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


def test_memory_is_planned_for_formats_that_may_be_chosen(monkeypatch):
    """A format may take fewer bytes, and be none that a GPU gets unless it is asked for."""
    monkeypatch.setattr(profile, "load_profile", lambda _: H100)
    csr = CanonicalCsr.of(gallery.poisson2d(60))
    expected = predict.fastest(predict.predict_considered(csr, Request(), 0))
    assert expected.format in _core.formats_to_consider(0, "cached", None)
    assert division._bytes_needed(csr, Request(), 0) == expected.bytes


@pytest.mark.parametrize("said", [None, False, True])
def test_what_was_said_of_the_symmetry_is_kept(said):
    """An operator that goes elsewhere, and its parts, look for symmetry no more than it did."""

    def known_of(op):
        return op._stored.description.request.symmetric

    op, known = sg.aslinearoperator(A, device="cpu", symmetric=said), declared(said, A.dtype)
    several = op.to(["cpu", "cpu"])
    assert known_of(several.to(["cpu"]).to("cpu")) is known
    assert known_of(pickle.loads(pickle.dumps(several))) is known
    for other in (op, several):
        assert known_of(other[:5]) is of_part(known)
        assert known_of(2 * other) is known


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
