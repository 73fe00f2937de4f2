"""Products with the columns of an array: every width, order and layout, in host memory and on a GPU."""

import functools

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import TYPES, matrix, vector
from reference import assert_within, reference
from support import build, each_format, each_pair, each_pair_in_turn, formats_of, poisoned

# Around the groups of columns that kernels take at once.
WIDTHS = [1, 2, 3, 4, 5, 8, 9, 31, 32, 33, 40]
ALPHA, BETA = -0.5, 2.0


# The shape of a larger array, its order, and what part of it the n rows and k columns are.
LAYOUTS = {
    "C": (lambda n, k: (n, k), "C", np.s_[:, :]),
    "Fortran": (lambda n, k: (n, k), "F", np.s_[:, :]),
    "part_of_rows": (lambda n, k: (n, k + 3), "C", np.s_[:, 1:-2]),
    "part_of_columns": (lambda n, k: (n + 3, k), "F", np.s_[1:-2, :]),
    "strided": (lambda n, k: (2 * n, 2 * k), "C", np.s_[::2, ::2]),
}


def laid_out(layout, values):
    """An array full of NaN, and a part of it that holds the values."""
    shape, order, part = LAYOUTS[layout]
    base = np.full(shape(*values.shape), np.nan, values.dtype, order)
    base[part] = values
    return base, base[part]


class Expected:
    """References of products with the first columns of an array, made once for all."""

    def __init__(self, A, columns):
        self.X = vector(A.shape[1] * columns, A.dtype).reshape(-1, columns)
        self.start = vector(A.shape[0] * columns, A.dtype, seed=30).reshape(-1, columns)
        self.plain = self._stack(A, 1.0, 0.0)
        self.scaled = self._stack(A, ALPHA, BETA)

    def _stack(self, A, alpha, beta):
        pairs = zip(self.X.T, self.start.T, strict=True)
        found = [reference(A, x, alpha, beta, y) for x, y in pairs]
        return [np.stack(part, axis=1) for part in zip(*found, strict=True)]

    @staticmethod
    def check(result, which):
        expected, bound = (part[:, : result.shape[1]] for part in which)
        assert_within(result.ravel(), expected.ravel(), bound.ravel())


CASES = [
    "power_law_rows",
    "long_rows_in_a_row",
    "block_lengths",
    "blocks",
    "banded",
    "warp_lengths",
    "sym_mixed_nodes",
]
CASES += ["empty_rows_every_other", "1xN_dense", "Nx1_holes", "no_entries"]


@functools.cache
def expected_of(case, dtype):
    return Expected(matrix(case, dtype), max(WIDTHS))


def check_every_width(op, A, widths=WIDTHS, layouts=tuple(LAYOUTS), expected=None):
    """NumPy arrays of every width in every layout, new results and given ones, plain and scaled."""
    expected = expected or Expected(A, max(widths))
    for number, k in enumerate(widths):
        for i in (0, 2):  # two layouts for each width, so that every one meets narrow and wide arrays
            layout = layouts[(number + i) % len(layouts)]
            _, x = laid_out(layout, expected.X[:, :k])
            result = op @ x
            if A.shape[1] > 1:  # else X has no order
                by_columns = x.strides[0] == x.itemsize
                assert result.flags.f_contiguous if by_columns else result.flags.c_contiguous
            expected.check(result, expected.plain)
            other = layouts[(i + k) % len(layouts)]  # x and y need not lie alike
            _, out = laid_out(other, poisoned((A.shape[0], k), A.dtype))
            assert op.spmv(x, out=out) is out
            expected.check(out, expected.plain)
            base, out = laid_out(other, expected.start[:, :k])
            op.spmv(x, out=out, alpha=ALPHA, beta=BETA)
            expected.check(out, expected.scaled)
            assert np.isnan(base).sum() == base.size - out.size


@each_pair_in_turn(CASES)
def test_every_width_and_layout(case, fmt, device, dtype):
    A = matrix(case, dtype)
    check_every_width(build(A, fmt, device), A, expected=expected_of(case, dtype))


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0), (7, 4)], ids=str)
@each_format
def test_nothing_to_multiply(shape, fmt, device, dtype):
    A = sp.csr_array(shape, dtype=dtype)
    if not formats_of(A, fmt):
        pytest.skip("the format does not hold it")
    op = build(A, fmt, device)
    for k in (0, 1, 5, 33):
        for order in "CF":
            X = np.ones((shape[1], k), dtype, order=order)
            np.testing.assert_array_equal(op @ X, np.zeros((shape[0], k)))
            out = np.full((shape[0], k), np.nan, dtype, order=order)
            np.testing.assert_array_equal(op.spmv(X, out=out), np.zeros((shape[0], k)))


