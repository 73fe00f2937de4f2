"""What generators share: checks of their arguments, and matrices that are canonical as they are made."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from .._util.arguments import real_number, whole_number
from .._util.types import DType, HostArray
from ..inputs.limits import INDEX_LIMIT


def count(name: str, value: object, lowest: int = 1) -> int:
    return whole_number(name, value, lowest, INDEX_LIMIT)


def generator(seed: object) -> np.random.Generator:
    return np.random.default_rng(whole_number("seed", seed, 0))


def checked_contrast(value: object) -> float:
    return real_number("contrast", value, "a finite number of at least 1", lambda n: 1 <= n < np.inf)


def value_type(dtype: npt.DTypeLike) -> DType:
    try:
        checked: DType = np.dtype(dtype)
    except Exception as error:  # NumPy raises what it pleases
        raise TypeError(f"dtype={dtype!r} is not allowed; give a numeric dtype") from error
    if checked.kind not in "biufc":
        raise TypeError(f"dtype={dtype!r} is not allowed; give a numeric dtype")
    return checked


def canonical(data: HostArray, indices: HostArray, indptr: HostArray, shape: tuple[int, int]) -> sp.csr_array:
    """Mark arrays that are known to be sorted and free of duplicates as such."""
    matrix = sp.csr_array((data, indices, indptr), shape=shape)
    matrix.has_canonical_format = True
    return matrix
