"""The samples that the model of Guo et al. 2011 is fitted to on a device (section 4.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import _core
from ..devices import CPU
from ..planning.calibrate import Job, Record
from ..planning.measure import DTYPES, Variant
from ..planning.samples import Sample
from .guo2011 import Coo, CsrVector, Ell

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

    def fit(self, records: Mapping[str, Sequence[Record]]) -> dict[str, Any]:
        """The parameters of the model, by data type."""
        return {dtype: self._fit(dtype, load, records) for dtype, load in self.loads.items()}

    def _fit(self, dtype: str, load: int, records: Mapping[str, Sequence[Record]]) -> dict[str, Any]:
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
