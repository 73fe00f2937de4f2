"""What the tests on several ranks share: ways to divide rows, and operators beside their whole matrices."""

from __future__ import annotations

from functools import cache
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from mpi4py import MPI

import spmvgpu as sg
from battery import matrix, vector
from reference import assert_product
from spmvgpu import distributed, gallery
from systems import convection

COMM = MPI.COMM_WORLD


def _uneven(total):
    """Where ranges begin that grow like squares."""
    return [total * rank**2 // COMM.size**2 for rank in range(COMM.size + 1)]


DIVISIONS = {
    "even": lambda total: [total * rank // COMM.size for rank in range(COMM.size + 1)],
    "uneven": _uneven,
    "first_has_all": lambda total: [0] + [total] * COMM.size,
    "last_has_all": lambda total: [0] * COMM.size + [total],
}

each_division = pytest.mark.parametrize("division", DIVISIONS)

SYSTEMS = {
    "definite": lambda: gallery.poisson3d(9),
    "indefinite": lambda: gallery.poisson2d(20) - 0.31 * sp.eye_array(400),
    "unsymmetric": convection,
}
_SOLVED = [
    *(("definite", solver) for solver in ("cg", "bicgstab", "gmres", "minres")),
    ("indefinite", "minres"),
    ("unsymmetric", "bicgstab"),
    ("unsymmetric", "gmres"),
]

each_system_and_solver = pytest.mark.parametrize(
    ("name", "solver", "division"),
    [(*names, division) for names, division in zip(_SOLVED, cycle(DIVISIONS), strict=False)],
)


GPUS = [info.name for info in sg.devices() if info.name != "cpu"]
DEVICE = GPUS[COMM.rank % len(GPUS)] if GPUS else "cpu"
HAVE_THEIR_OWN = 1 < COMM.size <= len(GPUS)


class Side(NamedTuple):
    """Where vectors are, in host memory or as arrays of a library on a GPU, and options of the operator."""

    options: Any = None
    library: Any = None

    def send(self, x):
        """A piece of a vector, or of columns, in the order that it has."""
        if self.library is None:
            return x
        if x.ndim == 2 and x.strides[0] == x.itemsize:
            return self.library.asarray(np.ascontiguousarray(x.T), DEVICE).T
        return self.library.asarray(x, DEVICE)

    def fetch(self, y):
        return y if self.library is None else self.library.to_numpy(y)


HOST = Side({})


def divided(total, division="even"):
    """The ranges of so many indices."""
    return distributed.Ranges(COMM, DIVISIONS[division](total))


def operator(A, division="even", **options):
    """The operator of a matrix that every rank has."""
    rows, cols = divided(A.shape[0], division), divided(A.shape[1], division)
    return distributed.aslinearoperator(
        A[rows.begin : rows.end], COMM, row_ranges=rows, col_ranges=cols, **options
    )


@cache
def trouble_of_cuda_mpi():
    """Why messages from GPU to GPU do not go over MPI; nothing where they do."""
    try:
        operator(matrix("banded", np.dtype("float64")), device=DEVICE, transport="cuda_mpi")
    except ValueError as refused:
        return str(refused)
    return ""


def piece(x, ranges):
    """This rank's piece of a vector that every rank has."""
    return x[ranges.begin : ranges.end]


def whole_product(op, x, side=HOST):
    """``op @ x`` of whole vectors that every rank has."""
    return op.row_ranges.gather(side.fetch(op @ side.send(piece(x, op.col_ranges))), root=None)


def case(name, dtype=np.float64):
    """A matrix of the battery, and a vector."""
    A = matrix(name, np.dtype(dtype))
    return A, vector(A.shape[1], A.dtype)


def assert_multiplies(op, A, x, side=HOST, **scaled):
    """The product of whole vectors is that of the whole matrix, to rounding."""
    assert_product(whole_product(op, x, side), A, x, **scaled)
