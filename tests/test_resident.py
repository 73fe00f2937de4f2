"""Kernels of solvers whose blocks wait for each other: which systems they are for, and what comes out.

Small systems are solved within one kernel; of others the sweeps between two products are one, and so
is a step of gmres.
"""

from concurrent.futures import ThreadPoolExecutor

import hypothesis
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import strategies as st

import spmvgpu as sg
from battery import COMPLEX_TYPES, TYPES, vector
from internals import resident_shape
from spmvgpu import gallery, linalg

SOLVERS = ["cg", "bicgstab", "minres"]
WITH_ROWS = ["csr", "sell", "ellpack", "ellpack_r", "ellr_t", "dia", "sdia", "bsell", "stencil"]
MOST_ROWS, MOST_ENTRIES = 65_536, 1 << 20


@hypothesis.given(rows=st.integers(1, MOST_ROWS), mean=st.floats(0, 40), spread=st.floats(1, 10))
def test_every_row_has_its_lanes_in_one_block(rows, mean, spread):
    entries = int(mean * rows)
    shape = resident_shape(rows, entries, int(spread * mean))
    if shape is None:
        assert entries > MOST_ENTRIES or spread * mean > 32
        return
    blocks, rows_per_block, lanes = shape
    assert 1 <= blocks <= 128
    assert (blocks - 1) * rows_per_block < rows <= blocks * rows_per_block
    assert rows_per_block * lanes == 512
    assert lanes in (1, 2, 4, 8, 16, 32)


@pytest.mark.parametrize(
    ("rows", "entries", "longest_row", "expected"),
    [
        (1, 1, 1, (1, 512, 1)),
        (10_000, 49_600, 5, (40, 256, 2)),
        (4_000, 320_000, 80, (125, 32, 16)),
        (MOST_ROWS, MOST_ENTRIES, 32, (128, 512, 1)),
        (0, 0, 0, None),
        (MOST_ROWS + 1, MOST_ROWS, 1, None),
        (MOST_ROWS, MOST_ENTRIES + 1, 32, None),
        (10_000, 49_600, 65, None),  # two lanes would wait for each other too long
    ],
)
def test_shapes(rows, entries, longest_row, expected):
    assert resident_shape(rows, entries, longest_row) == expected


def test_a_cpu_has_no_resident_kernel():
    op = sg.aslinearoperator(gallery.poisson2d(20), device="cpu")
    linalg.cg(op, np.ones(400))
    assert op.solve_info.resident is False


def assert_as_on_the_cpu(solver, op, way="resident", **options):
    """Solution, iterations and history of the resident kernel, or of chained sweeps."""
    is_single = np.finfo(op.dtype).eps > 1e-10
    b, rtol, found = vector(op.shape[0], op.dtype), 1e-4 if is_single else 1e-9, []
    for one in (op, op.to("cpu")):
        history = []
        x, info = getattr(linalg, solver)(one, b, residuals=history, rtol=rtol, **options)
        assert info == 0
        found.append((x, one.solve_info.iterations, history))
    assert getattr(op.solve_info, way)
    assert op.solve_info.resident + op.solve_info.chained == 1
    (x, iterations, history), (y, expected, other) = found
    # A GPU and a CPU sum in other orders, which bicgstab amplifies after some tens of iterations.
    assert abs(iterations - expected) <= 2 + 0.1 * expected
    shared = min(5, len(history), len(other))
    np.testing.assert_allclose(history[:shared], other[:shared], rtol=rtol, atol=1e-12 * other[0])
    assert np.linalg.norm(x - y) <= max(1e-5, 100 * rtol) * np.linalg.norm(y)


