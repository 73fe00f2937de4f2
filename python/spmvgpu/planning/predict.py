"""Predictions of time, memory and padding for each format of a matrix on a device."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from .. import _core
from .._util.arguments import one_of, with_hints
from .._util.plugins import Plugins
from .._util.show import Brief, html_table, wrapped
from .._util.steps import step
from .._util.value_types import value_type
from ..devices import CPU, device_name, resolve_device
from ..formats import formats, plan_csr
from ..inputs.canonical import canonical_csr
from ..inputs.compressed import pieces_of
from ..inputs.source import DeviceCsr
from .profile import Profile, Variant, is_profile_of, load_profile
from .roofline import variant_name

#: Of a format, its least time in microseconds, its error, and the best prediction so far.
WorthAPlan: TypeAlias = "Callable[[str, float, float | None, Prediction], bool]"

_NOT_MEASURED = (Variant({}, None, None),)
_NOT_CALIBRATED = "from its bytes alone: the profile has no times for this format, so auto does not choose it"


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
    bytes : float or None
        Memory on the device in bytes. None if the format cannot hold the matrix.
    padding : float or None
        Stored slots per non-zero. None if the format cannot hold the matrix.
    error : float or None
        Mean relative error of the model for this format, on matrices that it was not fitted to. None if it is
        unknown, as with the profile of another device.
    note : str
        Why there is no time, or a remark on it.

    Examples
    --------
    >>> import spmvgpu as sg
    >>> predictions = sg.predict(sg.gallery.poisson2d(30), "cpu")
    >>> csr = next(p for p in predictions if p.name == "csr")
    >>> csr.format, csr.padding, csr.time_us > 0
    ('csr', 1.0, True)
    """

    format: str
    options: dict[str, Any] = field(default_factory=dict)
    time_us: float | None = None
    bytes: float | None = None
    padding: float | None = None
    error: float | None = None
    note: str = ""

    @property
    def name(self) -> str:
        """Format and options as one string."""
        return variant_name(self.format, self.options)


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

    Examples
    --------
    >>> import spmvgpu as sg
    >>> predictions = sg.predict(sg.gallery.poisson2d(30), "cpu")
    >>> predictions.best is predictions[0]
    True
    """

    def __init__(
        self, entries: Sequence[Prediction], nnz: int, device: str, model: str, profile: str
    ) -> None:
        infinity = float("inf")
        self._entries = sorted(entries, key=lambda p: infinity if p.time_us is None else p.time_us)
        self._nnz = nnz
        self.device = device
        self.model = model
        self.profile = profile

    def __getitem__(self, index: Any) -> Any:
        return self._entries[index]

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Prediction]:
        return iter(self._entries)

    @property
    def best(self) -> Prediction:
        """The prediction with the shortest time."""
        return self._entries[0]

    def table(self, in_use: str | None = None, options: Mapping[str, Any] | None = None) -> str:
        """Return the predictions as a text table.

        Parameters
        ----------
        in_use : str, optional
            Format to mark as in use.
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
        >>> print(predictions.table().splitlines()[0])
        format                 us/product  error  bytes/non-zero  padding
        """
        in_force = (options or {}).get("parts", [options])
        lines, below, notes = [_HEAD], [], []
        for entry in self:
            if entry.time_us is None and entry.note:
                refusal = entry.note.removeprefix(f"format '{entry.format}' ")
                below.append(wrapped(f"{entry.name}: {refusal}"))
                continue
            used = entry.format == in_use and any(
                entry.options.items() <= (given or entry.options).items() for given in in_force
            )
            mark = "  <- in use" if used else ""
            if entry.note:
                notes += [entry.note] if entry.note not in notes else []
                mark += f"  [{notes.index(entry.note) + 1}]"
            lines.append(_line(entry.name, *_cells(entry, self._nnz)) + mark)
        lines += [wrapped(f"[{number}] {note}") for number, note in enumerate(notes, 1)]
        return "\n".join(lines + below)

    def __str__(self) -> str:
        return f"{wrapped(self.caption)}\n{self.table()}"

    def __repr__(self) -> str:
        """The fastest; `str` has them all."""
        fastest = [_line(entry.name, *_cells(entry, self._nnz)) for entry in self[:_MOST_SHOWN]]
        return "\n".join([_HEAD, *fastest, f"... {len(self)} formats for {self.device}; print() shows all"])

    @property
    def caption(self) -> str:
        """Device, model and profile of the predictions."""
        return f"predicted for {self.device} by model {self.model!r} with the profile of {self.profile}"

    def _repr_html_(self) -> str:
        heads = ("format", "us/product", "error", "bytes/non-zero", "padding", "")
        rows = [(entry.name, *_cells(entry, self._nnz), entry.note) for entry in self]
        return html_table(self.caption, rows, heads)


def _line(name: str, time: str, error: str, size: str, padding: str) -> str:
    return f"{name:<22} {time:>10} {error:>6} {size:>15} {padding:>8}"


_HEAD = _line("format", "us/product", "error", "bytes/non-zero", "padding")
_MOST_SHOWN = 3  # by `repr`


def _cells(entry: Prediction, nnz: int) -> tuple[str, str, str, str]:
    def show(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    per_entry = None if entry.bytes is None else entry.bytes / max(nnz, 1)
    return (
        show(entry.time_us, ".2f"),
        show(entry.error, ".0%"),
        show(per_entry, ".2f"),
        show(entry.padding, ".2f"),
    )


@with_hints
def predict(
    A: Any,
    device: str = "auto",
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
    predict: Callable[[Any, int, Profile, Iterable[str]], list[Prediction]]


_ADDED: Mapping[str, Model] = Plugins("model")
MODELS = ("roofline", *_ADDED)


def predict_csr(
    csr: Any,
    ordinal: int,
    model: str,
    profile: Profile,
    names: Iterable[str] | None = None,
    to_choose: bool = False,
    is_worth_a_plan: WorthAPlan | None = None,
) -> Predictions:
    """`predict` of a matrix that is canonical CSR already, for the formats in `names`, or all of them.

    With `to_choose` for those of them that the profile has measurements of, for one to be chosen: what
    follows from bytes alone is a bound, and nobody has timed how near to it the format comes on the device.
    If there are none, there is nothing better than bounds. Of a format with several kernels it is the one
    that the format itself takes for the matrix, as in what is built.

    `is_worth_a_plan` is asked with a format, the least time that it could take, its error, and the best of
    the others so far; what is not worth one is left out.
    """
    chosen = formats() if names is None else tuple(names)
    if to_choose:
        known = profile.variants[value_type(csr.dtype).profile]
        chosen = tuple(name for name in chosen if name in known) or chosen
    is_own = is_profile_of(profile, ordinal)
    if model in _ADDED:
        entries = _ADDED[model].predict(csr, ordinal, profile, chosen)
    else:
        pieces = list(pieces_of(csr))
        worth = is_worth_a_plan if len(pieces) == 1 else None  # each of several would leave out others
        each = [_by_roofline(piece, ordinal, profile, chosen, is_own, to_choose, worth) for piece in pieces]
        entries = each[0] if len(each) == 1 else _together(each, chosen)
    source = profile.device
    if not is_own:
        source += f" with {profile.processors} processors, another device, so the error is unknown"
    return Predictions(entries, csr.nnz, device_name(ordinal), model, source)


def features(csr: Any) -> dict[str, Any]:
    """What the models know of a matrix that is canonical CSR."""
    with step("features"):
        if isinstance(csr, DeviceCsr):
            return csr.features
        return _core.features(csr.indptr, csr.indices, csr.data, csr.shape[1])


def _by_roofline(
    csr: Any,
    ordinal: int,
    profile: Profile,
    names: Iterable[str],
    is_own: bool,
    own_kernels: bool,
    is_worth_a_plan: WorthAPlan | None,
) -> list[Prediction]:
    known = profile.variants[value_type(csr.dtype).profile]
    # A CPU's profile holds for any number of threads.
    processors = _core.max_threads() if profile.kind == "cpu" else profile.processors
    case = profile.model(csr.dtype).case(features(csr), processors)
    # Of the device that the profile is of, which need not be here.
    first_gpu = 0
    planned = CPU if profile.kind == "cpu" else max(ordinal, first_gpu)
    candidates: list[tuple[float, str, Sequence[Variant]]] = []
    for name in names:
        measured = known.get(name, _NOT_MEASURED)
        for variants in [measured] if own_kernels else [[variant] for variant in measured]:
            places = [variant.place for variant in variants if variant.place is not None]
            asked = places if is_worth_a_plan is not None else []
            least = min((case.least_time_us(place, planned) for place in asked), default=0.0)
            candidates.append((least, name, variants))
    candidates.sort(key=lambda candidate: candidate[0])
    entries: list[Prediction] = []
    best: Prediction | None = None
    refusing: set[str] = set()  # all variants alike
    for least, name, variants in candidates:
        error = max((v.error for v in variants if v.error is not None), default=None) if is_own else None
        if name in refusing or (best and is_worth_a_plan and not is_worth_a_plan(name, least, error, best)):
            continue
        options = variants[0].options if len(variants) == 1 else {}
        try:
            plan = plan_csr(csr, name, planned, options, processors)
        except _core.FormatError as refused:
            entries.append(Prediction(name, note=str(refused)))
            refusing.add(name)
            continue
        note = ""
        taken = plan.options.items()
        variant = next((v for v in variants if v.options.items() <= taken), variants[0])
        if variant.place is not None:
            time = case.time_us(variant.place, plan)
        else:
            moved = plan.bytes + sum(csr.shape) * csr.dtype.itemsize
            launch_us = profile.roofline[value_type(csr.dtype).profile]["launch_us"]
            time = launch_us + 1e6 * moved / profile.memory_bandwidth
            note = _NOT_CALIBRATED
        error = variant.error if is_own else None
        entries.append(Prediction(name, options, time, plan.bytes, plan.padding, error, note))
        if best is None or time < (best.time_us or 0.0):
            best = entries[-1]
    return entries


def _together(pieces: Sequence[Sequence[Prediction]], names: Iterable[str]) -> list[Prediction]:
    """The predictions for a matrix whose pieces are multiplied one after the other."""
    entries = []
    for name in names:
        every = [[entry for entry in piece if entry.format == name] for piece in pieces]
        refused = next((entry for found in every for entry in found if entry.time_us is None), None)
        if refused is not None:
            entries.append(refused)
            continue
        for same in zip(*every, strict=True):
            time = sum(entry.time_us or 0.0 for entry in same)
            size = sum(entry.bytes or 0.0 for entry in same)
            padding = max(entry.padding or 0.0 for entry in same)
            entries.append(replace(same[0], time_us=time, bytes=size, padding=padding))
    return entries
