"""Multigrid hierarchies of aggregates as preconditioners."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import scipy.sparse as sp

from .. import _core
from .._core import LinearMap
from .._util.steps import step
from .._util.types import HostArray
from ..devices import at_most, resolve_device
from ..inputs.csr import CanonicalCsr
from ..operator.build import build, build_values
from ..operator.description import Description
from ..operator.new_values import NewValues, with_values
from ..operator.operator import SparseOperator, operator_of
from ..operator.stored import StoredMatrix
from ..planning.request import Request
from ..planning.symmetry import Symmetry
from .coarsest import LARGEST_DIRECT, dense_inverse
from .diagonals import diagonal_of, positive_inverse, what_fits
from .gpu_threads import GpuThreads
from .preconditioners import DevicePreconditioner, requested_device

SAFETY = 1.05  # the largest eigenvalue over its estimate, which is from below
_SMOOTHED = 8.0  # part of the spectrum, above what coarser levels correct
_EQUAL = 1.001  # for steps with equal weights, as in Jacobi's method
_DAMPED = 0.75  # such a step divides by this part of the bound of the eigenvalues' sizes
# Entries of a level that is visited twice, of the next finer one: all levels take 5 times as long at most.
_SMALLER = 0.4

#: How matrices of a hierarchy are stored, and how those with few entries are: a choice for one of these takes
#: longer than the products with it, which take no time but to start.
AS_PREDICTED = Request(tune="off", symmetric=Symmetry.NEITHER)
# Unknowns of a hierarchy on whose levels a GPU works longer than threads take to wait for each other.
_MANY_UNKNOWNS = 500_000
_IN_CSR, _FEW_ENTRIES = Request("csr", symmetric=Symmetry.NEITHER), 100_000

# Decisions of the values when a level was made, for the core.
_Coarsening: TypeAlias = tuple[int, HostArray, int, int, HostArray, HostArray, HostArray]

# A pickle knows the decisions, and how the operators of all levels are stored.
_Made: TypeAlias = tuple[list[_Coarsening], list[Description]]


class Level(NamedTuple):
    """A level of a `Multigrid` hierarchy.

    Attributes
    ----------
    A : SparseOperator
        The matrix.
    R, P : SparseOperator or None
        Restriction to the next coarser level and prolongation from it. None on the coarsest level.
    """

    A: SparseOperator
    R: SparseOperator | None = None
    P: SparseOperator | None = None


class _Grids(NamedTuple):
    """What a hierarchy applies now.

    Attributes
    ----------
    finest : SparseOperator
        The matrix. No caller has this operator.
    levels : tuple of Level
        The operators that callers see. The first one, which has the matrix, too, may get other values.
    inverse : SparseOperator or None
        Of the matrix of the coarsest level.
    """

    finest: SparseOperator
    levels: tuple[Level, ...]
    inverse: SparseOperator | None


class Arguments(NamedTuple):
    """What a hierarchy is made with, apart from the matrix."""

    B: HostArray | None  # None: a constant for each unknown of a node
    block: int | HostArray  # unknowns of a node, or where the unknowns of each begin, and end
    strength: float
    # The most terms of a product with a smoothed prolongator, for an entry of the matrix and a column of B:
    # on the finest level, and on others.
    most_terms: tuple[float, float]
    max_coarse: int
    max_levels: int
    hermitian: bool | None  # None: not known
    # The core does not need to know the rest.
    smoother: str
    degree: int

    @property
    def smoothing(self) -> tuple[int, float]:
        """The degree of the polynomial, and the largest eigenvalue over the least that it is for."""
        if self.hermitian is False:
            return (self.degree if self.smoother == "chebyshev" else 1), _EQUAL
        return (self.degree, _SMOOTHED) if self.smoother == "chebyshev" else (1, 2.0)


def facts_of(arguments: Arguments, levels: Sequence[Level], complexity: float) -> str:
    """What the `repr` of a hierarchy says of it."""
    *finer, coarsest = (str(level.A.shape[0]) for level in levels)
    unknowns = f"{', '.join(finer)} and {coarsest}" if finer else coarsest
    smoother = "jacobi" if arguments.hermitian is False else arguments.smoother
    smoothing = f"smoother {smoother} of degree {arguments.smoothing[0]}"
    return f"{unknowns} unknowns, {smoothing}, operator complexity {complexity:.2f}"


class Multigrid(DevicePreconditioner):
    """A multigrid hierarchy as a preconditioner, as `amg` returns it.

    A `LinearOperator`, for the solvers of `spmvgpu.linalg` and of SciPy. One application is one cycle.

    Attributes
    ----------
    A : SparseOperator
        The matrix. Pass it to the solver, so that the matrix is stored once.
    levels : tuple of Level
        The operators of each level, finest first.
    operator_complexity : float
        Number of stored entries of all levels, divided by the number of the finest.
    nbytes : int
        Bytes of the hierarchy on the device, with the finest matrix in CSR.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> sg.linalg.amg(sg.gallery.poisson2d(60), device="cpu")
    <3600x3600 Multigrid of float64 on 'cpu': 3600, 523 and 66 unknowns, smoother chebyshev of degree 2,
      operator complexity 1.38>
    """

    def __init__(
        self,
        A: SparseOperator,
        csr: CanonicalCsr,
        arguments: Arguments,
        made_before: _Made | None = None,
        finer: int = 0,
    ) -> None:
        super().__init__(A.dtype, A.shape, A._ordinal)
        self._arguments = arguments
        self._requested = requested_device(A)
        decided, descriptions = made_before or (None, [])
        is_hermitian = arguments.hermitian is not False
        self._hierarchy = _core.Hierarchy(csr.source, *arguments[:6], is_hermitian, decided, finer=finer)
        # True if the core's matrices and the operators of coarser levels have the values of `_state.finest`.
        self._is_filled = True
        self._state = self._set_up(A, csr, descriptions)
        self._hierarchy.drop_values()

    def _set_up(self, A: SparseOperator, csr: CanonicalCsr, descriptions: list[Description]) -> _Grids:
        """The operators of all levels, stored as described or as is found best while coarser ones grow."""
        how, follows = iter(descriptions), True
        made: list[list[Callable[[], SparseOperator]]] = []  # R, P and the next A of each level
        with GpuThreads((self._ordinal,), is_worthwhile=csr.shape[0] >= _MANY_UNKNOWNS) as threads:
            with step("multigrid", "hierarchy"):
                while follows:
                    follows = self._hierarchy.grow()
                    check_definite(self._hierarchy, csr)
                    for number in range(len(made), self._hierarchy.levels - 1 + follows):
                        of_level = ((number, "R"), (number, "P"), (number + 1, "A"))
                        made.append(
                            [
                                threads.start(self._operator, level, name, next(how, None))
                                for level, name in of_level
                            ]
                        )
            levels = [Level(A)]
            for number, waits in enumerate(made, 1):
                with step("multigrid", f"level {number}"):
                    R, P, coarse = (wait() for wait in waits)
                    levels[-1:] = Level(levels[-1].A, R, P), Level(coarse)
        return _Grids(A._snapshot(), tuple(levels), self._inverse_of(levels[-1].A))

    def _inverse_of(self, coarsest: SparseOperator) -> SparseOperator | None:
        last = self._hierarchy.levels - 1
        near_null = self._hierarchy.near_null_space(last) if last > 0 else None
        return inverse_of_coarsest(coarsest, self._requested, near_null)

    def _csr(self, level: int, name: str) -> CanonicalCsr:
        """What the core's hierarchy has, until it drops the values."""
        return CanonicalCsr.on(self._hierarchy.source(level, name))

    def _operator(self, level: int, name: str, description: Description | None) -> SparseOperator:
        csr = self._csr(level, name)
        if description is None:
            return stored(csr, self._requested)
        made: SparseOperator = operator_of(build_values(csr, description, Symmetry.NEITHER))
        return made

    @property
    def A(self) -> SparseOperator:  # noqa: N802
        return self.levels[0].A

    @property
    def levels(self) -> tuple[Level, ...]:
        levels: tuple[Level, ...] = self._now().levels
        return levels

    @property
    def operator_complexity(self) -> float:
        return sum(level.A.nnz for level in self.levels) / max(1, self.A.nnz)

    @property
    def nbytes(self) -> int:
        _, levels, inverse = self._now()
        stored = [op for level in levels for op in level if op is not None][1:]
        of_inverse = 0 if inverse is None else inverse.nbytes
        return sum(op.nbytes for op in stored) + of_inverse + self._hierarchy.nbytes + self._memory.nbytes

    def _facts(self) -> str:
        facts = facts_of(self._arguments, self.levels, self.operator_complexity)
        return f"{facts}, AMLI cycles" if self._is_amli else facts

    @property
    def _is_amli(self) -> bool:
        """Whether corrections from unsmoothed levels are polynomials in cycles."""
        unsmoothed = self._hierarchy.levels - 1 - self._hierarchy.smoothed_levels
        return unsmoothed > 0 and self._arguments.hermitian is not False

    def update_values(self, data: object) -> None:
        """Take a matrix with the same sparsity pattern and other values.

        Aggregates, the patterns of all levels and the method, see `symmetric` of `amg`, stay, so this takes
        less time than `amg`. The operators `A` and `levels` have the new values, and so have `H`, `T`, sums
        and products that were made of the hierarchy before. What was made of `A` and of other operators of
        levels keeps its values.

        Parameters
        ----------
        data : sparse matrix, SparseOperator, dense matrix, or (nnz,) array
            The matrix or its values, as `SparseOperator.update_values` takes them, in CSR order, which is the
            order of ``M.A.tocsr().data``.

        Raises
        ------
        TypeError, ValueError
            As `SparseOperator.update_values`, and for the adjoint `H` of a hierarchy.
        numpy.linalg.LinAlgError
            As `amg`. After an error, the hierarchy has the old values.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> A = sg.gallery.poisson2d(30)
        >>> M = sg.linalg.amg(A, device="cpu")
        >>> M.update_values(2 * A)
        >>> sg.linalg.cg(M.A, np.ones(900), M=M)[1]
        0
        """
        with at_most(self._max_threads):
            self._renew(data)

    @property
    def _max_threads(self) -> int | None:
        return self._now().finest.max_threads

    def _state_with(self, data: object) -> _Grids:
        own = self._now()
        pattern = own.finest._stored
        values = NewValues(pattern, data)
        try:
            return self._fill(own, values, lambda: self._finest_with(pattern, data))
        except BaseException:
            self._now()  # the old values again; if that is interrupted, too, at the next use
            raise

    def _finest_with(self, pattern: StoredMatrix, data: object) -> StoredMatrix:
        """The finest matrix with the values that the core has now, or that of an operator which has them."""
        if isinstance(data, SparseOperator) and data.nnz == pattern.matrix.nnz:
            other = data._stored
            is_there = other.ordinals == (self._ordinal,) and not other.description.is_divided
            if is_there and other.dtype == self.dtype:
                return other
        return pattern if self._hierarchy.levels == 0 else with_values(pattern, self._csr(0, "A"))

    def _now(self) -> _Grids:
        """The levels; with the old values again after an update that ended early."""
        if self._adjoint_of is None and not self._is_filled:
            own: _Grids = self._state
            finest = own.finest._stored
            self._fill(own, NewValues(finest, finest.canonical_there()), lambda: finest)
        grids: _Grids = super()._now()
        return grids

    def _fill(self, own: _Grids, values: NewValues, find_finest: Callable[[], StoredMatrix]) -> _Grids:
        """Have the core and all levels take new values of the finest matrix.

        They take them one after the other, and until all of them have, `_is_filled` is False.
        """
        self._is_filled = False
        hierarchy, (A, *_) = self._hierarchy, own.levels[0]
        if hierarchy.levels > 0:
            values.renew(hierarchy, self._ordinal)
            check_definite(hierarchy, self._csr(0, "A"))
        finest: SparseOperator = operator_of(find_finest())
        for number, level in enumerate(own.levels):
            for name, op in level._asdict().items():
                if op is not None and op is not A:
                    op._update(NewValues(op._stored, self._csr(number, name)))
        coarsest = finest if len(own.levels) == 1 else own.levels[-1].A
        grids = _Grids(finest, own.levels, self._inverse_of(coarsest))
        hierarchy.drop_values()
        A._become(finest._stored)
        # One call of a dict, so that no signal handler finds, or leaves, half of it.
        self.__dict__.update(_state=grids, _is_filled=True)
        return grids

    def _core_levels(self) -> list[Any]:
        """The levels as the core's cycle takes them."""
        degree, ratio = self._arguments.smoothing
        finest, own, inverse = self._now()
        levels: list[Any] = []
        for number, (A, R, P) in enumerate(own):
            if R is None and inverse is not None:
                levels.append((None, 0, 1.0, 1.0, 1, None, None, inverse._matrix))
                continue
            largest = self._hierarchy.largest_eigenvalue(number)
            factor = _DAMPED if self._arguments.hermitian is False else SAFETY
            high = factor * largest or 1.0  # a matrix of zeros has no largest eigenvalue
            diagonal = self._hierarchy.inverse_diagonal(number)
            matrix = (finest if number == 0 else A)._matrix
            to_coarser = R and R._matrix, P and P._matrix
            levels.append((matrix, diagonal, high / ratio, high, degree, *to_coarser, None))
        return levels

    def _core_map(self) -> LinearMap:
        twice = [] if self._now().inverse is None else self._visited_twice()
        return _core.cycle_map(self.dtype, self._core_levels(), self._memory, twice)

    def _visited_twice(self) -> list[int]:
        if not self._is_amli:
            return []
        return visited_twice([level.A.nnz for level in self.levels], self._hierarchy.smoothed_levels)

    def _conjugate_transposed(self, state: _Grids) -> _Grids:
        finest, levels, inverse = state
        adjoint = finest.H
        turned = inverse and inverse.H
        if self._arguments.hermitian is False:
            own = (levels[0]._replace(A=finest), *levels[1:])
            return _Grids(adjoint, tuple(Level(A.H, P and P.H, R and R.H) for A, R, P in own), turned)
        coarser = tuple(Level(A.H, R, P) for A, R, P in levels[1:])
        is_same = adjoint is finest and turned is inverse
        if is_same and all(made.A is level.A for made, level in zip(coarser, levels[1:], strict=True)):
            return state
        return _Grids(adjoint, (Level(adjoint, levels[0].R, levels[0].P), *coarser), turned)

    def _reduced(self) -> tuple[object, ...]:
        finest, levels, _ = self._now()
        ops = [op for level in levels for op in level if op is not None and op is not levels[0].A]
        described = [op._stored.description for op in ops]
        return _restored, (finest, self._arguments, self._hierarchy.coarsenings(), described)