CSR_KERNELS = [{"kernel": kernel} for kernel in ("shared", "half_warp", "shuffle")]
CSR_KERNELS += [{"kernel": "balanced", "tile": tile} for tile in (256, 4096)]


@pytest.mark.parametrize("options", CSR_KERNELS, ids=lambda options: "_".join(map(str, options.values())))
@pytest.mark.parametrize("case", ["power_law_rows", "long_row_middle", "block_lengths", "blocks"])
def test_every_kernel_of_csr(case, options, device, dtype):
    A = matrix(case, dtype)
    op = build(A, "csr", device, **options)
    check_every_width(op, A, [3, 8, 40], ("C", "Fortran"), expected_of(case, dtype))


@pytest.mark.parametrize("sigma", [1, 1024])
@pytest.mark.parametrize("side", [1, 2, 3, 4, 6])
def test_every_side_of_blocks(side, sigma, device, dtype):
    pattern = sp.csr_array(np.random.default_rng(side).random((70, 50)) < 0.1)
    A = sp.csr_array(sp.kron(pattern, np.arange(1.0, side**2 + 1).reshape(side, side))).astype(dtype)
    op = build(A, "bsell", device, sigma=sigma)
    arrays = op.arrays()
    assert arrays["values"].size == side**2 * arrays["near_cols"].size
    check_every_width(op, A, [3, 4, 8, 32, 40], ("C", "Fortran"))


@pytest.mark.parametrize("rows", [(0, 200), (3, 402), (202, 600)], ids=str)
def test_some_rows_of_a_symmetric_matrix(rows, device, dtype):
    """Of which sdia stores what lies left of the first row's diagonal as mirror images of rows before it."""
    distances = (0, 1, 2, 3, 40)
    values = [vector(600 - k, dtype, seed=k) for k in distances]
    whole = sp.diags_array(values + values[1:], offsets=[*distances, -1, -2, -3, -40], shape=(600, 600))
    A = sp.csr_array(whole.tocsr()[slice(*rows)]).astype(dtype)
    op = build(A, "sdia", device)
    assert op.arrays()["offsets"].tolist() == [*distances]
    check_every_width(op, A, [3, 4, 8, 32, 40], ("C", "Fortran"))


@each_pair(["growing_rows", "power_law_rows", "corners", "blocks"])
def test_special_x_reaches_only_its_column_and_the_rows_that_use_it(case, fmt, device, dtype):
    A = matrix(case, dtype)
    op = build(A, fmt, device)
    for order in "CF":
        X = np.ones((A.shape[1], 33), dtype, order=order)
        X[0, 4], X[-1, 32] = np.nan, np.inf
        Y = op.spmv(X, out=np.full((A.shape[0], 33), np.nan, dtype, order=order))
        finite = np.isfinite(Y)
        for row, column in ((0, 4), (-1, 32)):
            users = A.tocsc()[:, [row]].indices
            assert not finite[users, column].any()
            finite[users, column] = True
        assert finite.all()


def composites(A, device):
    """Operators that are made of several."""
    beside = ["cpu", device]
    yield build(A, "sell", device, reorder="rcm", max_padding=1e6)
    yield build(A, "partitioned", device, separator=100)
    yield sg.aslinearoperator(A, device=beside, powers=[2, 1], format="csr")
    yield sg.aslinearoperator(A, device=[device, device], format="coo")
    yield build(sp.csr_array(A.T), "csr", device).T
    if device != "cpu":
        yield build(A, "csr", device, memory_limit=A.data.nbytes)


def test_operators_made_of_others(device, dtype):
    A = matrix("sym_hubs", dtype)
    for op in composites(A, device):
        check_every_width(op, A, [1, 3, 33], ("C", "Fortran", "strided"))


