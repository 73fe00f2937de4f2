"""Factors of matrices with one sparsity pattern, whose values change."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from scipy.sparse.linalg import LinearOperator

from .._util.types import DType, HostArray
from ..operator.operator import SparseOperator
from ..operator.patterns import Pattern
from .direct import splu
from .direct_factors import DirectFactors

#: Makes the factors of an operator.
FactorsOf: TypeAlias = Callable[[Any], LinearOperator]


def factors_of_pattern(pattern: Pattern[Any], *, is_adjoint: bool = False) -> FactorsOf:
    """A function of operators of a pattern, or of their adjoints, which begins with the last factors."""
    base = pattern._turned_from
    if base is not None:
        return factors_of_pattern(base, is_adjoint=not is_adjoint)
    return partial(_kept.setdefault(pattern, KeptFactors()).of, is_adjoint=is_adjoint)


class KeptFactors:
    """The last factors of matrices with one sparsity pattern, which those of the next values begin with."""

    def __init__(self) -> None:
        self._last: dict[DType, tuple[HostArray, DirectFactors]] = {}  # with the values, by their type
        self._lock = Lock()

    def of(self, op: SparseOperator, *, is_adjoint: bool = False) -> LinearOperator:
        """The factors of an operator with the pattern, or with that of the adjoint.

        They are the last ones if the values are the same. Others are made with the analysis of the pattern
        that the last ones have. Those stay as they were.
        """
        if is_adjoint:
            return self.of(op.H).H
        values: HostArray = op.tocsr().data
        with self._lock:
            found = self._last.get(op.dtype)
            if found is not None and np.array_equal(found[0], values):
                return found[1]
            made = splu(op) if found is None else found[1]._renewed(op)
            self._last[op.dtype] = values, made
            return made


_kept: WeakKeyDictionary[Pattern[Any], KeptFactors] = WeakKeyDictionary()
