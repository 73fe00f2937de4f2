"""Operators as matrices: copies, parts and multiples of them, and sparse products."""

import itertools
import operator

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

import spmvgpu as sg
from battery import TYPES, uniform
from battery import matrix as of_case
from reference import assert_product
from support import assert_same_entries, build, each_pair, explained, formats_of, naming, type_fixture

ROWS, COLS = 60, 45
MATRIX = sp.random_array((ROWS, COLS), density=0.2, random_state=np.random.default_rng(5)).tocsr()
SQUARE = sp.random_array((50, 50), density=0.1, random_state=np.random.default_rng(6))
SYMMETRIC = sp.csr_array(SQUARE + SQUARE.T + sp.eye_array(50))
DEVICES = ["one", "several"]


@pytest.fixture(params=formats_of(MATRIX))
def fmt(request):
    return request.param


dtype = type_fixture()


@pytest.fixture(name="A")
def matrix(dtype):
    return MATRIX.astype(dtype)


@pytest.fixture(params=DEVICES)
def op(A, fmt, device, request):
    # Powers of unlike devices are measured otherwise, and so never quite the same.
    return build(A, fmt, device) if request.param == "one" else build(A, fmt, [device, "cpu"], powers=[2, 1])


def assert_like(made, op, A):
    """`made` holds `A` and is otherwise like `op`."""
    assert isinstance(made, sg.SparseOperator)
    assert (made.format, made.device, made.options) == (op.format, op.device, op.options)
    assert made.dtype == A.dtype
    assert_same_entries(made.tocsr(), sp.csr_array(A))
    x = np.linspace(-1, 1, A.shape[1]).astype(A.dtype)
    assert_product(made @ x, A, x)


def test_multiples_stay_operators(op, A, dtype):
    scale = dtype.type(3)
    for made in (3 * op, op * 3, scale * op, op * scale, np.int8(3) * op):
        assert_like(made, op, sp.csr_array((A.data * scale, A.indices, A.indptr), shape=A.shape))
    assert_like(-op, op, -A)
    assert_like(op / 3, op, sp.csr_array((A.data / scale, A.indices, A.indptr), shape=A.shape))


@pytest.mark.parametrize("A", [MATRIX.astype(dtype) for dtype in TYPES])
def test_a_double_makes_doubles(A, device):
    op = sg.aslinearoperator(A, device=device)
    assert (np.float64(2) * op).dtype == np.result_type(A.dtype, np.float64(2))
    assert (2.0 * op).dtype == A.dtype


def test_real_numbers_leave_parts_that_are_not_finite_alone(device):
    values = np.array([np.inf + 0j, 2 - np.inf * 1j, 0.5 - 1j])
    op = sg.aslinearoperator(sp.diags_array(values), device=device)
    parts = values.view(float)
    for made, expected in ((-op, -parts), (2 * op, 2 * parts), (op / 2, parts / 2)):
        np.testing.assert_array_equal(made.tocsr().data.view(float), expected)


@each_pair(["empty_rows_first", "empty_rows_every_other", "long_row_middle", "power_law_rows", "uniform"])
def test_entries_of_rows_of_any_lengths(case, fmt, device):
    """They are read where they lie, in the order in which rows are stored, and some are left out."""
    A = of_case(case, np.dtype("float64"))
    op, half = build(A, fmt, device), A.shape[1] // 2
    assert_same_entries((2 * op).tocsr(), 2 * A)
    assert_same_entries(op[:, half:].tocsr(), A[:, half:])
    assert_same_entries(op[:, 1:half].tocsr(), A[:, 1:half])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64])
def test_index_arrays_of_every_type(dtype, device):
    """Also one that does not hold the number of rows."""
    A = uniform(1000, 300, 4)
    indices = np.array([3, 100, 3, *([-1, -128] if np.dtype(dtype).kind == "i" else [])], dtype)
    op = sg.aslinearoperator(A, device=device)
    wide = indices.astype(int)  # SciPy does not take narrow ones
    assert_same_entries(op[indices].tocsr(), A[wide])
    assert_same_entries(op[:, indices].tocsr(), A[:, wide])


