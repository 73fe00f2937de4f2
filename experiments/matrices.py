"""Real matrices, read from the folder that an environment variable names, and what is made of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from generators.families import with_random_values
from spmvgpu import matrix_io
from spmvgpu.gallery import meshes

FOLDER_VARIABLE = "SPMVGPU_MATRICES"
INDEX = "index.json"  # a list of the matrices in a folder: name, nnz, dtype, what is stored


def folder() -> Path | None:
    """The folder that the variable names."""
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named) if named else None


def find(name: str) -> Path | None:
    """The file of a matrix, if the folder has it."""
    where = folder()
    if where is None:
        return None
    candidates = (where / f"{name}{suffix}" for suffix in matrix_io.MATRIX_SUFFIXES)
    return next((path for path in candidates if path.is_file()), None)


def index(where: Path) -> list[dict[str, Any]]:
    """Entries of a folder's index, small matrices first; nothing where there is no index."""
    file = where / INDEX
    entries = json.loads(file.read_text()) if file.is_file() else []
    return sorted(entries, key=lambda entry: (entry.get("nnz", 0), entry["name"]))


def is_complex(entry: dict[str, Any]) -> bool:
    return bool(entry["dtype"].startswith("complex"))


def real_names() -> list[str]:
    """The matrices of real numbers that the folder's index lists, small ones first."""
    where = folder()
    entries = [] if where is None else index(where)
    return [entry["name"] for entry in entries if not is_complex(entry)]


def read_real(path: Path) -> sp.csr_array:
    """A real matrix in full storage, as float64; a pattern, which is read as ones, gets random values.

    The index beside the file says where only a triangle is stored.
    """
    matrix = matrix_io.read_matrix(path)
    if np.iscomplexobj(matrix):
        raise ValueError(f"{path}: the matrix is complex; only real matrices are supported")
    if np.all(matrix.data == 1):
        matrix = with_random_values(matrix)
    matrix = matrix.astype(np.float64)
    if any(entry["name"] == path.stem and entry.get("stored") == "lower" for entry in index(path.parent)):
        matrix = sp.csr_array(matrix + sp.tril(matrix, -1).T)
    return matrix


def mesh_with_unknowns(mesh: sp.csr_array, unknowns: int) -> sp.csr_array:
    """The matrix of a mesh with several unknowns at a node: a dense block per entry of the node graph."""
    return with_random_values(meshes.blocks(mesh, unknowns))
