"""Checks that public functions share; messages say what was given, what is allowed and what was meant."""

from __future__ import annotations

import inspect
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import ParamSpec, SupportsIndex, TypeGuard, TypeVar, cast

import numpy as np

from .. import _core
from .plugins import Plugins

_P = ParamSpec("_P")
_R = TypeVar("_R")

_LARGEST = 2**63 - 1  # what the core takes for a whole number


def with_hints(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a public function: when a call is refused, the message says what was meant.

    A hint is given for a misspelled keyword, for more arguments by position than the function takes, and for
    an argument in the place of another. A call that is not refused costs one Python frame more, so the
    methods of operators that multiply are not decorated.
    """

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except (TypeError, ValueError) as error:
            parameters = inspect.signature(function).parameters
            if unexpected := _unexpected(function.__name__, parameters, kwargs):
                raise TypeError(unexpected) from None
            if hint := _surplus(parameters, len(args)) or _misplaced(parameters, args, kwargs):
                error.args = (f"{error}; {hint}",)
            raise

    return call


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """``"; did you mean 'format'?"`` for the known name that is most like the given one, or ``""``."""
    from difflib import get_close_matches  # only where something is refused

    near = get_close_matches(given, list(known), n=1) if isinstance(given, str) else []
    return f"; did you mean {near[0]!r}?" if near else ""


_Parameters = Mapping[str, inspect.Parameter]


def _unexpected(function: str, parameters: _Parameters, keywords: Mapping[str, object]) -> str | None:
    """The message for a keyword that the function does not take."""
    names = [p.name for p in parameters.values() if p.kind is not p.VAR_KEYWORD]
    takes_options = len(names) < len(parameters)  # of the storage formats
    if takes_options:
        names += [option["name"] for format in _core.describe_formats() for option in format["options"]]
    for given in keywords:
        if given not in names:
            meant = did_you_mean(given, names)
            if meant or not takes_options:  # for an option, the message that names the format says more
                allowed = "" if meant else f"; it takes {', '.join(names)}"
                return f"{function}() got an unexpected keyword argument {given!r}{meant}{allowed}"
    return None


def _surplus(parameters: _Parameters, given: int) -> str | None:
    """The hint for more arguments by position than there are places."""
    by_name = [p.name for p in parameters.values() if p.kind is p.KEYWORD_ONLY]
    places = sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters.values())
    if given <= places or not by_name:
        return None
    return f"give these by name: {', '.join(by_name)}"


def _misplaced(
    parameters: _Parameters, args: tuple[object, ...], keywords: Mapping[str, object]
) -> str | None:
    """The hint for an argument that suits another parameter, which has none that suits it."""
    given = {**dict(zip(parameters, args, strict=False)), **keywords}
    for name, value in given.items():
        suits = _SUITS.get(name)
        if suits is None or value is None or suits(value):
            continue
        for other, fits in _SUITS.items():
            is_free = other in parameters and (other not in given or not fits(given[other]))
            if is_free and fits(value):
                return f"did you mean {other}={_as_written(value)}?"
    return None


def _is_format(value: object) -> bool:
    names = {"auto", *Plugins("chooser"), *(format["name"] for format in _core.describe_formats())}
    return isinstance(value, str) and value in names


def _is_device(value: object) -> bool:
    if isinstance(value, list | tuple):
        return len(value) > 0 and all(map(_is_device, value))
    return isinstance(value, str) and re.fullmatch(r"auto|cpu|cuda(:\d+)?", value) is not None


def _is_dtype(value: object) -> bool:
    if isinstance(value, str):
        return re.fullmatch(r"(float|complex|u?int)\d+|float|complex|int|bool", value) is not None
    numbers = (np.number, np.bool_, float, complex, int)
    return isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, numbers))


def _is_preconditioner(value: object) -> bool:
    from scipy.sparse.linalg import LinearOperator  # which solvers have imported

    return isinstance(value, LinearOperator) or _is_array(value)  # of the inverse of a diagonal


def _is_array(value: object) -> bool:
    kinds = ("__array__", "__dlpack__", "__cuda_array_interface__")
    return isinstance(value, list | tuple | range) or any(hasattr(value, kind) for kind in kinds)


def _is_tolerance(value: object) -> bool:
    return isinstance(value, float) and 0 < value < 1


# Values that suit parameters of these names, which callers confuse.
_SUITS: dict[str, Callable[[object], bool]] = {
    "format": _is_format,
    "device": _is_device,
    "dtype": _is_dtype,
    "x0": _is_array,
    "rtol": _is_tolerance,
    "M": _is_preconditioner,
}


def _as_written(value: object) -> str:
    if isinstance(value, type | np.dtype):
        return np.dtype(value).name
    return repr(value) if isinstance(value, str | float | list | tuple) else "..."


def one_of(name: str, value: object, allowed: Iterable[str]) -> str:
    """`value` itself, if it is one of the allowed names."""
    names = tuple(allowed)
    if isinstance(value, str) and value in names:
        return value
    kind = ValueError if isinstance(value, str) else TypeError
    allowed = f"give one of {', '.join(map(repr, names))}{did_you_mean(value, names)}"
    raise kind(f"{name}={value!r} is not allowed; {allowed}")


def whole_number(name: str, value: object, lowest: int, highest: int | None = None) -> int:
    """`value` as an int, if it is a whole number in this range; bool is none."""
    try:
        number = None if isinstance(value, bool | np.bool_) else operator.index(cast(SupportsIndex, value))
    except TypeError:
        number = None
    allowed = f"at least {lowest}" if highest is None else f"from {lowest} to {highest}"
    if number is None:
        raise TypeError(f"{name}={value!r} is not allowed; give a whole number {allowed}")
    if number < lowest or (highest is not None and number > highest):
        raise ValueError(f"{name}={value!r} is not allowed; give a whole number {allowed}")
    return number


def is_number(value: object) -> TypeGuard[complex]:
    """Whether this is a number, also one of NumPy's; `numpy.isscalar` says so of texts and buffers, too."""
    return bool(np.isscalar(value)) and not isinstance(value, str | bytes | memoryview)


def real_number(
    name: str, value: object, allowed: str = "a real number", fits: Callable[[float], bool] = lambda _: True
) -> float:
    """`value` as a float, if it is a number, not NaN, and one that fits; `allowed` says which do."""
    is_real = not isinstance(value, bool | np.bool_ | np.complexfloating)
    if not is_real or not isinstance(value, float | int | np.number):
        raise TypeError(f"{name}={value!r} is not allowed; give {allowed}")
    try:
        number = float(value)
    except OverflowError:
        number = math.nan
    if math.isnan(number) or not fits(number):
        raise ValueError(f"{name}={value!r} is not allowed; give {allowed}")
    return number


def plain_options(options: Mapping[str, object]) -> dict[str, int | float | str]:
    """Options of a format as plain Python numbers and names: NumPy's cannot be written to a cache file.

    Whether a format has them, and in which range, the core says.
    """
    return {name: _plain(name, value) for name, value in options.items()}


def _plain(name: str, value: object) -> int | float | str:
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
