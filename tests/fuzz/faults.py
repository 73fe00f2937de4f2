"""Cases that are wrong on purpose, to see that they are found."""

from __future__ import annotations

import os

import numpy as np

from .cases import kind


@kind(weight=0)
def faults(rng: np.random.Generator, device: str) -> None:
    """A wrong result, an exception of the wrong type, or the end of the process, depending on the seed."""
    fault = rng.bit_generator.seed_seq.entropy[1] % 5
    if fault == 1:
        raise AssertionError("wrong")
    if fault == 2:
        raise IndexError
    if fault == 3:
        os.abort()
