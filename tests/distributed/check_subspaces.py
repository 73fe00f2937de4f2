"""Least squares, null spaces, eigenvalues and singular values over ranks, beside those of one process."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import spmvgpu as sg
from battery import vector
from ranks import COMM, DIVISIONS, HOST, divided, each_division, operator, piece
from spmvgpu import distributed, gallery, linalg
from support import in_turn
from systems import turned

LAST = COMM.size - 1
several = pytest.mark.skipif(COMM.size == 1, reason="takes two ranks")


def own(ranges, x, side=HOST):
    return side.send(piece(x, ranges))


def whole(ranges, x, side=HOST):
    return ranges.gather(np.ascontiguousarray(side.fetch(x)), root=None)


def rectangle(rows=90, cols=60, dtype=np.float64):
    """A matrix of full rank, most of whose entries are near the diagonal."""
    rng = np.random.default_rng(5)
    A = sp.random_array((rows, cols), density=0.08, rng=rng) + 3 * sp.eye_array(rows, cols)
    if np.dtype(dtype).kind == "c":
        A = A + 1j * sp.random_array((rows, cols), density=0.05, rng=rng)
    return sp.csr_array(A).astype(dtype)


# Least squares


@pytest.mark.parametrize(
    ("division", "shape", "dtype"),
    in_turn(
        [*DIVISIONS, "even"], [(90, 60), (60, 90), (60, 90), (90, 60), (60, 60)], ["float64", "complex128"]
    ),
)
def test_least_squares(shape, division, dtype, side):
    A = rectangle(*shape, dtype)
    b, guess = vector(shape[0], A.dtype), vector(shape[1], A.dtype, seed=4)
    op, alone = operator(A, division, **side.options), sg.aslinearoperator(A, device="cpu")
    mine, start = own(op.row_ranges, b, side), own(op.col_ranges, guess, side)

    def check(found, expected):
        assert found[0].shape == (op.local_shape[1],)
        assert side.fetch(found[0]).dtype == A.dtype
        x, scale = whole(op.col_ranges, found[0], side), np.abs(expected[0]).max()
        np.testing.assert_allclose(x, expected[0], rtol=0, atol=1e-6 * scale)

    tight = {"atol": 1e-12, "btol": 1e-12}
    for damp, x0, of_ranks in ((0.0, None, None), (0.5, guess, start)):
        for solver in (linalg.lsqr, linalg.lsmr):
            found = solver(op, mine, damp=damp, x0=of_ranks, **tight)
            expected = solver(alone, b, damp=damp, x0=x0, **tight)
            check(found, expected)
            assert found[1] == expected[1]
            np.testing.assert_allclose(found[3:8], expected[3:8], rtol=0.2, atol=1e-8)
            assert COMM.allgather(found[1:8]) == [found[1:8]] * COMM.size
        found = linalg.cgls(op, mine, of_ranks, damp=damp, rtol=1e-12)
        check(found, linalg.cgls(alone, b, x0, damp=damp, rtol=1e-12))
        assert found[1] == 0
    var = linalg.lsqr(op, mine, calc_var=True, damp=0.1, iter_lim=10)[-1]
    expected = linalg.lsqr(alone, b, calc_var=True, damp=0.1, iter_lim=10)[-1]
    np.testing.assert_allclose(whole(op.col_ranges, var, side), expected, rtol=1e-6)


def test_least_squares_twice_gives_the_same_bits():
    A = rectangle()
    op = operator(A, "uneven")
    b = own(op.row_ranges, vector(90, A.dtype))
    np.testing.assert_array_equal(linalg.lsqr(op, b)[0], linalg.lsqr(op, b)[0])


def test_least_squares_far_from_one():
    A, b = rectangle() * 2.0**300, vector(90, np.dtype(float)) * 2.0**-400
    op = operator(A)
    x = whole(op.col_ranges, linalg.lsmr(op, own(op.row_ranges, b), atol=1e-12, btol=1e-12)[0])
    expected = np.linalg.lstsq(A.toarray() / 2.0**300, b * 2.0**400)[0] * 2.0**-700
    np.testing.assert_allclose(x, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("name", ["lsqr", "lsmr", "cgls"])
def test_least_squares_for_several_columns(name, side):
    A, solver = rectangle(), getattr(linalg, name)
    op = operator(A, **side.options)
    B = own(op.row_ranges, np.random.default_rng(0).standard_normal((90, 3)), side)
    X, reasons, *_ = solver(op, B)
    assert X.shape == (op.local_shape[1], 3)
    assert reasons.shape == (3,)
    for j in range(3):
        np.testing.assert_array_equal(side.fetch(X)[:, j], side.fetch(solver(op, B[:, j])[0]))
    assert solver(op, B[:, :0])[0].shape == (op.local_shape[1], 0)


@pytest.mark.parametrize("name", ["lsqr", "lsmr", "cgls"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"b": np.ones(3)}, "b has shape"),
        ({"b": None}, "b must be an array"),
        ({"x0": np.ones(3)}, "x0 has shape"),
        ({"damp": "x"}, "damp="),
        ({"atol": -1}, "atol=-1"),
    ],
)
def test_what_one_rank_gives_least_squares_wrongly(name, arguments, message):
    op = operator(rectangle())
    given = {"b": np.ones(op.local_shape[0]), **(arguments if COMM.rank == LAST else {})}
    with pytest.raises((ValueError, TypeError), match=message):
        getattr(linalg, name)(op, **given)


@several
@pytest.mark.parametrize("arguments", [{"damp": 1.0}, {"atol": 0.5}, {"x0": 0}])
def test_least_squares_with_arguments_that_differ(arguments):
    op = operator(rectangle())
    if "x0" in arguments:
        arguments = {"x0": np.zeros(op.local_shape[1])}
    with pytest.raises(ValueError, match=r"on this rank and .* on rank 0; give the same on all ranks"):
        linalg.lsqr(op, np.ones(op.local_shape[0]), **(arguments if COMM.rank == LAST else {}))
    with pytest.raises(ValueError, match="columns="):
        linalg.cgls(op, np.ones((op.local_shape[0], 2 + (COMM.rank == LAST))))


# Null spaces


def neumann(n):
    """A graph Laplacian, which maps constant vectors to zero."""
    path = sp.diags_array([-np.ones(n - 1)] * 2, offsets=[-1, 1])
    one = path - sp.diags_array(path.sum(axis=1))
    return sp.csr_array(sp.kron(one, sp.eye_array(n)) + sp.kron(sp.eye_array(n), one))


@pytest.mark.parametrize(
    ("solver", "division"), in_turn(["cg", "minres", "gmres", "bicgstab"], list(DIVISIONS))
)
def test_constant_null_space(solver, division, side):
    A = neumann(15)
    op, alone = operator(A, division, **side.options), sg.aslinearoperator(A, device="cpu")
    b = vector(225, A.dtype)
    options = {"nullspace": "constant", "rtol": 1e-9, "M": "jacobi"}
    x, info = getattr(linalg, solver)(op, own(op.row_ranges, b, side), **options)
    expected, _ = getattr(linalg, solver)(alone, b, **options)
    assert info == 0
    x = whole(op.row_ranges, x, side)
    assert abs(x.sum()) <= 1e-9 * np.abs(x).sum()
    np.testing.assert_allclose(x, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_null_space_of_several_vectors(dtype):
    A = sp.csr_array(sp.block_diag([neumann(8), neumann(9), neumann(2)]).astype(dtype))
    labels = np.repeat([0, 1, 2], [64, 81, 4])
    basis = np.eye(3)[labels] @ np.array([[1.0, 2, 0], [0, 1e3, 1], [5, 0, 1]])
    op, b = operator(A, "uneven"), vector(A.shape[0], A.dtype)
    given = own(op.row_ranges, basis)
    x, info = linalg.cg(op, own(op.row_ranges, b), nullspace=given, x0=own(op.row_ranges, b), rtol=1e-9)
    assert info == 0
    expected, _ = linalg.cg(sg.aslinearoperator(A, device="cpu"), b, nullspace=basis, rtol=1e-9)
    x = whole(op.row_ranges, x)
    np.testing.assert_allclose(x, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    np.testing.assert_allclose(basis.T @ x, 0, atol=1e-7 * np.abs(basis).max() * np.abs(x).sum())
    X, infos = linalg.cg(op, own(op.row_ranges, np.stack([b, 2 * b], axis=1)), nullspace=given, rtol=1e-9)
    assert not infos.any()
    np.testing.assert_allclose(whole(op.row_ranges, X)[:, 1], 2 * x, rtol=0, atol=1e-5 * np.abs(x).max())


def test_null_spaces_that_are_none():
    A = gallery.poisson2d(15)
    op, b = operator(A), np.ones(operator(A).local_shape[0])
    with pytest.raises(ValueError, match="nullspace is not in the null space"):
        linalg.cg(op, b, nullspace="constant")
    dependent = np.ones((len(b), 2))
    with pytest.raises(ValueError, match="not independent"):
        linalg.cg(op, b, nullspace=dependent)
    on_last = COMM.rank == LAST
    with pytest.raises(ValueError, match="nullspace='linear' is not allowed"):
        linalg.cg(op, b, nullspace="linear" if on_last else "constant")
    with pytest.raises(ValueError, match="nullspace has shape"):
        linalg.cg(op, b, nullspace=np.ones(len(b) + on_last))
    if COMM.size > 1:
        with pytest.raises(ValueError, match="nullspace is None=True"):
            linalg.cg(op, b, nullspace=None if on_last else "constant")
        with pytest.raises(ValueError, match="number of vectors in nullspace=2"):
            linalg.cg(op, b, nullspace=np.ones((len(b), 1 + on_last)))
    assert linalg.cg(op, b)[1] == 0


def test_solve_with_a_null_space():
    A = neumann(20)
    op, b = operator(A), vector(400, A.dtype)
    x = whole(op.row_ranges, linalg.solve(op, own(op.row_ranges, b), nullspace="constant"))
    b -= b.mean()
    assert np.linalg.norm(b - A @ x) <= 1.01e-8 * np.linalg.norm(b)


# Eigenvalues


def eigenvalue_problem(dtype=np.float64):
    A = gallery.poisson3d(6, 7) - 2.5 * sp.eye_array(gallery.poisson3d(6, 7).shape[0])
    return sp.csr_array(turned(A) if np.dtype(dtype).kind == "c" else A).astype(dtype)


def check_pairs(A, op, w, v, expected, tol, side=HOST):
    w = side.fetch(w)
    np.testing.assert_allclose(w, expected, rtol=0, atol=tol * np.abs(expected).max())
    assert COMM.allgather(w.tolist()) == [w.tolist()] * COMM.size
    assert v.shape == (op.local_shape[0], len(w))
    v = whole(op.row_ranges, v, side)
    np.testing.assert_allclose(v.conj().T @ v, np.eye(len(w)), atol=10 * tol)
    np.testing.assert_allclose(A @ v, v * w, rtol=0, atol=100 * tol * np.abs(expected).max())


@pytest.mark.parametrize(("which", "division"), in_turn(["LM", "LA", "SA", "SM", "BE"], list(DIVISIONS)))
def test_eigenvalues(which, division, side):
    A = eigenvalue_problem()
    op = operator(A, division, **side.options)
    options = {"k": 5, "which": which, "v0": own(op.row_ranges, vector(A.shape[0], A.dtype), side)}
    w, v = linalg.eigsh(op, **options)
    check_pairs(A, op, w, v, linalg.eigsh(A, 5, which=which, return_eigenvectors=False), 1e-10, side)
    again = linalg.eigsh(op, **options, return_eigenvectors=False)
    np.testing.assert_array_equal(side.fetch(again), side.fetch(w))


@pytest.mark.parametrize(("dtype", "tol"), [("float32", 1e-4), ("complex64", 1e-4), ("complex128", 1e-10)])
def test_types_of_eigenvalues(dtype, tol):
    A = eigenvalue_problem(dtype)
    op = operator(A)
    w, v = linalg.eigsh(op, k=2, which="LA")
    assert v.dtype == A.dtype
    check_pairs(A, op, w, v, linalg.eigsh(A, k=2, which="LA", return_eigenvectors=False), tol)


def test_copies_of_eigenvalues():
    A = sp.csr_array(sp.diags_array(np.repeat([5.0, 4.0, 1.0], [3, 2, 60])))
    op = operator(A, "uneven")
    np.testing.assert_allclose(linalg.eigsh(op, k=5, return_eigenvectors=False), [4, 4, 5, 5, 5])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sigma": -0.5, "preconditioner": "jacobi"},
        {"inner": "cg", "preconditioner": "ic0", "sigma": -1.0},
    ],
    ids=str,
)
def test_smallest_eigenvalues_by_inverses(options, side):
    A = gallery.poisson2d(14)
    op = operator(A, **side.options)
    v0 = own(op.row_ranges, vector(196, A.dtype), side)
    w, v = linalg.eigsh(op, k=3, v0=v0, **{"sigma": 0.0, **options})
    check_pairs(A, op, w, v, np.linalg.eigvalsh(A.toarray())[:3], 1e-9, side)


def test_eigenvalues_near_a_shift():
    A = gallery.poisson2d(7, 8)
    op = operator(A, "uneven")
    values = np.linalg.eigvalsh(A.toarray())
    expected = np.sort(values[np.argsort(abs(values - 2.05))[:4]])
    w, v = linalg.eigsh(op, k=4, sigma=2.05, tol=1e-9)
    check_pairs(A, op, w, v, expected, 1e-8)
    inverse = operator(sp.csr_array(np.linalg.inv(A.toarray() - 2.05 * np.eye(56))), "uneven")
    w, v = linalg.eigsh(op, k=4, sigma=2.05, OPinv=inverse)
    check_pairs(A, op, w, v, expected, 1e-9)


def test_generalized_eigenvalues(side):
    A = gallery.poisson2d(7, 8)
    M = sp.csr_array(sp.diags_array([1.0, 4.0, 1.0], offsets=[-1, 0, 1], shape=A.shape) / 6)
    op, mass = (operator(matrix, **side.options) for matrix in (A, M))
    v0 = own(op.row_ranges, vector(56, A.dtype), side)
    w, v = linalg.eigsh(op, 3, mass, v0=v0)
    np.testing.assert_allclose(side.fetch(w), linalg.eigsh(A, 3, M)[0], rtol=1e-10)
    inverse = operator(sp.csr_array(np.linalg.inv(A.toarray() - 2.05 * M.toarray())), **side.options)
    w, v = linalg.eigsh(op, 3, mass, 2.05, v0=v0, OPinv=inverse)
    np.testing.assert_allclose(side.fetch(w), linalg.eigsh(A, 3, M, 2.05)[0], rtol=1e-10)
    v = whole(op.row_ranges, v, side)
    np.testing.assert_allclose(v.T @ M @ v, np.eye(3), atol=1e-12)
    for sigma, given, message in ((None, M, "M is not distributed"), (2.05, mass, "over ranks; give OPinv")):
        with pytest.raises(TypeError, match=message):
            linalg.eigsh(op, 3, given, sigma)


def test_what_eigsh_refuses():
    A = gallery.poisson2d(9)
    op = operator(A)
    on_last = COMM.rank == LAST
    for options, message in (
        ({"sigma": 1.0, "inner": "direct"}, "inner='direct' needs the whole matrix in one process"),
        ({"sigma": 1.0, "preconditioner": "ic"}, "preconditioner cannot be used"),
        ({"which": "AB" if on_last else "LM"}, "which='AB'"),
        ({"v0": np.ones(op.local_shape[0] + on_last)}, "v0 has shape"),
        ({"v0": np.zeros(op.local_shape[0])}, "v0 is zero"),
    ):
        with pytest.raises(ValueError, match=message):
            linalg.eigsh(op, **options)
    with pytest.raises(TypeError, match="OPinv is not distributed"):
        linalg.eigsh(op, sigma=1.0, OPinv=sp.eye_array(op.local_shape[0]))
    with pytest.raises(TypeError, match="v0"):
        linalg.eigsh(op, v0="x" if on_last else None)
    with pytest.raises(spla.ArpackNoConvergence) as raised:
        linalg.eigsh(op, k=3, which="SM", maxiter=1, ncv=5)
    assert len(raised.value.eigenvectors) == op.local_shape[0]
    with pytest.raises(ValueError, match="needs a square one"):
        linalg.eigsh(operator(rectangle()))
    with pytest.raises(TypeError, match="A is distributed over ranks"):
        linalg.lobpcg(op, np.ones((op.local_shape[0], 2)))
    if COMM.size > 1:
        with pytest.raises(ValueError, match="k=4 on this rank and 3 on rank 0"):
            linalg.eigsh(op, k=3 + on_last)
        with pytest.raises(ValueError, match="v0 is None="):
            linalg.eigsh(op, v0=np.ones(op.local_shape[0]) if on_last else None)
    assert linalg.eigsh(op, k=1).__len__() == 2


# Singular values


@pytest.mark.parametrize(
    ("division", "shape", "dtype"),
    in_turn(
        [*DIVISIONS, *DIVISIONS][:5], [(90, 60), (60, 90)], ["float64", "float64", "complex128", "complex128"]
    ),
)
def test_singular_values(shape, division, dtype, side):
    A = rectangle(*shape, dtype)
    op = operator(A, division, **side.options)
    smaller = op.row_ranges if shape[0] < shape[1] else op.col_ranges
    v0 = own(smaller, vector(60, A.dtype), side)
    u, s, vh = map(side.fetch, linalg.svds(op, k=4, v0=v0))
    assert COMM.allgather(s.tolist()) == [s.tolist()] * COMM.size
    np.testing.assert_allclose(s, np.linalg.svd(A.toarray(), compute_uv=False)[3::-1], rtol=1e-10)
    assert (u.shape, vh.shape) == ((op.local_shape[0], 4), (4, op.local_shape[1]))
    u, v = whole(op.row_ranges, u), whole(op.col_ranges, np.ascontiguousarray(vh.conj().T))
    for vectors in (u, v):
        np.testing.assert_allclose(vectors.conj().T @ vectors, np.eye(4), atol=1e-10)
    np.testing.assert_allclose(A @ v, u * s, rtol=0, atol=1e-8 * s[-1])
    np.testing.assert_allclose(A.conj().T @ u, v * s, rtol=0, atol=1e-8 * s[-1])
    alone, _, nothing = linalg.svds(op, k=4, v0=v0, return_singular_vectors="u")
    np.testing.assert_array_equal(side.fetch(alone), own(op.row_ranges, u))
    assert nothing is None


def test_singular_values_that_are_zero():
    """Which takes eigenvectors of the larger product."""
    A = sp.csr_array(sp.diags_array([4.0, 3.0, 2.0, 0.0, 0.0], shape=(40, 5)))
    op = operator(A)
    u, s, vh = linalg.svds(op, k=5)
    np.testing.assert_allclose(s, [0, 0, 2, 3, 4], atol=1e-7)
    u = whole(op.row_ranges, u)
    np.testing.assert_allclose(u.T @ u, np.eye(5), atol=1e-10)
    v = whole(op.col_ranges, np.ascontiguousarray(vh.T))
    np.testing.assert_allclose(A.T @ u, v * s, atol=1e-7)


def test_smallest_singular_values_and_far_numbers():
    A = rectangle(40, 12)
    op = operator(A * 2.0**200, "last_has_all")
    expected = np.linalg.svd(A.toarray(), compute_uv=False)[:-4:-1] * 2.0**200
    s = linalg.svds(op, k=3, which="SM", return_singular_vectors=False)
    np.testing.assert_allclose(s, expected, rtol=1e-7)


def test_what_svds_refuses():
    op = operator(rectangle())
    on_last = COMM.rank == LAST
    with pytest.raises(ValueError, match="which='AB'"):
        linalg.svds(op, which="AB" if on_last else "LM")
    with pytest.raises(ValueError, match="v0 has shape"):
        linalg.svds(op, v0=np.ones(op.local_shape[1] + on_last))
    if COMM.size > 1:
        with pytest.raises(ValueError, match=r"on this rank and .* on rank 0; give the same"):
            linalg.svds(op, k=3, return_singular_vectors="u" if on_last else "vh")
    assert linalg.svds(op, k=1, return_singular_vectors=False) > 0


# The diagonal


@pytest.mark.parametrize("shape", [(70, 70), (70, 40), (40, 70)])
@each_division
def test_diagonal_of_ranges_that_differ(shape, division):
    A = rectangle(*shape, complex)
    rows, cols = divided(shape[0], division), divided(shape[1], "even")
    op = distributed.aslinearoperator(piece(A, rows), COMM, row_ranges=rows, col_ranges=cols)
    expected = A.diagonal()[rows.begin : rows.end]
    np.testing.assert_array_equal(op.diagonal(), expected)
    np.testing.assert_array_equal(op.conj().diagonal(), expected.conj())
    if rows != cols:
        with pytest.raises(ValueError, match="distributed differently"):
            op.T.diagonal()
