"""Which format an operator gets: asked for, remembered, ranked by the core, or the fastest one in trials."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, replace
from functools import partial
from time import perf_counter
from typing import TypeAlias

from .. import _core
from .._util.steps import step, took
from .._util.value_types import AnyMatrix
from ..devices import CPU
from ..formats import Choice
from ..inputs.csr import CanonicalCsr
from . import parts, tuning_cache
from .parts import build
from .predict import predict_considered
from .profile import load_model
from .request import CHOOSERS, Request
from .tuning import NOISE, Trial, Tuning, reason_for

# Series per variant that is timed, of which the fastest counts: what disturbs one makes it slower.
_SERIES = {"cached": 1, "full": 3}

_Found: TypeAlias = tuple[Choice, AnyMatrix]
#: A way to store the matrix, and the microseconds that a trial is expected to take.
Candidate: TypeAlias = tuple[Choice, float]


def choose(
    csr: CanonicalCsr, request: Request, ordinal: int, may_reorder: bool = False
) -> tuple[Choice, AnyMatrix, Tuning]:
    """The format of an operator, the matrix in it, and what finding it took.

    Parameters
    ----------
    csr : CanonicalCsr
        On the device or in host memory.
    request : Request
    ordinal : int
        The device.
    may_reorder : bool
        Whether rows and columns may be stored in another order with format "auto".
    """
    start = perf_counter()
    if not (request.is_settled and request.format in ("csr", *CHOOSERS)):
        csr = csr.at(ordinal)  # what is planned, and tried, is made of one copy on the device
    search = _Search(csr, request, ordinal)
    order, found = None, None
    if may_reorder and request.format == "auto" and request.tune == "cached" and csr.ordinal != CPU:
        order, search.csr = csr.nearer_order(request.budget, search.spent_us())
    try:
        found = search.run()
    except MemoryError:
        if search.csr.ordinal == CPU:
            raise
    if found is None:  # outside of the handler, for an error keeps alive what there was when it was raised
        # Without the copy as CSR there may be room for the matrix, which is planned in host memory then.
        search.csr.leave_device()
        search = _Search(search.csr, request, ordinal)
        found = search.run()
    choice, matrix = found
    if order is not None:
        choice, matrix = parts.reordered(choice, order), parts.wrapped(matrix, order)
    search.tuning.seconds = perf_counter() - start
    return choice, matrix, search.tuning


class _Search:
    """The search for the format of a matrix, whose budget begins to run now."""

    def __init__(self, csr: CanonicalCsr, request: Request, ordinal: int) -> None:
        self.csr, self._request, self._ordinal = csr, request, ordinal
        self.tuning = Tuning(request.tune)
        self._start = perf_counter()

    def spent_us(self) -> float:
        return 1e6 * (perf_counter() - self._start)

    def run(self) -> _Found:
        """The choice, and the matrix."""
        request = self._request
        if request.is_settled:
            asked = request.choice(self.csr, self._ordinal)
            return asked, self._build(asked)
        results = tuning_cache.Results(self.csr, self._ordinal, request)
        for known in results.known():
            try:
                matrix = self._build(known)
                self.tuning.cached = True
                return known, matrix
            except (_core.FormatError, MemoryError):
                pass  # like that other matrix, but not enough
        is_timed, candidates = ranked(self.csr, request, self._ordinal, self.spent_us)
        if not is_timed:
            return self._first(choice for choice, _ in candidates)
        choice, matrix, time_us = self._fastest(self._while_time_lasts(candidates))
        results.keep(choice, time_us)
        return replace(choice, reason=reason_for(self.tuning, time_us)), matrix

    def _build(self, choice: Choice) -> AnyMatrix:
        with step("convert", choice.name):
            return build(self.csr, choice, self._ordinal)

    def _first(self, choices: Iterable[Choice]) -> _Found:
        """The first that fits the device."""
        refused: dict[str, Exception] = {}
        for choice in choices:
            try:
                matrix = self._build(choice)
            except (_core.FormatError, MemoryError) as refusal:
                refused[choice.name] = refusal.with_traceback(None)  # which would keep the matrix alive
                continue
            if refused:
                choice = replace(choice, reason=f"{choice.reason}; {', '.join(refused)} did not fit")
            return choice, matrix
        raise next(iter(refused.values()))

    def _while_time_lasts(self, candidates: Iterable[Candidate]) -> Iterator[Choice]:
        """The choices to try, of which the budget is asked again once there are times."""
        for choice, trial_us in candidates:
            if self._request.tune == "cached" and self.tuning.trials:
                fastest = min(trial.time_us for trial in self.tuning.trials)
                if self.spent_us() + trial_us > self._request.budget * fastest:
                    self.tuning.out_of_time = True
                    return
            yield choice

    def _fastest(self, choices: Iterable[Choice]) -> tuple[Choice, AnyMatrix, float]:
        """The fastest of all, the likeliest first, and its time.

        A later one must be faster by more than noise. The best so far is kept while the next is tried; the
        others are gone by then.
        """
        best: tuple[Choice, AnyMatrix, float] | None = None
        refusals: list[Exception] = []
        for choice in choices:
            try:
                matrix = self._build(choice)
                with step("trial", choice.name):
                    series = [matrix.try_products() for _ in range(_SERIES[self._request.tune])]
            except (_core.FormatError, MemoryError) as refusal:
                refusals.append(refusal.with_traceback(None))  # which would keep the matrix alive
                continue
            time_us = min(time for time, _ in series)
            self.tuning.trials.append(Trial(choice.format, choice.options, time_us))
            self.tuning.products += sum(products for _, products in series)
            if best is None or time_us * NOISE < best[2]:
                best = choice, matrix, time_us
            del matrix
        if best is None:
            raise refusals[0]
        return best


def ranked(
    csr: CanonicalCsr, request: Request, ordinal: int, spent_us: Callable[[], float]
) -> tuple[bool, list[Candidate]]:
    """The candidates in their order, and whether they are to be timed: else the first that fits is taken."""
    mode, products = request.tune, request.budget
    if csr.is_wide and request.format == "auto" and (ordinal != CPU or mode == "full"):
        table = [astuple(prediction) for prediction in predict_considered(csr, request, ordinal)]
        is_timed, found = _core.rank_predictions(table, csr.nnz, ordinal, mode, products, spent_us(), True)
    else:  # the first piece of a wide matrix stands for all of it
        is_timed, found, steps = next(csr.pieces()).source.rank(
            ordinal,
            request.format,
            request.options,
            mode,
            request.declared,
            products,
            spent_us(),
            partial(load_model, ordinal, csr.dtype),
        )
        took(steps)
    return is_timed, [(Choice(format, options, reason), us) for format, options, reason, us in found]
