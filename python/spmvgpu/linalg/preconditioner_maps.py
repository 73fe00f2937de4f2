"""Preconditioners as the solvers of the core apply them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse.linalg as sla
from scipy.sparse.linalg import LinearOperator

from .. import _core
from ..arrays import array_and_library, library_of, on_host
from ..devices import device_name
from ..inputs.canonical import ForeignOperator, sparse_source
from ..inputs.source import Source
from ..operator.construct import as_operator
from ..operator.operator import SparseOperator
from .jacobi import Jacobi
from .preconditioners import DevicePreconditioner, PreconditionerMap, check_shape
from .systems import OverRanks, System, callback_map, staged_numpy
from .vectors import Vectors

# A result of `checked_preconditioner`, of which an array is a dense matrix or the inverse of a diagonal.
AnyPreconditioner: TypeAlias = Any

# Types of preconditioners and of systems between which the core converts.
_SINGLES = [(np.dtype(single), np.dtype(double)) for single, double in (("f4", "f8"), ("c8", "c16"))]


def checked_preconditioner(M: AnyPreconditioner) -> AnyPreconditioner:
    """A preconditioner that a caller gave: what has products of its own, a sparse matrix, or an array.

    Raises
    ------
    TypeError
        For what is none of these.
    """
    if M is None or isinstance(M, LinearOperator | OverRanks):
        return M
    source = sparse_source(M)
    if source is not None:
        return M if isinstance(source, ForeignOperator) else source
    if hasattr(M, "levels"):
        raise TypeError(
            f"M must be a preconditioner, not the hierarchy {type(M).__name__}; give "
            "spmvgpu.linalg.aspreconditioner(M)"
        )
    allowed = (
        "a preconditioner of spmvgpu.linalg, the inverse of a diagonal as a 1-D array, a matrix, or a "
        "LinearOperator"
    )
    M, library = array_and_library("M", M, allowed)
    located = library.locate(M, "M")
    if located.host is not None:
        return located.host
    is_vector = len(located.shape) == 1 or located.shape[1:] == (1,)
    return M if is_vector else on_host("M", M)


def map_of_preconditioner(system: System, M: AnyPreconditioner, vectors: Vectors) -> PreconditionerMap | None:
    """A checked preconditioner for the core: on the device if possible, or a function that it calls."""
    if M is None:
        return None
    if isinstance(M, OverRanks):
        return PreconditionerMap(system.map_of(M), M)
    if is_diagonal(system, M):
        if isinstance(M, Jacobi):
            diagonal = M._on_device(system, vectors.ordinal)
        elif isinstance(M, np.ndarray):
            diagonal = staged_numpy(system, M, vectors.ordinal)
        else:
            diagonal = vectors.take("M", M)
        return PreconditionerMap(_core.diagonal_map(system.dtype, diagonal.pointer), diagonal, True)
    check_shape(system, M)
    if isinstance(M, Source | np.ndarray):
        M = as_operator(M, device=device_name(vectors.ordinal), dtype=system.dtype)
    if isinstance(M, DevicePreconditioner) and (there := M._map_for(system, vectors.ordinal)):
        return there
    is_there = isinstance(M, DevicePreconditioner | SparseOperator) and M._ordinal == vectors.ordinal
    is_single = is_there and (np.dtype(M.dtype), system.dtype) in _SINGLES
    if is_there and (is_single or M.dtype == system.dtype):
        core = _core.matrix_map(M._matrix) if isinstance(M, SparseOperator) else M._core_map()
        if is_single:
            memory, columns = _core.SolverMemory(vectors.ordinal), system.columns or 1
            core = _core.converted_map(core, system.shape[0], columns, memory)
        return PreconditionerMap(core, M)
    return PreconditionerMap(callback_map(system, "M", sla.aslinearoperator(M), vectors.ordinal), M)


def is_diagonal(system: System, M: AnyPreconditioner) -> bool:
    """Whether a preconditioner is a diagonal, or the array of one."""
    if isinstance(M, Jacobi | LinearOperator):
        return isinstance(M, Jacobi)
    if isinstance(M, np.ndarray):
        return M.ndim == 1 or M.shape == (system.shape[0], 1)
    return library_of(M) is not None


def keeps_pieces(system: System, M: AnyPreconditioner) -> bool:
    """Whether the core keeps the vectors in pieces on several devices, wherever they are given."""
    if isinstance(M, DevicePreconditioner):
        return M._keeps_pieces(system)
    return system.pieces > 1 and (M is None or is_diagonal(system, M))
