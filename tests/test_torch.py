"""Products that PyTorch differentiates: gradients against differences, for x and for the values."""

import copy
import io
import pickle
import re

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from reference import assert_product
from spmvgpu.inputs import torch_sparse
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


def check_product(y, A, x):
    y, x = y.detach().cpu().numpy(), x.detach().cpu().numpy()
    assert_product(np.ascontiguousarray(y.real), A, x.real)
    assert_product(np.ascontiguousarray(y.imag), A, x.imag)


@pytest.mark.parametrize("shape", [(5,), (5, 3), (5, 0)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_gradient_of_x(shape, dtype, device, place):
    op = sg.aslinearoperator(A, device=device)
    x = tensor(shape, place, dtype=dtype)
    y = op @ x
    check_product(y, A, x)
    assert y.requires_grad
    assert torch.autograd.gradcheck(lambda x: op @ x, x)
    assert torch.autograd.gradgradcheck(lambda x: (op @ x) ** 2, x)


@pytest.mark.parametrize(
    ("fmt", "dtype", "shape"),
    [
        ("csr", torch.float64, (5,)),
        ("sell", torch.float64, (5, 3)),
        ("dia", torch.complex128, (5,)),
        ("csr", torch.complex128, (5, 3)),
    ],
)
def test_gradient_of_x_and_values(fmt, dtype, shape, device, place):
    pattern = sg.torch.MatrixPattern(
        A, format=fmt, device=device, **({"max_padding": 9} if fmt == "dia" else {})
    )
    x, values = tensor(shape, place, dtype=dtype), tensor(A.nnz, place, seed=1)
    B = A.copy()
    B.data = values.detach().cpu().numpy()
    check_product(pattern.matmul(values, x), B, x)
    assert torch.autograd.gradcheck(pattern.matmul, (values, x))
    assert torch.autograd.gradgradcheck(lambda values, x: pattern.matmul(values, x) ** 2, (values, x))


def test_pattern(device, place):
    pattern = sg.torch.MatrixPattern(A, device=device)
    coo = A.tocoo()
    assert pattern.values.device.type == place.type
    for ours, theirs in ((pattern.rows, coo.row), (pattern.cols, coo.col), (pattern.values, coo.data)):
        np.testing.assert_array_equal(ours.cpu().numpy(), theirs)
    with pytest.raises(
        ValueError,
        match=r"shape \(3,\) and dtype .* must have shape \(\d+,\) .* dtypes float32, float64, complex64",
    ):
        pattern.matmul(torch.ones(3), torch.ones(5))
    with pytest.raises(ValueError, match="unknown format"):
        sg.torch.MatrixPattern(A, format="cuckoo", device=device)


def test_values_are_read_where_they_are(device, place, monkeypatch):
    """Products with values, and their gradients, copy none of them."""
    pattern = sg.torch.MatrixPattern(A, device=device)
    values = [tensor(2 * A.nnz, place, seed)[::2] for seed in range(3)]
    x, X = tensor((5,), place), tensor((5, 3), place)
    monkeypatch.delattr(sg.SparseOperator, "update_values")
    results = [pattern.matmul(some, y) for some in values for y in (x, X, X.to(torch.complex128))]
    results[0].sum().backward()
    for number, some in enumerate(values):
        B = sp.csr_array((some.detach().cpu().numpy(), A.indices, A.indptr), shape=A.shape)
        for y, operand in zip(results[3 * number :], (x, X, X.to(torch.complex128)), strict=False):
            check_product(y, B, operand)
    B = sp.csr_array((values[0].detach().cpu().numpy(), A.indices, A.indptr), shape=A.shape)
    np.testing.assert_allclose(x.grad.cpu().numpy(), B.T @ np.ones(7))


def test_formats_of_solves_are_chosen(device, place):
    grid = sg.gallery.poisson2d(30)
    pattern = sg.torch.MatrixPattern(grid, device=device)
    chosen = sg.aslinearoperator(grid, device=device, tune="off").format
    assert pattern.operator(pattern.values).format == chosen
    assert sg.torch.MatrixPattern(grid, format="coo", device=device).operator(pattern.values).format == "coo"


def test_types_are_kept(device, place):
    op = sg.aslinearoperator(A, device=device)
    x = tensor((5,), place, dtype=torch.float32)
    y = op @ x
    assert y.dtype == torch.float64
    y.sum().backward()
    assert x.grad.dtype == torch.float32
    pattern = sg.torch.MatrixPattern(A, device=device)
    values = tensor(A.nnz, place, dtype=torch.float32)
    pattern.matmul(values, tensor((5,), place)).sum().backward()
    assert values.grad.dtype == torch.float32


def test_no_graph_where_none_is_wanted(device, place):
    op = sg.aslinearoperator(A, device=device)
    x = tensor((5,), place)
    with torch.no_grad():
        assert not (op @ x).requires_grad
    assert not (op @ x.detach()).requires_grad


SQUARE = sp.csr_array(np.array([[4.0, 1, 0], [1, 5, 2], [0, 2, 6]]))
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
    "values": {
        "operator": lambda op, v: sg.torch.MatrixPattern(np.eye(3), device=op.device).operator(v),
    },
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


def test_gradients_over_several_devices(device, place):
    op = sg.aslinearoperator(A, device=[device, "cpu"])
    assert torch.autograd.gradcheck(lambda x: op @ x, tensor((5,), place))


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
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128, torch.bfloat16, torch.int64])
def test_sparse_tensors_are_matrices(layout, dtype, device, place):
    given = sparse_tensor(layout, place, dtype)
    op = sg.aslinearoperator(given, device=device)
    expected = given.to_dense().cpu()
    if dtype in (torch.bfloat16, torch.int64):
        expected = expected.double()
    assert op.dtype == expected.numpy().dtype
    np.testing.assert_array_equal(op.toarray(), expected.numpy())


