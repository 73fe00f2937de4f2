"""Yang, Li, Mo, Li: Performance Optimization Using Partitioned SpMV on GPUs and Multicore CPUs, 2015.

Four ways of splitting ten matrices (section 4), their balance (tables 1 and 2) and density (figure 10), and
the time and flop rate of products whose parts run on CPU threads (test 1, figures 6 to 9) or on a GPU and the
CPU (test 2, figures 11 to 14). Beyond the paper: the computing powers of this machine, and whether it pays to
add the CPU to the GPU at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import spmvgpu as sg
from experiments.clock import timed
from experiments.papers.claims import print_wrapped
from experiments.papers.cpu_parts import ThreadParts
from experiments.papers.matrices import Sample
from experiments.papers.measure import NotMeasuredError, Variant, build, gflops, time_calls
from experiments.papers.run import Run, Table
from experiments.papers.yang2015_claims import (
    ALGORITHMS,
    BLOCKS,
    CPU_ALONE,
    GPU_ALONE,
    PAPER_POWERS,
    PAPER_THREADS,
    all_claims,
    cpu_threads,
    of_partitions,
)
from experiments.papers.yang2015_matrices import YANG2015, load
from experiments.peers.problem import DTYPES, Problem, WrongResultError
from experiments.records import geometric_mean
from spmvgpu import partition

TITLE = (
    "Yang et al. 2015: partitioning by rows, non-zeros, row-length distribution and submatrices"
    " (measured there on two Xeon E5506 and two GeForce GTX 460)"
)
STAND_INS = (
    "generated: their row lengths are about those of the paper's, of which a fraction in the name tells how"
    " many rows there are; in which order long and short rows come is known of nlpkkt and guessed of others"
)

SPLITS: dict[str, Callable[[Any, Sequence[float]], partition.Partition]] = dict(
    zip(ALGORITHMS, (partition.by_rows, partition.by_nnz, partition.by_pmf), strict=True)
)
NAMES = {"f32": "single precision", "f64": "double precision"}
POWERS = {
    "test 1": "the paper's powers, 8 x 1",
    "test 2": "the paper's powers, 75 : 75 : 6 x 1",
    "test 2, here": "this machine's powers",
}

PAD_ALWAYS: dict[str, Any] = {"max_padding": 1e6}  # as the paper did, whatever the matrix
# What section 7.1 stores the GPU's part in: HYB with its own width, or ELL by the name of HYB with all of it.
GPU_PART = {
    "Algorithm 1": Variant("HYB", "hyb", PAD_ALWAYS),
    "Algorithm 2": Variant("HYB", "hyb", PAD_ALWAYS),
    "Algorithm 3": Variant("ELL", "hyb", {"width": "max", **PAD_ALWAYS}),
}
CPU_PART = Variant("CSR", "csr")
MOST_SLOTS = 200_000_000  # of diagonals

CPU_REPEATS = 10


class Sum:
    """The product of a sum of two matrices: at once on two devices, or one after the other."""

    def __init__(self, first: Any, second: Any, at_once: bool) -> None:
        self.first, self.second = first, second
        self.shape, self.dtype, self.nbytes = first.shape, first.dtype, first.nbytes + second.nbytes
        self._other = np.empty(self.shape[0], self.dtype)
        self._worker = ThreadPoolExecutor(1) if at_once else None

    def spmv(self, x: Any, out: Any) -> Any:
        if self._worker is None:
            self.first.spmv(x, out=out)
            return self.second.spmv(x, out=out, beta=1.0)
        begun = self._worker.submit(self.first.spmv, x, out=out)
        self.second.spmv(x, out=self._other)
        begun.result()
        return np.add(out, self._other, out=out)

    def close(self) -> None:
        if self._worker is not None:
            self._worker.shutdown()


def experiment(run: Run) -> None:
    """Measure, print, draw and write."""
    run.start(TITLE)
    run.stand_ins = STAND_INS
    threads = cpu_threads()
    samples = [run.introduce(load(wanted, run.quick)) for wanted in YANG2015]
    _divide(run, "test 1", samples, [1] * PAPER_THREADS)
    _divide(run, "test 2", samples, PAPER_POWERS)
    problems = [
        (sample, dtype, Problem.make(sample.matrix, precision))
        for dtype, precision in DTYPES.items()
        for sample in samples
    ]
    for sample, dtype, problem in problems:
        _alone(run, sample, dtype, problem)
        _test_1(run, sample, dtype, problem, threads)
    if run.on_cpu:
        print_wrapped("\nnote: ", "test 2, and whether adding the CPU pays, need a GPU; they are left out")
    else:
        powers = _powers(run, threads)
        _divide(run, "test 2, here", samples, [*powers[:1], *[1] * threads])
        for sample, dtype, problem in problems:
            _test_2(run, sample, dtype, problem, powers)
    report(run)
    run.claims = all_claims(run)
    run.finish()


def report(run: Run) -> None:
    """Print the tables and draw the figures."""
    for test, what in POWERS.items():
        if of_partitions(run, "powers", test):
            _balance(run, test, what)
    _times(run, "test 1", 6)
    if not run.on_cpu:
        _times(run, "test 2", 11)


def _divide(run: Run, test: str, samples: list[Sample], powers: Sequence[float]) -> None:
    """Sizes of the sets, whatever runs them."""
    for sample in samples:
        for label, split in SPLITS.items():
            seconds, parts = timed(partial(split, sample.matrix, powers))
            wanted = parts.powers / parts.powers.sum() * parts.nnz.sum()
            run.records.setdefault("partitions", []).append(
                {
                    "test": test,
                    "matrix": sample.name,
                    "label": label,
                    "powers": [float(power) for power in powers],
                    "relative_difference": parts.relative_difference,
                    "difference_of_all": 100 * float(np.abs(parts.nnz - wanted).mean() / parts.nnz.sum()),
                    "mean_density": parts.mean_density,
                    "nnz": parts.nnz.tolist(),
                    "elements": parts.elements.tolist(),
                    "seconds": seconds,
                }
            )


def _balance(run: Run, test: str, what: str) -> None:
    """Tables 1 and 2 and figure 10."""
    number = {"test 1": "Table 1: ", "test 2": "Table 2: "}.get(test, "")
    for field, title in (
        ("relative_difference", f"{number}relative difference (%), {what}"),
        ("difference_of_all", f"the same, relative to all non-zeros and averaged over the parts (%), {what}"),
    ):
        run.table(title, of_partitions(run, field, test), form=".4f")
    if test == "test 2":
        density = of_partitions(run, "mean_density", test)
        percent: Table = {
            label: {name: 100 * value for name, value in values.items()} for label, values in density.items()
        }
        run.bars("figure10", "Figure 10: density of the partitions in test 2", "%", percent)


def _alone(run: Run, sample: Sample, dtype: str, problem: Problem) -> None:
    """The whole matrix on the GPU, and on all threads of the CPU, in the format that the library chooses."""
    for label, device in ((CPU_ALONE, "cpu"), (GPU_ALONE, run.device)):
        if label == CPU_ALONE or not run.on_cpu:
            variant = Variant(label, "auto")
            _measure(run, sample, dtype, problem, variant, device, "alone")


def _measure(
    run: Run,
    sample: Sample,
    dtype: str,
    problem: Problem,
    variant: Variant,
    device: str | list[str],
    test: str,
    **more: Any,
) -> dict[str, Any] | None:
    """Time a product that starts and ends with NumPy arrays, and on a single device the product alone."""
    try:
        op, size = build(problem, variant, device)
    except NotMeasuredError as error:
        run.skip(sample, dtype, f"{variant.label} ({test})", error)
        return None
    repeats = min(run.repeats, CPU_REPEATS)
    time_us = time_calls(op, [problem.x], repeats)
    if isinstance(device, str) and device != "cpu":
        more["kernel_us"] = op.time_products(run.repeats)
    return _add(run, sample, dtype, op.format, variant.label, test, time_us, size, more)


def _add(
    run: Run,
    sample: Sample,
    dtype: str,
    format: str,
    label: str,
    test: str,
    time_us: float,
    size: int,
    more: dict[str, Any],
) -> dict[str, Any]:
    rate = gflops(sample.matrix.nnz, time_us)
    return run.add(
        sample,
        dtype,
        format,
        label=label,
        test=test,
        time_us=time_us,
        bytes=size,
        gflops=rate,
        how="call",
        **more,
    )


def _test_1(run: Run, sample: Sample, dtype: str, problem: Problem, threads: int) -> None:
    """K threads of the CPU, each with a part of its own in CSR."""
    for label, split in SPLITS.items():
        try:
            parts = ThreadParts(problem.matrix, split(problem.matrix, [1] * threads).sets)
            problem.check(parts.multiply(problem.x))
        except (NotMeasuredError, WrongResultError) as error:
            run.skip(sample, dtype, f"{label} (test 1)", error)
            continue
        time_us = parts.time_us(problem.x, min(run.repeats, CPU_REPEATS))
        size = parts.nbytes + sum(problem.matrix.shape) * problem.matrix.dtype.itemsize
        _add(run, sample, dtype, "csr", label, "test 1", time_us, size, {"parts": threads})
    _blocks(run, sample, dtype, problem, "cpu", "test 1")


def _blocks(run: Run, sample: Sample, dtype: str, problem: Problem, device: str, test: str) -> None:
    """Algorithm 4: the blocks by diagonals on the device, and the rest as CSR on the CPU."""
    split = partition.by_submatrices(problem.matrix)
    if split.elements[0] > MOST_SLOTS:
        reason = f"{split.elements[0]} slots of diagonals for {split.nnz[0]} non-zeros"
        run.skip(sample, dtype, f"{BLOCKS} ({test})", reason)
        return
    try:
        blocks = sg.aslinearoperator(split.blocks, "dia", device, **PAD_ALWAYS)
        rest = sg.aslinearoperator(split.remainder, "csr", "cpu")
        size = blocks.nbytes + rest.nbytes + sum(rest.shape) * rest.dtype.itemsize
        both = Sum(blocks, rest, at_once=device != "cpu")
        problem.check(both.spmv(problem.x, np.empty(both.shape[0], both.dtype)))
    except (sg.FormatError, MemoryError, NotMeasuredError) as error:
        run.skip(sample, dtype, f"{BLOCKS} ({test})", error)
        return
    time_us = time_calls(both, [problem.x], min(run.repeats, CPU_REPEATS))
    both.close()
    fields: dict[str, Any] = {"mean_density": split.mean_density}
    if device != "cpu":
        fields["kernel_us"] = max(blocks.time_products(run.repeats), rest.time_products(CPU_REPEATS))
    _add(run, sample, dtype, "dia+csr", BLOCKS, test, time_us, size, fields)


def _powers(run: Run, threads: int) -> list[float]:
    """Section 5.3: the power of the GPU where that of a core of the CPU, as one of all, is 1."""
    columns: Table = {}
    for dtype in DTYPES:
        alone = {"test": "alone", "dtype": dtype}
        called = run.values("time_us", **alone)
        kernels = run.values("kernel_us", label=GPU_ALONE, **alone).get(GPU_ALONE, {})
        for what, times in (("NumPy to NumPy", called.get(GPU_ALONE, {})), ("product alone", kernels)):
            cpu = called.get(CPU_ALONE, {})
            columns[f"{dtype}, {what}"] = {
                name: threads * cpu[name] / times[name] for name in times if name in cpu
            }
    title = f"power of the GPU in cores, {threads} of which make the CPU"
    run.table(title, columns)
    ratios = [ratio for label, values in columns.items() if "NumPy" in label for ratio in values.values()]
    power = geometric_mean(ratios)
    print_wrapped(
        "", f"mean of the products from NumPy arrays, by which test 2 is split: {power:.1f} to {threads}"
    )
    return [power, float(threads)]


def _test_2(run: Run, sample: Sample, dtype: str, problem: Problem, powers: list[float]) -> None:
    """The GPU and the CPU together; and each part alone as the paper stores it, without any transfer."""
    for label, split in SPLITS.items():
        parts = split(problem.matrix, powers)
        try:
            on_gpu, on_cpu = (
                build(_rows_of(problem, rows), variant, device)[0]
                for rows, variant, device in zip(
                    parts.sets, (GPU_PART[label], CPU_PART), (run.device, "cpu"), strict=True
                )
            )
            alone = {
                "gpu_us": on_gpu.time_products(run.repeats),
                "cpu_us": on_cpu.time_products(CPU_REPEATS),
            }
            more = {**alone, "kernel_us": max(alone.values())}
        except NotMeasuredError as error:
            run.skip(sample, dtype, f"{label}, its parts alone", error)
            more = {}
        variant = Variant(label, "auto", {"partition": parts})
        _measure(run, sample, dtype, problem, variant, [run.device, "cpu"], "test 2", **more)
    _blocks(run, sample, dtype, problem, run.device, "test 2")


def _rows_of(problem: Problem, rows: Any) -> Problem:
    return replace(problem, matrix=problem.matrix[rows])


def _times(run: Run, test: str, first: int) -> None:
    """Times and flop rates; the GPU or the CPU alone are for comparison."""
    labels = (*ALGORITHMS, BLOCKS)
    others = (CPU_ALONE,) if test == "test 1" else (GPU_ALONE, CPU_ALONE)
    for field, title, unit in (("time_us", "time", "microseconds"), ("gflops", "flop rate", "GFLOPS")):
        for dtype in DTYPES:
            values = run.values(field, test=test, dtype=dtype)
            alone = run.values(field, test="alone", dtype=dtype)
            heading = f"Figure {first}: {title} of Algorithms 1 to 4 in {test}, {NAMES[dtype]}"
            columns = {label: alone.get(label, {}) for label in others}
            columns |= {label: values.get(label, {}) for label in labels}
            run.bars(f"figure{first}", heading, unit, columns)
            first += 1
    for dtype in DTYPES if test == "test 2" else ():
        kernels = run.values("kernel_us", dtype=dtype)
        run.table(
            "the slower of the parts, each alone as the paper stores it, vectors in place,"
            f" {NAMES[dtype]} (microseconds)",
            {label: kernels.get(label, {}) for label in (GPU_ALONE, *labels)},
        )
