"""The matrices that the symmetric format is measured on: finite elements, in order and as they come."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import scipy.sparse as sp

from spmvgpu import gallery
from spmvgpu.gallery import meshes

from . import suite
from .suite import Item

REORDERED, GIVEN = "rcm", "given"  # groups: in reverse Cuthill-McKee order, and as generated or read
AS_GIVEN = ", as given"  # ends the names of the second

# Name -> unknowns per node. What the project's goals are about: 3-D elasticity and shells.
NARROW = {
    "elast3d_20k": 3,
    "elast3d_55k": 3,
    "elast3d_160k": 3,
    "fe_bracket_elastic": 3,
    "fe_bracket_xl_x3": 3,
    "fe_pwt_x6": 6,
    "shell_x6": 6,
}
# Short rows in a wide band, for contrast: edge elements of tetrahedra.
WIDE = {"edge_elements": 1}

QUICK = {"elast3d_1k": 3, "shell_400_x6": 6, "edge_elements_2k": 1}


def symmetric_suite(quick: bool = False) -> tuple[list[Item], dict[str, str]]:
    """All items, those in order first, and what is left out, each with its reason.

    Parameters
    ----------
    quick : bool
        A few small matrices instead, for trying things out.
    """
    present = {item.name for item in suite.suite()[0] if item.group == "real"}
    left_out = {
        name: f"needs the real matrix {source}"
        for name, source in REAL.items()
        if source not in present and not quick
    }
    wanted = QUICK if quick else {**NARROW, **WIDE}
    there = {name: dof for name, dof in wanted.items() if name not in left_out}
    return [
        *(Item(name, REORDERED, partial(reordered, name, dof)) for name, dof in there.items()),
        *(Item(name + AS_GIVEN, GIVEN, partial(given, name)) for name in there),
    ], left_out


def reordered(name: str, dof: int) -> sp.csr_array:
    return meshes.cuthill_mckee(given(name), dof)


def given(name: str) -> sp.csr_array:
    """One matrix by name, symmetric to the last bit."""
    return BUILDERS[name]()


def _elasticity(n: int) -> sp.csr_array:
    return gallery.elasticity3d(n, contrast=100)


def _shell(along: int, around: int) -> sp.csr_array:
    """A cylinder of shell elements: 6 unknowns per node."""
    return meshes.symmetric_values(meshes.blocks(meshes.solid((along, around), closed=(1,)), 6))


def _edges(*nodes: int) -> sp.csr_array:
    return meshes.symmetric_values(meshes.shuffled(meshes.edge_elements(nodes), 50))


def _real(source: str, dof: int = 1) -> sp.csr_array:
    """A real mesh, or the pattern of one whose nodes have `dof` unknowns each."""
    matrix = suite.real_matrix(source)
    if dof == 1:
        return matrix
    pattern = sp.csr_array((np.ones(matrix.nnz, np.int8), matrix.indices, matrix.indptr), shape=matrix.shape)
    return meshes.symmetric_values(meshes.blocks(pattern, dof))


BUILDERS: dict[str, Callable[[], sp.csr_array]] = {
    "elast3d_20k": partial(_elasticity, 27),
    "elast3d_55k": partial(_elasticity, 38),
    "elast3d_160k": partial(_elasticity, 54),
    "shell_x6": partial(_shell, 600, 100),
    "edge_elements": partial(_edges, 80, 36, 36),
    "elast3d_1k": partial(_elasticity, 7),
    "shell_400_x6": partial(_shell, 40, 10),
    "edge_elements_2k": partial(_edges, 8, 7, 6),
    "fe_bracket_elastic": partial(_real, "fe_bracket_elastic"),
    **{name: partial(_real, source, dof) for name, (source, dof) in suite.RECIPES.items()},
}
# Those that need a real matrix -> its name.
REAL = {
    "fe_bracket_elastic": "fe_bracket_elastic",
    **{name: source for name, (source, _) in suite.RECIPES.items()},
}
