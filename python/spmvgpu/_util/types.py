"""Types for the annotations of public functions; nothing here exists for programs that run."""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeAlias, TypeVar

#: "auto", "partitioned" or one of `spmvgpu.formats()`.
Format: TypeAlias = str
# A str is allowed too, for names that a program computes; these are what an editor offers.
Device: TypeAlias = Literal["auto", "cpu", "cuda", "cuda:0", "cuda:1"] | str


class Array(Protocol):
    """An array of any library: NumPy, CuPy, PyTorch, JAX, ..."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...


ArrayT = TypeVar("ArrayT", bound=Array)
T = TypeVar("T")
