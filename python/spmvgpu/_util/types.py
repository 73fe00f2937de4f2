"""Types for the annotations of public functions; nothing here exists for programs that run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from .._core import FormatName

# Type checkers refuse other names. `formats` gives names of this type, and what computes one may cast it.
Format: TypeAlias = 'Literal["auto", "partitioned"] | FormatName'
# A str is allowed too, as programs compute the numbers of GPUs; these are what an editor offers.
Device: TypeAlias = Literal["auto", "cpu", "cuda", "cuda:0", "cuda:1"] | str
Devices: TypeAlias = list[str] | tuple[str, ...]

DType: TypeAlias = np.dtype[Any]
HostArray: TypeAlias = npt.NDArray[Any]
#: What gives arrays of NumPy's where it is multiplied or solved for.
HostOperand: TypeAlias = HostArray | Sequence[Any]
#: Options of a format: values by name.
Options: TypeAlias = Mapping[str, int | float | str]


class Array(Protocol):
    """An array of any library: NumPy, CuPy, PyTorch, JAX, ..."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> object: ...


ArrayT = TypeVar("ArrayT", bound=Array)
OperandT = TypeVar("OperandT")
