"""Cases that are wrong on purpose, to see that they are found."""

from __future__ import annotations

import os

import numpy as np

from .cases import kind
from .draw import pick


def fault_of(rng: np.random.Generator) -> str:
    """What is wrong with a case; nothing for an empty string."""
    return pick(rng, ["", "wrong", "IndexError", "Aborted"])


@kind(weight=0)
def faults(rng: np.random.Generator, device: str) -> None:
    """A wrong result, an exception of the wrong type, or the end of the process, depending on the seed."""
    fault = fault_of(rng)
    if fault == "wrong":
        raise AssertionError(fault)
    if fault == "IndexError":
        raise IndexError
    if fault == "Aborted":
        os.abort()
