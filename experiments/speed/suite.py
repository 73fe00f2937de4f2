"""The named matrices that everything is measured on: generated, real, and large ones made from real ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse as sp

from experiments.matrices import (
    FOLDER_VARIABLE,
    INDEX,
    canonical,
    folder,
    index,
    is_complex,
    mesh_with_unknowns,
    read_real,
)
from spmvgpu import gallery

# Recipe name -> (real matrix, unknowns per node): every entry of the mesh graph becomes a dense block.
RECIPES = {"fe_pwt_x6": ("fe_pwt", 6), "fe_bracket_xl_x3": ("fe_bracket_xl_nodes", 3)}


@dataclass(frozen=True)
class Item:
    """One matrix of the suite; `build` returns it as a canonical float64 `csr_array`."""

    name: str
    group: str  # "generated", "real" or "recipe"
    build: Callable[[], sp.csr_array]


def suite(quick: bool = False) -> tuple[list[Item], dict[str, str]]:
    """All items, small ones first, and the matrices left out, each with its reason.

    Parameters
    ----------
    quick : bool
        A few small matrices instead, for trying things out.
    """
    real, left_out = _real_items()
    if quick:
        return [Item(name, "generated", partial(_quick, name)) for name in QUICK] + real[:3], left_out
    return real + _generated_items() + _recipe_items({item.name for item in real}), left_out


def _generated_items() -> list[Item]:
    # Small ones first, so that a run cut short has seen something of every kind.
    order = (
        "small_fem",
        "econ_like",
        "web_like",
        "elast3d_20k",
        "poisson2d_1000",
        "lp_wide",
        "elast3d_160k",
        "powerlaw_2M",
        "uniform_1M_40",
        "poisson2d_3000",
        "banded_2M_24",
        "poisson3d27_128",
        "poisson3d7_200",
    )
    return [Item(name, "generated", partial(_gallery, name)) for name in order]


def _gallery(name: str) -> sp.csr_array:
    return canonical(gallery.SUITE[name](np.float64))


# Names say the size, so that no quick result can be taken for one of the real suite.
QUICK = ("poisson2d_60", "elast3d_1k", "powerlaw_5k")


def _quick(name: str) -> sp.csr_array:
    builders: dict[str, Callable[[], sp.csr_array]] = {
        "poisson2d_60": lambda: gallery.poisson2d(60, contrast=100),
        "elast3d_1k": lambda: gallery.elasticity3d(7, contrast=100),
        "powerlaw_5k": lambda: gallery.powerlaw(5000, 8),
    }
    return canonical(builders[name]())


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


def _recipe_items(present: set[str]) -> list[Item]:
    return [
        Item(name, "recipe", partial(_recipe, source, dof))
        for name, (source, dof) in RECIPES.items()
        if source in present
    ]


def real_matrix(name: str) -> sp.csr_array:
    """Read one matrix of the folder, mirrored if only a triangle is stored; patterns get random values."""
    where = folder()
    assert where is not None
    return canonical(read_real(where / f"{name}.npz"))


def _recipe(source: str, dof: int) -> sp.csr_array:
    return canonical(mesh_with_unknowns(real_matrix(source), dof))
