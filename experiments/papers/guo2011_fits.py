"""The samples of Guo et al. 2011 and what was fitted to them: section 4.3, figures 3 to 6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np

from experiments.papers import guo2011_figures as pictures
from experiments.papers.claims import EQUAL, FAILS, HOLDS, OPEN, PARTLY, Claim
from experiments.papers.guo2011_claims import COO, CSR, ELL
from experiments.papers.run import Run
from experiments.records import Row
from spmvgpu.papers.guo2011 import Guo2011

# A fit follows its samples if it is off by no more than this on average.
FOLLOWS = 0.1


def record_samples(run: Run, model: Guo2011, timed: Mapping[str, Sequence[Row]], dtype: str) -> None:
    """Row the samples that the paper's model was fitted to, with what was fitted to them.

    Parameters
    ----------
    run : Run
    model : Guo2011
    timed : mapping
        The timings of a calibration, by kernel; empty without one.
    dtype : str
        Whose timings to take.
    """
    for kernel, key in ((CSR, "csr"), (ELL, "ell"), (COO, "coo")):
        for entry in timed.get(key, []):
            size = {name: int(entry[name]) for name in ("rows", "cols", "nnz")}
            if entry["dtype"] == dtype and (kernel != CSR or size["rows"] == model.csr.full_load):
                fitted = _fitted(model, kernel, **size)
                found = {"kernel": kernel, **size, "time_us": entry["time_us"], "fitted_us": fitted}
                run.records["samples"].append(found)


def _fitted(model: Guo2011, kernel: str, rows: int, cols: int, nnz: int) -> float:
    """Microseconds of a sample, which is a dense matrix, or has even rows; of a full load by figure 3."""
    if kernel == CSR:
        below = cols < model.csr.threshold
        return float(np.polynomial.polynomial.polyval(cols, model.csr.conic if below else model.csr.line))
    return float(model.ell.time(rows, cols) if kernel == ELL else model.coo.time(nnz))


def draw(run: Run) -> None:
    """Figures 3 to 6."""
    csr, ell = _of(run, CSR), _of(run, ELL)
    _fit(run, "figure3", "Figure 3: entries a row and time of full loads (CSR)", csr, "cols", "entries a row")
    _fit(run, "figure4", "Figure 4: non-zeros and time of full loads (CSR)", csr, "nnz", "non-zeros")
    if ell:
        times = {(entry["cols"], entry["rows"]): entry["time_us"] for entry in ell}
        widths, rows = (sorted({case[axis] for case in times}) for axis in (0, 1))
        surface = [[times.get((width, count), np.nan) for count in rows] for width in widths]
        title = "Figure 5: time of samples (ELL)"
        run.draw("figure5", title, pictures.surface, widths, rows, surface)
    _fit(run, "figure6", "Figure 6: non-zeros and time of samples (COO)", _of(run, COO), "nnz", "non-zeros")


def _fit(run: Run, name: str, title: str, samples: list[Row], field: str, xlabel: str) -> None:
    """Measured and fitted times over one field of the samples."""
    measured, fitted = (
        sorted((entry[field], entry[time]) for entry in samples) for time in ("time_us", "fitted_us")
    )
    if samples:
        run.draw(name, title, pictures.fits, xlabel, measured, fitted)


def fit_claims(run: Run, model: Guo2011) -> list[Claim]:
    """Section 4.3."""
    threshold = model.csr.threshold
    below = [entry for entry in _of(run, CSR) if entry["cols"] < threshold]
    above = [entry for entry in _of(run, CSR) if entry["cols"] >= threshold]
    why = f"a full load is {model.csr.full_load} rows here, the threshold {threshold:g} entries a row"
    if below:
        least = min(entry["time_us"] for entry in below)
        why += f"; it takes at least {least:.1f} microseconds, which section 4 adds up for every strip"
    return [
        _follows(
            "4.3.1",
            "the time of a CSR full load is a conic curve of the entries a row up to a threshold, and a line"
            " beyond",
            {"the curve": below, "the line": above},
            why,
        ),
        _both_matter(run),
        _follows(
            "4.3.3", "the time of the COO kernel is a line in the non-zeros", {"the line": _of(run, COO)}
        ),
    ]


def _of(run: Run, kernel: str) -> list[Row]:
    return [entry for entry in run.records["samples"] if entry["kernel"] == kernel]


def _follows(where: str, paper: str, fits: dict[str, list[Row]], why: str = "") -> Claim:
    off = {
        name: fmean(abs(entry["fitted_us"] / entry["time_us"] - 1) for entry in entries)
        for name, entries in fits.items()
        if entries
    }
    if not off:
        return Claim(where, paper, "not measured", OPEN, why)
    here = ", ".join(f"{name} is {value:.1%} off its samples on average" for name, value in off.items())
    good = [value <= FOLLOWS for value in off.values()]
    return Claim(where, paper, here, HOLDS if all(good) else PARTLY if any(good) else FAILS, why)


def _both_matter(run: Run) -> Claim:
    paper = "the time of the ELL kernel depends on the rows as well as on the entries a row"
    alike: dict[int, list[float]] = {}
    for entry in _of(run, ELL):
        alike.setdefault(entry["nnz"], []).append(entry["time_us"])
    ratios = {nnz: max(times) / min(times) for nnz, times in alike.items() if len(times) > 1}
    if not ratios:
        return Claim("4.3.2", paper, "not measured", OPEN)
    nnz = max(ratios, key=ratios.__getitem__)
    here = f"samples of {nnz:,} non-zeros in different shapes differ by up to {ratios[nnz]:.2f}x"
    return Claim("4.3.2", paper, here, HOLDS if ratios[nnz] > 1 + EQUAL else FAILS)
