"""The named matrices that everything is measured on: generated, real, and large ones made from real ones."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from generators import families
from generators.families import canonical
from spmvgpu import gallery

from .matrices import FOLDER_VARIABLE, INDEX, folder, index, is_complex, mesh_with_unknowns, read_real

# Recipe name -> (real matrix, unknowns per node): every entry of the mesh graph becomes a dense block.
RECIPES = {"fe_pwt_x6": ("fe_pwt", 6), "fe_bracket_xl_x3": ("fe_bracket_xl_nodes", 3)}


@dataclass(frozen=True)
class Item:
    """One matrix that is measured; `make` can be pickled, for processes that build matrices."""

    name: str
    group: str  # "generated", "real" or "recipe", or a family
    make: Callable[[], Any]

    def build(self) -> sp.csr_array:
        """The matrix as a canonical float64 `csr_array`."""
        return canonical(self.make())


# Names say the size, so that no quick result can be taken for one of the real suite.
QUICK: dict[str, Callable[[], Any]] = {
    "poisson2d_60": partial(gallery.poisson2d, 60, contrast=100),
    "elast3d_1k": partial(gallery.elasticity3d, 7, contrast=100),
    "powerlaw_5k": partial(gallery.powerlaw, 5000, 8),
}
# Small ones first, so that a run cut short has seen something of every kind.
GENERATED = (
    "small_fem", "econ_like", "web_like", "elast3d_20k", "poisson2d_1000", "lp_wide", "elast3d_160k",
    "powerlaw_2M", "uniform_1M_40", "poisson2d_3000", "banded_2M_24", "poisson3d27_128", "poisson3d7_200",
)  # fmt: skip


def suite(quick: bool = False) -> tuple[list[Item], dict[str, str]]:
    """All items, small ones first, and the matrices left out, each with its reason.

    Parameters
    ----------
    quick : bool
        A few small matrices instead, for trying things out.
    """
    real, left_out = _real_items()
    if quick:
        return [Item(name, "generated", make) for name, make in QUICK.items()] + real[:3], left_out
    generated = [Item(name, "generated", partial(_generated, name)) for name in GENERATED]
    present = {item.name for item in real}
    recipes = [
        Item(name, "recipe", partial(_recipe, source, dof))
        for name, (source, dof) in RECIPES.items()
        if source in present
    ]
    return real + generated + recipes, left_out


def suite_items(options: Namespace) -> tuple[list[Item], dict[str, str]]:
    """`suite`, as experiments declare it."""
    return suite(options.quick)


def _generated(name: str) -> sp.csr_array:
    return gallery.SUITE[name](np.float64)


def _real_items() -> tuple[list[Item], dict[str, str]]:
    where = folder()
    if where is None:
        return [], {"real matrices": f"the environment variable {FOLDER_VARIABLE} names no folder"}
    if not (where / INDEX).is_file():
        return [], {"real matrices": f"{where} ({FOLDER_VARIABLE}) has no {INDEX}"}
    items, left_out = [], {}
    for entry in index(where):
        if is_complex(entry):
            left_out[entry["name"]] = f"values are {entry['dtype']}; float32 and float64 are measured"
        else:
            items.append(Item(entry["name"], "real", partial(real_matrix, entry["name"])))
    return items, left_out


def real_matrix(name: str) -> sp.csr_array:
    """Read one matrix of the folder, mirrored if only a triangle is stored; patterns get random values."""
    where = folder()
    assert where is not None
    return read_real(where / f"{name}.npz")


def _recipe(source: str, dof: int) -> sp.csr_array:
    return mesh_with_unknowns(canonical(real_matrix(source)), dof)


# The matrices of the suite that belong to a family.
OF_SUITE = {
    "poisson2d_1000": families.STENCIL,
    "poisson2d_3000": families.STENCIL,
    "poisson3d7_200": families.STENCIL,
    "poisson3d27_128": families.STENCIL,
    "elast3d_1k": families.SYMMETRIC_FEM,
    "elast3d_20k": families.SYMMETRIC_FEM,
    "elast3d_160k": families.SYMMETRIC_FEM,
    "fe_bracket_xl_x3": families.SYMMETRIC_FEM,
    "fe_bracket_elastic": families.SYMMETRIC_FEM,
    "powerlaw_2M": families.GRAPH,
    "uniform_1M_40": families.UNIFORM,
}


def all_items(options: Namespace) -> tuple[list[Item], dict[str, str]]:
    """The families and the suite, each matrix in its family; and what is left out."""
    items, left_out = suite(options.quick)
    grouped = [Item(item.name, OF_SUITE.get(item.name, item.group), item.make) for item in items]
    known = {} if options.quick else families.BUILDERS
    others = [Item(name, family, partial(families.build, name)) for name, (family, _) in known.items()]
    return [*others, *grouped], left_out
