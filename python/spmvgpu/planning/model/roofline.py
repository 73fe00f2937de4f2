"""The library's own model: a product takes as long as what it moves and waits for takes.

The time of a format is a sum of terms (or their p-norm, where they overlap): a launch, bytes from memory and
from the cache, sectors of x from the L1, the L2 and memory, entries, slots and rows walked, and the longest
chain of dependent loads. What a term counts follows from the matrix and the format's layout; what it costs is
fitted on the calibration samples. What remains is taken from the samples most like the matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log, log1p
from typing import Any

import numpy as np
import numpy.typing as npt

from ... import _core

Array = npt.NDArray[Any]
Terms = dict[str, float]

_MILLION = 1e6


@dataclass(frozen=True)
class Machine:
    """What the terms depend on of a device."""

    kind: str  # "cpu" or "cuda"
    processors: int  # that a product is for
    cache_bytes: int
    measured_processors: int  # that the costs were measured with


@dataclass
class Case:
    """A matrix on a machine, and what of it is the same in every format."""

    features: Mapping[str, Any]
    item: int  # bytes of a value
    machine: Machine

    def __post_init__(self) -> None:
        features, item, cache_bytes = self.features, self.item, self.machine.cache_bytes
        nnz, x_bytes = features["nnz"], features["cols"] * item
        x_kept = _kept(x_bytes / cache_bytes, 0.8, 1.6)
        self.vector_bytes = features["rows"] * item + min(x_bytes, 32 * nnz)
        self.x_memory = features["long_run_sectors"] * nnz * (1 - x_kept) / _MILLION
        self.x_cache = features["run_sectors"] * nnz / _MILLION


@dataclass
class Work:
    """A matrix in a format: its features, and what the format's plan says."""

    case: Case
    plan: Mapping[str, Any]

    @property
    def slots(self) -> float:
        return float(self.plan["slots"])

    @property
    def stored_bytes(self) -> float:
        return float(self.plan["bytes"])

    def option(self, name: str) -> int:
        """One of the format's options, automatic choices made."""
        return int(self.plan["options"][name])

    def __getitem__(self, feature: str) -> Any:
        return self.case.features[feature]

    def base(self) -> Terms:
        """What every kernel pays for."""
        case = self.case
        stream = self.stored_bytes + case.vector_bytes
        # The matrix of the product before is still in the cache, all of it or, around the cache's size, some.
        kept = _kept(stream / case.machine.cache_bytes, 0.65, 1.35)
        return {
            "launch": 1,
            "memory": stream * (1 - kept) / _MILLION,
            "cache": stream * kept / _MILLION,
            "x_memory": case.x_memory,
            "x_cache": case.x_cache,
        }

    def by_rows(self, lanes: int) -> Terms:
        """A kernel with so many lanes a row, neighbouring rows side by side."""
        i, nnz = lanes.bit_length() - 1, self["nnz"]
        return self.base() | {
            "x_block": self["block_sectors"][i] * nnz / _MILLION,
            "x_loads": self["warp_sectors"][i] * nnz / _MILLION,
            "steps": self["warp_steps"][i] / _MILLION,
            "chain": self["longest"] / lanes,
            "threads": self["rows"] * lanes / _MILLION,
        }

    def by_entries(self) -> Terms:
        """A kernel that walks the entries one after the other, whatever rows they lie in."""
        nnz = self["nnz"]
        return self.base() | {
            "x_loads": self["warp_sectors"][5] * nnz / _MILLION,
            "entries": nnz / _MILLION,
            "rows": self["rows"] / _MILLION,
        }


def _kept(size: float, all_up_to: float, none_from: float) -> float:
    """What fraction of a product's data the next one finds in a cache; `size` is in caches."""
    return min(1.0, max(0.0, (none_from - size) / (none_from - all_up_to)))


def _csr_balanced(work: Work) -> Terms:
    return work.by_entries() | {"depth": log1p(work["longest"] / 32)}


def _csr_b(work: Work) -> Terms:
    counts = work.plan["counts"]
    return work.by_entries() | {
        "rounds": counts["rounds"] / _MILLION,
        "chain": counts["longest_rounds"],
        "cut": float(work["longest"] > 32),
    }


def _coo(work: Work) -> Terms:
    return work.by_entries() | {"empty": float(work["empty_rows"] > 0), "cut": float(work["longest"] > 512)}


def _ellpack(work: Work) -> Terms:
    terms = work.by_rows(1) | {"slots": work.slots / _MILLION}
    del terms["steps"]  # it walks the padding too
    return terms


def _ellpack_r(work: Work) -> Terms:
    return work.by_rows(1) | {"slots": work.slots / _MILLION}


def _ellr_t(work: Work) -> Terms:
    return work.by_rows(work.option("threads_per_row")) | {"slots": work.slots / _MILLION}


