"""Making the profile of a device: sample matrices are timed, and models fitted to the times."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol, TypeAlias

import numpy as np

from .. import _core
from .._util.plugins import Plugins
from .._util.types import HostArray
from ..devices import CPU, build_info
from ..formats import formats, kernels, variant_name
from ..inputs.csr import CanonicalCsr
from . import measure, samples
from .profile import DTYPES, Profile, device_model

Record = dict[str, Any]
#: Which records the times join, the matrix, and what is timed on it.
Job: TypeAlias = tuple[str, samples.Sample, Sequence[measure.Variant]]


class Section(Protocol):
    """A section of the profile that a plug-in makes, and that planning does not read."""

    def jobs(self) -> list[Job]:
        """What is timed for it."""

    def fit(self, records: Mapping[str, Sequence[Record]]) -> dict[str, Any]:
        """The section, from the records of all jobs."""


#: By name; of the device, and whether small samples do.
SECTIONS: Mapping[str, Callable[[int, bool], Section]] = Plugins("calibration")

# Entries of the largest samples: beyond the caches; on a GPU, whose cache is larger, in diagonals too.
_MAX_NNZ = {"cpu": 1 << 24, "cuda": 1 << 25}
_QUICK_NNZ = 1 << 15

# A slow or busy machine leaves out the last samples, so that calibration stays below two minutes.
_SECONDS = 100.0


def calibrate(
    ordinal: int, *, quick: bool = False, report: Callable[[float, str], None] = lambda done, what: None
) -> tuple[Profile, dict[str, list[Record]]]:
    """Measure a device.

    Parameters
    ----------
    ordinal : int
        The device.
    quick : bool
        Small samples only, for trying out the way; the profile is no good.
    report : callable
        Called with the fraction that is done, from 0 to 1, and what is being done.

    Returns
    -------
    Profile
    dict
        The timings of the samples, by model.
    """
    kind = "cpu" if ordinal == CPU else "cuda"
    properties = _core.device_properties(ordinal)
    processors, cache_bytes = properties["multiprocessors"], _cache_bytes(properties)
    machine = _core.Machine(kind == "cuda", cache_bytes, processors, processors)
    start = perf_counter()
    sections = {name: make(ordinal, quick) for name, make in SECTIONS.items()}
    jobs = [job for section in sections.values() for job in section.jobs()]
    # In random order, so that what is left out when time is up is a bit of everything.
    general = list(samples.general_samples(_QUICK_NNZ if quick else _MAX_NNZ[kind]))
    order = np.random.default_rng(0).permutation(len(general))
    jobs += [("roofline", general[i], variants(kind)) for i in order]
    records: dict[str, list[Record]] = {part: [] for part, _, _ in jobs}
    features: dict[str, _core.Features] = {}
    with ThreadPoolExecutor(4) as pool:
        # What is measured must not share the CPU with the making of the next matrix.
        matrices = (s.build() for _, s, _ in jobs) if kind == "cpu" else _ahead(pool, jobs)
        for i, ((part, sample, tried), matrix) in enumerate(zip(jobs, matrices, strict=False)):
            report(i / len(jobs), sample.name)
            if perf_counter() - start > _SECONDS:
                break
            for dtype in DTYPES:
                timed = partial(measure.time_variants, sample.name, matrix, tried, dtype, ordinal)
                if part != "roofline":
                    records[part] += timed()
                    continue
                data = matrix.data.astype(DTYPES[dtype], copy=False)
                found = CanonicalCsr(data, matrix.indices, matrix.indptr, matrix.shape).features
                features[f"{sample.name} {dtype}"] = found
                records[part] += timed(partial(_core.roofline_terms, found, data.itemsize, machine))
    report(1, "fitting")
    extra = {name: section.fit(records) for name, section in sections.items()}
    return _profile(ordinal, processors, cache_bytes, records["roofline"], features, quick, extra), records


def variants(kind: str) -> list[measure.Variant]:
    """What the roofline model knows: every format, and on a GPU by kernel."""
    return [(name, options) for name in formats() for options in (kernels(name) if kind == "cuda" else [{}])]


def _ahead(pool: Executor, jobs: Sequence[Job]) -> Iterator[Any]:
    """The matrices of the jobs, the next few of them made while one is measured."""
    depth = 4
    waiting = [pool.submit(sample.build) for _, sample, _ in jobs[:depth]]
    for i in range(len(jobs)):
        matrix = waiting.pop(0).result()
        if i + depth < len(jobs):
            waiting.append(pool.submit(jobs[i + depth][1].build))
        yield matrix


def _profile(
    ordinal: int,
    processors: int,
    cache_bytes: int,
    general: Sequence[Record],
    features: Mapping[str, _core.Features],
    quick: bool,
    extra: Mapping[str, Any],
) -> Profile:
    kind = "cpu" if ordinal == CPU else "cuda"
    return Profile(
        device=device_model(ordinal),
        kind=kind,
        processors=processors,
        cache_bytes=cache_bytes,
        memory_bandwidth=_rounded(max(1e6 * r["bytes"] / r["time_us"] for r in _largest(general))),
        power={dtype: _rounded(power(general, dtype)) for dtype in DTYPES},
        bus={way: _rounded(rate) for way, rate in measure.bus_bandwidth(ordinal).items()},
        roofline={dtype: fit_roofline(dtype, general, features) for dtype in DTYPES},
        measured={
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "version": build_info()["version"],
            "cuda": build_info()["cuda_version"] if kind == "cuda" else None,
            "quick": quick,
        },
        extra=extra,
    )


def _largest(records: Sequence[Record]) -> list[Record]:
    """Those too large for caches, or at least the largest there are."""
    limit = 0.5 * max(record["bytes"] for record in records)
    return [record for record in records if record["bytes"] >= limit]


def power(records: Sequence[Record], dtype: str) -> float:
    """Non-zeros per second: geometric mean over the largest samples, each in its fastest format."""
    fastest: dict[str, Record] = {}
    for record in records:
        best = fastest.get(record["matrix"])
        if record["dtype"] == dtype and (best is None or record["time_us"] < best["time_us"]):
            fastest[record["matrix"]] = record
    limit = 0.5 * max(record["nnz"] for record in fastest.values())
    rates = [1e6 * r["nnz"] / r["time_us"] for r in fastest.values() if r["nnz"] >= limit]
    return float(np.exp(np.mean(np.log(rates))))


def fit_roofline(
    dtype: str, records: Sequence[Record], features: Mapping[str, _core.Features]
) -> dict[str, Any]:
    """Parameters of the library's own model."""
    own = [record for record in records if record["dtype"] == dtype]
    matrices = list(dict.fromkeys(record["matrix"] for record in own))
    points = {name: _core.roofline_point(features[f"{name} {dtype}"]) for name in matrices}
    by_variant: dict[str, list[Record]] = {}
    for record in own:
        by_variant.setdefault(variant_name(record["format"], record["options"]), []).append(record)
    fitted = []
    for timed in by_variant.values():
        if len(timed) < MIN_SAMPLES:
            continue
        terms = [r["terms"] for r in timed]
        found = fit(terms, [points[r["matrix"]] for r in timed], [r["time_us"] for r in timed])
        residuals = {r["matrix"]: _rounded(x) for r, x in zip(timed, found.residuals, strict=True)}
        fitted.append(
            {
                "format": timed[0]["format"],
                "options": timed[0]["options"],
                "norm": found.norm,
                "error": _rounded(found.error),
                "costs": {term: _rounded(cost) for term, cost in found.costs.items()},
                "residuals": [residuals.get(matrix) for matrix in matrices],
            }
        )
    return {
        "launch_us": min(record["time_us"] for record in own),
        "places": [[_rounded(value) for value in points[matrix]] for matrix in matrices],
        "variants": fitted,
    }


