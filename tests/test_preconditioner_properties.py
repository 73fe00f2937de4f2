"""What every preconditioner of `spmvgpu.linalg` is as a linear map: its adjoint, its vectors, its copies."""

import copy
import pickle
import re
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import spmvgpu as sg
from battery import COMPLEX_TYPES, TYPES
from spmvgpu import gallery, linalg

N = 48
KINDS = ("symmetric", "unsymmetric")
ALL_TYPES = [*TYPES, *COMPLEX_TYPES]


def system(kind, dtype):
    """A matrix with a positive diagonal that outweighs the rest; complex symmetric ones are Hermitian."""
    A = gallery.poisson2d(8, 6).tolil()
    rng = np.random.default_rng(5)
    for row, col in rng.integers(0, N, (40, 2)):
        if row != col:
            A[row, col] = rng.uniform(-0.2, 0.2)
    A = sp.csr_array(A)
    upper = sp.triu(A, 1) * (1 if dtype.kind != "c" else 0.8 + 0.4j)
    lower = upper.conj().T if kind == "symmetric" else 0.6 * sp.tril(A, -1) + 0.3 * upper.T
    return sp.csr_array(upper + lower + sp.diags_array(np.full(N, 4.5))).astype(dtype)


def hierarchy(A):
    """Three levels with ways down and up that are no transposes of each other, as pyamg would hold them."""
    rng = np.random.default_rng(6)
    levels = []
    for coarser in (20, 7, None):
        level = SimpleNamespace(A=A)
        if coarser is not None:
            n = A.shape[0]
            level.P = sp.random_array((n, coarser), density=0.3, random_state=rng).astype(A.dtype)
            level.R = sp.random_array((coarser, n), density=0.3, random_state=rng).astype(A.dtype)
            if A.dtype.kind == "c":
                level.R = level.R * (1 + 0.5j)
            A = sp.csr_array(level.R @ A @ level.P)
            A = sp.csr_array(0.1 * A / abs(A).max() + sp.eye_array(coarser)).astype(A.dtype)
        levels.append(level)
    return SimpleNamespace(levels=levels)


def cycle(op, smoother):
    return linalg.aspreconditioner(hierarchy(op.tocsr()), device=op.device, smoother=smoother, degree=3)


MAKERS = {
    "jacobi": linalg.jacobi,
    "block_jacobi": lambda op: linalg.block_jacobi(op, 5),
    "chebyshev": linalg.chebyshev,
    "chebyshev of degree 1": lambda op: linalg.chebyshev(op, 1),
    "ilu0": linalg.ilu0,
    "ic0": linalg.ic0,
    "ilu": linalg.ilu,
    "ic": lambda op: linalg.ic(op, 2),
    "cycle": lambda op: cycle(op, "chebyshev"),
    "cycle with jacobi": lambda op: cycle(op, "jacobi"),
    "one level": lambda op: linalg.aspreconditioner(
        SimpleNamespace(levels=[SimpleNamespace(A=op.tocsr())]), device=op.device
    ),
}
each_maker = pytest.mark.parametrize("name", MAKERS)


def made(name, kind, dtype, device, **options):
    return MAKERS[name](sg.aslinearoperator(system(kind, dtype), device=device, **options))


def tolerance(dtype):
    return 1e-5 if dtype.itemsize // (1 + (dtype.kind == "c")) == 4 else 1e-12


