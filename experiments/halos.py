"""Count of the entries that ranks would have to send for a product.

Meshes are divided among 2 to 1,024 ranks, each with as many entries: in the order that they come in, in that
of reverse Cuthill-McKee, and by METIS where pymetis is installed. A rank needs the entries of x that its rows
refer to and that belong to others: its halo, which comes in a message from each of them. Nothing is timed.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from spmvgpu import gallery
from spmvgpu.partition import by_nnz

from . import matrices
from .engine import Experiment, Items, Run
from .peers.problem import Problem
from .records import Row
from .suite import Item

try:
    import pymetis
except ImportError:
    pymetis = None

Parts = npt.NDArray[np.integer[Any]]

GRIDS = {
    "poisson2d_500": partial(gallery.poisson2d, 500),
    "poisson3d_64": partial(gallery.poisson3d, 64),
    "poisson3d_64_27": partial(gallery.poisson3d, 64, points=27),
}
QUICK = {"poisson2d_40": partial(gallery.poisson2d, 40)}
MESHES = ("t60k", "delaunay_n16", "fe_pwt", "fe_bracket_xl_nodes")
COUNTS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
LEAST_ROWS = 32  # of a rank


def items(options: Namespace) -> Items:
    """Grids, and meshes of the folder of real matrices."""
    found = [Item(name, "generated", make) for name, make in (QUICK if options.quick else GRIDS).items()]
    paths = {name: matrices.find(name) for name in (() if options.quick else MESHES)}
    found += [Item(name, "real", partial(matrices.read_real, path)) for name, path in paths.items() if path]
    reason = f"{matrices.FOLDER_VARIABLE} names no folder that has it"
    return found, {name: reason for name, path in paths.items() if path is None}


def start(run: Run) -> None:
    if pymetis is None:
        run.record.skip("pymetis is not installed", partition="metis")
    else:
        run.record.environment["versions"]["pymetis"] = pymetis.version


def symmetric_pattern(matrix: Any) -> sp.csr_array:
    """Pattern of a matrix, its transpose and the diagonal together."""
    A = sp.csr_array(matrix)
    ones = sp.csr_array((np.ones(A.nnz, np.int8), A.indices, A.indptr), shape=A.shape)
    whole = sp.csr_array(ones + ones.T + sp.eye_array(A.shape[0], dtype=np.int8, format="csr"))
    whole.sort_indices()
    return whole


def _in_order(pattern: sp.csr_array, count: int) -> Parts:
    cut = by_nnz(np.diff(pattern.indptr), [1.0] * count)
    part = np.empty(pattern.shape[0], np.int64)
    for number, rows in enumerate(cut.sets):
        part[rows] = number
    return part


def _cuthill_mckee(pattern: sp.csr_array, count: int) -> Parts:
    order = reverse_cuthill_mckee(pattern, symmetric_mode=True)
    ordered = sp.csr_array(pattern[order])  # whose rows have as many entries as with their columns in order
    part = np.empty(pattern.shape[0], np.int64)
    part[order] = _in_order(ordered, count)
    return part


def _by_metis(pattern: sp.csr_array, count: int) -> Parts:
    without = pattern.copy()
    without.setdiag(0)
    without.eliminate_zeros()
    graph = pymetis.CSRAdjacency(without.indptr, without.indices)
    _, part = pymetis.part_graph(count, graph, vweights=np.diff(pattern.indptr))
    return np.asarray(part, np.int64)


DIVISIONS = {"order": _in_order, "rcm": _cuthill_mckee, "metis": _by_metis}


def measure(run: Run, problem: Problem) -> Iterator[Row]:
    """What divisions mean for the ranks: all of them together, and the one that has most."""
    pattern = symmetric_pattern(problem.matrix)
    for count in COUNTS:
        for partition, divide in DIVISIONS.items() if pattern.shape[0] >= LEAST_ROWS * count else ():
            if partition != "metis" or pymetis is not None:
                part = divide(pattern, count)
                halos, messages = halos_of(pattern, part, count)
                entries = np.bincount(part, np.diff(pattern.indptr), count)
                yield {
                    "matrix": problem.name, "rows": pattern.shape[0], "nnz": int(pattern.nnz),
                    "ranks": count, "partition": partition,
                    "halo": int(halos.sum()), "largest_halo": int(halos.max()),
                    "messages": int(messages.sum()), "most_messages": int(messages.max()),
                    "most_entries": int(entries.max()),
                }  # fmt: skip


def halos_of(pattern: sp.csr_array, part: Parts, count: int) -> tuple[Parts, Parts]:
    """Entries of x that each rank needs from others, and the ranks that they come from."""
    n = pattern.shape[0]
    to = np.repeat(part, np.diff(pattern.indptr))
    crosses = to != part[pattern.indices]
    needed = np.unique(to[crosses] * n + pattern.indices[crosses])
    by, column = needed // n, needed % n
    pairs = np.unique(by * count + part[column])
    return np.bincount(by, minlength=count), np.bincount(pairs // count, minlength=count)


EXPERIMENTS = [
    Experiment(
        command="halos",
        about="what ranks send for a product, counted",
        file="halos",
        items=items,
        dtypes=("f64",),
        of_device=False,
        start=start,
        measure=measure,
    )
]
