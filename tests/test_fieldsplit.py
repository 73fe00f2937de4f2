"""The preconditioner of saddle points: flow on a staggered grid, with pressures and velocities."""

import copy
import pickle
import re

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import spmvgpu as sg
from battery import COMPLEX_TYPES, TYPES, vector
from spmvgpu import gallery, linalg
from support import naming


def divergence(n):
    """From the faces across both axes to the cells, with open borders."""
    along = sp.diags_array([-1.0, 1.0], offsets=[0, 1], shape=(n, n + 1))
    eye = sp.eye_array(n)
    return sp.hstack([sp.kron(along, eye), sp.kron(eye, along)], format="csr")


def saddle_point(K, B, C=None):
    return sp.csr_array(sp.block_array([[K, B.T], [B, C]]))


def stokes(n):
    """Diffusion of both velocities, and the pressure."""
    faces = sp.kronsum(gallery.poisson1d(n), gallery.poisson1d(n + 1))
    others = sp.kronsum(gallery.poisson1d(n + 1), gallery.poisson1d(n))
    return saddle_point(sp.block_diag([faces, others]), divergence(n))


def darcy(n):
    """Flow through rock with another permeability in each place, whose first block is diagonal."""
    faces = 2 * n * (n + 1)
    K = sp.diags_array(10.0 ** np.random.default_rng(1).uniform(-1, 1, faces))
    return saddle_point(K, divergence(n))


def parts_of(n):
    return {"u": slice(0, 2 * n * (n + 1)), "p": slice(2 * n * (n + 1), None)}


def exact(block):
    return linalg.splu(block.to("cpu"))


def op_of(A, device):
    return sg.aslinearoperator(A, device=device)


def iterations(solver, op, M, rtol=1e-8):
    _, info = getattr(linalg, solver)(op, np.ones(op.shape[0]), rtol=rtol, M=M)
    assert info == 0
    return op.solve_info.iterations


@pytest.mark.parametrize(("kind", "most"), [("upper", 2), ("lower", 2), ("full", 1), ("diagonal", 3)])
def test_exact_solves(kind, most, device):
    n, A = 6, stokes(6)
    op, p = op_of(A, device), parts_of(6)
    K, B = A[p["u"]][:, p["u"]], A[p["p"]][:, p["u"]]
    S = sp.csr_array(-(B @ np.linalg.solve(K.toarray(), B.T.toarray())))
    for schur, inner in ((S, exact), (op_of(S, device), exact)):
        M = linalg.fieldsplit(op, p, {"u": exact, "p": inner}, kind=kind, schur=schur)
        assert iterations("gmres", op, M) <= most
        if kind == "diagonal":
            assert iterations("minres", op, M) <= most
    assert repr(M).replace("\n", " ").count(f"{kind}, of 'u' and 'p'") == 1
    assert M.parts["p"].tolist() == list(range(2 * n * (n + 1), len(op.diagonal())))


