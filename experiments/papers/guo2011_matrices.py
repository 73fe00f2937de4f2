"""Matrices of Guo et al. 2011, and further ones for predictions; calibration uses none of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from experiments.matrices import find, mesh_with_unknowns, read_real, real_names
from experiments.papers.matrices import TAO2015, YIN2012, PaperMatrix, Sample, load

_KNOWN = {wanted.file: wanted for wanted in (*TAO2015, *YIN2012)}


def _known(name: str, file: str) -> PaperMatrix:
    return replace(_KNOWN[file], name=name)


# The 14 matrices of Williams et al. 2007, in the order of Bell and Garland 2009, whose names and numbers
# these are.
GUO2011 = (
    _known("Dense", "dense2"),
    _known("Protein", "pdb1HYS"),
    _known("FEM/Spheres", "consph"),
    _known("FEM/Cantilever", "cant"),
    PaperMatrix("Wind Tunnel", "pwtk", 217918, 217918, 11634424, 2, 180, 4.7, window=5000),
    PaperMatrix("FEM/Harbor", "rma10", 46835, 46835, 2374001, 4, 145, 28, window=2000),
    _known("QCD", "conf5_4-8x8-05"),
    PaperMatrix("FEM/Ship", "shipsec1", 140874, 140874, 7813404, 24, 102, 11, window=8000),
    _known("Economics", "mac_econ_fwd500"),
    _known("Epidemiology", "mc2depi"),
    _known("FEM/Accelerator", "cop20k_A"),
    _known("Circuit", "scircuit"),
    _known("Webbase", "webbase-1M"),
    PaperMatrix("LP", "rail4284", 4284, 1092610, 11279748, 1, 56181, 4200),
)

# A mesh in the second file, with this number of unknowns at a node, replaces a first one that is not at hand.
MESHES = {"pwtk": ("fe_pwt", 6)}


def load_paper_matrix(wanted: PaperMatrix, quick: bool = False) -> Sample:
    """As `load`; but a matrix whose mesh is at hand is made from that."""
    mesh, unknowns = MESHES.get(wanted.file, ("", 0))
    path = find(mesh) if mesh else None
    if quick or path is None or find(wanted.file) is not None:
        return load(wanted, quick)
    matrix = mesh_with_unknowns(read_real(path), unknowns)
    return Sample(wanted.name, matrix, "recipe", f"the mesh {path.name} with {unknowns} unknowns at a node")


def further_matrices(quick: bool = False) -> Iterator[Sample]:
    """The real matrices of the folder named by SPMVGPU_MATRICES; a quick run leaves them out."""
    for name in [] if quick else real_names():
        path = find(name)
        if path is not None:
            yield Sample(name, read_real(path), "real", path.name)
