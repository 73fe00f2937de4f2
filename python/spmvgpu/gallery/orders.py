"""Orders of rows and columns, in which meshes are tried: `gallery.meshes` has them."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from .._util.types import HostArray
from .common import canonical


def cuthill_mckee(matrix: sp.csr_array, dof: int = 1) -> sp.csr_array:
    """Permute rows and columns to reverse Cuthill-McKee order.

    Parameters
    ----------
    matrix : csr_array
        Symmetric.
    dof : int
        Unknowns per node. They stay together.

    Returns
    -------
    scipy.sparse.csr_array

    Examples
    --------
    >>> from spmvgpu.gallery import meshes
    >>> A = meshes.symmetric_values(meshes.cloud(60, 4, reach=1.5))
    >>> meshes.cuthill_mckee(A).nnz == A.nnz
    True
    """
    nodes = matrix
    if dof > 1:
        leading = matrix[::dof]
        nodes = canonical(
            np.ones(leading.nnz // dof, np.int8),
            leading.indices[::dof] // dof,
            leading.indptr // dof,
            (matrix.shape[0] // dof, matrix.shape[1] // dof),
        )
    order = reverse_cuthill_mckee(sp.csr_matrix(nodes), symmetric_mode=True)
    return permuted(matrix, (dof * order[:, None] + np.arange(dof, dtype=order.dtype)).ravel())


def shuffled(matrix: sp.csr_array, group: int, seed: int = 0) -> sp.csr_array:
    """Permute rows and columns in random order, in groups.

    Mesh generators often number the parts of a mesh like this.

    Parameters
    ----------
    matrix : csr_array
    group : int
        Neighbouring unknowns that stay together.
    seed : int

    Returns
    -------
    scipy.sparse.csr_array

    Examples
    --------
    >>> from spmvgpu.gallery import meshes
    >>> meshes.shuffled(meshes.solid((6, 5)), group=4).shape
    (30, 30)
    """
    starts = np.arange(0, matrix.shape[0], group)
    np.random.default_rng(seed).shuffle(starts)
    order = (starts[:, None] + np.arange(group)).ravel()
    return permuted(matrix, order[order < matrix.shape[0]])


def permuted(matrix: sp.csr_array, order: HostArray) -> sp.csr_array:
    """Permute rows and columns: ``matrix[order][:, order]``.

    Parameters
    ----------
    matrix : csr_array
    order : (n,) array of int

    Returns
    -------
    scipy.sparse.csr_array
        With sorted indices.

    Examples
    --------
    >>> import numpy as np
    >>> from spmvgpu import gallery
    >>> from spmvgpu.gallery import meshes
    >>> meshes.permuted(gallery.poisson1d(3), np.array([1, 0, 2])).toarray()
    array([[ 2., -1., -1.],
           [-1.,  2.,  0.],
           [-1.,  0.,  2.]])
    """
    position = np.empty(len(order), matrix.indices.dtype)
    position[order] = np.arange(len(order), dtype=position.dtype)
    rows = sp.csr_array(matrix[order])
    moved = sp.csr_array((rows.data, position[rows.indices], rows.indptr), shape=matrix.shape)
    moved.sort_indices()
    moved.has_canonical_format = True
    return moved
