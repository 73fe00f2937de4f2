"""The table of doors over ranks: kinds of rows and of pieces, where every rank has a copy of the system."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from doors import BOTH, COLUMN, FLAT, MANY, MATRICES, PLAIN, PRECISE, VALUES, VECTORS, N, inverse, solved
from ranks import COMM
from spmvgpu import distributed
from test_doors import numbers, shape_name

DENSE = PLAIN.toarray()
COPIES = sp.block_diag([PLAIN] * COMM.size, format="csr")
OWN = COPIES[N * COMM.rank : N * (COMM.rank + 1)]

# What multiplies a piece, the matrix that stands for it, and the shapes of pieces.
DOORS = {
    "@": (lambda op, x: op @ x, DENSE, (FLAT, COLUMN, MANY)),
    "dot": (lambda op, x: op.dot(x), DENSE, (FLAT, COLUMN, MANY)),
    "matvec": (lambda op, x: op.matvec(x), DENSE, (FLAT, COLUMN)),
    "rmatvec": (lambda op, x: op.rmatvec(x), DENSE, (FLAT, COLUMN)),
    "matmat": (lambda op, x: op.matmat(x), DENSE, (COLUMN, MANY)),
    "rmatmat": (lambda op, x: op.rmatmat(x), DENSE, (COLUMN, MANY)),
    **{
        name: (lambda op, x, name=name: solved(name, op, x), inverse(DENSE), (FLAT, COLUMN, MANY))
        for name in PRECISE
    },
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", VECTORS)
def test_pieces(door, name):
    (call, matrix, shapes), kind = DOORS[door], VECTORS[name]
    plain = VALUES if kind.plain is None else kind.plain
    op = distributed.aslinearoperator(OWN, COMM)
    if op.device == "cpu" and kind.library == "cupy":
        pytest.skip("arrays of CuPy are on a GPU, and never beside an operator on the CPU")
    given = kind.make(plain, "cpu")
    if kind.error is not None:
        with pytest.raises(BOTH, match=f"{kind.words}|shape|columns"):
            call(op, given)
    elif shape_name(plain) not in shapes:
        with pytest.raises(ValueError, match=r"shape|columns"):
            call(op, given)
    elif plain.dtype.kind == "c" and door in PRECISE:
        with pytest.raises(TypeError, match="b has dtype complex"):
            call(op, given)
    else:
        result = numbers(call(op, given)).reshape(plain.shape)
        np.testing.assert_allclose(result, matrix @ plain, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", [name for name, kind in MATRICES.items() if kind.plain is None])
def test_rows(name):
    """SciPy's matrices and arrays of NumPy; other libraries hold whole matrices, and no rows of a rank."""
    kind = MATRICES[name]
    given = kind.make(OWN, "cpu") if "op" not in name and name != "two parts" else None
    is_taken = sp.issparse(given) or (isinstance(given, np.ndarray) and given.ndim == 2)
    if is_taken and given.dtype != object:
        op = distributed.aslinearoperator(given, COMM)
        np.testing.assert_allclose(numbers(op @ VALUES), DENSE @ VALUES, rtol=1e-5)
    else:
        with pytest.raises(BOTH, match=r"A_local must be|dtype object"):
            distributed.aslinearoperator(given, COMM)
