"""Predictions of time, memory and padding for each format of a matrix on a device."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from .._core import CsrSource
from .._util.arguments import one_of, plain_options, with_hints
from .._util.plugins import Plugins
from .._util.show import Brief, html_table, wrapped
from .._util.steps import took
from .._util.types import Device, Format, Options
from ..devices import device_name, resolve_device
from ..formats import check_format, formats, variant_name
from ..inputs.canonical import canonical_csr
from ..inputs.csr import CanonicalCsr
from .parts import estimate_csr
from .profile import Profile, is_profile_of, load_model, load_profile, model_of
from .request import Request

_Predicted: TypeAlias = tuple[Sequence[tuple[Any, ...]], Iterable[tuple[str, str, float]]]  # with steps


@dataclass(frozen=True, repr=False)
class Prediction(Brief):
    """Predicted cost of a matrix in one format.

    Attributes
    ----------
    format : str
    options : dict
        Options of the format that the prediction is for.
    time_us : float or None
        Time of a product in microseconds. None if the format cannot hold the matrix, or if the model does not
        cover the format.
    bytes : int or None
        Memory on the device in bytes. None if the format cannot hold the matrix.
    padding : float or None
        Stored slots per non-zero. None if the format cannot hold the matrix.
    error : float or None
        Mean relative error of the model for this format, on matrices that it was not fitted to. None if it is
        unknown, as with the profile of another device.
    note : str
        Why there is no time, or a remark on it.
    parts_us : dict
        What the time consists of, in microseconds: "start", before and after everything else; "bytes", of the
        matrix and of both vectors once; "gathers", reads of x; "work", instructions; "waits", loads and sums
        that wait for each other. On a GPU, traffic (bytes and gathers), work and waits overlap. Empty without
        a time.

    Examples
    --------
    >>> import spmvgpu as sg
    >>> predictions = sg.predict(sg.gallery.poisson2d(30), "cpu")
    >>> csr = next(p for p in predictions if p.name == "csr")
    >>> csr.format, csr.padding, csr.time_us > 0
    ('csr', 1.0, True)
    """

    format: Format
    options: Options = field(default_factory=dict)
    time_us: float | None = None
    bytes: int | None = None
    padding: float | None = None
    error: float | None = None
    note: str = ""
    parts_us: dict[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Format and options as one string."""
        return variant_name(self.format, self.options)


def _time_us(prediction: Prediction) -> float:
    return math.inf if prediction.time_us is None else prediction.time_us


