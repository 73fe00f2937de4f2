"""The main experiment: the time of one product, of every library's every variant, on every matrix."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import spmvgpu as sg
from experiments import peers as peer_modules
from experiments.clock import DeviceClock, Timing, take_turns, wall_us
from experiments.environment import usable_cores
from experiments.peers.base import NotApplicableError, Variant
from experiments.peers.problem import Problem
from experiments.records import Recorder

from .store import Store
from .suite import Item

WALL_SECONDS = 0.3  # spent on the wall-clock timing of one variant on the CPU
BESIDE_SECONDS = 0.05  # the same for SciPy beside a GPU
CASE_SECONDS = 5.0  # building the variants of one matrix beyond this, the optional ones are left out


class DeviceLostError(Exception):
    """A kernel failed in a way that leaves the device unusable for this process."""


@dataclass
class Run:
    """What the experiments of one run share."""

    device: str  # "cpu" or "cuda:N"
    items: list[Item]
    dtypes: list[str]
    store: Store
    peers: list[Any]
    clock: DeviceClock | None  # None on the CPU
    skip: Any  # compiled pattern of "library/variant" to leave out, or None
    started: float
    flushes: bool = True  # whether small matrices are also measured with nothing in the cache

    def say(self, text: str) -> None:
        print(f"[{time.perf_counter() - self.started:6.1f} s] {text}", flush=True)


@contextmanager
def noted(run: Run, record: Recorder, **what: str) -> Iterator[None]:
    """Turn a failure into an entry of what was skipped, unless it took the device with it."""
    try:
        yield
    except DeviceLostError:
        raise
    except Exception as error:  # one case must not cost the results of the others
        record.skip(f"{type(error).__name__}: {error}"[:400], **what)
        _require_device(run, str(what))


def until(deadline: float, run: Run, items: list[Item], record: Recorder) -> Iterator[tuple[Item, str]]:
    """Items in all dtypes until the deadline; what is left is noted as skipped."""
    for item in items:
        for dtype in run.dtypes:
            if time.perf_counter() > deadline:
                record.skip("the time budget was spent", matrix=item.name, dtype=dtype)
            else:
                yield item, dtype


def spmv(run: Run, record: Recorder, deadline: float) -> None:
    """Measure all items in all dtypes until the deadline."""
    for item, dtype in until(deadline, run, run.items, record):
        before = len(record.rows), time.perf_counter()
        with noted(run, record, matrix=item.name, dtype=dtype):
            problem = run.store.get(item, dtype)
            if run.clock is None:
                _measure_on_cpu(run, problem, record)
            else:
                _measure_on_device(run, problem, record)
            release(run, problem)
        record.write()
        seconds, rows = time.perf_counter() - before[1], len(record.rows) - before[0]
        number = run.items.index(item) + 1
        run.say(f"{number}/{len(run.items)} {item.name} {dtype}: {rows} rows in {seconds:.1f} s")


def release(run: Run, problem: Problem) -> None:
    """Give a large matrix's memory back before the next one."""
    if run.clock is not None:
        vars(problem).pop("on_device", None)
        if problem.matrix.nnz > 5_000_000:
            import cupy

            cupy.get_default_memory_pool().free_all_blocks()


def build_variants(run: Run, problem: Problem, record: Recorder, peers: list[Any]) -> dict[str, Variant]:
    """The variants that can be built and are right, by "library/variant"; the others are noted."""
    variants = {}
    start = time.perf_counter()
    for peer in peers:
        for job in peer_modules.jobs(peer, problem, run.device):
            name = f"{peer.NAME}/{job.name}"
            if run.skip is not None and run.skip.search(name):
                continue
            if job.optional and time.perf_counter() - start > CASE_SECONDS:
                _skip(record, problem, name, f"building the others took over {CASE_SECONDS:g} s")
                continue
            try:
                variant = job.build()
                problem.check(variant.result())
                variants[f"{peer.NAME}/{variant.name}"] = variant
            except Exception as error:  # a peer's failure is a finding, not the end of the run
                reason = (
                    str(error)
                    if isinstance(error, NotApplicableError)
                    else f"{type(error).__name__}: {error}"
                )
                _skip(record, problem, name, reason)
                _require_device(run, name)
    return variants


def _skip(record: Recorder, problem: Problem, name: str, reason: str) -> None:
    library, _, variant = name.partition("/")
    case = problem.describe()
    record.skip(reason[:400], matrix=case["matrix"], dtype=case["dtype"], library=library, variant=variant)


def _require_device(run: Run, name: str) -> None:
    if run.clock is not None:
        try:
            run.clock.synchronize()
        except Exception as error:
            raise DeviceLostError(f"{name} broke the device: {error}") from error


def _measure_on_device(run: Run, problem: Problem, record: Recorder) -> None:
    clock = run.clock
    assert clock is not None
    variants = build_variants(run, problem, record, run.peers)
    launches = {}
    for name, variant in variants.items():
        if variant.launch is not None:
            try:
                clock.capture([variant.launch])
                launches[name] = variant.launch
            except Exception as error:
                _skip(record, problem, name, f"cannot be captured in a graph: {error}")
                _require_device(run, name)
    in_cache = {
        name: launch
        for name, launch in launches.items()
        if run.flushes and variants[name].nbytes + problem.vector_bytes <= clock.l2_bytes
    }
    for cache, times in (("hot", clock.hot(launches)), ("cold", clock.cold(in_cache) if in_cache else {})):
        for name, timing in times.items():
            _add(record, problem, variants[name], cache, "graph", timing)
    for variant in variants.values():
        if variant.call is None:
            continue
        if variant.library == "scipy":  # on the CPU of the same machine
            variant.call()
            timing = Timing.of(wall_us(variant.call, BESIDE_SECONDS, least=3))
        else:
            timing = clock.python_calls(variant.call).batch
        _add(record, problem, variant, "hot", "call", timing)


def _measure_on_cpu(run: Run, problem: Problem, record: Recorder) -> None:
    """Every thread count builds its own variants: work is split among threads when an operator is made."""
    for threads in thread_counts():
        peers = [peer for peer in run.peers if threads == 1 or peer.THREADED]
        with limit_threads(threads):
            variants = build_variants(run, problem, record, peers)
            calls = {name: variant.call for name, variant in variants.items() if variant.call is not None}
            for name, timing in take_turns(calls, WALL_SECONDS).items():
                _add(record, problem, variants[name], "hot", "call", timing, threads=threads)


def thread_counts() -> list[int]:
    """1, 2 and all cores that this process may use."""
    cores = usable_cores()
    return sorted({1, min(2, cores), cores})


@contextmanager
def limit_threads(threads: int) -> Iterator[None]:
    """Context in which our own loops and MKL use this many threads."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(threads), sg.limit_threads(threads):
        yield


def _add(
    record: Recorder, problem: Problem, variant: Variant, cache: str, how: str, timing: Timing, **more: Any
) -> None:
    if timing.us < 0.01:  # a cold time is a difference
        _skip(record, problem, f"{variant.library}/{variant.name}", f"the {cache} time is lost in noise")
        return
    record.add(
        **problem.describe(),
        library=variant.library,
        variant=variant.name,
        cache=cache,
        how=how,
        **more,
        **timing.fields(),
        bytes=int(variant.nbytes + problem.vector_bytes),
        options=variant.options,
        setup_seconds={key: round(seconds, 6) for key, seconds in variant.setup_seconds.items()},
    )
