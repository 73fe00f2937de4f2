"""SciPy's solvers take the operator as it is. SciPy's own tests run on operators in test_peers.py."""

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import spmvgpu as sg
from battery import uniform, vector
from support import in_turn

A = sp.csr_array(sp.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(200, 200)))
TALL = uniform(120, 80, 9)
KRYLOV = {name: getattr(spla, name) for name in ("cg", "gmres", "bicgstab", "minres", "lgmres")}
# A matrix, what is found with an operator, and what it is.
FOUND = {
    **{
        name: (A, lambda op, b, f=f: f(op, b, rtol=1e-10)[0], lambda M, b: np.linalg.solve(M, b))
        for name, f in KRYLOV.items()
    },
    **{
        f.__name__: (
            TALL,
            lambda op, b, f=f: f(op, b, atol=1e-13, btol=1e-13)[0],
            lambda M, b: np.linalg.lstsq(M, b)[0],
        )
        for f in (spla.lsqr, spla.lsmr)
    },
    "eigsh": (
        A,
        lambda op, b: np.sort(spla.eigsh(op, k=3, return_eigenvectors=False, v0=b)),
        lambda M, b: np.linalg.eigvalsh(M)[-3:],
    ),
    "svds": (
        TALL,
        lambda op, b: np.sort(spla.svds(op, k=4, return_singular_vectors=False, v0=b[:80])),
        lambda M, b: np.linalg.svd(M, compute_uv=False)[3::-1],
    ),
}


@pytest.mark.parametrize(("name", "fmt"), in_turn(list(FOUND), ["csr", "sell", "coo", "hyb"]))
def test_scipy(name, fmt, device):
    matrix, find, expected = FOUND[name]
    b = vector(matrix.shape[0], np.dtype("float64"))
    op = sg.aslinearoperator(matrix, format=fmt, device=device)
    np.testing.assert_allclose(find(op, b), expected(matrix.toarray(), b), rtol=1e-6, atol=1e-7)
