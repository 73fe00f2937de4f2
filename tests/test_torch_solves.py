"""Solves that PyTorch differentiates: gradients against differences, batches, and compiled functions."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

import spmvgpu as sg

torch = pytest.importorskip("torch", minversion="2.6")

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


def matrix_for(method, dtype=torch.float64):
    A = SYMMETRIC if method in ("cg", "minres") else GENERAL
    return A + 0.5j * (sp.triu(A, 1) - sp.tril(A, -1)) if dtype.is_complex else A


@pytest.fixture
def place(device):
    """The device in PyTorch's terms."""
    return torch.device(device)


def tensor(shape, place, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=dtype).to(place).requires_grad_()


def dense(A, place):
    return torch.from_numpy(A.toarray()).to(place)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize(("method", "M"), METHODS)
def test_gradient_of_b(method, M, dtype, device, place):
    A = matrix_for(method, dtype)
    op = sg.aslinearoperator(A, device=device)

    def solve(b):
        return sg.torch.solve(op, b, method, M=M, **TIGHT)

    for shape in ((4,), (4, 1), (4, 2)):
        b = tensor(shape, place, dtype=dtype)
        torch.testing.assert_close(solve(b), torch.linalg.solve(dense(A, place), b))
        assert torch.autograd.gradcheck(solve, b)
    assert torch.autograd.gradgradcheck(lambda b: solve(b) ** 2, tensor((4,), place, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize(("method", "M"), [("auto", None), ("bicgstab", None), ("gmres", "jacobi")])
def test_gradient_of_b_and_values(method, M, dtype, device, place):
    pattern = sg.torch.MatrixPattern(matrix_for(method, dtype), device=device)
    values, b = pattern.values.requires_grad_(), tensor((4,), place, dtype=dtype)

    def solve(values, b):
        return sg.torch.solve(pattern, b, method, values=values, M=M, **TIGHT)

    assert torch.autograd.gradcheck(solve, (values, b))
    assert torch.autograd.gradcheck(solve, (values, tensor((4, 2), place, dtype=dtype)))
    assert torch.autograd.gradgradcheck(lambda values, b: solve(values, b) ** 2, (values, b))


@pytest.mark.parametrize(("method", "M"), [("cg", None), ("cg", "amg"), ("minres", None)])
def test_gradient_of_symmetric_values(method, M, device, place):
    """Of what the values are made of, so that the matrix stays symmetric."""
    pattern = sg.torch.MatrixPattern(SYMMETRIC, device=device)
    lower = torch.minimum(pattern.rows, pattern.cols), torch.maximum(pattern.rows, pattern.cols)

    def solve(triangle, b):
        return sg.torch.solve(pattern, b, method, values=triangle[lower], M=M, **TIGHT)

    triangle = dense(SYMMETRIC, place).requires_grad_()
    b = tensor((4,), place)
    assert torch.autograd.gradcheck(solve, (triangle, b))
    assert torch.autograd.gradgradcheck(lambda triangle, b: solve(triangle, b) ** 2, (triangle, b))


@pytest.mark.parametrize(("method", "M"), [("cg", "jacobi"), ("minres", None)])
def test_gradient_of_a_singular_system(method, M, device, place):
    """Conductances of a chain, whose matrix maps constant vectors to zero."""
    path = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(5, 5))
    pattern = sg.torch.MatrixPattern(sp.csr_array(path + sp.eye_array(5)), device=device)
    rows, cols = pattern.rows, pattern.cols

    def solve(conductances, b):
        A = torch.diag(conductances, 1) + torch.diag(conductances, -1)
        values = (torch.diag(A.sum(1)) - A)[rows, cols]
        return sg.torch.solve(pattern, b, method, values=values, M=M, nullspace="constant", **TIGHT)

    conductances, b = tensor((4,), place).detach().exp().requires_grad_(), tensor((5,), place, seed=1)
    assert abs(solve(conductances, b).sum().item()) < 1e-12
    assert torch.autograd.gradcheck(solve, (conductances, b))
    assert torch.autograd.gradgradcheck(lambda *given: solve(*given) ** 2, (conductances, b))


def test_types(device, place):
    op = sg.aslinearoperator(SYMMETRIC, device=device)
    b = tensor((4,), place, dtype=torch.float32)
    x = sg.torch.solve(op, b, "cg")
    assert x.dtype == torch.float64
    x.sum().backward()
    assert b.grad.dtype == torch.float32
    single = sg.torch.solve(op.astype(np.float32), b, "cg")
    assert single.dtype == torch.float32
    with torch.autocast(place.type, dtype=torch.bfloat16):
        assert sg.torch.solve(op, b, "cg").dtype == torch.float64
        assert sg.torch.matmul(op, b).dtype == torch.float64


def test_guess_and_report(device, place):
    op = sg.aslinearoperator(SYMMETRIC, device=device)
    b = tensor((4,), place)
    x = sg.torch.solve(op, b, "cg", **TIGHT)
    assert op.solve_info.iterations > 0
    guess = x.detach().requires_grad_()
    sg.torch.solve(op, b, "cg", x0=guess, rtol=1e-8).sum().backward()
    assert op.solve_info.iterations == 0
    assert guess.grad is None


def test_preconditioner_is_kept_for_the_gradient(device, place):
    """And the values that the operator had."""
    op = sg.aslinearoperator(SYMMETRIC, device=device)
    b = tensor((4,), place)
    x = sg.torch.solve(op, b, "cg", M="amg", **TIGHT)
    op.update_values(2 * SYMMETRIC.data)
    x.sum().backward()
    expected = torch.linalg.solve(dense(SYMMETRIC, place), torch.ones_like(b))
    torch.testing.assert_close(b.grad, expected)


def test_several_values_in_one_graph(device, place):
    """Each product and solve has the values that it was given, in whatever order gradients are computed."""
    pattern = sg.torch.MatrixPattern(GENERAL, device=device)
    b = tensor((4,), place).detach()
    values = [(scale * pattern.values).requires_grad_() for scale in (1.0, 2.0, 3.0)]
    solutions = [sg.torch.solve(pattern, b, "gmres", values=v, M="jacobi", **TIGHT) for v in values]
    for k in (1, 0, 2):
        solutions[k].sum().backward()
        expected = values[k].detach().requires_grad_()
        A = torch.zeros(4, 4, dtype=torch.float64, device=place)
        A = A.index_put((pattern.rows, pattern.cols), expected)
        torch.linalg.solve(A, b).sum().backward()
        torch.testing.assert_close(values[k].grad, expected.grad)


def test_what_is_not_solved_is_refused(device, place):
    op = sg.aslinearoperator(sg.gallery.poisson2d(20), device=device)
    b = tensor((400,), place)
    with pytest.raises(sg.linalg.NotSolvedError, match=r"cg ended after 2 iterations .* residual of .* rtol"):
        sg.torch.solve(op, b, "cg", maxiter=2)
    solution = sg.torch.solve(op, b, "cg").detach()
    x = sg.torch.solve(op, b, "cg", x0=solution, rtol=1e-7, maxiter=1)
    with pytest.raises(sg.linalg.NotSolvedError, match="cg ended after 1 iterations"):  # for the gradient
        (x**2).sum().backward()
    with pytest.raises(ValueError, match="method='lu' is not allowed"):
        sg.torch.solve(op, b, "lu")
    with pytest.raises(TypeError, match="values= is needed with a MatrixPattern"):
        sg.torch.solve(op, b, "cg", values=b)
    with pytest.raises(TypeError, match="M= need a method"):
        sg.torch.solve(op, b, M="amg")
    with pytest.raises(TypeError, match="nullspace= is for the methods cg and minres, not gmres"):
        sg.torch.solve(op, b, "gmres", nullspace="constant")
    with pytest.raises(TypeError, match=r"M must be a LinearOperator .* not Tensor.*Jacobi"):
        sg.torch.solve(op, b, "cg", M=b)
    with pytest.raises(ValueError, match="M='ilu' is not allowed"):
        sg.torch.solve(op, b, "gmres", M="ilu")
    with pytest.raises(ValueError, match="rtol"):
        sg.torch.solve(op, b, "cg", rtol=-1)


@pytest.mark.filterwarnings("ignore:Sparse CSR:UserWarning")
@pytest.mark.parametrize("method", ["auto", "gmres"])
def test_matrices_are_made_operators(method, device, place):
    """And complex systems, as solvers do, where b is complex. Foreign operators are called."""
    b, A = tensor((4,), place), dense(GENERAL, place)
    foreign = LinearOperator(
        (4, 4), matvec=lambda x: GENERAL @ x, rmatvec=lambda x: GENERAL.T @ x, dtype=np.float64
    )
    mean = (sg.aslinearoperator(GENERAL, device=device) + foreign) / 2
    for given in (GENERAL, A.to_sparse_csr(), foreign, mean):
        M = None if method == "auto" or isinstance(given, LinearOperator) else "ilu0"

        def solve(b, given=given, M=M):
            return sg.torch.solve(given, b, method, M=M, **TIGHT)

        for right in (b, tensor((4, 2), place), tensor((4,), place, dtype=torch.complex128)):
            torch.testing.assert_close(solve(right), torch.linalg.solve(A.to(right.dtype), right))
            assert torch.autograd.gradcheck(solve, right)
    with pytest.raises(TypeError, match=r"needs the entries of A"):
        sg.torch.solve(foreign, b, "gmres", M="ilu0")
    with pytest.raises(TypeError, match=r"that was made before: spmvgpu\.aslinearoperator\(A\)"):
        torch.vmap(lambda b: sg.torch.solve(GENERAL, b))(tensor((2, 4), place))


# Batches


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("method", "M"), [("cg", "amg"), ("gmres", None), ("auto", None)])
def test_batches_are_columns(method, M, axis, device, place):
    A = matrix_for(method)
    op = sg.aslinearoperator(A, device=device)
    B = tensor((5, 4) if axis == 0 else (4, 5), place)
    X = torch.vmap(lambda b: sg.torch.solve(op, b, method, M=M, **TIGHT), in_dims=axis)(B)
    torch.testing.assert_close(X, torch.linalg.solve(dense(A, place), B.T if axis == 0 else B).T)
    (gradient,) = torch.autograd.grad(X.sum(), B)
    expected = torch.linalg.solve(dense(A, place).T, torch.ones_like(B.T if axis == 0 else B))
    torch.testing.assert_close(gradient, expected.T if axis == 0 else expected)


