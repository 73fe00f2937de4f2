"""Solves that JAX differentiates: against dense solves and differences, in batches and when compiled."""

import threading

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

import spmvgpu as sg
from support import run_python

jax = pytest.importorskip("jax", minversion="0.10")
from jax.experimental.sparse import BCOO  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

jnp = jax.numpy
SYMMETRIC = sp.csr_array(np.array([[4.0, 1, 0, 0], [1, 5, 2, 0], [0, 2, 6, 1], [0, 0, 1, 3]]))
GENERAL = sp.csr_array(np.array([[4.0, 1, 0, 0], [0, 5, 2, 0], [1, 0, 6, 1], [0, -1, 0, 3]]))
METHODS = [
    ("auto", None),
    ("cg", None),
    ("cg", "amg"),
    ("minres", "jacobi"),
    ("bicgstab", "jacobi"),
    ("gmres", None),
    ("gmres", "ilu0"),
]
TIGHT = {"rtol": 1e-13}
CLOSE = {"atol": 1e-5, "rtol": 1e-5}
BOTH = ("fwd", "rev")


@pytest.fixture(autouse=True)
def place(jax_place):
    return jax_place


def matrix_for(method, dtype=np.float64):
    A = SYMMETRIC if method in ("cg", "minres") else GENERAL
    return A + 0.5j * (sp.triu(A, 1) - sp.tril(A, -1)) if np.dtype(dtype).kind == "c" else A


def array(shape, dtype=np.float64, seed=0):
    random = np.random.default_rng(seed)
    values = random.normal(size=shape)
    return jnp.asarray(
        values + 1j * random.normal(size=shape) if np.dtype(dtype).kind == "c" else values, dtype
    )


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize(("method", "M"), METHODS)
def test_derivatives_of_b(method, M, dtype, device):
    A = matrix_for(method, dtype)
    op = sg.aslinearoperator(A, device=device)

    def solve(b):
        return sg.jax.solve(op, b, method, M=M, **TIGHT)

    for shape in ((4,), (4, 1), (4, 2), (4, 0)):
        b = array(shape, dtype)
        for x in (solve(b), jax.jit(solve)(b)):
            assert (x.shape, x.dtype) == (shape, dtype)
            np.testing.assert_allclose(x, np.linalg.solve(A.toarray(), b))
    check_grads(lambda b: solve(b) ** 2, (array(4, dtype),), 2, BOTH, **CLOSE)
    check_grads(jax.jit(solve), (array((4, 2), dtype),), 1, BOTH, **CLOSE)


@pytest.mark.parametrize(
    ("method", "M", "dtype"),
    [("auto", None, np.float64), ("bicgstab", None, np.complex128), ("gmres", "jacobi", np.float64)],
)
def test_derivatives_of_b_and_values(method, M, dtype, device):
    pattern = sg.jax.MatrixPattern(matrix_for(method, dtype), device=device)

    def solve(values, b):
        return sg.jax.solve(pattern, b, method, values=values, M=M, **TIGHT)

    given = pattern.values, array(4, dtype)
    check_grads(lambda values, b: solve(values, b) ** 2, given, 2, BOTH, **CLOSE)
    check_grads(jax.jit(solve), given, 2, BOTH, **CLOSE)
    check_grads(jax.jit(solve), (pattern.values, array((4, 2), dtype)), 1, BOTH, **CLOSE)


@pytest.mark.parametrize(
    ("method", "M", "dtype"),
    [("cg", None, np.complex128), ("cg", "amg", np.float64), ("minres", None, np.float64)],
)
def test_derivatives_of_symmetric_values(method, M, dtype, device):
    """Of what the values are made of, so that the matrix stays symmetric, or Hermitian."""
    A = matrix_for(method, dtype)
    pattern = sg.jax.MatrixPattern(A, device=device)

    def solve(triangle, b):
        A = jnp.triu(triangle) + jnp.conj(jnp.triu(triangle, 1)).T
        values = A[pattern.rows, pattern.cols]
        return sg.jax.solve(pattern, b, method, values=values, M=M, **TIGHT)

    # The diagonal of a Hermitian matrix is real, so it is none of what the change is of.
    upper = jnp.asarray(np.triu(A.toarray(), 1))
    diagonal = jnp.diag(jnp.asarray(A.diagonal()))
    b = array(4, dtype)
    np.testing.assert_allclose(solve(upper + diagonal, b), np.linalg.solve(A.toarray(), b))
    check_grads(jax.jit(lambda u, b: solve(jnp.triu(u, 1) + diagonal, b)), (upper, b), 2, BOTH, **CLOSE)


