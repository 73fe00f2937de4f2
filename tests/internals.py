"""What tests ask of the library that users cannot, each with the reason."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

from spmvgpu import _core, arrays
from spmvgpu.inputs import jax_sparse, limits, torch_sparse
from spmvgpu.inputs.canonical import canonical_csr
from spmvgpu.linalg import named
from spmvgpu.linalg.systems import random_vector
from spmvgpu.planning.profile import SHIPPED, Profile, profile_path

CPU, GPU = -1, 0


def plan(A, fmt, device=GPU, processors=132, **options):
    """What a format would do with a matrix: its options, all chosen, and its cost.

    Of a GPU that need not be here, and without building anything.
    """
    return canonical_csr(A).plan(fmt, device, options, processors if device == GPU else None)


def considered(A, profile="nvidia-h200"):
    """The formats that are planned where one is to be chosen for a GPU, by its profile.

    What an operator on a GPU tells of it needs the GPU.
    """
    csr = canonical_csr(sp.csr_array(A))
    model = Profile.read(SHIPPED / f"{profile}.json").model(csr.dtype, True)
    found, _ = csr.source.predict_considered(GPU, model, "cached", None, math.inf)
    return {fmt for fmt, *_ in found}


def hold_at_most(monkeypatch, entries):
    """Let formats hold that many entries at most: a matrix with more than the real limit takes 64 GiB."""
    monkeypatch.setattr(limits, "ENTRY_LIMIT", entries)


def own_profile():
    """Where the profile of this CPU is looked for: a calibration that is kept there takes minutes."""
    return profile_path(CPU)


def drawn(n, dtype, seed, device=CPU):
    """The vectors that solvers draw to begin with, of which no caller sees any."""
    made = np.empty(n, dtype)
    random_vector(n, np.dtype(dtype), seed, device).read(made)
    return made


def csr_in_place(A):
    """(data, indices, indptr) of a sparse matrix of PyTorch's or JAX's, made where it is.

    Those on GPUs are converted so. The same code works on a CPU, where an operator has no use for it.
    """
    if type(A).__module__.startswith("torch"):
        return torch_sparse.TorchSource(A).tensors()
    return jax_sparse.JaxSource(A).arrays()


def keep_in_place(monkeypatch):
    """Let no sparse matrix of PyTorch's or JAX's that is on a GPU be copied to host memory."""
    for module in (jax_sparse, torch_sparse):
        monkeypatch.setattr(module, "_host", None)


def name_in_pytorch(thing):
    """By what the operations that PyTorch itself checks know an operator or a pattern."""
    from spmvgpu.arrays.torch_gradients import name_of  # which imports PyTorch

    return name_of(thing)


def threads_of_environment():
    """How many threads the environment allows, which counts at the first product of a process."""
    return _core.threads_of_environment()


def resident_shape(rows, entries, longest_row):
    """The blocks, and the rows and lanes of each, of a kernel that solves at once on a GPU, or None.

    Only its speed shows them.
    """
    return _core.resident_shape(rows, entries, longest_row)


def refuse(monkeypatch, *names):
    """Let preconditioners of these names fail where `solve` makes them: no matrix does so for sure."""

    def fail(op, **options):
        raise ValueError("not today")

    for name in names:
        monkeypatch.setitem(named._OF_ENTRIES, name, fail)


def adapt(monkeypatch, kind, library):
    """Let arrays of a type belong to a library: one that the package knows is found by its module."""
    monkeypatch.setitem(arrays._by_type, kind, library)
