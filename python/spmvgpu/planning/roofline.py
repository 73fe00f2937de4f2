"""The library's own model: its variants, and what their terms cost.

The core counts what a product of a variant moves and waits for, its terms, and adds up what they cost
(cpp/planning/roofline.hpp). Here the costs are fitted to the times of calibration samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core

Array = npt.NDArray[Any]
Terms = Mapping[str, float]


def variant_name(format: str, options: Mapping[str, Any]) -> str:
    """A format with the options that make a kernel of its own of it."""
    if not options:
        return format
    return " ".join([format, *(f"{name}={value}" for name, value in sorted(options.items()))])


#: The logarithms that a matrix's place among others consists of.
POINT_LENGTH = 8


@dataclass(frozen=True)
class Fit:
    """The cost of the terms of one variant."""

    norm: float  # the p of the p-norm that joins the terms
    costs: Mapping[str, float]  # microseconds per unit
    residuals: Array  # logarithm of measured over what the terms say, by sample
    error: float  # mean relative error on samples left out of the fit


_NORMS = (1.0, 1.25, 1.5, 2.0)
_FOLDS = 5

#: Fewer samples than this say nothing about a format.
MIN_SAMPLES = 12


def fit(terms: Sequence[Terms], points: Sequence[Sequence[float]], times: Sequence[float]) -> Fit:
    """Costs with the least squared relative error, none negative; the norm by cross-validation."""
    names = list(terms[0])
    X = np.array([[entry[name] for name in names] for entry in terms])
    y, Z = np.asarray(times, float), np.asarray(points, float)
    everything = np.arange(len(y))
    fold = np.random.default_rng(0).permutation(len(y)) % _FOLDS

    def left_out(norm: float) -> Array:
        predicted = np.empty(len(y))
        for k in range(_FOLDS):
            predicted[fold == k] = _predict(X, Z, y, everything[fold != k], fold == k, norm)
        return predicted

    errors = {norm: float(np.mean(np.abs(left_out(norm) / y - 1))) for norm in _NORMS}
    norm = min(errors, key=lambda p: errors[p])
    costs = _costs(X, y, norm)
    residuals = np.log(y / _joined(X, costs, norm))
    named = {name: float(cost) for name, cost in zip(names, costs, strict=True) if cost > 0}
    return Fit(norm, named, residuals, errors[norm])


def _predict(X: Array, Z: Array, y: Array, known: Array, asked: Array, norm: float) -> Array:
    costs = _costs(X[known], y[known], norm)
    residuals = np.log(y[known] / _joined(X[known], costs, norm))
    corrections = _core.roofline_corrections(Z[asked], Z[known], residuals)
    predicted: Array = _joined(X[asked], costs, norm) * corrections
    return predicted


def _costs(X: Array, y: Array, norm: float) -> Array:
    from scipy.optimize import nnls  # slow to import, and needed for calibrating alone

    scaled, _ = nnls((X / y[:, None]) ** norm, np.ones(len(y)))
    costs: Array = scaled ** (1 / norm)
    return costs


def _joined(X: Array, costs: Array, norm: float) -> Array:
    joined: Array = np.maximum(((X * costs) ** norm).sum(axis=1), 1e-12) ** (1 / norm)
    return joined