@pytest.mark.parametrize(("method", "M"), [("cg", "jacobi"), ("minres", None)])
def test_derivatives_of_a_singular_system(method, M, device):
    """Conductances of a chain, whose matrix maps constant vectors to zero."""
    path = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(5, 5))
    pattern = sg.jax.MatrixPattern(sp.csr_array(path + sp.eye_array(5)), device=device)

    def matrix(conductances):
        A = jnp.diag(conductances, 1) + jnp.diag(conductances, -1)
        return jnp.diag(A.sum(1)) - A

    def solve(conductances, b):
        values = matrix(conductances)[pattern.rows, pattern.cols]
        return sg.jax.solve(pattern, b, method, values=values, M=M, nullspace="constant", rtol=1e-11)

    def dense(conductances, b):
        return jnp.linalg.solve(matrix(conductances) + 1, b - b.mean())

    given = jnp.exp(array(4)), array(5, seed=1)
    assert abs(solve(*given).sum()) < 1e-12
    both = (0, 1)
    for derivatives in (lambda f: jax.jacrev(f, both), lambda f: jax.jacrev(jax.jacfwd(f), both)):
        for found, expected in zip(derivatives(solve)(*given), derivatives(dense)(*given), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-8)


def test_types(device):
    op = sg.aslinearoperator(SYMMETRIC, device=device)
    b = array(4, np.float32)
    assert sg.jax.solve(op, b, "cg").dtype == np.float64
    assert jax.grad(lambda b: sg.jax.solve(op, b, "cg").sum())(b).dtype == np.float32
    single = op.astype(np.float32)
    for method in ("cg", "auto"):
        for right in (b, jnp.stack([b, 2 * b], 1)):
            for solve in (sg.jax.solve, jax.jit(sg.jax.solve, static_argnums=(0, 2))):
                x = solve(single, right, method)
                assert x.dtype == np.float32
                np.testing.assert_allclose(SYMMETRIC @ x, right, rtol=1e-4, atol=1e-4)
    hermitian = sg.aslinearoperator(matrix_for("cg", complex), device=device)
    gradient = jax.grad(lambda b: jnp.abs(sg.jax.solve(hermitian, b, "cg")).sum())(b)
    dense = jnp.asarray(matrix_for("cg", complex).toarray())
    assert gradient.dtype == np.float32
    expected = jax.grad(lambda b: jnp.abs(jnp.linalg.solve(dense, b)).sum())(b)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5)


def test_guess_and_report(device):
    op = sg.aslinearoperator(SYMMETRIC, device=device)
    b = array(4)
    x = sg.jax.solve(op, b, "cg", **TIGHT)
    assert op.solve_info.iterations > 0
    sg.jax.solve(op, b, "cg", x0=x, rtol=1e-8)
    assert op.solve_info.iterations == 0
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
    gradient = jax.grad(lambda guess: sg.jax.solve(op, array(4), "cg", x0=guess).sum())(array(4))
    np.testing.assert_array_equal(gradient, 0)


def test_a_program_has_the_values_of_its_trace(device):
    """And the preconditioner."""
    op = sg.aslinearoperator(SYMMETRIC, device=device)
    b = array(4)
    function = jax.jit(jax.grad(lambda b: (sg.jax.solve(op, b, "cg", M="amg", **TIGHT) ** 2).sum()))
    before = function(b)
    op.update_values(2 * SYMMETRIC.data)
    np.testing.assert_array_equal(function(b), before)


