"""Types for the annotations of public functions; nothing here exists for programs that run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

#: "auto", "partitioned" or one of `spmvgpu.formats()`.
Format: TypeAlias = str
# A str is allowed too, for names that a program computes; these are what an editor offers.
Device: TypeAlias = Literal["auto", "cpu", "cuda", "cuda:0", "cuda:1"] | str


Devices: TypeAlias = list[str] | tuple[str, ...]

DType: TypeAlias = np.dtype[Any]
HostArray: TypeAlias = npt.NDArray[Any]
#: Options of a format: values by name.
Options: TypeAlias = Mapping[str, int | float | str]


class Array(Protocol):
    """An array of any library: NumPy, CuPy, PyTorch, JAX, ..."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> object: ...


ArrayT = TypeVar("ArrayT", bound=Array)
OperandT = TypeVar("OperandT")
