"""Trials: a matrix is stored in one format after the other and multiplied, and the fastest one is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import NamedTuple

import numpy as np

from .. import _core
from .._core import AnyMatrix
from .._util.steps import step
from ..devices import CPU
from ..formats import Choice, candidates
from ..inputs.csr import CanonicalCsr
from . import parts
from .profile import load_profile
from .reordering import NAMED, Reorder, has_frequent_columns, in_order
from .request import Request
from .tuning import NOISE, Trial, Tuning

# With tune="full". What is nearer to the best than short series vary is timed in turns with it, and longer.
_NEAR, _TURNS = 1.35, 5
# The tunables of a format are tried if its own choice of them is at most this many times as slow as the
# best. On 938 matrices on an H100, 2 misses nothing, and 1.5 makes products of one 14 % slower.
_CLOSE = 2.0
# Other formats are tried in an order of rows and columns if csr takes at most this many times as long in it.
_WORTHWHILE = 1.1
# No trial begins after that many times the set-up of an operator, or these seconds if they are more.
_SETUPS, _SECONDS = 40, 2.0
# Microseconds of an entry to find the order "rcm" on a CPU, about.
_RCM_US = 0.3
# Reading memory is faster than copying it, which the bandwidth of a profile is, by less than this.
_READING = 1.15


class Ordered(NamedTuple):
    """A matrix in the order of its rows and columns that `reorder` asks for."""

    csr: CanonicalCsr
    reorder: Reorder = False
    orders: parts.Orders | None = None

    def wrapped(self, matrix: AnyMatrix) -> AnyMatrix:
        """The matrix as given, of what is stored in this order."""
        return matrix if self.orders is None else parts.wrapped(matrix, self.orders)

    def reordered(self, choice: Choice) -> Choice:
        """The choice for the matrix as given."""
        return choice if self.orders is None else parts.reordered(choice, self.orders)


def ordered(csr: CanonicalCsr, reorder: Reorder, ordinal: int) -> Ordered:
    """The matrix in an order, on the device that it is for.

    Raises
    ------
    ValueError, MemoryError
        If the order is not for this matrix, or there is no room for both.
    """
    if not reorder:
        return Ordered(csr)
    with step("order"):
        orders, found = in_order(csr, reorder, ordinal)
        return Ordered(found.at(ordinal), reorder, orders)


class Best(NamedTuple):
    """The fastest so far, its time in short series and in longer ones, and how many trials came before it."""

    where: Ordered
    choice: Choice
    matrix: AnyMatrix
    short_us: float
    time_us: float
    number: int


class Trials:
    """The trials of one matrix.

    The best so far is kept while the next is built and timed; the others are gone by then.

    Parameters
    ----------
    request : Request
    ordinal : int
        The device.
    tuning : Tuning
        To which the trials are added.
    build : callable
        Makes a canonical matrix what is chosen.
    spent_us : callable
        Gives the microseconds since the search began.
    """

    def __init__(
        self,
        request: Request,
        ordinal: int,
        tuning: Tuning,
        build: Callable[[CanonicalCsr, Choice], AnyMatrix],
        spent_us: Callable[[], float],
    ) -> None:
        self._request, self._ordinal, self._tuning, self._build = request, ordinal, tuning, build
        self._spent_us, self._limit_us = spent_us, inf
        self._best: Best | None = None
        self._refusals: list[Exception] = []
        self._times: dict[tuple[object, ...], float] = {}  # by what is stored

    @property
    def best(self) -> Best:
        """The fastest of all, or the first refusal if there is none."""
        if self._best is None:
            raise self._refusals[0]
        return self._best

    def add(self, where: Ordered, choice: Choice) -> float:
        """Microseconds of a product, infinite of what is refused.

        With tune="cached", what is predicted to be slower must be faster by more than noise.
        """
        is_full = self._request.tune == "full"
        try:
            matrix = where.wrapped(self._build(where.csr, choice))
            with step("trial", choice.name):
                time_us = short_us = self._series(matrix)
                if is_full and (self._best is None or short_us <= _CLOSE * self._best.short_us):
                    short_us = min(short_us, self._series(matrix))  # what disturbs a series makes it slower
                    time_us = self._in_turns(matrix, short_us)
        except (_core.FormatError, MemoryError) as refusal:
            self._refusals.append(refusal.with_traceback(None))  # which would keep the matrix alive
            return inf
        if self._best is None or time_us * (1 if is_full else NOISE) < self._best.time_us:
            self._best = Best(where, choice, matrix, short_us, time_us, len(self._tuning.trials))
        self._tuning.trials.append(Trial(choice.format, choice.options, time_us, where.reorder))
        return time_us

    def add_all(
        self,
        csr: CanonicalCsr,
        ranked: Callable[[CanonicalCsr], Sequence[Choice]],
        may_reorder: bool,
    ) -> None:
        """Try all that `ranked` says of a matrix, as it is given and in other orders of its rows and columns.

        By what is known of their bytes, some need no trial: they cannot be faster than the best. Others get
        none where the time is used up.
        """
        given_us = self._add_formats(Ordered(csr), ranked(csr))
        for reorder in NAMED if may_reorder else ():
            if reorder == "columns" and not has_frequent_columns(csr):
                continue
            if not self._has_time(_RCM_US * csr.nnz if reorder == "rcm" else 0.0):
                return
            try:
                where = ordered(csr, reorder, self._ordinal)
            except (ValueError, MemoryError):
                continue
            if where.orders is not None and self._add_new(where, Choice("csr")) <= _WORTHWHILE * given_us:
                self._add_formats(where, ranked(where.csr))

    def _add_formats(self, where: Ordered, choices: Sequence[Choice]) -> float:
        """Try formats, and other options of a format that is nearly the fastest.

        Returns the time of csr in microseconds; 0 if csr is not among the formats.
        """
        times = [(self._add_new(where, choice), choice) for choice in choices]
        for time_us, choice in sorted(times, key=lambda timed: timed[0]):
            if self._best is None or time_us <= _CLOSE * self._best.time_us:
                for options in candidates(choice.format):
                    self._add_new(where, replace(choice, options={**options, **choice.options}))
        return next((time_us for time_us, choice in times if choice.format == "csr"), 0.0)

    def _add_new(self, where: Ordered, choice: Choice) -> float:
        """`add`, unless there is no time, the same is stored already, or it is too large to be as fast."""
        if not self._has_time():
            return inf
        if where.csr.is_wide:
            return self.add(where, choice)
        try:
            plan = where.csr.plan(choice.format, self._ordinal, choice.options)
        except (_core.FormatError, MemoryError) as refusal:
            self._refusals.append(refusal.with_traceback(None))
            return inf
        kernel = () if self._ordinal == CPU else tuple(sorted(plan.options.items()))
        stored = where.reorder, choice.format, plan.bytes, plan.padding, kernel
        if stored not in self._times:
            is_measure = choice.format == "csr"  # by which orders are decided
            is_hopeless = self._best is not None and self._least_us(plan.bytes) >= self._best.time_us
            self._times[stored] = inf if is_hopeless and not is_measure else self.add(where, choice)
        return self._times[stored]

    def _has_time(self, needed_us: float = 0.0) -> bool:
        """Whether something that takes so long may begin."""
        if self._best is None:
            return True
        products_us = self._request.budget * self._best.time_us
        if self._limit_us == inf:  # now that there is an operator
            self._limit_us = max(1e6 * _SECONDS, _SETUPS * self._spent_us())
        if self._spent_us() + needed_us <= max(self._limit_us, products_us):
            return True
        self._tuning.out_of_time = True
        return False

    def _in_turns(self, matrix: AnyMatrix, short_us: float) -> float:
        """Microseconds of a product. If short series are near, it is timed in turns with the best, anew."""
        best = self._best
        if best is None or max(short_us, best.short_us) > _NEAR * min(short_us, best.short_us):
            return short_us
        # The best comes first: what was just built lies in the L2 of a GPU, for once.
        turns = [
            (self._series(best.matrix, best.time_us), self._series(matrix, short_us)) for _ in range(_TURNS)
        ]
        best_us, time_us = map(float, np.median(turns, axis=0))
        self._best = best._replace(time_us=best_us)
        trials = self._tuning.trials
        trials[best.number] = replace(trials[best.number], time_us=best_us)
        return time_us

    def _series(self, matrix: AnyMatrix, product_us: float | None = None) -> float:
        time_us, products = matrix.try_products(product_us)
        self._tuning.products += products
        return time_us

    def _least_us(self, nbytes: int) -> float:
        """Microseconds that a product needs to move its bytes, of which the cache may hold some."""
        if self._request.format != "auto":
            return 0.0  # only tunables are tried, and no profile need be there
        profile = load_profile(self._ordinal)
        return 1e6 * max(nbytes - profile.cache_bytes, 0) / (_READING * profile.memory_bandwidth)
