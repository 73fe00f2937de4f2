"""What planning takes from Guo et al. 2011: where to cut a matrix, a model of devices, and its calibration.

Callers meet them as ``format="partitioned"``, `spmvgpu.partition.separator` and ``model="guo2011"``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .. import _core
from .._util import schema
from .._util.arguments import with_hints
from .._util.schema import Range
from .._util.types import Device, Format
from .._util.value_types import type_in_profiles
from ..devices import CPU, resolve_device
from ..formats import Choice, Indices, Part
from ..inputs.canonical import canonical_csr
from ..inputs.csr import CanonicalCsr
from ..planning.calibrate import Job, Record
from ..planning.measure import Variant
from ..planning.parts import estimate_csr
from ..planning.predict import Model, Prediction
from ..planning.profile import DTYPES, Profile, load_profile
from ..planning.samples import Sample
from .guo2011 import Coo, CsrVector, Ell, Guo2011, Separator, find_separator

PARTITIONED = "partitioned"


@with_hints
def separator(A: Any, device: Device = "auto", *, profile: str | os.PathLike[str] | None = None) -> Separator:
    """Find the best cut of a matrix, its rows sorted by length, into a CSR and an ELLPACK part.

    The method comes from Guo et al. 2011, section 5. ``format="partitioned"`` of `spmvgpu.aslinearoperator`
    uses it.

    Parameters
    ----------
    A : sparse matrix
        As `spmvgpu.aslinearoperator` takes it.
    device : str, default "auto"
        As `spmvgpu.aslinearoperator` takes it.
    profile : path, optional
        A device profile, as ``python -m spmvgpu calibrate`` writes it. The default is the profile of the
        device.

    Returns
    -------
    Separator

    Examples
    --------
    >>> import spmvgpu as sg
    >>> cut = sg.partition.separator(sg.gallery.powerlaw(2000, 8.0), "cpu")
    >>> 0 <= cut.csr_rows <= 2000
    True
    """
    ordinal = resolve_device(device)
    return separator_csr(canonical_csr(A), load_profile(ordinal, profile, check))


def separator_csr(csr: Any, profile: Profile) -> Separator:
    """`separator` of a matrix that is canonical CSR already."""
    model = model_of(profile, csr.dtype)
    return find_separator(np.diff(csr.indptr), model, lambda name: isinstance(_cost(csr, name, CPU), str))


def cut_by_length(csr: Any, ordinal: int, options: Mapping[str, object]) -> Choice:
    """The choice for format "partitioned": long rows as CSR, short ones as ELLPACK, or one format for all."""
    unknown = set(options) - {"separator"}
    if unknown:
        raise TypeError(f"format {PARTITIONED!r} has no option {min(unknown)!r}; its options are: separator")
    rows, cut = csr.shape[0], options.get("separator", 0)
    if not isinstance(cut, int) or not 0 <= cut < max(rows, 1):
        raise ValueError(
            f"separator={cut!r} is not allowed; give 0 for an automatic choice, or a number of rows up to "
            f"{rows - 1}"
        )
    reason = "the separator was given"
    if cut == 0:
        found = separator_csr(csr, load_profile(ordinal, check=check))
        if found.format != PARTITIONED:
            reason = f"a split is not predicted to be faster than {found.format} alone"
            return Choice(found.format, {}, reason)
        cut = found.csr_rows
        name, alone = min(found.whole_us.items(), key=lambda entry: entry[1])
        reason = (
            f"{cut} of {rows} rows as csr and the others as ellpack are predicted to take "
            f"{found.time_us:.1f} us, and {name} alone {alone:.1f} us"
        )
    by_length = np.argsort(-np.diff(csr.indptr), kind="stable").astype(np.int32)
    return partitioned([by_length[:cut], by_length[cut:]], [Choice("csr"), Choice("ellpack")], reason)


def partitioned(rows: Sequence[Indices], choices: Sequence[Choice], reason: str) -> Choice:
    """The choice of one format per set of rows; together the sets hold every row once."""
    made = tuple(Part(own, choice) for own, choice in zip(rows, choices, strict=True))
    return Choice(PARTITIONED, {}, reason, made)


def model_of(profile: Profile, dtype: Any) -> Guo2011:
    """The model of matrices of a value type."""
    found = profile.extra["guo2011"][type_in_profiles(dtype)]
    return Guo2011(CsrVector(**found["csr"]), Ell(**found["ell"]), Coo(**found["coo"]))


def predictions(
    csr: CanonicalCsr, ordinal: int, profile: Profile, names: Iterable[Format]
) -> list[Prediction]:
    """What the model says of each format."""
    times = model_of(profile, csr.dtype).predict(np.diff(csr.indptr))
    entries = []
    for name in names:
        cost = _cost(csr, name, ordinal)
        if isinstance(cost, str):
            entries.append(Prediction(name, note=cost))
            continue
        options = {"kernel": "shared"} if name == "csr" else {}
        note = "" if name in times else "the model does not cover this format"
        entries.append(
            Prediction(name, options, times.get(name), int(cost["bytes"]), cost["padding"], note=note)
        )
    return entries


def _cost(csr: CanonicalCsr, format: str, ordinal: int) -> dict[str, float] | str:
    """What a format costs, or why it refuses the matrix."""
    try:
        return estimate_csr(csr, format, ordinal)
    except _core.FormatError as refused:
        return str(refused)


_LARGE = 1e18
_POSITIVE, _COUNT = Range(1e-9, _LARGE), Range(1, _LARGE, whole=True)
_NOT_NEGATIVE, _NUMBER = Range(0, _LARGE), Range(-_LARGE, _LARGE)

_PARAMETERS = {
    "csr": {"full_load": _COUNT, "threshold": _NOT_NEGATIVE, "conic": [_NUMBER, 3], "line": [_NUMBER, 2]},
    "ell": {"rows": [_COUNT], "widths": [_COUNT], "times": [[_POSITIVE]]},
    "coo": {"line": [_NOT_NEGATIVE, 2]},
}


def check(profile: Profile) -> None:
    """Raise ValueError, naming the entry, if the profile has no parameters that the model can use."""
    parameters = profile.extra.get("guo2011", {})
    schema.check(parameters, dict.fromkeys(DTYPES, _PARAMETERS), "guo2011")
    for entry in parameters.values():
        schema.check(entry["csr"]["line"][1], _POSITIVE, "the slope of csr's line")
        rows, widths, times = (entry["ell"][name] for name in ("rows", "widths", "times"))
        if len(times) != len(rows) or {len(row) for row in times} != {len(widths)}:
            raise ValueError(f"ell must have {len(rows)} rows of {len(widths)} times")
        for grid in (rows, widths):
            if len(grid) < 2 or any(a >= b for a, b in pairwise(grid)):
                raise ValueError("the rows and widths of ell must increase")


MODEL = Model(check, predictions)


# The samples that the model is fitted to on a device (section 4.3).

CSR_VECTOR: Variant = ("csr", {"kernel": "shared"})
ELL: Variant = ("ellpack", {})
COO: Variant = ("coo", {})

# Entries of the largest samples, which caches do not hold; and what is enough for trying out the way.
_MAX_NNZ, _QUICK_NNZ, _QUICK_LOAD = 1 << 24, 1 << 15, 1 << 10

# The CPU has no thread blocks to fill: rows enough that starting the threads does not matter.
_CPU_LOAD = 1 << 13

# Entries a row of the samples of the CSR-vector kernel (figures 3 and 4).
# fmt: off
WIDTHS = (1, 2, 4, 8, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512, 768, 1024, 1536)
# fmt: on


class Calibration:
    """The section "guo2011" of a profile, fitted to the times of three kernels on dense sample matrices.

    Attributes
    ----------
    max_nnz : int
        Entries of the largest samples.
    loads : dict of str to int
        Rows of a full load by data type.
    """

    def __init__(self, ordinal: int, quick: bool) -> None:
        self.max_nnz = _QUICK_NNZ if quick else _MAX_NNZ
        self.loads = {dtype: _QUICK_LOAD if quick else full_load(dtype, ordinal) for dtype in DTYPES}

    def jobs(self) -> list[Job]:
        """Full loads of rows of one length; a logarithmic grid of rows and entries a row; a line of sizes."""
        loads = sorted(set(self.loads.values()))
        shapes = [("csr", CSR_VECTOR, (load, width)) for load in loads for width in WIDTHS]
        shapes += [("ell", ELL, (1 << rows, 1 << width)) for rows in range(10, 24, 2) for width in range(11)]
        shapes += [("coo", COO, (1 << rows, 16)) for rows in range(10, 24)]
        return [
            (part, Sample("dense", shape), [kernel])
            for part, kernel, shape in shapes
            if shape[0] * shape[1] <= self.max_nnz
        ]

    def fit(self, records: Mapping[str, Sequence[Record]]) -> dict[str, object]:
        """The parameters of the model, by data type."""
        return {dtype: self._fit(dtype, load, records) for dtype, load in self.loads.items()}

    def _fit(self, dtype: str, load: int, records: Mapping[str, Sequence[Record]]) -> dict[str, object]:
        csr, ell, coo = ([r for r in records[part] if r["dtype"] == dtype] for part in ("csr", "ell", "coo"))
        csr = [r for r in csr if r["rows"] == load]
        return {
            "csr": vars(CsrVector.fit(load, [r["cols"] for r in csr], [r["time_us"] for r in csr])),
            "ell": vars(Ell.fit({(r["rows"], r["cols"]): r["time_us"] for r in ell})),
            "coo": vars(Coo.fit([r["nnz"] for r in coo], [r["time_us"] for r in coo])),
        }


def full_load(dtype: str, ordinal: int) -> int:
    """Rows that the CSR-vector kernel works on at once: processors x blocks x warps (section 4.2.2)."""
    if ordinal == CPU:
        return _CPU_LOAD
    found = _core.residency("csr_vector", np.dtype(DTYPES[dtype]).itemsize, ordinal)
    processors: int = _core.device_properties(ordinal)["multiprocessors"]
    return processors * int(found["blocks_per_processor"]) * int(found["block_size"]) // 32