def test_what_is_not_solved_is_refused(device):
    op = sg.aslinearoperator(sg.gallery.poisson2d(20), device=device)
    b = array(400)
    text = r"cg ended after 2 iterations .* residual of .* rtol"
    with pytest.raises(sg.linalg.NotSolvedError, match=text):
        sg.jax.solve(op, b, "cg", maxiter=2)
    with pytest.raises(jax.errors.JaxRuntimeError, match=f"NotSolvedError: {text}"):
        jax.jit(lambda b: sg.jax.solve(op, b, "cg", maxiter=2))(b).block_until_ready()
    np.testing.assert_allclose(op @ sg.jax.solve(op, b, "cg"), b, atol=1e-6)  # the next one is
    matrix = np.array([[4.0, 1], [1, 3]])
    small, rectangle = (sg.aslinearoperator(A, device=device) for A in (matrix, matrix[:1]))
    pattern = sg.jax.MatrixPattern(matrix, device=device)
    refused = [
        (ValueError, "method='lu' is not allowed", lambda b: sg.jax.solve(small, b, "lu")),
        (TypeError, "values= is needed with a", lambda b: sg.jax.solve(small, b, "cg", values=b)),
        (TypeError, "values= is needed with a", lambda b: sg.jax.solve(pattern, b, "cg")),
        (ValueError, "values has shape", lambda b: sg.jax.solve(pattern, b, "cg", values=b)),
        (TypeError, "M= need a method", lambda b: sg.jax.solve(small, b, M="amg")),
        (TypeError, "nullspace= is for", lambda b: sg.jax.solve(small, b, "gmres", nullspace="constant")),
        (TypeError, r"M must be a LinearOperator .*Jacobi", lambda b: sg.jax.solve(small, b, "cg", M=b)),
        (ValueError, "M='ilu' is not allowed", lambda b: sg.jax.solve(small, b, "gmres", M="ilu")),
        (ValueError, "needs a square one", lambda b: sg.jax.solve(rectangle, b, "cg")),
    ]
    for error, text, call in refused:
        for function in (call, jax.jit(call)):
            with pytest.raises(error, match=text):
                function(jnp.ones(2))
    with pytest.raises(ValueError, match="rtol"):
        sg.jax.solve(small, jnp.ones(2), "cg", rtol=-1)
    with pytest.raises(jax.errors.JaxRuntimeError, match="ValueError: rtol"):
        jax.jit(lambda b: sg.jax.solve(small, b, "cg", rtol=-1))(jnp.ones(2)).block_until_ready()


@pytest.mark.parametrize("method", ["auto", "gmres"])
def test_matrices_are_made_operators(method, device):
    """And complex systems, as solvers do, where b is complex. Foreign operators are called."""
    foreign = LinearOperator(
        (4, 4), matvec=lambda x: GENERAL @ x, rmatvec=lambda x: GENERAL.T @ x, dtype=float
    )
    A = GENERAL.toarray()
    for given in (GENERAL, A, jnp.asarray(A), BCOO.fromdense(jnp.asarray(A)), foreign):
        for b in (array(4), array((4, 2)), array(4, np.complex128), np.ones(4)):
            np.testing.assert_allclose(sg.jax.solve(given, b, method, **TIGHT), np.linalg.solve(A, b))
    if device == "cpu":
        solve = jax.jit(lambda b: sg.jax.solve(foreign, b, method, **TIGHT))
        check_grads(solve, (array(4),), 1, BOTH, **CLOSE)
    with pytest.raises(TypeError, match=r"that was made before: spmvgpu\.aslinearoperator\(A\)"):
        jax.jit(lambda b: sg.jax.solve(GENERAL, b))(array(4))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("method", "M"), [("cg", "amg"), ("gmres", None), ("auto", None)])
def test_batches_are_columns(method, M, axis, device):
    A = matrix_for(method).toarray()
    op = sg.aslinearoperator(A, device=device)
    B = array((5, 4) if axis == 0 else (4, 5))
    rows = B if axis == 0 else B.T

    def loss(B):
        X = jax.vmap(lambda b: sg.jax.solve(op, b, method, M=M, **TIGHT), axis)(B)
        return X.sum(), X

    for function in (loss, jax.jit(loss)):
        (_, X), gradient = jax.value_and_grad(function, has_aux=True)(B)
        np.testing.assert_allclose(X, np.linalg.solve(A, rows.T).T)
        expected = np.linalg.solve(A.T, np.ones(rows.T.shape)).T
        np.testing.assert_allclose(gradient, expected if axis == 0 else expected.T)
    assert op.solve_info is None or not op.solve_info.columns


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
        check_grads(solve, (array(4),), 1, BOTH, **CLOSE)


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