def test_a_factor_that_no_dtype_holds(op):
    for multiple in (lambda: 10**400 * op, lambda: op / 10**400):
        with pytest.raises(OverflowError, match="too large"):
            multiple()


def test_astype_and_copy(op, A, dtype):
    other = np.dtype("float32" if dtype == np.float64 else "float64")
    assert_like(op.astype(other), op, A.astype(other))
    assert_like(op.astype(dtype), op, A)
    assert op.astype(dtype, copy=False) is op
    assert op.astype(dtype) is not op
    assert_like(op.copy(), op, A)
    for wrong in ("complex256", "int32", None):
        with pytest.raises(TypeError, match="allowed are float32, float64, complex64 and complex128"):
            op.astype(wrong)


def test_zeros_are_left_out(op, A):
    cancelled = A.copy()
    cancelled.data[::3] = 0
    cancelled.data[1::6] *= -0.0
    zeros = op.copy()
    zeros.update_values(cancelled.data)
    assert zeros.nnz == A.nnz
    kept = cancelled.copy()
    kept.eliminate_zeros()
    for made, expected in ((zeros.without_zeros(), kept), (op.without_zeros(), A)):
        assert (made.format, made.device) == (op.format, op.device)
        assert_same_entries(made.tocsr(), expected)
        x = np.linspace(-1, 1, COLS).astype(A.dtype)
        assert_product(made @ x, expected, x)


@pytest.mark.parametrize(
    "key",
    [
        slice(10, 30),
        slice(None, None, -2),
        slice(5, 5),
        [3, 1, -1],
        np.arange(ROWS) % 3 == 0,
        [],
        (slice(None), slice(7, 20)),
        (slice(2, 9), [0, 40, 5]),
        ([4, 2], slice(None, None, 3)),
    ],
    ids=str,
)
def test_parts(op, A, key):
    part = op[key]
    rows, cols = key if isinstance(key, tuple) else (key, slice(None))
    rows = np.asarray(rows, dtype=int) if isinstance(rows, list) else rows
    expected = A[rows][:, cols].sorted_indices()
    assert isinstance(part, sg.SparseOperator)
    assert part.device == op.device
    assert part.format in (op.format, "csr")
    assert_same_entries(part.tocsr(), expected)
    x = np.linspace(-1, 1, expected.shape[1]).astype(A.dtype)
    assert_product(part @ x, expected, x)


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (3, TypeError, r"3 is not allowed as an index; give a slice, as in op\[5:6\]"),
        ((3, 4), TypeError, "not allowed as an index"),
        (([1], [2]), TypeError, r"use op\[rows\]\[:, columns\]"),
        ([1.5], TypeError, "1-D array of integers or bool"),
        ([ROWS], IndexError, "out of (range|bounds)"),
        ([True] * 3, IndexError, "boolean index|bool index|dimension"),
        ((slice(1), slice(1), slice(1)), IndexError, "1 or 2 indices, not 3"),
    ],
)
def test_what_is_no_part(key, error, message):
    with pytest.raises(error, match=message):
        sg.aslinearoperator(MATRIX, device="cpu")[key]


def test_parts_of_formats_that_want_the_whole(device):
    op = sg.aslinearoperator(SYMMETRIC, format="tsmv", device=device, symmetric=True)
    part = op[:20]
    assert part.format == "csr"
    assert "tsmv cannot hold" in explained(part)
    assert_same_entries(part.tocsr(), SYMMETRIC[:20])
    cut = sg.aslinearoperator(SYMMETRIC, format="partitioned", separator=20, device=device)
    assert_same_entries(cut[::2].tocsr(), SYMMETRIC[::2])
    assert_same_entries((-cut).tocsr(), -SYMMETRIC)


