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


def predict_considered(A, mode="cached", products=None, profile="nvidia-h200"):
    """The predictions of which one is chosen for a GPU, by its profile.

    With `products`, the formats are left out that cannot be worth planning for so many products. What an
    operator on a GPU tells of all that needs the GPU.
    """
    csr = canonical_csr(sp.csr_array(A))
    model = Profile.read(SHIPPED / f"{profile}.json").model(csr.dtype, True)
    return csr.source.predict_considered(GPU, model, mode, None, products)[0]


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


def rank_predictions(table, **more):
    """Predictions in the order in which formats are tried, and whether they are timed: a function of a table.

    No matrix has predictions as close as a test wants them.
    """
    arguments = {
        "nnz": 10**6,
        "device": GPU,
        "mode": "off",
        "products": math.inf,
        "spent_us": 0.0,
        "is_wide": False,
    }
    return _core.rank_predictions(table, *(arguments | more).values())


def formats_to_consider(device, mode, symmetric, has_few_values=False):
    """The formats that are planned where one is to be chosen, of which an operator has at most one."""
    return _core.formats_to_consider(device, mode, symmetric, has_few_values)


def take_times(monkeypatch, time_of):
    """Let products that are timed take as many microseconds as a function says: no test depends on a clock.

    The function gets the format, its options, the order of the rows if it is not the given one, and the time
    that was found before, of a product that is timed again.
    """

    def try_products(matrix, product_us=None):
        order = None
        if isinstance(matrix, _core.PartedMatrix):
            ((matrix, order, _),) = matrix.parts
        return time_of(matrix.format, matrix.options, order, product_us), 13

    monkeypatch.setattr(_core.AnyMatrix, "try_products", try_products)


def refuse_to_build(monkeypatch, **errors):
    """Let matrices be refused when they are built in some formats, as where memory is gone by then."""
    build = _core.CsrSource.build

    def refused(source, format, *arguments):
        if format in errors:
            raise errors[format]
        return build(source, format, *arguments)

    monkeypatch.setattr(_core.CsrSource, "build", refused)
