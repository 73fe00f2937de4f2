"""Making the profile of a device: sample matrices are timed, and models fitted to the times."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from datetime import datetime, timezone
from operator import itemgetter
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol, TypeAlias

import numpy as np

from .. import _core
from .._util.plugins import Plugins
from .._util.types import HostArray
from ..devices import CPU, build_info
from ..formats import formats
from . import measure, samples
from .profile import DTYPES, Profile, device_model, shipped

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

# Entries of the largest samples: beyond the caches.
_MAX_NNZ = {"cpu": 1 << 22, "cuda": 1 << 23}
_QUICK_NNZ = 1 << 15

# Seconds of timing for rates and scales; a slow or busy machine leaves out the last samples.
_SECONDS = {"cpu": 18.0, "cuda": 7.0}


def calibrate(
    ordinal: int,
    *,
    quick: bool = False,
    sections: bool = False,
    report: Callable[[float, str], None] = lambda done, what: None,
) -> tuple[Profile, dict[str, list[Record]]]:
    """Measure a device.

    Parameters
    ----------
    ordinal : int
        The device.
    quick : bool
        Small samples only, for trying out the way; the profile is no good.
    sections : bool
        Also what plug-ins measure, which takes minutes; else what was known of it is kept.
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
    start = perf_counter()
    added = {name: make(ordinal, quick) for name, make in SECTIONS.items()} if sections else {}
    jobs = [job for section in added.values() for job in section.jobs()]
    general = _mixed(samples.general_samples(_QUICK_NNZ if quick else _MAX_NNZ[kind]))
    jobs += [("roofline", sample, variants(ordinal)) for sample in general]
    records: dict[str, list[Record]] = {part: [] for part, _, _ in jobs}
    with ThreadPoolExecutor(4) as pool:
        # A measurement must not share the CPU with the making of the next matrix.
        matrices = (s.build() for _, s, _ in jobs) if kind == "cpu" else _ahead(pool, jobs)
        for i, ((part, sample, tried), matrix) in enumerate(zip(jobs, matrices, strict=False)):
            report(i / len(jobs), sample.name)
            start = perf_counter() if part != "roofline" else start
            if perf_counter() - start > _SECONDS[kind]:
                break
            for dtype in DTYPES:
                records[part] += measure.time_variants(sample.name, matrix, tried, dtype, ordinal)
    report(1, "fitting")
    fitted = {name: section.fit(records) for name, section in added.items()}
    extra = fitted if sections else shipped(ordinal).extra
    made = _profile(ordinal, processors, cache_bytes, records["roofline"], quick, extra)
    for record in (record for part in records.values() for record in part):
        for name in ("plan", "features"):
            record.pop(name, None)
    return made, records


def variants(ordinal: int) -> list[measure.Variant]:
    """What the roofline model knows: every format, those last that take long to plan."""
    return [(name, {}) for name in sorted(formats(), key=lambda f: _core.takes_long_to_plan(f, ordinal))]


def _mixed(given: Iterable[samples.Sample]) -> list[samples.Sample]:
    """One of each kind after the other, so that what is left out when time is up is a bit of everything."""
    shuffled = list(given)
    random.Random(0).shuffle(shuffled)
    before: Counter[str] = Counter()
    rounds = []
    for sample in shuffled:
        rounds.append(before[sample.kind])
        before[sample.kind] += 1
    return [sample for _, sample in sorted(zip(rounds, shuffled, strict=True), key=itemgetter(0))]


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
    quick: bool,
    extra: Mapping[str, Any],
) -> Profile:
    kind = "cpu" if ordinal == CPU else "cuda"
    known = shipped(ordinal)
    rates = fit_rates(general, kind == "cuda", cache_bytes, processors)
    machine = _core.Machine(kind == "cuda", cache_bytes, processors, rates)
    of_formats, kept = fit_formats(general, machine, known.formats)
    return Profile(
        device=device_model(ordinal),
        kind=kind,
        processors=processors,
        cache_bytes=cache_bytes,
        memory_bandwidth=_rounded(max(1e6 * r["bytes"] / r["time_us"] for r in _largest(general))),
        power={dtype: _rounded(power(general, dtype)) for dtype in DTYPES},
        bus={way: _rounded(rate) for way, rate in measure.bus_bandwidth(ordinal).items()},
        rates=rates,
        formats=of_formats,
        measured={
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "version": build_info()["version"],
            "cuda": build_info()["cuda_version"] if kind == "cuda" else None,
            "quick": quick,
            "kept": ", ".join(kept),
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


# Fewer samples than this say nothing about a format; rates stay near the reference until samples speak.
MIN_SAMPLES = 6
_PRIOR = 0.5


def fit_rates(records: Sequence[Record], is_gpu: bool, cache_bytes: int, processors: int) -> dict[str, float]:
    """The rates that fit the times of all formats together, relative to the reference."""
    from scipy.optimize import least_squares  # slow to import, and needed for calibrating alone

    logs = np.log([record["time_us"] for record in records])

    def off(found: HostArray) -> HostArray:
        machine = _core.Machine(
            is_gpu, cache_bytes, processors, dict(zip(_core.list_rates(), np.exp(found), strict=True))
        )
        return np.concatenate([np.log(_predicted(records, machine)) - logs, _PRIOR * found])

    start = np.zeros(len(_core.list_rates()))
    found = least_squares(off, start, loss="soft_l1", f_scale=0.1, max_nfev=20).x
    return {name: _rounded(float(rate)) for name, rate in zip(_core.list_rates(), np.exp(found), strict=True)}


def fit_formats(
    records: Sequence[Record], machine: _core.Machine, known: Mapping[str, Mapping[str, float | None]]
) -> tuple[dict[str, Mapping[str, float | None]], list[str]]:
    """Scale and error of each format, and those that were hardly measured, which keep what was known."""
    found: dict[str, Mapping[str, float | None]] = {}
    kept: list[str] = []
    for name in formats():
        own = [record for record in records if record["format"] == name]
        if len(own) < MIN_SAMPLES:
            found[name] = known.get(name, {"scale": 1.0, "error": None})
            kept.append(name)
            continue
        over = np.array([record["time_us"] for record in own]) / _predicted(own, machine)
        scale = float(np.exp(np.median(np.log(over))))
        error = float(np.mean(np.abs(scale / over - 1)))
        found[name] = {"scale": _rounded(scale), "error": _rounded(error)}
    return found, kept


def _predicted(records: Sequence[Record], machine: _core.Machine) -> HostArray:
    return np.array(
        [_core.roofline_time_us(r["features"], r["item_bytes"], machine, r["plan"]) for r in records]
    )


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
