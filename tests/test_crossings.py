"""How few calls between Python and the core make an operator; ``python tools/crossings.py`` shows them."""

import numpy as np
import pytest
import scipy.sparse as sp

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
    "H": lambda op: op.H,
    "conj": lambda op: op.conj(),
    "astype": lambda op: op.astype(np.complex64),
    "copy": lambda op: op.copy(),
    "negative": lambda op: -op,
    "multiple": lambda op: 2 * op,
    "quotient": lambda op: op / 3,
    "sum": lambda op: op + sp.eye_array(2025, format="csr"),
    "rows": lambda op: op[5:50],
    "listed rows": lambda op: op[[5, 3, 3]],
    "columns": lambda op: op[:, 5:50],
    "listed columns": lambda op: op[5:50, [5, 3, 3]],
    "trace": lambda op: op.trace(),
    "without_zeros": lambda op: op.without_zeros(),
    "explain": lambda op: op.explain(),
    "composed": lambda op: sg.aslinearoperator(2 * (op.T @ op) + op**2, device=op.device),
    "to": lambda op: op.to([op.device] if isinstance(op.device, str) else op.device[0]),
    "diagonal": lambda op: op.diagonal(),
    "update_values": lambda op: op.update_values(np.ones(op.nnz)),
    "update_values of one of two": lambda op: op.T.update_values(np.ones(op.nnz)),
}


@pytest.mark.parametrize("is_listed", [False, True])
@pytest.mark.parametrize("name", MADE)
def test_what_is_made_of_an_operator_is_made_on_its_device(crossings, device, name, is_listed):
    """Also over a list of one device; a matrix over several comes to host memory for most of this."""
    A = (1 + 2j) * gallery.poisson2d(45)
    A.data[1] = 7
    op = sg.aslinearoperator(A, device=[device] if is_listed else device)
    with crossings.counted() as counts:
        MADE[name](op)
    assert counts["CsrSource.to_csr"] == counts["Matrix.to_csr"] == 0


def test_a_list_of_one_device_has_its_hierarchy_there(crossings, device):
    counted = []
    for listed in (device, [device]):
        op = sg.aslinearoperator(gallery.poisson2d(45), device=listed)
        with crossings.counted() as counts:
            sg.linalg.amg(op)
        counted.append({name: count for name, count in counts.items() if name.endswith(".to_csr")})
    assert counted[0] == counted[1]
