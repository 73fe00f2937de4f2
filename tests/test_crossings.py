"""How few calls between Python and the core make an operator; ``python tools/crossings.py`` shows them."""

import pytest

import spmvgpu as sg
from spmvgpu import gallery

MOST = 12


def check(crossings, A, device):
    """Once the profile of the device is read; without trials, of which each makes a matrix and times it."""
    sg.aslinearoperator(A, device=device, budget=0.0)
    with crossings.counted() as counts:
        sg.aslinearoperator(A, device=device, budget=0.0)
    assert {"CsrSource.rank", "CsrSource.build"} <= counts.keys()
    assert counts.total() <= MOST, counts


@pytest.mark.parametrize("n", [45, 300], ids=["small", "large"])
def test_an_operator_takes_few_calls(crossings, device, n):
    check(crossings, gallery.poisson2d(n), device)


@pytest.mark.parametrize("n", [45, 300], ids=["small", "large"])
def test_an_operator_on_a_gpu_that_is_not_here_takes_few_calls(crossings, n):
    with crossings.pretended_gpu() as device:
        check(crossings, gallery.poisson2d(n), device)
