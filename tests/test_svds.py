"""Singular values by the Lanczos method, compared with dense ones."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import spmvgpu as sg
from battery import COMPLEX_TYPES, TYPES, typed, uniform
from spmvgpu import gallery
from spmvgpu.linalg import eigsh, svds
from support import naming

MATRICES = {
    "1x1": lambda: sp.csr_array([[3.0]]),
    "column": lambda: sp.csr_array(np.arange(1.0, 8.0)[:, None]),
    "tall": lambda: uniform(150, 60, 4),
    "wide": lambda: uniform(60, 150, 9),
    "square": lambda: gallery.poisson2d(9, 8),
    "rank_2": lambda: sp.csr_array(
        np.outer(np.arange(30), np.ones(20)) + np.eye(30, 1) @ np.ones((1, 20)) ** 0
    ),
    "zero": lambda: sp.csr_array((9, 7)),
}


def made(name, dtype):
    A = sp.csr_array(MATRICES[name]())
    A.sum_duplicates()
    return sp.csr_array((typed(A, dtype), A.indices, A.indptr), shape=A.shape)


def check(A, u, s, vh, k, which="LM"):
    wide = A.toarray().astype(np.result_type(A.dtype, np.float64))
    all_of_them = np.linalg.svd(wide, compute_uv=False)[::-1]
    reference = all_of_them[-k:] if which == "LM" else all_of_them[:k]
    norm = max(all_of_them[-1], 1e-30)
    eps = float(np.finfo(A.dtype).eps)
    # A value that is nearly zero is the square root of rounding errors.
    slack = 200 * eps if reference[0] > 1e-3 * norm else 20 * np.sqrt(eps)
    np.testing.assert_allclose(s, reference, rtol=0, atol=slack * norm)
    assert (u.shape, vh.shape) == ((A.shape[0], k), (k, A.shape[1]))
    for vectors in (u, vh.conj().T):
        np.testing.assert_allclose(vectors.conj().T @ vectors, np.eye(k), rtol=0, atol=500 * eps)
    assert np.linalg.norm(wide @ vh.conj().T - u * s, axis=0).max() <= 500 * eps * norm


@pytest.mark.parametrize("dtype", [*TYPES, *COMPLEX_TYPES], ids=str)
@pytest.mark.parametrize("name", MATRICES)
def test_largest(name, dtype, device):
    A = made(name, dtype)
    k = min(4, *A.shape)
    u, s, vh = svds(sg.aslinearoperator(A, device=device), k)
    assert (u.dtype, vh.dtype) == (A.dtype, A.dtype)
    check(A, u, s, vh, k)


@pytest.mark.parametrize("name", ["tall", "wide", "square"])
def test_smallest(name, device):
    A = made(name, np.float64)
    check(A, *svds(sg.aslinearoperator(A, device=device), 3, which="SM"), 3, "SM")


def singular(name):
    S = np.random.default_rng(0).standard_normal((9, 9))
    return {
        "diagonal": np.diag([0.0, 1.0]),
        "one zero": np.c_[S[:, :1], S[:, :8]],
        "three zeros": S[:, :6] @ S[:6],
        "tall": np.c_[S[:, :4], S[:, :2]],
        "wide": np.c_[S[:, :4], S[:, :2]].T,
        "zero column": np.diag(np.arange(12.0)),
        "directed cycle": np.roll(np.eye(30), 1, axis=0) - np.eye(30),
        "all": np.zeros((5, 3)),
    }[name]


@pytest.mark.parametrize("which", ["SM", "LM"])
@pytest.mark.parametrize("dtype", [*TYPES, *COMPLEX_TYPES], ids=str)
@pytest.mark.parametrize(
    "name", ["diagonal", "one zero", "three zeros", "tall", "wide", "zero column", "directed cycle", "all"]
)
def test_vectors_of_zero(name, dtype, which, device):
    """Vectors of both sides belong to the null spaces."""
    A = singular(name).astype(dtype)
    for k in {1, 2, min(4, *A.shape), min(A.shape)}:
        u, s, vh = svds(sg.aslinearoperator(A, device=device), k, which=which)
        check(sp.csr_array(A), u, s, vh, k, which)
        slack = 20 * np.sqrt(np.finfo(dtype).eps) * max(np.linalg.norm(A, 2), 1)
        assert np.linalg.norm(A.conj().T @ u - vh.conj().T * s) <= slack
        np.testing.assert_allclose(svds(A, k, which=which, return_singular_vectors=False), s, atol=slack)


@pytest.mark.parametrize("shape", [(25, 12), (12, 25)])
@pytest.mark.parametrize(
    ("types", "scales"),
    [
        ((np.float32, np.complex64), (1e-30, 1e-25, 1e-10, 1e10, 1e18, 1e30)),
        ((np.float64, np.complex128), (1e-280, 1e-170, 1e-80, 1e80, 1e155, 1e280)),
    ],
)
def test_scales(types, scales, shape, device):
    """Squares of the numbers may leave the range of the type."""
    for dtype, scale in itertools.product(types, scales):
        A = sp.csr_array(np.random.default_rng(1).standard_normal(shape).astype(dtype))
        with naming(dtype=dtype, scale=scale):
            u, s, vh = svds(sg.aslinearoperator(A * dtype(scale), device=device), 3)
            s = (s / scale).astype(s.dtype)
            check(A, u, s, vh, 3)
            assert np.linalg.norm(A.T @ u - vh.conj().T * s) <= 1e3 * np.finfo(dtype).eps * s[-1]


@pytest.mark.parametrize("function", [svds, eigsh])
def test_rng(function, device):
    op = sg.aslinearoperator(made("square", np.float64), device=device)
    generator = np.random.default_rng(5)
    seeds = {"none": None, "seed": 5, "other seed": 6, "generator": generator, "once more": generator}
    found = {name: function(op, 3, rng=rng)[1] for name, rng in seeds.items()}
    np.testing.assert_array_equal(found["seed"], found["generator"])
    assert len({np.asarray(result).tobytes() for result in found.values()}) == 4
    with pytest.raises(TypeError, match="rng='five' is not allowed"):
        function(op, 3, rng="five")


def test_what_is_returned(device):
    op = sg.aslinearoperator(made("tall", np.float64), device=device)
    u, s, vh = svds(op, 3)
    np.testing.assert_array_equal(svds(op, 3, return_singular_vectors=False), s)
    only_u, same, none = svds(op, 3, return_singular_vectors="u")
    assert none is None
    np.testing.assert_array_equal(only_u, u)
    none, same, only_vh = svds(op, 3, return_singular_vectors="vh")
    assert none is None
    np.testing.assert_array_equal(only_vh, vh)
    np.testing.assert_array_equal(same, s)


def test_no_convergence(device):
    op = sg.aslinearoperator(gallery.poisson1d(200), device=device)
    with pytest.raises(spla.ArpackNoConvergence):
        svds(op, 3, which="SM", maxiter=1)


A = made("tall", np.float64)
REFUSED = {
    "k too large": (dict(k=61), ValueError, "k=61"),
    "ncv": (dict(ncv=3), ValueError, "ncv=3"),
    "v0 on the larger side": (dict(v0=np.ones(150)), ValueError, r"v0 has shape \(150,\)"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case, device):
    options, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        svds(sg.aslinearoperator(A, device=device), **options)


@pytest.mark.parametrize("shape", [(0, 0), (1, 0), (0, 3)], ids=str)
def test_empty_matrices_are_refused(shape, device):
    with pytest.raises(ValueError, match="A is empty"):
        svds(sg.aslinearoperator(np.zeros(shape), device=device), k=1)
