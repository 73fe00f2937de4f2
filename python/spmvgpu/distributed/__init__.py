"""Operators over the ranks of an MPI communicator: one program, many processes, pieces of vectors.

Every rank runs the same program and has a range of rows of the matrix and the same range of vectors. It needs
mpi4py (``pip install 'spmvgpu[mpi]'``) and runs with ``mpiexec -n 4 python -m mpi4py program.py`` or `srun`.
"""

from .construct import aslinearoperator
from .operator import DistributedOperator
from .petsc_matrices import from_petsc, petsc
from .ranges import Ranges
from .readers import read_matrix
from .spread import assemble, scatter

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
