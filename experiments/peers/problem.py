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

# Slack of the error bound beyond one rounding per entry of the row: the reference rounds too, and so do the
# partial sums that a parallel product adds at the end.
EXTRA_ROUNDINGS = 8


class WrongResultError(Exception):
    """A product left the error bound, so its time says nothing."""


def rounding_bound(indptr: Array, scale: Array, dtype: np.dtype[Any]) -> Array:
    """How far each row of a product, of one column or several, may be off; `scale` is ``abs(A) @ abs(x)``."""
    roundings = np.diff(indptr) + EXTRA_ROUNDINGS
    bound: Array = ((roundings * float(np.finfo(dtype).eps)) * scale.T).T
    return bound


@dataclass
class Problem:
    """A product ``y = A @ x`` with its reference.

    ``reference`` is the product in float64 of the values rounded to ``dtype``; ``scale`` is
    ``sum_j |a_ij x_j|`` per row, to which the error of that row is compared.
    """

    matrix: sp.csr_array
    x: Array
    reference: Array
    scale: Array
    name: str = ""
    group: str = ""

    @classmethod
    def make(
        cls, matrix: sp.csr_array, dtype: npt.DTypeLike, name: str = "", group: str = "", seed: int = 0
    ) -> Problem:
        """Round a float64 matrix to ``dtype`` and compute what its product must be."""
        x = np.random.default_rng(seed).uniform(-1.0, 1.0, matrix.shape[1]).astype(dtype)
        data = matrix.data.astype(dtype, copy=False)
        rounded = sp.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)
        exact = sp.csr_array(
            (data.astype(np.float64, copy=False), matrix.indices, matrix.indptr), shape=matrix.shape
        )
        magnitude = sp.csr_array((np.abs(exact.data), matrix.indices, matrix.indptr), shape=matrix.shape)
        x64 = x.astype(np.float64)
        return cls(rounded, x, exact @ x64, magnitude @ np.abs(x64), name, group)

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

    @cached_property
    def bound(self) -> Array:
        """How far each row may be from the reference."""
        return rounding_bound(self.matrix.indptr, self.scale, self.dtype)

    def check(self, y: Any) -> None:
        """Raise `WrongResultError` unless every row of `y`, a NumPy or CuPy array, is within its bound."""
        if y.shape != self.reference.shape or y.dtype != self.dtype:
            raise WrongResultError(
                f"result is {y.dtype}{y.shape}, expected {self.dtype}{self.reference.shape}"
            )
        expected = self if isinstance(y, np.ndarray) else self.on_device
        wrong = ~(abs(y - expected.reference) <= expected.bound)
        count = int(wrong.sum())
        if count:
            row = int(wrong.argmax())
            raise WrongResultError(
                f"{count} of {y.size} rows are wrong; row {row}: got {float(y[row])!r}, "
                f"expected {float(self.reference[row])!r} within {float(self.bound[row]):.2e}"
            )

    def describe(self) -> dict[str, Any]:
        """The fields that every row of results carries."""
        return {
            "matrix": self.name,
            "group": self.group,
            "rows": int(self.matrix.shape[0]),
            "cols": int(self.matrix.shape[1]),
            "nnz": int(self.matrix.nnz),
            "dtype": "f64" if self.dtype.itemsize == 8 else "f32",
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
