"""Multigrid for a matrix in pieces: of each rank, or of each device.

A piece has some rows of the matrix. Its own hierarchy is that of its diagonal block, so that aggregates do
not cross pieces. Prolongators are smoothed across pieces, and the matrices of coarser levels have all
entries.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

import scipy.sparse as sp

from .. import _core
from .._core import AnyMatrix, LinearMap
from ..devices import CPU
from ..inputs.csr import CanonicalCsr
from .multigrid import LARGEST_DIRECT, Arguments, Level, check_definite, visited_twice
from .preconditioners import DevicePreconditioner
from .systems import DeviceVector

# Stored entries of a level that one GPU, or a core of a CPU, multiplies as fast as several, which wait for
# messages of each other.
ENTRIES_OF_ONE = {"gpu": 8_000_000, "cpu": 100_000}


def fits_one(entries: int, ordinal: int) -> bool:
    """Whether a level with these entries need not be in pieces on devices of this kind."""
    return entries <= ENTRIES_OF_ONE["cpu" if ordinal == CPU else "gpu"]


def most_coarse(arguments: Arguments, pieces: int) -> int:
    """The largest number of unknowns of a piece of the coarsest level, of which all are inverted together."""
    return min(arguments.max_coarse, max(1, LARGEST_DIRECT // pieces))


class BlockHierarchy:
    """The hierarchy of a diagonal block, of which levels after its last one are the same again.

    Attributes
    ----------
    depth : int
        Number of its levels.
    smoothed : int
        How many prolongators are smoothed.
    """

    def __init__(self, block: CanonicalCsr, arguments: Arguments) -> None:
        self._block = block
        self._core = _core.Hierarchy(block.source, *arguments[:6], None)
        check_definite(self._core, block)
        self.depth, self.smoothed = max(1, self._core.levels), self._core.smoothed_levels

    def A(self, level: int) -> CanonicalCsr:  # noqa: N802
        """The matrix of a level."""
        last = min(level, self.depth - 1)
        return self._block if last == 0 else self._csr(last, "A")

    def P(self, level: int) -> CanonicalCsr:  # noqa: N802
        """The prolongator to a level from the next coarser one; the identity where there is none."""
        if level + 1 < self.depth:
            return self._csr(level, "P")
        A = self.A(level)
        return CanonicalCsr.of(sp.eye_array(A.shape[0], dtype=A.dtype, format="csr")).at(A.ordinal)

    def R(self, level: int) -> CanonicalCsr:  # noqa: N802
        """The conjugate transpose of a prolongator."""
        return self._csr(level, "R") if level + 1 < self.depth else self.P(level)

    def T(self, level: int) -> CanonicalCsr:  # noqa: N802
        """The prolongator before it is smoothed."""
        P = self.P(level)
        if level >= self.smoothed:
            return P
        source = self._core.tentative(level)
        return CanonicalCsr.on(source, P.shape, P.dtype, source.nnz, P.ordinal)

    def smoothing(self, level: int, ET: CanonicalCsr) -> CanonicalCsr:
        """What smoothing adds to a prolongator for entries E that the block does not have."""
        if level >= self.smoothed:
            return CanonicalCsr.empty(ET.shape, ET.dtype, ET.ordinal)
        source = self._core.smoothing(level, self.A(level).source, ET.source)
        return CanonicalCsr.on(source, ET.shape, ET.dtype, ET.nnz, ET.ordinal)

    def largest(self, level: int) -> float:
        """The largest eigenvalue of the matrix of a level, with its diagonal scaled to one."""
        return self._core.largest_eigenvalue(level) if level < self._core.levels else 0.0

    def _csr(self, level: int, name: str) -> CanonicalCsr:
        block, (rows, cols, nnz) = self._block, self._core.size(level, name)
        source = self._core.source(level, name)
        return CanonicalCsr.on(source, (rows, cols), block.dtype, nnz, block.ordinal)


class Rest(NamedTuple):
    """The entries of a piece that its diagonal block does not have, in rows near other pieces.

    Attributes
    ----------
    own, halo : CanonicalCsr
        In the columns of the piece, and in those that it needs of others.
    """

    own: CanonicalCsr
    halo: CanonicalCsr

    def times(self, of_own: CanonicalCsr, of_halo: CanonicalCsr) -> CanonicalCsr:
        """The product with a matrix, of which there are the rows of the piece and of its halo."""
        return self.own.times(of_own).plus(self.halo.times(of_halo))


class Coupling(NamedTuple):
    """What a coarser level has besides the hierarchies of the blocks.

    Attributes
    ----------
    D : CanonicalCsr or None
        The prolongator less those of the blocks, in rows of the piece; None if it is not smoothed.
    rest : CanonicalCsr
        Entries of the matrix in rows of the piece.
    of_any : CanonicalCsr or None
        More entries, which are to be added, in rows of any piece.
    """

    D: CanonicalCsr | None
    rest: CanonicalCsr
    of_any: CanonicalCsr | None


def coupled(
    E: Rest, own: BlockHierarchy, level: int, first: int, total: int, *, is_smoothed: bool
) -> Generator[CanonicalCsr, CanonicalCsr, Coupling]:
    """The entries of a prolongator and of a Galerkin product that no block has.

    A = B + E and P = Q + D, where B, Q and R = Q* are of the blocks, which have R B Q, and D is what smooths
    the tentative prolongator by E. So P maps the near null space exactly to its smoothed vectors, and the
    matrix is R B Q + R (E Q + A D) + D* A P. All but its first term have few entries, near the rows that
    have entries in columns of other pieces. Yields a matrix whose rows in the halo it then needs; all pieces
    do this together.

    Parameters
    ----------
    E : Rest
    own : BlockHierarchy
    level : int
    first, total : int
        The first unknown of the piece on the coarser level, and the number of all.
    is_smoothed : bool
        Whether the prolongator of any piece is smoothed.
    """

    def in_all(block: CanonicalCsr) -> CanonicalCsr:
        return block.columns(-first, total - first)

    B, R, Q = own.A(level), own.R(level), in_all(own.P(level))
    EQ = E.times(Q, (yield Q))
    if not is_smoothed:
        return Coupling(None, R.times(EQ), None)
    T = in_all(own.T(level))
    D = own.smoothing(level, E.times(T, (yield T)))
    ED = E.times(D, (yield D))
    near = D.source.rows_with_entries()
    beside, smoothed = B.rows(near), D.rows(near)
    AD = beside.adjoint().times(smoothed).plus(ED)  # B is Hermitian
    AP = beside.times(Q).plus(EQ.rows(near)).plus(AD.rows(near))
    return Coupling(D, R.times(EQ.plus(AD)), smoothed.adjoint().times(AP))


def sent(
    step: Generator[CanonicalCsr, CanonicalCsr, Coupling], halo: CanonicalCsr
) -> CanonicalCsr | Coupling:
    """What a coroutine yields or returns when it gets a halo."""
    try:
        return step.send(halo)
    except StopIteration as end:
        made: Coupling = end.value
        return made


class GridsInPieces(NamedTuple):
    """What a hierarchy applies, finest first, and the inverse of the coarsest matrix.

    Attributes
    ----------
    levels : tuple of Level
        With operators whose vectors are in pieces.
    diagonals : list of DeviceVector
        The inverses of the diagonals of the matrices.
    largest : list of float
        The largest eigenvalue of each matrix with its diagonal scaled to one, or a little more.
    smoothed : int
        How many prolongators are smoothed.
    inverse : operator or None
    """

    levels: tuple[Level, ...]
    diagonals: list[DeviceVector]
    largest: list[float]
    smoothed: int
    inverse: Any


class MultigridInPieces(DevicePreconditioner):
    """A hierarchy of levels in pieces as a preconditioner."""

    _smoothing: tuple[int, float]

    @property
    def levels(self) -> tuple[Level, ...]:
        levels: tuple[Level, ...] = self._state.levels
        return levels

    @property
    def operator_complexity(self) -> float:
        entries = self._entries()
        return sum(entries) / max(1, entries[0])

    @property
    def nbytes(self) -> int:
        grids: GridsInPieces = self._state
        stored = [op for level in grids.levels for op in level if op is not None][1:]
        of_inverse = 0 if grids.inverse is None else grids.inverse.nbytes
        return sum(op.nbytes for op in stored) + of_inverse + self._memory.nbytes

    def _entries(self) -> list[int]:
        return [level.A.nnz for level in self.levels]

    def _matrix_of(self, op: Any) -> AnyMatrix:
        """An operator of a level as the core's cycle multiplies by it."""
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
        twice = [] if grids.inverse is None else visited_twice(self._entries(), grids.smoothed)
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

    def __repr__(self) -> str:
        unknowns = ", ".join(str(level.A.shape[0]) for level in self.levels)
        return f"<{type(self).__name__} of {self.dtype}: {unknowns} unknowns>"