@each_maker
@pytest.mark.parametrize("kind", KINDS)
def test_adjoint_and_transpose(name, kind, device):
    for dtype in ALL_TYPES:
        M = made(name, kind, dtype, device)
        dense = M @ np.eye(N, dtype=dtype)
        close = {"rtol": 0, "atol": tolerance(dtype) * np.abs(dense).max()}
        X = np.random.default_rng(1).standard_normal((2, N, 3)) @ [1, 0.5, 0.25]
        x = X[0] if dtype.kind != "c" else X[0] + 1j * X[1]
        columns = np.stack([x, 2 * x], axis=1)
        for turned, expected in ((M.H, dense.conj().T), (M.T, dense.T)):
            assert (turned.shape, turned.dtype) == (M.shape, M.dtype)
            np.testing.assert_allclose(turned @ np.eye(N, dtype=dtype), expected, **close)
            np.testing.assert_allclose(turned.matvec(x), expected @ x, rtol=0, atol=20 * close["atol"])
        np.testing.assert_array_equal(M.rmatvec(x), M.H @ x)
        np.testing.assert_array_equal(M.rmatmat(columns), M.H @ columns)
        np.testing.assert_array_equal(M.H.H @ x, M @ x)
        np.testing.assert_allclose(M.H.rmatmat(columns), dense @ columns, rtol=0, atol=40 * close["atol"])
        if dtype == np.float64:  # which needs products with both
            A = system(kind, dtype)
            assert spla.bicg(A, x.real, M=M, maxiter=200)[1] == 0


def test_the_adjoint_is_itself_where_the_matrix_is_declared_so(device):
    for dtype, declared in ((np.dtype(float), True), (np.dtype(complex), "hermitian")):
        M = made("chebyshev", "symmetric", dtype, device, symmetric=declared)
        assert M.H is M
        M = made("chebyshev", "unsymmetric", dtype, device)
        assert M.H is not M
        assert M.H is M.H
        assert M.H.H is M


@each_maker
@pytest.mark.parametrize("kind", KINDS)
def test_vectors_of_every_type(name, kind, device):
    rng = np.random.default_rng(2)
    numbers = rng.integers(-4, 5, (N, 3)) + 1j * rng.integers(-4, 5, (N, 3))
    for dtype in ALL_TYPES:
        M = made(name, kind, dtype, device)
        dense = M @ np.eye(N, dtype=dtype)
        atol = 50 * tolerance(dtype) * np.abs(dense).max()
        for given in [*ALL_TYPES, np.dtype("int64"), np.dtype("bool")]:
            X = (numbers if given.kind == "c" else numbers.real).astype(given)
            for x in (X[:, 0], X, np.asfortranarray(X)):
                y = M @ x
                assert (y.shape, y.dtype) == (x.shape, np.result_type(dtype, given))
                np.testing.assert_allclose(y, dense @ x.astype(complex), rtol=0, atol=atol)
        turned, expected = M @ (1j * numbers.real), 1j * (M @ numbers.real)
        # Part by part where M is real; complex products may be rounded otherwise.
        np.testing.assert_allclose(turned, expected, rtol=0, atol=atol if dtype.kind == "c" else 0)


@each_maker
def test_solvers_with_preconditioners_of_other_types(name, device):
    """Complex systems with real preconditioners, and either precision with the other one."""
    for dtype, of_system in (
        ("float64", "complex128"),
        ("float32", "float64"),
        ("float64", "float32"),
        ("float32", "complex64"),
        ("complex64", "complex128"),
    ):
        A = system("symmetric", np.dtype(of_system))
        M = made(name, "symmetric", np.dtype(dtype), device)
        b = np.arange(N) * (1 + 1j if A.dtype.kind == "c" else 1)
        # The ways between the levels of a cycle are no transposes of each other here, so it is not symmetric.
        for solver in (linalg.bicgstab, linalg.gmres, *([] if "cycle" in name else [linalg.cg])):
            x, info = solver(sg.aslinearoperator(A, device=device), b, M=M, rtol=1e-4)
            assert info == 0
            assert np.linalg.norm(A @ x - b) <= 1e-3 * np.linalg.norm(b)
        assert spla.gmres(A, b, M=M, rtol=1e-4)[1] == 0
    real = system("symmetric", np.dtype(float))
    x, info = linalg.gmres(real, b, M=made(name, "symmetric", np.dtype(float), device), rtol=1e-8)
    assert info == 0
    np.testing.assert_allclose(real @ x, b, atol=1e-5)
    M = made(name, "symmetric", np.dtype(complex), device)
    with pytest.raises(TypeError, match="real numbers"):
        linalg.gmres(sg.aslinearoperator(real, device=device), b.real, M=M)


