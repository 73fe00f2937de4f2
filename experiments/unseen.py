"""Time of the default format over that of the best format, on matrices that nobody has tuned for.

The matrices are drawn at random, another set for every seed (`generators.random_families`). Every format is
timed on each matrix, in the given order of rows and in others. A format that is nearly the fastest is timed
with other options, too. The format that ``format="auto"`` takes is then timed beside the fastest few and the
other libraries. Its time over the least time is its regret.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

import spmvgpu as sg
from generators import random_families
from spmvgpu.formats import candidates
from spmvgpu.gallery import meshes
from spmvgpu.inputs.csr import CanonicalCsr
from spmvgpu.planning import Prediction
from spmvgpu.planning.reordering import has_frequent_columns

from .clock import Timing, take_turns, timed
from .engine import Experiment, Items, Run
from .environment import usable_cores
from .peers import ours
from .peers.base import Variant
from .peers.problem import Problem
from .products import built_variants, captured, limit_threads, row_of
from .records import Row
from .suite import Item

# Name -> what `aslinearoperator` is asked for.
CHOSEN: dict[str, dict[str, Any]] = {"auto": {}, "full": {"tune": "full"}}
ORDERS: dict[str, Any] = {"given": False, "columns": "columns", "clusters": "clusters", "rcm": "rcm"}

COUNT, SIZES = 54, (5e4, 5e6)
QUICK_COUNT, QUICK_SIZES = 6, (2e3, 2e4)

HOPELESS = 4.0  # times the least predicted time: formats beyond are left out
CLOSE = 1.5  # the kernels of a format are timed if its default one is within this of the fastest
WORTHWHILE = 1.1  # other formats are timed in an order if csr is at most this factor slower in it
FINALISTS, NEAR = 4, 1.25  # number of the fastest to time again, and how far behind the first they may be
SERIES_US, MOST_PRODUCTS = 3000.0, 50  # of a series that times a product
WALL_SECONDS = 0.3  # spent on one of the last variants on a CPU


def items(options: argparse.Namespace) -> Items:
    """The matrices of a seed."""
    count = options.count or (QUICK_COUNT if options.quick else COUNT)
    least, most = QUICK_SIZES if options.quick else (SIZES[0], options.max_nnz)
    found = []
    for number in range(count):
        family, words = random_families.described(options.seed, number, least, most)
        make = partial(random_families.build, options.seed, number, least, most)
        found.append(Item(f"{options.seed}.{number:02d} {words}", family, make))
    return found, {}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=1, help="of the matrices; another set for each")
    parser.add_argument("--count", type=int, help=f"matrices (default: {COUNT})")
    parser.add_argument("--max-nnz", type=float, default=SIZES[1], help="of the largest matrices, about")
    parser.add_argument("--all", action="store_true", help="also what is predicted to be slow, in all orders")


# -- rows ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tried:
    """A format with its options and order, and the time of a product."""

    format: str
    options: dict[str, Any]
    order: str
    time_us: float
    predicted_us: float | None  # where the model knows the format, and the order is the given one

    @property
    def name(self) -> str:
        options = [f"{name}={value}" for name, value in self.options.items()]
        return " ".join([self.format, *options, *([] if self.order == "given" else [self.order])])

    def times(self) -> tuple[float, float | None]:
        """Measured and predicted, as results have them."""
        return round(self.time_us, 3), None if self.predicted_us is None else round(self.predicted_us, 3)


def stored(op: sg.SparseOperator) -> str:
    """Key of the storage of a matrix, and on a GPU of its kernel, among those of the same order.

    An operator does not say whether it has an order of its own, but its memory does.
    """
    kernel = "" if op.device == "cpu" else f" {op.options}"
    return f"{ours.NAME}/{op.format}{kernel} {op.nbytes} bytes"


@dataclass
class Trials:
    """The formats, orders and kernels of one matrix that were timed, by their keys."""

    run: Run
    problem: Problem
    found: dict[str, Tried] = field(default_factory=dict)

    def key(self, op: sg.SparseOperator, order: str | None = None) -> str:
        """That of an operator of an order; without one the first order in which the same was timed."""
        what = stored(op)
        keys = [f"{what}, {one}" for one in ORDERS if order in (None, one)]
        return next((key for key in keys if key in self.found), what if order is None else keys[0])

    def time_all(self) -> None:
        """Time every format that may be the fastest in every order that may help, and then its kernels."""
        for format in self._worth_a_trial():
            self._time(format, {}, "given")
        rows, cols = self.problem.matrix.shape
        has_frequent = has_frequent_columns(CanonicalCsr.of(self.problem.matrix))
        orders = ["columns"] if self._takes_all or has_frequent else []
        for order in [*orders, "clusters"] if rows == cols else orders:
            if self._helps(self._time("csr", {}, order)):
                for format in sg.formats():
                    self._time(format, {}, order)
        if rows == cols:
            for format in self._worth_rcm():
                self._time(format, {}, "rcm")
        if self.run.on_gpu:  # what the options of kernels are for
            for place, one in enumerate(self.near(np.inf if self._takes_all else CLOSE).values()):
                is_cheap = one.order != "rcm" or place == 0 or self._takes_all
                for options in candidates(one.format) if is_cheap and not one.options else ():
                    self._time(one.format, options, one.order)

    def _helps(self, us: float | None) -> bool:
        """Whether other formats are worth a trial in an order in which csr takes so long."""
        given = next((one.time_us for one in self.found.values() if one.format == "csr"), np.inf)
        return self._takes_all or (us is not None and us <= WORTHWHILE * given)

    def _worth_rcm(self) -> Iterator[str]:
        """The formats that may be the fastest in reverse Cuthill-McKee order, which takes long to find.

        Products of the matrix in that order, without an order of x and y, take less than those of operators.
        """
        matrix = self.problem.matrix
        order = reverse_cuthill_mckee(sp.csr_matrix(matrix), symmetric_mode=False)
        ordered = self._on_device(meshes.permuted(matrix, order))
        least: dict[str, float] = {}
        for format in ("csr", *sg.formats()):
            if format == "csr" or self._helps(least.get("csr")):
                with suppress(sg.FormatError, MemoryError), sg.cache.ignored():
                    op = sg.aslinearoperator(ordered, format, self.run.device, reorder=False)
                    least[format] = self._product_us(op)
        for name in sorted(least, key=lambda name: least[name]):
            fastest = min((one.time_us for one in self.found.values()), default=np.inf)
            if self._takes_all or least[name] <= fastest:
                yield name

    def near(self, factor: float) -> dict[str, Tried]:
        """Those within a factor of the fastest, the fastest first."""
        ordered = sorted(self.found.items(), key=lambda pair: pair[1].time_us)
        return {key: one for key, one in ordered if one.time_us <= factor * ordered[0][1].time_us}

    def operator(self, format: str, options: Mapping[str, Any], order: str) -> sg.SparseOperator:
        """The matrix as asked for; from a copy on the device, unless the order is found on the CPU."""
        given = self.problem.matrix if order == "rcm" else self._given
        make = partial(sg.aslinearoperator, given, format, self.run.device, reorder=ORDERS[order])
        with sg.cache.ignored():
            return make(**options)

    @property
    def _takes_all(self) -> bool:
        return bool(self.run.options.all)

    @cached_property
    def _given(self) -> Any:
        return self._on_device(self.problem.matrix)

    def _on_device(self, matrix: sp.csr_array) -> Any:
        """The matrix itself on a CPU; on a GPU a copy, from which many operators are made."""
        if not self.run.on_gpu:
            return matrix
        from cupyx.scipy.sparse import csr_matrix

        return csr_matrix(matrix)

    @cached_property
    def _predictions(self) -> list[Prediction]:
        """Those that are more than a bound by the bytes that are moved, the shortest time first."""
        found = sg.predict(self.problem.matrix, self.run.device)
        return [one for one in found if one.time_us is not None and not one.note]

    def _predicted_us(self, format: str, options: Mapping[str, Any]) -> float | None:
        """The prediction for a format with these options in force, of several the one that says most."""
        fits = [
            one
            for one in self._predictions
            if one.format == format and one.options.items() <= options.items()
        ]
        return max(fits, key=lambda one: len(one.options)).time_us if fits else None

    def _worth_a_trial(self) -> Sequence[str]:
        """All formats, csr first, less those that are predicted to be hopeless in the given order."""
        least: dict[str, float] = {}
        for one in reversed(self._predictions):
            least[one.format] = one.time_us or 0.0
        limit = np.inf if self._takes_all else HOPELESS * min(least.values(), default=np.inf)
        others = (format for format in sg.formats() if format != "csr" and least.get(format, 0.0) <= limit)
        return ["csr", *others]

    def _time(self, format: str, options: Mapping[str, Any], order: str) -> float | None:
        """Microseconds of a product that is right; None of what does not hold the matrix."""
        name = Tried(format, dict(options), order, 0.0, None).name
        with self.run.noted(**self.problem.case, library=ours.NAME, variant=name):
            try:
                op = self.operator(format, options, order)
            except (sg.FormatError, MemoryError):
                return None
            except ValueError:
                if order == "given":
                    raise
                return None  # the order is not for this matrix
            key = self.key(op, order)
            if key not in self.found:
                self.problem.check(ours.variant(self.problem, name, op).result())
                # With options of its own it is not what the prediction is for.
                is_predicted = order == "given" and not options
                predicted = self._predicted_us(format, op.options) if is_predicted else None
                self.found[key] = Tried(format, dict(options), order, self._product_us(op), predicted)
            return self.found[key].time_us
        return None

    def _product_us(self, op: sg.SparseOperator) -> float:
        """In two short series, and if that is not far from the fastest in two longer ones."""
        fastest = min((one.time_us for one in self.found.values()), default=np.inf)
        first = min(op.time_products(3) for _ in range(2))
        if first > 2 * fastest:
            return first
        count = int(np.clip(SERIES_US / first, 3, MOST_PRODUCTS))
        return min(op.time_products(count) for _ in range(2))


def compare(run: Run, problem: Problem) -> Iterator[Row]:
    """Rows of what was chosen, of the best of all, and of the other libraries' variants."""
    if run.on_gpu:
        yield from _rows(run, problem, how="graph")
        return
    threads = usable_cores()
    with limit_threads(threads):
        yield from _rows(run, problem, how="call", threads=threads)