@pytest.mark.parametrize("kind", ["upper", "lower", "full", "diagonal"])
def test_is_the_product_of_its_factors(kind, device):
    """For unknowns in any order, columns, all types, the adjoint, and copies."""
    for dtype in (*TYPES, *COMPLEX_TYPES):
        with naming(dtype=dtype):
            A = stokes(4) + 0.1 * sp.eye_array(56)
            turn = 0.2j * (A - sp.diags_array(A.diagonal())) if dtype.kind == "c" else 0 * A
            A = sp.csr_array(A + turn).astype(dtype)
            order = np.random.default_rng(3).permutation(56)
            parts = {"u": order[:40], "p": order[40:]}
            permuted = sp.csr_array(
                sp.coo_array((sp.coo_array(A).data, order[np.stack(sp.coo_array(A).coords)]))
            )
            S = (2 * sp.eye_array(16)).astype(dtype)
            M = linalg.fieldsplit(op_of(permuted, device), parts, kind=kind, schur=S)
            dense = A.toarray()
            P, Q = np.diag(1 / dense.diagonal()[:40]), np.eye(16) / 2
            up, low = dense[:40, 40:], dense[40:, :40]
            right = np.block([[np.eye(40), -P @ up], [np.zeros((16, 40)), np.eye(16)]])
            left = np.block([[np.eye(40), np.zeros((40, 16))], [-low @ P, np.eye(16)]])
            expected = np.block([[P, np.zeros((40, 16))], [np.zeros((16, 40)), Q]])
            expected = expected if kind in ("lower", "diagonal") else right @ expected
            expected = expected if kind in ("upper", "diagonal") else expected @ left
            close = {"rtol": 0, "atol": 100 * np.finfo(dtype).eps * np.abs(expected).max()}
            X = np.stack([vector(56, np.float64), np.ones(56)], axis=1)
            for made in (M, pickle.loads(pickle.dumps(M)), copy.copy(M)):
                np.testing.assert_allclose((made @ X)[order], expected @ X[order], **close)
            np.testing.assert_allclose((M.H @ X)[order], expected.conj().T @ X[order], **close)
            np.testing.assert_allclose((M.T @ X[:, 0])[order], expected.T @ X[order, 0], **close)


@pytest.mark.parametrize("kind", ["upper", "lower", "full", "diagonal"])
def test_iterations_hardly_depend_on_the_size(kind, device):
    counts = {}
    solver = "minres" if kind == "diagonal" else "gmres"
    for n in (20, 40):
        op = op_of(stokes(n), device)
        schur = -sp.eye_array(n * n)
        M = linalg.fieldsplit(op, parts_of(n), {"u": "amg"}, kind=kind, schur=schur)
        counts["stokes", n] = iterations(solver, op, M)
        op = op_of(darcy(n), device)
        M = linalg.fieldsplit(op, parts_of(n), {"p": "amg"}, kind=kind)
        counts["darcy", n] = iterations(solver, op, M)
        assert iterations(solver, op, None, 0.5) > 0
    for name in ("stokes", "darcy"):
        assert counts[name, 40] <= 1.4 * counts[name, 20] + 2, counts
        assert counts[name, 40] < 60, counts


def test_forms_of_indices(device):
    op, n, b = op_of(stokes(4), device), 4, np.arange(56.0)
    wanted = linalg.fieldsplit(op, parts_of(n)) @ b
    mask = np.arange(56) < 40
    for u, p in (
        (mask, ~mask),
        (mask.tolist(), np.flatnonzero(~mask)),
        (range(40), list(range(40, 56))),
        (np.arange(40, dtype=np.uint8), slice(-16, None)),
    ):
        np.testing.assert_array_equal(linalg.fieldsplit(op, {"u": u, "p": p}) @ b, wanted)


def test_preconditioners_of_parts(device):
    """What is given in the place of a name: functions, objects, arrays, and other libraries' operators."""
    A = darcy(8)
    op, parts, faces = op_of(A, device), parts_of(8), 144
    K, B = A[:faces, :faces], A[faces:, :faces]
    S = sp.csr_array(B @ sp.diags_array(1 / K.diagonal()) @ B.T)
    wanted = iterations("gmres", op, linalg.fieldsplit(op, parts, {"u": "jacobi", "p": exact}))
    assert wanted <= 3
    inverse = np.linalg.inv(-S.toarray())
    for of_u in (
        linalg.jacobi,
        1 / K.diagonal(),
        linalg.jacobi(op_of(K, device)),
        spla.aslinearoperator(sp.diags_array(1 / K.diagonal())),
    ):
        for of_p in (inverse, op_of(inverse, device), spla.aslinearoperator(inverse)):
            M = linalg.fieldsplit(op, parts, {"u": of_u, "p": of_p})
            assert iterations("gmres", op, M) <= wanted
    with pytest.raises(ValueError, match="schur is for"):
        linalg.fieldsplit(op, parts, {"p": inverse}, schur=-S)


