"""Products and solves with tensors of PyTorch, its sparse tensors, transformed and compiled functions."""

import copy
import io
import pickle
import re

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from differentiable import GENERAL, SYMMETRIC, TIGHT, matrix_for, skip_without_factors
from internals import csr_in_place, keep_in_place, name_in_pytorch
from support import naming

torch = pytest.importorskip("torch")

A = sp.csr_array(sp.random_array((7, 5), density=0.5, random_state=np.random.default_rng(2)))


@pytest.fixture
def place(device):
    """The device in PyTorch's terms."""
    return torch.device(device)


def tensor(shape, place, seed=0, dtype=None):
    generator = torch.Generator().manual_seed(seed)
    made = torch.randn(shape, generator=generator, dtype=dtype or torch.float64)
    return made.to(place).requires_grad_()


def test_formats_of_solves_are_chosen(device, place):
    grid = sg.gallery.poisson2d(30)
    pattern = sg.torch.MatrixPattern(grid, device=device)
    chosen = sg.aslinearoperator(grid, device=device, tune="off").format
    assert pattern.operator(pattern.values).format == chosen
    assert sg.torch.MatrixPattern(grid, format="coo", device=device).operator(pattern.values).format == "coo"


def test_no_graph_where_none_is_wanted(device, place):
    op = sg.aslinearoperator(A, device=device)
    x = tensor((5,), place)
    with torch.no_grad():
        assert not (op @ x).requires_grad
    assert not (op @ x.detach()).requires_grad


SQUARE = SYMMETRIC[:3, :3]
# Where a gradient is lost that a tensor of this name wants, and what computes it.
DOORS = {
    "b": {
        "cg": lambda op, b: sg.linalg.cg(op, b),
        "gmres of a matrix": lambda op, b: sg.linalg.gmres(SQUARE, b),
        "solve": lambda op, b: sg.linalg.solve(op, b),
        "spsolve": lambda op, b: sg.linalg.spsolve(SQUARE, b),
        "lsqr": lambda op, b: sg.linalg.lsqr(op, b),
        "lsmr": lambda op, b: sg.linalg.lsmr(op, b),
    },
    "x0": {"minres": lambda op, x0: sg.linalg.minres(op, torch.ones_like(x0).detach(), x0)},
    "M": {"cg": lambda op, M: sg.linalg.cg(op, torch.ones_like(M).detach(), M=M)},
    "x": {"spmv": lambda op, x: op.spmv(x), "spmv of columns": lambda op, x: op.spmv(x[:, None])},
    "out": {"spmv": lambda op, out: op.spmv(torch.ones_like(out).detach(), out=out)},
    "data": {
        "update_values": lambda op, data: op.update_values(data.repeat(3)[:7]),
        "a tuple": lambda op, data: sg.aslinearoperator((data, [0, 1, 2], [0, 1, 2, 3]), shape=(3, 3)),
    },
    "values": {"operator": lambda op, v: sg.torch.MatrixPattern(np.eye(3), device=op.device).operator(v)},
    "inverse_diagonal": {"Jacobi": lambda op, d: sg.linalg.Jacobi(d)},
    "B": {"amg": lambda op, B: sg.linalg.amg(op, B=B)},
    "nullspace": {"cg": lambda op, v: sg.linalg.cg(op, np.ones(3), nullspace=v)},
}


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:FutureWarning")  # PyTorch uses it
@pytest.mark.parametrize("name", DOORS)
def test_vectors_that_want_a_gradient_are_refused(name, device, place):
    op = sg.aslinearoperator(SQUARE, device=device)
    by = {
        "b": r"spmvgpu\.torch\.solve\(A, b\)",
        "x": r"op @ x and spmvgpu\.torch\.matmul\(op, x\)",
        "data": r"spmvgpu\.torch\.MatrixPattern",
        "values": r"spmvgpu\.torch\.MatrixPattern",
    }.get(name, r"spmvgpu\.torch\.matmul and spmvgpu\.torch\.solve give gradients")
    for door, call in DOORS[name].items():
        with naming(door=door):
            for wants in (lambda: tensor((3,), place), lambda: 2 * tensor((3,), place)):
                text = rf"^{name} requires a gradient.*{by}.*{name}\.detach\(\)"
                with pytest.raises(TypeError, match=text):
                    call(op, wants())
            forward = torch.autograd.forward_ad
            with forward.dual_level(), pytest.raises(TypeError, match=f"^{name} requires a gradient"):
                call(op, forward.make_dual(tensor((3,), place).detach(), tensor((3,), place, 1).detach()))
    b = tensor((3,), place)
    with torch.no_grad():
        torch.testing.assert_close(op @ sg.linalg.solve(op, b, x0=b), b.detach())
    torch.testing.assert_close(op @ sg.linalg.cg(op, b.detach())[0], b.detach(), atol=1e-4, rtol=0)