def _dia(work: Work) -> Terms:
    base = work.base()
    return {name: base[name] for name in ("launch", "memory", "cache")} | {
        "slots": work.slots / _MILLION,
        "rows": work["rows"] / _MILLION,
        "chain": work.slots / max(work["rows"], 1),
    }


def _stencil(work: Work) -> Terms:
    # Of neighbours that are the same stencil a warp reads each slot once, and of others once for each.
    mean = work["nnz"] / max(work["rows"], 1)
    return _dia(work) | {"changes": work.plan["counts"]["changes"] * mean / _MILLION}


def _hyb(work: Work) -> Terms:
    in_coo = work.plan["counts"]["coo_entries"]
    in_ell = work.slots - in_coo
    by_rows = work.by_rows(1)
    return {name: by_rows[name] for name in (*work.base(), "x_block", "x_loads")} | {
        "chain": in_ell / max(work["rows"], 1),
        "rows": work["rows"] / _MILLION,
        "slots": in_ell / _MILLION,
        "entries": in_coo / _MILLION,
        "launches": float(in_coo > 0),
    }


def _sell(work: Work) -> Terms:
    warps, slices = work.option("warps_per_slice"), -(-work["rows"] // 32)
    is_sorted = work.option("sigma") > 1  # then neighbours in a slice are far apart in x
    nnz = work["nnz"] / _MILLION
    i = warps.bit_length() - 1
    return work.base() | {
        "x_block": nnz if is_sorted else work["block_sectors"][i] * nnz,
        "x_loads": nnz if is_sorted else work["warp_sectors"][0] * nnz,
        "chain": work["longest"] / warps,
        "x_chain": work["longest"] * work["run_sectors"],
        "threads": 32 * warps * slices / _MILLION,
        "slots": work.slots / _MILLION,
        "permuted": float(is_sorted) * work["rows"] / _MILLION,
    }


def _bsell(work: Work) -> Terms:
    # A row of blocks for each lane, which reads x once for all rows of a block.
    block, terms = work.plan["counts"]["block"] or 1, _sell(work)
    shared = ("x_block", "x_loads", "x_chain", "chain", "threads")
    return (
        terms
        | {name: terms[name] / block for name in shared}
        | {
            "slots": work.slots / block**2 / _MILLION,
            "entries": work["nnz"] / _MILLION,
        }
    )


def _tsmv(work: Work) -> Terms:
    # Half of the matrix is stored; what is not a value says where the values belong, and how the tiles meet.
    base, slots = work.base(), work.slots
    return {name: base[name] for name in ("launch", "memory", "cache")} | {
        "indices": max(0.0, work.stored_bytes - slots * work.case.item) / _MILLION,
        "slots": slots / _MILLION,
        "rows": work["rows"] / _MILLION,
        "chain": float(work["longest"]),
    }


# Rows that a thread of the CPU gets at least, as the costs of the shipped profile were fitted; the other
# formats give a part of a row if need be.
_CPU_ROWS = {
    "ellpack": 2048,
    "ellpack_r": 2048,
    "ellr_t": 2048,
    "hyb": 2048,
    "dia": 512,
    "sdia": 512,
    "stencil": 512,
    "sell": 32,
    "bsell": 32,
    "packed_sell": 32,
}


def _on_cpu(format: str, work: Work) -> Terms:
    """Any format on the CPU: threads walk slots and entries row by row, each its part, or one thread does."""
    base, machine = work.base(), work.case.machine
    threads = machine.processors
    # A slot that stands for an entry and its mirror image is multiplied twice.
    slots = multiplied = work.plan["padding"] * work["nnz"]
    entries = float(work["nnz"])
    if "coo_entries" in work.plan["counts"]:
        entries = work.plan["counts"]["coo_entries"]
        slots -= entries
    serial = _core.piece_count(int(multiplied + work["rows"])) == 1
    # Of what the busiest thread does; so costs hold for any number of them.
    even = 1 if serial else 1 / threads
    # A thread reads from memory at a rate of its own; of more threads than were measured no more is known.
    from_memory = 1 if serial else 1 / min(threads, machine.measured_processors)
    by_rows = even
    if format in _CPU_ROWS and not serial:
        lanes = work.option("threads_per_row") if format == "ellr_t" else 1
        by_rows = 1 / max(1, min(threads, -(-work["rows"] * lanes // _CPU_ROWS[format])))
    return {
        "launch": 1,
        "wake": float(not serial),
        "memory": base["memory"] * from_memory,
        "shared_cache": 0.0 if serial else base["cache"],
        "cache": base["cache"] * by_rows,
        "x_memory": base["x_memory"] * from_memory,
        "x_cache": base["x_cache"] * by_rows,
        "entries": entries * (even if format == "hyb" else by_rows) / _MILLION,
        "slots": slots * by_rows / _MILLION,
        "rows": work["rows"] * by_rows / _MILLION,
    }


_TERMS: dict[str, Callable[[Work], Terms]] = {
    "coo": _coo,
    "csr": _csr_balanced,
    "csr kernel=balanced": _csr_balanced,
    "csr kernel=shuffle": lambda work: work.by_rows(work.option("lanes_per_row")),
    "csr kernel=shared": lambda work: work.by_rows(32),
    "csr kernel=half_warp": lambda work: work.by_rows(16),
    "csr_m": lambda work: work.by_rows(32),
    "csr_b": _csr_b,
    "ellpack": _ellpack,
    "ellpack_r": _ellpack_r,
    "ellr_t": _ellr_t,
    "hyb": _hyb,
    "dia": _dia,
    "sell": _sell,
    "bsell": _bsell,
    "packed_sell": _sell,  # with its own bytes; what unpacking takes is in the cost of a slot
    "sdia": _dia,
    "stencil": _stencil,
    "tsmv": _tsmv,
}


def variant_name(format: str, options: Mapping[str, Any]) -> str:
    """A format with the options that make a kernel of its own of it."""
    if not options:
        return format
    return " ".join([format, *(f"{name}={value}" for name, value in sorted(options.items()))])


def terms_of(name: str, work: Work) -> Terms:
    """What a product of a variant moves and waits for."""
    if work.case.machine.kind == "cpu":
        return _on_cpu(name, work)
    return _TERMS[name](work) if name in _TERMS else work.by_entries() | {"slots": work.slots / _MILLION}


# Fitting and predicting


POINT_LENGTH = 8


def point_of(features: Mapping[str, Any]) -> list[float]:
    """Where a matrix lies among others, for finding those most like it: distances of 1 are near."""
    mean = max(features["mean"], 0.1)
    return [
        log(max(features["nnz"], 1)),
        0.7 * log(max(features["cols"], 1)),
        log(mean),
        log(1 + features["longest"] / max(mean, 1)),
        2 * log1p(features["deviation"] / max(mean, 1)),
        2 * log(max(features["run_sectors"], 0.01)),
        2 * log(max(features["warp_sectors"][0], 0.01)),
        2 * log(max(features["warp_sectors"][5], 0.01)),
    ]


@dataclass(frozen=True)
class Fit:
    """The cost of the terms of one variant."""

    norm: float  # the p of the p-norm that joins the terms
    costs: Mapping[str, float]  # microseconds per unit
    residuals: Array  # logarithm of measured over what the terms say, by sample; NaN where it was refused
    error: float  # mean relative error on samples left out of the fit

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Fit:
        """From the entry of a profile."""
        residuals = np.array(parameters["residuals"], float)  # None becomes NaN
        return cls(parameters["norm"], parameters["costs"], residuals, parameters["error"])

    def time(self, terms: Terms, correction: float) -> float:
        """Microseconds of a product."""
        total, norm = 0.0, self.norm
        for name, cost in self.costs.items():
            total += (cost * terms.get(name, 0.0)) ** norm
        return float(total ** (1 / norm) * correction)


class Corrections:
    """What corrects the times of fits to the same samples, found for all at once.

    Calls of NumPy, and what they read that no cache holds, take longer than all the fits.
    """

    def __init__(self, points: Array, fits: Sequence[Fit]) -> None:
        residuals = np.array([fit.residuals for fit in fits]).reshape(len(fits), len(points))
        is_known = ~np.isnan(residuals)
        self._points = points
        self._summed = np.concatenate([is_known, np.where(is_known, residuals, 0.0)])

    def at(self, point: Sequence[float]) -> list[float]:
        """The factors by which the samples most like a matrix take longer than their terms say."""
        total, residuals = np.split(self._summed @ _weights(self._points, np.asarray(point)), 2)
        return [float(factor) for factor in np.exp(residuals / (_PRIOR_WEIGHT + total))]


# How far the influence of a sample reaches, and how much its residual is mistrusted.
_REACH, _PRIOR_WEIGHT = 1.0, 0.5
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
    corrections = [_smooth(Z[known], residuals, at) for at in Z[asked]]
    predicted: Array = _joined(X[asked], costs, norm) * np.exp(corrections)
    return predicted


def _costs(X: Array, y: Array, norm: float) -> Array:
    from scipy.optimize import nnls  # slow to import, and needed for calibrating alone

    scaled, _ = nnls((X / y[:, None]) ** norm, np.ones(len(y)))
    costs: Array = scaled ** (1 / norm)
    return costs


def _joined(X: Array, costs: Array, norm: float) -> Array:
    joined: Array = np.maximum(((X * costs) ** norm).sum(axis=1), 1e-12) ** (1 / norm)
    return joined


def _smooth(points: Array, residuals: Array, at: Array) -> float:
    """Mean residual of the samples near a point, drawn towards 0 where there are few."""
    weights = _weights(points, at)
    return float(weights @ residuals / (_PRIOR_WEIGHT + weights.sum()))


def _weights(points: Array, at: Array) -> Array:
    away = points - at
    weights: Array = np.exp(np.einsum("ij,ij->i", away, away) / (-2 * _REACH**2))
    return weights