def test_batches_of_products(device, place):
    op = sg.aslinearoperator(GENERAL, device=device)
    pattern = sg.torch.MatrixPattern(GENERAL, device=device)
    A = dense(GENERAL, place)
    for shape in ((3, 4), (3, 4, 2)):
        X = tensor(shape, place)
        torch.testing.assert_close(torch.vmap(lambda x: op @ x)(X), A @ X if X.ndim == 3 else X @ A.T)
    values = torch.stack([pattern.values, 2 * pattern.values])
    Y = torch.vmap(pattern.matmul, in_dims=(0, None))(values, X[0])
    torch.testing.assert_close(Y, torch.stack([A @ X[0], 2 * A @ X[0]]))


def test_function_transforms(device, place):
    op = sg.aslinearoperator(GENERAL, device=device)
    A, b = dense(GENERAL, place), tensor((4,), place).detach()
    torch.testing.assert_close(torch.func.jacrev(lambda x: op @ x)(b), A)
    torch.testing.assert_close(torch.func.grad(lambda x: (op @ x).sum())(b), A.sum(0))
    inverse = torch.func.jacrev(lambda b: sg.torch.solve(op, b, "gmres", **TIGHT))(b)
    torch.testing.assert_close(inverse, torch.linalg.inv(A))
    assert torch.autograd.gradcheck(lambda x: op @ x, b.requires_grad_(), check_batched_grad=True)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:FutureWarning")  # PyTorch uses it
