"""Products with arrays of JAX: in functions that it transforms and outside, and its sparse matrices."""

import copy
import gc
import pickle
import threading
import weakref

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from programs import COMPILER, FLAGS, ROOT, subprocess
from spmvgpu.inputs import jax_sparse
from support import naming

jax = pytest.importorskip("jax", minversion="0.10")
from jax.experimental import sparse  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

jnp, lax = jax.numpy, jax.lax
N = 9
A = sg.gallery.poisson1d(N)
RECTANGLE = sp.csr_array(np.array([[4.0, 1, 0, 0, -2], [0, 5, 2, 0, 0], [1, 0, 6, 1, 0]]))
TIGHT = {"atol": 1e-5, "rtol": 1e-5}
BOTH = ("fwd", "rev")


@pytest.fixture(autouse=True)
def place(jax_place):
    return jax_place


@pytest.fixture
def op(device):
    return sg.aslinearoperator(A, device=device)


def array(shape, dtype=np.float64, seed=0):
    random = np.random.default_rng(seed)
    values = random.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * random.normal(size=shape)
    return jnp.asarray(values, dtype)


def with_rectangle(dtype):
    return RECTANGLE * (1 + 0.5j) if np.dtype(dtype).kind == "c" else RECTANGLE


# Outside of transformed functions


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


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("shape", [(5,), (5, 1), (5, 3), (5, 0), (5, 9)])
def test_products_are_those_outside(dtype, shape, fmt, device):
    matrix = sg.gallery.poisson1d(5).astype(dtype)
    op = sg.aslinearoperator(matrix, format=fmt, device=device)
    x = array(shape, dtype)
    np.testing.assert_array_equal(jax.jit(lambda x: op @ x)(x), op @ x)
    y = array(shape[::-1], dtype)
    np.testing.assert_array_equal(jax.jit(lambda y: y @ op)(y), y @ op)


@pytest.mark.parametrize(("dtype", "shape"), [(np.float64, (5, 3)), (np.complex128, (5,))])
def test_derivatives(dtype, shape, device):
    op = sg.aslinearoperator(with_rectangle(dtype), device=device)
    pattern = sg.jax.MatrixPattern(with_rectangle(dtype), device=device)
    x, y = array(shape, dtype), array((*shape[1:], 3), dtype)
    check_grads(lambda x: (op @ x) ** 2, (x,), 2, BOTH, **TIGHT)
    check_grads(jax.jit(lambda y: (y @ op) ** 2), (y,), 2, BOTH, **TIGHT)
    check_grads(pattern.matmul, (pattern.values, x), 2, BOTH, **TIGHT)
    check_grads(jax.jit(lambda *given: pattern.matmul(*given) ** 2), (pattern.values, x), 2, BOTH, **TIGHT)


def test_values_are_read_where_they_are(device, monkeypatch):
    """Products with values, and their gradients, copy none of them in compiled functions."""
    pattern = sg.jax.MatrixPattern(RECTANGLE, device=device)
    monkeypatch.delattr(sg.SparseOperator, "update_values")
    product = jax.jit(pattern.matmul)
    gradient = jax.jit(jax.grad(lambda *given: pattern.matmul(*given).sum(), (0, 1)))
    for factor in (1.0, -2.0):
        values, scaled = factor * pattern.values, factor * RECTANGLE
        for shape in ((5,), (5, 3)):
            x = array(shape)
            np.testing.assert_allclose(product(values, x), scaled @ np.asarray(x), atol=1e-12)
            _, to_x = gradient(values, x)
            expected = scaled.T @ np.ones((RECTANGLE.shape[0], *shape[1:]))
            np.testing.assert_allclose(to_x, expected, atol=1e-12)


def test_mixed_types(device):
    """A gradient has the type of its argument, also of a real one of a complex product."""
    op = sg.aslinearoperator(with_rectangle(complex), device=device)
    dense = jnp.asarray(with_rectangle(complex).toarray())
    for dtype in (np.float32, np.float64, np.complex64):
        x = array(5, dtype)
        gradient = jax.grad(lambda x: jnp.abs(op @ x).sum())(x)
        assert gradient.dtype == x.dtype
        np.testing.assert_allclose(gradient, jax.grad(lambda x: jnp.abs(dense @ x).sum())(x), rtol=1e-5)
    real = sg.aslinearoperator(RECTANGLE, device=device)
    check_grads(jax.jit(lambda x: real @ x), (array(5, complex),), 2, BOTH, **TIGHT)
    x = jnp.asarray([1j * jnp.inf, 0, 0, 0, 0])
    np.testing.assert_array_equal(jax.jit(lambda x: real @ x)(x), real @ x)


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


