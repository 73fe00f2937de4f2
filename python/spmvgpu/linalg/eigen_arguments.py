"""What callers of the Lanczos method give, and what it tells them."""

from __future__ import annotations

import numpy as np
import scipy.sparse.linalg as sla
from scipy.sparse.linalg import LinearOperator

from .._util.arguments import one_of, whole_number
from ..arrays import AnyArray, array_and_library
from ..operator.construct import as_operator
from .eigen_order import WHICH
from .lanczos import Eigenpairs
from .systems import OverRanks
from .vectors import DeviceVector, Vectors


def checked_which(which: object, k: object, ncv: object, n: int) -> tuple[str, int, int]:
    """`which`, `k` and `ncv` of a caller, for a map of vectors of length `n`."""
    which = one_of("which", which, WHICH)
    if n < 1:
        raise ValueError("A is empty, and has no values to find; give a matrix with rows and columns")
    count = whole_number("k", k, 1, n)
    if ncv is None:
        return which, count, min(n, max(2 * count + 1, 20))
    return which, count, whole_number("ncv", ncv, min(count + 1, n), n)


def places_of(k: int, ncv: int, n: int) -> int:
    """The number of vectors stored: a search for copies needs some besides those found."""
    return max(ncv, min(n, k + 8))


def with_start(A: object, v0: object) -> tuple[LinearOperator | OverRanks, AnyArray]:
    """An operator, and a vector on its smaller side that stands for the start: `v0`, or zeros."""
    is_given = v0 is not None
    if isinstance(A, OverRanks):
        return A, v0 if is_given else np.zeros(0, np.float32)
    start, _ = array_and_library("v0", v0 if is_given else np.zeros(0, np.float32))
    op = as_operator(A, start, "v0")
    return op, start if is_given else np.zeros(min(op.shape), np.float32)


def start_of(v0: object, vectors: Vectors) -> DeviceVector | None:
    """The start vector of a caller on the device; None for a random one."""
    if v0 is None:
        return None
    start = vectors.take("v0", v0)
    vectors.wait()
    return start


def seed_of(rng: object) -> int:
    """The seed of random vectors: of a generator of NumPy or what makes one; the same without one."""
    if rng is None:
        return 0
    try:
        generator = np.random.default_rng(rng)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"rng={rng!r} is not allowed; give a generator or a seed of NumPy: {error}"
        ) from None
    return int(generator.integers(2**62))


def no_convergence(found: Eigenpairs, k: int, values: AnyArray, vectors: AnyArray) -> sla.ArpackNoConvergence:
    """SciPy's error, with the eigenpairs that have converged."""
    how = f"{found.restarts} restarts, {len(found.values)}/{k} eigenvectors converged"
    return sla.ArpackNoConvergence(f"No convergence ({how}); raise maxiter, ncv or tol", values, vectors)