def out_of_band(M):
    """A pickle whose buffers lie in memory that is overwritten after it was read."""
    buffers = []
    pickled = pickle.dumps(M, protocol=5, buffer_callback=buffers.append)
    foreign = [bytearray(buffer.raw()) for buffer in buffers]
    back = pickle.loads(pickled, buffers=foreign)
    for memory in foreign:
        memory[:] = b"\xff" * len(memory)
    return back


COPIES = {
    **{f"protocol {p}": lambda M, p=p: pickle.loads(pickle.dumps(M, protocol=p)) for p in range(2, 6)},
    "out of band": out_of_band,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@each_maker
def test_pickles_and_copies_have_the_same_bits(name, device):
    x = np.random.default_rng(3).standard_normal(N)
    for dtype in ALL_TYPES:
        M = made(name, "unsymmetric", dtype, device)
        for original in (M, M.H):
            for copied in COPIES.values():
                twin = copied(original)
                assert type(twin) is type(M)
                assert (twin.shape, twin.dtype) == (M.shape, dtype)
                np.testing.assert_array_equal(twin @ x, original @ x)
                np.testing.assert_array_equal(twin.H @ x, original.H @ x)
                np.testing.assert_array_equal(twin.T @ x, original.T @ x)
    A = system("symmetric", np.dtype(float))
    op = sg.aslinearoperator(A, device=device)
    M = MAKERS[name](op)
    np.testing.assert_array_equal(linalg.gmres(op, x, M=copy.deepcopy(M))[0], linalg.gmres(op, x, M=M)[0])


# Those of which `op` alone says where they are.
of_operator = pytest.mark.parametrize("name", [k for k in MAKERS if "cycle" not in k and k != "one level"])


@of_operator
def test_of_an_operator_over_several_devices(name, device):
    A = system("unsymmetric", np.dtype(float))
    M = MAKERS[name](sg.aslinearoperator(A, device=[device, device]))
    dense = M @ np.eye(N)
    on_one = MAKERS[name](sg.aslinearoperator(A, device=device)) @ np.eye(N)
    np.testing.assert_allclose(dense, on_one, rtol=0, atol=1e-12)
    np.testing.assert_allclose(M.H @ np.eye(N), dense.T, atol=1e-12)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(M)) @ np.eye(N), dense)


@of_operator
def test_pickles_go_where_the_device_is_absent(name, monkeypatch):
    """What was made for "auto" goes to the device that "auto" is where it is read."""
    pickled = pickle.dumps(MAKERS[name](sg.aslinearoperator(system("symmetric", np.dtype(float)))))
    monkeypatch.setenv("SPMVGPU_DEVICE", "cpu")
    M = pickle.loads(pickled)
    assert getattr(M, "_ordinal", -1) == -1  # the CPU
    assert np.isfinite(M @ np.ones(N)).all()


# -- hierarchies ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("finest", "coarser", "ways", "expected"),
    [
        ("float32", "float64", "float64", "float32"),
        ("float64", "float32", "float32", "float64"),
        ("complex64", "complex128", "float32", "complex64"),
        ("float32", "float64", "complex128", "complex64"),
        ("float64", "complex64", "float32", "complex128"),
        ("int64", "float64", "int8", "float64"),
        ("float32", "longdouble", "float32", "float32"),
    ],
)
def test_levels_of_any_types_become_one(finest, coarser, ways, expected, device):
    ml = hierarchy(system("unsymmetric", np.dtype(float)))
    for level, dtype in zip(ml.levels, (finest, coarser, coarser), strict=True):
        level.A = level.A.astype(dtype)
        if hasattr(level, "P"):
            level.R, level.P = (matrix.astype(ways) for matrix in (level.R, level.P))
    for wanted in (None, np.complex64, np.complex128):
        M = linalg.aspreconditioner(ml, device=device, dtype=wanted)
        assert M.dtype == (wanted or expected)
        same = hierarchy(system("unsymmetric", np.dtype(float)))
        for level, given in zip(same.levels, ml.levels, strict=True):
            level.A = given.A.astype(M.dtype)
            if hasattr(level, "P"):
                level.R, level.P = (matrix.astype(M.dtype) for matrix in (given.R, given.P))
        np.testing.assert_allclose(
            M @ np.ones(N), linalg.aspreconditioner(same, device=device) @ np.ones(N), rtol=1e-3
        )
    if "complex" in finest + coarser + ways:
        with pytest.raises(TypeError, match="no imaginary part"):
            linalg.aspreconditioner(ml, device=device, dtype=np.float64)