@each_pair(["power_law_rows", "long_rows_in_a_row", "blocks"])
def test_bits_of_a_column_depend_on_nothing_but_the_column(case, fmt, device, dtype):
    """Neither on how many others there are, nor on how the array lies."""
    A = matrix(case, dtype)
    op = build(A, fmt, device)
    X = vector(A.shape[1] * 40, dtype).reshape(-1, 40)
    Y = op @ X
    if device == "cpu":  # a GPU adds several columns up in their own order
        for column in range(40):
            np.testing.assert_array_equal(op @ X[:, column], Y[:, column])
    for k in WIDTHS[1:]:
        for layout in LAYOUTS:
            np.testing.assert_array_equal(op @ laid_out(layout, X[:, 40 - k :])[1], Y[:, 40 - k :])


# What spmv refuses


def test_columns_that_do_not_fit(dtype):
    op = sg.aslinearoperator(np.ones((4, 6), dtype), format="csr", device="cpu")
    X, out = np.ones((6, 3), dtype), np.ones((4, 3), dtype)
    for bad in (np.ones((5, 3), dtype), np.ones((6, 3, 1), dtype), np.ones((3, 6), dtype)):
        with pytest.raises(ValueError, match=r"x has shape .*\(6,\) or \(6, k\)"):
            op.spmv(bad)
    for bad in (np.ones((4, 2), dtype), np.ones(4, dtype), np.ones((6, 3), dtype)):
        with pytest.raises(ValueError, match=r"out has shape"):
            op.spmv(X, out=bad)
    with pytest.raises(ValueError, match=r"out has shape"):
        op.spmv(np.ones(6, dtype), out=out)
    with pytest.raises(TypeError, match=r"x has dtype int16"):
        op.spmv(X.astype("int16"), out=out)
    frozen = out.copy()
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        op.spmv(X, out=frozen)
    shared = np.ones((10, 3), dtype)
    with pytest.raises(ValueError, match="overlaps"):
        op.spmv(shared[:6], out=shared[5:9])
    packed = np.zeros(6, [("gap", "i1"), ("value", dtype, 3)])["value"]  # no whole elements from row to row
    with pytest.raises(ValueError, match="contiguous"):
        op.spmv(packed)
    np.testing.assert_array_equal(op @ packed, np.zeros((4, 3)))


# On a GPU


def on_device(library, device, layout, values):
    """The array on a GPU, as a view in the given layout, made of a copy that the library can hold."""
    base, _ = laid_out(layout, values)
    if base.flags.c_contiguous:
        whole = library.asarray(base, device)
    else:
        whole = library.asarray(np.ascontiguousarray(base.T), device).T
    return whole[LAYOUTS[layout][2]]


@pytest.mark.gpu
@each_pair_in_turn(["power_law_rows", "blocks", "banded", "long_rows_in_a_row", "empty_rows_every_other"])
def test_arrays_on_a_gpu(case, fmt, library, cuda_device, dtype):
    A = matrix(case, dtype)
    op = build(A, fmt, cuda_device)
    expected = Expected(A, 40)
    for k in (1, 3, 8, 33, 40):
        for layout in LAYOUTS:
            x = on_device(library, cuda_device, layout, expected.X[:, :k])
            result = op @ x
            assert isinstance(result, library.array_type)
            assert library.device_name(result) == cuda_device
            expected.check(library.to_numpy(result), expected.plain)
            for other in ("C", "Fortran", layout):
                out = on_device(library, cuda_device, other, poisoned((A.shape[0], k), dtype))
                assert op.spmv(x, out=out) is out
                expected.check(library.to_numpy(out), expected.plain)
                out = on_device(library, cuda_device, other, expected.start[:, :k])
                op.spmv(x, out=out, alpha=ALPHA, beta=BETA)
                expected.check(library.to_numpy(out), expected.scaled)


@pytest.mark.gpu
def test_columns_that_overlap_on_a_gpu(library, cuda_device, dtype):
    op = sg.aslinearoperator(np.ones((4, 6), dtype), format="csr", device=cuda_device)
    shared = library.asarray(np.ones((10, 3), dtype), cuda_device)
    with pytest.raises(ValueError, match="overlaps"):
        op.spmv(shared[:6], out=shared[5:9])
    np.testing.assert_array_equal(library.to_numpy(op.spmv(shared[:6], out=shared[6:])), np.full((4, 3), 6))


