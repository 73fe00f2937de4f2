"""The format stencil: every different row once, and for each row which of them it is."""

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import COMPLEX_TYPES, TYPES, vector
from internals import predict_considered
from reference import assert_product
from spmvgpu import gallery
from support import assert_multiplies, assert_same_entries, build


def bands(n, values=(5.0, 2.0, 7.0)):
    return sp.csr_array(sp.diags_array(values, offsets=[-1, 0, 1], shape=(n, n)))


GRIDS = {
    "a line": lambda: gallery.poisson1d(5000),
    "5 points": lambda: gallery.poisson2d(70, 90),
    "27 points": lambda: gallery.poisson3d(20, points=27),
    "three unknowns at a node": lambda: gallery.elasticity3d(9),
    "a wide one": lambda: sp.csr_array(gallery.poisson2d(40)[:300]),
    "a tall one": lambda: sp.csr_array(gallery.poisson2d(40)[:, :300]),
    "empty rows": lambda: sp.csr_array(sp.kron(bands(700), [[0.0, 1.0], [0.0, 0.0]])),
    "rows of 100": lambda: sp.csr_array(
        sp.diags_array([1.0 + k for k in range(100)], offsets=range(-50, 50), shape=(999, 999))
    ),
}


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("dtype", [*TYPES, *COMPLEX_TYPES])
def test_grids(grid, dtype, device):
    A = GRIDS[grid]().astype(dtype)
    if np.dtype(dtype).kind == "c":
        A.data *= 1 - 2j
    op = build(A, "stencil", device)
    assert_multiplies(op, A)
    assert_same_entries(op.tocsr(), A)
    X = vector(5 * A.shape[1], dtype).reshape(A.shape[1], 5)
    for order in "CF":
        assert_product(op @ np.asarray(X, order=order), A, X)


@pytest.mark.gpu
@pytest.mark.parametrize("points", [5, 9])
def test_vectors_that_do_not_stay_in_the_l2(points, cuda_device):
    """Elements of x are fetched before their rows are multiplied, but none beyond the last one."""
    n = 1801
    line = sp.diags_array([1.0, -4.0, 1.0], offsets=[-1, 0, 1], shape=(n, n))
    A = gallery.poisson2d(n) if points == 5 else sp.csr_array(sp.kron(line, line))
    A = sp.csr_array(A[:, : n * n - 2 * n])
    assert_multiplies(build(A, "stencil", cuda_device), A)


def test_few_bytes():
    """Two bytes a row, a kind for each of the 27 places that a point of a box may have, and one stencil."""
    A = gallery.poisson3d(40)
    assert sg.estimate(A, "stencil")["bytes"] == 2 * A.shape[0] + 27 * 24 + 8 * 12


def test_long_rows_share_slots_too():
    A = sp.csr_array(sp.diags_array([1.0 + k for k in range(100)], offsets=range(-50, 50), shape=(999, 999)))
    arrays = build(A, "stencil").arrays()
    assert (arrays["stencils"].reshape(-1, 4)[:, [0, 1, 3]] == [0, 100, 50]).all()
    assert arrays["masks"].reshape(-1, 4)[[0, 50, -1]].tolist() == [
        [0, 0xFFFC0000, 0xFFFFFFFF, 0xF],
        [0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xF],
        [0xFFFFFFFF, 0x7FFFF, 0, 0],
    ]


@pytest.mark.parametrize("number", [np.inf, np.nan])
def test_what_a_row_lacks_does_not_reach_it(number, device):
    """Slots are shared only where a zero times their values is one."""
    A = bands(200, (5.0, number, 7.0))
    x = np.zeros(200)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(build(A, "stencil", device) @ x, A @ x)
    A = bands(200, (number, 2.0, 7.0))
    A.data[0], A.data[3] = 2.0, 2.0  # the diagonal of the first rows
    y = build(A, "stencil", device) @ np.ones(200)
    assert y[0] == 9
    assert not np.isfinite(y[1:]).any()


@pytest.mark.parametrize("number", [0.0, -0.0, np.nan, np.inf, 5e-324])
def test_rows_are_told_apart_by_every_bit(number, device):
    """A zero that is stored is an entry, and another than one of the other sign."""
    A = bands(3000)
    A.data[4000], A.data[5000] = number, -number
    op = build(A, "stencil", device)
    assert op.tocsr().data.tobytes() == A.data.tobytes()
    assert len(op.arrays()["examples"]) == 5
    x = np.ones(3000)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(op @ x, A @ x)


