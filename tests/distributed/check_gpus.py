"""Vectors on GPUs: messages go over NCCL where every rank has one, over CUDA-aware MPI, or host memory.

``mpiexec -n 2 python -m pytest -rs tests/distributed/check_gpus.py`` says what it skips, and why.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import libraries
import spmvgpu as sg
from battery import vector
from ranks import COMM, SYSTEMS, case, each_division, each_system_and_solver, operator, piece
from reference import assert_product
from spmvgpu import gallery, linalg
from spmvgpu.distributed.transports import trouble_of_cuda

GPUS = [info.name for info in sg.devices() if info.name != "cpu"]
pytestmark = [
    pytest.mark.skipif(not GPUS, reason="this machine has no usable CUDA device"),
    pytest.mark.skipif(COMM.size > max(2, len(GPUS)), reason="two ranks that share a GPU say as much"),
]

DEVICE = GPUS[COMM.rank % len(GPUS)] if GPUS else None
HAVE_THEIR_OWN = 1 < COMM.size <= len(GPUS)

each_type = pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])


@pytest.fixture(params=["mpi", "cuda_mpi", "nccl"])
def transport(request):
    if request.param == "nccl" and not HAVE_THEIR_OWN:
        pytest.skip("needs a GPU for every rank, and several")
    if request.param == "cuda_mpi" and (COMM.size == 1 or trouble_of_cuda()):
        pytest.skip(f"no messages over CUDA-aware MPI: {trouble_of_cuda() or 'there is one rank'}")
    return request.param


@pytest.fixture(params=["cupy", "torch"])
def library(request):
    pytest.importorskip(request.param)
    return getattr(libraries, request.param.capitalize())()


def on_gpu(library, x, ranges):
    return library.asarray(piece(x, ranges), DEVICE)


def whole(library, y, ranges):
    return ranges.gather(library.to_numpy(y), root=None)


def product(op, library, x):
    """Of a whole vector that every rank has."""
    return whole(library, op @ on_gpu(library, x, op.col_ranges), op.row_ranges)


@each_division
@each_type
@pytest.mark.parametrize("name", ["power_law_rows", "tall", "wide", "no_entries"])
def test_products(name, dtype, division, transport, library):
    A, x = case(name, dtype)
    op = operator(A, division, device=DEVICE, transport=transport)
    for _ in range(3):
        assert_product(product(op, library, x), A, x)
    u = vector(A.shape[0], A.dtype)
    for _ in range(3):
        assert_product(product(op.T, library, u), sp.csr_array(A.T), u)
    if A.dtype.kind == "c":
        assert_product(product(op.H, library, u), sp.csr_array(A.conj().T), u)


@pytest.mark.parametrize("columns", [0, 1, 5])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("transposed", [False, True])
def test_columns(columns, order, transposed, transport, library):
    A, _ = case("two_populations")
    op = operator(A, device=DEVICE, transport=transport)
    if transposed:
        A, op = sp.csr_array(A.T), op.T
    X = np.random.default_rng(3).standard_normal((A.shape[1], columns))
    own = library.asarray(np.ascontiguousarray(piece(X, op.col_ranges).T), DEVICE).T
    if order == "C":
        own = on_gpu(library, X, op.col_ranges)
    assert_product(whole(library, op @ own, op.row_ranges), A, X)


@pytest.mark.parametrize("transposed", [False, True])
def test_scaled_product_into_an_array(transposed, transport, library):
    A, _ = case("power_law_rows")
    op = operator(A, "uneven", device=DEVICE, transport=transport)
    if transposed:
        A, op = sp.csr_array(A.T), op.T
    x, y = vector(A.shape[1], A.dtype), vector(A.shape[0], A.dtype, seed=9)
    out = on_gpu(library, y, op.row_ranges)
    assert op.spmv(on_gpu(library, x, op.col_ranges), out=out, alpha=-1.5, beta=0.25) is out
    assert_product(whole(library, out, op.row_ranges), A, x, -1.5, 0.25, y)


def test_vectors_of_other_types(transport, library):
    A, x = case("uniform", "float64")
    op = operator(A, device=DEVICE, transport=transport)
    turned = x * (1 - 2j)
    assert_product(product(op, library, turned), sp.csr_array(A.astype(complex)), turned)


def test_products_on_several_streams(transport, library):
    """The buffers of messages are one product's at a time."""
    A, _ = case("power_law_rows")
    op = operator(A, device=DEVICE, transport=transport)
    vectors = [vector(A.shape[1], A.dtype, seed) for seed in range(6)]
    pieces = [on_gpu(library, x, op.col_ranges) for x in vectors]
    results = []
    for x in pieces:
        with library.new_stream(DEVICE) as stream:
            library.delay()
            results.append((op @ x, stream))
    for x, (y, stream) in zip(vectors, results, strict=True):
        library.synchronize(stream)
        assert_product(whole(library, y, op.row_ranges), A, x)


