"""Products and solves in functions that JAX transforms, and its sparse matrices."""

import gc
import threading
import weakref

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

import spmvgpu as sg
from differentiable import GENERAL, SYMMETRIC, TIGHT, numbers
from internals import csr_in_place, keep_in_place
from programs import COMPILER, FLAGS, ROOT, subprocess
from support import in_turn, naming, run_python

jax = pytest.importorskip("jax", minversion="0.10")
from jax.experimental import sparse  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

jnp, lax = jax.numpy, jax.lax
N = 9
A = sg.gallery.poisson1d(N)
RECTANGLE = sp.csr_array(np.array([[4.0, 1, 0, 0, -2], [0, 5, 2, 0, 0], [1, 0, 6, 1, 0]]))


@pytest.fixture(autouse=True)
def place(jax_place):
    return jax_place


@pytest.fixture
def op(device):
    return sg.aslinearoperator(A, device=device)


def array(shape, dtype=np.float64, seed=0):
    return jnp.asarray(numbers(shape, dtype, seed))


# Transformed functions

TRANSFORMATIONS = {
    "jit": jax.jit,
    "grad": lambda f: jax.grad(lambda v: jnp.sum(jnp.sin(f(v)))),
    "vmap": lambda f: lambda v: jax.vmap(f)(jnp.stack([v, 2 * v])),
    "jacfwd": jax.jacfwd,
    "jacrev": lambda f: jax.jit(jax.jacrev(f)),
    "hessian": lambda f: jax.hessian(lambda v: jnp.sum(jnp.sin(f(v)))),
    "linearize": lambda f: lambda v: jax.linearize(f, v)[1](v),
    "linear_transpose": lambda f: lambda v: jax.linear_transpose(f, v)(v)[0],
    "scan": lambda f: lambda v: lax.scan(lambda carry, _: (f(carry), None), v, None, length=2)[0],
    "cond": lambda f: lambda v: lax.cond(v[0] > 0, f, lambda v: v, v),
    "checkpoint": lambda f: jax.grad(lambda v: jnp.sum(jax.checkpoint(f)(v) ** 2)),
}
CALLS = {
    "op @ v": lambda A, v: A @ v,
    "v @ op": lambda A, v: v @ A,
    "dot": lambda A, v: A.dot(v),
    "columns": lambda A, v: (A @ jnp.stack([v, 2 * v], 1)).sum(1),
    "rows": lambda A, v: (v[None] @ A)[0],
}


@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("call", CALLS)
def test_transformations(transformation, call, op):
    transform, v = TRANSFORMATIONS[transformation], array(N)
    result = transform(lambda v: CALLS[call](op, v))(v)
    expected = transform(lambda v: CALLS[call](jnp.asarray(A.toarray()), v))(v)
    np.testing.assert_allclose(result, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("fmt", "dtype"), in_turn(sg.formats(), [np.float32, np.float64, np.complex64, np.complex128])
)
def test_products_are_those_outside(dtype, fmt, device):
    matrix = sg.gallery.poisson1d(5).astype(dtype)
    op = sg.aslinearoperator(matrix, format=fmt, device=device)
    for shape in ((5,), (5, 1), (5, 3), (5, 0), (5, 9)):
        x, y = array(shape, dtype), array(shape[::-1], dtype)
        np.testing.assert_array_equal(jax.jit(lambda x: op @ x)(x), op @ x)
        np.testing.assert_array_equal(jax.jit(lambda y: y @ op)(y), y @ op)


def test_without_types_of_64_bits(device):
    """An operator of 64 bits multiplies in these, and the result is rounded."""
    op = sg.aslinearoperator(np.array([[1.0, 1e-9], [-1.0, 0.0]]), device=device)
    with jax.enable_x64(False):
        for function in (lambda x: op @ x, jax.jit(lambda x: op @ x)):
            y = function(jnp.asarray([1.0, 1.0]))
            assert y.dtype == np.float32
            np.testing.assert_array_equal(y, np.array([1 + 1e-9, -1], np.float32))
        small = jax.grad(lambda x: (op @ x).sum() * 1e9)(jnp.asarray([1.0, 1.0]))
        assert small.dtype == np.float32
        np.testing.assert_array_equal(small, np.array([0.0, 1.0], np.float32))
        x = sg.jax.solve(op, jnp.asarray([1.0, 1.0]), "gmres")
        assert x.dtype == np.float32
        pattern = sg.jax.MatrixPattern(np.eye(2), device=device)
        assert pattern.matmul(pattern.values, jnp.asarray([1.0, 1.0])).dtype == np.float32