class Predictions(Sequence[Prediction]):
    """Predictions for the formats of a matrix, the fastest first.

    A sequence of `Prediction`. `print` and notebooks show it as a table.

    Attributes
    ----------
    device : str
    model : str
        "roofline" or "guo2011".
    profile : str
        Device on which the model was calibrated.
    is_calibrated : bool
        Whether that device is like this one. If not, only ratios of the times mean something, and tables show
        times as multiples of the time of csr.

    Examples
    --------
    >>> import spmvgpu as sg
    >>> predictions = sg.predict(sg.gallery.poisson2d(30), "cpu")
    >>> predictions.best is predictions[0]
    True
    """

    def __init__(
        self,
        entries: Sequence[Prediction],
        nnz: int,
        device: str,
        model: str,
        profile: str,
        is_calibrated: bool = True,
    ) -> None:
        # Formats without a prediction come after the others, and before those that cannot hold the matrix.
        self._entries = sorted(entries, key=lambda entry: (_time_us(entry), entry.bytes is None))
        self._nnz = nnz
        self.device = device
        self.model = model
        self.profile = profile
        self.is_calibrated = is_calibrated
        csr_us = next((entry.time_us for entry in self._entries if entry.format == "csr"), None)
        self._has_times = any(entry.time_us is not None for entry in entries)
        self._unit_us = 1.0 if is_calibrated else csr_us or 1.0

    def __getitem__(self, index: Any) -> Any:
        return self._entries[index]

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Prediction]:
        return iter(self._entries)

    def _used(self, in_use: str | None, options: Mapping[str, Any] | None) -> list[Prediction]:
        """The predictions for a format with options, as `SparseOperator.options` holds them."""
        in_force = (options or {}).get("parts", [options])
        return [
            entry
            for entry in self
            if entry.format == in_use
            and any(entry.options.items() <= (given or entry.options).items() for given in in_force)
        ]

    @property
    def best(self) -> Prediction:
        """The prediction with the shortest time."""
        return self._entries[0]

    def table(self, in_use: str | None = None, options: Mapping[str, Any] | None = None) -> str:
        """Return the predictions as a text table.

        Parameters
        ----------
        in_use : str, optional
            Format to mark as in use. It comes first.
        options : dict, optional
            Options of that format, as `SparseOperator.options` holds them. They decide between several
            kernels of a format.

        Returns
        -------
        str

        Examples
        --------
        >>> import spmvgpu as sg
        >>> predictions = sg.predict(sg.gallery.poisson2d(30), "cpu")
        >>> predictions.table().split()[0]
        'format'
        """
        used = self._used(in_use, options)
        lines, below, notes = [self._head], [], []
        for entry in sorted(self, key=lambda entry: entry in used, reverse=True):
            if entry.bytes is None and entry.note:
                refusal = entry.note.removeprefix(f"format '{entry.format}' ")
                below.append(wrapped(f"{entry.name}: {refusal}"))
                continue
            mark = "  <- in use" if entry in used else ""
            if entry.note:
                notes += [entry.note] if entry.note not in notes else []
                mark += f"  [{notes.index(entry.note) + 1}]"
            lines.append(self._line(entry) + mark)
        lines += [wrapped(f"[{number}] {note}") for number, note in enumerate(notes, 1)]
        return "\n".join(lines + below)

    def __str__(self) -> str:
        return f"{wrapped(self.caption)}\n{self.table()}"

    def __repr__(self) -> str:
        """The fastest; `str` has them all."""
        fastest = map(self._line, self[:_MOST_SHOWN])
        return "\n".join(
            [self._head, *fastest, f"... {len(self)} formats for {self.device}; print() shows all"]
        )

    @property
    def caption(self) -> str:
        """Device, model and profile of the predictions."""
        return f"predicted for {self.device} by model {self.model!r} with the profile of {self.profile}"

    def _repr_html_(self) -> str:
        rows = [(*self._cells(entry), entry.note) for entry in self]
        return html_table(self.caption, rows, (*self._heads, ""))

    @property
    def _heads(self) -> tuple[str, ...]:
        times = ("us/product" if self.is_calibrated else "time/csr", "error")
        return "format", *(times if self._has_times else ()), "bytes/non-zero", "padding"

    @property
    def _head(self) -> str:
        return _in_columns(*self._heads)

    def _line(self, entry: Prediction) -> str:
        return _in_columns(*self._cells(entry))

    def _cells(self, entry: Prediction) -> tuple[str, ...]:
        def show(value: float | None, form: str) -> str:
            return "-" if value is None else format(value, form)

        per_entry = None if entry.bytes is None else entry.bytes / max(self._nnz, 1)
        is_unknown = entry.time_us is None and entry.bytes is not None
        time = None if entry.time_us is None else entry.time_us / self._unit_us
        times = "not known" if is_unknown else show(time, ".2f"), show(entry.error, ".0%")
        return (
            entry.name,
            *(times if self._has_times else ()),
            show(per_entry, ".2f"),
            show(entry.padding, ".2f"),
        )


def _in_columns(name: str, *cells: str) -> str:
    *times, size, padding = cells
    in_front = "".join(f" {cell:>{width}}" for cell, width in zip(times, (10, 6), strict=False))
    return f"{name:<22}{in_front} {size:>15} {padding:>8}"


_MOST_SHOWN = 3  # by `repr`


@with_hints
def predict(
    A: Any,
    device: Device = "auto",
    model: str = "roofline",
    *,
    dtype: Any = None,
    profile: str | os.PathLike[str] | None = None,
) -> Predictions:
    """Predict the cost of a matrix in each format, without building any.

    Parameters
    ----------
    A : sparse matrix
        As in `aslinearoperator`.
    device : str, default "auto"
        As in `aslinearoperator`.
    model : {"roofline", "guo2011"}
        "roofline" covers all formats, caches and the positions of the columns. ``format="auto"`` uses it.
        "guo2011" is the model of Guo et al. 2011 [1]_. It counts non-zeros, and covers "csr" with a warp per
        row, "ellpack", "coo" and "hyb".
    dtype : dtype, optional
        As in `aslinearoperator`.
    profile : path, optional
        Device profile to use in place of the default one. ``python -m spmvgpu calibrate`` writes such files.

    Returns
    -------
    Predictions
        The fastest format first. Formats that cannot hold the matrix come last, with the reason.

    Raises
    ------
    TypeError, ValueError
        As `aslinearoperator`, and if `model` is not one of these.

    Warns
    -----
    UserWarning
        If the profile cannot be read, or if there is none for this device. Another profile is used then.

    References
    ----------
    .. [1] P. Guo, H. Huang, Q. Chen, L. Wang, E.-J. Lee, P. Chen, "A model-driven partitioning and
       auto-tuning integrated framework for sparse matrix-vector multiplication on GPUs", TeraGrid 2011.

    Examples
    --------
    >>> import spmvgpu as sg
    >>> predictions = sg.predict(sg.gallery.poisson2d(30), "cpu")
    >>> {prediction.format for prediction in predictions} == set(sg.formats())
    True
    """
    one_of("model", model, MODELS)
    ordinal = resolve_device(device)
    check = _ADDED[model].check if model in _ADDED else None
    return predict_csr(canonical_csr(A, dtype=dtype), ordinal, model, load_profile(ordinal, profile, check))


