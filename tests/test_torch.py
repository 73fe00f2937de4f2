"""Products that PyTorch differentiates: gradients against differences, for x and for the values."""

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from reference import assert_product
from spmvgpu.inputs import torch_sparse

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


def test_gradients_over_several_devices(device, place):
    op = sg.aslinearoperator(A, device=[device, "cpu"])
    assert torch.autograd.gradcheck(lambda x: op @ x, tensor((5,), place))


def test_a_fit_finds_the_values(device, place):
    """What gradients are for: the values of a matrix from its products."""
    pattern = sg.torch.MatrixPattern(A, device=device)
    X = tensor((5, 8), place).detach()
    Y = torch.from_numpy(A @ X.cpu().numpy()).to(place)
    values = torch.zeros(A.nnz, dtype=torch.float64, device=place, requires_grad=True)
    optimizer = torch.optim.LBFGS([values], max_iter=100, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        error = ((pattern.matmul(values, X) - Y) ** 2).sum()
        error.backward()
        return error

    optimizer.step(loss)
    np.testing.assert_allclose(values.detach().cpu().numpy(), A.data, atol=1e-4)


def test_compiled_functions_still_work(device, place):
    """The product is no part of the graph, and what is around it may be compiled."""
    op = sg.aslinearoperator(A, device=device)
    compiled = torch.compile(lambda x: (op @ (x + 1)).sin().sum(), backend="eager")
    x = tensor((5,), place)
    compiled(x).backward()
    y = x.detach().clone().requires_grad_()
    (op @ (y + 1)).sin().sum().backward()
    torch.testing.assert_close(x.grad, y.grad)
    torch.testing.assert_close(compiled(x.detach()), (op @ (x.detach() + 1)).sin().sum())


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
    given = sparse_tensor(layout, place).requires_grad_()
    data, indices, indptr = torch_sparse.csr_tensors(given)
    assert indices.dtype == indptr.dtype == torch.int32
    assert {part.device for part in (data, indices, indptr)} == {given.device}
    arrays = tuple(part.detach().cpu().numpy() for part in (data, indices, indptr))
    np.testing.assert_array_equal(
        sp.csr_array(arrays, shape=given.shape).toarray(), given.detach().to_dense().cpu().numpy()
    )
    if place.type == "cuda":
        monkeypatch.setattr(torch_sparse, "_host", None)
        assert sg.aslinearoperator(given, device=device).nnz == len(data)


@quiet
@pytest.mark.parametrize("on_device", [False, True])
def test_duplicates_of_sparse_tensors_are_summed(on_device, device, place):
    given = torch.sparse_coo_tensor([[1, 0, 1], [2, 1, 2]], [1.0, 2.0, 3.0], (2, 3)).to(place)
    if on_device:
        data, indices, indptr = (part.cpu().numpy() for part in torch_sparse.csr_tensors(given))
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
        assert torch_sparse.csr_tensors(given) is None
        with pytest.raises(ValueError, match=r"indices must lie|indptr"):
            sg.aslinearoperator(given, device=device)


@quiet
def test_sparse_tensors_in_solvers_and_patterns(device, place, monkeypatch):
    dense = torch.tensor([[4.0, 1.0], [1.0, 3.0]], dtype=torch.float64, device=place)
    given, b = dense.to_sparse_csr(), torch.ones(2, dtype=torch.float64, device=place)
    expected = torch.linalg.solve(dense, b)
    with monkeypatch.context() as patch:
        if place.type == "cuda":
            patch.setattr(torch_sparse, "_host", None)
        torch.testing.assert_close(sg.linalg.cg(given, b, rtol=1e-12)[0], expected)
    single = given.to(torch.bfloat16)
    assert sg.linalg.cg(single, b.to(torch.float32))[0].dtype == torch.float64
    torch.testing.assert_close(sg.linalg.solve(given, b), expected)
    pattern = sg.torch.MatrixPattern(given, device=device)
    torch.testing.assert_close(pattern.matmul(given.values(), b), dense @ b)
