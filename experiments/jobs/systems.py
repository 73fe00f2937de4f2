"""The matrices of the jobs: symmetric positive definite systems of 10 k to 9 M unknowns, and a graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp

from experiments.peers.problem import WrongResultError, rounding_bound
from experiments.records import Row
from spmvgpu import gallery

# Random coefficients, so that values differ: no format may profit from equal ones by chance.
CONTRAST = 10
# Added to the diagonal, as a part of its mean, as an implicit time step does: some hundred iterations at
# every size, where the bare operator would need ten thousand at the largest.
SHIFT = 1e-3

# Small ones first, so that a run cut short has seen something of every kind.
SYSTEMS: dict[str, Callable[[], sp.csr_array]] = {
    "poisson2d_100": partial(gallery.poisson2d, 100, contrast=CONTRAST),
    "elast_59k": partial(gallery.elasticity3d, 27, contrast=CONTRAST),
    "poisson3d_100": partial(gallery.poisson3d, 100, contrast=CONTRAST),
    "poisson2d_1000": partial(gallery.poisson2d, 1000, contrast=CONTRAST),
    "elast_470k": partial(gallery.elasticity3d, 54, contrast=CONTRAST),
    "poisson2d_3000": partial(gallery.poisson2d, 3000, contrast=CONTRAST),
}
LOOPS = ("poisson2d_100", "elast_59k", "poisson3d_100")
PRODUCTS = LOOPS
COLUMNS = ("elast_59k", "poisson3d_100", "powerlaw_500k")
START = ("elast_59k",)

# To try things out. Names say the size, so that no quick result can be taken for one of the real systems.
QUICK: dict[str, Callable[[], sp.csr_array]] = {
    "poisson2d_20": partial(gallery.poisson2d, 20, contrast=CONTRAST),
    "elast_1k": partial(gallery.elasticity3d, 7, contrast=CONTRAST),
}

_built: dict[str, sp.csr_array] = {}


def matrix(name: str) -> sp.csr_array:
    """One matrix by name, in float64; the last one asked for is kept.

    Every call wraps the same arrays again, so that nothing a library has noted on the matrix object (that
    its indices are sorted, say) saves the next one any work.
    """
    if name not in _built:
        _built.clear()
        _built[name] = (
            gallery.powerlaw(500_000, 12) if name == "powerlaw_500k" else _shifted((SYSTEMS | QUICK)[name]())
        )
    A = _built[name]
    return sp.csr_array((A.data, A.indices, A.indptr), shape=A.shape)


def _shifted(A: sp.csr_array) -> sp.csr_array:
    diagonal = A.diagonal()
    A.setdiag(diagonal + SHIFT * diagonal.mean())
    return A


def right_hand_side(A: sp.csr_array) -> np.ndarray:
    """A random vector, which has a part in every eigenvector."""
    b: np.ndarray = np.random.default_rng(3).standard_normal(A.shape[0])
    return b


def describe(name: str, A: sp.csr_array) -> dict[str, Any]:
    """The fields that every row has."""
    return {"matrix": name, "rows": int(A.shape[0]), "nnz": int(A.nnz), "dtype": "f64"}


def check_product(A: Any, X: np.ndarray, Y: np.ndarray) -> None:
    """Raise unless ``Y`` is ``A @ X``, of one column or several, within the bound that `Problem` has, too."""
    bound = rounding_bound(A.indptr, abs(A) @ abs(X), np.dtype(np.float64))
    if Y.shape != bound.shape or not (abs(Y - A @ X) <= bound).all():
        raise WrongResultError("the product is not that of SciPy")


def times_row(times_us: list[float], **row: Any) -> Row:
    """A row with the median of some measurements."""
    us = {"time_us": round(median(times_us), 2), "least_us": round(min(times_us), 2)}
    return {**row, **us, "samples": len(times_us)}