@pytest.mark.parametrize("preconditioner", [None, "jacobi"])
@pytest.mark.parametrize("fmt", WITH_ROWS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_format_with_rows(solver, fmt, preconditioner, cuda_device, dtype):
    op = sg.aslinearoperator(gallery.poisson3d(11).astype(dtype), format=fmt, device=cuda_device)
    assert_as_on_the_cpu(solver, op, M=preconditioner)


def blocks_in_another_order(side):
    pattern = sp.lil_array(gallery.poisson2d(20))
    pattern[7, ::19] = pattern[::19, 7] = -0.02  # a row for sigma to move
    pattern[7, 7] = 4.0
    return sp.kron(pattern, np.eye(side) + 0.1)


def chain(rows):
    """With a row of another length here and there."""
    A = sp.lil_array(4 * sp.eye_array(rows) + gallery.poisson1d(rows))
    if rows > 40:
        A[7, 20:39] = A[20:39, 7] = -0.1
    return A


def sorted_rows():
    """A row that is stored elsewhere is multiplied by another block than the one that has its element."""
    rng = np.random.default_rng(3)
    A = sp.csr_array(np.where(rng.random((3000, 3000)) < 0.001, rng.random((3000, 3000)), 0.0))
    return A + A.T + 12 * sp.eye_array(3000)


def entries_beyond_those_in_registers(n=60_000):
    """17 entries a row, and so many rows that there is a lane for each."""
    offsets = [k for k in range(-8, 9) if k != 0]
    return sp.diags_array([-0.05] * 16, offsets=offsets, shape=(n, n)) + sp.eye_array(n)


SIZES = [1, 2, 31, 33, 511, 513, 4097, 20_000, MOST_ROWS - 1, MOST_ROWS]  # to the largest grid that is full
SYSTEMS = {
    **{f"{side} x {side}": (lambda n=side: blocks_in_another_order(n), "bsell", 128) for side in (2, 3)},
    **{f"{rows} rows": (lambda n=rows: chain(n), "csr", None) for rows in SIZES},
    "sorted rows": (sorted_rows, "sell", 1024),
    "many entries": (entries_beyond_those_in_registers, "csr", None),
}


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_systems_within_one_kernel(solver, name, cuda_device):
    make, fmt, sigma = SYSTEMS[name]
    options = {} if sigma is None else {"sigma": sigma}
    op = sg.aslinearoperator(sp.csr_array(make()), format=fmt, device=cuda_device, **options)
    assert sigma is None or op.arrays()["permutation"].size
    assert_as_on_the_cpu(solver, op)


def with_a_long_row(n):
    A = sp.eye_array(n).tolil()
    A[0, :] = 1
    return A


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: (gallery.poisson2d(30), {"format": "coo"}), id="no_rows"),
        pytest.param(lambda: (gallery.poisson2d(257), {}), id="too_large"),
        pytest.param(lambda: (with_a_long_row(900), {}), id="long_row"),
    ],
)
def test_the_sweeps_of_others_are_chained(make, cuda_device):
    A, options = make()
    A = sp.csr_array(A)
    op = sg.aslinearoperator(A, device=cuda_device, **options)
    _, info = linalg.bicgstab(op, np.ones(A.shape[0]), rtol=1e-5, maxiter=5000)
    assert (info, op.solve_info.resident, op.solve_info.chained) == (0, False, True)


@pytest.mark.parametrize("any_type", TYPES + COMPLEX_TYPES, ids=str)
@pytest.mark.parametrize("preconditioner", [None, linalg.jacobi, linalg.chebyshev])
@pytest.mark.parametrize("solver", [*SOLVERS, "gmres"])
def test_chained_sweeps(solver, preconditioner, any_type, cuda_device):
    """With nothing, a diagonal and an operator between the products, which parts the sweeps."""
    A = gallery.poisson3d(11)
    A = A + sp.diags_array(np.full(1330, 0.5), offsets=1) if solver == "gmres" else A
    fmt = "auto" if solver == "gmres" else "coo"
    op = sg.aslinearoperator(sp.csr_array(A).astype(any_type), format=fmt, device=cuda_device)
    assert_as_on_the_cpu(solver, op, "chained", M=None if preconditioner is None else preconditioner(op))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("rows", [1, 2, 1023, 1025, 132 * 1024, 132 * 1024 + 1, 1_000_003])
def test_sizes_of_chained_sweeps(rows, solver, cuda_device):
    """Of a block that is not full to many elements for each thread."""
    A = 4 * sp.eye_array(rows) + gallery.poisson1d(rows)
    assert_as_on_the_cpu(solver, sg.aslinearoperator(A, format="coo", device=cuda_device), "chained")


