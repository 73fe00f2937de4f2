"""Arrays of JAX: products on both sides, its narrow types, and what its transformations do without."""

import numpy as np
import pytest

import spmvgpu as sg
from support import over

jax = pytest.importorskip("jax")
jnp = jax.numpy
N = 9
A = sg.gallery.poisson1d(N)


@pytest.fixture(scope="module", autouse=True)
def double_precision():
    jax.config.update("jax_enable_x64", True)


@pytest.fixture
def op(cpu_of_jax):
    return sg.aslinearoperator(A, device="cpu")


@pytest.fixture
def cpu_of_jax():
    """Arrays are made in host memory, also where JAX knows a GPU."""
    with jax.default_device(jax.devices("cpu")[0]):
        yield


TRANSFORMATIONS = {
    "jit": lambda f: jax.jit(f),
    "grad": lambda f: jax.grad(lambda v: jnp.sum(f(v))),
    "vmap": lambda f: lambda v: jax.vmap(f)(jnp.stack([v, v])),
    "jacfwd": lambda f: jax.jacfwd(f),
    "jacrev": lambda f: jax.jacrev(f),
    "linearize": lambda f: lambda v: jax.linearize(f, v),
    "eval_shape": lambda f: lambda v: jax.eval_shape(f, v),
    "scan": lambda f: lambda v: jax.lax.scan(lambda carry, _: (f(carry), None), v, None, length=2),
}
CALLS = {
    "op @ v": lambda op, v: op @ v,
    "v @ op": lambda op, v: v @ op,
    "matvec": lambda op, v: op.matvec(v),
    "rmatvec": lambda op, v: op.rmatvec(v),
    "spmv": lambda op, v: op.spmv(v),
    "cg": lambda op, v: sg.linalg.cg(op, v)[0],
    "x0": lambda op, v: sg.linalg.cg(op, np.ones(N), v)[0],
    "M": lambda op, v: sg.linalg.cg(op, np.ones(N), M=v)[0],
    "values": lambda op, v: op.update_values(v),
}


@over("transformation", TRANSFORMATIONS)
@over("call", CALLS)
def test_what_is_traced_is_refused_and_the_way_out_named(transformation, call, op):
    transformed = TRANSFORMATIONS[transformation](lambda v: CALLS[call](op, v))
    with pytest.raises(TypeError, match=r"traced by JAX \(jax\.jit.*jax\.pure_callback"):
        transformed(jnp.ones(N))


def test_the_way_out(op):
    """What the message names works, with a gradient."""
    like = jax.ShapeDtypeStruct((N,), "float64")

    @jax.custom_vjp
    def product(v):
        return jax.pure_callback(lambda v: np.asarray(op @ v), like, v)

    def forward(v):
        return product(v), None

    def backward(_, gradient):
        return (jax.pure_callback(lambda g: np.asarray(op.T @ g), like, gradient),)

    product.defvjp(forward, backward)
    x = jnp.arange(float(N))
    np.testing.assert_allclose(jax.jit(product)(x), A @ np.arange(float(N)))
    np.testing.assert_allclose(jax.grad(lambda v: product(v).sum())(x), A.T @ np.ones(N))


NARROW = ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4", "float32", "int8", "bool"]


@over("dtype", NARROW)
@over("of_op", [np.float32, np.float64, np.complex64])
@over("shape", [(N,), (N, 3), (N, 0)])
def test_narrow_types(dtype, of_op, shape, op):
    op = op.astype(of_op)
    x = jnp.ones(shape, dtype)
    for result, expected in ((op @ x, A @ np.ones(shape)), (x.T @ op, np.ones(shape).T @ A)):
        assert isinstance(result, jax.Array)
        assert result.dtype == of_op
        np.testing.assert_array_equal(result, expected)
    if shape == (N,) and dtype != "bool":
        b = jnp.asarray(np.arange(N) % 2, dtype)
        solution, info = sg.linalg.cg(op, b, rtol=1e-5)
        assert info == 0
        assert isinstance(solution, jax.Array)
        np.testing.assert_allclose(A @ np.asarray(solution), np.arange(N) % 2, atol=1e-4)


def test_mixed_with_numpy(op):
    """A guess and a preconditioner may be of NumPy where b is of JAX, and the other way round."""
    b, diagonal = np.ones(N), np.full(N, 0.5)
    expected = sg.linalg.cg(op, b, rtol=1e-10)[0]
    for given in ((b, jnp.asarray(b), jnp.asarray(diagonal)), (jnp.asarray(b), b, diagonal)):
        x, info = sg.linalg.cg(op, given[0], given[1], M=given[2], rtol=1e-10)
        assert info == 0
        assert type(x) is type(given[0])
        np.testing.assert_allclose(x, expected)