def _restored(
    A: SparseOperator, arguments: Arguments, coarsenings: list[_Coarsening], described: list[Description]
) -> Multigrid:
    """What pickle calls."""
    decided = [cast("_Coarsening", tuple(map(_aligned, coarsening))) for coarsening in coarsenings]
    own = arguments._replace(B=_aligned(arguments.B))
    descriptions = [description.on(description.device) for description in described]
    return Multigrid(A, A._stored.canonical_there().at(A._ordinal), own, (decided, descriptions))


def _aligned(of_pickle: Any) -> Any:
    """An array as the core takes it. Arrays from a pickle may lie in buffers that are aligned in any way."""
    return np.require(of_pickle, None, ["C", "A"]) if isinstance(of_pickle, np.ndarray) else of_pickle


def stored(csr: CanonicalCsr, device: str, request: Request | None = None) -> SparseOperator:
    """A matrix of a hierarchy; without a request in a format that is predicted to suit."""
    request = request or (AS_PREDICTED if csr.nnz > _FEW_ENTRIES else _IN_CSR)
    description = Description(device, (resolve_device(device),), request, reorder=False)
    made: SparseOperator = operator_of(build(csr, description))
    return made


def visited_twice(entries: Sequence[int], smoothed: int) -> list[int]:
    """The levels that a cycle solves for twice: unsmoothed, and much smaller than the next finer one.

    Only if the coarsest system is solved: what is known of the eigenvalues of cycles needs that.
    """
    return [k for k in range(smoothed + 1, len(entries) - 1) if entries[k] <= _SMALLER * entries[k - 1]]


