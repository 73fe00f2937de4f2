"""Direct solvers: they agree with SciPy, refuse what has no factors, and leave nothing half done."""

import gc
import pickle
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as sla

import fake_cudss
import spmvgpu as sg
from interrupts import at_each_step
from spmvgpu.linalg import SingularMatrixError, SolverWarning, cudss, direct, direct_factors, splu, spsolve

TRANS = ("N", "T", "H")
KINDS = ("general", "symmetric", "hermitian")


def values(rng, shape, dtype):
    drawn = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        drawn = drawn + 1j * rng.standard_normal(shape)
    return drawn.astype(dtype)


def drawn(rng, dtype, kind="general", n=60):
    """A matrix with a condition number of some tens, whose diagonal is not what its pivots are."""
    A = sp.random_array(
        (n, n), density=0.08, dtype=dtype, rng=rng, data_sampler=lambda size: values(rng, size, dtype)
    )
    A = A + {"general": 0, "symmetric": A.T, "hermitian": A.conj().T}[kind]
    shift = 4 + 4 * rng.random(n)
    if kind == "general":
        order = rng.permutation(n)
        return sp.csr_array(A + sp.coo_array((shift, (np.arange(n), order)), shape=(n, n))).astype(dtype)
    return sp.csr_array(A + sp.diags_array(shift * rng.choice([-1, 1], n))).astype(dtype)


def turned(A, trans):
    return {"N": A, "T": A.T, "H": A.conj().T}[trans]


def assert_solves(A, x, b):
    eps = np.finfo(A.dtype).eps
    size = np.abs(A.toarray()).sum(axis=1).max() * np.abs(x).max() + np.abs(b).max()
    assert x.shape == b.shape
    assert np.abs(b - A @ x).max() <= 200 * eps * size


@pytest.fixture
def fake(monkeypatch):
    """A library in the place of cuDSS, for operators on the CPU."""
    library = fake_cudss.Library()
    monkeypatch.setattr(cudss, "bindings", lambda: library)
    monkeypatch.setattr(cudss, "_threading_library", lambda: None)
    monkeypatch.delenv("CUDSS_THREADING_LIB", raising=False)
    monkeypatch.setattr(direct_factors, "SuperLUFactors", lambda csr: cudss.CudssFactors(csr, -1))
    return library


@pytest.fixture(params=["superlu", "fake", pytest.param("cudss", marks=pytest.mark.gpu)])
def place(request):
    """The device of factors, of each library."""
    if request.param == "fake":
        request.getfixturevalue("fake")
    if request.param != "cudss":
        return "cpu"
    pytest.importorskip("nvmath")
    if not cudss.is_available():
        pytest.skip("cuDSS cannot be loaded")
    return "cuda:0"


