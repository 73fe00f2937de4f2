"""Algebraic multigrid by aggregation, smoothed or not, set up on the device of the matrix."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import _core
from .._util.arguments import one_of, real_number, whole_number, with_hints
from .._util.plugins import Plugins
from .._util.types import Device, HostArray
from ..devices import at_most, device_name, resolve_device
from ..inputs.canonical import canonical_csr
from ..inputs.csr import CanonicalCsr
from ..operator.operator import SparseOperator
from ..planning.request import Request
from ..planning.symmetry import Symmetry
from .coarsest import LARGEST_DIRECT
from .multigrid import Arguments, Multigrid, checked_csr, checked_width, stored
from .multigrid_in_pieces import NotInPiecesError
from .multigrid_over_devices import MultigridOverDevices, keeps_levels_in_pieces
from .systems import OverRanks, check_square
from .vectors import columns_on_host

# From an operator over ranks, and a function that checks the arguments beside a rank's block.
_OVER_RANKS: Mapping[str, Callable[[OverRanks, Callable[[SparseOperator], Arguments]], Any]] = Plugins(
    "multigrid"
)

_MOST_MODES = 64  # columns of B
_STRENGTH, _STRENGTH_OF_OTHERS = 0.1, 0.25  # defaults for Hermitian matrices and for others

# Prolongators are smoothed if products with them have few terms, see `Arguments`. On meshes there are 2 to 6
# for each entry, and beside hubs of a graph 8 and more; the second number is for coarser levels. Unsmoothed
# levels pay for one solve where there are more than on grids in three dimensions, which have 3.5.
_MOST_TERMS = {"auto": (7.0, 8.0), "V": (np.inf, np.inf), "AMLI": (0.0, 0.0), "once": (3.6, 8.0)}


@with_hints
def amg(
    A: object,
    *,
    B: object = None,
    block: int | None = None,
    strength: float | None = None,
    smoother: str = "chebyshev",
    degree: int = 2,
    cycle: str = "auto",
    max_coarse: int = 300,
    max_levels: int = 20,
    symmetric: bool | None = None,
    device: Device | None = None,
    dtype: object = None,
) -> Multigrid:
    """Return an algebraic multigrid preconditioner of an elliptic problem.

    The method is smoothed aggregation [1]_, or unsmoothed aggregation, see `cycle`. The setup runs on the
    device where the matrix is stored: aggregates from maximal independent sets of distance 2 [2]_ [3]_,
    prolongators that contain the vectors `B`, and sparse products. One application is one cycle. The
    coarsest system is solved with its dense inverse. The same matrix gives the same hierarchy on every
    device, to the last bit.

    Parameters
    ----------
    A : SparseOperator, sparse matrix or DistributedOperator
        Symmetric or Hermitian, and positive definite, for `cg` and other solvers; or not symmetric, see
        `symmetric`, for `gmres` and `bicgstab`. Over several devices or ranks, aggregates of levels with many
        entries do not cross these. Over ranks, `B` has the rows of this rank. A positive semidefinite matrix
        is solved in the least squares sense on the coarsest level.
    B : (n,) or (n, k) array, optional
        Near null space: vectors that `A` nearly maps to zero, such as the rigid body modes of
        `gallery.rigid_body_modes` for elasticity. By default, a constant for each unknown of a node.
    block : int, optional
        Unknowns per node, which are neighbours and are aggregated together. By default, the block size of a
        BSR matrix, or the number of leading columns of `B` of which each is zero except for one unknown per
        node, or 1.
    strength : float, optional
        An entry beside the diagonal is weak if it is below `strength` times the largest one of its row. Weak
        entries connect no nodes, and prolongators are smoothed as if they were on the diagonal. With one
        unknown per node and one vector in `B`, entries count as ``-A[i, j] * B[j] / B[i]``: positive ones
        are weak, except in rows where they prevail, and so are those below ``0.1 * strength * A[i, i]``. With
        several unknowns, the Frobenius norms of blocks count; with several vectors, absolute values. By
        default 0.1 for one unknown and one vector, 0.25 if `A` is not symmetric, and 0 otherwise: no entry is
        weak.
    smoother : {"chebyshev", "jacobi"}
        Smoother before and after the correction from the coarser level. The cycle is symmetric with both. If
        `A` is not symmetric, both are steps of Jacobi's method, `degree` of them or one.
    degree : int, default 2
        Degree of the "chebyshev" smoother.
    cycle : {"auto", "once", "V", "AMLI"}
        "V" is smoothed aggregation with V-cycles. On one device prolongators are smoothed twice where entries
        are weak and products stay small, as for directions in the plane. "AMLI" is unsmoothed aggregation:
        coarser matrices have fewer entries, and setup takes less time and memory. V-cycles would converge
        slowly. So corrections from a coarser level are polynomials of degree 2 in a cycle from there
        (algebraic multilevel iteration [4]_), unless the level has more than 0.4 times the entries of the
        next finer one. The coefficients are constants, so the cycle is linear and suits the same solvers. On
        meshes it takes more iterations than "V". "auto" is "V", except for levels from which on smoothing
        would make coarser matrices nearly dense, as on graphs with hubs. "once" is what is likely to be
        faster for the setup and one solve; ``M="amg"`` of solvers is that.
    max_coarse : int, default 300
        Largest number of unknowns of the coarsest level. At most 2000.
    max_levels : int, default 20
        Largest number of levels.
    symmetric : bool, optional
        Whether `A` is symmetric or Hermitian. By default, it is if no entry differs from the conjugate of its
        mirror image by more than 0.01 times the diagonal. Otherwise the prolongator is smoothed with `A`, and
        the restriction with the adjoint of `A` [5]_; aggregates follow the Hermitian part. This suits
        convection and diffusion with upwind differences, at any Peclet number, M-matrices whose row and
        column sums are about zero, such as ``I - a P`` for a random walk, and complex symmetric matrices such
        as shifted Laplacians on fine grids. It is on one device. Give False if values are to come that are
        not symmetric.
    device : str, default "auto"
        Device for a sparse matrix. An operator has its own.
    dtype : dtype, optional
        Dtype for a sparse matrix, by default its own. An operator has its own.

    Returns
    -------
    Multigrid
        Over ranks, one for the piece of this rank, whose `levels` are distributed operators. Over a list of
        devices, one whose `levels` are operators over them. If a node of `block` rows is on two devices, or
        vectors cannot be in pieces, the hierarchy is on the first device.

    Raises
    ------
    TypeError, ValueError
        If `A` is not a square matrix, or another argument is not allowed.
    numpy.linalg.LinAlgError
        If an entry of the diagonal is not positive, or an entry of the matrix is not finite. Over ranks also
        if the matrix is not symmetric.

    See Also
    --------
    aspreconditioner : Run a hierarchy of pyamg on a device.

    References
    ----------
    .. [1] P. Vanek, J. Mandel and M. Brezina, "Algebraic multigrid by smoothed aggregation for second and
       fourth order elliptic problems", Computing 56, 1996.
    .. [2] N. Bell, S. Dalton and L. N. Olson, "Exposing fine-grained parallelism in algebraic multigrid
       methods", SIAM J. Sci. Comput. 34, 2012.
    .. [3] B. Kelley and S. Rajamanickam, "Parallel, portable algorithms for distance-2 maximal independent
       set and graph coarsening", 2022.
    .. [4] O. Axelsson and P. S. Vassilevski, "Algebraic multilevel preconditioning methods, II", SIAM Journal
       on Numerical Analysis 27, 1990.
    .. [5] M. Sala and R. S. Tuminaro, "A new Petrov-Galerkin smoothed aggregation preconditioner for
       nonsymmetric linear systems", SIAM J. Sci. Comput. 31, 2008.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> M = sg.linalg.amg(sg.gallery.poisson2d(100), device="cpu")
    >>> x, info = sg.linalg.cg(M.A, np.ones(10_000), rtol=1e-8, M=M)
    >>> info, M.A.solve_info.iterations < 15
    (0, True)
    """

    def arguments_for(op: SparseOperator, by_values: bool | None = None) -> Arguments:
        one_of("smoother", smoother, ("chebyshev", "jacobi"))
        whole_number("degree", degree, 1, 1000)
        one_of("cycle", cycle, _MOST_TERMS)
        whole_number("max_coarse", max_coarse, 1, LARGEST_DIRECT)
        whole_number("max_levels", max_levels, 1, 100)
        if strength is not None:
            real_number("strength", strength, "a number from 0 to 1", lambda number: 0 <= number <= 1)
        if not (symmetric is None or isinstance(symmetric, bool | np.bool_)):
            raise TypeError(f"symmetric={symmetric!r} is not allowed; give True, False or None")
        of_bsr: tuple[int, int] = getattr(A, "blocksize", (1, 1)) if sp.issparse(A) else (1, 1)
        modes, size = _near_null_space(B, block, of_bsr, op)
        is_scalar = size == 1 and (modes is None or modes.shape[1] == 1)
        hermitian = by_values if symmetric is None else bool(symmetric)
        by_default = _STRENGTH if hermitian is not False else _STRENGTH_OF_OTHERS
        weak = strength if strength is not None else by_default if is_scalar else 0.0
        if hermitian is not False:
            terms = _MOST_TERMS[cycle]
        elif cycle == "AMLI":
            raise ValueError("cycle='AMLI' is for a symmetric or Hermitian matrix; use 'V' or 'auto'")
        else:
            terms = _MOST_TERMS["V" if cycle == "V" else "auto"]
        return Arguments(modes, size, float(weak), terms, max_coarse, max_levels, hermitian, smoother, degree)

    if isinstance(A, OverRanks):
        made: Multigrid = _OVER_RANKS["ranks"](A, arguments_for)
        return made
    op, csr = _operator_and_csr(A, device, dtype)
    arguments = arguments_for(op)
    if keeps_levels_in_pieces(op, arguments):
        with contextlib.suppress(NotInPiecesError):
            return MultigridOverDevices(op, arguments)
    if op._stored.description.is_divided:
        op = op.to(device_name(op._ordinal))
    with at_most(op.max_threads):
        csr = csr or checked_csr(op)
        declared = op._stored.symmetry or Symmetry.NEITHER
        is_known = arguments.hermitian is not None or Symmetry.HERMITIAN in declared
        if not is_known and not _core.is_nearly_hermitian(csr.source):
            arguments = arguments_for(op, False)
        return Multigrid(op, csr, arguments)


def _operator_and_csr(
    A: object, device: Device | None, dtype: object
) -> tuple[SparseOperator, CanonicalCsr | None]:
    """The operator, and the canonical matrix on its device, if it is at hand."""
    if isinstance(A, SparseOperator):
        for name, value in (("device", device), ("dtype", dtype)):
            if value is not None:
                raise TypeError(f"{name}={value!r} is for a sparse matrix; leave it out for an operator")
        check_square(A.shape)
        return A._snapshot(), None
    where = "auto" if device is None else device
    ordinal = resolve_device(where)
    csr = canonical_csr(A, dtype=dtype, ordinal=ordinal)
    if csr.shape[0] != csr.shape[1]:
        raise ValueError(f"A has shape {csr.shape}; amg needs a square matrix")
    csr = checked_width(csr.at(ordinal))
    return stored(csr, where, Request()), csr


def _near_null_space(
    B: object, block: int | None, of_bsr: tuple[int, int], op: SparseOperator
) -> tuple[HostArray | None, int]:
    """The vectors B, if they are given, and the unknowns per node."""
    n, dtype = op.shape[0], op.dtype
    if block is not None:
        whole_number("block", block, 1, max(1, n))
        if n % block:
            raise ValueError(f"block={block} does not divide the {n} rows of A")
    modes = None if B is None else columns_on_host("B", B, n, _MOST_MODES, dtype)
    if block is None:
        is_bsr = of_bsr[0] == of_bsr[1] > 1 and n % of_bsr[0] == 0
        block = of_bsr[0] if is_bsr else 1 if modes is None else _block_of(modes)
    if modes is None:
        if block > _MOST_MODES:
            raise ValueError(f"block={block} needs B; without it, at most {_MOST_MODES} are allowed")
        return None, block
    return np.ascontiguousarray(modes), block


def _block_of(modes: HostArray) -> int:
    """Unknowns per node, as far as the first columns of B show translations of these."""
    n, count = modes.shape
    for block in range(count, 1, -1):
        if n % block == 0:
            by_node = modes[:, :block].reshape(-1, block, block) != 0
            if (by_node == np.eye(block, dtype=bool)).all():
                return block
    return 1
