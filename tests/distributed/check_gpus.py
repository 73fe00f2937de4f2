"""Vectors on GPUs: messages go over NCCL where every rank has one, over CUDA-aware MPI, or host memory.

``mpiexec -n 2 python -m pytest -rs tests/distributed/check_gpus.py`` says what it skips, and why.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse as sp

from battery import vector
from ranks import (
    COMM,
    DEVICE,
    GPUS,
    HAVE_THEIR_OWN,
    HOST,
    case,
    operator,
    piece,
    trouble_of_cuda_mpi,
)
from reference import assert_product
from spmvgpu import gallery, linalg

pytestmark = [
    pytest.mark.skipif(not GPUS, reason="this machine has no usable CUDA device"),
    pytest.mark.skipif(COMM.size > max(2, len(GPUS)), reason="two ranks that share a GPU say as much"),
]


def test_products_on_several_streams(side):
    """The buffers of messages are one product's at a time."""
    if side is HOST:
        return
    A, _ = case("power_law_rows")
    op, library = operator(A, **side.options), side.library
    vectors = [vector(A.shape[1], A.dtype, seed) for seed in range(6)]
    pieces = [side.send(piece(x, op.col_ranges)) for x in vectors]
    results = []
    for x in pieces:
        with library.new_stream(DEVICE) as stream:
            library.delay()
            results.append((op @ x, stream))
    for x, (y, stream) in zip(vectors, results, strict=True):
        library.synchronize(stream)
        assert_product(op.row_ranges.gather(side.fetch(y), root=None), A, x)


def test_new_values_and_columns(side):
    """Messages go on between the arrays that an update has made."""
    A = sp.csr_array(gallery.poisson3d(9))
    op = operator(A, "uneven", **side.options)
    B = np.stack([vector(A.shape[0], A.dtype, seed) for seed in range(2)], axis=1)
    mine = side.send(piece(B, op.row_ranges))
    for factor in (1.0, 2.0):
        op.update_values(factor * piece(A, op.row_ranges))
        X, infos = linalg.cg(op, mine, M="ic0", rtol=1e-9)
        found = op.row_ranges.gather(side.fetch(X), root=None)
        assert not infos.any()
        assert np.linalg.norm(B - factor * A @ found) <= 1e-8 * np.linalg.norm(B)


def test_solve(side):
    A = sp.csr_array(gallery.poisson3d(9))
    op, b = operator(A, **side.options), vector(A.shape[0], A.dtype)
    x = op.row_ranges.gather(side.fetch(linalg.solve(op, side.send(piece(b, op.row_ranges)))), root=None)
    assert np.linalg.norm(b - A @ x) <= 1.01e-8 * np.linalg.norm(b)


def test_vectors_in_host_memory(transport):
    A, x = case("power_law_rows")
    op = operator(A, device=DEVICE, transport=transport)
    assert_product(op.row_ranges.gather(op @ piece(x, op.col_ranges), root=None), A, x)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
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
    trouble = trouble_of_cuda_mpi()
    assert not trouble or re.search("there is one rank|CUDA-aware", trouble)
    kind = "none" if COMM.size == 1 else "MPI " if trouble else "CUDA-aware MPI "
    assert f"\ntransport: {kind}" in operator(A, device=DEVICE).explain()