def test_symmetry_is_kept(device):
    op = sg.aslinearoperator(SYMMETRIC, device=device, symmetric=True)
    for made in (-op, op.copy(), op.astype("float32"), op.to(["cpu", "cpu"])):
        assert made.T is made
    assert op[:].T is not op[:]


def test_reordered_operators_stay_reordered(device):
    op = sg.aslinearoperator(SYMMETRIC, device=device, reorder="rcm")
    x = np.linspace(-1, 1, 50)
    np.testing.assert_array_equal((-op) @ x, -(op @ x))
    assert "reordered" in (-op).explain()
    assert_same_entries(op[3:30].tocsr(), SYMMETRIC[3:30])


def test_to(op, A, device):
    assert op.to(list(op.device) if isinstance(op.device, tuple) else op.device) is op
    on_cpu = op.to("cpu")
    assert on_cpu.device == "cpu"
    assert_same_entries(on_cpu.tocsr(), A)
    moved = on_cpu.to(device)
    assert (moved is on_cpu) == (device == "cpu")
    assert (moved.device, moved.format) == (device, on_cpu.format)
    assert op.to(["cpu", device]).device == ("cpu", device)
    with pytest.raises(ValueError, match="unknown device 'gpu'"):
        op.to("gpu")


def test_questions(op, A, dtype):
    np.testing.assert_array_equal(op.toarray(), A.toarray())
    assert op.toarray().dtype == dtype
    for axis in (None, 0, 1, -1):
        np.testing.assert_array_equal(op.sum(axis), A.sum(axis))
    for k in (0, 3, -7):
        np.testing.assert_array_equal(op.diagonal(k), A.diagonal(k))
        assert op.trace(k) == A.trace(k)


@pytest.mark.parametrize("fmt", formats_of(SYMMETRIC))
@pytest.mark.parametrize("dtype", TYPES)
def test_diagonals_of_every_format(fmt, dtype, device):
    A = SYMMETRIC.astype(dtype)
    op = build(A, fmt, device=device)
    for k in (0, 2, -5, 49, -49, 50, 1000):
        diagonal = op.diagonal(k)
        assert diagonal.dtype == dtype
        np.testing.assert_array_equal(diagonal, A.diagonal(k))
        diagonal[...] = 7  # of the caller's own
    np.testing.assert_array_equal(op.diagonal(), A.diagonal())


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_sparse_products_of_cupy_stay_on_its_gpu(kind, A, cuda_device):
    sparse = pytest.importorskip("cupyx.scipy.sparse")
    B = sp.csr_matrix(A.T)
    given = getattr(sparse, f"{kind}_matrix")(sparse.csr_matrix(B))
    for where in ("cpu", cuda_device):
        made = sg.aslinearoperator(A, device=where) @ given
        assert sparse.isspmatrix_csr(made)
        np.testing.assert_allclose(made.get().toarray(), (A @ B).toarray(), rtol=1e-5)


# With sparse matrices and arrays on either side

OPERATORS = {"*": operator.mul, "@": operator.matmul, "+": operator.add, "-": operator.sub}
LAYOUTS = ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"]
CLASSES = [getattr(sp, f"{layout}_{kind}") for layout in LAYOUTS for kind in ("array", "matrix")]


