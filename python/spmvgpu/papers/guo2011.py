"""The model of Guo et al. 2011, sections 4 and 5: CSR-vector, ELL, COO and HYB, and where to cut a matrix.

It counts non-zeros, and knows neither caches nor where in x the columns lie. `planning.roofline` has a model
that does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core
from .._util.show import Brief
from .._util.types import HostArray


@dataclass(frozen=True)
class CsrVector:
    """Time of the warp-per-row kernel.

    A full load is the rows that the device works on at once (section 4.2). Below `threshold` entries a row,
    the time of a full load is a conic curve of the entries a row, above it a line (figure 3). The time of any
    strip of rows is a line in its non-zeros (figure 4), after every shorter row was extended to the length at
    which the line gives what the curve gives.
    """

    full_load: int
    threshold: float
    conic: tuple[float, float, float]  # microseconds of a full load: c0 + c1 k + c2 k^2
    line: tuple[float, float]  # microseconds of a full load: c0 + c1 k

    def extended(self, lengths: HostArray) -> HostArray:
        """Lengths of the rows as they count: short ones as where the line gives what the curve gives."""
        k = np.asarray(lengths, dtype=float)
        curve = self.conic[0] + self.conic[1] * k + self.conic[2] * k**2
        return np.where(k < self.threshold, np.maximum((curve - self.line[0]) / self.line[1], 0.0), k)

    def strips(self, lengths: HostArray) -> HostArray:
        """Microseconds of each strip of `full_load` rows, in the given order."""
        if len(lengths) == 0:
            return np.zeros(0)
        begins = np.arange(0, len(lengths), self.full_load)
        nonzeros = np.add.reduceat(self.extended(lengths), begins)
        # A full load of k entries a row has full_load * k non-zeros; so figure 4 has the line of figure 3.
        # The last strip, which may be no full load, takes no less than a load of nothing.
        return np.maximum(self.line[0] + self.line[1] * nonzeros / self.full_load, max(self.conic[0], 0.0))

    def time(self, lengths: HostArray) -> float:
        """Microseconds of a whole matrix: the strips one after the other, equation (*)."""
        return float(self.strips(lengths).sum())

    @classmethod
    def fit(cls, full_load: int, widths: Sequence[int], times: Sequence[float]) -> CsrVector:
        """Curve, line and threshold with the least relative error; `widths` are entries a row."""
        k, t = np.asarray(widths, float), np.asarray(times, float)
        order = np.argsort(k)
        k, t = k[order], t[order]
        best: tuple[float, CsrVector] | None = None
        for cut in range(3, len(k) - 2):  # a curve needs three points, a line two and one to be wrong about
            conic, left = _polynomial(k[:cut], t[:cut], 2)
            line, right = _polynomial(k[cut:], t[cut:], 1)
            if line[1] > 0 and (best is None or left + right < best[0]):
                best = left + right, cls(full_load, float(k[cut]), tuple(conic), tuple(line))  # type: ignore[arg-type]
        if best is None:  # times that do not grow with the length, or too few: noise; in proportion, then
            slope = float(np.sum(k / t) / np.sum((k / t) ** 2))
            return cls(full_load, 0.0, (0.0, slope, 0.0), (0.0, slope))
        return best[1]


@dataclass(frozen=True)
class Ell:
    """Time of the thread-per-row kernel: interpolated, logarithmic in rows, width and time."""

    rows: tuple[int, ...]
    widths: tuple[int, ...]
    times: tuple[tuple[float, ...], ...]  # microseconds, times[i][j] of rows[i] and widths[j]

    def time(self, rows: object, width: object) -> Any:
        """Microseconds of one or of many shapes; beyond the samples, the last slopes go on."""
        rows, width = np.asarray(rows, float), np.asarray(width, float)
        log_times = np.log(np.array(self.times))
        i, u = _cell(np.log(self.rows), np.log(np.maximum(rows, 1)))
        j, v = _cell(np.log(self.widths), np.log(np.maximum(width, 1)))
        log_time = (1 - u) * ((1 - v) * log_times[i, j] + v * log_times[i, j + 1]) + u * (
            (1 - v) * log_times[i + 1, j] + v * log_times[i + 1, j + 1]
        )
        time = np.where((rows > 0) & (width > 0), np.exp(log_time), 0.0)
        return time if time.ndim else float(time)

    @classmethod
    def fit(cls, samples: Mapping[tuple[int, int], float]) -> Ell:
        """From times by (rows, width) on a grid whose far corner may be missing: there the slopes go on."""
        rows, widths = sorted({r for r, _ in samples}), sorted({w for _, w in samples})
        if len(rows) < 2 or len(widths) < 2:
            raise ValueError(
                "the samples of the ELL kernel do not form a grid; measure at least two rows and two widths"
            )
        times = np.full((len(rows), len(widths)), np.nan)
        for (r, w), time in samples.items():
            times[rows.index(r), widths.index(w)] = time
        for i, row in enumerate(times):
            for j in np.flatnonzero(np.isnan(row)):
                # Beyond what was measured, twice the slots take twice the time of the nearest sample.
                nearest = row[j - 1] if j > 0 else times[i - 1, j] * rows[i] / rows[i - 1]
                row[j] = nearest * (widths[j] / widths[j - 1] if j > 0 else 1)
        return cls(tuple(rows), tuple(widths), tuple(map(tuple, times.tolist())))


@dataclass(frozen=True)
class Coo:
    """Time of the COO kernel: a line in the non-zeros (figure 6)."""

    line: tuple[float, float]

    def time(self, nnz: float) -> float:
        return self.line[0] + self.line[1] * nnz if nnz > 0 else 0.0

    @classmethod
    def fit(cls, nnz: Sequence[int], times: Sequence[float]) -> Coo:
        x, t = np.asarray(nnz, float), np.asarray(times, float)
        line, _ = _polynomial(x, t, 1)
        if line[0] < 0:  # then through the origin: no product takes less than nothing
            line = [0.0, float(np.sum(x / t) / np.sum((x / t) ** 2))]
        return cls((line[0], line[1]))


@dataclass(frozen=True)
class Guo2011:
    """The four kernels on one device in one precision."""

    csr: CsrVector
    ell: Ell
    coo: Coo

    def predict(self, lengths: HostArray) -> dict[str, float]:
        """Microseconds of a product by format, from the entries of every row."""
        lengths = np.asarray(lengths)
        rows, nnz = len(lengths), int(lengths.sum())
        longest = int(lengths.max(initial=0))
        width = hyb_width(lengths)
        in_ell = int(np.minimum(lengths, width).sum())
        return {
            "csr": self.csr.time(lengths),
            "ellpack": float(self.ell.time(rows, longest)),
            "coo": self.coo.time(nnz),
            "hyb": float(self.ell.time(rows, width)) + self.coo.time(nnz - in_ell),
        }


def hyb_width(lengths: HostArray) -> int:
    """Width of the ELL part: a third of the rows, and 4096, are as long (Bell and Garland 2009)."""
    return _core.hyb_width(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))


@dataclass(frozen=True, repr=False)
class Separator(Brief):
    """The best cut of a matrix into a CSR and an ELLPACK part, as `spmvgpu.partition.separator` finds it.

    The rows are sorted by length, the longest first.

    Attributes
    ----------
    format : str
        "partitioned", or the name of a format that is faster for the whole matrix.
    csr_rows : int
        Rows above the cut. They are stored as CSR, the others as ELLPACK. All rows if `format` is not
        "partitioned".
    time_us : float
        Predicted microseconds of a product.
    positions : numpy.ndarray
        The cuts that were compared, each as the number of rows above it.
    csr_us, ell_us : numpy.ndarray
        Predicted microseconds of the part above and of the part below each cut.
    whole_us : dict of str to float
        Predicted microseconds of a product with the whole matrix, by format.

    Examples
    --------
    >>> import spmvgpu as sg
    >>> cut = sg.partition.separator(sg.gallery.poisson2d(30), "cpu")
    >>> cut.format != "partitioned", cut.csr_rows
    (True, 900)
    """

    format: str
    csr_rows: int
    time_us: float
    positions: HostArray
    csr_us: HostArray
    ell_us: HostArray
    whole_us: dict[str, float]


# A cut must save so much over the best format alone, or the matrix stays whole.
_WORTH_CUTTING = 0.95


def find_separator(
    lengths: HostArray, model: Guo2011, refuses: Callable[[str], bool] = lambda format: False
) -> Separator:
    """The best of all cuts between strips of full loads, by predicted CSR time above plus ELL time below.

    Parameters
    ----------
    lengths : array
        Entries of every row, in any order.
    model : Guo2011
    refuses : callable
        Whether a format does not take the whole matrix.
    """
    descending = np.sort(np.asarray(lengths))[::-1]
    rows, strip = len(descending), model.csr.full_load
    above = np.minimum(np.arange(0, rows + strip, strip), rows)[: -(-rows // strip) + 1]
    csr_us = np.concatenate(([0.0], np.cumsum(model.csr.strips(descending))))
    widths = np.append(descending, 0)[above]  # of the first row below the cut, which is the longest there
    ell_us = np.asarray(model.ell.time(rows - above, widths))
    slots = (rows - above) * widths
    below = descending.sum() - np.concatenate(([0], np.cumsum(descending)))[above]
    ell_us[~_core.padding_is_allowed(slots, below)] = np.inf  # the format would refuse what is below the cut
    whole = {name: time for name, time in model.predict(descending).items() if not refuses(name)}
    best = int(np.argmin(csr_us + ell_us))
    time = float(csr_us[best] + ell_us[best])
    format, alone = min(whole.items(), key=lambda entry: entry[1])
    if 0 < above[best] < rows and time < _WORTH_CUTTING * alone:
        return Separator("partitioned", int(above[best]), time, above, csr_us, ell_us, whole)
    return Separator(format, rows, alone, above, csr_us, ell_us, whole)


def _polynomial(x: HostArray, y: HostArray, degree: int) -> tuple[list[float], float]:
    """Coefficients with the least squared relative error, constant first, and that error."""
    powers = x[:, None] ** np.arange(degree + 1)
    coefficients, *_ = np.linalg.lstsq(powers / y[:, None], np.ones(len(y)), rcond=None)
    return coefficients.tolist(), float(np.sum((powers @ coefficients / y - 1) ** 2))


def _cell(grid: HostArray, at: HostArray) -> tuple[HostArray, HostArray]:
    """Cells of a grid that values fall in, and how far into them; beyond the grid, its outermost cells."""
    cell = np.clip(np.searchsorted(grid, at, side="right") - 1, 0, len(grid) - 2)
    return cell, (at - grid[cell]) / (grid[cell + 1] - grid[cell])