def test_transformed_vectors_are_refused(device, place):
    op = sg.aslinearoperator(SQUARE, device=device)
    with pytest.raises(TypeError, match=r"b .* spmvgpu\.torch\.solve"):
        torch.func.grad(lambda b: sg.linalg.cg(op, b)[0].sum())(tensor((3,), place).detach())
    with pytest.raises(TypeError, match=r"^b is a tensor that is transformed .* spmvgpu\.torch\.solve"):
        torch.vmap(lambda b: sg.linalg.cg(op, b)[0])(tensor((2, 3), place).detach())


# Sparse tensors


LAYOUTS = {
    "csr": lambda dense: dense.to_sparse_csr(),
    "csc": lambda dense: dense.to_sparse_csc(),
    "coo": lambda dense: dense.to_sparse_coo(),
    "bsr": lambda dense: dense.to_sparse_bsr((2, 5)),
}
# PyTorch says that these are in beta, and that nobody has asked for checks.
quiet = pytest.mark.filterwarnings("ignore:Sparse (CSR|CSC|BSR|BSC|invariant checks):UserWarning")


def sparse_tensor(layout, place, dtype=torch.float64):
    padded = np.vstack([A.toarray(), np.zeros((1, 5))])
    return LAYOUTS[layout](torch.from_numpy(4 * padded).to(place, dtype))


@quiet
@pytest.mark.parametrize("layout", LAYOUTS)
def test_sparse_tensors_stay_where_they_are(layout, device, place, monkeypatch):
    """On a GPU they are converted and checked there; what does so in this test runs on the CPU, too."""
    given = sparse_tensor(layout, place)
    data, indices, indptr = csr_in_place(given)
    assert indices.dtype == indptr.dtype == torch.int32
    assert {part.device for part in (data, indices, indptr)} == {given.device}
    arrays = tuple(part.cpu().numpy() for part in (data, indices, indptr))
    np.testing.assert_array_equal(
        sp.csr_array(arrays, shape=given.shape).toarray(), given.to_dense().cpu().numpy()
    )
    if place.type == "cuda":
        keep_in_place(monkeypatch)
        assert sg.aslinearoperator(given, device=device).nnz == len(data)


@quiet
def test_sparse_tensors_that_are_no_matrices(device, place):
    dense = torch.ones(2, 4, 4, device=place)
    with pytest.raises(TypeError, match=r"layout torch.sparse_bsc; allowed are .* A.to_sparse_csr\(\)"):
        sg.aslinearoperator(dense[0].to_sparse_bsc((2, 2)), device=device)
    for given in (dense.to_sparse_csr(), dense.to_sparse_coo(), dense.to_sparse(2)):
        with pytest.raises(ValueError, match=r"shape \(2, 4, 4\); it must have 2 dimensions"):
            sg.aslinearoperator(given, device=device)
    columns, offsets = torch.tensor([0, 9], device=place), torch.tensor([0, 1, 2], device=place)
    values = torch.ones(2, device=place)
    broken = [
        torch.sparse_csr_tensor(offsets, columns, values, (2, 3)),
        torch.sparse_csc_tensor(offsets, columns, values, (3, 2)),
        torch.sparse_bsr_tensor(offsets, columns, values[:, None, None], (2, 3)),
        torch.sparse_csr_tensor(offsets.flip(0), columns * 0, values, (2, 3)),
    ]
    for given in broken:
        assert csr_in_place(given) is None
        with pytest.raises(ValueError, match=r"indices must lie|indptr"):
            sg.aslinearoperator(given, device=device)


@quiet
@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "bsr", "dense"])
def test_matrices_that_want_a_gradient_are_refused(layout, device, place):
    """With the name of what gives one; it does."""
    dense, b = torch.tensor([[4.0, 1], [1, 3]], device=place).double(), torch.ones(2, device=place).double()
    make = {**LAYOUTS, "bsr": lambda dense: dense.to_sparse_bsr((1, 1)), "dense": lambda dense: dense.clone()}
    given = make[layout](dense).requires_grad_()
    with pytest.raises(TypeError, match=r"requires a gradient.*spmvgpu\.torch\.MatrixPattern"):
        sg.aslinearoperator(given, device=device)
    with torch.no_grad():
        assert sg.linalg.cg(given, b)[1] == 0
    pattern = sg.torch.MatrixPattern(given.detach(), device=device)
    texts = {
        "csr": ("A.values()", lambda: given.values()),
        "coo": ("A.coalesce().values()", lambda: given.coalesce().values()),
        "dense": ("A[pattern.rows, pattern.cols]", lambda: given[pattern.rows, pattern.cols]),
    }
    if layout in texts:
        with pytest.raises(TypeError, match=re.escape(texts[layout][0])):
            sg.aslinearoperator(given)
        pattern.matmul(texts[layout][1](), b).sum().backward()
        np.testing.assert_array_equal(given.grad.to_dense().cpu().numpy(), np.ones((2, 2)))


