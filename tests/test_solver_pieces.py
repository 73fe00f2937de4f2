"""Solvers whose vectors are in pieces on several devices: the answers of one device."""

import threading

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import spmvgpu as sg
from battery import vector
from conftest import CUDA_DEVICES
from internals import let_parts_have_interiors
from spmvgpu import gallery, linalg
from support import in_turn
from systems import convection, counted, spd, turned

TWICE = CUDA_DEVICES[0] if CUDA_DEVICES else "cuda:0"
GPU_LISTS = [[TWICE] * 2, [TWICE] * 4, *(CUDA_DEVICES[:count] for count in range(2, len(CUDA_DEVICES) + 1))]
GPU_PARAMS = [pytest.param(names, marks=pytest.mark.gpu, id="+".join(names)) for names in GPU_LISTS]
CPU_PARAMS = [pytest.param(["cpu"] * count, id=f"{count} x cpu") for count in (2, 3)]
DTYPES = [np.dtype(name) for name in ("float64", "float32", "complex128", "complex64")]

indefinite = gallery.poisson2d(20) - 0.31 * sp.eye_array(400)
SYSTEMS = {
    "cg": [lambda: gallery.poisson3d(9)],
    "minres": [lambda: gallery.poisson3d(9), lambda: indefinite],
    "bicgstab": [convection],
    "gmres": [convection],
}
CASES = [(solver, number) for solver, made in SYSTEMS.items() for number in range(len(made))]
# No diagonal is a preconditioner of an indefinite matrix.
PRECONDITIONED = [(*case, with_M) for case in CASES for with_M in (False, True) if case[1] == 0 or not with_M]
SOLVERS = list(SYSTEMS)


@pytest.fixture(params=[*CPU_PARAMS, *(GPU_PARAMS if CUDA_DEVICES else [])])
def names(request):
    """Several devices, all GPUs or all the CPU, of which some may be the same."""
    return request.param


@pytest.fixture(params=GPU_PARAMS)
def gpu_names(request):
    return request.param


def spread(A, names, **options):
    """An operator whose parts are of unequal size."""
    powers = [1.0 + 0.7 * number for number in range(len(names))]
    return sg.aslinearoperator(A, device=names, **{"powers": powers, "format": "csr", **options})


def alone(A, names):
    return sg.aslinearoperator(A, device=names[0], format="csr")


def system(solver, dtype, number=0):
    """A matrix for a solver, and a right-hand side."""
    A = sp.csr_array(SYSTEMS[solver][number]())
    if dtype.kind == "c":
        A = turned(A) if solver in ("cg", "minres") else A + 0.5j * sp.eye_array(A.shape[0])
    A = sp.csr_array(A, dtype=dtype)
    return A, A @ vector(A.shape[0], dtype)


def rtol(dtype):
    return 1e-4 if dtype in (np.float32, np.complex64) else 1e-9


def relative_residual(A, x, b):
    wide = np.complex128 if A.dtype.kind == "c" else np.float64
    b = np.asarray(b).astype(wide)
    return np.linalg.norm(b - A.astype(wide) @ np.asarray(x).astype(wide)) / np.linalg.norm(b)


def solve(solver, op, b, **options):
    """The solution, `info`, how it went, and the residuals."""
    residuals = []
    x, info = getattr(linalg, solver)(op, b, residuals=residuals, **options)
    return x, info, op.solve_info, residuals


# Answers


