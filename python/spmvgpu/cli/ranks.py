"""Whether a command is one of several that mpiexec or srun started together."""

from __future__ import annotations

import os

# Set by Open MPI's mpiexec; by that of MPICH and of its relatives; by srun, for what it starts itself.
_VARIABLES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")


def launched_ranks() -> int:
    """As many processes as were started together; 1 without a launcher."""
    counts = [os.environ.get(name, "") for name in _VARIABLES]
    return max([1, *(int(count) for count in counts if count.isdecimal())])