def test_single_precision_of_pyamg(device):
    """Coarse levels of a float32 matrix are in float64 there."""
    pyamg = pytest.importorskip("pyamg")
    A = sp.csr_matrix(gallery.poisson2d(30).astype(np.float32))
    for setup in (pyamg.smoothed_aggregation_solver, pyamg.ruge_stuben_solver, pyamg.air_solver):
        M = linalg.aspreconditioner(setup(A, max_coarse=20), device=device, smoother="chebyshev")
        op = sg.aslinearoperator(A, device=device)
        b = np.ones(900, np.float32)
        assert (M @ b).dtype == np.float32
        assert linalg.gmres(op, b, M=M, rtol=1e-4)[1] == 0
        dense = M @ np.eye(900, dtype=np.float32)
        np.testing.assert_allclose(M.H @ np.eye(900, dtype=np.float32), dense.T, atol=1e-4)


def broken(number, **matrices):
    ml = hierarchy(system("unsymmetric", np.dtype(float)))
    for name, matrix in matrices.items():
        setattr(ml.levels[number], name, matrix)
    return ml


def without(number, name):
    ml = broken(number)
    delattr(ml.levels[number], name)
    return ml


@pytest.mark.parametrize(
    ("ml", "error", "message"),
    [
        (SimpleNamespace(levels=[]), TypeError, "pyamg hierarchy with levels, not SimpleNamespace"),
        (SimpleNamespace(levels=[SimpleNamespace()]), TypeError, "level 0 of ml.* has no A"),
        (without(1, "R"), TypeError, "level 1 of ml.* has no R"),
        (
            broken(0, A=sp.csr_array((N, N + 1))),
            ValueError,
            r"level 0 of ml: A has shape \(48, 49\).*\(48, 48\)",
        ),
        (broken(2, A=sp.csr_array((7, 8))), ValueError, r"level 2 of ml: A has shape \(7, 8\).*\(7, 7\)"),
        (broken(1, R=sp.csr_array((20, 7))), ValueError, r"level 1 of ml: R has shape \(20, 7\).*\(7, 20\)"),
        (
            broken(0, P=sp.csr_array((20, N))),
            ValueError,
            r"level 0 of ml: P has shape \(20, 48\).*\(48, 20\)",
        ),
        (broken(1, A=np.full((20, 20), np.nan)), ValueError, "level 1 of ml: A contains inf or NaN"),
        (
            broken(1, A=sp.diags_array(np.arange(20.0)) + sp.eye_array(20, k=1)),
            np.linalg.LinAlgError,
            r"level 1 of ml: 1 of 20 .* in row 0 \(0\); use ml.aspreconditioner\(\)",
        ),
    ],
)
def test_hierarchies_that_do_not_fit(ml, error, message):
    with pytest.raises(error, match=message):
        linalg.aspreconditioner(ml, device="cpu")


def test_of_an_empty_matrix(device):
    op = sg.aslinearoperator(sp.csr_array((0, 0)), device=device)
    for make in (linalg.jacobi, linalg.block_jacobi, linalg.chebyshev, linalg.ilu0, linalg.ic0):
        M = make(op)
        for turned in (M, M.H, pickle.loads(pickle.dumps(M))):
            assert (turned @ np.ones(0)).shape == (0,)
    ml = SimpleNamespace(levels=[SimpleNamespace(A=sp.csr_array((0, 0)))])
    assert (linalg.aspreconditioner(ml, device=device) @ np.ones(0)).shape == (0,)


# -- refusals ------------------------------------------------------------------------------------------------