@pytest.mark.parametrize("has_interior", [False, True])
@pytest.mark.parametrize("fmt", ["dia", "stencil", "sell"])
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_formats_whose_products_leave_inner_products(fmt, has_interior, names, dtype, monkeypatch):
    """A device leaves them for all of its rows, for rows that read nothing of other devices, or for none."""
    let_parts_have_interiors(monkeypatch, 1 if has_interior else 1 << 40)
    A = sp.csr_array(gallery.poisson3d(12), dtype=dtype)
    b = A @ vector(A.shape[0], A.dtype)
    op = spread(A, names, format=fmt)
    for M in (None, 2 / A.diagonal()):
        x, info, how, residuals = solve("cg", op, b, M=M, rtol=rtol(A.dtype))
        _, _, _, expected = solve("cg", alone(A, names), b, M=M, rtol=rtol(A.dtype))
        assert (info, how.pieces) == (0, len(names))
        assert relative_residual(A, x, b) <= 1.01 * rtol(A.dtype)
        np.testing.assert_allclose(residuals[:8], expected[:8], rtol=1e4 * np.finfo(A.dtype).eps)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_callback_sees_every_iteration(solver, names):
    """With the solution that belongs to it."""
    A, b = system(solver, np.dtype("float64"))
    seen, of_one = [], []
    options = {"rtol": 1e-9, "maxiter": 7, "callback_type": "x"} if solver == "gmres" else {"maxiter": 7}
    getattr(linalg, solver)(spread(A, names), b, callback=lambda x: seen.append(x.copy()), **options)
    getattr(linalg, solver)(alone(A, names), b, callback=lambda x: of_one.append(x.copy()), **options)
    assert len(seen) == len(of_one)
    for x, y in zip(seen, of_one, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-9 * abs(y).max())


@pytest.mark.parametrize(("solver", "number", "preconditioned"), PRECONDITIONED)
@pytest.mark.parametrize("dtype", DTYPES)
def test_solves_as_one_device_and_as_scipy(solver, number, preconditioned, names, dtype):
    A, b = system(solver, dtype, number)
    op, one = spread(A, names), alone(A, names)
    options = {"rtol": rtol(dtype), "maxiter": 2000}
    inverse = 1 / A.diagonal()
    M = None if not preconditioned else linalg.jacobi(op) if solver in ("cg", "minres") else inverse
    x, info, how, residuals = solve(solver, op, b, M=M, **options)
    y, expected_info, expected, expected_residuals = solve(solver, one, b, M=M, **options)
    assert (info, expected_info) == (0, 0)
    assert (how.pieces, expected.pieces) == (len(names), 1)
    assert not how.resident
    assert x.dtype == dtype
    assert len(residuals) == how.iterations + 1
    # The sums are added in another order, which bicgstab alone feels soon.
    slack = 0.25 if solver == "bicgstab" or dtype.itemsize // (1 + (dtype.kind == "c")) == 4 else 0.02
    assert abs(how.iterations - expected.iterations) <= 1 + slack * expected.iterations
    assert relative_residual(A, x, b) <= 1.01 * rtol(dtype)
    assert np.linalg.norm(x - y) <= 1e3 * rtol(dtype) * np.linalg.norm(y)
    early = min(8, len(residuals), len(expected_residuals))
    np.testing.assert_allclose(residuals[:early], expected_residuals[:early], rtol=1e4 * np.finfo(dtype).eps)
    if dtype == np.float64:
        of_scipy = counted(
            spla, solver, A, b, M=sp.diags_array(inverse) if M is not None else None, **options
        )[-1]
        assert abs(how.iterations - of_scipy) <= 2 + slack * of_scipy


@pytest.mark.parametrize("name", ["arrow", "long_row", "empty_rows", "diagonal", "elasticity3d", "poisson2d"])
def test_halos_of_every_shape(name, names):
    """From none to the whole vector; with parts that have no rows, and no entries."""
    A = spd(name, np.float64)
    b = vector(A.shape[0], A.dtype)
    expected, _ = linalg.cg(alone(A, names), b, rtol=1e-10)
    some = len(names) - 1
    for powers, pieces in (([1.0] * len(names), len(names)), ([0.0] + [1.0] * some, some)):
        op = spread(A, names, powers=powers)
        x, info, how, _ = solve("cg", op, b, rtol=1e-10)
        assert (info, how.pieces) == (0, pieces)
        np.testing.assert_allclose(x, expected, rtol=0, atol=1e-7 * np.abs(expected).max())


