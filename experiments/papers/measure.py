"""Timing one product of one storage format, after checking that it is correct."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

import spmvgpu as sg
from experiments.clock import wall_us
from experiments.papers.matrices import Sample
from experiments.papers.run import Run
from experiments.peers.problem import Problem, WrongResultError
from experiments.records import Row

Array = npt.NDArray[Any]


class NotMeasuredError(Exception):
    """A variant has no time; the message says why."""


@dataclass(frozen=True)
class Variant:
    """A kernel under the paper's name for it: a format of this library with options."""

    label: str
    format: Any
    options: dict[str, Any] = field(default_factory=dict)


def build(problem: Problem, variant: Variant, device: str | list[str]) -> tuple[sg.SparseOperator, int]:
    """The checked operator of a variant, and the bytes of its arrays plus x and y once.

    Raises
    ------
    NotMeasuredError
        If this build lacks the format, or the format refuses the matrix or does not fit the memory, or the
        product is wrong.
    """
    if variant.format not in (*sg.formats(), "auto"):
        raise NotMeasuredError(f"this build has no format {variant.format!r}")
    # A format as the variant has it, whatever tuning found out on this machine before.
    as_it_is = {} if variant.format == "auto" else {"tune": "off"}
    options: dict[str, Any] = {**as_it_is, **variant.options}
    return checked(problem, lambda: sg.aslinearoperator(problem.matrix, variant.format, device, **options))


def checked(problem: Problem, make: Callable[[], sg.SparseOperator]) -> tuple[sg.SparseOperator, int]:
    """As `build`, of an operator that a function makes."""
    try:
        op = make()
        # Before the first product with a NumPy array, which makes the operator keep vectors on the device.
        size = op.nbytes + sum(op.shape) * op.dtype.itemsize
        problem.check(op @ problem.x)
    except (sg.FormatError, MemoryError) as error:
        raise NotMeasuredError(str(error)) from error
    except WrongResultError as error:
        raise NotMeasuredError(f"WRONG RESULT: {error}") from error
    return op, size


def gflops(nnz: int, time_us: float) -> float:
    """Two operations per non-zero."""
    return 2 * nnz / (time_us * 1e3)


def measure_kernel(run: Run, sample: Sample, dtype: str, problem: Problem, variant: Variant) -> Row | None:
    """Add a row with the device time of products; None, and a note of the reason, if there is none."""
    try:
        op, size = build(problem, variant, run.device)
    except NotMeasuredError as error:
        run.skip(sample, dtype, variant.label, error)
        return None
    time_us = op.time_products(run.repeats)
    return run.add(
        sample, dtype, op.format, label=variant.label, time_us=time_us, bytes=size,
        gflops=gflops(op.nnz, time_us), options=op.options,
    )  # fmt: skip


class Multiplies(Protocol):
    """Anything whose calls can be timed."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def dtype(self) -> Any: ...

    def spmv(self, x: Array, out: Array) -> Any: ...


def time_calls(op: Multiplies, vectors: Sequence[Array], repeats: int) -> float:
    """Median microseconds of a call with NumPy arrays, these x in turn: on a GPU, transfers included."""
    out, operands = np.empty(op.shape[0], op.dtype), cycle(vectors)
    first = len(vectors)  # one call with each is not counted
    times = wall_us(lambda: op.spmv(next(operands), out=out), 0.0, least=first + repeats)
    return float(np.median(times[first:]))


def allowed_values(format: str, option: str) -> list[Any]:
    """The values of a format's option to try one by one; without 0, which stands for "choose"."""
    entries = sg.format_options(format) if format in sg.formats() else []
    return [value for entry in entries if entry["name"] == option for value in entry["allowed"] if value != 0]
