"""Inverses of the matrices of coarsest levels."""

from __future__ import annotations

import numpy as np
import scipy.linalg as la

from .. import _core
from .._util.types import HostArray

LARGEST_DIRECT = 2000  # unknowns of a coarsest level of which a dense inverse is made
_ROUNDINGS = 16  # or more have gone into an entry of a coarsest matrix, however small that is


def dense_inverse(dense: HostArray, near_null: HostArray | None = None) -> HostArray:
    """The inverse of the coarsest matrix, or a pseudoinverse if it is singular to working precision.

    That takes a fraction of the time if the matrix maps the near null space to zero, and nothing else.
    """
    eps = float(np.finfo(dense.dtype).eps)
    wide = dense.astype(np.result_type(dense.dtype, np.float64))
    diagonal = np.diag(wide).real
    scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    scaled = scale[:, np.newaxis] * wide * scale
    if near_null is not None:
        near_null = near_null.reshape(len(wide), -1) / scale[:, np.newaxis]
    rounding = max(len(wide), _ROUNDINGS) * eps
    return scale[:, np.newaxis] * _inverse_of_scaled(scaled, rounding, near_null) * scale


def _inverse_of_scaled(matrix: HostArray, rounding: float, near_null: HostArray | None) -> HostArray:
    """The inverse of a matrix with ones on its diagonal."""
    adjoint = matrix.conj().T
    if np.abs(matrix - adjoint).max(initial=0) > 100 * rounding:
        return np.asarray(np.linalg.pinv(matrix, rcond=rounding))
    hermitian = (matrix + adjoint) / 2
    inverse = hermitian.copy()
    if _core.invert_definite(inverse, 100 * rounding):
        return (inverse + inverse.conj().T) / 2
    if near_null is not None:
        null = np.linalg.qr(near_null.astype(hermitian.dtype))[0]
        if np.abs(hermitian @ null).max(initial=0) <= 100 * rounding:
            projector = null @ null.conj().T
            inverse = hermitian + projector
            if _core.invert_definite(inverse, 100 * rounding):
                return np.asarray((inverse + inverse.conj().T) / 2 - projector)
    return np.asarray(la.pinvh(hermitian, rtol=rounding))