def _rows(run: Run, problem: Problem, **how: Any) -> Iterator[Row]:
    trials = Trials(run, problem)
    trials.time_all()
    variants: dict[str, Variant] = {}  # by key, so that what two of them took is timed once
    chosen: dict[str, tuple[str, Row]] = {}

    def keep(key: str, op: sg.SparseOperator) -> None:
        if key not in variants:
            variant = ours.variant(problem, key, op)
            problem.check(variant.result())
            variants[key] = variant

    for name, asked in (run.experiment.variants or {}).items():
        if not (run.options.skip and re.search(run.options.skip, f"{ours.NAME}/{name}")):
            with run.noted(**problem.case, library=ours.NAME, variant=name), sg.cache.ignored():
                seconds, op = timed(partial(sg.aslinearoperator, problem.matrix, device=run.device, **asked))
                key = trials.key(op)  # before a product, for which an operator may take more memory
                keep(key, op)
                choosing = op.tuning.seconds if op.tuning is not None else 0.0
                facts: Row = {"made_us": round(1e6 * seconds, 1), "choosing_us": round(1e6 * choosing, 1)}
                chosen[name] = key, facts
    for key, one in list(trials.near(NEAR).items())[:FINALISTS]:
        if key not in variants:
            with run.noted(**problem.case, library=ours.NAME, variant=one.name):
                keep(key, trials.operator(one.format, one.options, one.order))
    theirs = built_variants(run, problem, [peer for peer in run.peers if peer is not ours])
    times = _times(run, problem, {**variants, **theirs})
    tried = {one.name: one.times() for one in trials.found.values()}
    best = min(times.keys() & variants.keys(), key=lambda key: times[key].us)
    named: dict[str, tuple[str, Row]] = {"best": (best, {"tried": tried})}
    for name, (key, facts) in (named | chosen).items():
        if key in times:
            known = trials.found.get(key)
            order, predicted = (known.order, known.predicted_us) if known else (None, None)
            facts |= {"seed": run.options.seed, **how, "order": order, "predicted_us": predicted}
            yield row_of(problem, replace(variants[key], name=name), times[key], cache="hot", **facts)
    for name, variant in theirs.items():
        if name in times:
            yield row_of(problem, variant, times[name], cache="hot", seed=run.options.seed, **how)


def _times(run: Run, problem: Problem, variants: Mapping[str, Variant]) -> dict[str, Timing]:
    """Those of all, in turns."""
    if run.clock is not None:
        return run.clock.hot(captured(run, run.clock, problem, variants))
    calls = {name: variant.call for name, variant in variants.items() if variant.call is not None}
    return take_turns(calls, WALL_SECONDS)


EXPERIMENTS = [
    Experiment(
        command="unseen",
        about="the default beside the best of all formats, on matrices drawn at random",
        file="unseen",
        items=items,
        peers={"cuda": ("cusparse",), "cpu": ("scipy", "mkl")},
        variants=CHOSEN,
        measure=compare,
        add_options=add_options,
    )
]