@pytest.mark.parametrize("restart", [1, 15, 16, 17, 40])
@pytest.mark.parametrize("rows", [1, 2, 511, 513, 132 * 512, 132 * 512 + 1, 1_000_003])
def test_sizes_of_a_step_of_gmres(rows, restart, cuda_device):
    """Blocks that are not full, many elements for each thread; bases read in one go and in several."""
    A = 2.5 * sp.eye_array(rows) + gallery.poisson1d(rows) + sp.eye_array(rows, k=1)
    op = sg.aslinearoperator(A, format="csr", device=cuda_device)
    assert_as_on_the_cpu("gmres", op, "chained", restart=restart)


def test_steps_of_gmres_repeat_bit_for_bit(cuda_device):
    op = sg.aslinearoperator(gallery.elasticity3d(12), device=cuda_device)
    b = vector(op.shape[0], np.dtype("float64"))
    x, _ = linalg.gmres(op, b, rtol=1e-9, restart=30)
    for options in ({}, {"callback": lambda norm: None, "callback_type": "pr_norm"}):
        y, _ = linalg.gmres(op, b, rtol=1e-9, restart=30, **options)
        np.testing.assert_array_equal(x, y)
    assert op.solve_info.chained


def test_a_basis_that_is_too_large_for_one_kernel(cuda_device):
    """The factors of its vectors do not go into the shared memory of a block."""
    A = gallery.poisson2d(40)
    op = sg.aslinearoperator(A, device=cuda_device)
    b = vector(1600, np.dtype("float64"))
    for restart, together in ((511, True), (512, False)):
        x, info = linalg.gmres(op, b, rtol=1e-9, restart=restart)
        assert (info, op.solve_info.chained) == (0, together)
        assert np.linalg.norm(b - A @ x) <= 2e-9 * np.linalg.norm(b)


def test_chained_sweeps_with_a_callback(cuda_device):
    """The host looks after every iteration, and finds what it would find without looking."""
    op = sg.aslinearoperator(gallery.poisson2d(40), format="coo", device=cuda_device)
    b = vector(1600, np.dtype("float64"))
    norms, history = [], []
    x, _ = linalg.cg(op, b, rtol=1e-9, residuals=history)
    y, _ = linalg.cg(op, b, rtol=1e-9, callback=lambda x: norms.append(np.linalg.norm(b - op @ x)))
    np.testing.assert_array_equal(x, y)
    assert op.solve_info.chained
    np.testing.assert_allclose(norms, history[1:], rtol=1e-5, atol=1e-12 * history[0])


@pytest.mark.parametrize("preconditioner", [None, linalg.jacobi, linalg.chebyshev])
@pytest.mark.parametrize("solver", [*SOLVERS, "gmres"])
def test_a_scaled_system_has_a_kernel_for_each_sweep(solver, preconditioner, cuda_device):
    """Squares of such numbers are none, and kernels whose blocks wait for each other know no scale."""
    op = sg.aslinearoperator(gallery.poisson3d(11), device=cuda_device)
    b = vector(op.shape[0], np.dtype("float64"))
    M = None if preconditioner is None else preconditioner(op)
    x, info = getattr(linalg, solver)(op, np.ldexp(b, -1000), rtol=1e-9, M=M)
    assert (info, op.solve_info.resident, op.solve_info.chained) == (0, False, False)
    assert np.linalg.norm(b - op @ np.ldexp(x, 1000)) <= 2e-9 * np.linalg.norm(b)


@pytest.mark.parametrize("size", [pytest.param(250, id="resident"), pytest.param(400, id="chained")])
def test_solves_at_the_same_time(size, cuda_device):
    """The blocks of two grids that wait for their own must not keep each other from a place on the device."""
    A = gallery.poisson2d(size)
    b = vector(A.shape[0], np.dtype("float64"))
    op = sg.aslinearoperator(A, device=cuda_device)
    expected = linalg.cg(op, b, rtol=1e-8)[0]

    def solve(_):
        return linalg.cg(op, b, rtol=1e-8)[0]

    with ThreadPoolExecutor(4) as pool:
        for x in pool.map(solve, range(12)):
            np.testing.assert_array_equal(x, expected)
