"""Messages from GPU to GPU: over NCCL, where every rank has one of its own, or over CUDA-aware MPI."""

from __future__ import annotations

import importlib.util
import platform
import warnings
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from .. import _core
from ..devices import CPU
from .communicators import mpi, trouble_of_cuda
from .errors import agreement

TRANSPORTS = ("auto", "nccl", "cuda_mpi", "mpi")

_keyval: int | None = None


class _Place(NamedTuple):
    """A rank's GPU, and what it has of NCCL and MPI."""

    gpu: tuple[str, str] | None  # host and bus; None: it computes on a CPU, or on several devices
    nccl_version: int = 0
    nccl_trouble: str = ""  # why it has none
    mpi_trouble: str = ""  # why it does not send memory of GPUs


class Transport(NamedTuple):
    """What carries entries of vectors on GPUs, for all ranks the same.

    Attributes
    ----------
    nccl : NcclCommunicator or None
        None: MPI does.
    cuda_mpi : bool
        MPI reads and writes memory of GPUs; otherwise they go through host memory.
    reason : str
        Why it is not what would be better; empty if it is.
    """

    nccl: Any
    cuda_mpi: bool
    reason: str


def choose(comm: Any, ordinal: int, transport: str) -> Transport:
    """The best that is possible, or what is asked for, found out by all ranks together.

    The communicator of NCCL is made once for a communicator of MPI, with which it is kept. `ordinal` is this
    rank's GPU, or CPU.

    Raises
    ------
    ValueError
        On all ranks, if `transport` is "nccl" or "cuda_mpi" and that is not possible.
    CudaError
        On all ranks, if NCCL is asked for and fails.

    Warns
    -----
    RuntimeWarning
        On rank 0, if NCCL is there, but fails.
    """
    if transport == "mpi":
        return Transport(None, False, "transport='mpi'")
    places = [] if comm.size == 1 else comm.allgather(_place(ordinal))
    trouble = _trouble_of_ranks(places)
    reasons = [trouble] if trouble else []
    if not trouble and transport != "cuda_mpi":
        nccl, trouble_of_nccl = _nccl(comm, ordinal, places, transport == "nccl")
        if nccl is not None:
            return Transport(nccl, False, "")
        reasons.append(trouble_of_nccl)
    if not trouble and transport != "nccl":
        trouble_of_mpi = _trouble_of_mpi(places)
        if not trouble_of_mpi:
            return Transport(None, True, "; ".join(reasons) or "transport='cuda_mpi'")
        reasons.append(trouble_of_mpi)
    reason = "; ".join(reasons)
    if transport != "auto":
        raise ValueError(f"transport={transport!r} is not available: {reason}; give 'auto' or 'mpi'")
    return Transport(None, False, reason)


def _nccl(comm: Any, ordinal: int, places: list[_Place], insisted: bool) -> tuple[Any, str]:
    """The communicator, or None and why there is none."""
    trouble = _trouble_of_nccl(places)
    if trouble:
        return None, trouble
    try:
        return _communicator(comm, ordinal), ""
    except _core.CudaError as error:
        if insisted:
            raise
        if comm.rank == 0:
            warnings.warn(f"NCCL failed, so messages are sent by MPI: {error}", RuntimeWarning, 4)
        return None, str(error)


def _communicator(comm: Any, ordinal: int) -> Any:
    global _keyval
    if _keyval is None:
        _keyval = mpi().Comm.Create_keyval()
    made = comm.Get_attr(_keyval)
    if not all(comm.allgather(made is not None and made.ordinal == ordinal)):
        library = _library()
        with agreement(comm):
            own_id = _core.make_nccl_id(library) if comm.rank == 0 else b""
        own_id = comm.bcast(own_id)
        with agreement(comm):
            made = _core.NcclCommunicator(library, own_id, comm.size, comm.rank, ordinal)
        comm.Set_attr(_keyval, made)
    return made


def name() -> str:
    """NCCL and its version, as in ``"NCCL 2.28.9"``."""
    version = _core.nccl_version(_library())
    return f"NCCL {version // 10000}.{version // 100 % 100}.{version % 100}"


# What is in the way, or nothing; the same on all ranks.


def _trouble_of_ranks(places: list[_Place]) -> str:
    if not places:
        return "there is one rank"
    without = next((rank for rank, place in enumerate(places) if place.gpu is None), None)
    return "" if without is None else f"rank {without} does not compute on one GPU"


def _trouble_of_nccl(places: list[_Place]) -> str:
    for rank, place in enumerate(places):
        if place.nccl_trouble:
            return f"rank {rank}: {place.nccl_trouble}"
        if place.nccl_version != places[0].nccl_version:
            return f"rank {rank} has NCCL {place.nccl_version}, and rank 0 {places[0].nccl_version}"
        first = next(other for other, earlier in enumerate(places) if earlier.gpu == place.gpu)
        if first != rank:
            return f"ranks {first} and {rank} share a GPU, which NCCL does not support"
    return ""


def _trouble_of_mpi(places: list[_Place]) -> str:
    troubles = (f"rank {rank}: {place.mpi_trouble}" for rank, place in enumerate(places) if place.mpi_trouble)
    return next(troubles, "")


def _place(ordinal: int) -> _Place:
    if ordinal == CPU:
        return _Place(None)
    gpu = _host(), _core.pci_bus_id(ordinal)
    try:
        version, trouble = _core.nccl_version(_library()), ""
    except _core.CudaError as error:
        version, trouble = 0, str(error)
    return _Place(gpu, version, trouble, trouble_of_cuda())


@cache
def _host() -> str:
    """This host, whatever it is called in containers."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return platform.node()


@cache
def _library() -> str:
    """Where the library is: in the package of pip, which PyTorch uses too, or where the loader finds it."""
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations or () if spec is not None else ():
        of_pip = Path(folder, "nccl", "lib", "libnccl.so.2")
        if of_pip.exists():
            return str(of_pip)
    return "libnccl.so.2"
