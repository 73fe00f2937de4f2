"""Exceptions of one rank, raised on all ranks so that none waits for a rank that has failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from .._core import CudaError, FormatError
from .._util.messages import said
from .communicators import Communicator, mpi

# The kinds of exceptions that other ranks raise for one of a rank: the first that it is an instance of.
_KINDS: tuple[type[Exception], ...] = (
    *(FormatError, CudaError, np.linalg.LinAlgError, ValueError, TypeError),
    *(MemoryError, ImportError, OSError, RuntimeError),
)


@contextmanager
def agreement(comm: Communicator) -> Iterator[None]:
    """Raise the exception of any rank on all ranks, at the end of the block.

    All ranks enter the block, and no rank waits for another inside it. The message names the ranks that
    failed, unless all failed with the same message.
    """
    failure: Exception | None = None
    try:
        yield
    except Exception as error:
        failure = error
    raise_together(comm, failure)


def raise_together(comm: Communicator, failure: Exception | None) -> None:
    """Raise on every rank if any rank has an exception: its own if all agree, else the first rank's."""
    any_failed = np.zeros(1, np.int32)
    comm.Allreduce(np.array([failure is not None], np.int32), any_failed, mpi().MAX)
    if not any_failed[0]:
        return
    kinds = (number for number, kind in enumerate(_KINDS) if isinstance(failure, kind))
    outcomes = comm.allgather(None if failure is None else (next(kinds, len(_KINDS) - 1), said(failure)))
    failed = [rank for rank, outcome in enumerate(outcomes) if outcome is not None]
    kind, message = first = outcomes[failed[0]]
    alike = [rank for rank in failed if outcomes[rank] == first]
    if failure is not None and len(alike) == comm.size:
        raise failure
    if len(alike) < comm.size:
        message = f"{ranks(alike)}: {message}"
    if len(alike) < len(failed):
        message += f" ({ranks([rank for rank in failed if rank not in alike])} failed otherwise)"
    raise _KINDS[kind](message) from failure


def check_same(comm: Communicator, **values: object) -> None:
    """Refuse values of arguments that differ from rank to rank.

    Raises
    ------
    ValueError
        On every rank; names the argument, the first rank that differs, and both values.
    """
    first = comm.bcast(values)
    with agreement(comm):
        for name, value in values.items():
            if value != first[name]:
                raise ValueError(
                    f"{name}={value!r} on this rank and {first[name]!r} on rank 0; give the same on all ranks"
                )


def ranks(numbers: list[int]) -> str:
    """``"rank 3"``, ``"ranks 1, 2"``, or the first few of many."""
    shown = ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
    return f"rank{'s' if len(numbers) > 1 else ''} {shown}"