def test_a_part_without_entries(names):
    """Its rows say 0 = 0, which minres accepts."""
    n = 600
    diagonal = np.where(np.arange(n) < 300, 0.0, 1.0 + np.arange(n) % 5)
    A = sp.csr_array(sp.diags_array(diagonal))
    A.eliminate_zeros()
    b = A @ np.ones(n)
    x, info, how, _ = solve("minres", spread(A, names, partition="rows"), b, rtol=1e-10)
    assert (info, how.pieces) == (0, len(names))
    np.testing.assert_allclose(x, diagonal > 0, atol=1e-8)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_same_bits_every_time(solver, names):
    """However often the host looks, and whoever wants to see the iterates."""
    A, b = system(solver, np.dtype("float64"))
    op = spread(A, names)
    x, _, how, residuals = solve(solver, op, b)
    looks = [{}, {"check_every": 1}, {"check_every": 7}, {"callback": lambda _: None}]
    if solver == "gmres":
        looks[-1]["callback_type"] = "pr_norm"
    for options in looks:
        again, _, other, others = solve(solver, op, b, **options)
        np.testing.assert_array_equal(again, x)
        np.testing.assert_array_equal(others, residuals)
        assert other.iterations == how.iterations


@pytest.mark.parametrize("preconditioner", [None, "jacobi", "chebyshev"])
@pytest.mark.parametrize("rows", [5, 150, 1500])
def test_the_solution_after_any_number_of_iterations(rows, preconditioner, names):
    """The x of cg takes its steps later. A callback sees x, and so lets it take them at once."""
    A = chain(rows)
    b = vector(rows, A.dtype)
    op = spread(A, names)
    M = preconditioner and getattr(linalg, preconditioner)(op)
    for maxiter in range(1, 15):
        x, info, how, _ = solve("cg", op, b, M=M, rtol=1e-14, maxiter=maxiter)
        y, expected, _, _ = solve("cg", op, b, M=M, rtol=1e-14, maxiter=maxiter, callback=lambda _: None)
        assert (info, how.pieces) == (expected, len(names))
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("values", [1.0, 1e200])
def test_the_solution_of_iterations_that_begin_anew(values, names):
    """Of the true residual, or with a scaled system."""
    off = np.full(499, -0.3)
    A = values * sp.csr_array(sp.diags_array([off, np.logspace(0, 6, 500), off], offsets=[-1, 0, 1]))
    op, b = spread(A, names), vector(500, A.dtype)
    for rtol in (1e-9, 1e-14):
        x, info, how, _ = solve("cg", op, b, rtol=rtol, maxiter=3001)
        y, expected, other, _ = solve("cg", op, b, rtol=rtol, maxiter=3001, callback=lambda _: None)
        assert (info, how.iterations) == (expected, other.iterations)
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("degree", [1, 4])
def test_chebyshev(solver, names, degree):
    """A polynomial in the operator is applied to pieces too."""
    A = gallery.poisson3d(9)
    b = vector(A.shape[0], A.dtype)
    op, one = spread(A, names), alone(A, names)
    M, alike = linalg.chebyshev(op, degree), linalg.chebyshev(one, degree)
    x, info, how, _ = solve(solver, op, b, M=M, rtol=1e-9)
    y, _, expected, _ = solve(solver, one, b, M=alike, rtol=1e-9)
    assert (info, how.pieces, expected.pieces) == (0, len(names), 1)
    assert abs(how.iterations - expected.iterations) <= 1
    np.testing.assert_allclose(x, y, rtol=0, atol=1e-6 * np.abs(y).max())
    again, _, _, _ = solve(solver, op, b, M=M, rtol=1e-9)
    np.testing.assert_array_equal(again, x)
    z, info, how, _ = solve(solver, op, b, M=linalg.chebyshev(spread(A, names), degree), rtol=1e-9)
    assert (info, how.pieces) == (0, 1)  # a polynomial in another operator, though of the same matrix
    np.testing.assert_allclose(z, y, rtol=0, atol=1e-6 * np.abs(y).max())


