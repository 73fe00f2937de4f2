"""What tests ask of the library that users cannot: plans of formats, also for GPUs that are not here."""

from __future__ import annotations

import math

import scipy.sparse as sp

from spmvgpu.inputs.canonical import canonical_csr
from spmvgpu.planning.profile import SHIPPED, Profile

CPU, GPU = -1, 0


def plan(A, fmt, device=GPU, processors=132, **options):
    """What a format would do with a matrix: its options, all chosen, and its cost."""
    return canonical_csr(A).plan(fmt, device, options, processors if device == GPU else None)


def considered(A, profile="nvidia-h200"):
    """The formats that are planned where one is to be chosen for a GPU, by its profile."""
    csr = canonical_csr(sp.csr_array(A))
    model = Profile.read(SHIPPED / f"{profile}.json").model(csr.dtype, True)
    found, _ = csr.source.predict_considered(GPU, model, "cached", None, math.inf)
    return {fmt for fmt, *_ in found}
