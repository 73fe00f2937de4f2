"""Matrices are what they should be, wrong products are found, and libraries are given the right layouts."""

from __future__ import annotations

import json
import pickle
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("threadpoolctl", reason="the extra [bench] is not installed")

import spmvgpu as sg
from experiments import clock, solving, suite
from experiments.__main__ import EXPERIMENTS
from experiments.engine import ahead
from experiments.peers import layouts, mkl, ours
from experiments.peers.base import NotApplicableError
from experiments.peers.problem import ALL, Problem, WrongResultError
from spmvgpu import gallery

# -- suite and checks ----------------------------------------------------------------------------------------


QUICK, FULL = (
    Namespace(
        quick=quick,
        amg_side=12,
        rows=8000,
        unknowns=8000,
        counts="1,2",
        seed=1,
        count=None,
        max_nnz=1e6,
        experiments=list(solving.KINDS),
        scale=0.01,
    )
    for quick in (True, False)
)


@pytest.mark.parametrize(
    "item",
    [
        *suite.suite(quick=True)[0],
        *(item for item in suite.all_items(FULL)[0] if item.name in ("rmat_17", "circuit_100k", "kkt_60")),
    ],
    ids=lambda item: item.name,
)
def test_matrices_are_canonical(item: suite.Item) -> None:
    matrix = item.build()
    assert matrix.dtype == np.float64
    assert matrix.indices.dtype == np.int32
    assert matrix.has_canonical_format
    assert len(np.unique(matrix.data)) > 1  # values vary: no format may profit from equal ones by chance


def test_items_can_be_built_by_other_processes() -> None:
    """All of them are pickled when matrices are built ahead on a GPU."""
    for experiment in EXPERIMENTS:
        if experiment.items is not None:
            for options in (QUICK, FULL):
                pickle.dumps(experiment.items(options)[0])


def test_full_suite_has_the_generated_matrices_and_names_what_is_left_out() -> None:
    items, left_out = suite.suite()
    names = [item.name for item in items]
    assert len(set(names)) == len(names)
    assert {"poisson3d27_128", "powerlaw_2M", "lp_wide"} <= set(names)
    assert all(left_out.values())


def test_real_matrices_are_mirrored_and_get_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lower = sp.csr_array(np.array([[True, False], [True, True]]))
    sp.save_npz(tmp_path / "tiny.npz", sp.csr_matrix(lower))
    entries = [
        {"name": "tiny", "nnz": 4, "stored": "lower", "dtype": "bool"},
        {"name": "waves", "nnz": 1, "stored": "full", "dtype": "complex128"},
    ]
    (tmp_path / "index.json").write_text(json.dumps(entries))
    monkeypatch.setenv(suite.FOLDER_VARIABLE, str(tmp_path))

    items, left_out = suite.suite()
    matrix = next(item for item in items if item.name == "tiny").build().toarray()

    assert np.count_nonzero(matrix) == 4
    assert (matrix == matrix.T).all()
    assert "complex128" in left_out["waves"]


def random_csr(rows: int, cols: int, density: float, seed: int) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    return sp.csr_array(rng.uniform(-1, 1, (rows, cols)) * (rng.random((rows, cols)) < density))


@pytest.fixture
def problem() -> Problem:
    matrix = random_csr(50, 40, density=0.2, seed=1)
    return Problem.make(matrix, np.float32, "tiny", "generated")


def test_check_takes_a_right_product_and_no_other(problem: Problem) -> None:
    y = problem.matrix @ problem.x
    problem.check(y)

    row = int(np.argmax(problem.scale))
    for wrong in (np.nan, y[row] * 1.01 + 1e-3):
        spoilt = y.copy()
        spoilt[row] = wrong
        with pytest.raises(WrongResultError, match=f"row {row}"):
            problem.check(spoilt)
    with pytest.raises(WrongResultError, match="float64"):
        problem.check(y.astype(np.float64))


@pytest.mark.parametrize("name", ALL)
def test_complex_values_keep_their_sizes_and_get_phases(name: str) -> None:
    problem = Problem.make(gallery.poisson2d(9), ALL[name])
    problem.check(problem.matrix @ problem.x)
    assert problem.case["dtype"] == name
    if name.startswith("c"):
        np.testing.assert_allclose(abs(problem.matrix).data, abs(gallery.poisson2d(9)).data, rtol=1e-6)
        assert len(np.unique(np.angle(problem.matrix.data))) > problem.matrix.nnz / 2


