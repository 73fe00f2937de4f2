"""Questions to private modules that tests have in common, each with the reason for it.

Tests make public calls. test_layers.py has the list of the files that may import more.
"""

from __future__ import annotations

import itertools
import math
import sys

import numpy as np
import scipy.sparse as sp

from spmvgpu import _core, arrays
from spmvgpu.devices import _warn_once, _with_drivers
from spmvgpu.inputs import jax_sparse, limits, torch_sparse
from spmvgpu.inputs.canonical import canonical_csr
from spmvgpu.inputs.csr import CanonicalCsr
from spmvgpu.linalg import (
    DirectFactors,
    amg,
    cudss,
    forecast,
    kept_factors,
    multigrid_in_pieces,
    named,
    requests,
    splu,
)
from spmvgpu.linalg.gpu_threads import GpuThreads
from spmvgpu.linalg.problem import DoubleSystem
from spmvgpu.linalg.vectors import random_vector
from spmvgpu.multi_device import division
from spmvgpu.planning import choosing
from spmvgpu.planning.profile import SHIPPED, Profile, profile_path

CPU, GPU = -1, 0


def plan(A, fmt, device=GPU, processors=132, **options):
    """What a format would do with a matrix: its options, all chosen, and its cost.

    Nothing is built, and the GPU need not be here.
    """
    return canonical_csr(A).plan(fmt, device, options, processors if device == GPU else None)


def predict_considered(A, mode="cached", products=None, profile="nvidia-h200"):
    """The predictions of which one is chosen for a GPU, by its profile.

    Given `products`, formats are left out that are not worth planning for that number of products. Only an
    operator on a GPU shows all this.
    """
    csr = canonical_csr(sp.csr_array(A))
    model = Profile.read(SHIPPED / f"{profile}.json").model(csr.dtype, True)
    return csr.source.predict_considered(GPU, model, mode, None, products)[0]


def gpu_threads(*ordinals):
    """The threads in which `amg` waits for GPUs, which need not be here."""
    return GpuThreads(ordinals)


def let_cuda_fail(monkeypatch, error, driver, needed, name=None):
    """Let CUDA fail to list its devices, with a driver of some version: such a driver is not here."""
    monkeypatch.delenv("SPMVGPU_DEVICE", raising=False)
    monkeypatch.setattr(_core, "device_count", lambda: 0)
    monkeypatch.setattr(_core, "driver", lambda: {"error": error, "version": driver, "needed": needed})
    monkeypatch.setattr(sys.modules[_warn_once.__module__], "nvidia_driver", lambda: name)
    _with_drivers.cache_clear()
    _warn_once.cache_clear()


def hold_at_most(monkeypatch, entries):
    """Let formats hold that many entries at most: a matrix with more than the real limit takes 64 GiB."""
    monkeypatch.setattr(limits, "ENTRY_LIMIT", entries)


def let_one_device_have(monkeypatch, entries):
    """Let levels of multigrid with that many entries be on one device: real ones take minutes to test."""
    monkeypatch.setattr(multigrid_in_pieces, "ENTRIES_OF_ONE", {"cpu": entries, "gpu": entries})


def growing_hierarchy(monkeypatch, A, look):
    """A piece's hierarchy, which calls look(number of levels) before other threads know of a level."""
    monkeypatch.setattr(multigrid_in_pieces, "check_definite", lambda core, _: look(core.levels))
    arguments = amg(A, device="cpu", max_coarse=20)._arguments
    csr = canonical_csr(A)
    nothing = _core.EntriesBetween(CanonicalCsr.empty(csr.shape, csr.dtype, CPU).source, 0, csr.shape[0])
    return multigrid_in_pieces.BlockHierarchy(csr, nothing, arguments)