def test_sums_and_products_of_operators(op):
    v, dense = array(N), A.toarray()
    for made, expected in (
        (op + 2 * op, 3 * dense),
        (op.T @ op, dense.T @ dense),
        (op**2, dense @ dense),
        (op * 2j, 2j * dense),
        (op[:4], dense[:4]),
    ):
        np.testing.assert_allclose(jax.jit(lambda v, made=made: made @ v)(v), expected @ v, atol=1e-12)


# Programs


def test_a_program_keeps_its_matrix(device):
    """And nothing keeps that of a program which is gone."""
    op = sg.aslinearoperator(A, device=device)
    pattern, v = sg.jax.MatrixPattern(A, device=device), array(N)
    gone = [weakref.ref(op._stored), weakref.ref(pattern)]

    values, expected = pattern.values, op @ pattern.matmul(pattern.values, v)
    things = {"op": op, "pattern": pattern}
    function = jax.jit(lambda values, v: things["op"] @ things["pattern"].matmul(values, v))
    lowered = function.lower(values, v)
    del op, pattern
    things.clear()
    program = lowered.compile()
    del lowered
    jax.clear_caches()
    gc.collect()
    for _ in range(3):
        np.testing.assert_array_equal(program(values, v), expected)
    del program
    jax.clear_caches()
    gc.collect()
    assert [reference() for reference in gone] == [None, None]


def test_a_program_of_another_process(place):
    call = jax.ffi.ffi_call("spmvgpu", jax.ShapeDtypeStruct((3,), np.float64))
    sg.jax.MatrixPattern  # noqa: B018  (what registers the call)
    with pytest.raises(jax.errors.JaxRuntimeError, match="that this process does not have"):
        jax.jit(lambda x: call(x, callee=np.int64(1)))(jnp.ones(3)).block_until_ready()
    with pytest.raises(jax.errors.JaxRuntimeError, match="without the number of its callee"):
        jax.jit(lambda x: call(x, other=np.int64(1)))(jnp.ones(3)).block_until_ready()


def test_the_layouts_are_those_of_xla(tmp_path):
    """The core has the structures of XLA's interface in a header of its own."""
    if COMPILER is None:
        pytest.skip("no C++ compiler")
    flags = [*FLAGS, "-Wno-invalid-offsetof", f"-I{jax.ffi.include_dir()}", "-fsyntax-only"]
    subprocess.run([COMPILER, *flags, "tests/cpp/xla_abi.cpp"], cwd=ROOT, check=True)


# What is refused

