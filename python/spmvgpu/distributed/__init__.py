"""Operators over the ranks of an MPI communicator.

All ranks run the same program. Each rank holds a contiguous range of rows, and the same range of each vector.
The module needs mpi4py: ``pip install 'spmvgpu[mpi]'``. Start a program with ``mpiexec -n 4 python -m mpi4py
program.py``.
"""

from .from_files import read_matrix
from .from_rows import aslinearoperator, assemble, scatter
from .operator import DistributedOperator
from .petsc_matrices import from_petsc, petsc
from .ranges import Ranges

__all__ = [
    "DistributedOperator",
    "Ranges",
    "aslinearoperator",
    "assemble",
    "from_petsc",
    "petsc",
    "read_matrix",
    "scatter",
]


def __dir__() -> list[str]:
    return __all__
