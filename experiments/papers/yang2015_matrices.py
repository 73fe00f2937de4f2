"""The ten matrices of Yang et al. 2015, or matrices of their making: the order of long and short rows counts.

Rows, non-zeros and longest rows are the collection's. Of symmetric matrices the paper took the stored
triangle for the matrix: no other reading of table 1 fits nlpkkt, whose row lengths follow from its grid.
Files store the lower triangle by columns; read as rows, these are the upper one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import isqrt, prod
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from experiments.matrices import find, mesh_with_unknowns, read_real
from experiments.papers.matrices import QUICK, Sample
from generators.families import with_random_values
from generators.stand_ins import stand_in

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class YangMatrix:
    """A matrix of the paper.

    Attributes
    ----------
    name, file : str
        As the paper and the collection call it.
    make : callable
        ``make(fraction)`` is a pattern like it, with that fraction of its rows.
    source : str
        How it is made, in words.
    fraction : float
        Of the rows that are measured: those above a few ten million non-zeros are shrunk.
    triangle : bool
        Symmetric, and counted as its upper triangle.
    mesh : str, optional
        File of a mesh that gives its like, with 6 unknowns at a node.
    """

    name: str
    file: str
    make: Callable[[float], sp.csr_array]
    source: str
    fraction: float = 1.0
    triangle: bool = False
    mesh: str = ""


def load(wanted: YangMatrix, quick: bool = False) -> Sample:
    """The matrix itself if the folder named by SPMVGPU_MATRICES has it, otherwise one like it, named so."""
    if not quick and (path := find(wanted.file)):
        return _sample(wanted, wanted.name, read_real(path), "real", path.name)
    if not quick and wanted.mesh and (path := find(wanted.mesh)):
        matrix = mesh_with_unknowns(read_real(path), 6)
        return _sample(
            wanted, wanted.name, matrix, "recipe", f"the mesh {path.name} with 6 unknowns at a node"
        )
    fraction = wanted.fraction / QUICK if quick else wanted.fraction
    name = wanted.name if fraction == 1 else f"{wanted.name} 1/{round(1 / fraction)}"
    matrix = with_random_values(wanted.make(fraction))
    return _sample(wanted, name, matrix, "generated", wanted.source)


def _sample(wanted: YangMatrix, name: str, matrix: sp.csr_array, origin: str, source: str) -> Sample:
    if wanted.triangle:
        matrix, source = sp.csr_array(sp.triu(matrix, format="csr")), f"{source}; upper triangle"
    return Sample(name, matrix, origin, source)


def boundary_control(fraction: float, points: int) -> sp.csr_array:
    """Pattern of nlpkkt: states on a cube of `points` cubed, controls on its faces, equations as constraints.

    Unknowns in the order states, controls, multipliers. An equation couples the 27 states around a point, and
    at a face the 9 controls around it. That gives the rows, non-zeros, shortest and longest row of nlpkkt80
    exactly; in what order the files number the points is not known.
    """
    n = max(3, round(points * fraction ** (1 / 3)))
    line = sp.diags_array(
        [np.ones(n - 1, np.int8), np.ones(n, np.int8), np.ones(n - 1, np.int8)],
        offsets=[-1, 0, 1],
        dtype=np.int8,
    )
    face = sp.csr_array(sp.kron(line, line, format="csr"))
    state = sp.csr_array(sp.kron(line, face, format="csr"))
    place = np.arange(n**3).reshape(n, n, n)
    control = []
    for axis in range(3):
        for end in (0, n - 1):
            at = place.take(end, axis).ravel()
            control.append(sp.csr_array((face.data, at[face.indices], face.indptr), shape=(n * n, n**3)))
    onto = sp.vstack(control, format="csr")
    unit = partial(sp.eye_array, dtype=np.int8)
    blocks = [
        [unit(n**3), None, state],
        [None, unit(6 * n * n), onto],
        [state, onto.T, unit(n**3)],
    ]
    return sp.csr_array(sp.block_array(blocks, format="csr"))


def shell(fraction: float, nodes: int, unknowns: int) -> sp.csr_array:
    """Triangles over a square sheet: every node is coupled to itself and six others, block by block."""
    n = isqrt(round(nodes * fraction))
    steps = [-n - 1, -n, -1, 0, 1, n, n + 1]
    full = sp.diags_array(
        [np.ones(n * n - abs(step), np.int8) for step in steps], offsets=steps, dtype=np.int8
    ).tocoo()
    across = np.abs(full.row % n - full.col % n) <= 1  # not around the edge of the sheet
    mesh = sp.csr_array((full.data[across], (full.row[across], full.col[across])), shape=full.shape)
    return mesh_with_unknowns(mesh, unknowns)


def power_flow(fraction: float, rows: int, nnz: int, longest: int) -> sp.csr_array:
    """TSOPF: rows of a few entries, then about as many with one dense block of columns each."""
    rows, nnz = round(rows * fraction), round(nnz * fraction)
    dense = round((nnz - 3 * rows) / (longest - 5))  # leaves 3 entries to each of the others
    top = stand_in(rows - dense, rows, 3 * (rows - dense), shortest=2, longest=5, spread=0.8)
    bottom = stand_in(
        dense, rows, (longest - 2) * dense, shortest=longest - 8, longest=longest, spread=1.5, window=1
    )
    return sp.csr_array(sp.vstack([top, bottom], format="csr"))


def _random(fraction: float, rows: int, nnz: int, window: int, **lengths: Any) -> sp.csr_array:
    """Row lengths as the matrix has them, in any order, around the diagonal."""
    rows, nnz = round(rows * fraction), round(nnz * fraction)
    return stand_in(rows, rows, nnz, window=max(1, round(window * min(1, 4 * fraction))), **lengths)


def grid_lengths(points: int) -> Array:
    """Row lengths of the upper triangle of `boundary_control`, without making the matrix."""
    ends = np.full(points, 3)
    ends[[0, -1]] = 2
    face = np.multiply.outer(ends, ends)
    state = np.multiply.outer(ends, face)
    return np.concatenate(
        [state.ravel() + 1, np.tile(face.ravel(), 6) + 1, np.ones(prod(state.shape), np.int64)]
    )


KKT = "states, controls and multipliers of a boundary control problem"

YANG2015 = (
    YangMatrix(
        "PR02R",
        "PR02R",
        partial(_random, rows=161070, nnz=8185136, shortest=1, longest=92, spread=19.7, window=6400),
        "rows of 1 to 92 entries in any order, around the diagonal",
    ),
    YangMatrix(
        "pwtk",
        "pwtk",
        partial(_random, rows=217918, nnz=11524432, shortest=2, longest=180, spread=4.7, window=1500),
        "rows of 2 to 180 entries in any order, around the diagonal",
        triangle=True,
        mesh="fe_pwt",
    ),
    YangMatrix(
        "TSOPF_RS_b300_c3",
        "TSOPF_RS_b300_c3",
        partial(power_flow, rows=42138, nnz=4413449, longest=209),
        "rows of 2 to 5 entries, then rows of up to 209 in a dense block",
    ),
    YangMatrix(
        "af_shell10",
        "af_shell10",
        partial(shell, nodes=301613, unknowns=5),
        "7 nodes of a triangle mesh with 5 unknowns each",
        fraction=1 / 2,
        triangle=True,
    ),
    YangMatrix(
        "rajat31",
        "rajat31",
        partial(_random, rows=4690002, nnz=20316253, shortest=1, longest=1252, spread=1.1, window=4600),
        "rows of 1 to 1252 entries, nearly all of them short, around the diagonal",
    ),
    YangMatrix(
        "ohne2",
        "ohne2",
        partial(_random, rows=181343, nnz=11063545, shortest=19, longest=3441, spread=21, window=4000),
        "rows of 19 to 3441 entries, nearly all of them short, around the diagonal",
    ),
    *(
        YangMatrix(
            name,
            name,
            partial(boundary_control, points=points),
            KKT,
            fraction=fraction,
            triangle=True,
        )
        for name, points, fraction in (
            ("nlpkkt120", 120, 1 / 8),
            ("nlpkkt160", 160, 1 / 8),
            ("nlpkkt200", 200, 1 / 8),
        )
    ),
    YangMatrix(
        "cage15",
        "cage15",
        partial(_random, rows=5154859, nnz=99199551, shortest=3, longest=47, spread=5.7, window=1100000),
        "rows of 3 to 47 entries in any order, around the diagonal",
        fraction=1 / 8,
    ),
)
