"""Whole jobs refuse what would falsify them, and check what they time; `test_declarations` runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as sla

pytest.importorskip("threadpoolctl", reason="the extra [bench] is not installed")

from experiments import jobs
from experiments.__main__ import main
from experiments.clock import in_turns
from experiments.jobs import libraries, loops, products, solve, start, systems
from experiments.jobs.systems import check_product
from experiments.peers.problem import WrongResultError
from experiments.tables import duration, machine, short_name


def test_settings_of_threads_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(jobs, "initial_environment", lambda: {"OMP_NUM_THREADS": "4", "HOME": "/"})
    assert main(["jobs", "--quick", "--device", "cpu", "--out", str(tmp_path)]) == 2
    assert "env -u OMP_NUM_THREADS python" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_jobs_that_are_not_asked_for_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "initial_environment", dict)
    common = ["jobs", "--quick", "--device", "cpu", "--out", str(tmp_path)]
    assert main([*common, "--jobs", "start,thousand", "--seconds", "0"]) == 0
    (path,) = tmp_path.glob("*/*.json")
    content = json.loads(path.read_text())
    assert (path.name, content["rows"]) == ("jobs.json", [])
    spent = {row["job"]: row["reason"] for row in content["skipped"] if "job" in row}
    assert spent == dict.fromkeys((start.JOB, products.THOUSAND), "the time budget was spent")


def test_initial_environment_is_that_of_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/proc/self/environ").is_file():
        pytest.skip("this system does not say what a process was started with")
    monkeypatch.setenv("OMP_SET_LATER", "1")
    assert "OMP_SET_LATER" not in jobs.initial_environment()
    assert jobs.thread_settings({"OMP_SET_LATER": "1"}) == ["OMP_SET_LATER"]


@pytest.mark.parametrize("name", systems.QUICK)
def test_systems_are_symmetric_positive_definite(name: str) -> None:
    A = systems.matrix(name)
    assert abs(A - A.T).max() <= 1e-12 * abs(A).max()
    assert np.linalg.eigvalsh(A.toarray())[0] > 0
    assert systems.matrix(name) is not A


@pytest.mark.parametrize("solver", loops.LOOPS)
def test_a_free_operator_repeats_the_loop(solver: str) -> None:
    A = systems.matrix("poisson2d_20")
    b = systems.right_hand_side(A)
    recording = loops.Recording(A)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *arguments, **more: None)
        loops.LOOPS[solver](recording, b, 40)
        free = loops.Free(recording)
        for _ in range(2):  # the second time too, although gmres writes to what it was given
            free.rewind()
            calls: list[np.ndarray] = []
            loops.LOOPS[solver](_Listening(free, calls), b, 40)
            assert len(calls) == len(recording.results)
            for returned, result in zip(calls, recording.results, strict=True):
                np.testing.assert_array_equal(returned, result)


class _Listening(sla.LinearOperator):
    def __init__(self, operator: Any, calls: list[np.ndarray]) -> None:
        super().__init__(operator.dtype, operator.shape)
        self._operator, self._calls = operator, calls

    def _matvec(self, x: np.ndarray) -> np.ndarray:
        y = self._operator._matvec(x)
        self._calls.append(y.copy())
        return y

    _matmat = _matvec


def test_wrong_results_are_not_timed() -> None:
    A = systems.matrix("poisson2d_20")
    X = np.random.default_rng(0).standard_normal((A.shape[1], 3))
    check_product(A, X, A @ X)
    check_product(A, X[:, 0], A @ X[:, 0])
    for wrong in (A @ X * (1 + 1e-12), A @ X + np.nan, (A @ X)[:, :2]):
        with pytest.raises(WrongResultError):
            check_product(A, X, wrong)
    b = systems.right_hand_side(A)
    with pytest.raises(WrongResultError, match="residual"):
        solve._check(A, np.zeros_like(b), b)


def test_a_failure_costs_only_its_own_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = libraries.Library("broken", "cpu", lambda A: A, lambda A, x: 2 * (A @ x))
    monkeypatch.setattr(libraries, "all_libraries", lambda gpu: [broken, libraries.scipy()])
    monkeypatch.setattr(products, "LONGEST", 0.01)
    monkeypatch.setattr(jobs, "initial_environment", dict)
    assert main(["jobs", "--quick", "--device", "cpu", "--jobs", "thousand", "--out", str(tmp_path)]) == 0
    content = json.loads(next(tmp_path.rglob("jobs.json")).read_text())
    assert {row["library"] for row in content["rows"]} == {"scipy"}
    failed = [row for row in content["skipped"] if "matrix" in row]
    assert {row["library"] for row in failed} == {"broken"}
    assert all("WrongResultError" in row["reason"] for row in failed)


def test_turns_are_taken_by_all_alike() -> None:
    order: list[str] = []
    calls = {name: (lambda name=name: order.append(name)) for name in ("first", "second")}
    samples = in_turns(calls, 0.0, least=3, before=lambda: order.append("before"))
    assert [len(values) for values in samples.values()] == [3, 3]
    assert order == ["before", "first", "before", "second"] * 4


def test_a_product_of_a_dense_row_is_checked_with_its_own_bound() -> None:
    A = sp.csr_array(np.vstack([np.ones((1, 1000)), np.eye(1000)[:3]]))
    x = np.full(1000, 0.1)
    check_product(A, x, np.array([100.0 + 1e-13, 0.1, 0.1, 0.1]))
    with pytest.raises(WrongResultError):
        check_product(A, x, np.array([100.0, 0.1 + 1e-13, 0.1, 0.1]))


@pytest.mark.parametrize(
    ("us", "text"),
    [(1.234, "1.23 us"), (999.4, "999 us"), (999.6, "1.00 ms"), (123_456.0, "123 ms"), (2.5e6, "2.50 s")],
)
def test_durations_have_three_digits(us: float, text: str) -> None:
    assert duration(us) == text


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("Intel(R) Xeon(R) Processor", "Xeon"),
        ("AMD EPYC", "EPYC"),
        ("cpu", "cpu"),
    ],
)
def test_machines_have_short_names(device: str, name: str) -> None:
    assert short_name(device) == name
    assert machine({"device": device, "cuda": None, "cores": 2}) == f"{name}, 2 cores"
    assert machine({"device": device, "cuda": "13.0", "cores": 2}) == name