def test_matrices_that_other_processes_built_are_the_same() -> None:
    items = suite.suite(quick=True)[0][:2]
    build = ahead(items)
    assert all((build(item) != item.build()).nnz == 0 for item in items)


# -- layouts handed to cuSPARSE ------------------------------------------------------------------------------


def test_sliced_ell_holds_every_entry_once() -> None:
    matrix = random_csr(70, 30, density=0.3, seed=2)
    offsets, columns, values = layouts.sliced_ell(np, matrix.indptr, matrix.indices, matrix.data)

    assert len(columns) == len(values) == offsets[-1]
    dense = np.zeros(matrix.shape)
    for slice_, start in enumerate(offsets[:-1]):
        for slot in range(start, offsets[slice_ + 1]):
            if columns[slot] >= 0:
                dense[32 * slice_ + (slot - start) % 32, columns[slot]] += values[slot]
    np.testing.assert_array_equal(dense, matrix.toarray())


def test_sliced_ell_refuses_excessive_padding() -> None:
    matrix = sp.csr_array(sp.vstack([np.ones((1, 500)), sp.csr_array((31, 500))]))
    with pytest.raises(NotApplicableError, match=r"padding is 32\.0x"):
        layouts.sliced_ell(np, matrix.indptr, matrix.indices, matrix.data)


@pytest.mark.parametrize("side", [2, 3, 6])
def test_blocks_are_found_and_laid_out_row_by_row(side: int) -> None:
    pattern = sp.csr_array(np.eye(20, 25)) + random_csr(20, 25, density=0.1, seed=3)
    matrix = sp.csr_array(sp.kron(pattern, np.arange(1.0, side * side + 1).reshape(side, side)))
    matrix.sum_duplicates()

    found = layouts.dense_block_size(np, matrix.indptr, matrix.indices, matrix.shape)
    offsets, columns, values = layouts.block_csr(
        np, matrix.indptr, matrix.indices, matrix.data, matrix.shape[1], side
    )

    assert found == side
    blocks = sp.bsr_array((values.reshape(-1, side, side), columns, offsets), shape=matrix.shape)
    assert abs(blocks - matrix).max() == 0


def test_a_matrix_without_blocks_is_not_given_any() -> None:
    matrix = sp.csr_array(np.eye(60) + np.eye(60, k=1))
    with pytest.raises(NotApplicableError, match="best fill"):
        layouts.dense_block_size(np, matrix.indptr, matrix.indices, matrix.shape)


# -- clock and peers -----------------------------------------------------------------------------------------


def test_after_a_library_whose_threads_go_on_there_is_a_pause(monkeypatch) -> None:
    def spinning() -> None: ...

    spinning.settle_seconds = 0.5
    slept: list[float] = []
    monkeypatch.setattr(clock.time, "sleep", slept.append)
    clock.take_turns({"a": spinning, "b": lambda: None}, 0.0)
    assert slept == [0.5, 0.0] * clock.ROUNDS


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_mkl_multiplies_what_its_inspector_saw(dtype) -> None:
    reason = mkl.available()
    if reason is not None:
        pytest.skip(reason)
    problem = Problem.make(gallery.powerlaw(2000, 8.0), dtype)
    (job,) = mkl.prepare(problem)
    variant = job.build()
    problem.check(variant.result())
    assert variant.call.settle_seconds > 0
    assert set(mkl.versions()) == {"mkl"}


def test_all_variants_of_a_format_are_measured_on_a_cpu() -> None:
    jobs = ours.prepare(Problem.make(gallery.poisson2d(9), np.float64), "cpu")
    assert [job.name for job in jobs][:2] == ["csr", "sell"]
    assert {job.name for job in jobs} == {*sg.formats(), "auto"}
    on_gpu = {
        job.name: job.optional
        for job in ours.prepare(Problem.make(gallery.poisson2d(9), np.float64), "cuda:0")
    }
    assert on_gpu.keys() > {"csr_tuned", "auto_called", "sell_tuned"}
    assert [on_gpu[name] for name in ("csr_tuned", "sell_tuned", "auto_called")] == [False, True, False]
