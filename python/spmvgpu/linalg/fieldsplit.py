"""Preconditioners of matrices in two parts, such as velocity and pressure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from .. import _core
from .._core import LinearMap
from .._util.arguments import one_of, with_hints
from .._util.types import DType, HostArray
from ..arrays import NUMPY, on_host
from ..devices import at_most, device_name, resolve_device
from ..inputs.csr import CanonicalCsr
from ..inputs.source import Source
from ..operator.build import build
from ..operator.construct import as_operator, aslinearoperator
from ..operator.description import Description
from ..operator.operator import SparseOperator, operator_of
from .diagonals import inverse_of
from .jacobi import Jacobi
from .named import named
from .preconditioner_maps import checked_preconditioner, is_diagonal, map_of_preconditioner
from .preconditioners import (
    DevicePreconditioner,
    PreconditionerMap,
    matrix_with,
    requested_device,
    square_operator,
)
from .systems import System, refuse_ranks
from .vectors import staged


class Blocks(NamedTuple):
    """What a `FieldSplit` multiplies by.

    Attributes
    ----------
    first, second : LinearOperator
        Preconditioners of the first block and of the Schur complement.
    sign : SparseOperator or None
        The identity times -1 where `second` is for the negative Schur complement.
    upper, lower : SparseOperator or None
        The blocks beside the diagonal; None for one that is left out.
    """

    first: LinearOperator
    second: LinearOperator
    sign: SparseOperator | None
    upper: SparseOperator | None
    lower: SparseOperator | None


class FieldSplit(DevicePreconditioner):
    """Elimination of the first of two parts of a matrix, as `fieldsplit` returns it.

    A `LinearOperator`, for the solvers of `spmvgpu.linalg` and of SciPy.

    Attributes
    ----------
    parts : dict of str to numpy.ndarray
        The indices of the unknowns of both parts.
    kind : {"upper", "lower", "full", "diagonal"}

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> A = np.array([[2.0, 0.0, 1.0], [0.0, 4.0, 1.0], [1.0, 1.0, 0.0]])
    >>> M = sg.linalg.fieldsplit(A, {"u": [0, 1], "p": [2]}, kind="full")
    >>> A @ (M @ np.ones(3))  # exact, because the first block is diagonal and the other part has one unknown
    array([1., 1., 1.])
    """

    def __init__(
        self,
        parts: dict[str, HostArray],
        kind: str,
        dtype: DType,
        requested: str,
        blocks: Blocks | None = None,
    ) -> None:
        n, ordinal = sum(map(len, parts.values())), resolve_device(requested)
        super().__init__(dtype, (n, n), ordinal)
        self.parts, self.kind, self._requested, self._state = parts, kind, requested, blocks
        self._indices = [staged(indices, ordinal) for indices in parts.values()]
        # For blocks of a matrix, which copies do not know.
        self._given: dict[str, object] = {}
        self._schur: SparseOperator | None = None
        self._device = device_name(ordinal)

    def _facts(self) -> str:
        return f"{self.kind}, of {' and '.join(map(repr, self.parts))}"

    def _core_map(self) -> LinearMap:
        blocks: Blocks = self._now()
        first, second = self._map_of_part(blocks.first), self._map_of_part(blocks.second)
        core = second.core
        if blocks.sign is not None:
            sign, memory = _core.matrix_map(blocks.sign._matrix), _core.SolverMemory(self._ordinal)
            core = _core.composed_map(core, sign, blocks.sign.shape[0], memory)
        upper, lower = (None if block is None else block._matrix for block in (blocks.upper, blocks.lower))
        places = [(at.pointer, len(own)) for at, own in zip(self._indices, self.parts.values(), strict=True)]
        of_parts = (first.core, upper, *places[0]), (core, lower, *places[1])
        return _core.field_split_map(*of_parts, self._memory, (first, second, blocks, self._indices))

    def _map_of_part(self, M: LinearOperator) -> PreconditionerMap:
        system = self._space(M.shape[0])
        made = map_of_preconditioner(system, M, system.vectors(False))
        assert made is not None
        return made

    def _space(self, n: int) -> System:
        """The vectors of a part."""
        memory = _core.SolverMemory(self._ordinal)
        return System(np.empty(0, self.dtype), NUMPY, n, self.dtype, self._ordinal, memory)

    def _state_with(self, data: object) -> Blocks:
        return self._blocks_of(matrix_with(self, data))

    def _conjugate_transposed(self, blocks: Blocks) -> Blocks:
        upper, lower = (None if block is None else block.H for block in (blocks.lower, blocks.upper))
        return Blocks(blocks.first.H, blocks.second.H, blocks.sign, upper, lower)

    def _reduced(self) -> tuple[object, ...]:
        return FieldSplit, (self.parts, self.kind, self.dtype, self._requested, self._state)

    # Blocks of a matrix

    def _blocks_of(self, csr: CanonicalCsr) -> Blocks:
        (first, u), (second, p) = self.parts.items()

        def block(rows: HostArray, cols: HostArray) -> SparseOperator:
            entries = csr.rows(rows).transposed().rows(cols).transposed()
            return operator_of(build(entries, Description(self._device, (self._ordinal,))))

        A, upper, lower, negative = block(u, u), block(u, p), block(p, u), []

        def complement() -> SparseOperator:
            """The Schur complement, about, or its negative, of which the trace is positive."""
            S = self._schur
            if S is None:
                inverse = inverse_of(A.diagonal(), self.dtype)
                if not np.isfinite(inverse).all():
                    raise np.linalg.LinAlgError(
                        f"the diagonal of the block of {first!r} has entries without a finite inverse, which "
                        "the approximate Schur complement needs; give schur"
                    )
                product = lower @ self._diagonal(inverse) @ upper
                S = aslinearoperator(block(p, p) - product, device=self._device, dtype=self.dtype)
            negative.append(S.diagonal().sum().real < 0)
            return -S if negative[0] else S

        of_first, of_second = self._of_part(first, lambda: A), self._of_part(second, complement)
        if self._schur is not None and not negative:
            raise ValueError(f"schur is for a name or a function, and M[{second!r}] is a preconditioner")
        has_sign = any(negative) and self.kind != "diagonal"
        sign = self._diagonal(np.full(len(p), -1.0)) if has_sign else None
        has_upper, has_lower = self.kind in ("upper", "full"), self.kind in ("lower", "full")
        return Blocks(of_first, of_second, sign, upper if has_upper else None, lower if has_lower else None)

    def _diagonal(self, values: HostArray) -> SparseOperator:
        diagonal = sp.diags_array(values, format="csr")
        return aslinearoperator(diagonal, "csr", self._device, self.dtype)

    def _of_part(self, name: str, block: Callable[[], SparseOperator]) -> LinearOperator:
        """The preconditioner of a part, with products that the core has or calls."""
        given, system = self._given.get(name, "jacobi"), self._space(len(self.parts[name]))
        try:
            if isinstance(given, str):
                many = {"cycle": "auto"} if given == "amg" else {}
                given = named(given, block(), "minres" if self.kind == "diagonal" else "gmres", **many)
            elif callable(given) and not isinstance(given, LinearOperator):
                given = given(block())
            if given is None:
                raise TypeError("it is None")
            made = checked_preconditioner(given)
            if is_diagonal(system, made):
                inverse = made.inverse_diagonal if isinstance(made, Jacobi) else on_host("it", made)
                made = self._diagonal(inverse.reshape(-1))
            elif isinstance(made, Source | np.ndarray):
                made = as_operator(made, device=self._device, dtype=self.dtype)
            map_of_preconditioner(system, made, system.vectors(False))  # refuses what does not fit
        except (TypeError, ValueError) as error:
            error.args = (f"M[{name!r}] cannot be used: {error}",)
            raise
        return made


@with_hints
def fieldsplit(
    A: object,
    parts: Mapping[str, object],
    M: Mapping[str, object] | None = None,
    *,
    kind: str = "upper",
    schur: object = None,
) -> FieldSplit:
    """Return a preconditioner of a matrix in two parts, such as a saddle point.

    The matrix is seen as four blocks, ``[[A_uu, A_up], [A_pu, A_pp]]``. The first part is eliminated, and the
    second one has the Schur complement ``S = A_pp - A_pu @ inv(A_uu) @ A_up`` for its matrix [1]_. Each part
    has its preconditioner. PETSc calls this a field split with a Schur complement. The blocks and their
    products stay on the device of `A`.

    Parameters
    ----------
    A : SparseOperator, array or sparse matrix
        Square. A matrix is converted with the defaults of `aslinearoperator`.
    parts : dict
        Two names, and for each the indices of its unknowns: a slice, a boolean mask or an array of integers.
        Every unknown belongs to one part. The first part is eliminated.
    M : dict, optional
        For each name a preconditioner: a name that `M` of `gmres` takes, a function of the operator of the
        block, or a preconditioner, which is anything else that `M` of `gmres` takes. The default is "jacobi".
        For the second part names and functions get the approximation of `S`, or its negative if its trace is
        negative, as in saddle points; the sign is put back, except for ``kind="diagonal"``. A preconditioner
        is for `S` itself.
    kind : {"upper", "lower", "full", "diagonal"}
        Which factors of the elimination are applied. With exact solves of both parts, `gmres` takes two
        iterations with the first two, and one with "full", which solves with the first part twice.
        "diagonal" is symmetric, for `minres`.
    schur : matrix or SparseOperator, optional
        Approximation of `S`, such as a mass matrix times -1 for Stokes flow. The default is ``A_pp - A_pu @
        D @ A_up`` with the inverse D of the diagonal of `A_uu`.

    Returns
    -------
    FieldSplit
        Its `update_values` takes new values of `A`, and makes blocks, Schur complement and preconditioners
        again. `schur`, and preconditioners that were given, are unchanged.

    Raises
    ------
    TypeError, ValueError
        If `A` is neither a matrix nor an operator that has one, is not square, or is distributed over ranks;
        if an index is missing, out of range or in both parts; if a preconditioner does not fit.
    numpy.linalg.LinAlgError
        If the diagonal of `A_uu` has no inverse and `schur` is not given, or as the preconditioners.

    References
    ----------
    .. [1] M. Benzi, G. H. Golub and J. Liesen, "Numerical solution of saddle point problems", Acta Numerica
       14, 2005, section 10.1.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp, spmvgpu as sg
    >>> K = sg.gallery.poisson2d(30) + 8 * sp.eye_array(900)
    >>> B = sp.diags_array([1.0, -1.0], offsets=[0, 1], shape=(300, 900))
    >>> A = sp.block_array([[K, B.T], [B, None]], format="csr")
    >>> op = sg.aslinearoperator(A, device="cpu")
    >>> parts = {"u": slice(0, 900), "p": slice(900, None)}
    >>> M = sg.linalg.fieldsplit(op, parts, {"u": "jacobi", "p": "amg"})
    >>> x, info = sg.linalg.gmres(op, np.ones(1200), M=M)
    >>> info, op.solve_info.iterations < 30
    (0, True)
    """
    refuse_ranks(A)
    op = square_operator(A, "A")
    one_of("kind", kind, ("upper", "lower", "full", "diagonal"))
    indices = _checked_parts(parts, op.shape[0])
    given = {} if M is None else M
    if not isinstance(given, Mapping) or not set(given) <= set(indices):
        raise ValueError(f"M={M!r} is not allowed; give a dict with preconditioners for {', '.join(indices)}")
    made = FieldSplit(indices, kind, op.dtype, requested_device(op))
    made._pattern_of, made._given = op._stored, dict(given)
    if schur is not None:
        made._schur = _checked_schur(schur, op, len(list(indices.values())[1]))
    with at_most(op.max_threads):
        made._state = made._blocks_of(op._stored.canonical_there())
    return made


def _checked_schur(given: object, op: SparseOperator, rows: int) -> SparseOperator:
    """An approximation of the Schur complement where the vectors are."""
    device = device_name(op._ordinal)
    try:
        made = square_operator(as_operator(given, device=device, dtype=op.dtype), "it")
        if made.shape[0] != rows:
            raise ValueError(f"it has shape {made.shape} in place of {(rows, rows)}")
        made = made.astype(op.dtype, copy=False)
    except (TypeError, ValueError) as error:
        raise type(error)(f"schur cannot be used: {error}") from error
    return made if made.device == device else made.to(device)


def _checked_parts(parts: object, n: int) -> dict[str, HostArray]:
    """The indices of two parts."""
    if not isinstance(parts, Mapping) or len(parts) != 2:
        raise TypeError(f"parts={parts!r} is not allowed; give a dict of two names with their indices")
    indices = {name: _checked_indices(name, given, n) for name, given in parts.items()}
    counts = np.bincount(np.concatenate(list(indices.values())), minlength=n)
    if (counts != 1).any():
        row = int(np.flatnonzero(counts != 1)[0])
        raise ValueError(
            f"parts must have every unknown once, and unknown {row} is in them {counts[row]} times"
        )
    return indices


def _checked_indices(name: str, given: object, n: int) -> HostArray:
    array = np.arange(n)[given] if isinstance(given, slice) else on_host(f"parts[{name!r}]", given)
    if array.dtype.kind == "b" and array.shape == (n,):
        array = np.flatnonzero(array)
    are_indices = array.ndim == 1 and array.dtype.kind in "iu" and len(array) > 0
    if not (are_indices and array.min() >= 0 and array.max() < n):
        raise ValueError(
            f"parts[{name!r}] is not allowed; give a slice, a boolean mask of {n} entries, or a 1-D array of "
            f"integers from 0 to {n - 1}, one at least"
        )
    found: HostArray = array.astype(np.int32)
    found.flags.writeable = False
    return found
