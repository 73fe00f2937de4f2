"""Null spaces of singular systems: what solvers take out of right-hand sides, residuals and solutions."""

from __future__ import annotations

import numpy as np

from .. import _core
from .._util.types import HostArray
from .named import SYMMETRIC_SOLVERS
from .preconditioners import PreconditionerMap
from .systems import System
from .vectors import DeviceVector, columns_on_host, empty, staged


class NullSpace:
    """A null space on the device where the vectors of a solve are.

    Parameters
    ----------
    system : System
    given : "constant" or (n,) or (n, m) array
        As the caller of a solver gave it.
    solver : str
    ordinal : int
        The device of the vectors.
    shift : float
        Of the diagonal, for `minres`.

    Attributes
    ----------
    of_adjoint : bool
        Whether it is also that of the adjoint, so that right-hand sides are orthogonal to it.

    Raises
    ------
    TypeError, ValueError
        If what was given is no basis, or `system` does not map it to zero.
    """

    def __init__(self, system: System, given: object, solver: str, ordinal: int, shift: float) -> None:
        self._system, self._ordinal = system, ordinal
        self._basis = orthonormal_basis(given, system)
        self._on_device = staged(self._basis, ordinal)
        self._memory = _core.SolverMemory(ordinal)
        self._projection = self.projected(None)
        self.of_adjoint = solver in SYMMETRIC_SOLVERS
        self._check(solver, shift)

    def _check(self, solver: str, shift: float) -> None:
        """Compare products with the null space to one with a vector of its mean sizes and random signs."""
        basis, A = self._basis, self._system.core_map()

        def product(vector: HostArray) -> HostArray:
            x, y = staged(vector, self._ordinal), empty(vector.shape, vector.dtype, self._ordinal)
            _core.apply_map(A, x.pointer, y.pointer, len(vector), 1, self._ordinal)
            result = np.empty_like(vector)
            y.read(result)
            result -= vector.dtype.type(shift) * vector
            return result

        rng = np.random.default_rng(1 + self._system.first)
        signs = rng.choice(np.array([-1, 1], basis.dtype), basis.shape[1])
        sizes = np.sqrt(np.mean(np.abs(basis) ** 2, axis=0))
        other = product((signs * sizes).astype(basis.dtype))
        allowed = 10 * float(np.sqrt(np.finfo(basis.dtype).eps)) * self._system.norm(other)
        for number, vector in enumerate(basis):
            size = self._system.norm(product(vector))
            if not size <= allowed:
                which = f"vector {number} of its basis" if len(basis) > 1 else "its vector of norm 1"
                raise ValueError(
                    f"nullspace is not in the null space of the matrix: {which} is mapped to one of norm "
                    f"{size:.3g}; give vectors that the matrix maps to zero"
                )
        if not self.of_adjoint:
            self.of_adjoint = bool(np.abs(self._system.sum(basis.conj() @ other)).max() <= allowed)

    def projected(self, M: PreconditionerMap | None) -> PreconditionerMap:
        """A preconditioner whose results are orthogonal to the null space; of None, the projection alone."""
        system, core = self._system, None if M is None else M.core
        basis = self._on_device.pointer, len(self._basis)
        made = _core.projected_map(system.dtype, core, system.shape[0], *basis, self._memory, system.ranks)
        return PreconditionerMap(made, (self, M))

    def without(self, vector: DeviceVector, stream: int | None) -> DeviceVector:
        """A copy of a vector, orthogonal to the null space, once what the stream holds is done."""
        if vector.owner is None:
            return vector
        if stream is not None:
            _core.synchronize(stream, self._ordinal)
        copy = empty((self._system.columns or 1, self._system.shape[0]), self._system.dtype, self._ordinal)
        self.project(vector, copy)
        return copy

    def project(self, vector: DeviceVector, to: DeviceVector) -> None:
        """Write a vector, made orthogonal to the null space, to the place of another one or to its own."""
        system, core = self._system, self._projection.core
        _core.apply_map(core, vector.pointer, to.pointer, system.shape[0], system.columns or 1, self._ordinal)


def orthonormal_basis(given: object, system: System) -> HostArray:
    """The vectors of a null space made orthonormal, one in each row, in the type of a system."""
    n, most, dtype = system.shape[0], system.unknowns, system.dtype
    with system.agreement():
        if isinstance(given, str):
            if given != "constant":
                raise ValueError(
                    f'nullspace={given!r} is not allowed; give "constant" or an array of vectors'
                )
            given = np.ones(n)
        vectors = columns_on_host("nullspace", given, n, most, np.result_type(dtype, np.float64))
    system.check_same(**{"number of vectors in nullspace": vectors.shape[1]})
    sizes = system.sum(np.abs(vectors).max(axis=0, initial=0))
    orthonormal, triangle = system.qr(vectors / np.where(sizes > 0, sizes, 1))
    diagonal = np.abs(np.diagonal(triangle))
    norms = np.linalg.norm(triangle, axis=0)
    if not (diagonal > 1e-10 * norms).all():
        raise ValueError(
            "the vectors of nullspace are not independent of each other; leave out what others give"
        )
    return np.ascontiguousarray(orthonormal.T, dtype)
