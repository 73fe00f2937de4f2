"""The time of one product, of every library's every variant, on every matrix.

`auto` measures what one gets by default beside all of cuSPARSE, on matrices of every kind. The environment
variable CUSPARSE_LIBRARY names another cuSPARSE than CuPy's.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import spmvgpu as sg
from generators import families

from . import peers
from .clock import DeviceClock, Launch, Timing, take_turns, wall_us
from .engine import Experiment, Run
from .environment import usable_cores
from .peers.base import Variant
from .peers.problem import Problem
from .records import Row
from .suite import all_items, suite_items

WALL_SECONDS = 0.3  # spent on the wall-clock timing of one variant on the CPU
BESIDE_SECONDS = 0.05  # the same for SciPy beside a GPU
CASE_SECONDS = 5.0  # building the variants of one matrix beyond this, the optional ones are left out


def products(run: Run, problem: Problem, flushes: bool = True) -> Iterator[Row]:
    """A row for every variant of the run's peers, and for each number of threads on a CPU.

    With `flushes`, small matrices are also measured with nothing in the cache.
    """
    if run.clock is None:
        yield from _on_cpu(run, problem)
    else:
        yield from _on_device(run, run.clock, problem, flushes)


def built_variants(run: Run, problem: Problem, others: Iterable[Any]) -> dict[str, Variant]:
    """The variants that can be built and are right, by "library/variant"; the others are noted."""
    variants = {}
    start = time.perf_counter()
    for peer in others:
        own = (run.device, run.experiment.variants) if peer is peers.ours else ()
        for job in peer.prepare(problem, *own):
            name = f"{peer.NAME}/{job.name}"
            if run.options.skip and re.search(run.options.skip, name):
                continue
            with _noted(run, problem, name):
                if job.optional and time.perf_counter() - start > CASE_SECONDS:
                    raise peers.NotApplicableError(f"building the others took over {CASE_SECONDS:g} s")
                variant = job.build()
                problem.check(variant.result())
                variants[f"{peer.NAME}/{variant.name}"] = variant
    return variants


def _noted(run: Run, problem: Problem, name: str) -> AbstractContextManager[None]:
    library, _, variant = name.partition("/")
    return run.noted(**problem.case, library=library, variant=variant)


def _on_device(run: Run, clock: DeviceClock, problem: Problem, flushes: bool) -> Iterator[Row]:
    variants = built_variants(run, problem, run.peers)
    launches = captured(run, clock, problem, variants)
    in_cache = {
        name: launch
        for name, launch in launches.items()
        if flushes and variants[name].nbytes + problem.vector_bytes <= clock.l2_bytes
    }
    for cache, times in (("hot", clock.hot(launches)), ("cold", clock.cold(in_cache) if in_cache else {})):
        for name, timing in times.items():
            if timing.us < 0.01:  # a cold time is a difference
                with _noted(run, problem, name):
                    raise peers.NotApplicableError(f"the {cache} time is lost in noise")
            else:
                yield row_of(problem, variants[name], timing, cache=cache, how="graph")
    for variant in variants.values():
        if variant.call is not None:
            if variant.library == "scipy":  # on the CPU of the same machine
                variant.call()
                timing = Timing.of(wall_us(variant.call, BESIDE_SECONDS, least=3))
            else:
                timing = clock.python_calls(variant.call)
            yield row_of(problem, variant, timing, cache="hot", how="call")


def captured(
    run: Run, clock: DeviceClock, problem: Problem, variants: Mapping[str, Variant]
) -> dict[str, Launch]:
    """The launches of the variants that a graph can hold; the others are noted."""
    launches = {}
    for name, variant in variants.items():
        if variant.launch is not None:
            with _noted(run, problem, name):
                clock.capture([variant.launch])
                launches[name] = variant.launch
    return launches


def _on_cpu(run: Run, problem: Problem) -> Iterator[Row]:
    """Every thread count builds its own variants: work is split among threads when an operator is made."""
    cores = usable_cores()
    for threads in sorted({1, min(2, cores), cores}):
        others = [peer for peer in run.peers if threads == 1 or peer.THREADED]
        with limit_threads(threads):
            variants = built_variants(run, problem, others)
            calls = {name: variant.call for name, variant in variants.items() if variant.call is not None}
            for name, timing in take_turns(calls, WALL_SECONDS).items():
                yield row_of(problem, variants[name], timing, cache="hot", how="call", threads=threads)


@contextmanager
def limit_threads(threads: int) -> Iterator[None]:
    """Context in which our own loops and MKL use this many threads."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(threads), sg.limit_threads(threads):
        yield


def row_of(problem: Problem, variant: Variant, timing: Timing, **more: Any) -> Row:
    """The row of a results file: a variant and its time."""
    return {
        **problem.describe(),
        "library": variant.library,
        "variant": variant.name,
        **more,
        **timing.fields(),
        "bytes": int(variant.nbytes + problem.vector_bytes),
        "options": variant.options,
        "setup_seconds": {key: round(seconds, 6) for key, seconds in variant.setup_seconds.items()},
    }


EXPERIMENTS = [
    Experiment(
        command="speed",
        about="products of every library",
        file="spmv",
        items=suite_items,
        peers=peers.ALL,
        measure=products,
    ),
    Experiment(
        command="auto",
        about="what one gets by default beside all of cuSPARSE, on matrices of every kind",
        file="auto",
        items=all_items,
        peers={"cuda": ("cusparse", "cupy"), "cpu": ("scipy", "mkl")},
        variants={"csr": {"format": "csr"}, "auto": {"format": "auto"}, "auto_called": {"format": "auto"}},
        measure=partial(products, flushes=False),
    ),
    Experiment(
        command="symmetric",
        about="the symmetric format beside general ones, on finite elements",
        file="symmetric",
        items=all_items,
        group=families.SYMMETRIC_FEM,
        peers={"cuda": ("cusparse",), "cpu": ("scipy", "mkl")},
        variants={
            "tsmv": {"format": "tsmv"},
            "tsmv_poster": {"format": "tsmv", **peers.ours.POSTER},
            "csr": {"format": "csr"},
            "sell": {"format": "sell"},
        },
        measure=partial(products, flushes=False),
    ),
]
