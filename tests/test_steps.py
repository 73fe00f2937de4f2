"""Where the time goes while an operator is made: every step is there, and they add up to the whole."""

import re
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