@pytest.mark.gpu
@pytest.mark.parametrize("fmt", ["csr", "sell", "dia", "hyb"])
def test_columns_in_a_captured_graph(fmt, library, cuda_device, dtype):
    A = matrix("banded", dtype)
    op = build(A, fmt, cuda_device)
    X = vector(A.shape[1] * 8, dtype).reshape(-1, 8)
    x = library.asarray(X, cuda_device)
    out = library.asarray(poisoned((A.shape[0], 8), dtype), cuda_device)
    op.spmv(x, out=out)
    expected = library.to_numpy(out)
    with library.capture(cuda_device) as replay:
        op.spmv(x, out=out)
    library.fill(out, library.asarray(poisoned((A.shape[0], 8), dtype), cuda_device))
    replay[0]()
    np.testing.assert_array_equal(library.to_numpy(out), expected)


# Arrays in Fortran order are transposed on the GPU where the matrix has entries enough for that to pay.


def uneven_band(dtype):
    """Rows of 31 and of 51 entries in turn, around the diagonal."""
    n = 130_000
    inner, outer = np.ones(n, dtype), np.arange(n) % 2
    diagonals = {offset: inner * (offset % 7 + 1) for offset in range(-15, 16)}
    for offset in (*range(-25, -15), *range(16, 26)):
        # Entry j of a diagonal stands in column j, and so in row j - offset.
        diagonals[offset] = (inner * (offset % 5 + 1) * np.roll(outer, offset)).astype(dtype)
    A = sp.dia_array((np.stack(list(diagonals.values())), list(diagonals)), shape=(n, n)).tocsr()
    A.eliminate_zeros()
    assert (np.diff(A.indptr)[30:-30:2] == 31).all()
    assert (np.diff(A.indptr)[31:-30:2] == 51).all()
    return A


TRANSPOSED = [(fmt, {}) for fmt in sg.formats()]
TRANSPOSED += [("csr", {"kernel": "balanced", "tile": tile}) for tile in (256, 4096)]
TRANSPOSED += [("partitioned", {"separator": 40})]  # its parts write to some of the rows


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("fmt", "options", "dtype"),
    [(*chosen, TYPES[number % len(TYPES)]) for number, chosen in enumerate(TRANSPOSED)],
    ids=str,
)
def test_columns_that_are_transposed_first_have_the_same_bits(fmt, options, cuda_device, dtype):
    A = uneven_band(dtype)
    if not options and not formats_of(A, fmt):
        pytest.skip("the format does not hold it")
    op = build(A, fmt, cuda_device, **options)
    X = vector(A.shape[1] * 64, dtype).reshape(-1, 64)
    start = vector(A.shape[0] * 64, dtype, seed=30).reshape(-1, 64)
    alone = A @ X[:, :4]
    np.testing.assert_allclose(op @ X[:, :4], alone, rtol=0, atol=1e-5 * np.abs(alone).max())
    for k in (4, 12, 31, 33, 64):
        plain = op @ X[:, :k].copy()
        scaled = op.spmv(X[:, :k].copy(), out=start[:, :k].copy(), alpha=ALPHA, beta=BETA)
        for layout in ("Fortran", "part_of_columns", "strided") if k == 4 else ("Fortran",):
            _, x = laid_out(layout, X[:, :k])
            np.testing.assert_array_equal(op @ x, plain)
            for other in ("C", layout):
                base, out = laid_out(other, start[:, :k])
                op.spmv(x, out=out, alpha=ALPHA, beta=BETA)  # powers of two: products with them are exact
                np.testing.assert_array_equal(out, scaled)
                assert np.isnan(base).sum() == base.size - out.size


@pytest.mark.gpu
@pytest.mark.parametrize("fmt", ["csr", "sell"])
def test_transposed_columns_in_a_captured_graph(fmt, library, cuda_device, dtype):
    A = uneven_band(dtype)
    op = build(A, fmt, cuda_device)
    X = vector(A.shape[1] * 8, dtype).reshape(-1, 8)
    x = on_device(library, cuda_device, "Fortran", X)
    out = on_device(library, cuda_device, "Fortran", poisoned((A.shape[0], 8), dtype))
    op.spmv(x, out=out)
    expected = library.to_numpy(out)
    np.testing.assert_array_equal(expected, op @ X)
    with library.capture(cuda_device) as replay:
        op.spmv(x, out=out)
    library.fill(out, on_device(library, cuda_device, "Fortran", poisoned((A.shape[0], 8), dtype)))
    replay[0]()
    np.testing.assert_array_equal(library.to_numpy(out), expected)
