"""What carries messages from GPU to GPU: NCCL, CUDA-aware MPI, or MPI through host memory.

All ranks choose the same one. NCCL needs a GPU of its own for every rank. CUDA-aware MPI needs a GPU on every
rank, which ranks may share.
"""

from __future__ import annotations

import ctypes
import importlib.util
import platform
import warnings
from functools import cache
from pathlib import Path
from typing import NamedTuple, cast

from .. import _core
from ..devices import CPU
from .communicators import Communicator, library, mpi
from .errors import agreement

TRANSPORTS = ("auto", "nccl", "cuda_mpi", "mpi")

_MPIX_GPU_SUPPORT_CUDA = 0  # of MPICH's mpi.h

_keyval: int | None = None


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

    nccl: _core.NcclCommunicator | None
    cuda_mpi: bool
    reason: str


class _Rank(NamedTuple):
    """A rank's GPU, and what it has of NCCL and MPI."""

    gpu: tuple[str, str] | None  # host and bus; None: it computes on a CPU, or on several devices
    nccl_version: int = 0
    nccl_trouble: str = ""  # why it has none
    mpi_trouble: str = ""  # why it does not send memory of GPUs


def choose(comm: Communicator, ordinal: int, transport: str) -> Transport:
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
    ranks = [] if comm.size == 1 else comm.allgather(_rank(ordinal))
    without = next((number for number, rank in enumerate(ranks) if rank.gpu is None), None)
    reasons = [] if without is None else [f"rank {without} does not compute on one GPU"]
    if not ranks:
        reasons = ["there is one rank"]
    kinds = [] if reasons else [kind for kind in ("nccl", "cuda_mpi") if transport in ("auto", kind)]
    if "nccl" in kinds:
        trouble = _trouble_of_nccl(ranks)
        try:
            if not trouble:
                return Transport(_communicator(comm, ordinal), False, "")
        except _core.CudaError as error:
            if transport == "nccl":
                raise
            trouble = str(error)
            if comm.rank == 0:
                warnings.warn(f"NCCL failed, so messages are sent by MPI: {error}", RuntimeWarning, 3)
        reasons.append(trouble)
    if "cuda_mpi" in kinds:
        trouble = next(
            (f"rank {n}: {rank.mpi_trouble}" for n, rank in enumerate(ranks) if rank.mpi_trouble), ""
        )
        if not trouble:
            return Transport(None, True, "; ".join(reasons) or "transport='cuda_mpi'")
        reasons.append(trouble)
    reason = "; ".join(reasons)
    if transport != "auto":
        raise ValueError(f"transport={transport!r} is not available: {reason}; give 'auto' or 'mpi'")
    return Transport(None, False, reason)


def _rank(ordinal: int) -> _Rank:
    """What this rank has; the others are told."""
    if ordinal == CPU:
        return _Rank(None)
    try:
        version, trouble = _core.nccl_version(_nccl_library()), ""
    except _core.CudaError as error:
        version, trouble = 0, str(error)
    return _Rank((_host(), _core.pci_bus_id(ordinal)), version, trouble, trouble_of_cuda())


@cache
def _host() -> str:
    """This host, whatever it is called in containers."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return platform.node()


def _trouble_of_nccl(ranks: list[_Rank]) -> str:
    """The first obstacle to NCCL, the same on all ranks; "" if there is none."""
    for number, rank in enumerate(ranks):
        if rank.nccl_trouble:
            return f"rank {number}: {rank.nccl_trouble}"
        if rank.nccl_version != ranks[0].nccl_version:
            return f"rank {number} has NCCL {rank.nccl_version}, and rank 0 {ranks[0].nccl_version}"
        first = next(other for other, earlier in enumerate(ranks) if earlier.gpu == rank.gpu)
        if first != number:
            return f"ranks {first} and {number} share a GPU, which NCCL does not support"
    return ""


@cache
def trouble_of_cuda() -> str:
    """Why MPI cannot send and receive memory of GPUs, as far as it says so; empty if it can.

    mpi4py has no function for it, so the one of the library that mpi4py has loaded is called.
    """
    loaded = ctypes.CDLL(mpi().__file__)
    is_supported = ctypes.c_int(0)
    # MPICH has both functions; before 4.0 the second ends the program where it was built without CUDA.
    if ask_of_kind := getattr(loaded, "MPIX_GPU_query_support", None):
        failed = ask_of_kind(_MPIX_GPU_SUPPORT_CUDA, ctypes.byref(is_supported))
        cuda_aware = not failed and bool(is_supported.value)
    elif ask := getattr(loaded, "MPIX_Query_cuda_support", None):  # Open MPI, MVAPICH
        cuda_aware = bool(ask())
    else:
        return f"{library()} does not say whether it is CUDA-aware"
    return "" if cuda_aware else f"{library()} is not CUDA-aware"


# NCCL


def _communicator(comm: Communicator, ordinal: int) -> _core.NcclCommunicator:
    """The communicator of NCCL for one of MPI, which keeps it."""
    global _keyval
    if _keyval is None:
        _keyval = mpi().Comm.Create_keyval()
    made = cast("_core.NcclCommunicator | None", comm.Get_attr(_keyval))
    fits = comm.allgather(made is not None and made.ordinal == ordinal)
    if made is None or not all(fits):
        with agreement(comm):
            own_id = _core.make_nccl_id(_nccl_library()) if comm.rank == 0 else b""
        own_id = comm.bcast(own_id)
        with agreement(comm):
            made = _core.NcclCommunicator(_nccl_library(), own_id, comm.size, comm.rank, ordinal)
        comm.Set_attr(_keyval, made)
    return made


def nccl_name() -> str:
    """NCCL and its version, as in ``"NCCL 2.28.9"``."""
    version = _core.nccl_version(_nccl_library())
    return f"NCCL {version // 10000}.{version // 100 % 100}.{version % 100}"


@cache
def _nccl_library() -> str:
    """Where the library is: in the package of pip, which PyTorch uses too, or where the loader finds it."""
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations or () if spec is not None else ():
        of_pip = Path(folder, "nccl", "lib", "libnccl.so.2")
        if of_pip.exists():
            return str(of_pip)
    return "libnccl.so.2"
