"""Whatever is made of an operator multiplies rightly, and keeps the values that it was made with."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import spmvgpu as sg
from support import explained, naming

N = 14
DOUBLE, SINGLE = np.dtype("complex128"), np.dtype("complex64")
ROOMY = {"tsmv": {"max_memory": 1e6}, "dia": {"max_padding": 1e6}, "sdia": {"max_padding": 1e6}}
ON_ONE_DEVICE = {"partitioned": {"separator": 4}, "ellpack": {"reorder": "rcm"}}


def values(kind):
    """A dense matrix with zeros in a symmetric pattern."""
    rng = np.random.default_rng(3)
    real, imag = rng.uniform(1, 2, (2, N, N)).round(2)
    pattern = np.abs(np.subtract.outer(np.arange(N), np.arange(N))) <= 3
    general = (real + 1j * imag * kind.startswith("complex")) * pattern
    if kind.endswith("hermitian"):
        general = general + general.conj().T
    elif kind.endswith("symmetric"):
        general = general + general.T
    return general


#: Kinds of matrices, and what may be said of them.
KINDS = {
    "real": [None, False],
    "complex": [None, False],
    "real symmetric": [None, False, True, "hermitian"],
    "complex symmetric": [None, False, True],
    "complex hermitian": [None, False, "hermitian"],
}

FOREIGN = spla.aslinearoperator(np.diag(np.arange(1.0, N + 1)) + np.eye(N, k=1))
FOREIGN_DENSE = np.diag(np.arange(1.0, N + 1)) + np.eye(N, k=1)

#: Operations: with operators, and with arrays where that is not the same.
MADE = {
    "itself": lambda A: A,
    "minus": lambda A: -A,
    "copy": (lambda op: op.copy(), lambda A: A),
    "pickle": (lambda op: pickle.loads(pickle.dumps(op)), lambda A: A),
    "conj": lambda A: A.conj(),
    "T": lambda A: A.T,
    "H": (lambda op: op.H, lambda A: A.conj().T),
    "T.H": (lambda op: op.T.H, lambda A: A.conj()),
    "to several": (lambda op: op.to(["cpu", "cpu"]), lambda A: A),
    "to one": (lambda op: op.to("cpu"), lambda A: A),
    "float32": lambda A: A.astype(SINGLE if A.dtype.kind == "c" else np.float32),
    "complex64": lambda A: A.astype(np.complex64),
    "complex128": lambda A: A.astype(np.complex128),
    "everything": (lambda op: op[:], lambda A: A),
    "backwards": (lambda op: op[::-1], lambda A: A[::-1]),
    "from both ends": (lambda op: op[::-1][:, ::-1], lambda A: A[::-1, ::-1]),
}
FACTORS = [
    *(3, -0.5, 1j, 2 - 1j, 2 + 0j, True, 0),
    *(kind(2) for kind in (np.float16, np.float32, np.float64, np.longdouble, np.int8, np.uint32, np.bool_)),
    *(kind(1 + 2j) for kind in (np.complex64, np.complex128, np.clongdouble)),
    *(np.array(2.0), np.array(1j, np.complex64), np.array(3)),
]
for factor in FACTORS:
    name = f"{type(factor).__name__} {factor}"
    MADE[f"{name} * A"] = lambda A, factor=factor: factor * A
    MADE[f"A * {name}"] = lambda A, factor=factor: A * factor
    if factor:
        MADE[f"A / {name}"] = lambda A, factor=factor: A / factor

# Python asks the other object, which keeps the operator itself and has its new values.
FOLLOWING = ["other @ A", "other + A"]
COMPOSED = {
    "A + A": lambda A: A + A,
    "A - 2 A": lambda A: A - 2 * A,
    "A + A.T": lambda A: A + A.T,
    "j A + A": lambda A: 1j * A + A,
    "A @ A": lambda A: A @ A,
    "A.T @ A": lambda A: A.T @ A,
    "A.H @ A": (lambda op: op.H @ op, lambda A: A.conj().T @ A),
    "A ** 2": (lambda op: op**2, lambda A: A @ A),
    "A ** 0": (lambda op: op**0, lambda A: np.eye(N)),
    "A @ A.T": lambda A: A @ A.T,
    "(A.T @ A).H": (lambda op: (op.T @ op).H, lambda A: (A.T @ A).conj().T),
    "(A.T @ A).H @ A.T + A": (lambda op: (op.T @ op).H @ op.T + op, lambda A: (A.T @ A).conj().T @ A.T + A),
    "((A + A) / 2j @ A).T": lambda A: ((A + A) / 2j @ A).T,
    "j (A + A)": lambda A: 1j * (A + A),
    "-(A @ A) / 2j": lambda A: -(A @ A) / 2j,
    "A @ other": (lambda op: op @ FOREIGN, lambda A: A @ FOREIGN_DENSE),
    "other @ A": (lambda op: FOREIGN @ op, lambda A: FOREIGN_DENSE @ A),
    "other + A": (lambda op: FOREIGN + op, lambda A: A + FOREIGN_DENSE),
    "A + other": (lambda op: op + FOREIGN, lambda A: A + FOREIGN_DENSE),
    "other - A": (lambda op: FOREIGN - op, lambda A: FOREIGN_DENSE - A),
}


def pair(operation):
    return operation if isinstance(operation, tuple) else (operation, operation)


def close(found, expected, single):
    """As `assert_allclose`, in a tenth of the time."""
    tolerance = 1e-4 if single else 1e-12
    assert found.shape == expected.shape
    error, scale = abs(found - expected).max(initial=0), abs(expected).max(initial=1)
    assert error <= tolerance * scale, f"{error} is too large an error, of {scale}"


RANDOM = np.random.default_rng(8)
X = RANDOM.uniform(-1, 1, (N, 2)) + 1j * RANDOM.uniform(-1, 1, (N, 2))


def check(op, dense, single):
    """All products of the operator, of what it is transposed, and what it says that it holds."""
    x, adjoint = X[:, 0], dense.conj().T
    close(op @ X, dense @ X, single)
    close(op.matvec(x), dense @ x, single)
    close(op @ x.real, dense @ x.real, single)
    close(op.rmatvec(x), adjoint @ x, single)
    close(op.rmatmat(X), adjoint @ X, single)
    close(op.T @ x, dense.T @ x, single)
    close(op.H.rmatvec(x), dense @ x, single)
    if isinstance(op, sg.SparseOperator):
        close(op.toarray(), dense, single)
        close(op.T.toarray(), dense.T, single)
        assert op.T.T is op
        assert op.H.H is op


def operator(kind, said, fmt, device, single):
    """The operator and the matrix; None where the format does not hold it."""
    dense = values(kind)
    if not kind.startswith("complex"):
        dense = dense.real
    if single:
        dense = dense.astype(SINGLE if kind.startswith("complex") else np.float32)
    options = {"powers": [2, 1][: len(device)]} if isinstance(device, list) else ON_ONE_DEVICE.get(fmt, {})
    A = sp.csr_array(dense)
    try:
        return sg.aslinearoperator(
            A, fmt, device, symmetric=said, **options, **ROOMY.get(fmt, {})
        ), A.toarray()
    except sg.FormatError:
        return None, dense


CASES = [(kind, said) for kind, allowed in KINDS.items() for said in allowed]
SPREAD = ["one", "several", "a list of one"]


def devices_of(device, spread):
    return {"one": device, "several": [device, "cpu"], "a list of one": [device]}[spread]


# Formats that depend on what is declared, and one that does not, are tested with every operation, the others
# with each of them once in a while.
SYMMETRIC_FORMATS = ["csr", "tsmv", "sdia"]


@pytest.mark.parametrize("spread", SPREAD)
@pytest.mark.parametrize("fmt", [*sg.formats(), "auto", "partitioned"])
@pytest.mark.parametrize(("number", "kind", "said"), [(number, *case) for number, case in enumerate(CASES)])
def test_every_operation(number, kind, said, fmt, device, spread):
    single = (number + len(fmt)) % 2 == 0  # the types take turns
    op, dense = operator(kind, said, fmt, devices_of(device, spread), single)
    if op is None:
        return
    operations = list({**MADE, **COMPOSED}.items())
    if spread != "one" or fmt not in SYMMETRIC_FORMATS:
        operations = operations[(number + len(fmt)) % 15 :: 15]
    for name, operation in operations:
        with_op, with_array = pair(operation)
        if name == "complex128" and dense.dtype == SINGLE:
            continue
        rounds = single or name in ("float32", "complex64")
        with naming(operation=name):
            made, expected = with_op(op), with_array(dense)
            check(made, expected, rounds)
            if made is op:
                continue
            data = op.tocsr().data
            op.update_values(3 * data)
            expected = with_array(3 * dense) if name in FOLLOWING else expected
            close(made @ X, expected @ X, rounds)
            close(made.rmatvec(X[:, 0]), expected.conj().T @ X[:, 0], rounds)
            close(with_op(op) @ X, with_array(3 * dense) @ X, rounds)
            op.update_values(data)


@pytest.mark.parametrize("fmt", ["tsmv", "sdia"])
@pytest.mark.parametrize(("factor", "stays"), [(-2.0, True), (2 + 0j, True), (1j, False), (1 - 1j, False)])
@pytest.mark.parametrize("spread", SPREAD[:1])
def test_half_of_a_matrix_gives_way_to_its_multiples(fmt, factor, stays, device, spread):
    """A format that was asked for holds what it can; the values that its operator is given, it must hold."""
    op, dense = operator("complex hermitian", None, fmt, device, False)
    made = factor * op
    assert made.format == (fmt if stays else "csr")
    assert stays or f"{fmt} cannot hold" in explained(made)
    assert (made.H is made) == stays
    unknown = np.nan * op  # in whatever format
    np.testing.assert_array_equal(np.isnan(unknown.toarray()), dense != 0)
    with pytest.raises(sg.FormatError):
        op.update_values(1j * op.tocsr().data)
    assert op.format == fmt


def test_a_real_symmetric_matrix_that_became_complex(device):
    """It is symmetric and Hermitian, until its values are one of the two."""
    A = sp.csr_array(values("real symmetric").real)
    op = sg.aslinearoperator(A, device=device, symmetric=True).astype(DOUBLE)
    assert op.T is op
    assert op.H is op
    for data, is_symmetric, is_hermitian in (
        (3 * A.data, True, True),
        (1j * A.data, True, False),
        (sp.csr_array(values("complex hermitian")).data, False, True),
    ):
        made = op.copy()
        made.update_values(data)
        assert (made.T is made, made.H is made) == (is_symmetric, is_hermitian)
        check(made, sp.csr_array((data, A.indices, A.indptr), shape=A.shape).toarray(), False)
    with pytest.raises(ValueError, match=r"neither symmetric nor Hermitian: entry"):
        op.update_values(1j * np.arange(A.nnz))
    check(op, A.toarray(), False)
    assert op.H is op
