"""How the format of an operator is found without trials: predicted, and ranked."""

import math
import re

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import CASES, matrix, vector
from internals import CPU, GPU, formats_to_consider, own_profile, plan, predict_considered, rank_predictions
from reference import assert_product
from spmvgpu import gallery
from support import explained, write_profile

A = gallery.poisson2d(40)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SPMVGPU_CACHE_DIR", str(tmp_path / "cache"))


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
    found = rank_predictions(table, mode=mode, products=products)
    assert (found[0], [format for format, *_ in found[1]]) == (is_timed, expected.split())
    assert re.search(reason, found[1][0][2])


def test_time_that_is_spent_counts():
    assert not rank_predictions(CLOSE, mode="cached", products=1e4, spent_us=1e5 - 1600)[0]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (table_of({"coo": 1.0}), "coo csr"),
        (table_of({"csr": 1.0}), "csr"),
        ([("sell", {}, None, 1, 1.0, None, "")], "csr"),
    ],
)
def test_csr_is_the_last_resort(table, expected):
    _, found = rank_predictions(table, is_wide=True)
    assert [format for format, *_ in found] == expected.split()
    assert ("has no times" in found[0][2]) == (len(table) == 1)


@pytest.mark.parametrize("mode", ["off", "cached"])
@pytest.mark.parametrize(
    ("device", "reason"), [("cuda:0", "so small a matrix"), ("cpu", "on a CPU, csr needs no conversion")]
)
def test_csr_without_predictions(mode, device, reason, crossings):
    """No profile is read for them."""
    with crossings.pretended_gpu():
        op = sg.aslinearoperator(A, device=device, tune=mode)
        assert (op.format, op.tuning.trials) == ("csr", [])
        assert "profile" not in {step.name for step in op.tuning.steps}
        assert reason in explained(op)


def test_other_options_are_predicted_of_what_is_stored():
    """A plan that sorts rows says nothing of rows in order."""
    B = matrix("two_populations", np.dtype("float64"))
    chosen = plan(B, "sell").options["sigma"]
    assert chosen > 1
    found = predict_considered(B, products=math.inf)
    assert {options.get("sigma", 0) for format, options, *_ in found if format == "sell"} <= {0, chosen}


MADE = {
    "pairs": lambda: sp.kron(
        sp.diags_array([1.0, 9.0, 1.0], offsets=[-1, 0, 1], shape=(9000, 9000)), np.ones((2, 2))
    ),
    "poisson2d": lambda: gallery.poisson2d(300),
    "powerlaw": lambda: gallery.powerlaw(20_000, 12),
    "uniform_random": lambda: gallery.uniform_random(20_000, 20_000, 30),
    "elasticity3d": lambda: gallery.elasticity3d(8),
    "mesh": lambda: valued(gallery.elasticity3d(14)),
}


@pytest.mark.parametrize("case", [*CASES, *MADE])
def test_what_is_not_planned_would_not_have_been_chosen(case):
    def first(predictions, **how):
        return rank_predictions(predictions, **how)[1][0][0]

    B = MADE[case]() if case in MADE else matrix(case, np.dtype("float64"))
    every = predict_considered(B, "off")
    for mode, products in (("off", 0.0), ("cached", 0.0), ("cached", math.inf)):
        some = predict_considered(B, mode, products)
        with_own_options = [prediction for prediction in some if not prediction[1]]
        assert all(prediction in every for prediction in with_own_options)
        how = {"mode": mode, "products": products}
        assert first(some, **how) == first(every, **how)
        if case in MADE:
            assert len(with_own_options) < len(every)


