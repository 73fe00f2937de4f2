"""A rank whose test fails ends all of them: the others may wait for it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest
from mpi4py import MPI


def pytest_exception_interact(node, report):
    sys.stdout.flush()
    print(f"\nrank {MPI.COMM_WORLD.rank}, {node.nodeid}\n{report.longreprtext}", file=sys.stderr, flush=True)
    MPI.COMM_WORLD.Abort(1)


@pytest.fixture
def folder():
    """A folder that all ranks see; pytest would delete one of its own as if its rank were alone."""
    with tempfile.TemporaryDirectory() as own:
        yield Path(MPI.COMM_WORLD.bcast(own))
        MPI.COMM_WORLD.Barrier()