@pytest.mark.parametrize("given", ["float64", "float32", "int64", "int8", "uint8", "bool", "complex64"])
@pytest.mark.parametrize("symbol", OPERATORS)
@pytest.mark.parametrize("declared", [None, True])
def test_sparse_matrices_on_either_side(given, symbol, declared, device):
    """Products are SciPy's, sums are operators, also where the type knows no negative numbers."""
    A = SYMMETRIC.astype(np.float32)
    B = sp.csr_array((np.arange(A.nnz) % 3, A.indices, A.indptr), shape=A.shape).astype(given)
    op, apply = sg.aslinearoperator(A, device=device, symmetric=declared), OPERATORS[symbol]
    exact = A.astype(complex), B.astype(complex)
    by_scipy = operator.matmul if symbol == "*" else apply
    for kind, is_left in itertools.product(CLASSES, (True, False)):
        with naming(kind=kind.__name__, is_left=is_left):
            made = apply(op, kind(B)) if is_left else apply(kind(B), op)
            expected = by_scipy(*(exact if is_left else reversed(exact)))
            assert made.dtype == np.result_type(A.dtype, given)
            np.testing.assert_allclose(made.toarray(), expected.toarray(), rtol=1e-5, atol=1e-5)
            if symbol in "*@":
                assert isinstance(made, sp.csr_array)
                continue
            assert isinstance(made, sg.SparseOperator)
            assert made.device == op.device
            x = np.linspace(-1, 1, A.shape[0])
            np.testing.assert_allclose(made.T @ x, expected.T @ x, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("fmt", "devices"),
    [*((fmt, "one") for fmt in formats_of(SYMMETRIC)), *((fmt, "several") for fmt in formats_of(MATRIX))],
)
def test_sums_are_like_the_operator(fmt, devices, device):
    """In its format, or as CSR where that refuses the sum, which has values of its own."""
    op = build(SYMMETRIC, fmt, device if devices == "one" else [device, "cpu"])
    for made, expected in ((op + sp.eye_array(50), 1), (op - sp.eye_array(50), -1)):
        expected = SYMMETRIC + expected * sp.eye_array(50)
        assert (made.format, made.device) == (op.format, op.device)
        np.testing.assert_allclose(made.toarray(), expected.toarray(), rtol=1e-12)
    corner = sp.coo_array(([3.0], ([0], [49])), shape=(50, 50))
    np.testing.assert_array_equal((op + corner).toarray(), (SYMMETRIC + corner).toarray())
    np.testing.assert_array_equal((op + corner).T.toarray(), (SYMMETRIC + corner).T.toarray())
    if devices == "one":
        made, before = op - corner, (SYMMETRIC - corner).toarray()
        op.update_values(2 * op.tocsr().data)
        np.testing.assert_array_equal(made.toarray(), before)


def test_sums_begin_with_nothing(device):
    op = sg.aslinearoperator(SYMMETRIC, device=device)
    assert op + 0 is op
    assert 0 + op is op
    assert op - 0.0 is op
    np.testing.assert_array_equal((0 - op).toarray(), -SYMMETRIC.toarray())
    np.testing.assert_array_equal(sum([op, SYMMETRIC]).toarray(), 2 * SYMMETRIC.toarray())


def test_sums_that_nobody_knows():
    op = sg.aslinearoperator(SYMMETRIC, device="cpu")
    for wrong in ("text", None, {}):
        with pytest.raises(TypeError, match="unsupported operand"):
            op + wrong
        with pytest.raises(TypeError, match="unsupported operand"):
            op - wrong
    for wrong in (MATRIX, sp.coo_array(np.ones(50))):
        with pytest.raises(ValueError, match=r"cannot be added to an operator of shape"):
            op + wrong


class Knowing:
    """An object of another library that knows how operators are added to it, or multiplied with it."""

    shape = (50, 50)

    def matvec(self, x):
        return x

    def __add__(self, other):
        return "its own"

    __radd__ = __sub__ = __rsub__ = __rmatmul__ = __add__


def test_others_are_asked():
    op = sg.aslinearoperator(SYMMETRIC, device="cpu")
    for left in (op, op.T @ op, sg.linalg.jacobi(np.eye(50)), op.to(["cpu", "cpu"])):
        assert left @ Knowing() == "its own"
    assert op + Knowing() == Knowing() + op == op - Knowing() == Knowing() - op == "its own"


# Made of operators: arrays keep their library


