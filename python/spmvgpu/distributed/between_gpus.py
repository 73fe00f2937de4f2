"""NCCL: messages from GPU to GPU, where every rank has one of its own."""

from __future__ import annotations

import importlib.util
import platform
import warnings
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from .. import _core
from ..devices import CPU
from .communicators import mpi
from .errors import agreement

TRANSPORTS = ("auto", "mpi", "nccl")

_keyval: int | None = None


class _Place(NamedTuple):
    """A rank's GPU, and what it has of NCCL."""

    gpu: tuple[str, str] | None  # host and bus; None: it computes on a CPU, or on several devices
    version: int
    trouble: str  # why it has no NCCL


class Transport(NamedTuple):
    """What carries entries of vectors on GPUs.

    Attributes
    ----------
    nccl : NcclCommunicator or None
        None: MPI does, through host memory.
    reason : str
        Why it is not NCCL; empty if it is.
    """

    nccl: Any
    reason: str


def choose(comm: Any, ordinal: int, transport: str) -> Transport:
    """NCCL, if that is possible or asked for, by a communicator that all ranks make together; or MPI.

    It is made once for a communicator of MPI, with which it is kept. `ordinal` is this rank's GPU, or CPU.

    Raises
    ------
    ValueError
        On all ranks, if `transport` is "nccl" and that is not possible.
    CudaError
        On all ranks, if NCCL is asked for and fails.

    Warns
    -----
    RuntimeWarning
        On rank 0, if NCCL is there, but fails.
    """
    if transport == "mpi":
        return Transport(None, "transport='mpi'")
    reason = "there is one rank" if comm.size == 1 else _trouble_of(comm.allgather(_place(ordinal)))
    if reason:
        if transport == "nccl":
            raise ValueError(f"transport='nccl' is not possible: {reason}; give 'auto' or 'mpi'")
        return Transport(None, reason)
    try:
        return Transport(_communicator(comm, ordinal), "")
    except _core.CudaError as error:
        if transport == "nccl":
            raise
        if comm.rank == 0:
            warnings.warn(f"messages go through host memory, as NCCL fails: {error}", RuntimeWarning, 3)
        return Transport(None, str(error))


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


def _trouble_of(places: list[_Place]) -> str:
    """What is in the way, or nothing; the same on all ranks."""
    for rank, place in enumerate(places):
        if place.gpu is None:
            return f"rank {rank} does not compute on one GPU"
        if place.trouble:
            return f"rank {rank}: {place.trouble}"
        if place.version != places[0].version:
            return f"rank {rank} has NCCL {place.version}, and rank 0 {places[0].version}"
        first = next(other for other, earlier in enumerate(places) if earlier.gpu == place.gpu)
        if first != rank:
            return f"ranks {first} and {rank} share a GPU"
    return ""


def _place(ordinal: int) -> _Place:
    if ordinal == CPU:
        return _Place(None, 0, "")
    gpu = _host(), _core.pci_bus_id(ordinal)
    try:
        return _Place(gpu, _core.nccl_version(_library()), "")
    except _core.CudaError as error:
        return _Place(gpu, 0, str(error))


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
