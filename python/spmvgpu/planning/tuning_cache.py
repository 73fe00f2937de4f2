"""Which format was the fastest for a matrix: a file per matrix, device and request in the user's cache."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache as cache_result
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from .. import _core, cache
from .._util.lazy import lazy
from .._util.schema import Range, check
from .._util.steps import step
from .._util.types import Options
from ..devices import CPU
from ..formats import Choice, candidates, formats, options_table
from ..inputs.csr import CanonicalCsr
from .profile import load_profile, slug
from .reordering import NAMED, Reorder
from .request import Request

SCHEMA = 5
_TABLE = {
    "schema": {SCHEMA},
    "format": str,
    "options": dict,
    "reorder": (type(None), set(NAMED)),
    "time_us": Range(0, 1e12),
    "budget": Range(0, inf),
}

#: A choice, and the order of rows and columns that it is for.
Found: TypeAlias = tuple[Choice, Reorder]

# Entries of every array of a matrix that tell it from others.
_SAMPLES = 2048


class Results:
    """What tuning found for matrices like one and requests like one.

    What was timed in full serves later requests with tune="cached". What trials of predicted formats found
    holds as long as the device's profile. Predictions are not kept: another takes hardly longer than writing.
    """

    def __init__(self, csr: CanonicalCsr, ordinal: int, request: Request, may_reorder: bool) -> None:
        self._csr, self._ordinal, self._request = csr, ordinal, request
        self._may_reorder = may_reorder

    def known(self) -> Iterator[Found]:
        """The best first, less those in orders that take longer to find than `tune="cached"` may take."""
        if self._request.tune == "off" or not cache.holds_tuning():
            return
        budget = self._request.budget if self._request.tune == "full" else 0.0
        for path in self._paths:
            with step("cache"):
                found = recall(path, self._request.format, self._request.options, budget)
            if found is not None and (self._request.tune == "full" or found[1] != "rcm"):
                yield found

    def keep(self, choice: Choice, time_us: float, reorder: Reorder, was_cut: bool) -> None:
        """Keep the best of trials, which the budget may have cut short."""
        with step("cache"):
            keep(self._paths[-1], choice, time_us, reorder, self._request.budget if was_cut else inf)

    @lazy
    def _paths(self) -> list[Path | None]:
        """That of this mode is the last."""
        request, ordinal = self._request, self._ordinal
        asked = {
            "format": request.format,
            "options": dict(request.options),
            "symmetric": request.declared,
            "reorder": self._may_reorder,
        }
        with step("cache"):
            matrix = fingerprint(self._csr)
            full = entry_path(matrix, ordinal, asked | {"tune": "full"})
            if request.tune == "full" or ordinal == CPU:  # nothing else is timed on a CPU
                return [full]
            measured = dict(load_profile(ordinal).measured)
            own = asked | {"tune": request.tune, "profile": measured, "budget": request.budget}
            return [full, entry_path(matrix, ordinal, own)]


def fingerprint(csr: CanonicalCsr) -> str:
    """Equal for matrices of one shape whose entries lie in the same places, as far as samples show."""
    digest = _digest(repr((csr.shape, csr.nnz, csr.dtype.char)).encode())
    row_step, entry_step = (csr.shape[0] + 1) // _SAMPLES + 1, csr.nnz // _SAMPLES + 1
    for array in csr.sample(row_step, entry_step):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def entry_path(matrix: str, ordinal: int, request: Mapping[str, Any]) -> Path | None:
    """Where the result for a matrix with this fingerprint is kept; None if nothing is to be kept."""
    where = None if cache.is_ignored() else cache.directory()
    if where is None:
        return None
    asked = json.dumps(request, sort_keys=True, default=repr)
    key = repr((matrix, slug(ordinal), asked, _package()))
    return where / "tuning" / f"{_digest(key.encode()).hexdigest()}.json"


# The interpreter's own: nothing of OpenSSL has to be set up for a file name.
_digest = partial(hashlib.blake2b, digest_size=16)


@cache_result
def _package() -> tuple[object, ...]:
    """The version and the formats that results hold for."""
    build = _core.build_info()
    return build["version"], build["cuda_version"], formats()


def recall(path: Path | None, format: str, options: Options, budget: float) -> Found | None:
    """The choice and order kept there for a request for this format with these options.

    None without a file, and if it was found within less than the budget; and, with one warning, if it is
    not what `keep` writes for such a request.
    """
    if path is None:
        return None
    try:
        content = cache.read(path, dict)
        if content.get("schema") != SCHEMA:
            return None  # of another version
        check(content, _TABLE)
        name = content["format"]
        if name not in ((format,) if format != "auto" else formats()):
            raise ValueError(f"its format is {name!r}")
        _check_options(name, content["options"], options)
        if content["budget"] < budget:
            return None
    except FileNotFoundError:
        return None
    except ValueError as error:
        cache.warn_once(
            f"the tuning result {path} is not used, as it is damaged: {error}. It is written anew; "
            "python -m spmvgpu cache --clear deletes all of them"
        )
        return None
    reason = f"it was the fastest on a matrix like this one, at {content['time_us']:.1f} us a product"
    return Choice(name, content["options"], reason), content["reorder"]


def _check_options(format: str, kept: Options, given: Options) -> None:
    """What is kept are options that were given, and such as tuning tries."""
    known = options_table(format)
    tuned = {name: known[name] for tried in candidates(format) for name in tried} | {
        name: {value} for name, value in given.items() if isinstance(value, str | int)
    }
    for name, value in given.items():
        if isinstance(value, float):
            tuned[name] = Range(value, value)
    unknown = kept.keys() - tuned.keys()
    if unknown or given.keys() - kept.keys():
        raise ValueError(f"its options are {', '.join(sorted(kept)) or 'none'}")
    check(kept, {name: tuned[name] for name in kept}, "options")


def keep(
    path: Path | None, choice: Choice, time_us: float, reorder: Reorder = False, budget: float = inf
) -> None:
    """Write a result. Where that is not possible, the next operator is tuned again: no reason to fail."""
    if path is None:
        return
    content = {
        "schema": SCHEMA,
        "format": choice.format,
        "options": choice.options,
        "reorder": reorder or None,
        "time_us": time_us,
        "budget": budget,
    }
    try:
        cache.write(path, json.dumps(content))
        cache.drop_oldest(path.parent)
    except OSError as error:
        cache.warn_once(f"what tuning found cannot be kept in {path.parent}: {error.strerror or error}")