@pytest.mark.parametrize("solver", SOLVERS)
def test_long_solves(solver, names):
    """On GPUs a graph of many iterations on all streams does what the iterations do one by one."""
    A = gallery.poisson2d(60)
    if solver in ("bicgstab", "gmres"):
        wind = sp.diags_array([-1.0, 1.0], offsets=[-1, 1], shape=(60, 60))
        A = A + 0.3 * sp.kron(sp.eye_array(60), wind)
    b = vector(A.shape[0], A.dtype)
    op = spread(sp.csr_array(A), names)
    options = {"restart": 4, "callback_type": "pr_norm"} if solver == "gmres" else {}
    x, info, how, residuals = solve(solver, op, b, rtol=1e-9, maxiter=3000, **options)
    assert info == 0
    assert how.iterations > 60
    y, _, _, others = solve(solver, op, b, rtol=1e-9, maxiter=3000, callback=lambda _: None, **options)
    np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(residuals, others)


# Sizes


def chain(n):
    """A tridiagonal matrix, positive definite and well conditioned at every size."""
    off = np.full(max(n - 1, 0), -1.0)
    return sp.csr_array(sp.diags_array([off, np.full(n, 4.0), off], offsets=[-1, 0, 1], shape=(n, n)))


def unaligned(x, offset):
    """A copy that begins so many bytes after an address that is a multiple of 64."""
    memory = np.zeros(x.nbytes + 128, np.uint8)
    begin = -memory.ctypes.data % 64 + offset
    copy = memory[begin : begin + x.nbytes].view(x.dtype)
    copy[:] = x
    return copy


# Transfers are staged from a mebibyte on, and go in several pieces from two on.
@pytest.mark.parametrize("rows", [131_071, 131_073, 333_333])
@pytest.mark.parametrize(("solver", "offset"), in_turn(SOLVERS, [8, 0, 24, 56]))
def test_vectors_around_the_thresholds_of_transfers(solver, offset, rows, names):
    """A piece of `b`, `x0` or the solution may begin at any address."""
    rows *= len(names)
    A = chain(rows)
    expected = vector(rows, A.dtype)
    b = A @ expected
    op = spread(A, names, powers=[1.0] * len(names), partition="rows")
    x0 = unaligned(0.5 * expected, 64 - offset)
    x, info, how, _ = solve(solver, op, unaligned(b, offset), x0=x0, rtol=1e-8)
    assert (info, how.pieces) == (0, len(names))
    np.testing.assert_allclose(x, expected, rtol=0, atol=1e-6)
    y = unaligned(np.full(rows, np.nan), offset)
    assert op.spmv(unaligned(expected, 64 - offset), out=y) is y
    np.testing.assert_allclose(y, b, rtol=0, atol=1e-13)
    distributed = op.vector(unaligned(expected, offset))
    np.testing.assert_allclose((op @ distributed).collect(), b, rtol=0, atol=1e-13)


@pytest.mark.parametrize("by", ["nnz", "pmf", "rows"])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 7])
def test_parts_of_one_row_and_of_none(rows, by, names):
    A = chain(rows)
    expected = vector(rows, A.dtype)
    op = spread(A, names, partition=by)
    for solver in SOLVERS:
        x, info = getattr(linalg, solver)(op, A @ expected, rtol=1e-10)
        assert info == 0
        np.testing.assert_allclose(x, expected, rtol=0, atol=1e-9)


@pytest.mark.gpu
@pytest.mark.nightly
def test_transfers_in_pieces_of_the_largest_size(gpu_names):
    """Pieces of a staged transfer are largest for vectors of 256 MiB."""
    rows = len(gpu_names) * 33_554_433 + 1
    A = chain(rows)
    expected = vector(rows, A.dtype)
    b = A @ expected
    op = spread(A, gpu_names, powers=[1.0] * len(gpu_names), partition="rows")
    x, info, how, _ = solve("cg", op, unaligned(b, 8), rtol=1e-9)
    assert (info, how.pieces) == (0, len(gpu_names))
    np.testing.assert_allclose(x, expected, rtol=0, atol=1e-7)


# Stopping, and looking on


