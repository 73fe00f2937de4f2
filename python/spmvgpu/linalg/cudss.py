"""Factors of a matrix on a GPU, by NVIDIA's cuDSS through the bindings of nvmath-python."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import structural_rank

from .. import _core
from .._core import LinearMap
from .._util.locks import ForkableLock
from ..devices import CPU
from .factors import SingularMatrixError
from .vectors import DeviceVector, empty, staged

_TYPES = {"f4": "R_32F", "f8": "R_64F", "c8": "C_32F", "c16": "C_64F"}
_REFINEMENTS = 3  # of the solution that factors are tried by
_ROUNDING = 1000  # times the unit roundoff and the sizes, of residuals that rounding errors make
_DEFAULT_STREAM = 0  # of a handle, and of all work here


@cache
def bindings() -> Any:
    """The bindings, once the library is loaded; ImportError if one is missing, or the driver is too old."""
    driver = _core.driver()["version"] // 1000
    try:
        from cuda.bindings import runtime
        from nvmath.bindings import cudss

        cudss.get_property(0)
        _, version = runtime.cudaRuntimeGetVersion()
        if 0 < driver < version // 1000:
            raise RuntimeError(f"they are of CUDA {version // 1000}, and the driver is of CUDA {driver}")
    except Exception as error:  # a library that is not found raises what the loader of the version raises
        extra = "direct-cu12" if driver == 12 else "direct"
        raise ImportError(
            f"factors on a GPU need nvmath-python and cuDSS, which cannot be used ({error}); run pip install "
            f'"spmvgpu[{extra}]", or factorize on the CPU: op.to("cpu"), or device="cpu" for a matrix'
        ) from error
    return cudss


def is_available() -> bool:
    """Whether factors can be made on a GPU."""
    try:
        bindings()
    except ImportError:
        return False
    return True


# A setting of cuDSS is a parameter, its type and its value. Without one, cuDSS pivots within dense blocks
# only, and replaces small pivots. Where that fails, matching brings large entries to the diagonal. The last
# setting pivots among all rows, and takes longest.
_SETTINGS = (("MATCHING_ALG", "MatchingAlg", "AUTO"), ("REORDERING_ALG", "ReorderingAlg", "COLAMD"))


class CudssFactors:
    """The factors of a matrix, and of its transpose and conjugates where they are asked for.

    Parameters
    ----------
    csr : csr_array
        Canonical, square and finite, with at least one row and int32 indices.
    ordinal : int
        The GPU.

    Raises
    ------
    SingularMatrixError
        If no way to factorize it leads to solutions.
    """

    def __init__(self, csr: sp.csr_array, ordinal: int) -> None:
        bindings()  # or it is an error before anything is done
        self._csr, self._kind, self._ordinal = csr, _kind_of(csr), ordinal
        self._lock = ForkableLock()
        self._solvers = {"N": _factorized(csr, self._kind, ordinal)}
        self.norm = bound_of_norm(csr)

    @property
    def nnz(self) -> int:
        return self._solvers["N"].nnz

    def solve(self, b: DeviceVector, x: DeviceVector, columns: int, trans: str) -> None:
        """x = inverse of op(A) times b, for columns one after the other; complete on return."""
        self._solve(b.pointer, x.pointer, columns, trans)

    def core_map(self, trans: str) -> LinearMap:
        """The same for solvers of the core."""
        return _core.in_place_map(self._csr.dtype, lambda x, y: self._solve(x, y, 1, trans), self._ordinal)

    def _solve(self, b: int, x: int, columns: int, trans: str) -> None:
        with self._lock.hold():
            self._solver(trans).solve(b, x, columns)

    def renewed(self, csr: sp.csr_array) -> CudssFactors:
        """The factors of a matrix with the same pattern.

        Both share the analysis, and memory for one of them: whichever is asked to solve computes its own
        again if the other one was the last. So these are as they were, however this ends.
        """
        with self._lock.hold():
            kind, first = _kind_of(csr), self._solvers["N"]
            if kind != self._kind or not first.takes(csr):
                first = _factorized(csr, kind, self._ordinal)
        made = copy(self)
        made._csr, made._kind, made._solvers, made.norm = csr, kind, {"N": first}, bound_of_norm(csr)
        return made

    def _solver(self, trans: str) -> _Solver:
        """What solves with the matrix, its transpose ("T"), conjugate ("C") or adjoint ("H").

        Each has factors of its own, for cuDSS 0.8 has no other solves.
        """
        csr = self._csr
        if trans == "H" and csr.dtype.kind != "c":
            trans = "T"
        trans = _EQUAL[self._kind].get(trans, trans)
        if trans not in self._solvers:
            made = csr if trans == "C" else csr.T.tocsr()
            made = made if trans == "T" else made.conj()
            self._solvers[trans] = _factorized(made, self._kind, self._ordinal)
        solver = self._solvers[trans]
        if trans == "N" and solver.factorized is not csr:
            solver.renew(csr)
        return solver


# By the kind of a matrix, what its transpose and its adjoint are equal to.
_EQUAL: dict[str, dict[str, str]] = {
    "GENERAL": {},
    "SYMMETRIC": {"T": "N", "H": "C"},
    "HERMITIAN": {"T": "C", "H": "N"},
}


def _kind_of(csr: sp.csr_array) -> str:
    """The name of the type of a matrix, exactly."""
    for kind, hermitian in (("SYMMETRIC", False), ("HERMITIAN", True)):
        if not _core.asymmetry(csr.indptr, csr.indices, csr.data, hermitian):
            return kind
        if csr.dtype.kind != "c":
            break
    return "GENERAL"


def bound_of_norm(csr: sp.csr_array) -> float:
    """A bound of the spectral norm."""
    sizes = abs(csr)
    return float(np.sqrt(float(sizes.sum(axis=0).max()) * float(sizes.sum(axis=1).max())))


def _factorized(csr: sp.csr_array, kind: str, ordinal: int) -> _Solver:
    """The factors by the first way that leads to solutions."""
    failures: list[_core.CudaError] = []  # of ways that do not suit the matrix, or of the device
    for setting in (None, *_SETTINGS):
        try:
            solver = _Solver(csr, "GENERAL" if setting else kind, setting, ordinal)
            if solver.leads_to_solutions(csr):
                return solver
            del solver  # before the next one, which may need its memory
        except _core.CudaError as error:
            failures.append(error)
        n = csr.shape[0]
        rank = n if setting else structural_rank(csr)
        if rank < n:
            raise SingularMatrixError(
                f"the matrix is singular: with its {csr.nnz} entries where they are, its rank is at most "
                f"{rank} of {n}"
            )
    if len(failures) > len(_SETTINGS):
        raise failures[0]
    raise SingularMatrixError(
        f"the matrix is singular, or so close to it that cuDSS does not solve with it in {csr.dtype}; "
        'SciPy may, whose pivots are from all rows: give op.to("cpu"), or device="cpu" for a matrix'
    )


class _Solver:
    """A handle of cuDSS with the factors of one matrix.

    Attributes
    ----------
    factorized : csr_array or None
        The matrix; None while that changes.

    Raises
    ------
    MemoryError, CudaError
        If the device has no memory left, or fails.
    """

    def __init__(
        self, csr: sp.csr_array, kind: str, setting: tuple[str, str, str] | None, ordinal: int
    ) -> None:
        self._cudss, self._ordinal, self._n = bindings(), ordinal, csr.shape[0]
        cudss, n = self._cudss, self._n
        self._type = int(cudss.DataType[_TYPES[csr.dtype.str[1:]]])
        self._arrays = [staged(np.ascontiguousarray(a), ordinal) for a in (csr.indptr, csr.indices)]
        self._values = staged(np.ascontiguousarray(csr.data), ordinal)
        releases = ExitStack()
        # At exit the driver frees everything, and in a child of a fork nothing may be freed.
        weakref.finalize(self, _free, ordinal, releases, os.getpid()).atexit = False
        with self._device("create"):
            self._handle = cudss.create()
            releases.callback(cudss.destroy, self._handle)
            library = os.environ.get("CUDSS_THREADING_LIB") or _threading_library()
            if library:
                cudss.set_threading_layer(self._handle, library)
            self._config = cudss.config_create()
            releases.callback(cudss.config_destroy, self._config)
            if setting is not None:
                name, enumeration, value = setting
                parameter = cudss.ConfigParam[name]
                dtype = cudss.get_config_param_dtype(parameter)
                given = np.array([getattr(cudss, enumeration)[value]], dtype)
                cudss.config_set(self._config, parameter, given.ctypes.data, given.nbytes)
            self._data = cudss.data_create(self._handle)
            releases.callback(cudss.data_destroy, self._handle, self._data)
            start, indices, values = (array.pointer for array in (*self._arrays, self._values))
            types = cudss.DataType.R_32I, cudss.DataType.R_32I, self._type, cudss.MatrixType[kind]
            # cuDSS reads one half of a symmetric matrix.
            view = cudss.MatrixViewType.FULL if kind == "GENERAL" else cudss.MatrixViewType.UPPER
            self._matrix = cudss.matrix_create_csr(
                n, n, csr.nnz, start, 0, indices, values, *types, view, cudss.IndexBase.ZERO
            )
            releases.callback(cudss.matrix_destroy, self._matrix)
        unused = empty((n,), csr.dtype, ordinal)
        self._run(cudss.Phase.ANALYSIS, unused.pointer, unused.pointer, 1)
        self._run(cudss.Phase.FACTORIZATION, unused.pointer, unused.pointer, 1)
        self.factorized: sp.csr_array | None = csr

    @property
    def nnz(self) -> int:
        """Entries of the factors."""
        return self._fact("LU_NNZ", np.int64)

    def solve(self, b: int, x: int, columns: int) -> None:
        self._run(self._cudss.Phase.SOLVE, b, x, columns)

    def renew(self, csr: sp.csr_array) -> None:
        """Factors of a matrix with the same pattern."""
        self.factorized = None
        self._values = staged(np.ascontiguousarray(csr.data), self._ordinal)
        unused = empty((self._n,), csr.dtype, self._ordinal)
        with self._device("matrix_set_values"):
            self._cudss.matrix_set_values(self._matrix, self._values.pointer)
        self._run(self._cudss.Phase.REFACTORIZATION, unused.pointer, unused.pointer, 1)
        self.factorized = csr

    def takes(self, csr: sp.csr_array) -> bool:
        """Whether it has the factors of a matrix with the same pattern now, and they lead to solutions."""
        self.renew(csr)
        has_all_pivots = self._fact("INFO") == self._fact("NPIVOTS") == 0
        return has_all_pivots or self.leads_to_solutions(csr)

    def leads_to_solutions(self, csr: sp.csr_array) -> bool:
        """Whether a system with a random right-hand side is solved to half the digits.

        For pivots may have been replaced, or the factors have grown. Of a singular matrix, such a right-hand
        side is not in the range. Where no pivot was replaced, a residual of the size of rounding errors is
        enough, as it is to SciPy.
        """
        if self._fact("INFO"):  # the factorization has ended early
            return False
        rng, n, dtype = np.random.default_rng(0), self._n, csr.dtype
        b = (rng.random(n) - 0.5).astype(dtype)
        eps = np.finfo(dtype).eps
        rounding = 0.0 if self._fact("NPIVOTS") else _ROUNDING * eps * bound_of_norm(csr)
        solution = empty((n,), dtype, self._ordinal)
        x, residual, part = np.zeros_like(b), b, np.empty_like(b)
        with np.errstate(all="ignore"):
            for _ in range(1 + _REFINEMENTS):
                there = staged(residual, self._ordinal)
                self.solve(there.pointer, solution.pointer, 1)
                solution.read(part)
                x = x + part
                residual = b - csr @ x
                goal = np.sqrt(eps) * np.linalg.norm(b) + rounding * np.linalg.norm(x)
                if np.linalg.norm(residual) <= goal < np.inf:
                    return True
        return False

    def _fact(self, name: str, dtype: Any = np.int32) -> int:
        """A number that cuDSS knows of the factors, such as NPIVOTS, the pivots that were replaced."""
        found, written = np.zeros(1, dtype), np.zeros(1, np.uint64)
        which, to = self._cudss.DataParam[name], (found.ctypes.data, found.nbytes, written.ctypes.data)
        with self._device("data_get"):
            self._cudss.data_get(self._handle, self._data, which, *to)
        return int(found[0])

    def _run(self, phase: Any, b: int, x: int, columns: int) -> None:
        cudss, made = self._cudss, []
        n, kind = self._n, (self._type, cudss.Layout.COL_MAJOR)
        with self._device(f"execute, {phase.name.lower()}"):
            try:
                for pointer in (x, b):
                    made.append(cudss.matrix_create_dn(n, columns, n, pointer, *kind))
                cudss.execute(self._handle, phase, self._config, self._data, self._matrix, *made)
                if self._ordinal != CPU:
                    _core.synchronize(_DEFAULT_STREAM, self._ordinal)
            finally:
                for matrix in made:
                    cudss.matrix_destroy(matrix)

    @contextmanager
    def _device(self, call: str) -> Iterator[None]:
        """A block that calls cuDSS and raises errors of this package."""
        try:
            with _current(self._ordinal):
                yield
        except self._cudss.cuDSSError as error:
            if "ALLOC_FAILED" in str(error):
                raise MemoryError(
                    f"cuDSS found no memory on cuda:{self._ordinal} for the factors ({call}): {error}"
                ) from error
            raise _core.CudaError(f"cuDSS failed ({call}): {error}") from error


@contextmanager
def _current(ordinal: int) -> Iterator[None]:
    """A block in which a GPU is the current one of the thread."""
    if ordinal == CPU:
        yield
        return
    from cuda.bindings import runtime

    _, before = runtime.cudaGetDevice()
    (status,) = runtime.cudaSetDevice(ordinal)
    if status != runtime.cudaError_t.cudaSuccess:
        raise _core.CudaError(f"cudaSetDevice({ordinal}) failed: {status.name}")
    try:
        yield
    finally:
        if before != ordinal:
            runtime.cudaSetDevice(before)


@cache
def _threading_library() -> str | None:
    """The library beside cuDSS with which its analysis uses all cores."""
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        path = load_nvidia_dynamic_lib("cudss").abs_path
    except Exception:  # cuDSS was found in another way, and its analysis uses one core
        return None
    found = sorted(Path(path).parent.glob("libcudss_mtlayer_gomp.so*")) if path else []
    return str(found[0]) if found else None


def _free(ordinal: int, releases: ExitStack, process: int) -> None:
    """Free what was made, the last first."""
    if os.getpid() == process:
        with _current(ordinal):
            releases.close()
