"""How few calls between Python and the core make an operator; ``python tools/crossings.py`` shows them."""

import numpy as np
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


MADE = {
    "T": lambda op: op.T,
    "to": lambda op: op.to([op.device] if isinstance(op.device, str) else op.device[0]),
    "amg": lambda op: sg.linalg.amg(op),
    "diagonal": lambda op: op.diagonal(),
    "astype": lambda op: op.astype(np.float32),
    "update_values": lambda op: op.update_values(np.ones(op.nnz)),
    "update_values of one of two": lambda op: op.copy().update_values(np.ones(op.nnz)),
}


@pytest.mark.parametrize("name", MADE)
def test_a_list_of_one_device_makes_it_there_too(crossings, device, name):
    """A matrix over several devices comes to host memory as a whole for most of this."""
    fetched = []
    for listed in (device, [device]):
        op = sg.aslinearoperator(gallery.poisson2d(45), device=listed)
        with crossings.counted() as counts:
            MADE[name](op)
        fetched.append({call: counts[call] for call in ("CsrSource.to_csr", "Matrix.to_csr")})
    assert fetched[0] == fetched[1]
