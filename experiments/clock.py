"""The clock: device time of products replayed from a CUDA graph, and wall time of calls made from Python."""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

# Enqueues one product on the stream with this handle, which is CuPy's current one.
Launch = Callable[[int], object]
Call = Callable[[], object]
Key = TypeVar("Key")
Result = TypeVar("Result")

ROUNDS = 3  # the variants of one matrix take turns, so that a drifting clock touches all of them alike
# Products in one graph fill about this long; its launch and the events around it then vanish.
BATCH_US = 300.0
COLD_PAIRS = 8  # (flush, product) pairs in one graph
SPIN_UP = 40  # graphs of flushes, some 15 ms: the clocks of an idle GPU are low
FLUSH_FACTOR = 3  # the flush reads this many times the L2 cache


@dataclass(frozen=True)
class Timing:
    """Median of many measurements in microseconds, and their 10 % to 90 % range as a part of it."""

    us: float
    spread: float
    count: int
    least: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Timing:
        ordered = sorted(samples)
        median = statistics.median(ordered)
        low, high = ordered[len(ordered) // 10], ordered[(9 * len(ordered)) // 10]
        return cls(median, (high - low) / median if median > 0 else 0.0, len(ordered), ordered[0])

    def fields(self) -> dict[str, Any]:
        """The timing as a row of the results has it."""
        return {
            "time_us": round(self.us, 3),
            "least_us": round(self.least, 3),
            "spread": round(self.spread, 3),
            "samples": self.count,
        }


def timed(call: Callable[[], Result]) -> tuple[float, Result]:
    """Seconds that a call took, and what it returned."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def wall_us(call: Call, seconds: float, least: int = 5, most: int = 1000) -> list[float]:
    """Wall time of single calls, repeated for about `seconds`."""
    samples: list[float] = []
    end = time.perf_counter() + seconds
    while len(samples) < least or (len(samples) < most and time.perf_counter() < end):
        samples.append(1e6 * timed(call)[0])
    return samples


def in_turns(
    calls: Mapping[Key, Call],
    seconds: float,
    *,
    least: int = 2,
    most: int = 15,
    before: Call = lambda: None,
) -> dict[Key, list[float]]:
    """Wall time of calls in microseconds, about `seconds` of each.

    They take turns call by call, so that whatever else the machine does meets all alike, after one round that
    is not counted. `before` is called ahead of each, outside its time.
    """
    samples: dict[Key, list[float]] = {key: [] for key in calls}
    for call in calls.values():
        before()
        call()
    spent = {key: 0.0 for key in calls}
    for turn in range(most):
        for key, call in calls.items():
            if turn < least or spent[key] < seconds:
                before()
                took, _ = timed(call)
                spent[key] += took
                samples[key].append(took * 1e6)
    return samples


def take_turns(calls: dict[str, Call], seconds: float, warm_up: int = 2) -> dict[str, Timing]:
    """Wall time per call of short calls, in series that take turns; `seconds` is for each of them.

    A call may have an attribute `settle_seconds`: for so long nothing is done after its series.
    """
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            for _ in range(warm_up):
                call()
            samples[name] += wall_us(call, seconds / ROUNDS, least=3)
            time.sleep(getattr(call, "settle_seconds", 0.0))
    return {name: Timing.of(values) for name, values in samples.items()}


class DeviceClock:
    """Times work on the current CUDA device, with CuPy's streams, events and graphs."""

    def __init__(self, seconds: float = 0.015) -> None:
        """`seconds` is the time to spend on one measurement, warm-up not included."""
        import cupy

        self._cupy = cupy
        self._seconds = seconds
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.l2_bytes = int(cupy.cuda.Device().attributes["L2CacheSize"])
        self._flush_launch = self._make_flush()
        self._flush_graph = self.capture([self._flush_launch] * COLD_PAIRS)

    def synchronize(self) -> None:
        """Wait for everything on the device; raises if an earlier kernel failed."""
        self._cupy.cuda.runtime.deviceSynchronize()

    def capture(self, launches: Sequence[Launch]) -> Any:
        """A graph that runs the launches one after the other."""
        with self.stream:
            self.stream.begin_capture()
            try:
                for launch in launches:
                    launch(self.stream.ptr)
            except BaseException:
                self._abandon_capture()
                raise
            return self.stream.end_capture()

    def _abandon_capture(self) -> None:
        # The launch may have invalidated the capture already: its own error is the one to report.
        with contextlib.suppress(self._cupy.cuda.runtime.CUDARuntimeError):
            self.stream.end_capture()
        self.stream = self._cupy.cuda.Stream(non_blocking=True)

    def hot(self, launches: dict[str, Launch]) -> dict[str, Timing]:
        """Device time per product, each one run over and over, as a solver does."""
        self._replay(self._flush_graph, SPIN_UP)
        batches = {name: self._batch(launch) for name, launch in launches.items()}
        samples: dict[str, list[float]] = {name: [] for name in launches}
        for _ in range(ROUNDS):
            for name, (graph, count, estimate) in batches.items():
                replays = _clamp(self._seconds / ROUNDS * 1e6 / (count * estimate), 5, 25)
                self._replay(graph, 2)
                samples[name] += [us / count for us in self._replay(graph, replays)]
        return {name: Timing.of(values) for name, values in samples.items()}

    def cold(self, launches: dict[str, Launch]) -> dict[str, Timing]:
        """Device time per product when neither the matrix nor the vectors are in the L2 cache.

        The cache is flushed before each product within one graph, and the time of a graph of flushes alone is
        taken off, so no launch or event stands between the two.
        """
        graphs = {
            name: self.capture([self._flush_launch, launch] * COLD_PAIRS) for name, launch in launches.items()
        }
        samples: dict[str, list[float]] = {name: [] for name in launches}
        for _ in range(ROUNDS):
            self._replay(self._flush_graph, 1)
            flush = statistics.median(self._replay(self._flush_graph, 3))
            for name, graph in graphs.items():
                self._replay(graph, 1)
                samples[name] += [max(us - flush, 0.0) / COLD_PAIRS for us in self._replay(graph, 3)]
        return {name: Timing.of(values) for name, values in samples.items()}

    def python_calls(self, call: Call, seconds: float = 0.03, most: int = 200) -> Timing:
        """Time per call from Python, one after the other, until the last result is there.

        A few hundred calls are issued without waiting: fewer than the launch queue holds, so the host is not
        stopped by a slow kernel.
        """

        def series(count: int) -> None:
            for _ in range(count):
                call()
            self.synchronize()

        series(5)
        estimate = max(timed(lambda: series(5))[0] / 5, 1e-6)
        count = _clamp(seconds / ROUNDS / estimate, 5, most)
        return Timing.of([1e6 * timed(lambda: series(count))[0] / count for _ in range(ROUNDS)])

    def copy_bandwidth(self, by_kernel: bool = False, megabytes: int = 2048) -> float:
        """Bytes read plus written per second by a large device-to-device copy.

        A kernel reaches more than the copy engine behind a captured memcpy.
        """
        cupy = self._cupy
        source = cupy.ones(megabytes << 17, dtype=cupy.float64)
        target = cupy.empty_like(source)
        kernel = cupy.ElementwiseKernel("float64 a", "float64 b", "b = a", "copy_kernel")

        def copy(stream: int) -> None:
            if by_kernel:
                with cupy.cuda.ExternalStream(stream):
                    kernel(source, target)
            else:
                to_device = cupy.cuda.runtime.memcpyDeviceToDevice
                pointers = target.data.ptr, source.data.ptr
                cupy.cuda.runtime.memcpyAsync(*pointers, source.nbytes, to_device, stream)

        graph = self.capture([copy] * 4)
        self._replay(graph, 3)
        seconds = statistics.median(self._replay(graph, 10)) * 1e-6 / 4
        return float(2 * source.nbytes / seconds)

    def _batch(self, launch: Launch) -> tuple[Any, int, float]:
        """A graph of enough products to fill `BATCH_US`, their number, and the estimated time of one."""
        single = self.capture([launch])
        self._replay(single, 3)
        # The time of a single product has the launch of its graph in it: good enough to choose a batch size.
        estimate = max(statistics.median(self._replay(single, 3)), 1.0)
        count = _clamp(BATCH_US / estimate, 4, 60)
        graph = self.capture([launch] * count)
        estimate = max(min(self._replay(graph, 2)) / count, 0.5)
        return graph, count, estimate

    def _replay(self, graph: Any, times: int) -> list[float]:
        """Microseconds of each replay; the replays queue up behind one another."""
        events = [(self._cupy.cuda.Event(), self._cupy.cuda.Event()) for _ in range(times)]
        for before, after in events:
            before.record(self.stream)
            graph.launch(self.stream)
            after.record(self.stream)
        self.stream.synchronize()
        return [self._cupy.cuda.get_elapsed_time(before, after) * 1e3 for before, after in events]

    def _make_flush(self) -> Launch:
        """A launch that reads more than the cache holds; reading leaves nothing to be written back later."""
        cupy = self._cupy
        kernel = cupy.RawKernel(
            r"""
            extern "C" __global__ void flush(const float4* data, long long count, float* sink) {
                float sum = 0;
                for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count;
                     i += (long long)gridDim.x * blockDim.x) {
                    float4 v = data[i];
                    sum += v.x + v.y + v.z + v.w;
                }
                if (sum == -1.0f) *sink = sum;  // never: keeps the loads from being optimised away
            }
            """,
            "flush",
        )
        data = cupy.ones(FLUSH_FACTOR * self.l2_bytes // 4, dtype=cupy.float32)
        sink = cupy.zeros(1, dtype=cupy.float32)
        blocks = 4 * int(cupy.cuda.Device().attributes["MultiProcessorCount"])
        count = cupy.int64(data.size // 4)
        kernel.compile()

        def launch(stream: int) -> None:
            kernel((blocks,), (512,), (data, count, sink))  # goes to CuPy's current stream, which is this one

        return launch


def _clamp(value: float, low: int, high: int) -> int:
    return max(low, min(high, math.ceil(value)))