@quiet
@pytest.mark.parametrize("layout", LAYOUTS)
def test_sparse_tensors_stay_where_they_are(layout, device, place, monkeypatch):
    """On a GPU they are converted and checked there; what does so in this test runs on the CPU, too."""
    given = sparse_tensor(layout, place)
    data, indices, indptr = torch_sparse.TorchSource(given).tensors()
    assert indices.dtype == indptr.dtype == torch.int32
    assert {part.device for part in (data, indices, indptr)} == {given.device}
    arrays = tuple(part.cpu().numpy() for part in (data, indices, indptr))
    np.testing.assert_array_equal(
        sp.csr_array(arrays, shape=given.shape).toarray(), given.to_dense().cpu().numpy()
    )
    if place.type == "cuda":
        monkeypatch.setattr(torch_sparse, "_host", None)
        assert sg.aslinearoperator(given, device=device).nnz == len(data)


@quiet
@pytest.mark.parametrize("on_device", [False, True])
def test_duplicates_of_sparse_tensors_are_summed(on_device, device, place):
    given = torch.sparse_coo_tensor([[1, 0, 1], [2, 1, 2]], [1.0, 2.0, 3.0], (2, 3)).to(place)
    if on_device:
        data, indices, indptr = (part.cpu().numpy() for part in torch_sparse.TorchSource(given).tensors())
        assert (data.tolist(), indices.tolist(), indptr.tolist()) == ([2, 4], [1, 2], [0, 1, 2])
    np.testing.assert_array_equal(sg.aslinearoperator(given, device=device).toarray(), [[0, 2, 0], [0, 0, 4]])


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
        assert torch_sparse.TorchSource(given).tensors() is None
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
            data, indices, indptr = torch_sparse.TorchSource(given).tensors()
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


def pickled(thing):
    return pickle.loads(pickle.dumps(thing))


def saved(thing):
    file = io.BytesIO()
    torch.save(thing, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


COPIES = [copy.copy, copy.deepcopy, pickled, saved]


@pytest.mark.parametrize("duplicate", COPIES)
def test_patterns_travel(duplicate, device, place):
    """With the values that they have now, and alone or in a module."""
    pattern = sg.torch.MatrixPattern(A, format="sell", device=device, sigma=32)
    with torch.no_grad():
        pattern.values.mul_(2)
    x = tensor((5,), place).detach()
    made = duplicate(pattern)
    assert repr(made) == repr(pattern)
    torch.testing.assert_close(made.values, pattern.values)
    torch.testing.assert_close(made.matmul(made.values, x), pattern.matmul(pattern.values, x))
    assert made.operator(made.values).options == pattern.operator(pattern.values).options

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.pattern = pattern
            self.values = torch.nn.Parameter(pattern.values)

        def forward(self, x):
            return self.pattern.matmul(self.values, x)

    if duplicate in (copy.copy, copy.deepcopy):  # pickles need classes of modules
        layer = Layer()
        torch.testing.assert_close(duplicate(layer)(x), layer(x))
        assert torch.autograd.gradcheck(duplicate(layer), x.requires_grad_())
