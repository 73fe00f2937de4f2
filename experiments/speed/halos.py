"""Count what ranks would have to send for a product: ``python -m experiments halos``.

Meshes are divided among 2 to 1,024 ranks, each with as many entries: in the order that they come in, in that
of reverse Cuthill-McKee, and by METIS where pymetis is installed. A rank needs the entries of x that its rows
refer to and that belong to others: its halo, which comes in a message from each of them. Nothing is timed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from experiments import environment, matrices
from experiments.records import RESULTS, Recorder
from experiments.report.halos import summary
from spmvgpu import gallery
from spmvgpu.partition import by_nnz

Parts = npt.NDArray[np.integer[Any]]

GRIDS: dict[str, Callable[[], Any]] = {
    "poisson2d_500": lambda: gallery.poisson2d(500),
    "poisson3d_64": lambda: gallery.poisson3d(64),
    "poisson3d_64_27": lambda: gallery.poisson3d(64, points=27),
}
QUICK: dict[str, Callable[[], Any]] = {"poisson2d_40": lambda: gallery.poisson2d(40)}
MESHES = ("t60k", "delaunay_n16", "fe_pwt", "fe_bracket_xl_nodes")
COUNTS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
LEAST_ROWS = 32  # of a rank


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments halos", description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="one small grid")
    options = parser.parse_args(arguments)
    facts = environment.describe("cpu")
    metis = _metis()
    if metis is not None:
        facts["versions"]["pymetis"] = metis.version
    record = Recorder(options.out / "halos.json", facts)  # of no device: it is the same everywhere
    if metis is None:
        record.skip("pymetis is not installed", partition="metis")
    for name, make in (QUICK if options.quick else {**GRIDS, **_meshes(record)}).items():
        pattern = _symmetric_pattern(make())
        print(f"{name}: {pattern.shape[0]} rows, {pattern.nnz} entries", flush=True)
        for count in COUNTS:
            if pattern.shape[0] >= LEAST_ROWS * count:
                for partition, divide in DIVISIONS.items():
                    if partition != "metis" or metis is not None:
                        record.add(**_row(name, pattern, partition, divide(pattern, count), count))
        record.write()
    print(summary({"rows": record.rows}))
    return 0


def _metis() -> Any:
    try:
        import pymetis
    except ImportError:
        return None
    return pymetis


def _meshes(record: Recorder) -> dict[str, Callable[[], Any]]:
    found: dict[str, Callable[[], Any]] = {}
    for name in MESHES:
        path = matrices.find(name)
        if path is None:
            record.skip(f"{matrices.FOLDER_VARIABLE} names no folder that has it", matrix=name)
        else:
            found[name] = partial(matrices.read_real, path)
    return found


def _symmetric_pattern(matrix: Any) -> sp.csr_array:
    """Where a matrix or its transpose has entries, and the diagonal."""
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
    graph = _metis().CSRAdjacency(without.indptr, without.indices)
    _, part = _metis().part_graph(count, graph, vweights=np.diff(pattern.indptr))
    return np.asarray(part, np.int64)


DIVISIONS = {"order": _in_order, "rcm": _cuthill_mckee, "metis": _by_metis}


def _row(name: str, pattern: sp.csr_array, partition: str, part: Parts, count: int) -> dict[str, Any]:
    """What a division means for the ranks: all of them together, and the one that has most."""
    halos, messages = halos_of(pattern, part, count)
    entries = np.bincount(part, np.diff(pattern.indptr), count)
    return {
        "matrix": name,
        "rows": pattern.shape[0],
        "nnz": int(pattern.nnz),
        "ranks": count,
        "partition": partition,
        "halo": int(halos.sum()),
        "largest_halo": int(halos.max()),
        "messages": int(messages.sum()),
        "most_messages": int(messages.max()),
        "most_entries": int(entries.max()),
    }


def halos_of(pattern: sp.csr_array, part: Parts, count: int) -> tuple[Parts, Parts]:
    """Entries of x that each rank needs from others, and the ranks that they come from."""
    n = pattern.shape[0]
    to = np.repeat(part, np.diff(pattern.indptr))
    crosses = to != part[pattern.indices]
    needed = np.unique(to[crosses] * n + pattern.indices[crosses])
    by, column = needed // n, needed % n
    pairs = np.unique(by * count + part[column])
    return np.bincount(by, minlength=count), np.bincount(pairs // count, minlength=count)
