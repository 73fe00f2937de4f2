"""Multigrid for a matrix in pieces: of each rank, or of each device.

A piece has some rows of the matrix. Its own hierarchy is that of its diagonal block, so that aggregates do
not cross pieces. Prolongators are smoothed across pieces, and the matrices of coarser levels have all
entries. From the first level on that is small, levels are whole: a hierarchy of one device.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import count
from threading import Condition
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp

from .. import _core
from .._core import AnyMatrix, EntriesBetween, LinearMap
from .._util.types import HostArray
from ..devices import CPU
from ..inputs.csr import CanonicalCsr
from ..operator.operator import SparseOperator
from .coarsest import LARGEST_DIRECT
from .multigrid import Arguments, Level, Multigrid, check_definite, facts_of, visited_twice
from .preconditioners import DevicePreconditioner
from .vectors import DeviceVector

# Stored entries of a level that one GPU, or a core of a CPU, multiplies as fast as several, which wait for
# messages of each other.
ENTRIES_OF_ONE = {"gpu": 24_000_000, "cpu": 100_000}
# The largest share of the entries of a level that may lie between its pieces. Aggregates do not cross them,
# so that the coarser level of one with more has too many unknowns.
_MOST_BETWEEN = 0.25
# An unknown of a coarse level rarely has more entries.
_MANY_ENTRIES = 100


def fits_one(entries: int, ordinal: int) -> bool:
    """Whether a level with these entries need not be in pieces on devices of this kind."""
    return entries <= ENTRIES_OF_ONE["cpu" if ordinal == CPU else "gpu"]


def is_scattered(between: int, entries: int) -> bool:
    """Whether too many entries of a level lie between its pieces."""
    return between > _MOST_BETWEEN * entries


def most_coarse(arguments: Arguments, pieces: int) -> int:
    """The largest number of unknowns of a piece that has no coarser level."""
    return min(arguments.max_coarse, max(1, LARGEST_DIRECT // pieces))


def most_coarse_of_block(arguments: Arguments, pieces: int, largest: int, ordinal: int) -> int:
    """The same of the hierarchy of a block: a level is whole where pieces are that small.

    A piece of the `largest` number of unknowns is coarsened all the same.
    """
    small = ENTRIES_OF_ONE["cpu" if ordinal == CPU else "gpu"] // (_MANY_ENTRIES * pieces)
    return max(most_coarse(arguments, pieces), min(small, largest // 4))


class NotInPiecesError(np.linalg.LinAlgError):
    """Raised if a matrix cannot have a hierarchy in pieces."""


class BlockHierarchy:
    """The hierarchy of a diagonal block, of which levels after its last one are the same again.

    `between` are the entries of its rows that the block does not have.

    `grow` makes its levels. Another thread that asks for a level waits until it is there, or known not to be.
    """

    def __init__(self, block: CanonicalCsr, between: EntriesBetween, arguments: Arguments) -> None:
        self._block, self._arguments = block, arguments
        # Prolongators are smoothed by one step, for each needs rows of other pieces.
        known = arguments.hermitian
        if known is False or (known is None and not _core.is_nearly_hermitian(block.source)):
            raise NotInPiecesError(
                "the matrix is not symmetric or Hermitian, which amg over devices or ranks is for; use one "
                "device, or M='ilu0' or M='jacobi'"
            )
        self._core = _core.Hierarchy(block.source, *arguments[:6], True, None, most_steps=1, between=between)
        self._growing, self._levels, self._is_whole = Condition(), 0, False
        self._failure: BaseException | None = None

    def grow(self) -> None:
        """Make all levels."""
        try:
            follows = True
            while follows:
                follows = self._core.grow()
                check_definite(self._core, self._block)
                self._tell(is_whole=not follows)
        except BaseException as failure:
            self._failure = failure
            self._tell(is_whole=True)
            raise

    def _tell(self, *, is_whole: bool) -> None:
        with self._growing:
            self._levels, self._is_whole = self._core.levels, is_whole
            self._growing.notify_all()

    def _grown(self, levels: int) -> int:
        """The number of levels that are complete: `levels` at least, or all."""
        with self._growing:
            self._growing.wait_for(lambda: self._is_whole or self._levels >= levels)
            if self._failure is not None:
                raise self._failure
            return self._levels

    def has(self, level: int) -> bool:
        """Whether the block has a level, which need not be complete."""
        grown = self._grown(level)
        return level < max(1, grown) or (level == grown and not self._is_whole)

    @property
    def depth(self) -> int:
        """Number of levels."""
        return next(level for level in count(1) if not self.has(level))

    def is_smoothed(self, level: int) -> bool:
        """Whether the prolongator to a level from the next coarser one is smoothed."""
        return self.has(level + 1) and level < self._core.smoothed_levels

    def A(self, level: int) -> CanonicalCsr:  # noqa: N802
        """The matrix of a level."""
        last = level if self.has(level) else self.depth - 1
        return self._block if last == 0 else CanonicalCsr.on(self._core.source(last, "A"))

    def P(self, level: int) -> CanonicalCsr:  # noqa: N802
        """The prolongator to a level from the next coarser one; the identity where there is none."""
        if self.has(level + 1):
            return CanonicalCsr.on(self._core.source(level, "P"))
        A = self.A(level)
        return CanonicalCsr.of(sp.eye_array(A.shape[0], dtype=A.dtype, format="csr")).at(A.ordinal)

    def R(self, level: int) -> CanonicalCsr:  # noqa: N802
        """The conjugate transpose of a prolongator."""
        return CanonicalCsr.on(self._core.source(level, "R")) if self.has(level + 1) else self.P(level)

    def T(self, level: int) -> CanonicalCsr:  # noqa: N802
        """The prolongator before it is smoothed."""
        return CanonicalCsr.on(self._core.tentative(level)) if self.is_smoothed(level) else self.P(level)

    def smoothing(self, level: int, E: EntriesBetween, ET: CanonicalCsr) -> CanonicalCsr:
        """What smoothing adds to a prolongator for entries E that the block does not have."""
        A = self.A(level)
        if not self.is_smoothed(level):
            return CanonicalCsr.empty((A.shape[0], ET.shape[1]), ET.dtype, ET.ordinal)
        return CanonicalCsr.on(self._core.smoothing(level, A.source, E, ET.source))

    def near_null_space(self, level: int) -> NearNullSpace:
        """What the matrix of a level nearly maps to zero."""
        last = level if self.has(level) else self.depth - 1
        rows, size = self.A(level).shape[0], 1
        B = self._arguments.B
        if last > 0:
            B, nodes = self._core.near_null_space(last).reshape(rows, -1), self._core.nodes(last)
        else:
            size, nodes = int(self._arguments.block), np.zeros(0, np.int32)
        if B is None:
            B = np.tile(np.eye(size, dtype=self._block.dtype), (rows // size, 1))
        return NearNullSpace(B, nodes if len(nodes) else np.arange(0, rows + 1, size, dtype=np.int32))

    def largest(self, level: int) -> float:
        """The largest eigenvalue of the matrix of a level, with its diagonal scaled to one."""
        return self._core.largest_eigenvalue(level) if level < self._grown(level + 1) else 0.0


class NearNullSpace(NamedTuple):
    """Vectors that a matrix nearly maps to zero.

    Attributes
    ----------
    B : (n, k) array
    nodes : (m + 1,) array of int32
        Where the unknowns of each node begin, and end.
    """

    B: HostArray
    nodes: HostArray


def whole_hierarchy(
    op: SparseOperator,
    csr: CanonicalCsr,
    pieces: Sequence[NearNullSpace],
    number: int,
    arguments: Arguments,
    *,
    is_smoothed: bool,
) -> Multigrid:
    """The hierarchy of a level that is whole on a device, from the near null space of each piece.

    `number` levels are finer, and `is_smoothed` says whether their prolongators are smoothed.
    """
    ends = np.cumsum([len(piece.B) for piece in pieces])
    nodes = [piece.nodes[1:] + end - len(piece.B) for piece, end in zip(pieces, ends, strict=True)]
    firsts = np.concatenate([np.zeros(1, np.int32), *nodes]).astype(np.int32)
    most_terms = arguments.most_terms[1] if is_smoothed else 0.0
    own = arguments._replace(
        B=np.concatenate([piece.B for piece in pieces]),
        block=1 if len(firsts) == op.shape[0] + 1 else firsts,
        most_terms=(most_terms, most_terms),
        max_levels=max(1, arguments.max_levels - number),
        hermitian=True,
    )
    return Multigrid(op, csr, own, finer=number)


class SharedMatrix(NamedTuple):
    """A matrix of a piece of which others need some rows.

    Attributes
    ----------
    csr : CanonicalCsr
    first, total : int
        The column of all pieces that its first one is, and the number of all.
    """

    csr: CanonicalCsr
    first: int
    total: int

    def rows(self, listed: HostArray, ordinal: int) -> CanonicalCsr:
        """Some rows on a device, in the columns of all pieces."""
        return self.csr.shared_rows(listed, self.first, self.total, ordinal)


class Coupling(NamedTuple):
    """What a piece adds to the matrices of the blocks.

    Attributes
    ----------
    A : CanonicalCsr
        To the coarser matrix, in rows of any piece.
    D : CanonicalCsr or None
        To its prolongator; None if the prolongator of no piece is smoothed.
    adjoint : CanonicalCsr or None
        The conjugate transpose of `D`, in rows and columns of all pieces.
    """

    A: CanonicalCsr
    D: CanonicalCsr | None = None
    adjoint: CanonicalCsr | None = None


#: The computation of a piece. It yields matrices for other pieces, and receives the rows of its halo of each.
Together: TypeAlias = Generator[tuple[SharedMatrix, ...], Sequence[CanonicalCsr], Coupling]


def coupled(
    E: EntriesBetween, own: BlockHierarchy, level: int, first: int, total: int, *, is_smoothed: bool
) -> Together:
    """The entries of a prolongator and of a Galerkin product that no block has.

    `cpp/multigrid/between_pieces.hpp` says which these are, and computes them where they lie.

    Parameters
    ----------
    E : EntriesBetween
    own : BlockHierarchy
    level : int
    first, total : int
        The first unknown of the piece on the coarser level, and the number of all.
    is_smoothed : bool
        Whether the prolongator of any piece is smoothed.
    """
    B, Q = own.A(level), own.P(level)
    of_piece = (Q, own.T(level)) if is_smoothed else (Q,)
    needed = yield tuple(SharedMatrix(matrix, first, total) for matrix in of_piece)
    EQ, *ET = (
        E.times(matrix.source, rows.source, first) for matrix, rows in zip(of_piece, needed, strict=True)
    )
    if not is_smoothed:
        return Coupling(CanonicalCsr.on(E.coupled(B.source, Q.source, EQ, first=first)[0]))
    D = own.smoothing(level, E, CanonicalCsr.on(ET[0]))
    (of_D,) = yield (SharedMatrix(D, 0, total),)
    A, adjoint = E.coupled(B.source, Q.source, EQ, D.source, of_D.source, first)
    return Coupling(CanonicalCsr.on(A), D, None if adjoint is None else CanonicalCsr.on(adjoint))


def sent(step: Together, halos: Sequence[CanonicalCsr]) -> tuple[SharedMatrix, ...] | Coupling:
    """What the computation of a piece says or returns when it gets its halos."""
    try:
        return step.send(halos)
    except StopIteration as end:
        made: Coupling = end.value
        return made


class GridsInPieces(NamedTuple):
    """What a hierarchy applies.

    Attributes
    ----------
    levels : tuple of Level
        Those with vectors in pieces, finest first.
    diagonals : list of DeviceVector
        The inverses of the diagonals of their matrices.
    largest : list of float
        The largest eigenvalue of each matrix with its diagonal scaled to one, or a little more.
    smoothed : int
        How many prolongators are smoothed, of whole levels too.
    whole : Multigrid or None
        The coarser levels; None if there are none.
    inverse : operator or None
        Of the only matrix, if there is no coarser level and it is small.
    """

    levels: tuple[Level, ...]
    diagonals: list[DeviceVector]
    largest: list[float]
    smoothed: int
    whole: Multigrid | None
    inverse: Any = None


class MultigridInPieces(DevicePreconditioner):
    """A hierarchy of levels in pieces as a preconditioner."""

    _arguments: Arguments
    _smoothing: tuple[int, float]

    @property
    def levels(self) -> tuple[Level, ...]:
        grids: GridsInPieces = self._state
        return (*grids.levels, *(() if grids.whole is None else grids.whole.levels))

    @property
    def operator_complexity(self) -> float:
        entries = self._entries()
        return sum(entries) / max(1, entries[0])

    @property
    def nbytes(self) -> int:
        grids: GridsInPieces = self._state
        stored = [op for level in grids.levels for op in level if op is not None][1:]
        others = [of for of in (grids.whole, grids.whole and grids.whole.A, grids.inverse) if of is not None]
        return sum(of.nbytes for of in (*stored, *others)) + self._memory.nbytes

    def _entries(self) -> list[int]:
        return [level.A.nnz for level in self.levels]

    def _matrix_of(self, op: Any) -> AnyMatrix:
        """An operator of a level in pieces as the core's cycle multiplies by it."""
        matrix: AnyMatrix = op._matrix
        return matrix

    def _core_map(self) -> LinearMap:
        grids: GridsInPieces = self._state
        degree, ratio = self._smoothing
        given: list[Any] = []
        for (A, R, P), high, diagonal in zip(grids.levels, grids.largest, grids.diagonals, strict=True):
            matrices = [None if op is None else self._matrix_of(op) for op in (A, R, P)]
            given.append((matrices[0], diagonal.pointer, high / ratio, high, degree, *matrices[1:], None))
        if grids.inverse is not None:
            given[-1] = (None, 0, 1.0, 1.0, 1, None, None, self._matrix_of(grids.inverse))
        has_inverse = grids.whole is not None and grids.whole._now().inverse is not None
        if grids.whole is not None:
            given += grids.whole._core_levels()
        twice = visited_twice(self._entries(), grids.smoothed) if has_inverse else []
        return _core.cycle_map(self.dtype, given, self._memory, twice)

    def _set_up(self, finest: Any) -> GridsInPieces:
        """The levels of an operator that no caller has."""
        raise NotImplementedError

    def _state_with(self, data: object) -> GridsInPieces:
        """See `SparseOperator.update_values`; the hierarchy is made anew."""
        finest: Any = self.levels[0].A._snapshot()
        finest.update_values(data)
        return self._set_up(finest)

    def _conjugate_transposed(self, state: GridsInPieces) -> GridsInPieces:
        return state  # as the matrix of a positive definite system

    def _facts(self) -> str:
        return facts_of(self._arguments, self.levels, self.operator_complexity)
