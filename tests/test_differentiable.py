"""Products and solves that PyTorch and JAX differentiate, against differences and dense matrices."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

import spmvgpu as sg
from differentiable import GENERAL, SYMMETRIC, TIGHT, Jax, Torch, matrix_for, skip_without_factors
from internals import keep_factors
from support import in_turn

RECTANGLE = sp.csr_array(np.array([[4.0, 1, 0, 0, -2], [0, 5, 2, 0, 0], [1, 0, 6, 1, 0]]))
PADDED = sp.csr_array(np.vstack([RECTANGLE.toarray(), np.zeros((1, 5))]))  # of whole blocks
REAL_AND_COMPLEX = [np.float64, np.complex128]
METHODS = [
    *(("auto", None), ("cg", None), ("cg", "amg"), ("minres", "jacobi")),
    *(("bicgstab", "jacobi"), ("gmres", None), ("gmres", "ilu0"), ("direct", None)),
]
# PyTorch says that these are in beta, and that checks may be asked for.
quiet = pytest.mark.filterwarnings("ignore:Sparse (CSR|CSC|BSR|BSC|invariant checks):UserWarning")


@pytest.fixture(params=["torch", "jax"])
def lib(request, device):
    """A library that differentiates."""
    if request.param == "jax":
        request.getfixturevalue("jax_place")
        return Jax()
    pytest.importorskip("torch", minversion="2.6")
    return Torch(device)


def close(x, expected, **tolerance):
    x = x.detach().cpu() if hasattr(x, "detach") else x
    expected = expected.detach().cpu() if hasattr(expected, "detach") else expected
    np.testing.assert_allclose(
        np.asarray(x), np.asarray(expected), **{"rtol": 1e-7, "atol": 1e-10, **tolerance}
    )


# Products


@pytest.mark.parametrize("dtype", REAL_AND_COMPLEX)
def test_derivatives_of_products(dtype, lib, device):
    A = RECTANGLE * dtype(1 + 0.5j) if dtype == np.complex128 else RECTANGLE
    op = sg.aslinearoperator(A, device=device)
    for shape in ((5,), (5, 3), (5, 0)):
        for function in (form(lambda x: op @ x) for form in lib.compile):
            close(function(lib.array(shape, dtype)), A @ lib_numbers(lib.array(shape, dtype)))
    for shape in ((5,), (5, 3)):
        lib.check(lambda x: op @ x, [lib.array(shape, dtype)])


def lib_numbers(x):
    return np.asarray(x.cpu() if hasattr(x, "cpu") else x)


@pytest.mark.parametrize(
    ("fmt", "dtype", "shape"),
    [
        *(("csr", np.float64, (5,)), ("sell", np.float64, (5, 3))),
        *(("dia", np.complex128, (5,)), ("csr", np.complex128, (5, 3))),
    ],
)
def test_derivatives_of_products_and_values(fmt, dtype, shape, lib, device):
    options = {"max_padding": 9} if fmt == "dia" else {}
    pattern = lib.own.MatrixPattern(RECTANGLE, format=fmt, device=device, **options)
    x, values = lib.array(shape, dtype), lib.array(RECTANGLE.nnz, seed=1)
    B = sp.csr_array((lib_numbers(values), RECTANGLE.indices, RECTANGLE.indptr), shape=RECTANGLE.shape)
    close(pattern.matmul(values, x), B @ lib_numbers(x))
    lib.check(pattern.matmul, [values, x])


def test_pattern(lib, device):
    pattern, coo = lib.own.MatrixPattern(RECTANGLE, device=device), RECTANGLE.tocoo()
    assert (pattern.shape, pattern.nnz) == (RECTANGLE.shape, RECTANGLE.nnz)
    for ours, theirs in ((pattern.rows, coo.row), (pattern.cols, coo.col), (pattern.values, coo.data)):
        np.testing.assert_array_equal(lib_numbers(ours), theirs)
    close(
        sg.aslinearoperator(RECTANGLE, device=device) @ lib.array(5),
        pattern.matmul(pattern.values, lib.array(5)),
    )
    np.testing.assert_array_equal(pattern.operator(2 * pattern.values).toarray(), 2 * RECTANGLE.toarray())
    for wrong in (pattern.values[1:], lib.cast(pattern.values, "float16"), pattern.values[None]):
        with pytest.raises(
            ValueError, match=r"values has shape .* must have shape \(8,\) .*float32, float64, complex64"
        ):
            pattern.matmul(wrong, lib.array(5))
    with pytest.raises(ValueError, match="unknown format"):
        lib.own.MatrixPattern(RECTANGLE, format="cuckoo", device=device)


def test_values_are_read_where_they_are(lib, device, monkeypatch):
    """Products with values, and their gradients, copy none of them; those of JAX when they are compiled."""
    pattern = lib.own.MatrixPattern(RECTANGLE, device=device)
    monkeypatch.delattr(sg.SparseOperator, "update_values")
    for form in lib.compile[-1:]:
        product = form(pattern.matmul)
        for factor in (1.0, -2.0):
            values, scaled = factor * pattern.values, factor * RECTANGLE
            for x in (lib.array(5), lib.array((5, 3)), lib.array((5, 3), np.complex128)):
                close(product(values, x), scaled @ lib_numbers(x))
            gradient = lib.gradient(lambda x, of=product, v=values: of(v, x), lib.array(5))
            close(gradient, scaled.T @ np.ones(3))


def test_types_of_products(lib, device):
    """A gradient has the type of its argument, also of a real one of a complex product."""
    op = sg.aslinearoperator(RECTANGLE * (1 + 0.5j), device=device)
    dense = lib.of((RECTANGLE * (1 + 0.5j)).toarray())
    for dtype in (np.float32, np.float64, np.complex64):
        x = lib.array(5, dtype)
        assert (op @ x).dtype == dense.dtype
        gradient = lib.gradient(lambda x: abs(op @ x), x)
        assert gradient.dtype == x.dtype
        close(gradient, lib.gradient(lambda x: abs(dense @ lib.cast(x, "complex128")), x), rtol=1e-5)
    pattern = lib.own.MatrixPattern(RECTANGLE, device=device)
    values = lib.cast(pattern.values, "float32")
    assert lib.gradient(lambda v: pattern.matmul(v, lib.array(5)), values).dtype == values.dtype


def test_batches_of_products(lib, device):
    op, pattern = sg.aslinearoperator(GENERAL, device=device), lib.own.MatrixPattern(GENERAL, device=device)
    for shape in ((3, 4), (3, 4, 2)):
        X = lib.array(shape)
        expected = GENERAL.toarray() @ lib_numbers(X) if X.ndim == 3 else lib_numbers(X) @ GENERAL.T
        close(lib.vmap(lambda x: op @ x)(X), expected)
    values, X = lib.xp.stack([pattern.values, 2 * pattern.values]), lib.array((2, 4))
    dense = lib_numbers(X) @ GENERAL.T
    for form in lib.compile:
        close(form(lib.vmap(pattern.matmul))(values, X), dense * np.array([[1], [2]]))
        close(form(lib.vmap(pattern.matmul, (0, None)))(values, X[0]), [dense[0], 2 * dense[0]])
        close(form(lib.vmap(pattern.matmul, (None, 1)))(pattern.values, X.T), dense)


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))]
)
def test_patterns_travel(duplicate, lib, device):
    """With the values that they have now."""
    pattern = lib.own.MatrixPattern(RECTANGLE, format="sell", device=device, sigma=32)
    pattern.values = 2 * pattern.values
    made, x = duplicate(pattern), lib.array(5)
    assert repr(made) == repr(pattern)
    np.testing.assert_array_equal(lib_numbers(made.values), lib_numbers(pattern.values))
    for form in lib.compile:
        close(form(made.matmul)(made.values, x), 2 * RECTANGLE @ lib_numbers(x))
    assert made.operator(made.values).options == pattern.operator(pattern.values).options


# Sparse matrices


@quiet
@pytest.mark.parametrize("dtype", ["float32", "complex128", "bfloat16", "int64", "bool"])
def test_sparse_matrices(dtype, lib, device):
    dense = lib.cast(lib.of(PADDED.toarray()), dtype)
    expected = PADDED.toarray().astype("float64" if dtype == "bfloat16" else dtype)
    for layout, make in lib.layouts.items():
        if dtype == "bool" and isinstance(lib, Torch):
            continue
        op = sg.aslinearoperator(make(dense), device=device)
        assert op.dtype == (expected.dtype if dtype in ("float32", "complex128") else np.float64), layout
        np.testing.assert_array_equal(op.toarray(), expected, err_msg=layout)


@quiet
def test_duplicates_of_sparse_matrices_are_summed(lib, device):
    given = lib.coo([1.0, 2.0, 3.0], [1, 0, 1], [2, 1, 2], (2, 3))
    np.testing.assert_array_equal(sg.aslinearoperator(given, device=device).toarray(), [[0, 2, 0], [0, 0, 4]])


# Solves


@pytest.mark.parametrize("dtype", REAL_AND_COMPLEX)
@pytest.mark.parametrize(("method", "M"), METHODS)
def test_derivatives_of_b(method, M, dtype, lib, device):
    skip_without_factors(method, device)
    A = matrix_for(method, dtype)
    op = sg.aslinearoperator(A, device=device)

    def solve(b):
        return lib.own.solve(op, b, method, M=M, **TIGHT)

    for shape in ((4,), (4, 1), (4, 2), (4, 0)):
        b = lib.array(shape, dtype)
        for x in (form(solve)(b) for form in lib.compile):
            assert (x.shape, x.dtype) == (shape, b.dtype)
            close(x, np.linalg.solve(A.toarray(), lib_numbers(b)))
    lib.check(solve, [lib.array(4, dtype)])
    lib.check(solve, [lib.array((4, 2), dtype)], order=1)


@pytest.mark.parametrize(
    ("method", "M", "dtype"),
    [
        *(("auto", None, np.float64), ("auto", None, np.complex128)),
        *(("direct", None, np.float64), ("direct", None, np.complex128)),
        *(("bicgstab", None, np.complex128), ("gmres", "jacobi", np.float64)),
    ],
)
def test_derivatives_of_b_and_values(method, M, dtype, lib, device):
    skip_without_factors(method, device)
    pattern = lib.own.MatrixPattern(matrix_for(method, dtype), device=device)

    def solve(values, b):
        return lib.own.solve(pattern, b, method, values=values, M=M, **TIGHT)

    lib.check(solve, [pattern.values, lib.array(4, dtype)])
    lib.check(solve, [pattern.values, lib.array((4, 2), dtype)], order=1)


@pytest.mark.parametrize(
    ("method", "M", "dtype"),
    [("cg", None, np.complex128), ("cg", "amg", np.float64), ("minres", None, np.float64)],
)
def test_derivatives_of_symmetric_values(method, M, dtype, lib, device):
    """Of what the values are made of, so that the matrix stays symmetric, or Hermitian."""
    A, xp = matrix_for(method, dtype), lib.xp
    pattern = lib.own.MatrixPattern(A, device=device)
    # The diagonal of a Hermitian matrix is real, so it is none of what the change is of.
    upper, diagonal = lib.of(np.triu(A.toarray(), 1)), lib.of(np.diag(A.diagonal()))

    def solve(upper, b):
        whole = xp.triu(upper, 1) + xp.conj(xp.triu(upper, 1)).T + diagonal
        return lib.own.solve(pattern, b, method, values=whole[pattern.rows, pattern.cols], M=M, **TIGHT)

    b = lib.array(4, dtype)
    close(solve(upper, b), np.linalg.solve(A.toarray(), lib_numbers(b)))
    lib.check(solve, [upper, b])


@pytest.mark.parametrize(("method", "M"), [("cg", "jacobi"), ("minres", None)])
def test_derivatives_of_a_singular_system(method, M, lib, device):
    """Conductances of a chain, whose matrix maps constant vectors to zero."""
    path, xp = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(5, 5)), lib.xp
    pattern = lib.own.MatrixPattern(sp.csr_array(path + sp.eye_array(5)), device=device)

    def matrix(conductances):
        A = xp.diag(conductances, 1) + xp.diag(conductances, -1)
        return xp.diag(A.sum(1)) - A

    def solve(conductances, b):
        values = matrix(conductances)[pattern.rows, pattern.cols]
        return lib.own.solve(pattern, b, method, values=values, M=M, nullspace="constant", rtol=1e-12)

    def dense(conductances, b):
        return xp.linalg.solve(matrix(conductances) + 1, b - b.mean())

    given = xp.exp(lib.array(4)), lib.array(5, seed=1)
    assert abs(solve(*given).sum()) < 1e-11
    for found, expected in zip(*(lib.second_derivatives(f, given) for f in (solve, dense)), strict=True):
        close(found, expected, atol=1e-7)


def test_types_of_solves(lib, device):
    op = sg.aslinearoperator(SYMMETRIC, device=device)
    b, wide = lib.array(4, np.float32), lib.array(4).dtype
    assert lib.own.solve(op, b, "cg").dtype == wide
    assert lib.gradient(lambda b: lib.own.solve(op, b, "cg"), b).dtype == b.dtype
    for method in ("cg", "auto"):
        for right in (b, lib.xp.stack([b, 2 * b], 1)):
            x = lib.own.solve(op.astype(np.float32), right, method)
            assert x.dtype == b.dtype
            close(SYMMETRIC @ lib_numbers(x), right, rtol=1e-4, atol=1e-4)
    hermitian = sg.aslinearoperator(matrix_for("cg", complex), device=device)
    inverse = lib.of(np.linalg.inv(matrix_for("cg", complex).toarray()))
    gradient = lib.gradient(lambda b: abs(lib.own.solve(hermitian, b, "cg")), b)
    assert gradient.dtype == b.dtype
    close(gradient, lib.gradient(lambda b: abs(inverse @ lib.cast(b, "complex128")), b), rtol=1e-5)


def test_guess_and_report(lib, device):
    op, b = sg.aslinearoperator(SYMMETRIC, device=device), lib.array(4)
    x = lib.own.solve(op, b, "cg", **TIGHT)
    assert op.solve_info.iterations > 0
    lib.own.solve(op, b, "cg", x0=x, rtol=1e-8)
    assert op.solve_info.iterations == 0


def test_what_is_not_solved_is_refused(lib, device):
    op = sg.aslinearoperator(sg.gallery.poisson2d(20), device=device)
    with pytest.raises(sg.linalg.NotSolvedError, match=r"cg ended after 2 iterations .* residual of .* rtol"):
        lib.own.solve(op, lib.array(400), "cg", maxiter=2)
    close(op @ lib.own.solve(op, lib.array(400), "cg"), lib.array(400), atol=1e-6)  # the next one is
    matrix = np.array([[4.0, 1], [1, 3]])
    small, rectangle = (sg.aslinearoperator(A, device=device) for A in (matrix, matrix[:1]))
    pattern, solve = lib.own.MatrixPattern(matrix, device=device), lib.own.solve
    refused = [
        (ValueError, "method='lu' is not allowed", lambda b: solve(small, b, "lu")),
        (TypeError, "values= is for a MatrixPattern", lambda b: solve(small, b, "cg", values=b)),
        (TypeError, "give values=, such as pattern.values", lambda b: solve(pattern, b, "cg")),
        (ValueError, "values has shape", lambda b: solve(pattern, b, "cg", values=b)),
        (TypeError, "M= need an iterative method", lambda b: solve(small, b, M="amg")),
        (TypeError, "M= need an iterative method", lambda b: solve(small, b, "direct", maxiter=3)),
        (
            TypeError,
            "nullspace= is for .*cg and minres, not gmres",
            lambda b: solve(small, b, "gmres", nullspace="constant"),
        ),
        (TypeError, r"M must be a LinearOperator .*Jacobi", lambda b: solve(small, b, "cg", M=b)),
        (ValueError, "M='ilu' is not allowed", lambda b: solve(small, b, "gmres", M="ilu")),
        (ValueError, "needs a square one", lambda b: solve(rectangle, b, "cg")),
    ]
    for error, text, call in refused:
        for form in lib.compile:
            with pytest.raises(error, match=text):
                form(call)(lib.of(np.ones(2)))
    with pytest.raises(ValueError, match="rtol"):
        solve(small, lib.of(np.ones(2)), "cg", rtol=-1)


@quiet
@pytest.mark.parametrize("method", ["auto", "gmres"])
def test_matrices_are_made_operators(method, lib, device):
    """And complex systems, as solvers do, where b is complex. Foreign operators are called."""
    A = GENERAL.toarray()
    foreign = LinearOperator(
        (4, 4), matvec=lambda x: GENERAL @ x, rmatvec=lambda x: GENERAL.T @ x, dtype=float
    )
    mean = (sg.aslinearoperator(GENERAL, device=device) + foreign) / 2
    coo = GENERAL.tocoo()
    sparse = lib.coo(coo.data, coo.row, coo.col, A.shape)
    for given in (GENERAL, A, lib.of(A), sparse, foreign, mean):
        for b in (lib.array(4), lib.array((4, 2)), lib.array(4, np.complex128)):
            x = lib.own.solve(given, b, method, **TIGHT)
            close(x, np.linalg.solve(A, lib_numbers(b)))
    if device == "cpu":
        lib.check(lambda b: lib.own.solve(foreign, b, method, **TIGHT), [lib.array(4)], order=1)
    with pytest.raises(TypeError, match=r"needs the entries of A"):
        lib.own.solve(foreign, lib.array(4), "gmres", M="ilu0")
    with pytest.raises(TypeError, match=r"that was made before: spmvgpu\.aslinearoperator\(A\)"):
        lib.vmap(lambda b: lib.own.solve(GENERAL, b))(lib.array((2, 4)))


def test_factors_solve_for_gradients_too(lib, device, monkeypatch):
    skip_without_factors("direct", device)
    made, _ = keep_factors(monkeypatch)
    op = sg.aslinearoperator(GENERAL, device=device)
    gradient = lib.gradient(lambda b: lib.own.solve(op, b, "direct"), lib.array(4))
    close(gradient, np.linalg.solve(GENERAL.toarray().T, np.ones(4)))
    assert len(made) == 1


@pytest.mark.parametrize("dtype", REAL_AND_COMPLEX)
def test_factors_are_kept_over_steps_with_new_values(dtype, lib, device, monkeypatch):
    skip_without_factors("direct", device)
    made, renewed = keep_factors(monkeypatch)
    A = matrix_for("direct", dtype)
    pattern, b = lib.own.MatrixPattern(A, device=device), lib.array(4, dtype)

    def loss(values):
        return abs(lib.own.solve(pattern, b, "direct", values=values)) ** 2

    def difference(values, of, step=1e-6):
        def size(data):
            B = sp.csr_array((data, A.indices, A.indptr), shape=A.shape).toarray()
            return (abs(np.linalg.solve(B, lib_numbers(b))) ** 2).sum()

        change = step * (np.arange(A.nnz) == of)
        return (size(values + change) - size(values - change)) / (2 * step)

    for factor in (1.0, 2.0, 2.0, 0.5):
        values = factor * A.data
        found = lib_numbers(lib.gradient(loss, lib.of(values))).real
        close(found, [difference(values, k) for k in range(A.nnz)], rtol=1e-5, atol=1e-7)
    assert (len(made), len(renewed)) == (1, 2)


def test_factors_of_other_values_stay_as_they_were(device, monkeypatch):
    torch = pytest.importorskip("torch", minversion="2.6")
    skip_without_factors("direct", device)
    (made, renewed), lib = keep_factors(monkeypatch), Torch(device)
    pattern, b = lib.own.MatrixPattern(GENERAL, device=device), lib.array(4)
    given = [lib.of(factor * GENERAL.data).requires_grad_() for factor in (1.0, 2.0, 3.0)]
    steps = [lib.own.solve(pattern, b, "direct", values=values) for values in given]
    sum(x.sum() for x in steps).backward()
    assert (len(made), len(renewed)) == (1, 2)
    adjoint = np.linalg.solve(GENERAL.toarray().T, np.ones(4))
    rows = np.repeat(np.arange(4), np.diff(GENERAL.indptr))
    for factor, values, x in zip((1.0, 2.0, 3.0), given, steps, strict=True):
        close(values.grad, -adjoint[rows] / factor * x.detach().cpu().numpy()[GENERAL.indices])
    with pytest.raises(sg.linalg.SingularMatrixError):
        lib.own.solve(pattern, b, "direct", values=torch.zeros_like(given[0]))
    close(lib.own.solve(pattern, b, "direct", values=given[0]), steps[0].detach())


@pytest.mark.parametrize(
    ("method", "M", "axis"), in_turn(["cg", "gmres", "auto", "direct"], ["amg", None, None, None], [0, 1])
)
def test_batches_are_columns(method, M, axis, lib, device):
    skip_without_factors(method, device)
    A = matrix_for(method).toarray()
    op, B = sg.aslinearoperator(A, device=device), lib.array((5, 4) if axis == 0 else (4, 5))
    columns = lib_numbers(B).T if axis == 0 else lib_numbers(B)

    def solve(B):
        return lib.vmap(lambda b: lib.own.solve(op, b, method, M=M, **TIGHT), axis)(B)

    for form in lib.compile:
        close(form(solve)(B), np.linalg.solve(A, columns).T)
        gradient = np.linalg.solve(A.T, np.ones(columns.shape))
        close(lib.gradient(form(solve), B), gradient.T if axis == 0 else gradient)


@pytest.mark.parametrize("method", ["cg", "minres", "bicgstab", "gmres", "auto", "direct"])
def test_batches_of_values(method, lib, device, monkeypatch):
    """Matrices of one pattern: together where each system can converge by itself, and in turn elsewhere."""
    skip_without_factors(method, device)
    A, axes = matrix_for(method), (1, 0)
    pattern = lib.own.MatrixPattern(A, device=device)
    factors, b = np.array([1.0, 2.0, 5.0]), lib.array((3, 4))
    values = lib.xp.stack([float(factor) * pattern.values for factor in factors], 1)

    def solved(values, b, M=None):
        return lib.own.solve(pattern, b, method, values=values, M=M, **TIGHT)

    expected = np.linalg.solve(A.toarray(), lib_numbers(b).T).T / factors[:, np.newaxis]
    runs = []
    run = type(pattern)._with_values
    monkeypatch.setattr(
        type(pattern), "_with_values", lambda *args, **how: runs.append(1) or run(*args, **how)
    )
    close(lib.vmap(solved, axes)(values, b), expected)
    assert len(runs) == (3 if method == "auto" else 1)
    for form in lib.compile:
        close(form(lib.vmap(solved, axes))(values, b), expected)
        gradient = lib.gradient(lambda v, form=form: form(lib.vmap(solved, axes))(v, b) ** 2, values)
        for j in range(3):
            alone = lib.gradient(lambda v, j=j: solved(v, b[j]) ** 2, values[:, j])
            close(gradient[:, j], alone, rtol=1e-6)
    two = lib.xp.stack([values, 2 * values])  # a batch of batches, with the same right-hand sides
    both = lib.vmap(lib.vmap(solved, axes), (0, None))(two, b)
    close(both, np.stack([expected, expected / 2]))
    if method in ("cg", "gmres"):
        columns = lib.array((3, 4, 2))
        wanted = np.linalg.solve(A.toarray(), lib_numbers(columns)) / factors[:, np.newaxis, np.newaxis]
        close(lib.vmap(lambda v, b: solved(v, b, "jacobi"), axes)(values, columns), wanted)
        foreign = LinearOperator(A.shape, matvec=lambda x: x, rmatvec=lambda x: x, dtype=np.float64)
        close(lib.vmap(lambda v, b: solved(v, b, foreign), axes)(values, b), expected)


def test_batches_of_values_in_products(lib, device):
    pattern = lib.own.MatrixPattern(RECTANGLE, device=device)
    values = lib.xp.stack([pattern.values, -3 * pattern.values])
    dense = np.stack([RECTANGLE.toarray(), -3 * RECTANGLE.toarray()])
    for shape in ((2, 5), (2, 5, 3)):
        X = lib.array(shape)
        expected = np.einsum("mij,mj...->mi...", dense, lib_numbers(X))
        for form in lib.compile:
            close(form(lib.vmap(pattern.matmul))(values, X), expected)
            close(lib.gradient(lambda X, form=form: form(lib.vmap(pattern.matmul))(values, X), X),
                  np.broadcast_to(dense.sum(1).reshape(2, 5, *[1] * (X.ndim - 2)), shape))  # fmt: skip
        gradient = lib.gradient(lambda v, X=X: lib.vmap(pattern.matmul)(v, X), values)
        sums = lib_numbers(X).reshape(2, 5, -1).sum(2)
        close(gradient, np.stack([row[RECTANGLE.indices] for row in sums]))


# Eigenpairs

LINE = sp.csr_array(sg.gallery.poisson1d(8) + sp.diags_array(0.3 * np.arange(8)))
MASSES = sp.csr_array(sp.diags_array([1.0, 4.0, 1.0], offsets=[-1, 0, 1], shape=(8, 8)) / 6)


def eigenproblem(lib, device, dtype=np.float64):
    """Patterns, their values, and a function that makes matrices with these Hermitian."""
    matrices = [LINE, MASSES]
    if dtype == np.complex128:
        matrices = [B + 0.2j * (sp.triu(B, 1) - sp.tril(B, -1)) for B in matrices]
    patterns = [lib.own.MatrixPattern(B, device=device) for B in matrices]
    # The line couples neighbours alone, so that the entries beside the diagonal come in pairs.
    order = lib.of(sp.csr_array(sp.csr_array((np.arange(22), LINE.indices, LINE.indptr)).T).data)
    return patterns, [pattern.values for pattern in patterns], lambda x: (x + x[order].conj()) / 2


@pytest.mark.parametrize("sigma", [None, 0.1, 2.3])
@pytest.mark.parametrize("dtype", REAL_AND_COMPLEX)
def test_derivatives_of_eigenpairs(dtype, sigma, lib, device):
    (of_A, of_M), given, hermitian = eigenproblem(lib, device, dtype)

    def pairs(values, M_values):
        both = {"values": hermitian(values), "M_values": hermitian(M_values)}
        return lib.own.eigsh(of_A, 3, of_M, sigma, **both)

    w, v = pairs(*given)
    A, M = (of.operator(values).toarray() for of, values in zip((of_A, of_M), given, strict=True))
    close(lib_numbers(v).conj().T @ M @ lib_numbers(v), np.eye(3))
    close(A @ lib_numbers(v), M @ lib_numbers(v) * lib_numbers(w), atol=1e-8)
    lib.check(lambda *both: pairs(*both)[0], given, order=1)
    lib.check(lambda *both: abs(pairs(*both)[1]) ** 2, given, order=1)

    def plain(values):
        w, v = lib.own.eigsh(of_A, 2, which="SA", values=hermitian(values))
        return w * abs(v[1] * v[4]) + 1

    lib.check(plain, given[:1], order=1)


def test_second_derivatives_of_eigenpairs(jax_place, device):
    lib = Jax()
    (of_A, of_M), given, symmetric = eigenproblem(lib, device)

    def function(values, M_values):
        both = {"values": symmetric(values), "M_values": symmetric(M_values)}
        w, v = lib.own.eigsh(of_A, 2, of_M, 0.1, **both)
        return w * (v[1] * v[4])

    lib.check(function, given)
    batch = lib.xp.stack([given[0], 2 * given[0]])
    close(lib.vmap(lambda x: function(x, given[1]))(batch)[1], function(2 * given[0], given[1]))


def test_eigenvalues_in_functional_transforms(device):
    torch = pytest.importorskip("torch", minversion="2.6")
    lib = Torch(device)
    (of_A, _), (values, _), symmetric = eigenproblem(lib, device)

    def total(values):
        return lib.own.eigsh(of_A, 2, values=symmetric(values))[0].sum()

    close(torch.func.grad(total)(values), lib.gradient(total, values))
    values.requires_grad_()
    (gradient,) = torch.autograd.grad(total(values), values, create_graph=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        gradient.sum().backward()


def test_eigenpairs_of_operators(lib, device):
    """A matrix that is no pattern has no gradient."""
    (of_A, of_M), (values, M_values), symmetric = eigenproblem(lib, device)
    op, mass = sg.aslinearoperator(LINE, device=device), sg.aslinearoperator(MASSES, device=device)
    w = lib.own.eigsh(op, 2, mass, 0.1)[0]
    close(w, sg.linalg.eigsh(op, 2, mass, 0.1)[0])
    lib.check(lambda x: lib.own.eigsh(op, 2, of_M, 0.1, M_values=symmetric(x))[0], [M_values], order=1)
    lib.check(lambda x: abs(lib.own.eigsh(of_A, 2, mass, 0.1, values=symmetric(x))[1]), [values], order=1)


def test_multiple_eigenvalues(lib, device):
    """Their sum has a gradient, which takes no solve; their vectors have none."""
    both = sp.block_diag([LINE, LINE], format="csr")
    pattern = lib.own.MatrixPattern(both, device=device)
    v = np.linalg.eigh(both.toarray())[1]
    total = lib.gradient(lambda x: lib.own.eigsh(pattern, 2, values=x)[0], pattern.values)
    close(total, (v[:, -2:] @ v[:, -2:].T)[both.tocoo().coords])

    def of_vector(values):
        return lib.own.eigsh(pattern, 2, values=values)[1][:, 0].sum() ** 4

    with pytest.raises(Exception, match="eigenvalue must be simple"):
        lib_numbers(lib.gradient(of_vector, pattern.values))  # a GPU raises it when the numbers are read


def test_derivatives_of_unit_vectors(lib, device):
    """Eigenvectors of a diagonal matrix, with entries of the pattern beside it."""
    dense = np.diag([1.0, 2.0, 4.0])
    pattern = lib.own.MatrixPattern(sp.csr_array(np.ones((3, 3))), device=device)
    given = lib.of(dense.ravel())
    order = lib.of(np.arange(9).reshape(3, 3).T.ravel())

    def both(values):
        w, v = lib.own.eigsh(pattern, 2, values=(values + values[order]) / 2)
        return w + abs(v[0] + v[1] + v[2])

    lib.check(both, [given], order=1)


def test_what_eigenpairs_refuse(lib, device):
    pattern = lib.own.MatrixPattern(LINE, device=device)
    with pytest.raises(TypeError, match="A is a MatrixPattern: give values="):
        lib.own.eigsh(pattern, 2)
    with pytest.raises(TypeError, match="M is a MatrixPattern: give M_values="):
        lib.own.eigsh(LINE, 2, pattern)
    with pytest.raises(TypeError, match="M_values= is for a MatrixPattern in the place of M"):
        lib.own.eigsh(LINE, 2, M_values=pattern.values)
    with pytest.raises(ValueError, match="which='AB'"):
        lib.own.eigsh(LINE, 2, which="AB")
    with pytest.raises(ValueError, match="values has shape"):
        lib.own.eigsh(pattern, 2, values=pattern.values[1:])
    with pytest.raises(ValueError, match="needs a square one"):
        lib.own.eigsh(lib.own.MatrixPattern(RECTANGLE, device=device), 2, values=lib.array(RECTANGLE.nnz))
