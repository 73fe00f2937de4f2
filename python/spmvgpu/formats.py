"""Storage formats: their names, options and traits, and the choice of one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from . import _core
from ._util.arguments import did_you_mean
from ._util.lazy import lazy
from ._util.schema import Range
from ._util.types import Format, Options

if TYPE_CHECKING:
    from ._core import FormatName

Indices: TypeAlias = npt.NDArray[np.int32]
#: Which row, or column, comes where: an array, a range if none moves, or what stays on the matrix's device.
Order: TypeAlias = Indices | range | _core.Permutation

_FORMATS = {entry["name"]: entry for entry in _core.describe_formats()}


@dataclass(frozen=True)
class Choice:
    """A format, the options it is built with, and why.

    With `parts`, those are built instead, each by a choice of its own, and `format` names the whole.
    """

    format: Format | Any  # that of parts, and of a plan in words, is no name that a caller may give
    options: Options = field(default_factory=dict)
    reason: str = "it was asked for"
    parts: tuple[Part, ...] = field(default=(), compare=False)

    @property
    def name(self) -> str:
        return variant_name(self.format, self.options)


class Part:
    """The part A[rows, cols] of a matrix A, and how it is stored.

    Attributes
    ----------
    rows : (m,) array of int32
        Rows of A, in the order in which the part has them.
    choice : Choice
        Format and options of the part.
    cols : (n,) array of int32, or None
        Columns of A, in the order in which the part has them; None: all of them. What the part's rows have in
        other columns must be empty.
    """

    def __init__(self, rows: Order, choice: Choice, cols: Order | None = None) -> None:
        self.choice = choice
        self._rows, self._cols = rows, cols

    @lazy
    def rows(self) -> Indices:
        return indices_of(self._rows)

    @lazy
    def cols(self) -> Indices | None:
        if self._cols is self._rows:
            return self.rows
        return None if self._cols is None else indices_of(self._cols)

    def __reduce__(self) -> tuple[Any, ...]:
        return Part, (self.rows, self.choice, self.cols)


def indices_of(order: Order) -> Indices:
    """The array of an order, wherever it is."""
    if isinstance(order, range):
        return np.arange(order.start, order.stop, dtype=np.int32)  # NumPy reads a range number by number
    given = order.indices() if isinstance(order, _core.Permutation) else order
    return np.ascontiguousarray(given, dtype=np.int32)


def variant_name(format: str, options: Options) -> str:
    """A format with the options that make a kernel of its own of it."""
    return " ".join([format, *(f"{name}={value}" for name, value in sorted(options.items()))])


def formats() -> tuple[FormatName, ...]:
    """Return the names of the storage formats.

    Returns
    -------
    tuple of str
        Values of the argument `format` of `aslinearoperator`.

    Examples
    --------
    >>> import spmvgpu as sg
    >>> "csr" in sg.formats()
    True
    """
    return tuple(_FORMATS)


def traits(format: str) -> _core.Traits:
    """What is true of a format whatever the matrix; nothing is of a name that is not one of `formats()`."""
    return _FORMATS[format]["traits"] if format in _FORMATS else _core.Traits()


def format_options(format: Format) -> list[dict[str, Any]]:
    """Return the options of a storage format.

    Parameters
    ----------
    format : str
        One of `formats()`.

    Returns
    -------
    list of dict
        One dictionary per option, with these keys. "name" is the name. "default" is the default value, where
        0 often means an automatic choice. "allowed" is a list of values, or a tuple ``(lowest, highest)``.
        The tuple may have a third item, a name that is allowed too.

    Raises
    ------
    TypeError, ValueError
        If there is no such format.

    Examples
    --------
    >>> import spmvgpu as sg
    >>> for option in sg.format_options("sell"):
    ...     print(option["name"], option["default"], option["allowed"])
    sigma 0 [0, 1, 32, 128, 256, 512, 1024, 4096, 16384]
    warps_per_slice 0 [0, 1, 2, 4, 8, 16, 32]
    max_padding 4.0 (1.0, 1000000.0)
    """
    return [dict(option) for option in _FORMATS[check_format(format)]["options"]]


def options_table(format: str) -> dict[str, Any]:
    """What the options of a format may be, as `spmvgpu._util.schema.check` takes it."""
    return {option["name"]: _table_of(option["allowed"]) for option in _FORMATS[format]["options"]}


def _table_of(allowed: Any) -> Any:
    if not isinstance(allowed, tuple):
        return set(allowed)
    low, high, *names = allowed
    return (Range(low, high, whole=True), set(names)) if names else Range(low, high)


def candidates(format: str) -> list[Options]:
    """What tuning a format tries, likeliest first."""
    return [dict(options) for options in _FORMATS[format]["candidates"]]


def check_format(format: Any) -> str:
    """The name itself, if it is one of `formats()`."""
    if not isinstance(format, str) or format not in _FORMATS:
        kind = ValueError if isinstance(format, str) else TypeError
        allowed = f"allowed are 'auto', {', '.join(map(repr, _FORMATS))}{did_you_mean(format, _FORMATS)}"
        raise kind(f"unknown format {format!r}; {allowed}")
    return format