def test_forward_differentiation_is_refused(device, place):
    """Rather than give a result without a tangent."""
    op = sg.aslinearoperator(GENERAL, device=device)
    b = tensor((4,), place).detach()
    for function in (lambda b: op @ b, lambda b: sg.torch.solve(op, b, "gmres")):
        with pytest.raises(RuntimeError, match="jvp"):
            torch.func.jvp(function, (b,), (b,))
        with torch.autograd.forward_ad.dual_level(), pytest.raises(RuntimeError, match="jvp"):
            function(torch.autograd.forward_ad.make_dual(b, b))


# Compiled functions


@pytest.fixture
def compiled():
    """Compile a function into one graph, gradients included."""
    torch._dynamo.reset()
    yield lambda function: torch.compile(function, fullgraph=True, backend="aot_eager")
    torch._dynamo.reset()


def test_compiled_products(compiled, device, place):
    op = sg.aslinearoperator(GENERAL, device=device)
    pattern = sg.torch.MatrixPattern(GENERAL, device=device)
    A = dense(GENERAL, place)
    for shape in ((4,), (4, 3)):
        x, y = (torch.nn.Parameter(tensor(shape, place)) for _ in range(2))
        compiled(lambda x: sg.torch.matmul(op, x + 1).sin().sum())(x).backward()
        (A @ (y + 1)).sin().sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
    values, x = pattern.values.clone().requires_grad_(), tensor((4,), place)
    compiled(lambda values, x: pattern.matmul(values, x).sin().sum())(values, x).backward()
    given = x.grad, values.grad
    x.grad = values.grad = None
    pattern.matmul(values, x).sin().sum().backward()
    torch.testing.assert_close(given, (x.grad, values.grad))