def test_formats_that_plan_for_long_need_a_symmetric_matrix():
    every = set(formats_to_consider(GPU, "full", None))
    assert not every & {"csr_m", "csr_b", "ellpack", "ellpack_r", "ellr_t", "hyb"}
    for device, mode, symmetric, left_out in [
        *((GPU, mode, None, {"packed_sell", "tsmv"}) for mode in ("off", "cached")),
        *((GPU, mode, False, {"packed_sell", "tsmv", "sdia"}) for mode in ("off", "cached")),
        *((GPU, mode, True, {"packed_sell"}) for mode in ("off", "cached")),
        *((CPU, mode, None, {"packed_sell", "sdia", "tsmv"}) for mode in ("off", "cached")),
        *((CPU, mode, False, {"packed_sell", "sdia", "tsmv"}) for mode in ("off", "cached")),
        (GPU, "full", False, {"sdia", "tsmv"}),
    ]:
        assert set(formats_to_consider(device, mode, symmetric)) == every - left_out
    assert set(formats_to_consider(GPU, "off", None, has_few_values=True)) == every - {"tsmv"}


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


def rows_in_turn(lengths, rows):
    """Rows of these lengths, one after the other, with entries anywhere."""
    counts = np.resize(lengths, rows)
    at, step = np.repeat(np.arange(rows), counts), np.repeat(np.arange(rows) % 97 + 3, counts)
    number = np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)
    return valued(sp.csr_array((np.ones(len(at)), (at, (7 * at + number * step) % rows)), shape=(rows, rows)))


def discontinuous_elements(side, unknowns):
    """Cells of a square grid that couple to their neighbours, with dense blocks of unknowns."""
    return valued(sp.kron(gallery.poisson2d(side), np.ones((unknowns, unknowns)), format="csr"))


def time_steps(side, steps):
    """A grid at all times, each coupled to the time before."""
    before = sp.eye_array(steps, k=-1)
    grid = gallery.poisson2d(side)
    return valued(sp.kron(sp.eye_array(steps), grid) + sp.kron(before, sp.eye_array(grid.shape[0])))


def tandem_queue(first, second):
    """The states of two queues: a customer arrives, goes on, or leaves."""
    arrive, leave = (sp.eye_array(n, k=k) for n, k in ((first, 1), (second, -1)))
    go_on = sp.kron(sp.eye_array(first, k=-1), sp.eye_array(second, k=1))
    stay = sp.eye_array(first * second)
    return valued(stay + sp.kron(arrive, sp.eye_array(second)) + go_on + sp.kron(sp.eye_array(first), leave))


def attention(words):
    """Blocks of 32 words that see others near them."""
    return valued(sp.kron(gallery.banded_random(words, 4, 20, seed=8), np.ones((32, 32)), format="csr"))


KINDS = {
    "constant coefficients": (lambda: gallery.poisson2d(150), "stencil"),
    "diagonals": (lambda: valued(gallery.poisson2d(150)), "dia"),
    "blocks of 2": (lambda: blocks(2), "csr"),
    "blocks of 3": (lambda: blocks(3), "bsell"),
    "blocks of 6": (lambda: blocks(6, 600), "bsell"),
    "blocks of 5": (lambda: blocks(5), "csr"),
    "discontinuous elements": (lambda: discontinuous_elements(24, 10), "csr"),
    "all time steps": (lambda: time_steps(30, 40), "dia"),
    "tandem queue": (lambda: tandem_queue(150, 120), "dia"),
    "attention": (lambda: attention(150), "bsell"),
    "short rows": (lambda: short_rows(12, 80_000), "sell"),
    "few short rows": (lambda: short_rows(12, 12_000), "csr"),
    "two lengths in turn": (lambda: rows_in_turn([3, 5], 40_000), "csr"),
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


def test_the_model_cuts():
    """By a profile to which rows of CSR cost little, and slots of padding much."""
    model = {
        "csr": {"full_load": 100, "threshold": 10.0, "conic": [1.0, 0.0, 0.0], "line": [0.9, 0.01]},
        "ell": {"rows": [1, 1_000_000], "widths": [1, 1000], "times": [[1e-4, 1e-1], [1e2, 1e5]]},
        "coo": {"line": [0.0, 1.0]},
    }
    write_profile(own_profile(), guo2011={"f32": model, "f64": model})
    B = uneven()
    assert sg.partition.separator(B, "cpu").csr_rows == 300
    op = sg.aslinearoperator(B, format="partitioned", device="cpu")
    assert "300 of 30000 rows" in explained(op)
    assert "csr alone" in explained(op)
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
