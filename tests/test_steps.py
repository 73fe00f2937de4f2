"""Where the time goes while an operator is made: every step is there, and they add up to the whole."""

from time import perf_counter

import numpy as np
import pytest

import spmvgpu as sg
from battery import matrix
from spmvgpu._util.steps import Recording, Step, in_words, step
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
    assert line == f"made in {in_words(op.tuning.steps)}"
    for name in ("checks", "order", "convert", "sell"):
        assert name in line
    assert "made in" not in op.copy().explain()


def test_what_another_operator_takes_is_its_own(device):
    before = sg.aslinearoperator(A, device=device, format="csr")
    kept = list(before.tuning.steps)
    sg.aslinearoperator(A, device=device, format="coo")
    assert before.tuning.steps == kept


def test_a_step_within_a_step_is_a_part_of_it():
    with Recording() as recording, step("plan", "csr"), step("features"):
        pass
    assert names_of(recording.steps()) == ["plan", "other"]


def test_a_step_that_fails_is_recorded():
    with Recording() as recording:
        with pytest.raises(KeyError), step("convert", "sell"):
            raise KeyError
        with step("convert", "csr"):
            pass
    assert names_of(recording.steps()) == ["convert", "convert", "other"]


def test_nothing_is_recorded_unasked():
    with step("plan"):
        pass
    with Recording() as recording:
        pass
    assert names_of(recording.steps()) == ["other"]


def names_of(steps):
    return [taken.name for taken in steps]


def test_steps_in_words():
    steps = [
        Step("upload", "", 0.003),
        Step("plan", "csr", 0.0004),
        Step("plan", "sell", 0.001),
        Step("plan", "csr kernel=shuffle", 0.0002),
        Step("other", "", 0.0001),
    ]
    assert in_words(steps) == "4.7 ms: upload 3.0, plan 1.6 (csr 0.6, sell 1.0), other 0.1"