def diagonal(*entries):
    """A matrix with these on its diagonal, and a pair of entries in the first and the last row."""
    A = sp.lil_array(sp.diags_array(np.array(entries, float)))
    A[0, len(entries) - 1] = A[len(entries) - 1, 0] = 0.5
    return sp.csr_array(A)


ONES_IN_A_BLOCK = np.eye(9)
ONES_IN_A_BLOCK[6:, 6:] = 1
ROUNDED = np.diag([1.0, 1.0, 2.0, 2.0, 1.0, 1.0])
ROUNDED[2:4, 2:4] = [[0.1, 0.3], [0.3, 0.9]]
COUPLED = ROUNDED + np.eye(6, k=3) + np.eye(6, k=-3)
SADDLE = np.array([[2.0, 0.0, 1.0], [0.0, 3.0, 1.0], [1.0, 1.0, 0.0]])
NO_CHOLESKY = np.array([[1.0, 2.0], [2.0, 1.0]])
NO_PIVOT = np.array([[2.0, 2.0, 0.0], [2.0, 2.0, 1.0], [0.0, 1.0, 4.0]])
# What messages name, and M for it.
NO_M, BY_DIAGONAL = "gmres or bicgstab without M", r"gmres or bicgstab with M=1 / op.diagonal\(\)"
ALTERNATIVES = {
    NO_M: lambda op: None,
    BY_DIAGONAL: lambda op: 1 / op.diagonal(),
    r"jacobi\(op\)": linalg.jacobi,
    r"ilu0\(op\) with gmres or bicgstab": linalg.ilu0,
    "another block size than 3": lambda op: linalg.block_jacobi(op, 1),
}


@pytest.mark.parametrize(
    ("make", "A", "message", "instead"),
    [
        (linalg.jacobi, diagonal(2, 3, -4), r"1 of 3 .* row 2 \(-4\)", [BY_DIAGONAL]),
        (linalg.jacobi, diagonal(-1, -3, -4), r"3 of 3 .* row 0 \(-1\)", [BY_DIAGONAL]),
        (linalg.jacobi, diagonal(2, 3, 0), r"1 of 3 .* row 2 \(0\)", [NO_M]),
        (linalg.jacobi, diagonal(2, 3, 4) * (1 + 1j), r"3 of 3 .* row 0 \(2\+2j\)", [BY_DIAGONAL]),
        (linalg.chebyshev, diagonal(2, -3, 4), r"chebyshev.* 1 of 3 .* row 1 \(-3\)", [BY_DIAGONAL]),
        (linalg.chebyshev, SADDLE, r"chebyshev.* 1 of 3 .* row 2 \(0\)", [NO_M]),
        (linalg.ilu0, SADDLE[[0, 2, 1]][:, [0, 2, 1]], r"row 1 has no pivot: .* not stored", [NO_M]),
        (linalg.ilu0, NO_PIVOT, r"row 1 has no pivot: .* 0 after", [r"jacobi\(op\)"]),
        (linalg.ilu0, -NO_PIVOT, r"row 1 has no pivot: .* 0 after", [BY_DIAGONAL]),
        (linalg.ic0, NO_PIVOT, r"row 1 has no pivot: .* 0 after", [r"jacobi\(op\)"]),
        (linalg.ic0, NO_CHOLESKY, r"row 1 is not positive \(-3\)", [r"ilu0\(op\) with gmres or bicgstab"]),
        (linalg.ic0, diagonal(2, -3, 4), r"row 1 is not positive \(-3\)", [BY_DIAGONAL]),
        (
            linalg.block_jacobi,
            ONES_IN_A_BLOCK + 0.1 * np.eye(9, k=5),
            "block 2 of the diagonal, rows 6 to 8, is singular .*1 among 3",
            ["another block size than 3", r"jacobi\(op\)"],
        ),
        (
            lambda op: linalg.block_jacobi(op, 2),
            COUPLED,
            "block 1 of the diagonal, rows 2 to 3, is singular .*1 among 3",
            [r"jacobi\(op\)"],
        ),
        (
            lambda op: linalg.block_jacobi(op, 2),
            SADDLE,
            "block 1 of the diagonal, rows 2 to 2, is singular .*1 among 2",
            [NO_M],
        ),
    ],
)
def test_refusals_name_a_place_and_what_fits(make, A, message, instead, device):
    """What a message names solves a system with the same matrix."""
    A = sp.csr_array(A)
    op = sg.aslinearoperator(A, device=device)
    with pytest.raises(np.linalg.LinAlgError, match=message) as refused:
        make(op)
    b = A @ np.arange(1.0, A.shape[0] + 1)
    for name in instead:
        assert refused.match(name)
        x, info = linalg.gmres(op, b, M=ALTERNATIVES[name](op), rtol=1e-9)
        assert info == 0
        np.testing.assert_allclose(A @ x, b, atol=1e-6)
    if abs(A - A.conj().T).max() == 0:  # what they say of symmetric matrices
        positive = r"minres with M=1 / abs\(op.diagonal\(\)\)"
        M = 1 / np.abs(op.diagonal()) if re.search(positive, str(refused.value)) else None
        x, info = linalg.minres(op, b, M=M, rtol=1e-12)
        assert info == 0
        np.testing.assert_allclose(A @ x, b, atol=1e-6)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_matrices_that_are_not_finite(make):
    A = sp.csr_array(np.diag([1.0, np.nan, 2.0]))
    with pytest.raises((np.linalg.LinAlgError, ValueError), match="NaN"):
        make(sg.aslinearoperator(A, device="cpu"))