def test_single_precision(device):
    op = op_of(darcy(8), device)
    M = linalg.fieldsplit(op.astype(np.float32), parts_of(8), {"p": exact})
    assert iterations("gmres", op, M) <= 10


def test_new_values(device):
    A, b = darcy(6), np.arange(1.0, 121.0)
    new = A.copy()
    new.data = A.data * (1 + 0.5 * np.cos(np.arange(A.nnz)))
    M = linalg.fieldsplit(op_of(A, device), parts_of(6), {"p": "ilu0"}, kind="full")
    adjoint, old = M.H, M @ b
    for values in (new, new.data):
        M.update_values(A)
        np.testing.assert_array_equal(M @ b, old)
        M.update_values(values)
        made = linalg.fieldsplit(op_of(new, device), parts_of(6), {"p": "ilu0"}, kind="full")
        np.testing.assert_array_equal(M @ b, made @ b)
        np.testing.assert_array_equal(adjoint @ b, made.H @ b)
    with pytest.raises(TypeError, match="does not know"):
        pickle.loads(pickle.dumps(M)).update_values(A)
    wrong = new.copy()
    wrong.data[wrong.indptr[:-1]] = np.nan
    with pytest.raises((ValueError, np.linalg.LinAlgError)):
        M.update_values(wrong)
    np.testing.assert_array_equal(M @ b, made @ b)


EYE = sp.eye_array(6)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"parts": {"u": slice(0, 3)}}, TypeError, "two names"),
        ({"parts": [slice(0, 3), slice(3, 6)]}, TypeError, "parts="),
        ({"parts": {"u": [0, 1], "p": [3, 4, 5]}}, ValueError, "unknown 2 is in them 0 times"),
        ({"parts": {"u": [0, 1, 2, 3], "p": [3, 4, 5]}}, ValueError, "unknown 3 is in them 2 times"),
        (
            {"parts": {"u": [0, 1, 2], "p": [3, 4, 6]}},
            ValueError,
            "parts['p'] is not allowed",
        ),
        ({"parts": {"u": [-1, 1, 2], "p": [3, 4, 0]}}, ValueError, "parts['u'] is not allowed"),
        ({"parts": {"u": [0.0, 1, 2], "p": [3, 4, 5]}}, ValueError, "integers from 0 to 5"),
        ({"parts": {"u": [True, False], "p": [3, 4, 5]}}, ValueError, "mask of 6 entries"),
        ({"parts": {"u": slice(0, 6), "p": []}}, ValueError, "parts['p'] is not"),
        ({"parts": {"u": slice(0, 6), "p": slice(6, 6)}}, ValueError, "one at least"),
        ({"kind": "both"}, ValueError, "kind='both'"),
        ({"M": "amg"}, ValueError, "M='amg'"),
        ({"M": {"v": "amg"}}, ValueError, "preconditioners for u, p"),
        ({"M": {"u": "amgg"}}, ValueError, "M['u'] cannot be used: M='amgg'"),
        ({"M": {"p": None}}, TypeError, "M['p'] cannot be used"),
        ({"M": {"p": np.ones(4)}}, ValueError, "M['p'] cannot be used"),
        ({"M": {"u": sp.eye_array(4)}}, ValueError, "M['u'] cannot be used: M has shape (4, 4)"),
        ({"schur": sp.eye_array(4)}, ValueError, "schur cannot be used: it has shape (4, 4)"),
        ({"A": np.ones((6, 5))}, ValueError, "square"),
        ({"A": sp.diags_array([1.0, 1, 0, 1, 1, 1])}, np.linalg.LinAlgError, "part|give schur"),
    ],
)
def test_refusals(arguments, error, words):
    given = {"A": EYE, "parts": {"u": slice(0, 3), "p": slice(3, 6)}, **arguments}
    with pytest.raises(error, match=words if "|" in words else re.escape(words)):
        linalg.fieldsplit(**given)