class Model(NamedTuple):
    """A model that a plug-in adds: its parameters are a section of the profile, which `check` may refuse."""

    check: Callable[[Profile], None]
    predict: Callable[[CanonicalCsr, int, Profile, Iterable[Format]], list[Prediction]]


_ADDED: Mapping[str, Model] = Plugins("model")
MODELS = ("roofline", *_ADDED)


def predict_csr(csr: CanonicalCsr, ordinal: int, model: str, profile: Profile) -> Predictions:
    """`predict` of a canonical matrix."""
    if model in _ADDED:
        entries = _ADDED[model].predict(csr, ordinal, profile, formats())
    else:
        known = model_of(profile, ordinal, csr.dtype)
        entries = _of_pieces(csr, lambda source: source.predict(ordinal, known))
    source, is_calibrated = profile.device, is_profile_of(profile, ordinal)
    if not is_calibrated:
        source += f" with {profile.processors} processors, another device, so the error is unknown"
    return Predictions(entries, csr.nnz, device_name(ordinal), model, source, is_calibrated)


def without_times(predictions: Predictions) -> Predictions:
    """The memory and the padding alone, the least memory first."""
    entries = [replace(entry, time_us=None, note="" if entry.bytes else entry.note) for entry in predictions]
    entries.sort(key=lambda entry: entry.bytes or 0)
    known = predictions.device, predictions.model, predictions.profile, predictions.is_calibrated
    return Predictions(entries, predictions._nnz, *known)


def predict_considered(csr: CanonicalCsr, request: Request, ordinal: int) -> list[Prediction]:
    """The predictions for the formats that ``format="auto"`` considers.

    Of a format with several kernels it is the one that the format itself takes for the matrix, as in what is
    built.
    """
    model, mode, symmetric = load_model(ordinal, csr.dtype), request.tune, request.declared
    return _of_pieces(csr, lambda source: source.predict_considered(ordinal, model, mode, symmetric))


def fastest(predictions: Sequence[Prediction]) -> Prediction:
    """The one with the shortest time; one without a time where there is no other."""
    return min(predictions, key=_time_us)


def _of_pieces(csr: CanonicalCsr, predict: Callable[[CsrSource], _Predicted]) -> list[Prediction]:
    """The predictions for a matrix whose pieces are multiplied one after the other."""
    pieces = []
    for piece in csr.pieces():
        found, steps = predict(piece.source)
        took(steps)
        pieces.append([Prediction(*entry) for entry in found])
    return pieces[0] if len(pieces) == 1 else _together(pieces)


def _together(pieces: Sequence[Sequence[Prediction]]) -> list[Prediction]:
    entries = []
    for name in dict.fromkeys(entry.format for entry in pieces[0]):
        every = [[entry for entry in piece if entry.format == name] for piece in pieces]
        refused = next((entry for found in every for entry in found if entry.bytes is None), None)
        if refused is not None:
            entries.append(refused)
            continue
        for same in zip(*every, strict=True):
            times = [entry.time_us for entry in same if entry.time_us is not None]
            time = sum(times) if len(times) == len(same) else None
            size = sum(entry.bytes or 0 for entry in same)
            padding = max(entry.padding or 0.0 for entry in same)
            parts = {name: sum(entry.parts_us[name] for entry in same) for name in same[0].parts_us}
            entries.append(replace(same[0], time_us=time, bytes=size, padding=padding, parts_us=parts))
    return entries


@with_hints
def estimate(A: Any, format: Format, device: Device = "auto", **options: Any) -> dict[str, float]:
    """Return the memory and the padding of a matrix in a format, without building it.

    Parameters
    ----------
    A : sparse matrix
        As in `aslinearoperator`.
    format : str
        One of `formats()`.
    device : str, default "auto"
        As in `aslinearoperator`.
    **options
        Options of the format, see `format_options`.

    Returns
    -------
    dict
        "bytes" is the memory on the device, including scratch memory for products. "padding" is the number of
        stored slots per non-zero.

    Raises
    ------
    FormatError
        If the format cannot hold the matrix.
    TypeError, ValueError
        As `aslinearoperator`.

    Examples
    --------
    >>> import spmvgpu as sg
    >>> A = sg.gallery.poisson2d(16)
    >>> for format in "csr", "ellpack":
    ...     print(f"{format}: {sg.estimate(A, format, 'cpu')['padding']:.2f}")
    csr: 1.00
    ellpack: 1.05
    """
    ordinal = resolve_device(device)
    return estimate_csr(canonical_csr(A), check_format(format), ordinal, plain_options(options))
