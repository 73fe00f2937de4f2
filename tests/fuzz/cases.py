"""What a case is, how it is run, and which errors a caller may see."""

from __future__ import annotations

import traceback
import warnings
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import spmvgpu as sg
from support import MACHINERY

Body = Callable[[np.random.Generator, str], None]

#: What public functions say that they raise. FormatError and LinAlgError are ValueErrors.
DOCUMENTED = (ValueError, TypeError, MemoryError, sg.CudaError)


class Kind(NamedTuple):
    """A kind of case: a function of a generator, made from the seed, and of the device to be used."""

    body: Body
    weight: float  # its part of the cases, relative to that of other kinds; of 0, only when it is asked for
    batch: int  # seeds for one process


KINDS: dict[str, Kind] = {}


def default_kinds() -> list[str]:
    """The kinds that are run where none are named."""
    return [name for name, kind in KINDS.items() if kind.weight > 0]


def kind(weight: float, batch: int = 2000) -> Callable[[Body], Body]:
    """Enter the function under its own name."""

    def enter(body: Body) -> Body:
        KINDS[body.__name__] = Kind(body, weight, batch)
        return body

    return enter


class _Refused:
    """What `attempt` gives in place of a result."""


REFUSED = _Refused()


def attempt(
    call: Callable[..., Any], *args: Any, errors: Any = DOCUMENTED, quotes: bool = False, **kwargs: Any
) -> Any:
    """What the call gives, or REFUSED where it raises a documented error that a caller can understand.

    With `quotes`, the message may quote other libraries.
    """
    try:
        return call(*args, **kwargs)
    except errors as error:
        message = str(error)
    assert message, "an error without a message"
    assert quotes or not MACHINERY.search(message), f"a message of the machinery: {message}"
    return REFUSED


def generator(name: str, seed: int) -> np.random.Generator:
    """What a case of a kind draws from."""
    return np.random.default_rng([zlib.crc32(name.encode()), seed])


def finding_of(name: str, seed: int, device: str) -> str | None:
    """Run one case; what is wrong with it, if anything is."""
    rng = generator(name, seed)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            KINDS[name].body(rng, device)
        except Exception:
            return traceback.format_exc()
    return None