def test_blocks_of_other_scales_are_not_singular(device):
    """Neither rows nor columns of very different size make a block singular."""
    scale = 10.0 ** np.array([-20, 0, 20, 5, -5, 0])
    A = scale[:, np.newaxis] * (np.eye(6) + 0.2) * scale
    M = linalg.block_jacobi(sg.aslinearoperator(A, device=device), 3)
    expected = np.linalg.inv(np.eye(3) + 0.2) / np.outer(scale[:3], scale[:3])
    np.testing.assert_allclose(M.toarray()[:3, :3], expected, rtol=1e-10)


# -- hubs ----------------------------------------------------------------------------------------------------


def star(n, hubs):
    """A matrix in which hubs are joined to all other rows, and those to nothing else."""
    others = np.setdiff1d(np.arange(n), hubs)
    row, col = np.tile(others, len(hubs)), np.repeat(hubs, len(others))
    main = np.full(n, 3.0)
    main[hubs] = n
    joined = sp.csr_array((np.full(2 * len(row), -0.5), (np.r_[row, col], np.r_[col, row])), shape=(n, n))
    return sp.csr_array(joined + sp.diags_array(main))


@pytest.mark.parametrize("hub", [0, 100_000, 199_999])
def test_factors_of_a_star(hub, device):
    """In time that grows with the entries: a hub's row is not gone through for each of its neighbours."""
    n = 200_000
    op = sg.aslinearoperator(star(n, [hub]), device=device)
    x = np.random.default_rng(8).standard_normal(n)
    pivot = n - 0.25 / 3 * hub  # of the hub; those before it are 3
    y = x.copy()
    y[hub] += 0.5 / 3 * x[:hub].sum()
    y[hub + 1 :] += 0.5 / pivot * y[hub]
    y[hub + 1 :] /= 3 - 0.25 / pivot
    y[hub] = (y[hub] + 0.5 * y[hub + 1 :].sum()) / pivot
    y[:hub] = (y[:hub] + 0.5 * y[hub]) / 3
    for make in (linalg.ilu0, linalg.ic0):
        M = make(op)
        np.testing.assert_allclose(M @ x, y, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(M.H @ x, y, rtol=1e-9, atol=1e-9)


def test_several_hubs(device):
    n = 100_000
    op = sg.aslinearoperator(star(n, [0, 1, n // 3, n - 2, n - 1]), device=device)
    b = np.ones(n)
    x, info = linalg.bicgstab(op, b, M=linalg.ilu0(op), rtol=1e-8)
    assert info == 0
    np.testing.assert_allclose(op @ x, b, atol=1e-5)
    assert linalg.block_jacobi(op, 4).shape == (n, n)
