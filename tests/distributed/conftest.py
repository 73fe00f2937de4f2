"""A rank whose test fails ends all of them: the others may wait for it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest
from mpi4py import MPI

import libraries
from ranks import DEVICE, GPUS, HAVE_THEIR_OWN, HOST, Side, trouble_of_cuda_mpi

ON_GPUS = [(transport, library) for transport in ("mpi", "cuda_mpi", "nccl") for library in ("cupy", "torch")]


def pytest_exception_interact(node, report):
    sys.stdout.flush()
    print(f"\nrank {MPI.COMM_WORLD.rank}, {node.nodeid}\n{report.longreprtext}", file=sys.stderr, flush=True)
    MPI.COMM_WORLD.Abort(1)


def need_transport(name):
    """Skip where messages do not go that way."""
    size = MPI.COMM_WORLD.size
    if not GPUS or size > max(2, len(GPUS)):
        pytest.skip("needs GPUs; two ranks that share one say as much as many")
    if name == "nccl" and not HAVE_THEIR_OWN:
        pytest.skip("needs a GPU for every rank, and several")
    if name == "cuda_mpi" and (trouble := trouble_of_cuda_mpi()):
        pytest.skip(trouble)


@pytest.fixture(params=["mpi", "cuda_mpi", "nccl"])
def transport(request):
    need_transport(request.param)
    return request.param


@pytest.fixture(params=[HOST, *(ON_GPUS if GPUS else [])], ids=str)
def side(request):
    """Vectors in host memory, and on GPUs with every transport and library."""
    if request.param is HOST:
        return HOST
    transport, library = request.param
    need_transport(transport)
    pytest.importorskip(library)
    return Side({"device": DEVICE, "transport": transport}, getattr(libraries, library.capitalize())())


@pytest.fixture
def folder():
    """A folder that all ranks see; pytest would delete one of its own as if its rank were alone."""
    with tempfile.TemporaryDirectory() as own:
        yield Path(MPI.COMM_WORLD.bcast(own))
        MPI.COMM_WORLD.Barrier()
