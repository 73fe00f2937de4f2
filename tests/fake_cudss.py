"""A library with the calls of `nvmath.bindings.cudss`, whose factors NumPy makes in host memory."""

from __future__ import annotations

import ctypes
import itertools
from enum import IntEnum

import numpy as np
import scipy.sparse as sp

DataType = IntEnum("DataType", "R_32F R_64F C_32F C_64F R_32I")
Phase = IntEnum("Phase", "ANALYSIS FACTORIZATION REFACTORIZATION SOLVE")
MatrixType = IntEnum("MatrixType", "GENERAL SYMMETRIC HERMITIAN")
MatrixViewType = IntEnum("MatrixViewType", "FULL UPPER")
IndexBase = IntEnum("IndexBase", "ZERO")
Layout = IntEnum("Layout", "COL_MAJOR")
ConfigParam = IntEnum("ConfigParam", "MATCHING_ALG REORDERING_ALG")
MatchingAlg = IntEnum("MatchingAlg", "AUTO")
ReorderingAlg = IntEnum("ReorderingAlg", "COLAMD")
DataParam = IntEnum("DataParam", "INFO NPIVOTS LU_NNZ")
_DTYPES = {1: np.float32, 2: np.float64, 3: np.complex64, 4: np.complex128}


class cuDSSError(Exception):  # noqa: N801
    pass


class Library:
    """The module. It counts what is made and freed, and which phases have run.

    Attributes
    ----------
    alive : dict
        All objects by their handles.
    phases : list of tuple
        The phase, the type of the matrix and the settings of each call of `execute`.
    wrong : set of tuple of str
        Settings with which solutions are wrong, as pivots that are too small make them.
    fails : str or None
        A status that factorizations end with.
    """

    def __init__(self):
        for kind in (DataType, Phase, MatrixType, MatrixViewType, IndexBase, Layout, ConfigParam, MatchingAlg,
                     ReorderingAlg, DataParam, cuDSSError):  # fmt: skip
            setattr(self, kind.__name__, kind)
        self.alive, self.phases, self.wrong, self.fails = {}, [], set(), None
        self._numbers = itertools.count(1)

    def _made(self, thing):
        handle = next(self._numbers)
        self.alive[handle] = thing
        return handle

    def get_property(self, which):
        return (0, 8, 0)[which]

    def create(self):
        return self._made("handle")

    def config_create(self):
        return self._made([])

    def data_create(self, handle):
        assert self.alive[handle] == "handle"
        return self._made({"INFO": 0, "NPIVOTS": 0, "LU_NNZ": 0})

    def destroy(self, handle):
        del self.alive[handle]

    config_destroy = matrix_destroy = destroy

    def data_destroy(self, handle, data):
        assert handle in self.alive
        del self.alive[data]

    def set_threading_layer(self, handle, library):
        pass

    def get_config_param_dtype(self, parameter):
        return np.int32

    def config_set(self, config, parameter, value, size):
        self.alive[config].append(parameter.name)

    def data_get(self, handle, data, parameter, value, size, written):
        number = np.array([self.alive[data][parameter.name]], f"i{size}")
        ctypes.memmove(value, number.ctypes.data, size)

    def matrix_create_csr(self, rows, cols, nnz, start, end, indices, values, *types):
        about = {"rows": rows, "nnz": nnz, "start": start, "indices": indices, "values": values}
        return self._made({**about, "dtype": _DTYPES[types[2]], "kind": types[3].name, "view": types[4].name})

    def matrix_create_dn(self, rows, columns, leading, values, dtype, layout):
        assert rows == leading
        return self._made(_array(values, (columns, rows), _DTYPES[dtype]))

    def matrix_set_values(self, matrix, values):
        self.alive[matrix]["values"] = values

    def execute(self, handle, phase, config, data, matrix, x, b):
        assert self.alive[handle] == "handle"
        matrix, facts, settings = self.alive[matrix], self.alive[data], tuple(self.alive[config])
        self.phases.append((phase.name, matrix["kind"], settings))
        if phase == Phase.SOLVE:
            solution = np.linalg.solve(facts["A"], self.alive[b].T).T
            self.alive[x][...] = np.nan if settings in self.wrong else solution
        elif phase != Phase.ANALYSIS:
            if self.fails:
                raise cuDSSError(self.fails)
            A = _dense(matrix)
            facts["A"] = A
            is_singular = np.linalg.matrix_rank(A) < len(A)
            facts["INFO"], facts["LU_NNZ"] = int(is_singular), matrix["nnz"]


def _array(pointer, shape, dtype):
    bytes_ = int(np.prod(shape)) * np.dtype(dtype).itemsize
    buffer = (ctypes.c_char * bytes_).from_address(pointer)
    return np.frombuffer(buffer, dtype).reshape(shape)


def _dense(matrix):
    """The matrix as the library reads it: of a symmetric one, the upper half."""
    n, nnz = matrix["rows"], matrix["nnz"]
    arrays = (
        _array(matrix["values"], (nnz,), matrix["dtype"]),
        _array(matrix["indices"], (nnz,), np.int32),
        _array(matrix["start"], (n + 1,), np.int32),
    )
    A = sp.csr_array(arrays, shape=(n, n)).toarray()
    if matrix["kind"] == "GENERAL":
        assert matrix["view"] == "FULL"
        return A
    assert matrix["view"] == "UPPER"
    upper = np.triu(A, 1)
    lower = upper.T if matrix["kind"] == "SYMMETRIC" else upper.T.conj()
    return np.diag(np.diag(A)) + upper + lower