def composed(device):
    """Pairs of an operator that is made of others, and its matrix."""
    A = SYMMETRIC.toarray() / 10
    op, foreign = sg.aslinearoperator(A, device=device), aslinearoperator(A)
    inverse = np.diag(1 / A.diagonal())
    made = {
        "sum": (op + op.T, 2 * A),
        "difference": (op - op @ op, A - A @ A),
        "multiple": (2 * (op + op), 4 * A),
        "complex multiple": (1j * (op + op), 2j * A),
        "power": (op**3, A @ A @ A),
        "power of zero": (op**0, np.eye(50)),
        "preconditioner": (sg.linalg.jacobi(op), inverse),
        "preconditioned": (sg.linalg.jacobi(op) @ op, inverse @ A),
        "with SciPy's": (op + foreign, 2 * A),
    }
    made["transpose"] = (made["preconditioned"][0].T, made["preconditioned"][1].T)
    made["adjoint"] = ((1j * op.astype(complex) @ op + op).H, -1j * (A @ A).T + A.T)
    return made


def test_composed_operators_stay_on_the_gpu(library, cuda_device):
    x = library.asarray(np.linspace(-1, 1, 50), cuda_device)
    for name, (op, A) in composed(cuda_device).items():
        if name == "with SciPy's":
            with pytest.raises(TypeError, match=r"on a GPU, and a .* multiplies arrays in host memory"):
                op @ x
            continue
        y = op @ x
        assert isinstance(y, library.array_type)
        assert library.device_name(y) == cuda_device
        np.testing.assert_allclose(library.to_numpy(y), A @ np.linspace(-1, 1, 50), rtol=1e-12, atol=1e-13)


# Made of operators: their entries


@pytest.mark.parametrize("dtype", [*TYPES, np.dtype(complex)], ids=str)
@pytest.mark.parametrize("where", DEVICES)
def test_entries_of_what_is_made_of_operators(where, dtype, device):
    A, B, C = MATRIX.astype(dtype), sp.csr_array(MATRIX.T), sp.csr_array(SYMMETRIC[:45, :45], dtype=dtype)
    places = device if where == "one" else [device, "cpu"]
    a, b, c = (
        sg.aslinearoperator(M, fmt, place)
        for M, fmt, place in ((A, "sell", places), (B, "csr", places), (C, "bsell", device))
    )
    made = {
        "product": (a @ b, A @ B),
        "triple product": (b @ a @ c, B @ A @ C),
        "sum": (b @ a + c, B @ A + C),
        "difference": (c - b @ a, C - B @ A),
        "multiple": (3 * (b @ a), 3 * (B @ A)),
        "power": (c**3, C @ C @ C),
        "power of zero": (c**0, sp.eye_array(45, dtype=dtype)),
        "transpose": ((a @ b).T, (A @ B).T),
        "adjoint": ((b @ a @ c).H, (B @ A @ C).conj().T),
    }
    for name, (composed, M) in made.items():
        with naming(name=name):
            op = sg.aslinearoperator(composed, "csr", device)
            assert op.dtype == composed.dtype == M.dtype
            np.testing.assert_allclose(op.toarray(), M.toarray(), rtol=1e-5, atol=1e-5)
            pattern = abs(sp.csr_array(M)) > 0
            assert (pattern > (abs(op.tocsr()) > 0)).nnz == 0
    assert sg.aslinearoperator(a @ b, dtype=np.complex128, device=["cpu", "cpu"]).shape == (ROWS, ROWS)


def test_what_is_made_of_one_operator_has_its_own_values(device):
    nothing = sg.aslinearoperator(sp.csr_array(SYMMETRIC.shape), "csr", device)
    op = sg.aslinearoperator(SYMMETRIC, "csr", device)
    for name, composed in {"sum": op + nothing, "other sum": nothing + op, "power": op**1}.items():
        with naming(name=name):
            made = sg.aslinearoperator(composed, "csr", device)
            op.update_values(3 * SYMMETRIC.data)
            assert_same_entries(made.tocsr(), SYMMETRIC)
            made.update_values(5 * SYMMETRIC.data)
            assert_same_entries(op.tocsr(), 3 * SYMMETRIC)
            assert_same_entries(sg.aslinearoperator(composed, "csr", device).tocsr(), SYMMETRIC)
            op.update_values(SYMMETRIC.data)


