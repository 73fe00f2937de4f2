"""Which format an operator gets: asked for, remembered, ranked by the core, or the fastest one in trials."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, replace
from functools import partial
from time import perf_counter
from typing import TypeAlias

from .. import _core
from .._core import AnyMatrix
from .._util.steps import step, took
from ..devices import CPU
from ..formats import Choice
from ..inputs.csr import CanonicalCsr
from . import tuning_cache
from .parts import Orders, build
from .predict import predict_considered
from .profile import load_model
from .request import CHOOSERS, Request
from .trials import Ordered, Trials, ordered
from .tuning import Tuning, reason_for

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
    search = _Search(csr, request, ordinal, may_reorder and request.format == "auto")
    found = None
    try:
        found = search.run()
    except MemoryError:
        if search.where.csr.ordinal == CPU:
            raise
    if found is None:  # outside of the handler, for an error keeps alive what there was when it was raised
        # Without the copy as CSR there may be room for the matrix, which is planned in host memory then.
        where = search.where
        where.csr.leave_device()
        search = _Search(where.csr, request, ordinal, may_reorder=False)
        choice, matrix = search.run()
        found = where.reordered(choice), where.wrapped(matrix)
    search.tuning.seconds = perf_counter() - start
    return *found, search.tuning


class _Search:
    """The search for the format of a matrix, whose budget begins to run now."""

    def __init__(self, csr: CanonicalCsr, request: Request, ordinal: int, may_reorder: bool) -> None:
        self.where = Ordered(csr)
        self._request, self._ordinal, self._may_reorder = request, ordinal, may_reorder
        self.tuning = Tuning(request.tune)
        self._start = perf_counter()

    def spent_us(self) -> float:
        return 1e6 * (perf_counter() - self._start)

    def run(self) -> _Found:
        """The choice, and the matrix."""
        request, csr = self._request, self.where.csr
        if request.is_settled:
            asked = request.choice(csr, self._ordinal)
            return asked, self._build(csr, asked)
        results = tuning_cache.Results(csr, self._ordinal, request, self._may_reorder)
        for known, reorder in results.known():
            try:
                where = ordered(csr, reorder, self._ordinal)
                matrix = where.wrapped(self._build(where.csr, known))
            except (ValueError, MemoryError):
                continue  # like that other matrix, but not enough
            self.tuning.cached = True
            return where.reordered(known), matrix
        trials = Trials(request, self._ordinal, self.tuning, self._build, self.spent_us)
        if request.tune == "full":
            trials.add_all(csr, lambda csr: [choice for choice, _ in self._ranked(csr)[1]], self._may_reorder)
        else:
            if self._may_reorder and request.tune == "cached" and csr.ordinal != CPU:
                order, csr = csr.nearer_order(request.budget, self.spent_us())
                self.where = Ordered(csr) if order is None else Ordered(csr, "clusters", Orders(order, order))
            is_timed, candidates = self._ranked(csr)
            if not is_timed:
                choices = (choice for choice, _ in candidates)
                chosen, matrix = first_that_fits(choices, partial(self._build, self.where.csr))
                return self.where.reordered(chosen), self.where.wrapped(matrix)
            for choice in while_time_lasts(candidates, self.tuning, request.budget, self.spent_us):
                trials.add(self.where, choice)
        best = trials.best
        results.keep(best.choice, best.time_us, best.where.reorder, self.tuning.out_of_time)
        reason = reason_for(self.tuning, best.time_us)
        return best.where.reordered(replace(best.choice, reason=reason)), best.matrix

    def _ranked(self, csr: CanonicalCsr) -> tuple[bool, list[Candidate]]:
        return ranked(csr, self._request, self._ordinal, self.spent_us)

    def _build(self, csr: CanonicalCsr, choice: Choice) -> AnyMatrix:
        with step("convert", choice.name):
            return build(csr, choice, self._ordinal)


def first_that_fits(choices: Iterable[Choice], build: Callable[[Choice], AnyMatrix]) -> _Found:
    """The first choice that the device has room for, and its matrix."""
    refused: dict[str, Exception] = {}
    for choice in choices:
        try:
            matrix = build(choice)
        except (_core.FormatError, MemoryError) as refusal:
            refused[choice.name] = refusal.with_traceback(None)  # which would keep the matrix alive
            continue
        if refused:
            choice = replace(choice, reason=f"{choice.reason}; {', '.join(refused)} did not fit")
        return choice, matrix
    raise next(iter(refused.values()))


def while_time_lasts(
    candidates: Iterable[Candidate], tuning: Tuning, budget: float, spent_us: Callable[[], float]
) -> Iterator[Choice]:
    """The choices to try. Once there are times, each is compared with what is left of the budget."""
    for choice, trial_us in candidates:
        if tuning.trials:
            fastest = min(trial.time_us for trial in tuning.trials)
            if spent_us() + trial_us > budget * fastest:
                tuning.out_of_time = True
                return
        yield choice


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