def let_parts_have_interiors(monkeypatch, entries):
    """Let parts of that many entries have an interior, from any row on: real ones take seconds to test."""
    monkeypatch.setattr(division, "_LEAST_INTERIOR", entries)
    monkeypatch.setattr(division, "_ALIGNED_ROWS", 1)


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

    Matrices on GPUs are converted so. The code works on a CPU too, where no operator uses it.
    """
    if type(A).__module__.startswith("torch"):
        return torch_sparse.TorchSource(A).tensors()
    return jax_sparse.JaxSource(A).arrays()


def keep_in_place(monkeypatch):
    """Let no sparse matrix of PyTorch's or JAX's that is on a GPU be copied to host memory."""
    for module in (jax_sparse, torch_sparse):
        monkeypatch.setattr(module, "_host", None)


def name_in_pytorch(thing):
    """The name of an operator or a pattern in calls of the operations that PyTorch itself checks."""
    from spmvgpu.arrays.torch_gradients import name_of  # which imports PyTorch

    return name_of(thing)


def threads_of_environment():
    """The number of threads that the environment allows. It counts at the first product of a process."""
    return _core.threads_of_environment()


def resident_shape(rows, entries, longest_row):
    """The blocks of a kernel that solves a system at once, and the rows and lanes of each, or None.

    Only speed on a GPU shows them.
    """
    return _core.resident_shape(rows, entries, longest_row)


def ones_in_system(op):
    """The sums that a forecast is made from: a solve shows only whether they were above a limit."""
    return DoubleSystem(op, np.ones(op.shape[0]), None, "auto").ones


def patience(iterations, ones, most=3000, rtol=1e-8, atol=0.0):
    """What ends a solve beside multigrid that takes as long as some iterations, without a solve."""
    return forecast.Patience(most, rtol, atol, forecast.Rival(iterations, ones))


def refuse(monkeypatch, *names):
    """Let preconditioners of these names fail when `solve` makes them, as no matrix is sure to do."""

    def fail(op, **options):
        raise ValueError("not today")

    for name in names:
        monkeypatch.setitem(named._OF_ENTRIES, name, fail)


def adapt(monkeypatch, kind, library):
    """Let arrays of a type belong to a library that the package does not know."""
    monkeypatch.setitem(arrays._by_type, kind, library)


def rank_predictions(table, **more):
    """Predictions in the order in which formats are tried, and whether they are timed: a function of a table.

    No matrix has predictions as close as a test wants them.
    """
    given = {"mode": "off", "products": math.inf, "spent_us": 0.0, "is_wide": False} | more
    return _core.rank_predictions([(*row[:7], {}) for row in table], 10**6, GPU, *given.values())


def formats_to_consider(device, mode, symmetric, has_few_values=False):
    """The formats that are planned where one is chosen. An operator names them only if it is on a GPU."""
    return _core.formats_to_consider(device, mode, symmetric, has_few_values)


def take_times(monkeypatch, time_of):
    """Let a function say how many microseconds timed products take, so that no test depends on a clock.

    The function gets the format, its options, the order of the rows if it is not the given one, and the time
    that was found before, of a product that is timed again.
    """

    def try_products(matrix, product_us=None):
        order = None
        if isinstance(matrix, _core.PartedMatrix):
            ((matrix, order, _),) = matrix.parts
        return time_of(matrix.format, matrix.options, order, product_us), 13

    monkeypatch.setattr(_core.AnyMatrix, "try_products", try_products)


def let_searches_take(monkeypatch, seconds):
    """Let a set-up take no time, and so many seconds pass whenever a search looks at the clock after it."""
    clock = itertools.chain([0] * 3, itertools.count(0, seconds))
    monkeypatch.setattr(choosing, "perf_counter", lambda: next(clock))


def refuse_to_build(monkeypatch, **errors):
    """Refuse to build matrices in some formats, as if memory had been taken since they were planned."""
    build = _core.CsrSource.build

    def refused(source, format, *arguments):
        if format in errors:
            raise errors[format]
        return build(source, format, *arguments)

    monkeypatch.setattr(_core.CsrSource, "build", refused)


def has_cudss():
    """Whether a GPU makes factors."""
    return cudss.is_available()


def keep_factors(monkeypatch):
    """The factors that solves of PyTorch and JAX make from now on, and those made of others, in two lists."""
    made, renewed = [], []
    for module in (requests, kept_factors):
        monkeypatch.setattr(module, "splu", lambda op: made.append(splu(op)) or made[-1])
    renew = DirectFactors._renewed
    monkeypatch.setattr(
        DirectFactors, "_renewed", lambda own, data: renewed.append(renew(own, data)) or renewed[-1]
    )
    return made, renewed
