"""Which format an operator gets: asked for, predicted, or tried."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from time import perf_counter
from typing import Any

from .. import _core
from .._util.steps import step
from .._util.value_types import AnyMatrix
from ..devices import CPU
from ..formats import Choice, candidates, check_format, formats, traits
from ..inputs.source import DeviceCsr, on_device
from . import parts, tuning_cache
from .budget import BUDGET, Budget, takes_long_to_plan
from .on_cpu import choices_on_cpu
from .parts import build
from .predict import Prediction, features, predict_csr
from .profile import load_profile
from .reordering import nearer_order
from .requests import REQUESTS, requested
from .roofline import variant_name
from .symmetry import Symmetry
from .tuning import NOISE, Trial, Tuning

MODES = ("off", "cached", "full")

# A format is worth a trial if its predicted time is within this factor of the best, or as near as the two
# predictions err.
_CLOSE = 1.25
_MAX_TRIALS = 3

# Series per variant that is timed, of which the fastest counts: what disturbs one makes it slower.
_SERIES = {"cached": 1, "full": 3}

# Where predictions decide, another format must be predicted to take less than this part of csr's time. csr
# needs no conversion, and by the times in the benchmarks' prediction.json products are a little faster so.
_WORTH_CONVERTING = 0.92

# Exhaustive tuning leaves out formats that are predicted to be this much slower than the best.
_HOPELESS = 2.0

# A format that stores values once is faster where values are most of what a product reads: in large matrices
# whose entries read x from few sectors. Few values are so many different ones among those that are features.
_LARGE_ENTRIES, _SECTORS_TOGETHER, _FEW_VALUES = 1 << 20, 0.25, 64

# With fewer entries than this a product on a GPU takes hardly longer than any kernel does. Of calibration's
# samples on an H200 csr is within 0.2 % of the fastest format then, and the model takes a thousand products.
_SMALL_ENTRIES = 1 << 17
_SMALL = (
    "a product with so small a matrix takes little longer than a kernel launch; tune='full' times all formats"
)


def choose(
    csr: Any,
    format: str,
    ordinal: int,
    mode: str,
    options: dict[str, Any],
    symmetric: Symmetry | None = None,
    budget: float = BUDGET,
    may_reorder: bool = False,
) -> tuple[Choice, AnyMatrix, Tuning]:
    """The format of an operator, and the matrix in it.

    Parameters
    ----------
    csr : csr_array or DeviceCsr
        Canonical; on the device or in host memory.
    format : str
        One of `formats()`, "auto", or one of `REQUESTS`.
    ordinal : int
        The device.
    mode : {"off", "cached", "full"}
        Whether to decide by timing.
    options : dict
        Tunables given by the caller; these are kept.
    symmetric : Symmetry or None
        What is known of the matrix; None: nothing is, and some formats find out. NEITHER keeps formats for
        symmetric matrices out.
    budget : float
        Products that choosing with mode "cached" may take the time of.
    may_reorder : bool
        Whether rows and columns may be stored in another order with format "auto".
    """
    if mode not in MODES:
        raise ValueError(f"tune={mode!r} is not allowed; give one of {', '.join(map(repr, MODES))}")
    start = perf_counter()
    tuning = Tuning(mode)
    if format in REQUESTS:
        choice = requested(csr, format, ordinal, options)
        matrix = _build(csr, choice, ordinal)
        tuning.seconds = perf_counter() - start
        return choice, matrix, tuning
    if format != "auto":
        check_format(format)
    elif options:
        raise TypeError(
            f"options {sorted(options)} need a format; give format= (one of {', '.join(formats())})"
        )
    if format != "csr" or mode == "full":  # what is planned, and tried, is made of one copy on the device
        csr = on_device(csr, ordinal)
    declared = None if symmetric is None else bool(symmetric)
    request = _Request(format, ordinal, mode, options, declared, budget)
    time = Budget(budget, csr, ordinal)
    order, found = None, None
    is_large = isinstance(csr, DeviceCsr) and csr.nnz >= _SMALL_ENTRIES
    if may_reorder and format == "auto" and mode == "cached" and is_large:
        order, csr = nearer_order(csr, time)
    try:
        found = _choose(csr, request, time, tuning)
    except MemoryError:
        if not isinstance(csr, DeviceCsr):
            raise
    if found is None:  # outside of the handler, for an error keeps alive what there was when it was raised
        # Without the copy as CSR there may be room for the matrix, which is planned in host memory then.
        tuning = Tuning(mode)
        found = _choose(csr.leave_device(), request, Budget(budget, csr, ordinal), tuning)
    choice, matrix = found
    if order is not None:
        choice, matrix = parts.reordered(choice, order), parts.wrapped(matrix, order)
    tuning.seconds = perf_counter() - start
    return choice, matrix, tuning


@dataclass(frozen=True)
class _Request:
    """The arguments of `choose`."""

    format: str
    ordinal: int
    mode: str
    options: dict[str, Any]
    symmetric: bool | None
    products: float


def _choose(csr: Any, request: _Request, budget: Budget, tuning: Tuning) -> tuple[Choice, AnyMatrix]:
    format, ordinal, options = request.format, request.ordinal, request.options
    asked = Choice(format, options)
    if format != "auto" and tuning.mode != "full":
        return asked, _build(csr, asked, ordinal)
    like = {"format": format, "options": options, "symmetric": request.symmetric}
    results = tuning_cache.Results(csr, ordinal, request.mode, like, request.products)
    for known in results.known():
        try:
            matrix = _build(csr, known, ordinal)
            tuning.cached = True
            return known, matrix
        except (_core.FormatError, MemoryError):
            pass  # like that other matrix, but not enough
    if format != "auto":
        variants = [candidate | options for candidate in candidates(format)]
        distinct = [Choice(format, v) for i, v in enumerate(variants) if v not in variants[:i]]
        return _fastest(csr, distinct, ordinal, tuning, results)
    if ordinal == CPU and tuning.mode != "full":
        return _first(csr, choices_on_cpu(csr), ordinal)
    if ordinal != CPU and tuning.mode != "full" and csr.nnz < _SMALL_ENTRIES:
        return _first(csr, [Choice("csr", {}, _SMALL)], ordinal)
    kind = "cpu" if ordinal == CPU else "cuda"
    names = general_formats(request.symmetric, kind, tuning.mode == "full", is_worth_few_values(csr))
    with step("profile"):
        profile = load_profile(ordinal)
    worth = None if tuning.mode == "full" else partial(_is_worth_a_plan, budget, tuning.mode)
    predictions = predict_csr(csr, ordinal, "roofline", profile, names, True, worth)
    possible = [prediction for prediction in predictions if prediction.time_us is not None]
    if tuning.mode == "full":
        return _fastest(csr, list(_promising(possible)), ordinal, tuning, results)
    close, more = list(_close(possible)), ""
    if tuning.mode == "cached" and len(close) > 1:
        affordable = budget.affords(close)
        if len(affordable) > 1:
            tried = _while_time_lasts(affordable, budget, tuning)
            return _fastest(csr, tried, ordinal, tuning, results)
        more = (
            f"; other formats may be as fast, but timing them would take longer than {request.products:g} "
            "products"
        )
    by_risk = sorted(possible, key=_risk_us)
    choices = (_predicted(prediction, possible, predictions.device, more) for prediction in by_risk)
    # Of a matrix on the device there may be more room without it, see `choose`.
    last = [] if isinstance(csr, DeviceCsr) else _last_resort(possible)
    return _first(csr, chain(choices, last), ordinal)


def _while_time_lasts(predictions: Iterable[Prediction], budget: Budget, tuning: Tuning) -> Iterator[Choice]:
    """The choices to try, of which the budget is asked again once there are times."""
    for prediction in predictions:
        if tuning.trials:
            best = min(trial.time_us for trial in tuning.trials)
            if not budget.lasts_for(prediction, best):
                tuning.out_of_time = True
                return
        yield Choice(prediction.format, prediction.options)


def is_worth_few_values(csr: Any) -> bool:
    """Whether a canonical matrix on a GPU has few different values, and storing them once may pay."""
    if not isinstance(csr, DeviceCsr) or csr.nnz < _LARGE_ENTRIES:
        return False
    found = features(csr)
    return bool(found["run_sectors"] <= _SECTORS_TOGETHER and found["different_values"] <= _FEW_VALUES)


def general_formats(
    symmetric: Symmetry | bool | None, kind: str, whatever_it_takes: bool = False, few_values: bool = False
) -> tuple[str, ...]:
    """The formats that format="auto" considers on a kind of device.

    Formats for symmetric matrices are considered where the matrix may be one, and on a GPU those that store
    values once where there are few. What takes long to plan nobody gets unasked, unless the matrix is known
    to be symmetric, and a format of the papers nobody at all.
    """

    def may_be(name: str) -> bool:
        known = traits(name)
        if known.only_if_asked:
            return False
        if known.needs_symmetry and symmetric is not None:
            return bool(symmetric)
        if kind == "cuda" and known.needs_few_values and not few_values:
            return whatever_it_takes
        return whatever_it_takes or not takes_long_to_plan(name, kind)

    return tuple(name for name in formats() if may_be(name))


def _risk_us(prediction: Prediction) -> float:
    """What a choice by prediction makes the least of."""
    return _risk_of(prediction.format, prediction.time_us or 0.0, prediction.error)


def _risk_of(format: str, time_us: float, error: float | None) -> float:
    """Predicted time, and as much more as such predictions err; of csr less."""
    return time_us * (1 + _uncertainty(error)) * (_WORTH_CONVERTING if format == "csr" else 1.0)


def _uncertainty(error: float | None) -> float:
    return 0.5 if error is None else error


def _predicted(prediction: Prediction, possible: Sequence[Prediction], device: str, more: str) -> Choice:
    """A choice by prediction, with the reason: it is not always the shortest time that is the best bet."""
    best = possible[0]
    reason = f"its predicted time is {_with_error(prediction)} per product on {device}"
    if prediction is best:
        reason += ", the shortest of the formats considered"
    elif prediction.format == "csr":
        reason += f", little more than {_with_error(best)} for {best.name}, and it needs no conversion"
    elif _risk_us(prediction) < _risk_us(best):
        reason += f", a safer choice than {_with_error(best)} for {best.name}"
    return Choice(prediction.format, prediction.options, reason + more)


def _with_error(prediction: Prediction) -> str:
    error = "an unknown error" if prediction.error is None else f"{prediction.error:.0%}"
    return f"{prediction.time_us:.1f} us +- {error}"


def _close(possible: Sequence[Prediction]) -> Iterator[Prediction]:
    """The best, and those that may turn out to be better."""
    close = (p for p in possible if _may_be_close(p.time_us or 0.0, p.error, possible[0]))
    return islice(close, _MAX_TRIALS)


def _is_worth_a_plan(
    budget: Budget, mode: str, format: str, least_us: float, error: float | None, best: Prediction
) -> bool:
    """Whether a format that takes at least so long may be tried, or chosen if there is no time to try any."""
    if not budget.lasts_for_plan(format, best.time_us or 0.0):
        return False
    if mode == "cached" and budget.may_afford_trials(best.time_us or 0.0):
        return _may_be_close(least_us, error, best)
    return _risk_of(format, least_us, error) < _risk_us(best)


def _may_be_close(time_us: float, error: float | None, best: Prediction) -> bool:
    """Whether a format of which this is predicted may turn out to be as fast as the best."""
    limit = max(_CLOSE, (1 + _uncertainty(best.error)) * (1 + _uncertainty(error)))
    return time_us <= limit * (best.time_us or 0.0)


def _promising(possible: Sequence[Prediction]) -> Iterator[Choice]:
    """All variants of the formats that are not predicted to be far slower than the best."""
    limit = _HOPELESS * (possible[0].time_us or 0.0)
    names = dict.fromkeys(p.format for p in possible if (p.time_us or 0.0) <= limit)
    for name in names:
        for options in candidates(name):
            yield Choice(name, options)


def _last_resort(possible: Sequence[Prediction]) -> list[Choice]:
    """csr, which takes the least memory to make, if nothing else fits and it was not among the others."""
    if any(prediction.format == "csr" for prediction in possible):
        return []
    return [Choice("csr", {}, "the formats that are predicted to be faster do not fit")]


def _build(csr: Any, choice: Choice, ordinal: int) -> AnyMatrix:
    with step("convert", variant_name(choice.format, choice.options)):
        return build(csr, choice, ordinal)


def _first(csr: Any, choices: Iterable[Choice], ordinal: int) -> tuple[Choice, AnyMatrix]:
    """The first that fits the device."""
    refusals: list[Exception] = []
    refused_names: list[str] = []
    for choice in choices:
        try:
            matrix = _build(csr, choice, ordinal)
        except (_core.FormatError, MemoryError) as refused:
            refusals.append(refused.with_traceback(None))  # which would keep the matrix alive
            refused_names.append(variant_name(choice.format, choice.options))
            continue
        if refused_names:
            choice = replace(choice, reason=f"{choice.reason}; {', '.join(refused_names)} did not fit")
        return choice, matrix
    raise refusals[0]


def _fastest(
    csr: Any, choices: Iterable[Choice], ordinal: int, tuning: Tuning, results: tuning_cache.Results
) -> tuple[Choice, AnyMatrix]:
    """The fastest of all, the likeliest first.

    A later one must be faster by more than noise. The best so far is kept while the next is tried; the others
    are gone by then.
    """
    best: tuple[Choice, AnyMatrix] | None = None
    best_time = float("inf")
    refusals: list[Exception] = []
    for choice in choices:
        try:
            matrix = _build(csr, choice, ordinal)
            with step("trial", variant_name(choice.format, choice.options)):
                series = [matrix.try_products() for _ in range(_SERIES[tuning.mode])]
        except (_core.FormatError, MemoryError) as refused:
            refusals.append(refused.with_traceback(None))  # which would keep the matrix alive
            continue
        time_us = min(time for time, _ in series)
        tuning.trials.append(Trial(choice.format, choice.options, time_us))
        tuning.products += sum(products for _, products in series)
        if time_us * NOISE < best_time:
            best, best_time = (choice, matrix), time_us
        del matrix
    if best is None:
        raise refusals[0]
    choice, matrix = best
    results.keep(choice, best_time)
    return replace(choice, reason=_found(best_time, tuning)), matrix


def _found(time_us: float, tuning: Tuning) -> str:
    """Why the best of the trials is that."""
    trials = tuning.trials
    quickest = min(trials, key=lambda trial: trial.time_us)
    if len(trials) == 1:
        others = (
            "there was no time to time other formats" if tuning.out_of_time else "no other candidate fits"
        )
        return f"{others}; a product took {time_us:.1f} us"
    if quickest.time_us == time_us:
        return f"it was the fastest of {len(trials)} timed variants, at {time_us:.1f} us per product"
    return (
        f"a product took {time_us:.1f} us; {variant_name(quickest.format, quickest.options)} took "
        f"{quickest.time_us:.1f} us, a difference within the noise, and is predicted to be slower"
    )
