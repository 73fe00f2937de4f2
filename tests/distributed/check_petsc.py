"""Operators in PETSc's solvers, where petsc4py is installed."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from battery import vector
from ranks import COMM, assert_multiplies, case, divided, operator, piece
from reference import assert_product
from spmvgpu import distributed, gallery

try:
    from petsc4py import PETSc
except ImportError as error:  # also where its libraries are missing
    pytest.skip(f"needs petsc4py ({error})", allow_module_level=True)


def from_piece(own):
    return PETSc.Vec().createWithArray(own.copy(), comm=COMM)


@pytest.mark.parametrize("division", ["even", "uneven", "last_has_all"])
@pytest.mark.parametrize("name", ["tall", "banded"])
def test_products(name, division):
    A, x = case(name)
    op = operator(A, division)
    matrix = distributed.petsc(op)
    assert matrix.size == A.shape
    assert matrix.local_size == op.local_shape
    y = matrix.createVecLeft()
    matrix.mult(from_piece(piece(x, op.col_ranges)), y)
    assert_product(op.row_ranges.gather(y.array, root=None), A, x)
    z, back = vector(A.shape[0], A.dtype), matrix.createVecRight()
    matrix.multTranspose(from_piece(piece(z, op.row_ranges)), back)
    assert_product(op.col_ranges.gather(back.array, root=None), sp.csr_array(A.T), z)


def test_solver_with_a_preconditioner_of_the_diagonal():
    A = sp.csr_array(gallery.poisson2d(20))
    op = operator(A, symmetric=True)
    b = vector(A.shape[0], A.dtype)
    solver = PETSc.KSP().create(COMM)
    solver.setOperators(distributed.petsc(op))
    solver.setType("cg")
    solver.getPC().setType("jacobi")
    solver.setTolerances(rtol=1e-10)
    x = from_piece(np.zeros(op.local_shape[0]))
    solver.solve(from_piece(piece(b, op.row_ranges)), x)
    assert solver.getConvergedReason() > 0
    whole = op.row_ranges.gather(x.array, root=None)
    assert np.linalg.norm(b - A @ whole) <= 1e-8 * np.linalg.norm(b)


@pytest.mark.parametrize("division", ["even", "uneven"])
@pytest.mark.parametrize("name", ["tall", "banded"])
def test_from_petsc(name, division):
    A, x = case(name)
    rows, cols = divided(A.shape[0], division), divided(A.shape[1], division)
    own = piece(A, rows)
    sizes = ((len(rows), rows.total), (len(cols), cols.total))
    matrix = PETSc.Mat().createAIJ(sizes, csr=(own.indptr, own.indices, own.data), comm=COMM)
    matrix.assemble()
    op = distributed.from_petsc(matrix, format="csr")
    assert (op.row_ranges, op.col_ranges) == (rows, cols)
    assert_multiplies(op, A, x)


def test_refusals():
    A, _ = case("banded")
    with pytest.raises(TypeError, match="give this dtype="):
        distributed.petsc(operator(A, dtype=np.float32))
    with pytest.raises(TypeError, match="must be a petsc4py"):
        distributed.from_petsc(A)
    with pytest.raises(TypeError, match="has type 'python'"):
        distributed.from_petsc(distributed.petsc(operator(A)))