@pytest.mark.parametrize("kind", KINDS)
def test_solutions_are_those_of_scipy(place, dtype, kind, rng):
    A = drawn(rng, dtype, kind)
    factors = splu(A, device=place)
    assert factors.dtype == dtype
    assert factors.shape == A.shape
    assert factors.nnz >= A.nnz / 2
    assert factors.device == place
    theirs = sla.splu(sp.csc_array(A))
    for trans in TRANS:
        for shape in ((60,), (60, 1), (60, 4)):
            b = values(rng, shape, dtype)
            x = factors.solve(b, trans)
            assert x.dtype == dtype
            assert_solves(turned(A, trans), x, b)
            tolerance = 1e4 * np.finfo(dtype).eps
            np.testing.assert_allclose(x, theirs.solve(b, trans), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", [sp.csc_array, sp.csr_matrix, sp.coo_array])
@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_sparse_right_hand_sides(kind, count, place, rng, monkeypatch):
    """As SciPy's, the solution is sparse, and for a single column a vector."""
    monkeypatch.setattr(direct, "_DENSE_ENTRIES", 130)  # two columns at once
    A = drawn(rng, np.float64)
    B = kind(sp.random_array((60, count), density=0.1, rng=rng))
    for given in (A, sg.aslinearoperator(A, device=place)):
        X = spsolve(given, B, **({} if given is not A else {"device": place}))
        expected = sla.spsolve(A.tocsc(), sp.csc_array(B)) if count else np.zeros((60, 0))
        assert sp.issparse(X) == (count != 1)
        if count != 1:
            assert isinstance(X, sp.sparray) == isinstance(B, sp.sparray)
            X = X.toarray()
            expected = expected.toarray() if count else expected
        np.testing.assert_allclose(X, expected, atol=1e-10)
    with pytest.raises(ValueError, match=r"b has shape \(59, 3\)"):
        spsolve(A, sp.csc_array((59, 3)), device=place)
    with pytest.raises(TypeError, match="b has dtype complex128"):
        spsolve(sg.aslinearoperator(A, device=place), 1j * sp.csc_array((60, 3)))


def test_the_factors_themselves(rng):
    """Those of SuperLU, with its permutations."""
    A = drawn(rng, np.float64)
    factors = splu(A, device="cpu")
    rows, columns = np.arange(60)[factors.perm_r], np.arange(60)[factors.perm_c]
    product = (factors.L @ factors.U).toarray()
    np.testing.assert_allclose(product[rows][:, columns], A.toarray(), atol=1e-12)
    factors.update_values(2 * A.tocsr().data)
    np.testing.assert_allclose((factors.L @ factors.U).toarray(), 2 * product, atol=1e-12)
    with pytest.raises(AttributeError, match="no L: the matrix has no rows"):
        splu(np.zeros((0, 0)), device="cpu").L  # noqa: B018


@pytest.mark.parametrize("kind", KINDS)
def test_new_values(place, dtype, kind, rng):
    A = drawn(rng, dtype, kind)
    op = sg.aslinearoperator(A, device=place)
    factors = splu(op)
    b = values(rng, (60, 2), dtype)
    for trans in TRANS:  # factors of all relatives are there
        factors.solve(b, trans)
    other = A.copy()
    other.data = A.data * (1 + A.data.real**2)  # as symmetric as before, or Hermitian
    factors.update_values(op.tocsr().data * (1 + op.tocsr().data.real ** 2))
    for trans in TRANS:
        assert_solves(turned(other, trans), factors.solve(b, trans), b)
    # Without the symmetry.
    changed = op.tocsr()
    changed.data = changed.data * (1 + 0.1 * rng.random(changed.nnz)).astype(changed.data.real.dtype)
    factors.update_values(changed.data)
    for trans in TRANS:
        assert_solves(turned(changed, trans), factors.solve(b, trans), b)
    # The operator has its own values.
    np.testing.assert_array_equal(op.tocsr().data, sg.aslinearoperator(A, device="cpu").tocsr().data)


def test_ctrl_c_in_an_update(place, rng):
    """Whatever cuDSS has computed by then, the factors are the old ones or the new ones."""
    A = drawn(rng, np.float64, n=20)
    op, b = sg.aslinearoperator(A, device=place), values(rng, 20, np.float64)
    factors, old, found = splu(op), op.tocsr(), []
    new = old * rng.uniform(1.1, 1.5)
    for _ in at_each_step(lambda: factors.update_values(new), stride=67):
        now = factors._op.tocsr()
        found.append(bool((now.data == new.data).all()))
        assert found[-1] or (now.data == old.data).all()
        for trans in TRANS:
            assert_solves(turned(now, trans), factors.solve(b, trans), b)
        factors.update_values(old)
    assert len(found) > 10
    assert not all(found)


def test_singular_values_change_nothing(place, rng):
    A = drawn(rng, np.float64)
    factors, b = splu(A, device=place), values(rng, 60, np.float64)
    expected, data = factors.solve(b), sg.aslinearoperator(A, device="cpu").tocsr().data
    zeros = np.where(np.repeat(np.arange(60) == 7, np.diff(A.indptr)), 0.0, data)
    with pytest.raises(SingularMatrixError, match="singular"):
        factors.update_values(zeros)
    with pytest.raises(ValueError, match="trans='C'"):
        factors.solve(b, "C")
    np.testing.assert_allclose(factors.solve(b), expected, rtol=1e-12)


def test_what_has_no_factors(place, rng):
    A = drawn(rng, np.float64)
    equal_rows = A.toarray()
    equal_rows[5] = 2 * equal_rows[6]
    empty_row, infinite = A.tolil(), A.copy()
    empty_row[3] = 0
    infinite.data[4] = np.inf
    b = np.ones(60)
    for given, error, message in (
        (sp.csr_array(np.ones((3, 3))), SingularMatrixError, "singular"),
        (empty_row, SingularMatrixError, "singular"),
        (sp.csr_array((60, 60)), SingularMatrixError, "singular"),
        (A[:, :50], ValueError, r"\(60, 50\)"),
        (infinite, ValueError, "inf or NaN"),
    ):
        with pytest.raises(error, match=message):
            splu(given, device=place)
        with pytest.raises(error, match=message):
            spsolve(given, b[: len(b) if getattr(given, "shape", (60,))[0] == 60 else 3], device=place)
    assert issubclass(SingularMatrixError, (RuntimeError))  # as SciPy raises it
    assert issubclass(SingularMatrixError, np.linalg.LinAlgError)
    op = sg.aslinearoperator(A, device=place)
    for call in (lambda: splu(op, device=place), lambda: spsolve(op, b, device=place)):
        with pytest.raises(TypeError, match="leave it out for an operator"):
            call()
    with pytest.raises(ValueError, match="unknown device 'tpu'"):
        splu(A, device="tpu")


@pytest.mark.parametrize("n", [0, 1])
def test_very_small_matrices(place, n):
    A = 2 * sp.eye_array(n, format="csr")
    factors = splu(A, device=place)
    np.testing.assert_array_equal(factors.solve(np.ones(n)), np.full(n, 0.5))
    np.testing.assert_array_equal(factors.solve(np.ones((n, 3)), "T"), np.full((n, 3), 0.5))
    np.testing.assert_array_equal(factors @ np.ones(n), np.full(n, 0.5))
    np.testing.assert_array_equal(spsolve(A, np.ones(n), device=place), np.full(n, 0.5))
    factors.update_values(np.full(n, 4.0))
    np.testing.assert_array_equal(factors.solve(np.ones(n)), np.full(n, 0.25))


@pytest.mark.parametrize("dtype", [np.float64, np.complex128], ids=str)
def test_factors_are_a_preconditioner(place, dtype, rng):
    A = drawn(rng, dtype)
    op = sg.aslinearoperator(A, device=place)
    factors = splu(op)
    b = values(rng, (60, 3), dtype)
    for solver in (sg.linalg.gmres, sg.linalg.bicgstab):
        _, info = solver(op, b, M=factors, rtol=1e-10)
        assert not np.any(info)
        assert op.solve_info.iterations <= 2
    _, info = sla.gmres(op, b[:, 0], M=factors, rtol=1e-10)
    assert info == 0
    for made, trans in ((factors, "N"), (factors.H, "H"), (factors.T, "T"), (factors.H.H, "N")):
        assert_solves(turned(A, trans), made @ b, b)
        assert_solves(turned(A, trans), made.matvec(b[:, 0]), b[:, 0])
    assert_solves(turned(A, "H"), factors.rmatvec(b[:, 0]), b[:, 0])
    two = sg.linalg.gmres(op.H, b[:, 0], M=factors.H, rtol=1e-10)
    assert two[1] == 0


def test_pickles_and_threads(place, rng):
    A = drawn(rng, np.float64)
    factors = splu(A, device=place)
    B = values(rng, (60, 8), np.float64)
    expected = factors.solve(B)
    again = pickle.loads(pickle.dumps(factors))
    np.testing.assert_allclose(again.solve(B), expected, rtol=1e-12)
    assert again.device == factors.device
    found = {}

    def work(number):
        found[number] = [factors.solve(B[:, number]) for _ in range(5)][-1]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, x in found.items():
        np.testing.assert_allclose(x, expected[:, number], rtol=1e-10)


@pytest.mark.gpu
def test_large_systems_on_a_gpu(cuda_device, rng):
    """Of a grid, of elasticity, and of a flow; and what the CPU finds."""
    pytest.importorskip("nvmath")
    flow = sg.gallery.poisson2d(150) + sp.diags_array(
        rng.standard_normal(150 * 150 - 1), offsets=1, shape=(150 * 150, 150 * 150)
    )
    for A in (sg.gallery.poisson2d(200), sg.gallery.elasticity3d(12), sp.csr_array(flow)):
        b = values(rng, (A.shape[0], 2), np.float64)
        factors = splu(A, device=cuda_device)
        for trans in TRANS:
            assert_solves(turned(A, trans), factors.solve(b, trans), b)
        np.testing.assert_allclose(factors.solve(b), sla.splu(sp.csc_array(A)).solve(b), rtol=1e-6, atol=1e-8)


# Where cuDSS is missing, or fails


def test_without_cudss(monkeypatch, rng):
    """An operator on a GPU is refused, with what to do; a matrix without a device stays on the CPU."""
    A = drawn(rng, np.float64)

    def missing():
        raise ImportError('run pip install "spmvgpu[direct]"')

    monkeypatch.setattr(cudss, "bindings", missing)
    assert splu(A).device == "cpu"
    assert_solves(A, spsolve(A, np.ones(60)), np.ones(60))
    with pytest.raises(ImportError, match="spmvgpu\\[direct\\]"):
        cudss.CudssFactors(sg.aslinearoperator(A, device="cpu").tocsr(), 0)


def test_what_is_missing_is_named(monkeypatch):
    cudss.bindings.cache_clear()
    monkeypatch.setitem(sys.modules, "nvmath.bindings", None)
    with pytest.raises(ImportError, match=r'(?s)pip install "spmvgpu\[direct\]".*op\.to\("cpu"\)'):
        cudss.bindings()
    assert not cudss.is_available()
    cudss.bindings.cache_clear()


@pytest.mark.parametrize(
    ("cuda", "driver", "too_old", "extra"),
    [
        (13, 13, False, ""),
        (12, 12, False, ""),
        (12, 13, False, ""),
        (13, 12, True, "direct-cu12"),
        (13, 11, True, "direct"),
        (None, 12, False, "direct-cu12"),
        (None, 13, False, "direct"),
    ],
)
def test_cudss_fits_the_driver(monkeypatch, cuda, driver, too_old, extra):
    """The error names the extra whose libraries run with the driver; no such library and driver are here."""
    monkeypatch.setattr(cudss._core, "driver", lambda: {"version": 1000 * driver})
    runtime = SimpleNamespace(cudaRuntimeGetVersion=lambda: (0, 1000 * cuda))
    of_cuda, of_nvmath = SimpleNamespace(runtime=runtime), SimpleNamespace(cudss=fake_cudss.Library())
    for name, module in {"cuda": of_cuda, "nvmath": of_nvmath}.items():
        monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.setitem(sys.modules, f"{name}.bindings", module if cuda else None)
    cudss.bindings.cache_clear()
    try:
        assert cudss.is_available() == (not extra)
        if extra:
            with pytest.raises(ImportError, match=rf'pip install "spmvgpu\[{extra}\]"') as raised:
                cudss.bindings()
            assert (f"of CUDA 13, and the driver is of CUDA {driver}" in str(raised.value)) == too_old
    finally:
        cudss.bindings.cache_clear()


@pytest.mark.parametrize("kind", KINDS)
def test_other_ways_follow_where_solutions_are_wrong(fake, kind, rng):
    """What is known of a matrix, then matching, then pivots from all rows; and then it is an error."""
    A = drawn(rng, np.complex128, kind)
    b = values(rng, 60, np.complex128)
    fake.wrong = {()}
    assert_solves(A, splu(A, device="cpu").solve(b), b)
    analyses = [phase[1:] for phase in fake.phases if phase[0] == "ANALYSIS"]
    assert analyses == [(kind.upper(), ()), ("GENERAL", ("MATCHING_ALG",))]
    fake.wrong = {(), ("MATCHING_ALG",)}
    assert_solves(A, splu(A, device="cpu").solve(b), b)
    fake.wrong = {(), ("MATCHING_ALG",), ("REORDERING_ALG",)}
    with pytest.raises(SingularMatrixError, match="close to it"):
        splu(A, device="cpu")
    gc.collect()
    assert not fake.alive


def test_the_analysis_is_kept_for_new_values(fake, rng):
    A = drawn(rng, np.float64, "symmetric")
    factors = splu(A, device="cpu")
    fake.phases.clear()
    data = sg.aslinearoperator(A, device="cpu").tocsr().data
    factors.update_values(2 * data)
    assert [phase[0] for phase in fake.phases] == ["REFACTORIZATION"]
    factors.update_values(data + np.arange(len(data)))  # no longer symmetric
    assert fake.phases[1][:2] == ("ANALYSIS", "GENERAL")


def test_solutions_are_refined_or_warned_of(fake, rng):
    """Factors of a matrix that is a little another one."""
    A = drawn(rng, np.float64)
    b = values(rng, (60, 2), np.float64)
    factors = splu(A, device="cpu")
    (data,) = (thing for thing in fake.alive.values() if isinstance(thing, dict) and "A" in thing)
    right = data["A"]
    data["A"] = right * (1 + 1e-4 * rng.standard_normal(right.shape))
    assert_solves(A, factors.solve(b), b)
    data["A"] = np.diag(rng.random(60) + 1)
    with pytest.warns(SolverWarning, match="close to singular") as warned:
        factors.solve(b)
    assert warned[0].filename == __file__
    with pytest.warns(SolverWarning) as warned:
        factors.solve(b[:, 0])
    data["A"] = np.full((60, 60), np.nan)
    with pytest.raises(SingularMatrixError, match="not finite"):
        factors.solve(b)


@pytest.mark.parametrize(
    ("status", "error"), [("ALLOC_FAILED (2)", MemoryError), ("EXECUTION_FAILED (5)", sg.CudaError)]
)
def test_failures_of_cudss(fake, status, error, rng):
    A = drawn(rng, np.float64)
    fake.fails = status
    with pytest.raises(error, match=status[:5]):
        splu(A, device="cpu")
    gc.collect()
    assert not fake.alive
    fake.fails = None
    factors = splu(A, device="cpu")
    b = np.ones(60)
    expected = factors.solve(b)
    fake.fails = status
    with pytest.raises(error, match=status[:5]):
        factors.update_values(2 * sg.aslinearoperator(A, device="cpu").tocsr().data)
    fake.fails = None
    np.testing.assert_allclose(factors.solve(b), expected)
    del factors
    gc.collect()
    assert not fake.alive


def test_handles_are_freed(fake, rng):
    factors = splu(drawn(rng, np.float64), device="cpu")
    for trans in TRANS:
        factors.solve(np.ones(60), trans)
    adjoint = factors.H
    del factors
    assert fake.alive
    assert adjoint @ np.ones(60) is not None
    del adjoint
    assert not fake.alive  # at once: there is no cycle of references
