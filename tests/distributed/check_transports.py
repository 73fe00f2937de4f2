"""Which transport the ranks agree on, and why; and messages from memory that MPI alone is told of."""

from __future__ import annotations

import re
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import vector
from ranks import COMM, assert_multiplies, case, each_division, operator
from spmvgpu.arrays import NUMPY
from spmvgpu.distributed import communicators, products, transports
from spmvgpu.distributed.transports import _Rank, choose

LAST = COMM.size - 1
several = pytest.mark.skipif(COMM.size == 1, reason="takes two ranks")


def build(**arguments):
    return operator(case("uniform")[0], device="cpu", **arguments)


def have(monkeypatch, of_all, of_last=None):
    """Give ranks what they find on their machines; the last one may find something else."""
    place = of_last if of_last is not None and COMM.rank == LAST else of_all
    monkeypatch.setattr(transports, "_rank", lambda _: place)


SHARED = _Rank(("host", "bus"), 22808)
NOT_AWARE = SHARED._replace(mpi_trouble="the library is not CUDA-aware")


@pytest.mark.parametrize("transport", ["nccl", "cuda_mpi"])
def test_ranks_without_gpus(transport):
    reason = "there is one rank" if COMM.size == 1 else "rank 0 does not compute on one GPU"
    with pytest.raises(ValueError, match=f"transport='{transport}' is not available: {reason}; give 'auto'"):
        build(transport=transport)


@several
@pytest.mark.parametrize("transport", ["auto", "cuda_mpi"])
def test_ranks_that_share_a_gpu(transport, monkeypatch):
    have(monkeypatch, SHARED)
    chosen = choose(COMM, 0, transport)
    assert (chosen.nccl, chosen.cuda_mpi) == (None, True)
    assert ("ranks 0 and 1 share a GPU" if transport == "auto" else "transport='cuda_mpi'") in chosen.reason
    with pytest.raises(ValueError, match="transport='nccl' is not available: ranks 0 and 1 share a GPU"):
        choose(COMM, 0, "nccl")


@several
def test_mpi_of_one_rank_that_is_not_cuda_aware(monkeypatch):
    have(monkeypatch, SHARED, NOT_AWARE)
    reason = f"rank {LAST}: the library is not CUDA-aware"
    with pytest.raises(ValueError, match=f"transport='cuda_mpi' is not available: {reason}; give 'auto'"):
        choose(COMM, 0, "cuda_mpi")
    chosen = choose(COMM, 0, "auto")
    assert (chosen.nccl, chosen.cuda_mpi) == (None, False)
    assert chosen.reason == f"ranks 0 and 1 share a GPU, which NCCL does not support; {reason}"


@several
@pytest.mark.parametrize("transport", ["nccl", "cuda_mpi"])
def test_one_rank_without_a_gpu(transport, monkeypatch):
    have(monkeypatch, SHARED, _Rank(None))
    reason = f"rank {LAST} does not compute on one GPU"
    with pytest.raises(ValueError, match=f"transport='{transport}' is not available: {reason}"):
        choose(COMM, 0, transport)
    assert choose(COMM, 0, "auto") == (None, False, reason)


@several
def test_one_rank_without_nccl(monkeypatch):
    of_last = _Rank(("host", "another bus"), 0, "NCCL cannot be loaded")
    have(monkeypatch, _Rank(("host", str(COMM.rank)), 22808), of_last)
    assert choose(COMM, 0, "auto") == (None, True, f"rank {LAST}: NCCL cannot be loaded")


@several
@pytest.mark.parametrize("cuda_aware", [False, True])
def test_nccl_that_fails(cuda_aware, monkeypatch):
    def fail(*_):
        raise sg.CudaError("no shared memory")

    place = _Rank(("host", str(COMM.rank)), 22808, "", "" if cuda_aware else "not CUDA-aware")
    have(monkeypatch, place)
    monkeypatch.setattr(transports._core, "make_nccl_id", lambda _: b"")
    monkeypatch.setattr(transports._core, "NcclCommunicator", fail)
    with pytest.raises(sg.CudaError, match="no shared memory"):
        build(transport="nccl")
    told = (
        pytest.warns(RuntimeWarning, match="NCCL failed.*no shared memory")
        if COMM.rank == 0
        else nullcontext()
    )
    with told:
        op = build()
    chosen = op._shared.transport
    assert (chosen.nccl, chosen.cuda_mpi) == (None, cuda_aware)
    assert "no shared memory" in chosen.reason
    assert_multiplies(op, *case("uniform"))


