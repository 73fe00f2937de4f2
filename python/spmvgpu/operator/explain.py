"""What `explain` says of an operator, and the table that notebooks show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from .. import _core
from .._core import MultiDeviceMatrix
from .._util.show import html_table, in_bytes, short, wrapped
from .._util.steps import in_words
from ..devices import CPU, device_name
from ..formats import traits
from ..inputs import limits
from ..multi_device.division import DevicePart
from ..planning.parts import counts, format_of, options, value_map_bytes
from ..planning.predict import Prediction, Predictions, predict_csr, without_times
from ..planning.profile import load_profile
from .stored import StoredMatrix

# Formats that are predicted to be faster by less than this are not worth a word.
_LEAST_GAIN = 1.05


def summary(stored: StoredMatrix, nbytes: int) -> str:
    """The facts of an operator, which holds `nbytes`, in one line however long."""
    (rows, cols), matrix, threads = stored.shape, stored.matrix, stored.description.threads
    return (
        f"<{rows}x{cols} SparseOperator of {stored.dtype}, {matrix.nnz} stored entries, "
        f"format {stored.description.choice.format!r} on {stored.device!r}, {nbytes} bytes"
        f"{'' if threads is None else f', at most {threads} threads'}>"
    )


def explanation(stored: StoredMatrix, nbytes: int) -> str:
    """Why the format is in use, what is stored, and what other formats are predicted to cost."""
    head = wrapped(summary(stored, nbytes))
    matrix = stored.matrix
    lines = _divided(matrix, stored.parts) if isinstance(matrix, MultiDeviceMatrix) else _alone(stored)
    return "\n".join([head, *lines])


def _divided(matrix: MultiDeviceMatrix, parts: Sequence[DevicePart]) -> list[str]:
    """Which part of the matrix each device has."""
    lines = ["", f"{'device':8s} {'rows':>12s} {'non-zeros':>14s} {'bytes':>16s}   format"]
    for part, (own, *_) in zip(parts, matrix.parts, strict=True):
        facts = f"{device_name(part.ordinal):8s} {own.rows:12,d} {own.nnz:14,d} {own.nbytes:16,d}"
        lines.append(f"{facts}   {format_of(own)}")
    return lines + [wrapped(part.reason) for part in parts if part.reason]


def _alone(stored: StoredMatrix) -> list[str]:
    matrix, choice, tuning = stored.matrix, stored.description.choice, stored.tuning
    lines = [f"chosen because {choice.reason}"]
    if tuning is not None:
        if tuning.trials:
            trials = (f"{trial.name} {trial.time_us:.2f} us" for trial in tuning.trials)
            took = f"{tuning.products} products and {tuning.seconds:.3f} s"
            lines.append(f"tuning took {took}: {', '.join(trials)}")
        if tuning.steps:
            lines.append(f"made in {in_words(tuning.steps)}")
    if matrix.nnz > limits.ENTRY_LIMIT:
        lines.append(f"stored in chunks of some rows each: a format holds {limits.ENTRY_LIMIT} entries")
    counted = ", ".join(f"{name} {count:.0f}" for name, count in counts(matrix).items() if count)
    if counted:
        lines.append(f"stored with: {counted}")
    if map_bytes := value_map_bytes(matrix):
        lines.append(f"update_values keeps {map_bytes} bytes that say where values belong")
    (ordinal,) = stored.ordinals
    predictions = predict_csr(
        stored.canonical_there(may_lend=True), ordinal, "roofline", load_profile(ordinal)
    )
    notes: Iterable[str] = ()
    if predictions.is_calibrated:
        lines += [
            "",
            predictions.caption,
            *_bound(predictions._used(choice.format, options(matrix)), ordinal),
        ]
        notes = _faster(stored, predictions, ordinal)
    else:  # Times of another device often contradict the choice, which knows this matrix.
        lines += [
            "",
            f"times are known after a run of python -m spmvgpu calibrate --device {device_name(ordinal)}",
        ]
        predictions = without_times(predictions)
    return [*map(wrapped, lines), predictions.table(choice.format, options(matrix)), *map(wrapped, notes)]


_PARTS = {
    "bytes": "the bytes",
    "gathers": "reads of x",
    "work": "instructions",
    "waits": "loads that wait for others",
    "start": "the start",
}


def _bound(used: Sequence[Prediction], ordinal: int) -> Iterator[str]:
    """What binds the time of a product, as far as that is predicted."""
    for entry in used:
        if not entry.parts_us:
            continue
        parts = sorted(entry.parts_us.items(), key=lambda part: -part[1])
        words = [f"{_PARTS[name]} {us:.1f}" for name, us in parts]
        overlap = "; they overlap" if ordinal != CPU else ""
        bound = _PARTS[parts[0][0]]
        yield f"a product of {entry.time_us:.1f} us is bound by {bound}: {', '.join(words)}{overlap}"


def _faster(stored: StoredMatrix, predictions: Predictions, ordinal: int) -> Iterator[str]:
    """What is predicted to be faster than the format in use, but is not considered, and how to get it."""
    in_use, tuning = stored.description.choice.format, stored.tuning
    own_us = next((entry.time_us for entry in predictions if entry.format == in_use), None)
    for entry in predictions:
        format, time_us, known = entry.format, entry.time_us, traits(entry.format)
        if not time_us or own_us is None or own_us < _LEAST_GAIN * time_us:
            return
        promise = f"{format} is predicted to be {own_us / time_us:.2f} times as fast as {in_use}"
        if known.only_if_asked:
            if entry == predictions.best:
                yield f"{promise}. It is there for experiments: only format={format!r} gives it"
        elif tuning is not None and tuning.mode == "full":
            return
        elif _core.takes_long_to_plan(format, ordinal):
            asked = "symmetric=True or tune='full'" if known.needs_symmetry else "tune='full'"
            yield f"{promise}. Planning it takes as long as tens of products or more, so it needs {asked}"
        elif ordinal != CPU and known.needs_few_values:
            yield f"{promise}. It is considered with tune='full', or for few values on near columns"


def html(stored: StoredMatrix, nbytes: int) -> str:
    """The facts of an operator, which holds `nbytes`, as an HTML table."""
    choice = stored.description.choice
    facts = {
        "shape": f"{stored.shape[0]:,} x {stored.shape[1]:,}",
        "dtype": stored.dtype,
        "non-zeros": f"{stored.matrix.nnz:,}",
        "format": choice.format,
        "options": ", ".join(f"{name}={short(value)}" for name, value in options(stored.matrix).items()),
        "chosen because": choice.reason,
        "device": ", ".join(map(device_name, stored.ordinals)),
        "memory": in_bytes(nbytes),
    }
    return html_table("SparseOperator", [(name, value) for name, value in facts.items() if value])