@quiet
@pytest.mark.parametrize("on_device", [False, True])
def test_hybrid_tensors(on_device, device, place):
    """Sparse rows of dense columns, as gradients of embeddings are, and all dimensions dense."""
    layer = torch.nn.Embedding(5, 3, sparse=True, device=place)
    layer(torch.tensor([1, 4, 1], device=place)).sum().backward()
    empty = torch.sparse_coo_tensor(torch.zeros(1, 0, dtype=torch.int64), torch.zeros(0, 3), (5, 3)).to(place)
    values = torch.arange(12.0, device=place).reshape(2, 2, 3)
    dense = torch.sparse_coo_tensor(torch.zeros(0, 2, dtype=torch.int64, device=place), values, (2, 3))
    for given in (layer.weight.grad, empty, dense):
        expected = given.to_dense()
        if on_device:
            data, indices, indptr = csr_in_place(given)
            made = torch.sparse_csr_tensor(indptr, indices, data, given.shape)
            torch.testing.assert_close(made.to_dense(), expected)
        op = sg.aslinearoperator(given, device=device)
        np.testing.assert_array_equal(op.toarray(), expected.cpu().numpy())
        torch.testing.assert_close(op @ torch.ones(3, device=place), expected.sum(1))


@quiet
@pytest.mark.parametrize("layout", ["csr", "coo"])
def test_sparse_tensors_whose_values_are_views(layout, device, place):
    z = torch.tensor([1 + 2j, 3j, 4 - 1j], device=place).to(torch.complex128)
    for values in (z.conj(), z.conj().imag):
        indptr, cols = torch.tensor([0, 1, 3], device=place), torch.tensor([1, 0, 2], device=place)
        rows = torch.tensor([0, 1, 1], device=place)
        if layout == "csr":
            given = torch.sparse_csr_tensor(indptr, cols, values, (2, 3))
        else:
            given = torch.sparse_coo_tensor(torch.stack([rows, cols]), values, (2, 3))
        expected = np.zeros((2, 3), complex)
        expected[rows.cpu(), cols.cpu()] = values.resolve_conj().resolve_neg().cpu().numpy()
        np.testing.assert_array_equal(sg.aslinearoperator(given, device=device).toarray(), expected)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_patterns_travel_in_modules(duplicate, device, place):
    pattern = sg.torch.MatrixPattern(A, device=device)

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.pattern = pattern
            self.values = torch.nn.Parameter(pattern.values)

        def forward(self, x):
            return self.pattern.matmul(self.values, x)

    layer, x = Layer(), tensor((5,), place).detach()
    torch.testing.assert_close(duplicate(layer)(x), layer(x))
    assert torch.autograd.gradcheck(duplicate(layer), x.requires_grad_())


def test_patterns_travel_in_files(device, place):
    pattern, file = sg.torch.MatrixPattern(A, device=device), io.BytesIO()
    torch.save(pattern, file)
    file.seek(0)
    made, x = torch.load(file, weights_only=False), tensor((5,), place).detach()
    torch.testing.assert_close(made.matmul(made.values, x), pattern.matmul(pattern.values, x))


# Solves


def test_guesses_have_no_gradient(device, place):
    op = sg.aslinearoperator(SYMMETRIC, device=device)
    guess = tensor((4,), place)
    sg.torch.solve(op, tensor((4,), place), "cg", x0=guess).sum().backward()
    assert guess.grad is None


def test_the_gradient_is_solved_for_as_well(device, place):
    op = sg.aslinearoperator(sg.gallery.poisson2d(20), device=device)
    b = tensor((400,), place)
    x = sg.torch.solve(op, b, "cg", x0=sg.torch.solve(op, b, "cg").detach(), rtol=1e-7, maxiter=1)
    with pytest.raises(sg.linalg.NotSolvedError, match="cg ended after 1 iterations"):
        (x**2).sum().backward()
    with torch.autocast(place.type, dtype=torch.bfloat16):
        assert sg.torch.solve(op, b, "cg").dtype == sg.torch.matmul(op, b).dtype == torch.float64


def dense(A, place):
    return torch.from_numpy(A.toarray()).to(place)


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


@pytest.mark.parametrize(("method", "M"), [("cg", "jacobi"), ("gmres", None), ("direct", None)])
def test_compiled_solves(method, M, compiled, device, place):
    skip_without_factors(method, device)
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
    ops, name = torch.ops.spmvgpu, name_in_pytorch(op)
    torch.library.opcheck(ops.product.default, (name, b))
    torch.library.opcheck(ops.product_of_values.default, (name_in_pytorch(pattern), pattern.values, b))
    how = f"{name} None gmres 1e-08 0.0 None None None"
    torch.library.opcheck(ops.solve.default, (how, None, b, None))


def test_copies_are_objects_of_their_own(device, place):
    """Which do not inherit the name that PyTorch knows the original by."""
    op = sg.aslinearoperator(GENERAL, device=device)
    original = op + op
    name = name_in_pytorch(original)
    copy = pickle.loads(pickle.dumps(original))
    assert name_in_pytorch(copy) != name == name_in_pytorch(original)
    assert torch.autograd.gradcheck(lambda x: copy @ x, tensor((4,), place))


def test_a_deleted_operator_is_named(device, place):
    name = name_in_pytorch(sg.aslinearoperator(GENERAL, device=device))
    with pytest.raises(RuntimeError, match="has been deleted; keep it"):
        torch.ops.spmvgpu.product(name, torch.ones(4, device=place))