def odd_rows(A):
    """With a few rows that are like no other: a diagonal of its own, none at all, entries anywhere."""
    A = sp.lil_array(A)
    n = A.shape[0]
    for row in (0, n // 3, n // 3 + 1, n // 2, n - 5):
        A[row, row] = 1000.0 + row % 3
    A[n // 2 + 7] = 0.0
    A[n // 4, :: n // 5] = 3.0
    A = sp.csr_array(A)
    A.eliminate_zeros()
    return A


LAYERED = {
    "lines, 5 points": lambda: gallery.poisson2d(90, 71),
    "lines, 9 points": lambda: sp.csr_array(sp.kron(bands(70), bands(81, (1.0, -3.0, 1.0)))),
    "planes, 7 points": lambda: gallery.poisson3d(30, 9, 13),
    "planes, 27 points": lambda: gallery.poisson3d(23, 9, 12, points=27),
    "planes, three unknowns": lambda: gallery.elasticity3d(17),
    "few layers": lambda: gallery.poisson3d(8, 30, 30, points=27),
    "odd rows": lambda: odd_rows(gallery.poisson3d(25, 11, 11, points=27)),
}


@pytest.mark.parametrize("grid", LAYERED)
@pytest.mark.parametrize("rows_per_thread", [1, 2, 4])
@pytest.mark.parametrize("dtype", [*TYPES, *COMPLEX_TYPES])
def test_rows_of_a_thread_are_layers_apart(grid, rows_per_thread, dtype, device):
    A = LAYERED[grid]().astype(dtype)
    op = build(A, "stencil", device, rows_per_thread=rows_per_thread)
    assert_multiplies(op, A)
    x = vector(A.shape[1], dtype)
    assert (op @ x).tobytes() == (op @ x).tobytes()


def test_thirds():
    """27 points are 9 in each of three planes, whatever lies at the sides; 7 are not."""
    for points, third in ((27, 9), (7, 0)):
        kinds = build(gallery.poisson3d(20, points=points), "stencil").arrays()["stencils"].reshape(-1, 4)
        assert set(kinds[:, 3] >> 16) == {third}


@pytest.mark.parametrize("rows_per_thread", [1, 2, 4])
def test_inner_products_in_solvers(rows_per_thread, device):
    """The parts of x . A x that a product leaves for a solver, whatever rows the threads have."""
    for A in (LAYERED["planes, 27 points"](), LAYERED["lines, 5 points"](), bands(1000, (-1.0, 2.0, -1.0))):
        op = build(A, "stencil", device, rows_per_thread=rows_per_thread)
        b = A @ vector(A.shape[1], "float64")
        x, info = sg.linalg.cg(op, b, rtol=1e-10, maxiter=5000)
        assert info == 0
        assert np.linalg.norm(A @ x - b) <= 1e-9 * np.linalg.norm(b)


def test_rare_rows_are_found(device):
    """Rows of which a sample has none, one of them longer than all others together."""
    n = 200_000
    A = sp.lil_array(bands(n))
    for place in (3, 77_777, n - 2):
        A[place, place] = float(place)
    A[1234] = 1.0
    A = sp.csr_array(A)
    op = build(A, "stencil", device)
    assert op.arrays()["examples"].tolist() == [0, 1, 3, 1234, 77_777, n - 2, n - 1]
    assert_multiplies(op, A)


def test_too_many_different_rows():
    A = sp.csr_array(sp.diags_array(np.arange(3000.0)))
    with pytest.raises(sg.FormatError, match=r"more than max_stencils=1024 different rows; format 'csr'"):
        build(A, "stencil")
    assert_multiplies(build(A, "stencil", max_stencils=3000), A)
    with pytest.raises(sg.FormatError, match="max_stencils=2999"):
        build(A, "stencil", max_stencils=2999)
    assert_multiplies(build(sp.csr_array(A[:1024]), "stencil"), A[:1024])


def test_new_values(device):
    A = gallery.poisson3d(12)
    op = build(A, "stencil", device)
    op.update_values(A.data * 3)
    assert_multiplies(op, A * 3)
    for number in (17.0, np.nan):
        other = A.copy()
        other.data[100] = number
        with pytest.raises(sg.FormatError, match="differ between rows"):
            op.update_values(other.data)
    assert_multiplies(op, A * 3)  # it still has the old ones


def test_new_values_that_are_not_finite(device):
    """What rows at the sides lack stays lacking, though others have it in the slots that they share."""
    A = bands(300)
    op = build(A, "stencil", device)
    infinite = A.copy()
    infinite.data[A.data == 7.0] = np.inf
    for B in (infinite, A):
        op.update_values(B.data)
        x = np.arange(1.0, 301.0)
        np.testing.assert_array_equal(op @ x, B @ x)


def test_the_cpu_and_a_gpu_store_the_same(device):
    for A in (gallery.elasticity3d(12), gallery.poisson2d(300), bands(1)):
        there, here = (build(A, "stencil", name).arrays() for name in (device, "cpu"))
        for name, array in here.items():
            assert there[name].tobytes() == array.tobytes(), name


def test_a_long_row_does_not_make_a_graph_a_stencil():
    """A format that cannot hold the matrix is not planned."""
    A = sp.lil_array(gallery.uniform_random(20_000, 20_000, 5))
    A[7, ::2] = 1.0
    assert "stencil" not in {format for format, *_ in predict_considered(A, products=np.inf)}


def test_a_stencil_on_the_cpu_that_is_refused_is_another_format():
    """Rows that the sample does not have may all be different."""
    grid = sp.csr_array(gallery.poisson2d(400))
    odd = np.flatnonzero(np.arange(grid.nnz) % 50 == 7)
    grid.data[odd] += np.arange(len(odd))
    op = sg.aslinearoperator(grid, device="cpu")
    assert op.format == "dia"
    assert_multiplies(op, grid)
