"""Multigrid over the devices of one process: fine levels in pieces, and coarse ones on the first device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise, starmap
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from .._core import CsrSource, EntriesBetween, Matrix, MultiDeviceMatrix, PartedMatrix
from .._util.steps import step
from .._util.types import HostArray
from ..devices import at_most, device_name
from ..inputs.csr import CanonicalCsr
from ..inputs.limits import ENTRY_LIMIT
from ..inputs.rows import RowsOnDevices
from ..multi_device.division import DevicePart
from ..operator.build import build
from ..operator.operator import SparseOperator, operator_of
from ..planning.parts import to_csr
from .gpu_threads import GpuThreads
from .multigrid import AS_PREDICTED, SAFETY, Arguments, Level, Multigrid, inverse_of_coarsest, stored
from .multigrid_in_pieces import (
    BlockHierarchy,
    Coupling,
    GridsInPieces,
    MultigridInPieces,
    NotInPiecesError,
    SharedMatrix,
    coupled,
    fits_one,
    is_scattered,
    most_coarse,
    most_coarse_of_block,
    sent,
    whole_hierarchy,
)
from .vectors import DeviceVector, empty

_ResultT = TypeVar("_ResultT")

#: A matrix of which each device has some rows.
_Parts: TypeAlias = list[CanonicalCsr]


class _Between(NamedTuple):
    """The entries of a device that no block has, with their rows and the columns of others in host memory."""

    E: EntriesBetween
    near: HostArray
    needed: HostArray


def keeps_levels_in_pieces(op: SparseOperator, arguments: Arguments) -> bool:
    """Whether the devices of an operator can have a hierarchy together.

    Solvers keep vectors in pieces, no node is on two devices, and a piece is large enough for two levels.
    """
    parts, matrix = op._stored.parts, op._matrix
    if not isinstance(matrix, MultiDeviceMatrix) or not 2 <= matrix.solver_pieces == len(parts):
        return False
    rows = [part.rows for part in parts if isinstance(part.rows, range)]
    is_large = max(map(len, rows)) > most_coarse(arguments, len(parts))
    return is_large and all(
        own.start % int(arguments.block) == 0 and part.nnz <= ENTRY_LIMIT
        for own, (part, *_) in zip(rows, matrix.parts, strict=True)
    )


class MultigridOverDevices(MultigridInPieces):
    """A multigrid hierarchy of an operator over several devices as a preconditioner, as `amg` returns it.

    A `LinearOperator`, for the solvers of `spmvgpu.linalg` and of SciPy. One application is one cycle. Each
    device has the aggregates of its rows. Prolongators are smoothed across devices, and the matrices of
    coarser levels have all entries, so that the number of iterations depends little on the number of devices.
    Levels with few entries are on the first device. A solver with the operator `A` keeps its vectors in
    pieces.

    Attributes
    ----------
    A : SparseOperator
        The matrix. Pass it to the solver.
    levels : tuple of Level
        The operators of each level, finest first.
    operator_complexity : float
        Number of stored entries of all levels, divided by the number of the finest.
    nbytes : int
        Bytes of the hierarchy on all devices, without the finest matrix.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(sg.gallery.poisson2d(60), device=["cpu", "cpu"])
    >>> M = sg.linalg.amg(op)
    >>> x, info = sg.linalg.cg(op, np.ones(3600), M=M)
    >>> info, op.solve_info.pieces
    (0, 2)
    """

    def __init__(self, op: SparseOperator, arguments: Arguments) -> None:
        super().__init__(op.dtype, op.shape, op._stored.parts[0].ordinal)
        self._arguments, self._smoothing = arguments, arguments.smoothing
        self._state = self._set_up(op._snapshot())

    @property
    def A(self) -> SparseOperator:  # noqa: N802
        return self.levels[0].A

    def _set_up(self, finest: SparseOperator) -> GridsInPieces:
        threads = GpuThreads([part.ordinal for part in finest._stored.parts])
        with at_most(finest.max_threads), threads, step("multigrid", "over devices"):
            return _Setup(finest, self._arguments, threads).grids()

    def _divides(self, matrix: object) -> bool:
        grids: GridsInPieces = self._state
        return self.levels[0].A._matrix is matrix and grids.inverse is None

    def _state_with(self, data: object) -> GridsInPieces:
        made = super()._state_with(data)
        if isinstance(data, SparseOperator) and data._stored.parts == made.levels[0].A._stored.parts:
            # The operator itself, with which a solver keeps vectors in pieces.
            return made._replace(levels=(made.levels[0]._replace(A=data._snapshot()), *made.levels[1:]))
        return made

    def _reduced(self) -> tuple[object, ...]:
        return MultigridOverDevices, (self.levels[0].A, self._arguments)


class _Setup:
    """A hierarchy in the making: what each device has of the level, and the entries between devices.

    Hierarchies of blocks grow beside it, while finer levels are coupled.
    """

    def __init__(self, op: SparseOperator, arguments: Arguments, threads: GpuThreads) -> None:
        self._op, self._dtype, self._arguments, self._threads = op, op.dtype, arguments, threads
        self._ordinals = ordinals = [part.ordinal for part in op._stored.parts]
        matrices: Any = op._matrix
        parts = [part for part, *_ in matrices.parts]
        rows = self._each(lambda k: _rows_of(parts[k], ordinals[k]))
        self._starts = _starts(rows)
        B, largest = arguments.B, max(csr.shape[0] for csr in rows)
        most = most_coarse_of_block(arguments, len(rows), largest, ordinals[0])
        self._between = self._each(lambda k: self._found_between(rows[k].outside(*self._range(k)), k))
        if self._is_scattered(rows):
            raise NotInPiecesError("too many entries connect rows of different devices")

        def hierarchy(k: int) -> BlockHierarchy:
            own = slice(*self._range(k))
            modes = B if B is None else B[own]
            block = rows[k].columns(own.start, own.stop)
            return BlockHierarchy(block, self._between[k].E, arguments._replace(B=modes, max_coarse=most))

        self._hierarchies = self._each(hierarchy)
        self._growth = [self._threads.start(own.grow) for own in self._hierarchies]
        self._inverse = self._inverse_diagonal(rows)

    def _range(self, k: int) -> tuple[int, int]:
        return self._starts[k], self._starts[k + 1]

    def _each(self, call: Callable[[int], _ResultT]) -> list[_ResultT]:
        """The results for each device."""
        return self._threads.each(call, len(self._ordinals))

    def grids(self) -> GridsInPieces:
        own, diagonals, largest, whole = self._hierarchies, [], [], None
        smoothed = number = 0
        parts: list[_Parts] = []  # R, P and then A of the next level, one level after the other
        operators = []
        while whole is None:
            diagonals.append(self._inverse)
            largest.append(self._threads.start(self._largest_of, number, self._starts, self._between))
            if not any(one.has(number + 1) for one in own):
                break  # the finest level, which has no coarser one
            is_smoothed = any(one.is_smoothed(number) for one in own)
            A, R, P = self._coarsen(number, is_smoothed=is_smoothed)
            smoothed, number = smoothed + is_smoothed, number + 1
            fits = fits_one(sum(csr.nnz for csr in A), self._ordinals[0])
            parts += [R, P]
            if fits or self._is_scattered(A) or not any(one.has(number + 1) for one in own):
                # While levels are coupled, threads that store others would hold their threads up.
                operators = [self._threads.start(self._on_all, of) for of in parts]
                whole = self._whole(self._gathered(A), number, is_smoothed=is_smoothed)
                smoothed += whole._hierarchy.smoothed_levels
            else:
                parts.append(A)
        for grown in self._growth:
            grown()
        ops = [self._op, *(stored() for stored in operators)]
        levels = tuple(starmap(Level, zip(ops[::3], ops[1::3], ops[2::3], strict=False))) or (Level(*ops),)
        inverse = None if whole else inverse_of_coarsest(self._op, device_name(self._ordinals[0]))
        return GridsInPieces(levels, diagonals, [found() for found in largest], smoothed, whole, inverse)

    def _is_scattered(self, rows: _Parts) -> bool:
        return is_scattered(sum(of.E.nnz for of in self._between), sum(csr.nnz for csr in rows))

    def _largest_of(self, number: int, starts: list[int], between: list[_Between]) -> float:
        """The largest eigenvalue of a level with its diagonal scaled to one, or a little more."""
        of_blocks = max(one.largest(number) for one in self._hierarchies)
        return SAFETY * max(of_blocks, self._largest_between(number, starts, between)) or 1.0

    def _whole(self, csr: CanonicalCsr, number: int, *, is_smoothed: bool) -> Multigrid:
        """The levels from a whole one on, on the first device."""
        op = stored(csr, device_name(self._ordinals[0]))
        spaces = self._each(lambda k: self._hierarchies[k].near_null_space(number))
        return whole_hierarchy(op, csr, spaces, number, self._arguments, is_smoothed=is_smoothed)

    def _inverse_diagonal(self, rows: list[CanonicalCsr]) -> DeviceVector:
        """The inverses of the diagonal of a level, on the first device."""
        whole, first = empty((self._starts[-1],), self._dtype, self._ordinals[0]), self._ordinals[0]

        def of_device(k: int) -> None:
            to = whole.pointer + self._starts[k] * self._dtype.itemsize
            rows[k].source.positive_inverses(self._starts[k], to, first)

        self._each(of_device)
        return whole

    def _largest_between(self, number: int, starts: list[int], between: list[_Between]) -> float:
        """The largest eigenvalue of the rows and columns near other devices, scaled by their diagonal.

        An eigenvector of a large eigenvalue is local: if that is larger than those of the blocks, it is here.
        """
        listed = np.concatenate([start + of.near for start, of in zip(starts, between, strict=False)])
        blocks = [one.A(number) for one in self._hierarchies]
        near = [of.E.near_rows(A.source, listed) for of, A in zip(between, blocks, strict=True)]
        matrix = self._gathered(list(map(CanonicalCsr.on, near)))
        diagonal = matrix.diagonal(0).real.astype(np.float64)
        inverse = np.divide(1, diagonal, where=diagonal > 0, out=np.zeros_like(diagonal))
        return matrix.source.largest_eigenvalue(inverse)

    def _found_between(self, csr: CanonicalCsr, k: int) -> _Between:
        """The entries of a device that no block has, of a matrix with these alone."""
        E = EntriesBetween(csr.source, *self._range(k))
        return _Between(E, E.near, E.needed)

    def _coarsen(self, number: int, *, is_smoothed: bool) -> tuple[_Parts, _Parts, _Parts]:
        """The next coarser matrix, and the ways to it and back, of which each device has some rows."""
        fine, own = self._starts, self._hierarchies
        blocks = [one.A(number + 1) for one in own]
        coarse = _starts(blocks)
        found = self._together(number, coarse, is_smoothed=is_smoothed)
        self._starts = coarse

        def coarsened(k: int) -> tuple[CanonicalCsr, CanonicalCsr, CanonicalCsr, _Between]:
            rows, ordinal = range(*self._range(k)), self._ordinals[k]
            rest = CanonicalCsr.sum_of_rows([of.A for of in found], rows, ordinal)
            P, R, D = own[k].P(number), own[k].R(number), found[k].D
            adjoints = [of.adjoint for of in found if of.adjoint is not None]  # none or all
            if D is None:
                P, R = _in_all_columns(P, k, coarse), _in_all_columns(R, k, fine)
            else:
                adjoint = CanonicalCsr.sum_of_rows(adjoints, rows, ordinal)
                P, R = P.plus(D, coarse[k]), R.plus(adjoint, fine[k])
            return blocks[k].plus(rest, coarse[k]), R, P, self._found_between(rest, k)

        A, R, P, self._between = map(list, zip(*self._each(coarsened), strict=True))
        self._inverse = self._inverse_diagonal(A)
        return A, R, P

    def _together(self, number: int, coarse: list[int], *, is_smoothed: bool) -> list[Coupling]:
        """What `coupled` finds on each device, for which they exchange rows."""
        steps = [
            coupled(of.E, own, number, first, coarse[-1], is_smoothed=is_smoothed)
            for of, own, first in zip(self._between, self._hierarchies, coarse, strict=False)
        ]

        def go_on(k: int) -> Any:
            needed = self._between[k].needed
            return sent(steps[k], [self._halo(k, needed, of_all) for of_all in zip(*asked, strict=True)])

        asked: list[Any] = self._each(lambda k: next(steps[k]))
        while not isinstance(asked[0], Coupling):
            asked = self._each(go_on)
        return asked

    def _halo(self, k: int, needed: HostArray, matrices: Sequence[SharedMatrix]) -> CanonicalCsr:
        """The rows that a device needs of matrices of others."""
        parts = []
        for matrix, (begin, end) in zip(matrices, pairwise(self._starts), strict=True):
            low, high = np.searchsorted(needed, (begin, end))
            if low < high:
                parts.append(matrix.rows(needed[low:high] - begin, self._ordinals[k]))
        if not parts:
            return CanonicalCsr.empty((0, matrices[k].total), self._dtype, self._ordinals[k])
        return CanonicalCsr.stacked(parts)

    def _gathered(self, parts: list[CanonicalCsr]) -> CanonicalCsr:
        """A matrix whose rows are on all devices, on the first one."""
        return CanonicalCsr.stacked([part.to(self._ordinals[0]) for part in parts])

    def _on_all(self, parts: _Parts) -> SparseOperator:
        """A matrix of which each device has some rows."""
        rows = RowsOnDevices(parts)
        divided = list(starmap(DevicePart, zip(rows.ranges, self._ordinals, strict=True)))
        description = self._op._stored.description.on(list(map(device_name, self._ordinals))).unchosen()
        return operator_of(build(rows, replace(description, request=AS_PREDICTED), divided=divided))


def _rows_of(matrix: Any, ordinal: int) -> CanonicalCsr:
    """The rows of a device, there if they are whole matrices in one format."""
    parts = matrix.parts if isinstance(matrix, PartedMatrix) else [(matrix, 0, 0)]
    if not all(isinstance(part, Matrix) and isinstance(first, int) for part, first, _ in parts):
        return CanonicalCsr.of(to_csr(matrix)).at(ordinal)
    made = []
    for part, *_ in sorted(parts, key=lambda part: part[1]):
        made.append(CanonicalCsr.on(CsrSource.of(part)))
    return CanonicalCsr.stacked(made)


def _starts(pieces: list[CanonicalCsr]) -> list[int]:
    """The first row of each piece, and the number of all rows."""
    return [0, *accumulate(piece.shape[0] for piece in pieces)]


def _in_all_columns(block: CanonicalCsr, k: int, starts: list[int]) -> CanonicalCsr:
    """A matrix in the columns of a piece, with the column numbers of the whole matrix."""
    return block.columns(-starts[k], starts[-1] - starts[k])
