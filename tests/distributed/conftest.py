"""A rank whose test fails ends all of them: the others may wait for it."""

from __future__ import annotations

import sys

from mpi4py import MPI


def pytest_exception_interact(node, report):
    sys.stdout.flush()
    print(f"\nrank {MPI.COMM_WORLD.rank}, {node.nodeid}\n{report.longreprtext}", file=sys.stderr, flush=True)
    MPI.COMM_WORLD.Abort(1)