def test_breakdowns_are_named(names):
    n = 300
    negative = sp.csr_array(sp.diags_array(np.where(np.arange(n) % 2, 1.0, -1.0)))
    with pytest.warns(linalg.SolverWarning, match="not positive definite"):
        assert linalg.cg(spread(negative, names), np.ones(n))[1] == -11
    for solver in SOLVERS:
        A, b = system(solver, np.dtype("float64"))
        b[-1] = np.nan  # in the last piece alone
        with pytest.warns(linalg.SolverWarning, match="NaN"):
            assert getattr(linalg, solver)(spread(A, names), b)[1] == -12


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_callback_that_raises(solver, names):
    A, b = system(solver, np.dtype("float64"))
    op = spread(A, names)
    x, _ = getattr(linalg, solver)(op, b)
    kept = op.work_nbytes

    def fail(_):
        raise LookupError("enough")

    options = {"callback_type": "pr_norm"} if solver == "gmres" else {}
    for _ in range(3):
        with pytest.raises(LookupError, match="enough"):
            getattr(linalg, solver)(op, b, callback=fail, **options)
    np.testing.assert_array_equal(getattr(linalg, solver)(op, b)[0], x)
    assert op.work_nbytes == kept


# Memory and threads


def test_threads_that_solve_at_once(names):
    A, b = system("cg", np.dtype("float64"))
    op = spread(A, names)
    expected = [linalg.cg(op, factor * b, rtol=1e-8)[0] for factor in range(1, 5)]
    found = [None] * 4

    def work(k):
        for _ in range(5):
            found[k] = linalg.cg(op, (k + 1) * b, rtol=1e-8)[0]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, wanted)


# Whole vectors


def test_what_takes_whole_vectors(names):
    """A preconditioner that is no diagonal, and parts whose rows are no neighbours."""
    A = spd("poisson2d", np.float64)
    b = vector(A.shape[0], A.dtype)
    op = spread(A, names)
    exact = spla.factorized(sp.csc_array(A))
    callback = spla.LinearOperator(A.shape, matvec=exact, dtype=A.dtype)
    for M in (callback, linalg.chebyshev(alone(A, names), degree=3), sp.csr_array(sp.eye_array(A.shape[0]))):
        x, info, how, _ = solve("cg", op, b, M=M, rtol=1e-9)
        assert (info, how.pieces) == (0, 1)
        assert relative_residual(A, x, b) <= 2e-9
    scattered = spread(A, names, partition="pmf")
    x, info, how, _ = solve("cg", scattered, b, rtol=1e-9)
    assert (info, how.pieces) == (0, 1)
    assert relative_residual(A, x, b) <= 2e-9


def test_one_part_is_solved_as_an_operator_on_one_device(names):
    A, b = system("cg", np.dtype("float64"))
    one, single = alone(A, names), sg.aslinearoperator(A, device=names[:1], format="csr")
    rest = spread(A, names, powers=[1.0] + [0.0] * (len(names) - 1))
    x, _, expected, _ = solve("cg", one, b)
    for op in (single, rest):
        y, _, how, _ = solve("cg", op, b)
        np.testing.assert_array_equal(x, y)
        assert (how.pieces, how.resident) == (1, expected.resident)


@pytest.mark.gpu
def test_a_gpu_and_the_cpu_take_whole_vectors(cuda_device):
    A, b = system("cg", np.dtype("float64"))
    x, info, how, _ = solve("cg", spread(A, [cuda_device, "cpu"]), b, rtol=1e-9)
    assert (info, how.pieces) == (0, 1)
    assert relative_residual(A, x, b) <= 2e-9


# Arrays on a GPU


@pytest.mark.parametrize("solver", SOLVERS)
def test_device_arrays(solver, gpu_names, library):
    """The result is where b is, whichever of the devices that may be; on a stream of the caller."""
    A, b = system(solver, np.dtype("float64"))
    op = spread(A, gpu_names)
    expected, _ = getattr(linalg, solver)(op, b, rtol=1e-9)
    M = 1 / A.diagonal() if solver != "minres" else None
    for name in sorted(set(gpu_names)):
        with library.new_stream(name) as stream:
            on_device, guess = library.asarray(b, name), library.asarray(np.zeros_like(b), name)
            x, info = getattr(linalg, solver)(op, on_device, guess, rtol=1e-9)
            assert (info, op.solve_info.pieces) == (0, len(gpu_names))
            assert library.device_name(x) == name
            library.synchronize(stream)
            np.testing.assert_allclose(library.to_numpy(x), expected, atol=1e-6 * np.abs(expected).max())
            if M is not None:
                diagonal = library.asarray(M, name)
                assert getattr(linalg, solver)(op, on_device, M=diagonal, rtol=1e-9)[1] == 0
                assert op.solve_info.pieces == len(gpu_names)
            exact = spla.factorized(sp.csc_array(A))
            callback = spla.LinearOperator(A.shape, matvec=exact, dtype=A.dtype)
            if solver != "minres":
                x, info = getattr(linalg, solver)(op, on_device, M=callback, rtol=1e-9)
                assert (info, op.solve_info.pieces) == (0, 1)
                library.synchronize(stream)
                assert relative_residual(A, library.to_numpy(x), b) <= 2e-9