@pytest.mark.parametrize(("transport", "kind"), [("udp", ValueError), (None, TypeError)])
def test_unknown_transport(transport, kind):
    allowed = "'auto', 'nccl', 'cuda_mpi', 'mpi'"
    with pytest.raises(kind, match=rf"transport=.* is not allowed; give one of {allowed}"):
        build(transport=transport)


@several
def test_different_transports():
    with pytest.raises(ValueError, match="transport="):
        build(transport="mpi" if COMM.rank == LAST else "auto")


@several
def test_explain_says_that_mpi_is_cuda_aware(monkeypatch):
    have(monkeypatch, SHARED)
    text = build().explain()
    assert re.search(r"^each product sends \d+ messages with [\d,]+ bytes in total", text, re.MULTILINE)
    reason = "(ranks 0 and 1 share a GPU, which NCCL does not support)"
    assert text.endswith(f"\ntransport: CUDA-aware MPI ({communicators.library()}) between GPUs {reason}")


# What libraries of MPI say


def test_this_library_says_the_same_on_every_rank():
    said = COMM.allgather(transports.trouble_of_cuda())
    assert said == said[:1] * COMM.size
    assert said[0] in ("", f"{communicators.library()} is not CUDA-aware")


@pytest.mark.parametrize("of_kind", [None, 0, 1, "fails"])
@pytest.mark.parametrize("query", [None, 0, 1])
def test_what_libraries_say(of_kind, query, monkeypatch):
    """MPICH has both functions, of which the second may end the program; Open MPI has only that."""

    def ask_of_kind(kind, is_supported):
        assert kind == 0  # CUDA
        is_supported._obj.value = of_kind != 0
        return of_kind == "fails"

    def ask():
        assert of_kind is None
        return query

    loaded = SimpleNamespace()
    if of_kind is not None:
        loaded.MPIX_GPU_query_support = ask_of_kind
    if query is not None:
        loaded.MPIX_Query_cuda_support = ask
    monkeypatch.setattr(transports.ctypes, "CDLL", lambda _: loaded)
    trouble = transports.trouble_of_cuda.__wrapped__()
    said = query if of_kind is None else of_kind
    if said == 1:
        assert trouble == ""
    else:
        says = "does not say whether it" if said is None else "is not"
        assert trouble.startswith(f"{communicators.library()} {says}")


# Messages as they go from GPU to GPU, with host memory in place of a GPU's


class OnlyAnAddress:
    """An array that says where it lies, as those on GPUs do, and which only MPI can read."""

    def __init__(self, host):
        self.host = host

    def __getitem__(self, rows):
        return OnlyAnAddress(self.host[rows])

    @property
    def __cuda_array_interface__(self):
        return self.host.__array_interface__


class Queue:
    """A stream on which nothing is done before somebody waits for it; its own event, too."""

    def __init__(self):
        self.queued, self.recorded = [], []

    def record(self):
        self.recorded += self.queued
        self.queued.clear()

    def synchronize(self):
        for operation in self.recorded:
            operation()
        self.recorded.clear()


class Beside(type(NUMPY)):
    """The adapter of NumPy, with buffers and a stream like those of a GPU."""

    def __init__(self):
        super().__init__(np)
        self.queue, self.buffers = Queue(), 0

    def event(self):
        return self.queue

    def buffer(self, shape, x, on_device):
        self.buffers += 1
        return OnlyAnAddress(super().buffer(shape, x, on_device))

    def take(self, x, indices, to):
        own = super().take
        self.queue.queued.append(lambda: own(x, indices, to.host))

    def copy(self, x, to):
        own = super().copy
        self.queue.queued.append(lambda: own(x, to.host))

    def beside(self, array, x):
        return array.host if isinstance(array, OnlyAnAddress) else array


@pytest.fixture
def beside(monkeypatch):
    found = Beside()
    monkeypatch.setattr(products, "array_and_library", lambda name, x: (x, found))
    return found


@each_division
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("name", ["power_law_rows", "wide", "no_entries"])
def test_products(name, dtype, division, beside):
    A, x = case(name, dtype)
    op, u = operator(A, division, device="cpu"), vector(A.shape[0], A.dtype)
    for _ in range(3):
        assert_multiplies(op, A, x)
        assert_multiplies(op.T, sp.csr_array(A.T), u)
        assert_multiplies(op.H, sp.csr_array(A.conj().T), u)
    assert beside.buffers == 4  # what goes and what comes, there and back


@pytest.mark.parametrize("columns", [0, 1, 5])
@pytest.mark.parametrize("transposed", [False, True])
def test_columns(columns, transposed, beside):
    A, _ = case("two_populations")
    op = operator(A, device="cpu")
    if transposed:
        A, op = sp.csr_array(A.T), op.T
    assert_multiplies(op, A, np.random.default_rng(3).standard_normal((A.shape[1], columns)))