# The core counts what a product of a variant moves and waits for, its terms, and adds up what they cost; see
# cpp/planning/roofline.hpp. Here the costs are fitted to the times of the samples.


@dataclass(frozen=True)
class Fit:
    """The cost of the terms of one variant."""

    norm: float  # the p of the p-norm that joins the terms
    costs: Mapping[str, float]  # microseconds per unit
    residuals: HostArray  # logarithm of measured over what the terms say, by sample
    error: float  # mean relative error on samples left out of the fit


_NORMS = (1.0, 1.25, 1.5, 2.0)
_FOLDS = 5

#: Fewer samples than this say nothing about a format.
MIN_SAMPLES = 12


def fit(
    terms: Sequence[Mapping[str, float]], points: Sequence[Sequence[float]], times: Sequence[float]
) -> Fit:
    """Costs with the least squared relative error, none negative; the norm by cross-validation."""
    names = list(terms[0])
    X = np.array([[entry[name] for name in names] for entry in terms])
    y, Z = np.asarray(times, float), np.asarray(points, float)
    everything = np.arange(len(y))
    fold = np.random.default_rng(0).permutation(len(y)) % _FOLDS

    def left_out(norm: float) -> HostArray:
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


def _predict(
    X: HostArray, Z: HostArray, y: HostArray, known: HostArray, asked: HostArray, norm: float
) -> HostArray:
    costs = _costs(X[known], y[known], norm)
    residuals = np.log(y[known] / _joined(X[known], costs, norm))
    corrections = _core.roofline_corrections(Z[asked], Z[known], residuals)
    predicted: HostArray = _joined(X[asked], costs, norm) * corrections
    return predicted


def _costs(X: HostArray, y: HostArray, norm: float) -> HostArray:
    from scipy.optimize import nnls  # slow to import, and needed for calibrating alone

    scaled, _ = nnls((X / y[:, None]) ** norm, np.ones(len(y)))
    costs: HostArray = scaled ** (1 / norm)
    return costs


def _joined(X: HostArray, costs: HostArray, norm: float) -> HostArray:
    joined: HostArray = np.maximum(((X * costs) ** norm).sum(axis=1), 1e-12) ** (1 / norm)
    return joined


def save_records(path: Path, records: Mapping[str, Any]) -> None:
    """The timings, for looking at."""
    path.write_text(json.dumps(records))


def _cache_bytes(properties: Mapping[str, Any]) -> int:
    """Of the last cache before memory."""
    if "l2_bytes" in properties:
        return int(properties["l2_bytes"])
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    sizes = [1 << 20]  # where the system does not say
    for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = file.read_text().strip()
        if text[-1:] in units:
            sizes.append(int(text[:-1]) * units[text[-1]])
    # A virtual machine names the cache of its whole host, of which it has a share.
    return min(max(sizes), 1 << 25)


def _rounded(value: float) -> float:
    """To four digits: more are noise, and the profiles are read by people."""
    return float(f"{value:.4g}")