@pytest.mark.parametrize(("method", "M"), [("cg", "jacobi"), ("gmres", None)])
def test_compiled_solves(method, M, compiled, device, place):
    A = matrix_for(method)
    pattern, op = sg.torch.MatrixPattern(A, device=device), sg.aslinearoperator(A, device=device)
    values, b = pattern.values.requires_grad_(), tensor((4,), place)

    def loss(values, b):
        x = sg.torch.solve(pattern, b, method, values=values, M=M, **TIGHT)
        return sg.torch.solve(op, x * x, method, M=M, **TIGHT).sum()

    compiled(loss)(values, b).backward()
    given = b.grad, values.grad
    b.grad = values.grad = None
    loss(values, b).backward()
    torch.testing.assert_close(given, (b.grad, values.grad))


@pytest.mark.parametrize("make", [sg.linalg.amg, sg.linalg.jacobi])
def test_compiled_solves_with_a_preconditioner_made_before(make, compiled, device, place):
    op = sg.aslinearoperator(SYMMETRIC, device=device)
    M, b = make(op), tensor((4,), place)
    solve = compiled(lambda b: sg.torch.solve(op, b, "cg", M=M, **TIGHT))
    x = solve(b)
    x.sum().backward()
    torch.testing.assert_close(x, torch.linalg.solve(dense(SYMMETRIC, place), b))
    torch.testing.assert_close(b.grad, torch.linalg.solve(dense(SYMMETRIC, place), torch.ones_like(b)))


def test_compiled_solves_drop_no_imaginary_part(compiled, device, place):
    op = sg.aslinearoperator(GENERAL, device=device)
    b = tensor((4,), place, dtype=torch.complex128).detach()
    for method in ("auto", "gmres"):
        with pytest.raises(TypeError, match="b has dtype complex128; allowed are real numbers"):
            compiled(lambda b, method=method: sg.torch.solve(op, b, method))(b)


def test_compiled_again_for_another_operator(compiled, device, place):
    ops = [sg.aslinearoperator(scale * SYMMETRIC, device=device) for scale in (1, 2)]
    x = tensor((4,), place).detach()
    function = compiled(lambda op, x: sg.torch.matmul(op, x))
    for op in (*ops, *ops):
        torch.testing.assert_close(function(op, x), op @ x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bfloat16, torch.complex64])
def test_compiled_functions_have_the_types_of_others(dtype, compiled, device, place):
    op = sg.aslinearoperator(SYMMETRIC.astype(np.float32), device=device)
    x = torch.ones(4, device=place).to(dtype)
    y = compiled(lambda x: sg.torch.matmul(op, x))(x)
    assert y.dtype == (op @ x).dtype
    torch.testing.assert_close(y, op @ x)


def test_the_operations_are_as_pytorch_wants_them(device, place):
    op = sg.aslinearoperator(GENERAL, device=device)
    pattern = sg.torch.MatrixPattern(GENERAL, device=device)
    b = tensor((4, 2), place).detach()
    from spmvgpu.arrays.torch_gradients import name_of

    ops, name = torch.ops.spmvgpu, name_of(op)
    torch.library.opcheck(ops.product.default, (name, b))
    torch.library.opcheck(ops.product_of_values.default, (name_of(pattern), pattern.values, b))
    how = f"{name} None gmres 1e-08 0.0 None None None"
    torch.library.opcheck(ops.solve.default, (how, None, b, None))


def test_copies_are_objects_of_their_own(device, place):
    """Which do not inherit the name that PyTorch knows the original by."""
    from spmvgpu.arrays.torch_gradients import name_of

    op = sg.aslinearoperator(GENERAL, device=device)
    original = op + op
    name = name_of(original)
    copy = pickle.loads(pickle.dumps(original))
    assert name_of(copy) != name == name_of(original)
    assert torch.autograd.gradcheck(lambda x: copy @ x, tensor((4,), place))


def test_a_deleted_operator_is_named(device, place):
    from spmvgpu.arrays.torch_gradients import name_of

    name = name_of(sg.aslinearoperator(GENERAL, device=device))
    with pytest.raises(RuntimeError, match="has been deleted; keep it"):
        torch.ops.spmvgpu.product(name, torch.ones(4, device=place))
