"""Where the time goes while an operator is made: every step is there, and they add up to the whole."""

import logging
import re
import sys
from collections import Counter
from time import perf_counter

import numpy as np
import pytest

import spmvgpu as sg
from battery import matrix
from support import explained

A = matrix("uniform", np.dtype("float64"))


def names(op):
    return [(taken.name, taken.of) for taken in op.tuning.steps]


@pytest.mark.parametrize("tune", ["off", "cached", "full"])
def test_steps_add_up_to_the_whole(tune, device):
    with sg.cache.empty():
        start = perf_counter()
        op = sg.aslinearoperator(A, device=device, tune=tune)
        whole = perf_counter() - start
    found = names(op)
    assert {"checks", "convert"} <= {name for name, _ in found}
    assert found[-1] == ("other", "")
    assert all(taken.seconds >= 0 for taken in op.tuning.steps)
    assert op.tuning.seconds <= sum(taken.seconds for taken in op.tuning.steps) <= whole
    converted = [of for name, of in found if name == "convert"]
    tried = [of for name, of in found if name == "trial"]
    assert [of for of in converted if of in tried] == tried
    assert len(tried) == len(op.tuning.trials)
    if tune == "full":
        assert {"profile", "features", "plan"} <= {name for name, _ in found}
        assert {of for name, of in found if name == "plan"} <= set(sg.formats())
        assert tried


@pytest.mark.gpu
def test_a_matrix_for_a_gpu_is_uploaded_once(cuda_device):
    for given in ({}, {"format": "sell"}, {"tune": "full"}):
        op = sg.aslinearoperator(A, device=cuda_device, **given)
        assert [name for name, _ in names(op)].count("upload") == 1
        assert [name for name, _ in names(op)].count("checks") == 1


def test_explain_says_where_the_time_went(device):
    op = sg.aslinearoperator(A, device=device, format="sell", reorder="rcm")
    (line,) = (line for line in explained(op).splitlines() if line.startswith("made in"))
    whole = 1e3 * sum(taken.seconds for taken in op.tuning.steps)
    assert float(re.match(r"made in ([\d.]+) ms: ", line)[1]) == pytest.approx(whole, rel=0.1)
    for name in ("checks", "order", "convert", "sell"):
        assert name in line
    assert "made in" not in op.copy().explain()


def test_what_another_operator_takes_is_its_own(device):
    before = sg.aslinearoperator(A, device=device, format="csr")
    kept = list(before.tuning.steps)
    sg.aslinearoperator(A, device=device, format="coo")
    assert before.tuning.steps == kept


def test_a_logger_tells_the_steps(device, caplog):
    with sg.cache.empty():
        sg.aslinearoperator(A, device=device)
        assert not caplog.records
        caplog.set_level(logging.DEBUG, "spmvgpu")
        op = sg.aslinearoperator(A, device=device, tune="full")
    told = [record.getMessage().partition(" took ")[0] for record in caplog.records]
    assert {record.name for record in caplog.records} == {"spmvgpu"}
    recorded = [f"{name} {of}".rstrip() for name, of in names(op)[:-1]]
    assert Counter(recorded) <= Counter(told)  # which also has what comes after the operator is made


@pytest.mark.parametrize("with_tqdm", [False, True])
def test_progress_shows_what_long_calls_do(device, capsys, monkeypatch, with_tqdm):
    if with_tqdm:
        pytest.importorskip("tqdm", reason="the extra [progress] is not installed")
    else:
        monkeypatch.setitem(sys.modules, "tqdm", None)
    for name in ("_DELAY", "_INTERVAL"):
        monkeypatch.setattr(f"spmvgpu._util.progress.{name}", 0.0)
    P = sg.gallery.poisson2d(70)
    b = np.ones(P.shape[0])

    def work():
        op = sg.aslinearoperator(A, device=device, tune="full", budget=0)
        sg.linalg.ilu0(sg.aslinearoperator(P, device=device))
        sg.linalg.splu(P, device="cpu")
        sg.linalg.amg(P, device=device)
        sg.linalg.solve(P, b, x0=b, device=device)
        return op

    with sg.cache.empty(), sg.progress():
        op = work()
    _, shown = capsys.readouterr()
    for what in (
        "trial csr",
        "factors ilu0",
        "factors SuperLU",
        "multigrid level 1",
        "solve cg",
        "iterations",
    ):
        assert what in shown
    assert op.tuning.trials
    with sg.cache.empty():
        work()
    assert capsys.readouterr() == ("", "")