@pytest.mark.parametrize("dtype", TYPES)
def test_products_with_very_long_rows(dtype, device):
    """Rows of more entries than a warp of a GPU gathers, of which some are those of several blocks."""
    n = 5000
    A = sp.random_array((n, n), density=0.0005, rng=1, format="lil")
    A[0], A[7, ::2], A[n - 1] = 1.0, 2.0, 3.0  # SciPy leaves out sums that are zero
    A[3] = 0.0  # an empty row
    A = sp.csr_array(A).astype(dtype)
    op = sg.aslinearoperator(A, "csr", device)
    square, expected = sg.aslinearoperator(op @ op, "csr", device).tocsr(), sp.csr_array(A @ A)
    expected.sort_indices()
    np.testing.assert_array_equal(square.indptr, expected.indptr)
    np.testing.assert_array_equal(square.indices, expected.indices)
    atol = 100 * np.finfo(dtype).eps * np.abs(expected.data).max()
    np.testing.assert_allclose(square.data, expected.data, rtol=0, atol=atol)
    again = sg.aslinearoperator(sg.aslinearoperator(A, "csr", device) @ op, "csr", device).tocsr()
    np.testing.assert_array_equal(square.data, again.data)


@pytest.mark.parametrize(("cols", "each"), [(5000, 50), (900_000, 50), (13_000_000, 50), (5000, 2000)])
def test_long_rows_of_products_are_alike_everywhere(cols, each, dtype, device):
    """Rows that a GPU takes by warps, by blocks with sets of columns in several turns, and by sorting."""
    rng, middle = np.random.default_rng(3), 2200
    indices = np.sort(rng.integers(0, cols, (middle, each)), axis=1).ravel()
    offsets = np.arange(middle + 1) * each
    B = sp.csr_array((rng.standard_normal(len(indices)), indices, offsets), shape=(middle, cols))
    B.sum_duplicates()
    lengths = [middle, 0, 1, 9, 30, middle // 2, 200]
    listed = np.concatenate([np.sort(rng.permutation(middle)[:length]) for length in lengths])
    A = sp.csr_array((rng.standard_normal(len(listed)), listed, np.cumsum([0, *lengths])), shape=(7, middle))
    A, B = A.astype(dtype), B.astype(dtype)
    made = []
    for place in (device, "cpu"):
        a, b = sg.aslinearoperator(A, "csr", place), sg.aslinearoperator(B, "csr", place)
        made.append(sg.aslinearoperator(a @ b, "csr", place).tocsr())
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(*(getattr(product, name) for product in made))
    assert_same_entries(abs(made[0]) > 0, abs(A @ B).sorted_indices() > 0)


def test_zeros_that_sums_make_stay(device):
    op = sg.aslinearoperator(SYMMETRIC, device=device)
    nothing = sg.aslinearoperator(op - op, device=device)
    assert nothing.nnz == SYMMETRIC.nnz
    assert abs(nothing.tocsr()).max() == 0


def test_only_operators_of_matrices_have_entries(device):
    op = sg.aslinearoperator(SYMMETRIC, device=device)
    for other in (sg.linalg.jacobi(op), aslinearoperator(SYMMETRIC)):
        with pytest.raises(TypeError, match=f"entries of a {type(other).__name__} cannot be read"):
            sg.aslinearoperator(op @ other, device=device)


def test_solvers_multiply_by_one_operator_after_the_other(device, monkeypatch):
    op = sg.aslinearoperator(SYMMETRIC, device=device)
    monkeypatch.setattr(sg.SparseOperator, "_as_csr", None)
    x, info = sg.linalg.cg(op.T @ op, np.ones(50), maxiter=1000)
    assert info == 0
    np.testing.assert_allclose(SYMMETRIC.T @ (SYMMETRIC @ x), np.ones(50), atol=1e-3)