def checked_csr(op: SparseOperator) -> CanonicalCsr:
    """The matrix of an operator on its device.

    Raises
    ------
    ValueError
        If it has too many entries.
    """
    return checked_width(op._stored.canonical_there().at(op._ordinal))


def checked_width(csr: CanonicalCsr) -> CanonicalCsr:
    """The matrix; ValueError if it has too many entries."""
    if csr.is_wide:
        raise ValueError(f"A has {csr.nnz} stored entries; amg takes at most 2**31 - 1")
    return csr


def check_definite(hierarchy: _core.Hierarchy, csr: CanonicalCsr) -> None:
    """Raise LinAlgError if the matrix of a hierarchy is not positive definite, or not finite."""
    refusal = hierarchy.refusal
    if refusal is None:
        return
    level, is_finite = refusal
    diagonal = diagonal_of(csr.host)
    if level > 0 and is_finite:
        raise np.linalg.LinAlgError(
            f"the diagonal of the matrix on level {level} of the hierarchy is not positive: amg does not "
            "suit a matrix that is not symmetric if it or its adjoint does not map a constant, or B, to "
            "nearly zero; use ilu0(op) or jacobi(op)"
        )
    if level > 0:
        raise np.linalg.LinAlgError(
            f"products with the matrix overflow in {csr.dtype} on level {level} of the hierarchy; scale "
            "the matrix"
        )
    if not is_finite:
        raise np.linalg.LinAlgError("the matrix contains inf or NaN; use a matrix without them")
    positive_inverse("amg", diagonal, csr.dtype)
    raise np.linalg.LinAlgError(
        f"the matrix is not positive definite, which amg requires; use {what_fits(diagonal, csr.dtype)}"
    )


def inverse_of_coarsest(
    A: SparseOperator, device: str, near_null: HostArray | None = None
) -> SparseOperator | None:
    """The inverse of a small matrix on a device; None for one that is not small."""
    if A.shape[0] > LARGEST_DIRECT:
        return None
    inverse = dense_inverse(A.tocsr().toarray(), near_null).astype(A.dtype)
    dense = CanonicalCsr.of(sp.csr_array(inverse))
    return stored(dense, device, _IN_CSR)
