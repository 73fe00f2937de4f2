"""Solvers and preconditioners that run on the device of the operator.

>>> import numpy as np, spmvgpu as sg
>>> op = sg.aslinearoperator(sg.gallery.poisson2d(20), device="cpu")
>>> x, info = sg.linalg.cg(op, np.ones(400), rtol=1e-8, M=sg.linalg.jacobi(op))
>>> info
0
"""

from ..operator.solve_info import SolveInfo
from .amg import amg
from .block_jacobi import BlockJacobiOperator, block_jacobi
from .cycles import Cycle, aspreconditioner, chebyshev
from .direct import splu, spsolve
from .direct_factors import DirectFactors
from .eigsh import eigsh
from .expm import expm_multiply
from .factors import SingularMatrixError
from .fieldsplit import FieldSplit, fieldsplit
from .incomplete import IncompleteFactors, ic, ic0, ilu, ilu0
from .jacobi import Jacobi, jacobi
from .least_squares import cgls
from .lobpcg import lobpcg
from .lsqr import lsmr, lsqr
from .multigrid import Multigrid
from .solve import NotSolvedError, Solved, solve
from .solvers import bicgstab, cg, gmres, minres
from .stopping import SolverWarning
from .svds import svds

__all__ = [
    "BlockJacobiOperator",
    "Cycle",
    "DirectFactors",
    "FieldSplit",
    "IncompleteFactors",
    "Jacobi",
    "Multigrid",
    "NotSolvedError",
    "SingularMatrixError",
    "SolveInfo",
    "Solved",
    "SolverWarning",
    "amg",
    "aspreconditioner",
    "bicgstab",
    "block_jacobi",
    "cg",
    "cgls",
    "chebyshev",
    "eigsh",
    "expm_multiply",
    "fieldsplit",
    "gmres",
    "ic",
    "ic0",
    "ilu",
    "ilu0",
    "jacobi",
    "lobpcg",
    "lsmr",
    "lsqr",
    "minres",
    "solve",
    "splu",
    "spsolve",
    "svds",
]


def __dir__() -> list[str]:
    return __all__