def test_batches_of_values(device):
    pattern = sg.jax.MatrixPattern(RECTANGLE, device=device)
    values, X = jnp.stack([pattern.values, 2 * pattern.values]), array((2, 5))
    dense = RECTANGLE.toarray()
    expected = np.stack([dense @ X[0], 2 * dense @ X[1]])
    np.testing.assert_allclose(jax.vmap(pattern.matmul)(values, X), expected)
    np.testing.assert_allclose(jax.jit(jax.vmap(pattern.matmul, (0, None)))(values, X[0])[0], expected[0])
    np.testing.assert_allclose(jax.vmap(pattern.matmul, (None, 1))(pattern.values, X.T)[0], expected[0])


def test_pattern(device, place):
    pattern = sg.jax.MatrixPattern(RECTANGLE, device=device)
    assert (pattern.shape, pattern.nnz) == (RECTANGLE.shape, RECTANGLE.nnz)
    assert pattern.values.devices() == pattern.rows.devices() == {place}
    dense = jnp.zeros(pattern.shape).at[pattern.rows, pattern.cols].set(pattern.values)
    np.testing.assert_array_equal(dense, RECTANGLE.toarray())
    np.testing.assert_array_equal(pattern.operator(2 * pattern.values).toarray(), 2 * RECTANGLE.toarray())
    for wrong in (pattern.values[1:], pattern.values.astype(np.float16), pattern.values[None]):
        with pytest.raises(ValueError, match=r"values has shape .* it must have shape \(8,\) and one of"):
            pattern.matmul(wrong, array(5))
    with pytest.raises(TypeError, match="traced by JAX"):
        jax.jit(lambda v: pattern.operator(v).nnz)(pattern.values)


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


def test_programs_in_threads(op, device):
    pattern = sg.jax.MatrixPattern(A, device=device)
    function = jax.jit(lambda values, v: op @ v + pattern.matmul(values, v))
    wrong = []

    def work(seed):
        v = array(N, seed=seed)
        for k in range(20):
            y = function((k + seed) * pattern.values, v)
            if not np.allclose(y, (1 + k + seed) * (A @ v)):
                wrong.append((seed, k))

    with jax.enable_x64(True):
        threads = [threading.Thread(target=in_64_bits(work), args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def in_64_bits(work):
    def run(seed):
        with jax.enable_x64(True):
            work(seed)

    return run


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
@pytest.mark.parametrize("dtype", ["float32", "complex128", "bfloat16", "int64", "bool"])
@pytest.mark.parametrize("nse", [8, 11])
def test_sparse_matrices(kind, dtype, nse, device):
    """Also with entries that fill them up."""
    dense = jnp.asarray(RECTANGLE.toarray(), dtype)
    given = KINDS[kind].fromdense(dense, nse=nse)
    op = sg.aslinearoperator(given, device=device)
    expected = np.asarray(dense)
    if dtype in ("bfloat16", "int64", "bool"):
        expected = expected.astype(np.float64)
    assert (op.dtype, op.nnz) == (expected.dtype, 8)
    np.testing.assert_array_equal(op.toarray(), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_sparse_matrices_stay_where_they_are(kind, device, place, monkeypatch):
    """On a GPU they are converted and checked there; what does so in this test runs on the CPU, too."""
    given = KINDS[kind].fromdense(jnp.asarray(RECTANGLE.toarray()), nse=11)
    arrays = jax_sparse.JaxSource(given).arrays()
    assert [array.devices() for array in arrays] == 3 * [{place}]
    assert arrays[1].dtype == arrays[2].dtype == np.int32
    made = sp.csr_array(tuple(map(np.asarray, arrays)), shape=given.shape)
    np.testing.assert_array_equal(made.toarray(), RECTANGLE.toarray())
    if device != "cpu":
        monkeypatch.setattr(jax_sparse, "_host", None)
        assert sg.aslinearoperator(given, device=device).nnz == 8


def test_duplicates_of_sparse_matrices_are_summed(device):
    given = sparse.BCOO((jnp.array([1.0, 2, 3]), jnp.array([[1, 2], [0, 1], [1, 2]])), shape=(2, 3))
    arrays = [np.asarray(array).tolist() for array in jax_sparse.JaxSource(given).arrays()]
    assert arrays == [[2, 4], [1, 2], [0, 1, 2]]
    np.testing.assert_array_equal(sg.aslinearoperator(given, device=device).toarray(), [[0, 2, 0], [0, 0, 4]])


def pickled(thing):
    return pickle.loads(pickle.dumps(thing))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickled])
def test_patterns_travel(duplicate, device):
    """With the values that they have now."""
    pattern = sg.jax.MatrixPattern(RECTANGLE, format="sell", device=device, sigma=32)
    pattern.values = 2 * pattern.values
    made, x = duplicate(pattern), array(5)
    assert repr(made) == repr(pattern)
    np.testing.assert_array_equal(made.values, pattern.values)
    np.testing.assert_array_equal(made.matmul(made.values, x), pattern.matmul(pattern.values, x))
    np.testing.assert_allclose(jax.jit(made.matmul)(made.values, x), 2 * RECTANGLE @ x)


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
