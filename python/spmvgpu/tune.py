"""Choosing a format, and the tunables of a format."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core
from .canonical import canonical_csr
from .devices import CPU

if TYPE_CHECKING:
    from .parts import Part

# SELL reads with perfect coalescing, CSR stores no padding and spreads a small matrix over more threads.
# Measured on an H200: SELL is the faster one above so many non-zeros and below so many slots per non-zero.
_SELL_MIN_NNZ = 3_000_000
_SELL_MAX_PADDING = 1.25

Matrix = _core.MatrixF32 | _core.MatrixF64

_FORMATS = {entry["name"]: entry for entry in _core.describe_formats()}


@dataclass(frozen=True)
class Choice:
    """A format, the options it is built with, and why.

    With `parts`, those are built instead, each by a choice of its own, and `format` names the whole.
    """

    format: str
    options: dict[str, Any] = field(default_factory=dict)
    reason: str = "it was asked for"
    parts: tuple[Part, ...] = field(default=(), compare=False)


def formats() -> tuple[str, ...]:
    """Names of the storage formats, as `aslinearoperator` takes them."""
    return tuple(_FORMATS)


def format_options(format: str) -> list[dict[str, Any]]:
    """The tunables of a format.

    Parameters
    ----------
    format : str
        One of `formats()`.

    Returns
    -------
    list of dict
        "name", "default" (0 usually stands for an automatic choice) and "allowed": a list of values, or a
        tuple (lowest, highest), with a third element where a name is allowed as well.
    """
    return [dict(option) for option in _FORMATS[_check_format(format)]["options"]]


def estimate(A: Any, format: str, **options: Any) -> dict[str, float]:
    """What a format would cost for a matrix, without building it.

    Parameters
    ----------
    A : sparse matrix
        As `aslinearoperator` takes it.
    format : str
        One of `formats()`.
    **options
        Tunables of the format.

    Returns
    -------
    dict
        "bytes" on the device, and "padding", the stored slots per non-zero.

    Raises
    ------
    FormatError
        If the format does not fit the matrix.
    """
    return estimate_csr(canonical_csr(A), _check_format(format), options)


def estimate_csr(csr: Any, format: str, options: dict[str, Any] | None = None) -> dict[str, float]:
    """`estimate` of a matrix that is canonical CSR already."""
    matrix_type = _matrix_type(csr.dtype)
    size, padding = matrix_type.estimate(
        csr.indptr, csr.indices, csr.data, csr.shape[1], format, options or {}
    )
    return {"bytes": size, "padding": padding}


def build(csr: Any, choice: Choice, ordinal: int) -> Matrix:
    """A matrix that is canonical CSR, in the chosen format on a device."""
    matrix_type = _matrix_type(csr.dtype)
    return matrix_type(
        csr.indptr, csr.indices, csr.data, csr.shape[1], choice.format, choice.options, ordinal
    )


def choose(csr: Any, format: str, ordinal: int, mode: str, options: dict[str, Any]) -> Choice:
    """The format and options to build an operator with.

    Parameters
    ----------
    csr : csr_array
        Canonical.
    format : str
        One of `formats()` or "auto".
    ordinal : int
        The device.
    mode : {"off", "full"}
        Whether to decide by timing.
    options : dict
        Tunables given by the caller; these are kept.
    """
    if mode not in ("off", "full"):
        raise ValueError(f"tune={mode!r} is not allowed; give 'off' or 'full'")
    if format != "auto":
        _check_format(format)
        if mode == "off":
            return Choice(format, options)
        return _fastest(csr, (format,), ordinal, options)
    if options:
        raise TypeError(
            f"options {sorted(options)} belong to a format; "
            f"name it with format= (one of {', '.join(formats())})"
        )
    if mode == "full":
        return _fastest(csr, formats(), ordinal, {})
    return _by_rules(csr, ordinal)


def _by_rules(csr: Any, ordinal: int) -> Choice:
    if ordinal == CPU:
        return Choice("csr", {}, "on the CPU csr stores the fewest bytes and splits its work by non-zeros")
    if csr.nnz < _SELL_MIN_NNZ:
        return Choice("csr", {}, f"below {_SELL_MIN_NNZ} non-zeros csr spreads the work over more threads")
    try:
        # Near windows only: rows that must be sorted from afar are of very different length, and wide slices
        # hold up.
        padding = estimate_csr(csr, "sell", {"sigma": 256, "max_padding": _SELL_MAX_PADDING})["padding"]
    except _core.FormatError:
        return Choice("csr", {}, f"sell would store more than {_SELL_MAX_PADDING} slots per non-zero")
    return Choice("sell", {}, f"rows are even: sell stores {padding:.2f} slots per non-zero")


def _fastest(csr: Any, names: tuple[str, ...], ordinal: int, given: dict[str, Any]) -> Choice:
    times: list[tuple[float, Choice]] = []
    refusals: list[Exception] = []
    for name in names:
        for candidate in _FORMATS[name]["candidates"]:
            variant = Choice(name, candidate | given)
            try:
                times.append((_time(csr, variant, ordinal), variant))
            except (_core.FormatError, MemoryError) as refused:
                refusals.append(refused.with_traceback(None))  # which would keep the matrix alive
    if not times:
        raise refusals[0]
    best, fastest = min(times, key=lambda entry: entry[0])
    reason = f"of {len(times)} timed variants it was the fastest, at {best:.1f} us a product"
    return replace(fastest, reason=reason)


def _time(csr: Any, variant: Choice, ordinal: int) -> float:
    """Microseconds of a product; the matrix is gone before the next one is built."""
    return build(csr, variant, ordinal).time_products(20)


def _matrix_type(dtype: np.dtype[Any]) -> type[_core.MatrixF32] | type[_core.MatrixF64]:
    return _core.MatrixF32 if dtype == np.float32 else _core.MatrixF64


def _check_format(format: str) -> str:
    if format not in _FORMATS:
        raise ValueError(f"unknown format {format!r}; allowed are 'auto', {', '.join(map(repr, _FORMATS))}")
    return format
