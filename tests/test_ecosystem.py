"""Operators where other libraries call them: algebraic multigrid of pyamg, estimators of scikit-learn."""

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import spmvgpu as sg
from spmvgpu import gallery


def on_every_level(ml, device):
    """Put the matrices of a pyamg hierarchy on a device: all but the coarsest, which is solved directly."""
    for level in ml.levels[:-1]:
        for name in ("A", "P", "R"):
            setattr(level, name, sg.aslinearoperator(getattr(level, name), device=device))
    return ml


def test_pyamg_with_operators_on_every_level(device):
    pyamg = pytest.importorskip("pyamg")
    A = sp.csr_array(gallery.poisson2d(40))
    b = np.ones(A.shape[0])
    make = lambda: pyamg.smoothed_aggregation_solver(  # noqa: E731
        sp.csr_array(A), presmoother="chebyshev", postsmoother="chebyshev", max_coarse=20
    )
    expected = make().solve(b, tol=1e-10)
    ml = on_every_level(make(), device)
    assert len(ml.levels) > 2
    residuals = []
    x = ml.solve(b, tol=1e-10, residuals=residuals)
    assert np.linalg.norm(b - A @ x) <= 1e-9 * np.linalg.norm(b)
    np.testing.assert_allclose(x, expected, rtol=1e-6)


def test_pyamg_preconditions_a_solver_with_operators(device):
    pyamg = pytest.importorskip("pyamg")
    A = sp.csr_array(gallery.poisson2d(40))
    b = np.ones(A.shape[0])
    op = sg.aslinearoperator(A, device=device)
    steps = {}
    for name, M in (("plain", None), ("amg", pyamg.smoothed_aggregation_solver(A).aspreconditioner())):
        count = []
        x, info = spla.cg(op, b, rtol=1e-8, M=M, callback=count.append)
        assert info == 0
        assert np.linalg.norm(b - A @ x) <= 1e-7 * np.linalg.norm(b)
        steps[name] = len(count)
    assert steps["amg"] < steps["plain"] / 3


def test_scikit_learn_reduces_features(device):
    """Truncated SVD, which scikit-learn leaves to ARPACK, by products with the operator and its transpose."""
    decomposition = pytest.importorskip("sklearn.decomposition")
    rng = np.random.default_rng(4)
    counts = sp.csr_array(sp.random_array((300, 80), density=0.1, random_state=rng))
    svd = decomposition.TruncatedSVD(n_components=4, algorithm="arpack", random_state=0).fit(counts)
    op = sg.aslinearoperator(counts, device=device)
    _, singular_values, Vt = spla.svds(op, k=4, random_state=0)
    np.testing.assert_allclose(singular_values[::-1], svd.singular_values_, rtol=1e-8)
    features = op @ svd.components_.T
    np.testing.assert_allclose(features, svd.transform(counts), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(abs(np.sum(Vt[::-1] * svd.components_, axis=1)), 1, rtol=1e-8)


def test_an_operator_in_a_pipeline_of_scikit_learn(device):
    """Diffusion over a graph as a step of a pipeline: neighbours share their features."""
    pytest.importorskip("sklearn")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1], 150)
    same = labels[:, None] == labels
    graph = sp.csr_array((rng.random((300, 300)) < np.where(same, 0.1, 0.02)).astype(float))
    step = sp.csr_array(sp.diags_array(1 / graph.sum(axis=1)) @ graph)
    noisy = (labels + rng.normal(scale=3, size=300))[:, None]

    def fitted(step):
        diffuse = FunctionTransformer(lambda X: step @ (step @ X))
        return make_pipeline(diffuse, LogisticRegression(C=1e6)).fit(noisy, labels)

    ours, scipys = fitted(sg.aslinearoperator(step, device=device)), fitted(step)
    np.testing.assert_allclose(ours[-1].coef_, scipys[-1].coef_, rtol=1e-6)
    np.testing.assert_array_equal(ours.predict(noisy), scipys.predict(noisy))