def test_device_arrays_elsewhere(gpu_names, library):
    others = sorted(set(gpu_names))
    if len(others) < 2:
        pytest.skip("needs two GPUs")
    A, b = system("cg", np.dtype("float64"))
    op = spread(A, gpu_names)
    with pytest.raises(ValueError, match=f"x0 is on '{others[1]}', but .* '{others[0]}'"):
        linalg.cg(op, library.asarray(b, others[0]), library.asarray(b, others[1]))


OTHERS = {
    "lsqr": lambda op, b, _: linalg.lsqr(op, b, atol=1e-12, btol=1e-12)[0],
    "lsmr": lambda op, b, _: linalg.lsmr(op, b, atol=1e-12, btol=1e-12)[0],
    "cgls": lambda op, b, _: linalg.cgls(op, b, rtol=1e-11)[0],
    "solve": lambda op, b, _: linalg.solve(op, b, rtol=1e-11),
    "cg with x0": lambda op, b, x0: linalg.cg(op, b, x0, rtol=1e-11)[0],
    "cg with jacobi": lambda op, b, _: linalg.cg(op, b, M="jacobi", rtol=1e-11)[0],
    "cg with chebyshev": lambda op, b, _: linalg.cg(op, b, M=linalg.chebyshev(op, 3), rtol=1e-11)[0],
}


@pytest.mark.parametrize("call", OTHERS)
@pytest.mark.parametrize("rows", [1000, 1_000_003])
def test_every_solver_takes_device_arrays(call, rows, gpu_names, library):
    """Vectors may be on any of the GPUs, and the solution is there too."""
    A = chain(rows)
    expected = vector(rows, A.dtype)
    op = spread(A, gpu_names)
    for name in sorted(set(gpu_names)):
        b, x0 = library.asarray(A @ expected, name), library.asarray(0.5 * expected, name)
        x = OTHERS[call](op, b, x0)
        assert library.device_name(x) == name
        np.testing.assert_allclose(library.to_numpy(x), expected, rtol=0, atol=1e-7)


def test_several_right_hand_sides_on_a_gpu(gpu_names, library):
    A = chain(100_001)
    expected = vector(3 * A.shape[0], A.dtype).reshape(-1, 3)
    op = spread(A, gpu_names)
    for name in sorted(set(gpu_names)):
        x, info = linalg.cg(op, library.asarray(A @ expected, name), rtol=1e-11)
        assert (np.asarray(info) == 0).all()
        assert library.device_name(x) == name
        np.testing.assert_allclose(library.to_numpy(x), expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    "largest",
    [
        lambda A, **options: linalg.eigsh(A, 3, which="LA", **options),
        lambda A, **options: linalg.svds(A, 3, **options)[1::-1],
    ],
    ids=["eigsh", "svds"],
)
def test_a_start_vector_on_a_gpu(largest, gpu_names, library):
    A = gallery.poisson2d(30)
    expected, _ = largest(alone(A, ["cpu"]))
    op = spread(A, gpu_names)
    for name in sorted(set(gpu_names)):
        values, vectors = largest(op, v0=library.asarray(vector(A.shape[0], A.dtype), name))
        assert library.device_name(values) == library.device_name(vectors) == name
        np.testing.assert_allclose(library.to_numpy(values), expected, rtol=1e-10)
