"""One matrix in one dtype, the vector it is multiplied by, and the check that every timed product passes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

Array = npt.NDArray[Any]

DTYPES: dict[str, np.dtype[Any]] = {"f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}
COMPLEX: dict[str, np.dtype[Any]] = {"c64": np.dtype(np.complex64), "c128": np.dtype(np.complex128)}
ALL = DTYPES | COMPLEX
_NAMES = {dtype: name for name, dtype in ALL.items()}

# Slack of the error bound beyond one rounding per entry of the row: the reference rounds too, and so do the
# partial sums that a parallel product adds at the end.
EXTRA_ROUNDINGS = 8
LARGE_NNZ = 5_000_000


class WrongResultError(Exception):
    """A product left the error bound, so its time says nothing."""


def rounding_bound(indptr: Array, scale: Array, dtype: np.dtype[Any]) -> Array:
    """Largest allowed error in each row of a product of any columns; `scale` is ``abs(A) @ abs(x)``."""
    roundings = np.diff(indptr) + EXTRA_ROUNDINGS
    if dtype.kind == "c":
        roundings = 2 * roundings  # of both parts, and of the products that each is the sum of
    bound: Array = ((roundings * float(np.finfo(dtype).eps)) * scale.T).T
    return bound


def check_within(y: Any, reference: Any, bound: Any, dtype: np.dtype[Any]) -> None:
    """Raise `WrongResultError` unless every element of a NumPy or CuPy array is within its bound."""
    if y.shape != reference.shape or y.dtype != dtype:
        raise WrongResultError(f"result is {y.dtype}{y.shape}, expected {dtype}{reference.shape}")
    if not isinstance(y, type(reference)):  # a CuPy array
        import cupy

        reference, bound = cupy.asarray(reference), cupy.asarray(bound)
    wrong = ~(abs(y - reference) <= bound)
    count = int(wrong.sum())
    if count:
        at = np.unravel_index(int(wrong.argmax()), y.shape)
        raise WrongResultError(
            f"{count} of {y.size} rows are wrong; row {at[0]}: got {y[at].item()!r}, "
            f"expected {reference[at].item()!r} within {float(bound[at]):.2e}"
        )


def values_in(data: Array, dtype: np.dtype[Any], seed: int = 0) -> Array:
    """The values of a real matrix in a type; as complex ones they keep their sizes and get random phases."""
    if dtype.kind != "c":
        return data.astype(dtype, copy=False)
    phases = np.random.default_rng(seed).uniform(0.0, 2 * np.pi, data.size)
    values: Array = (data * np.exp(1j * phases)).astype(dtype)
    return values


@dataclass
class Problem:
    """A product ``y = A @ x`` with its reference, which is computed where it is asked for."""

    matrix: sp.csr_array
    x: Array
    name: str = ""
    group: str = ""

    @classmethod
    def make(
        cls, matrix: sp.csr_array, dtype: npt.DTypeLike, name: str = "", group: str = "", seed: int = 0
    ) -> Problem:
        """Round a float64 matrix to ``dtype`` and draw an x."""
        dtype = np.dtype(dtype)
        x = values_in(np.random.default_rng(seed).uniform(-1.0, 1.0, matrix.shape[1]), dtype, seed + 1)
        data = values_in(matrix.data, dtype)
        rounded = sp.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)
        return cls(rounded, x, name, group)

    @cached_property
    def reference(self) -> Array:
        """The product in float64, or complex128, of the values rounded to ``dtype``."""
        wide = np.result_type(self.dtype, np.float64)
        product: Array = self._with_values(self.matrix.data.astype(wide, copy=False)) @ self.x.astype(wide)
        return product

    @cached_property
    def scale(self) -> Array:
        """``sum_j |a_ij x_j|`` per row, to which the error of that row is compared."""
        magnitude = self._with_values(np.abs(self.matrix.data).astype(float))
        product: Array = magnitude @ np.abs(self.x)
        return product

    def _with_values(self, values: Array) -> sp.csr_array:
        return sp.csr_array((values, self.matrix.indices, self.matrix.indptr), shape=self.matrix.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.x.dtype

    @property
    def vector_bytes(self) -> int:
        """Bytes of x read once and y written once."""
        return int((self.matrix.shape[0] + self.matrix.shape[1]) * self.dtype.itemsize)

    @property
    def csr_bytes(self) -> int:
        """Bytes of the matrix as CSR with 32-bit indices."""
        rows, nnz = self.matrix.shape[0], self.matrix.nnz
        return int(nnz * (self.dtype.itemsize + 4) + (rows + 1) * 4)

    @cached_property
    def on_device(self) -> DeviceArrays:
        """The CSR arrays and x on the current GPU, shared by every peer that can use them as they are."""
        return DeviceArrays(self)

    def release(self) -> None:
        """Give the memory of a large matrix on the GPU back before the next one."""
        if vars(self).pop("on_device", None) is not None and self.matrix.nnz > LARGE_NNZ:
            import cupy

            cupy.get_default_memory_pool().free_all_blocks()

    @cached_property
    def bound(self) -> Array:
        """Largest distance of each row from the reference."""
        return rounding_bound(self.matrix.indptr, self.scale, self.dtype)

    def check(self, y: Any) -> None:
        """Raise `WrongResultError` unless every row of `y`, a NumPy or CuPy array, is within its bound."""
        known = self if isinstance(y, np.ndarray) else self.on_device
        check_within(y, known.reference, known.bound, self.dtype)

    @property
    def case(self) -> dict[str, str]:
        """Key of this problem among the others."""
        return {"matrix": self.name, "dtype": _NAMES[self.dtype]}

    def size(self) -> dict[str, Any]:
        """As `describe`, in short and with the name that NumPy has for the type."""
        A = self.matrix
        return {"matrix": self.name, "rows": A.shape[0], "nnz": A.nnz, "dtype": A.dtype.name}

    def describe(self) -> dict[str, Any]:
        """The fields that every row of results carries."""
        return {
            "matrix": self.name,
            "group": self.group,
            "rows": int(self.matrix.shape[0]),
            "cols": int(self.matrix.shape[1]),
            "nnz": int(self.matrix.nnz),
            "dtype": _NAMES[self.dtype],
        }


class DeviceArrays:
    """CuPy copies of a problem's arrays."""

    def __init__(self, problem: Problem) -> None:
        import cupy

        self.indptr = cupy.asarray(problem.matrix.indptr, dtype=cupy.int32)
        self.indices = cupy.asarray(problem.matrix.indices, dtype=cupy.int32)
        self.data = cupy.asarray(problem.matrix.data)
        self.x = cupy.asarray(problem.x)
        self.reference = cupy.asarray(problem.reference)
        self.bound = cupy.asarray(problem.bound)