REFUSED = {
    "spmv": lambda op, v: op.spmv(v),
    "cg": lambda op, v: sg.linalg.cg(op, v)[0],
    "x0": lambda op, v: sg.linalg.cg(op, np.ones(N), v)[0],
    "M": lambda op, v: sg.linalg.cg(op, np.ones(N), M=v)[0],
    "values": lambda op, v: op.update_values(v),
    "jacobi": lambda op, v: sg.linalg.jacobi(op) @ v,
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_is_not_traced_is_refused(call, op):
    with pytest.raises(
        TypeError, match=r"traced by JAX \(jax\.jit.*spmvgpu.jax.solve alone, .*MatrixPattern"
    ):
        jax.jit(lambda v: REFUSED[call](op, v))(jnp.ones(N))


def test_wrong_devices(device, op):
    if device == "cpu":
        pytest.skip("there is one device only")
    x = jax.device_put(np.ones(N), jax.devices("cpu")[0])
    with pytest.raises(ValueError, match=r"x is on 'cpu', but the operator is on 'cuda:.'; move one"):
        jax.jit(lambda x: op @ x)(x)
    on_cpu = op.to("cpu")
    with pytest.raises(ValueError, match="x is on a GPU, but the operator is on 'cpu'; move one"):
        jax.jit(lambda x: on_cpu @ x)(jnp.ones(N))


# Sparse matrices

KINDS = {"BCOO": sparse.BCOO, "BCSR": sparse.BCSR}


@pytest.mark.parametrize("kind", KINDS)
def test_sparse_matrices_stay_where_they_are(kind, device, place, monkeypatch):
    """On a GPU they are converted and checked there; what does so in this test runs on the CPU, too."""
    given = KINDS[kind].fromdense(jnp.asarray(RECTANGLE.toarray()), nse=11)
    arrays = csr_in_place(given)
    assert [array.devices() for array in arrays] == 3 * [{place}]
    assert arrays[1].dtype == arrays[2].dtype == np.int32
    made = sp.csr_array(tuple(map(np.asarray, arrays)), shape=given.shape)
    np.testing.assert_array_equal(made.toarray(), RECTANGLE.toarray())
    if device != "cpu":
        keep_in_place(monkeypatch)
        assert sg.aslinearoperator(given, device=device).nnz == 8


def test_values_that_are_traced_are_refused(device):
    """With the name of what traces them."""
    rows_and_cols, b = jnp.asarray(np.stack(A.nonzero(), 1)), jnp.ones(N)
    doors = {
        "A.data": lambda v: sg.linalg.cg(sparse.BCOO((v, rows_and_cols), shape=A.shape), b)[0],
        "data": lambda v: sg.aslinearoperator(A, device=device).update_values(v),
        "A": lambda v: sg.aslinearoperator(v[:, None], device=device) @ jnp.ones(1),
        "values": lambda v: sg.jax.MatrixPattern(A, device=device).operator(v) @ b,
        "inverse_diagonal": lambda v: sg.linalg.Jacobi(v) @ np.ones(len(A.data)),
    }
    for name, call in doors.items():
        text = rf"{name} is traced by JAX .*spmvgpu\.jax\.MatrixPattern"
        with naming(door=name), pytest.raises(TypeError, match=text):
            jax.grad(lambda v, call=call: jnp.sum(call(v)))(jnp.asarray(A.data))


def test_sparse_matrices_that_are_none(device):
    ones = jnp.ones((2, 3, 3))
    with pytest.raises(TypeError, match="A is a CSR; allowed are BCOO and BCSR"):
        sg.aslinearoperator(sparse.CSR.fromdense(ones[0]), device=device)
    for given in (sparse.BCOO.fromdense(ones, n_batch=1), sparse.BCOO.fromdense(ones, n_dense=1)):
        with pytest.raises(ValueError, match=r"batch and . dense dimensions; it must be a matrix"):
            sg.aslinearoperator(given, device=device)
    data, column = jnp.ones(2), jnp.array([0, 9])
    broken = [
        sparse.BCOO((data, jnp.array([[0, 0], [-1, 0]])), shape=(2, 3)),
        sparse.BCSR((data, column, jnp.array([0, 1, 2])), shape=(2, 3)),
        sparse.BCSR((data, 0 * column, jnp.array([2, 1, 2])), shape=(2, 3)),
    ]
    for given in broken:
        with pytest.raises(ValueError, match=r"indices must lie|indptr"):
            sg.aslinearoperator(given, device=device)
    with pytest.raises(TypeError, match=r"A\.data is traced by JAX"):
        jax.jit(lambda A: sg.aslinearoperator(A, device=device) @ jnp.ones(3))(broken[1])


# Solves


def test_guesses(device):
    big = sg.aslinearoperator(sg.gallery.poisson2d(20), device=device)
    b = array(400)
    solution = sg.jax.solve(big, b, "cg")

    def with_guess(guess, b):
        return sg.jax.solve(big, b, "cg", x0=guess, rtol=1e-7, maxiter=1)

    two, many = jnp.stack([solution, solution]), jnp.stack([b, b])
    for function in (with_guess, jax.jit(with_guess)):
        np.testing.assert_allclose(function(solution, b), solution, atol=1e-5)
        np.testing.assert_allclose(function(two.T, many.T), two.T, atol=1e-5)
        for axes, given in (((0, None), (two, b)), ((None, 0), (solution, many)), ((0, 1), (two, many.T))):
            np.testing.assert_allclose(jax.vmap(function, axes)(*given), two, atol=1e-5)
    gradient = jax.grad(lambda guess: with_guess(guess, b).sum())(solution)
    np.testing.assert_array_equal(gradient, 0)


def test_a_program_has_the_values_of_its_trace(device):
    """And the preconditioner."""
    op = sg.aslinearoperator(SYMMETRIC, device=device)
    b = array(4)
    function = jax.jit(jax.grad(lambda b: (sg.jax.solve(op, b, "cg", M="amg", **TIGHT) ** 2).sum()))
    before = function(b)
    op.update_values(2 * SYMMETRIC.data)
    np.testing.assert_array_equal(function(b), before)


def test_errors_of_compiled_solves(device):
    op = sg.aslinearoperator(sg.gallery.poisson2d(20), device=device)
    for options, text in (
        ({"maxiter": 2}, "NotSolvedError: cg ended after 2"),
        ({"rtol": -1}, "ValueError: rtol"),
    ):
        with pytest.raises(jax.errors.JaxRuntimeError, match=text):
            jax.jit(lambda b, o=options: sg.jax.solve(op, b, "cg", **o))(array(400)).block_until_ready()


def test_batches_of_values(device):
    pattern = sg.jax.MatrixPattern(GENERAL, device=device)
    values, B = jnp.stack([pattern.values, 2 * pattern.values]), array((2, 4))
    solve = jax.vmap(lambda v, b: sg.jax.solve(pattern, b, "gmres", values=v, **TIGHT))
    expected = np.linalg.solve(GENERAL.toarray(), B.T).T / np.array([[1], [2]])
    for function in (solve, jax.jit(solve)):
        np.testing.assert_allclose(function(values, B), expected)


def test_loops(device):
    """Steps in time, each of which solves, differentiated as a whole."""
    op = sg.aslinearoperator(SYMMETRIC, device=device)

    def last(u):
        return jax.lax.scan(lambda u, _: (sg.jax.solve(op, u, "cg", **TIGHT), None), u, None, length=3)[0]

    inverse = np.linalg.matrix_power(np.linalg.inv(SYMMETRIC.toarray()), 3)
    np.testing.assert_allclose(jax.jit(jax.jacrev(last))(array(4)), inverse, rtol=1e-9)
    np.testing.assert_allclose(jax.jacfwd(last)(array(4)), inverse, rtol=1e-9)


def test_preconditioners_of_ones_own(device):
    op = sg.aslinearoperator(GENERAL, device=device)
    inverse = np.diag(1 / GENERAL.diagonal())
    ones_own = LinearOperator(
        (4, 4), matvec=lambda x: inverse @ x, rmatvec=lambda x: inverse @ x, dtype=float
    )
    for M in (sg.linalg.ilu0(op), sg.linalg.amg(op), ones_own):
        solve = jax.jit(lambda b, M=M: sg.jax.solve(op, b, "bicgstab", M=M, **TIGHT))
        check_grads(solve, (array(4),), 1, ("fwd", "rev"), atol=1e-5, rtol=1e-5)


def test_programs_in_threads(device, place):
    """Which solve at the same time, while others do something else in Python."""
    op = sg.aslinearoperator(sg.gallery.poisson2d(15), device=device)
    pattern = sg.jax.MatrixPattern(sg.gallery.poisson2d(15), device=device)

    @jax.jit
    def residual(scale, b):
        x = sg.jax.solve(op, b, "cg", M="jacobi", rtol=1e-10)
        y = sg.jax.solve(pattern, b, "gmres", values=scale * pattern.values, rtol=1e-10, maxiter=500)
        return jnp.abs(op @ x - b).max() + jnp.abs(scale * (op @ y) - b).max()

    found = []

    def work(b):
        with jax.enable_x64(True):
            found.extend(float(residual(1.0 + k, b)) for k in range(5))

    # A thread has no default device but JAX's own, which is where it takes arrays to that are nowhere else.
    given = [jax.device_put(array(225, seed=seed), place) for seed in range(4)]
    threads = [threading.Thread(target=work, args=(b,)) for b in given]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert len(found) == 20
    assert max(found) < 1e-7


def test_shard_map():
    """Over two devices that JAX makes of the CPU."""
    run_python(
        """
        import jax, jax.numpy as jnp, numpy as np, spmvgpu as sg
        from jax.sharding import AxisType, PartitionSpec as P
        jax.config.update("jax_enable_x64", True)
        A = sg.gallery.poisson1d(8)
        op = sg.aslinearoperator(A, device="cpu")
        X = jnp.asarray(np.random.default_rng(0).normal(size=(2, 8)))
        mesh = jax.make_mesh((2,), ("i",), axis_types=(AxisType.Auto,))
        for of_one, dense in (
            (lambda v: op @ v, A.toarray()),
            (lambda v: sg.jax.solve(op, v, "cg", rtol=1e-12), np.linalg.inv(A.toarray())),
        ):
            f = jax.shard_map(jax.vmap(of_one), mesh=mesh, in_specs=P("i"), out_specs=P("i"))
            np.testing.assert_allclose(jax.jit(f)(X), X @ dense.T, atol=1e-9)
            gradient = jax.jit(jax.grad(lambda X: (f(X) ** 2).sum()))(X)
            np.testing.assert_allclose(gradient, 2 * X @ dense.T @ dense, atol=1e-9)
        """,
        XLA_FLAGS="--xla_force_host_platform_device_count=2",
        JAX_PLATFORMS="cpu",
    )


def test_exit_while_programs_run():
    """Those that have begun end, the others do not begin, and nothing waits for what never comes."""
    run_python(
        """
        import jax, jax.numpy as jnp, spmvgpu as sg
        op = sg.aslinearoperator(sg.gallery.poisson2d(100), device="cpu")
        with jax.default_device(jax.devices("cpu")[0]):
            solve = jax.jit(lambda b: sg.jax.solve(op, b, "cg", rtol=1e-4))
            solve(jnp.ones(10000)).block_until_ready()
            for k in range(4):
                solve(jnp.ones(10000) + k)
        """
    )
