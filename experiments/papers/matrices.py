"""The matrices that the papers measured: read where they are at hand, otherwise stood in for."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

import scipy.sparse as sp

from experiments.matrices import find, read_real
from generators.stand_ins import stand_in

# A quick run takes this fraction of the rows, columns and non-zeros.
QUICK = 16


@dataclass(frozen=True)
class PaperMatrix:
    """What a paper, or the collection that it took the matrix from, says about a matrix.

    Attributes
    ----------
    name : str
        As the paper calls it.
    file : str
        As the SuiteSparse collection calls it, which is the name that its file has.
    rows, cols, nnz : int
        As the paper has them.
    shortest, longest : int
        Entries of the shortest and longest row.
    spread : float
        Standard deviation of the row lengths. No paper gives it: rounded values of the matrices themselves
        where they are known, otherwise guesses.
    window : int, optional
        Columns around the diagonal that a stand-in spreads its rows over.
    triangle : bool
        The paper counted the entries of the stored triangle of a symmetric matrix only.
    """

    name: str
    file: str
    rows: int
    cols: int
    nnz: int
    shortest: int
    longest: int
    spread: float
    window: int | None = None
    triangle: bool = False

    @property
    def mean(self) -> float:
        return self.nnz / self.rows


@dataclass(frozen=True)
class Sample:
    """A matrix to measure.

    `origin` is "real" (read from a file), "exact" (made by the rule that defines it) or "generated" (a
    stand-in); `source` says it in words.
    """

    name: str
    matrix: sp.csr_array
    origin: str
    source: str


def load(wanted: PaperMatrix, quick: bool = False) -> Sample:
    """The matrix itself if the folder named by SPMVGPU_MATRICES has it, otherwise one like it.

    Parameters
    ----------
    wanted : PaperMatrix
    quick : bool
        A small stand-in in any case; its name says so.
    """
    if quick:
        return _generate(_shrunk(wanted))
    path = find(wanted.file)
    if path is None:
        return _generate(wanted)
    matrix = read_real(path)
    if wanted.triangle and matrix.nnz > 1.2 * wanted.nnz:
        matrix = sp.csr_array(sp.tril(matrix, format="csr"))
        return Sample(wanted.name, matrix, "real", f"{path.name}, lower triangle as counted in the paper")
    return Sample(wanted.name, matrix, "real", path.name)


def _generate(wanted: PaperMatrix) -> Sample:
    matrix = stand_in(
        wanted.rows,
        wanted.cols,
        wanted.nnz,
        shortest=wanted.shortest,
        longest=wanted.longest,
        spread=wanted.spread,
        window=wanted.window,
    )
    if wanted.nnz == wanted.rows * wanted.cols:
        return Sample(wanted.name, matrix, "exact", "a dense matrix")
    where = f"within {wanted.window} columns" if wanted.window else "over all columns"
    return Sample(
        wanted.name,
        matrix,
        "generated",
        f"rows of {wanted.shortest} to {wanted.longest} entries, spread {where}",
    )


def _shrunk(wanted: PaperMatrix) -> PaperMatrix:
    if wanted.nnz == wanted.rows * wanted.cols:
        rows, cols = wanted.rows // isqrt(QUICK), wanted.cols // isqrt(QUICK)
        nnz, shortest, longest = rows * cols, cols, cols
    else:
        rows, cols = wanted.rows // QUICK, wanted.cols // QUICK
        shortest, longest = wanted.shortest, wanted.longest
        # Whole rows of the mean length, unless all are of one length.
        nnz = rows * longest if shortest == longest else round(wanted.mean * rows)
    return PaperMatrix(
        f"{wanted.name} 1/{QUICK}",
        wanted.file,
        rows,
        cols,
        nnz,
        shortest,
        longest,
        wanted.spread,
        wanted.window,
    )


# Yin et al. 2012, table VIII; the shortest and longest rows are the collection's.
YIN2012 = (
    PaperMatrix("Protein", "pdb1HYS", 36417, 36417, 4344765, 18, 204, 32, window=4000),
    PaperMatrix("FEM/Spheres", "consph", 83334, 83334, 6010480, 1, 81, 19, window=6000),
    PaperMatrix("FEM/Cantilever", "cant", 62451, 62451, 4007383, 1, 78, 14, window=500),
    PaperMatrix("Economics", "mac_econ_fwd500", 206500, 206500, 1273389, 1, 44, 4.4),
    PaperMatrix("Epidemiology", "mc2depi", 525825, 525825, 2100225, 2, 4, 0.1, window=2100),
    PaperMatrix("FEM/Accelerator", "cop20k_A", 121192, 121192, 2624331, 0, 81, 14),
)

# Tao and Huang 2015, table 2, with the exact numbers where it rounds to thousands. Of symmetric matrices it
# counts the stored triangle.
TAO2015 = (
    PaperMatrix("dense2_app", "dense2", 2000, 2000, 4000000, 2000, 2000, 0),
    PaperMatrix("cant", "cant", 62451, 62451, 2034917, 1, 40, 7, window=250, triangle=True),
    PaperMatrix("consph", "consph", 83334, 83334, 3046907, 1, 66, 10, window=3000, triangle=True),
    PaperMatrix("cop20k_A", "cop20k_A", 121192, 121192, 1362087, 0, 24, 7, triangle=True),
    PaperMatrix("mac_econ_fwd500", "mac_econ_fwd500", 206500, 206500, 1273389, 1, 44, 4.4),
    PaperMatrix("pdb1HYS", "pdb1HYS", 36417, 36417, 2190591, 1, 184, 25, window=2000, triangle=True),
    PaperMatrix("qcd5_4_app", "conf5_4-8x8-05", 49152, 49152, 1916928, 39, 39, 0),
    PaperMatrix("rail4284", "rail4284", 4284, 1096894, 11284032, 1, 56181, 4200),
    PaperMatrix("scircuit", "scircuit", 170998, 170998, 958936, 1, 353, 4.4),
    PaperMatrix("shipsec1", "shipsec1", 140874, 140874, 3977139, 1, 84, 10, window=4000, triangle=True),
    PaperMatrix("webbase-1M", "webbase-1M", 1000005, 1000005, 3105536, 1, 4700, 25),
)