def test_vectors_in_host_memory(transport):
    A, x = case("power_law_rows")
    op = operator(A, device=DEVICE, transport=transport)
    assert_product(op.row_ranges.gather(op @ piece(x, op.col_ranges), root=None), A, x)


@pytest.mark.parametrize("preconditioner", ["none", "diagonal", "operator", "own block"])
@each_system_and_solver
def test_solvers(name, solver, division, preconditioner, transport):
    pytest.importorskip("cupy")
    library = libraries.Cupy()
    A = sp.csr_array(SYSTEMS[name]())
    b = A @ vector(A.shape[0], np.float64)
    op, alone = (
        operator(A, division, device=DEVICE, transport=transport),
        sg.aslinearoperator(A, device="cpu"),
    )
    inverse = sp.csr_array(sp.diags_array(1 / np.linspace(1, 2, len(b))))
    own, rows = piece(inverse.diagonal(), op.row_ranges), op.row_ranges
    M = {
        "none": None,
        "diagonal": library.asarray(own, DEVICE),
        "operator": operator(inverse, division, device=DEVICE, transport=transport),
        "own block": sg.aslinearoperator(
            sp.csr_array(sp.diags_array(own, shape=(len(own),) * 2)), device=DEVICE
        ),
    }[preconditioner]
    whole_M = None if M is None else inverse.diagonal()
    ours, theirs = [], []
    x, info = getattr(linalg, solver)(op, on_gpu(library, b, rows), M=M, rtol=1e-9, residuals=ours)
    expected, _ = getattr(linalg, solver)(alone, b, M=whole_M, rtol=1e-9, residuals=theirs)
    assert info == 0
    slack = 2 + (len(theirs) // 10 if solver == "bicgstab" else 0)
    assert abs(len(ours) - len(theirs)) <= slack
    np.testing.assert_allclose(ours[:5], theirs[:5], rtol=1e-6)
    found = whole(library, x, rows)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * np.abs(expected).max())
    again, _ = getattr(linalg, solver)(op, on_gpu(library, b, rows), M=M, rtol=1e-9)
    np.testing.assert_array_equal(whole(library, again, rows), found)


@each_type
def test_systems_of_every_type(dtype, transport):
    A = sp.csr_array(gallery.poisson3d(9)).astype(dtype)
    b = A @ vector(A.shape[0], A.dtype)
    op = operator(A, "uneven", device=DEVICE, transport=transport)
    rtol = 1e-4 if dtype in ("float32", "complex64") else 1e-9
    x, info = linalg.cg(
        op, piece(b, op.row_ranges), M=linalg.jacobi(op), rtol=rtol
    )  # from host memory and back
    assert (info, type(x), x.dtype) == (0, np.ndarray, A.dtype)
    found = op.row_ranges.gather(x, root=None)
    assert np.linalg.norm(b - A @ found) <= 3 * rtol * np.linalg.norm(b)


def test_callback_and_its_errors(transport):
    A = sp.csr_array(gallery.poisson3d(9))
    op = operator(A, device=DEVICE, transport=transport)
    b = piece(np.ones(A.shape[0]), op.row_ranges)
    norms = []
    x, info = linalg.cg(op, b, callback=lambda xk: norms.append(float(abs(xk).sum())))
    assert info == 0
    assert len(norms) == op.solve_info.iterations

    def fail(_):
        if COMM.rank == 0:
            raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        linalg.cg(op, b, callback=fail)
    np.testing.assert_array_equal(linalg.cg(op, b)[0], x)


def test_what_explain_says(transport):
    op = operator(case("banded")[0], device=DEVICE, transport=transport)
    begins = {"nccl": "NCCL ", "cuda_mpi": "CUDA-aware MPI ", "mpi": "none" if COMM.size == 1 else "MPI "}
    assert f"\ntransport: {begins[transport]}" in op.explain()


@pytest.mark.skipif(HAVE_THEIR_OWN, reason="every rank has a GPU of its own")
def test_what_is_possible_where_ranks_share_a_gpu():
    A, _ = case("banded")
    reason = "there is one rank" if COMM.size == 1 else "share a GPU|NCCL cannot be loaded"
    with pytest.raises(ValueError, match=reason):
        operator(A, device=DEVICE, transport="nccl")
    aware = COMM.size > 1 and not trouble_of_cuda()
    assert operator(A, device=DEVICE)._shared.transport.cuda_mpi == aware
    if not aware:
        with pytest.raises(ValueError, match=r"there is one rank|CUDA-aware"):
            operator(A, device=DEVICE, transport="cuda_mpi")
