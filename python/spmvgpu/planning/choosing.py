"""Which format an operator gets: asked for, remembered, ranked by the core, or the fastest one in trials."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, NamedTuple

from .. import _core
from .._util.steps import step, took
from .._util.value_types import AnyMatrix
from ..devices import CPU
from ..formats import Choice, check_format, formats
from ..inputs.csr import CanonicalCsr
from . import parts, tuning_cache
from .parts import build
from .predict import predict_considered
from .profile import load_profile, model_of
from .request import BUDGET
from .requests import REQUESTS, requested
from .roofline import variant_name
from .symmetry import Symmetry
from .tuning import NOISE, Trial, Tuning

MODES = ("off", "cached", "full")

# Series per variant that is timed, of which the fastest counts: what disturbs one makes it slower.
_SERIES = {"cached": 1, "full": 3}


class Candidate(NamedTuple):
    """A way to store a matrix, as the core ranks them."""

    format: str
    options: dict[str, Any]
    reason: str  # to choose it
    trial_us: float  # that a trial is expected to take

    @property
    def choice(self) -> Choice:
        return Choice(self.format, self.options, self.reason)


@dataclass(frozen=True)
class _Request:
    """The arguments of `choose`, and when the budget began."""

    format: str
    ordinal: int
    mode: str
    options: dict[str, Any]
    symmetric: bool | None
    products: float
    start: float

    def spent_us(self) -> float:
        return 1e6 * (perf_counter() - self.start)


def choose(
    csr: CanonicalCsr,
    format: str,
    ordinal: int,
    mode: str,
    options: Mapping[str, Any],
    symmetric: Symmetry | None = None,
    budget: float = BUDGET,
    may_reorder: bool = False,
) -> tuple[Choice, AnyMatrix, Tuning]:
    """The format of an operator, and the matrix in it.

    Parameters
    ----------
    csr : CanonicalCsr
        On the device or in host memory.
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
        csr = csr.at(ordinal)
    declared = None if symmetric is None else bool(symmetric)
    request = _Request(format, ordinal, mode, dict(options), declared, budget, perf_counter())
    order, found = None, None
    if may_reorder and format == "auto" and mode == "cached" and csr.ordinal != CPU:
        order, csr = csr.nearer_order(budget, request.spent_us())
    try:
        found = _choose(csr, request, tuning)
    except MemoryError:
        if csr.ordinal == CPU:
            raise
    if found is None:  # outside of the handler, for an error keeps alive what there was when it was raised
        # Without the copy as CSR there may be room for the matrix, which is planned in host memory then.
        csr.leave_device()
        tuning = Tuning(mode)
        found = _choose(csr, replace(request, start=perf_counter()), tuning)
    choice, matrix = found
    if order is not None:
        choice, matrix = parts.reordered(choice, order), parts.wrapped(matrix, order)
    tuning.seconds = perf_counter() - start
    return choice, matrix, tuning


def _choose(csr: CanonicalCsr, request: _Request, tuning: Tuning) -> tuple[Choice, AnyMatrix]:
    format, ordinal, options = request.format, request.ordinal, request.options
    if format != "auto" and request.mode != "full":
        asked = Choice(format, options)
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
    is_timed, candidates = ranked(csr, request)
    if is_timed:
        return _fastest(csr, _while_time_lasts(candidates, request, tuning), ordinal, tuning, results)
    return _first(csr, (candidate.choice for candidate in candidates), ordinal)


def ranked(csr: CanonicalCsr, request: _Request) -> tuple[bool, list[Candidate]]:
    """The candidates in their order, and whether they are to be timed: else the first that fits is taken."""
    ordinal, mode, products = request.ordinal, request.mode, request.products

    def load_model() -> _core.RooflineModel:
        with step("profile"):
            return model_of(load_profile(ordinal), ordinal, csr.dtype)

    if csr.is_wide and request.format == "auto" and (ordinal != CPU or mode == "full"):
        predictions = predict_considered(csr, ordinal, mode, request.symmetric)
        table = [(p.format, p.options, p.time_us, p.bytes, p.padding, p.error, p.note) for p in predictions]
        is_timed, found = _core.rank_predictions(
            table, csr.nnz, ordinal, mode, products, request.spent_us(), True
        )
    else:  # the first piece of a wide matrix stands for all of it
        source = next(csr.pieces()).source
        asked = (ordinal, request.format, request.options, mode, request.symmetric, products)
        is_timed, found, steps = source.rank(*asked, request.spent_us(), load_model)
        took(steps)
    return is_timed, [Candidate(*entry) for entry in found]


def _while_time_lasts(candidates: Iterable[Candidate], request: _Request, tuning: Tuning) -> Iterator[Choice]:
    """The choices to try, of which the budget is asked again once there are times."""
    for candidate in candidates:
        if request.mode == "cached" and tuning.trials:
            fastest = min(trial.time_us for trial in tuning.trials)
            if request.spent_us() + candidate.trial_us > request.products * fastest:
                tuning.out_of_time = True
                return
        yield candidate.choice


def _build(csr: CanonicalCsr, choice: Choice, ordinal: int) -> AnyMatrix:
    with step("convert", variant_name(choice.format, choice.options)):
        return build(csr, choice, ordinal)


def _first(csr: CanonicalCsr, choices: Iterable[Choice], ordinal: int) -> tuple[Choice, AnyMatrix]:
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
    csr: CanonicalCsr, choices: Iterable[Choice], ordinal: int, tuning: Tuning, results: tuning_cache.Results
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
