"""Checks that the arguments of public functions share; messages say what was given and what is allowed."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

_LARGEST = 2**63 - 1  # what the core takes for a whole number


def one_of(name: str, value: Any, allowed: Iterable[str]) -> str:
    """`value` itself, if it is one of the allowed names."""
    names = tuple(allowed)
    if isinstance(value, str) and value in names:
        return value
    kind = ValueError if isinstance(value, str) else TypeError
    raise kind(f"{name}={value!r} is not allowed; give one of {', '.join(map(repr, names))}")


def whole_number(name: str, value: Any, lowest: int, highest: int | None = None) -> int:
    """`value` as an int, if it is a whole number in this range; bool is none."""
    try:
        number = None if isinstance(value, bool | np.bool_) else operator.index(value)
    except TypeError:
        number = None
    allowed = f"at least {lowest}" if highest is None else f"from {lowest} to {highest}"
    if number is None:
        raise TypeError(f"{name}={value!r} is not allowed; give a whole number {allowed}")
    if number < lowest or (highest is not None and number > highest):
        raise ValueError(f"{name}={value!r} is not allowed; give a whole number {allowed}")
    return number


def is_number(value: Any) -> bool:
    """Whether this is a number, also one of NumPy's; `numpy.isscalar` says so of texts and buffers, too."""
    return bool(np.isscalar(value)) and not isinstance(value, str | bytes | memoryview)


def real_number(name: str, value: Any, allowed: str = "a real number") -> float:
    """`value` as a float, if it is a number and not NaN."""
    is_number = isinstance(value, float | int | np.number) and not isinstance(value, bool | np.bool_)
    if not is_number or isinstance(value, np.complexfloating):
        raise TypeError(f"{name}={value!r} is not allowed; give {allowed}")
    try:
        number = float(value)
    except OverflowError:
        number = math.nan
    if math.isnan(number):
        raise ValueError(f"{name}={value!r} is not allowed; give {allowed}")
    return number


def plain_options(options: Mapping[str, Any]) -> dict[str, int | float | str]:
    """Options of a format as plain Python numbers and names: NumPy's cannot be written to a cache file.

    Whether a format has them, and in which range, the core says.
    """
    return {name: _plain(name, value) for name, value in options.items()}


def _plain(name: str, value: Any) -> int | float | str:
    if isinstance(value, str):
        if not value.isprintable():  # of which the core could not even say that it does not know them
            raise ValueError(f"option {name}={value!r} is not allowed; see format_options for what is")
        return str(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        if abs(int(value)) > _LARGEST:
            raise ValueError(f"option {name}={value!r} is not allowed; no option takes a number as large")
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value)
    raise TypeError(f"option {name}={value!r} is not allowed; give a number or a name, see format_options")
