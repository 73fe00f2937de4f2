"""How long choosing a format may take."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from time import perf_counter
from typing import Any

from .. import _core
from ..formats import traits
from .predict import Prediction

#: What choosing may take, in products of the matrix, unless the caller says otherwise.
BUDGET = 50.0

# What a conversion on a GPU is reckoned to take beside its bytes, and how fast it writes. Rather too long,
# for a trial that is begun is ended: in the benchmarks' setup.json, of an H200, none took more than 1.6 ms.
_CONVERSION_US, _CONVERSION_BYTES_PER_US = 1000.0, 500e3

# What ordering by clusters on a GPU is reckoned to take: launches, what goes through the entries as a product
# does, and what goes through the rows (orders.json, of an H200).
_ORDER_US, _ORDER_PRODUCTS, _ORDER_US_PER_ROW = 650.0, 4.0, 0.8e-3


class Budget:
    """The time that choosing may take: so many products of the matrix, from now on."""

    def __init__(self, products: float, csr: Any, ordinal: int) -> None:
        self._products = products
        self._start = perf_counter()
        self._trial_products = _core.trial_products(ordinal, csr.nnz)

    def affords(self, predictions: Sequence[Prediction]) -> Sequence[Prediction]:
        """The first of these, as many as there is time to try if all goes as predicted."""
        left = self._all_us(predictions[0].time_us or 0.0) - self._spent_us()
        costs = accumulate(self._trial_us(prediction) for prediction in predictions)
        return [p for p, cost in zip(predictions, costs, strict=True) if cost <= left]

    def may_afford_trials(self, product_us: float) -> bool:
        """Whether there may be time for two trials, or else there is none, of products that take so long."""
        least = 2 * (_CONVERSION_US + self._trial_products * product_us)
        return self._spent_us() + least <= self._all_us(product_us)

    def lasts_for(self, prediction: Prediction, product_us: float) -> bool:
        """Whether there is time for a trial, now that a product takes so long."""
        return self._spent_us() + self._trial_us(prediction) <= self._all_us(product_us)

    def lasts_for_plan(self, format: str, product_us: float) -> bool:
        """Whether the budget is for planning a format, however much of it is spent."""
        plan_us = traits(format).plan_us
        return plan_us == 0 or plan_us <= self._all_us(product_us)

    def lasts_for_order(self, product_us: float, rows: int) -> bool:
        """Whether the budget is for ordering rows and columns by clusters, however much of it is spent.

        So the same matrix is always stored in the same order.
        """
        order = _ORDER_US + _ORDER_PRODUCTS * product_us + _ORDER_US_PER_ROW * rows
        return order <= self._all_us(product_us)

    def _all_us(self, product_us: float) -> float:
        return self._products * product_us if self._products > 0 < product_us else 0.0

    def _spent_us(self) -> float:
        return 1e6 * (perf_counter() - self._start)

    def _trial_us(self, prediction: Prediction) -> float:
        conversion = _CONVERSION_US + (prediction.bytes or 0.0) / _CONVERSION_BYTES_PER_US
        return conversion + self._trial_products * (prediction.time_us or 0.0)


def takes_long_to_plan(format: str, kind: str) -> bool:
    """Whether planning a format takes longer than choosing one may, on a kind of device."""
    known = traits(format)
    if kind == "cuda":
        return known.has_long_plan or not known.builds_on_gpu
    return known.needs_symmetry
