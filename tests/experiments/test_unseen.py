"""Unseen matrices are others for every seed, and what is chosen is timed beside all formats."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("threadpoolctl", reason="the extra [bench] is not installed")

import spmvgpu as sg
from experiments import suite, unseen
from experiments.__main__ import main
from experiments.clock import Launch, Timing
from experiments.engine import Run
from experiments.peers import ours
from experiments.peers.base import Variant
from experiments.peers.problem import Problem
from experiments.records import Recorder
from generators import random_families
from spmvgpu import gallery

SMALL = unseen.QUICK_SIZES
COUNT = len(random_families.FAMILIES)


def items(seed: int, count: int) -> list[suite.Item]:
    return unseen.items(Namespace(seed=seed, count=count, quick=True))[0]


def drawn(seed: int) -> dict[str, sp.csr_array]:
    return {item.name: item.build() for item in items(seed, COUNT)}


@pytest.fixture(scope="module")
def first() -> dict[str, sp.csr_array]:
    return drawn(1)


def _bytes(matrix: sp.csr_array) -> bytes:
    return b"".join(np.ascontiguousarray(a).tobytes() for a in (matrix.indptr, matrix.indices, matrix.data))


# -- matrices ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2, 6))
def test_matrices_of_all_families_are_canonical(seed: int) -> None:
    found = items(seed, 2 * COUNT)
    assert {item.group for item in found[:COUNT]} == set(random_families.FAMILIES)
    assert len({item.name for item in found}) == len(found)
    for item in found:
        matrix = item.build()
        sp.csr_array(matrix).check_format(full_check=True)
        assert matrix.has_canonical_format, item.name
        assert (matrix.dtype, matrix.indices.dtype, matrix.indptr.dtype) == (np.float64, np.int32, np.int32)
        assert SMALL[0] / 5 < matrix.nnz < 5 * SMALL[1], item.name
        assert np.isfinite(matrix.data).all()
        assert (matrix.data != 0).all(), item.name
        assert "/" not in item.name  # it is part of the name of a file


def test_words_are_true() -> None:
    """What a name says of the values and of the unknowns."""
    for item in items(7, 3 * COUNT):
        matrix = item.build()
        if item.name.endswith(", ones"):
            assert (matrix.data == 1).all()
        if item.name.endswith(", few values"):
            assert len(np.unique(matrix.data)) <= 64
        if item.name.endswith(", symmetric"):
            assert (matrix != matrix.T).nnz == 0, item.name
        if "lower triangle" in item.name:
            assert sp.triu(matrix, 1).nnz == 0, item.name
        if item.group == "tall":
            assert matrix.shape[0] > matrix.shape[1]
        if item.group == "wide":
            assert matrix.shape[0] < matrix.shape[1]


def test_a_seed_has_the_same_matrices_again(first: dict[str, sp.csr_array]) -> None:
    again = drawn(1)
    assert list(again) == list(first)
    assert all(_bytes(again[name]) == _bytes(matrix) for name, matrix in first.items())


def test_more_matrices_of_a_seed_begin_with_the_same_ones() -> None:
    fewer, more = (items(1, count) for count in (5, 60))
    assert [item.name for item in fewer] == [item.name for item in more[:5]]


def test_another_seed_has_other_matrices(first: dict[str, sp.csr_array]) -> None:
    other = drawn(2)
    assert not {_bytes(matrix) for matrix in first.values()} & {_bytes(matrix) for matrix in other.values()}
    assert not set(first) & set(other)


def test_none_is_of_the_suite(first: dict[str, sp.csr_array]) -> None:
    patterns = {item.build().indices.tobytes() for item in suite.suite(quick=True)[0]}
    assert not patterns & {matrix.indices.tobytes() for matrix in first.values()}


# -- what is measured ----------------------------------------------------------------------------------------


GPU = {"cache_bytes": 50_000_000, "multiprocessors": 4}


class FakeClock:
    """Device times by the number of launches, which it counts."""

    def __init__(self) -> None:
        self.launched: list[str] = []

    def synchronize(self) -> None: ...

    def capture(self, launches: list[Launch]) -> None:
        for launch in launches:
            launch(0)

    def hot(self, launches: dict[str, Launch]) -> dict[str, Timing]:
        self.launched += list(launches)
        return {name: Timing(10.0 + number, 0.0, 1, 1.0) for number, name in enumerate(launches)}


@pytest.fixture
def on_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """A run on a GPU that is none: the CPU makes the operators, and a fake clock times them."""
    make, predict, variant = sg.aslinearoperator, sg.predict, ours.variant

    def operator(A: Any, format: str = "auto", device: str = "auto", **more: Any) -> Any:
        assert device == "cuda:0"
        return make(A, format, "cpu", **more)

    def launched(problem: Problem, name: str, op: Any) -> Variant:
        found = variant(problem, name, op)
        call = found.call
        assert call is not None
        return Variant(ours.NAME, name, op.nbytes, found.result, lambda stream: call(), options=found.options)

    monkeypatch.setattr(unseen.sg, "aslinearoperator", operator)
    monkeypatch.setattr(unseen.sg, "predict", lambda A, device: predict(A, "cpu"))
    monkeypatch.setattr(unseen.ours, "variant", launched)
    monkeypatch.setattr(unseen.Trials, "_on_device", lambda self, matrix: matrix)
    monkeypatch.setattr(unseen, "stored", lambda op: f"spmvgpu/{op.format} {op.options} {op.nbytes}")

    def run(**options: Any) -> Run:
        (experiment,) = unseen.EXPERIMENTS
        given = Namespace(**({"skip": None, "seed": 4, "all": False} | options))
        record = Recorder(tmp_path / "unseen.json", GPU)
        return Run(experiment, given, "cuda:0", record, 0.0, np.inf, [ours], FakeClock())  # type: ignore[arg-type]

    return run


def _mesh() -> Problem:
    pattern = gallery.meshes.solid((14, 14, 4))
    matrix = gallery.meshes.symmetric_values(gallery.meshes.shuffled(pattern, 1))
    return Problem.make(matrix, np.float64, "mesh", "meshes")


def test_a_gpu_is_asked_for_every_format_order_and_kernel(on_a_gpu: Callable[..., Run]) -> None:
    run = on_a_gpu(all=True)
    rows = {row["variant"]: row for row in unseen.compare(run, _mesh())}
    assert set(rows) == {"best", "auto", "full"}
    assert run.record.skipped == []
    tried = rows["best"]["tried"]
    assert {name.split()[0] for name in tried} > {"csr", "sell", "coo", "tsmv"}
    assert {"csr", "csr columns", "csr clusters", "csr rcm", "csr kernel=balanced tile=512"} <= set(tried)
    assert all(time > 0 for time, _ in tried.values())
    assert tried["csr"][1] > 0
    assert tried["csr rcm"][1] is None
    clock: Any = run.clock
    assert len(clock.launched) == len(set(clock.launched))  # what two have taken is timed once
    assert rows["best"]["time_us"] == min(row["time_us"] for row in rows.values())
    assert all(row["how"] == "graph" and row["seed"] == 4 for row in rows.values())
    assert rows["auto"]["made_us"] >= rows["auto"]["choosing_us"] > 0
    json.dumps(list(rows.values()))


def test_what_is_predicted_to_be_hopeless_is_left_out(on_a_gpu: Callable[..., Run], monkeypatch) -> None:
    predicted = {"csr": 1.0, "sell": 3.9, "coo": 4.1, "bsell": None}
    predictions = [
        Namespace(format=name, options={}, time_us=time, note="") for name, time in predicted.items()
    ]
    predictions.append(Namespace(format="tsmv", options={}, time_us=0.01, note="from its bytes alone"))
    monkeypatch.setattr(unseen.sg, "predict", lambda A, device: predictions)
    (best,) = [row for row in unseen.compare(on_a_gpu(skip="full"), _mesh()) if row["variant"] == "best"]
    given = {name.split()[0] for name in best["tried"] if not name.endswith(("columns", "clusters", "rcm"))}
    assert "coo" not in given
    assert {"csr", "sell", "bsell", "tsmv"} <= given
    assert best["tried"]["sell"][1] == 3.9
    assert best["tried"]["tsmv"][1] is None


def test_orders_of_rows_are_for_square_matrices_that_gain(on_a_gpu: Callable[..., Run], monkeypatch) -> None:
    times = {"given": 10.0, "clusters": 11.1}
    within = {"csr": 10.9, "sell": 9.0, "coo": 20.0}  # of the matrix in reverse Cuthill-McKee order
    asked: list[tuple[str, str]] = []

    def time(self: unseen.Trials, format: str, options: Any, order: str) -> float:
        asked.append((format, order))
        one = unseen.Tried(format, {}, order, times.get(order, 9.5), None)
        return self.found.setdefault(order, one).time_us

    monkeypatch.setattr(unseen.Trials, "_time", time)
    monkeypatch.setattr(unseen.Trials, "_product_us", lambda self, op: within.get(op.format, 99.0))
    unseen.Trials(on_a_gpu(), _mesh()).time_all()
    assert ("sell", "given") in asked
    assert {format for format, order in asked if order == "clusters"} == {"csr"}
    assert [format for format, order in asked if order == "rcm"][:1] == ["sell"]
    assert ("coo", "rcm") not in asked
    asked.clear()
    oblong = Problem.make(gallery.uniform_random(300, 40, 3), np.float64)
    unseen.Trials(on_a_gpu(), oblong).time_all()
    assert {order for _, order in asked} == {"given"}


def test_a_wrong_product_is_noted_and_not_the_best(on_a_gpu: Callable[..., Run], monkeypatch) -> None:
    operator = unseen.Trials.operator

    def wrong(self: unseen.Trials, format: str, options: Any, order: str) -> Any:
        op = operator(self, format, options, order)
        return op * 2 if format == "sell" else op

    monkeypatch.setattr(unseen.Trials, "operator", wrong)
    run = on_a_gpu(skip="full")
    (best,) = [row for row in unseen.compare(run, _mesh()) if row["variant"] == "best"]
    assert not [name for name in best["tried"] if name.startswith("sell")]
    assert any(
        entry["variant"] == "sell" and "rows are wrong" in entry["reason"] for entry in run.record.skipped
    )


def test_what_is_chosen_has_a_row_though_its_products_take_memory(on_a_gpu, monkeypatch) -> None:
    stored, products = unseen.stored, iter(range(10_000))
    monkeypatch.setattr(unseen, "stored", lambda op: f"{stored(op)} and {next(products)}")
    rows = list(unseen.compare(on_a_gpu(), _mesh()))
    assert {"auto", "full", "best"} <= {row["variant"] for row in rows}


def test_two_seeds_are_kept_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unseen, "WALL_SECONDS", 0.001)
    common = ["unseen", "--quick", "--device", "cpu", "--count", "2", "--dtype", "f64", "--skip", "full|mkl"]
    for seed in ("5", "6"):
        assert main([*common, "--seed", seed, "--merge", "--out", str(tmp_path)]) == 0
    (path,) = tmp_path.glob("*/unseen.json")
    rows = json.loads(path.read_text())["rows"]
    assert {row["seed"] for row in rows} == {5, 6}
    assert {row["variant"] for row in rows} == {"auto", "best", "csr"}
