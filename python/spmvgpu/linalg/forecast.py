"""Whether a solve should go on: how many iterations it will take, and how many multigrid is worth."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from math import log
from typing import NamedTuple

import numpy as np

from ..devices import CPU

# Multigrid may be preferred after this part of the iterations that take as long as it does: where the matrix
# suggests that cg needs more of them than that, and where the residual alone does. A right-hand side without
# fine detail keeps its residual for as many iterations as lead from the boundary of a grid to its middle.
_EARLY, _LATE = 0.08, 0.6
_LEAST = 20  # iterations that show something
_CLEARLY = 1.3  # times as many iterations as multigrid is worth, from which on it is preferred
# Seconds of multigrid on a GPU, for each row and each entry; and of an iteration of cg, with the bytes of the
# vectors for each row, and those that take as long as the arithmetic of an entry.
_MULTIGRID, _MULTIGRID_ROW, _MULTIGRID_ENTRY = 14e-3, 7e-9, 0.45e-9
_ITERATION, _BYTES_PER_SECOND, _BYTES_ROW, _BYTES_ENTRY = 5e-6, 4e12, 112, 3
_ON_CPU = 200.0  # iterations of cg that take as long as multigrid on a CPU
_SMOOTH = 0.1  # the largest sum of a row, as a share of its diagonal, for which multigrid takes constants
_OF_GRIDS = 3.0  # iterations to a usual tolerance, over the points of a grid along an axis


def iterations_of_multigrid(ordinal: int, rows: int, entries: int, nbytes: int) -> float:
    """The iterations of cg that take as long as a solution by multigrid, with its set-up, does.

    Parameters
    ----------
    ordinal : int
        Number of the GPU, or `CPU`.
    rows, entries : int
        Of the matrix on that device.
    nbytes : int
        Of the matrix as it is stored.
    """
    if ordinal == CPU:
        return _ON_CPU
    multigrid = _MULTIGRID + _MULTIGRID_ROW * rows + _MULTIGRID_ENTRY * entries
    moved = nbytes + _BYTES_ROW * rows + _BYTES_ENTRY * entries
    return multigrid / (_ITERATION + moved / _BYTES_PER_SECOND)


class OnesInSystem(NamedTuple):
    """What a matrix with a positive diagonal makes of a vector of ones.

    Attributes
    ----------
    rows : int
    product : float
        Sum of all entries of the matrix.
    scaled : float
        Sum of all entries of the matrix after each row is divided by its entry of the diagonal.
    diagonal, inverse : float
        Sums of the diagonal and of its inverse.
    """

    rows: int
    product: float
    scaled: float
    diagonal: float
    inverse: float

    @property
    def suit_multigrid(self) -> bool:
        """Whether the matrix nearly maps them to zero, for which multigrid takes them."""
        return bool(abs(self.scaled) <= _SMOOTH * self.rows)

    @property
    def iterations(self) -> float:
        """A guess: the iterations of cg with the diagonal; 0 if nothing is known.

        Of a discrete Laplacian on a grid, only the rows at the boundary have a sum, so that the quotient of
        the sum of all entries and of the diagonal is about one over the points along an axis, to which the
        iterations are proportional. Coefficients that vary ask for more of them.
        """
        share = self.product / self.diagonal
        if not 0.5 / self.rows < share < np.inf:
            return 0.0
        variation = np.log10(self.diagonal * self.inverse / self.rows**2)
        return float(_OF_GRIDS / share * (1 + 0.5 * max(0.0, variation)))


@dataclass(frozen=True)
class Rival:
    """Multigrid, as what may be faster than the solve under way.

    Attributes
    ----------
    iterations : float
        The iterations that take as long.
    ones : callable
        Gives the `OnesInSystem`, or None if multigrid does not suit the matrix.
    """

    iterations: float
    ones: Callable[[], OnesInSystem | None]

    def is_better(self, done: int, more: float) -> bool:
        """Whether it is after some iterations, of which there seem to be more to come."""
        most = _CLEARLY * self.iterations
        if done < max(_LEAST, _EARLY * self.iterations) or more <= most:
            return False
        ones = self.ones()
        if ones is None or not ones.suit_multigrid:
            return False
        return ones.iterations > most or done >= _LATE * self.iterations


def rival_of(solver: str, iterations: float, ones: Callable[[], OnesInSystem | None]) -> Rival:
    """Multigrid for a system that takes it as long as some iterations of cg.

    Those of bicgstab take twice as long, and so does a hierarchy for the matrix and its adjoint. Sums of rows
    do not say how many of them there will be.
    """
    if solver == "cg":
        return Rival(iterations, ones)

    def without_product() -> OnesInSystem | None:
        found = ones()
        return None if found is None else found._replace(product=0.0)

    return Rival(iterations, without_product)


@dataclass
class Patience:
    """Ends a method that has stalled, or is so slow that another one is likely to be faster.

    Called with each look at a solve, it returns True if the solve should end, and has the reason then.

    Attributes
    ----------
    most : int
        Iterations before a residual that has ceased to fall ends the method.
    rtol, atol : float
    rival : Rival, optional
    status : {"", "slow", "stalled"}
    outcome : str
    """

    most: int
    rtol: float
    atol: float
    rival: Rival | None = None
    status: str = ""
    outcome: str = ""

    def __post_init__(self) -> None:
        self._iterations: list[int] = []
        self._best: list[float] = []  # the smallest residual up to there

    def __call__(self, iterations: int, residual: float, norm_b: float) -> bool:
        best = min(residual, self._best[-1]) if self._best else residual
        self._iterations.append(iterations)
        self._best.append(best)
        if self.rival is not None and self.rival.is_better(iterations, self._more(norm_b)):
            self.status, self.outcome = "slow", "was slow"
        elif iterations >= self.most and best > 0.7 * self._at(iterations / 3)[1]:
            self.status, self.outcome = "stalled", "stalled"
        if self.status:
            relative = best / (norm_b or 1.0)
            self.outcome += f", at a relative residual of {relative:.1e} after {iterations} iterations"
        return bool(self.status)

    def _at(self, iteration: float) -> tuple[int, float]:
        """The last look up to an iteration, or the first one: its iterations, and the residual then."""
        number = max(0, bisect_left(self._iterations, iteration + 1) - 1)
        return self._iterations[number], self._best[number]

    def _more(self, norm_b: float) -> float:
        """How many more iterations there will be.

        That is if the residual goes on to fall as it did in the last third, or in the last two thirds of
        them, whichever is faster: it often falls faster with time.
        """
        done, now = self._iterations[-1], self._best[-1]
        goal = max(self.rtol * norm_b, self.atol)
        if now <= goal or goal <= 0:
            return 0.0
        falls = []
        for part in (1 / 3, 2 / 3):
            since, before = self._at(part * done)
            falls.append(log(before / now) / max(1, done - since))
        fall = max(falls)
        return log(now / goal) / fall if fall > 0 else np.inf
