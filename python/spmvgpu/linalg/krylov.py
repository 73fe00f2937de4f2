"""What solvers are given, made into what the core solves, and its answer made into theirs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import numpy as np

from .. import _core
from .._util.arguments import one_of, real_number, whole_number
from .._util.types import HostArray
from ..arrays import AnyArray, array_and_library, library_of
from ..operator.batch import BatchedOperator
from ..operator.solve_info import SolveInfo
from .named import named
from .nullspace import NullSpace
from .preconditioner_maps import checked_preconditioner, keeps_pieces, map_of_preconditioner
from .stopping import (
    Info,
    Residuals,
    info_from,
    info_of_columns,
    infos_of,
    residuals_of_columns,
    tolerance,
    values_of,
)
from .systems import Callback, OverRanks, System, agreement_of, check_square, system_of
from .vectors import NO_VECTOR, columns_of, no_columns, zero_column

#: Gets the iterations, the residual and the norm of b, whenever the host looks at a solve, which True ends.
Watch: TypeAlias = Callable[[int, float, float], object]

MOST_ITERATIONS = 2**31 - 1  # as many as the core counts
_RESTART = 20
_KINDS = ("x", "pr_norm", "legacy")


@dataclass(frozen=True)
class KrylovRequest:
    """What the caller of a solver asks for, beside the system: the arguments of `cg` and of the others.

    Attributes
    ----------
    method : str
    x0, M, nullspace, rtol, atol, maxiter, callback, residuals, check_every
        As the solvers take them, unchecked. `check_every` is None for an interval that grows.
    restart : int, optional
        Of gmres.
    callback_type : {"x", "pr_norm", "legacy"}, optional
        Of gmres. With "legacy", `maxiter` counts iterations, and with a callback for "x" this is called after
        restarts. Other methods call it with x after each iteration.
    shift, check
        Of minres.
    flexible : bool
        Of cg and gmres.
    watch : callable, optional
        Gets the iterations, the residual and the norm of b whenever the host looks at the solve, of several
        columns those of the one furthest from its end. If it returns True, the solve ends there.
    warns : bool
        Whether a breakdown or stagnation is warned of.
    batch : int, optional
        Number of systems that the operator has on its diagonal, each of which is solved by itself.
    """

    method: str
    x0: object = None
    M: object = None
    rtol: object = 1e-5
    atol: object = 0.0
    maxiter: object = None
    nullspace: object = None
    callback: Callback | None = None
    residuals: Residuals | None = None
    check_every: object = None
    restart: object = None
    callback_type: str | None = None
    shift: object = 0.0
    check: object = False
    flexible: object = False
    watch: Watch | None = None
    warns: bool = True
    batch: int | None = None

    @property
    def shows_norm(self) -> bool:
        """Whether the callback gets norms, and not x."""
        return self.method == "gmres" and self.callback_type != "x"

    def checked(self, system: System, callback: Callback | None) -> _core.SolverRequest:
        """The request to the core, without vectors."""
        count = self.batch or 1
        n = system.unknowns // count
        kind = one_of("callback_type", "legacy" if self.callback_type is None else self.callback_type, _KINDS)
        core = _core.SolverRequest(
            self.method, system.core_map(), system.shape[0] // count, system.memory, system.max_threads
        )
        core.batch = count
        if not (self.residuals is None or isinstance(self.residuals, list)):
            raise TypeError(
                f"residuals={self.residuals!r} is not allowed; give a list, which is filled, or None"
            )
        length = _RESTART if self.restart is None else whole_number("restart", self.restart, 1, 2**20)
        core.restart = min(length, n)
        default = (5 if self.method == "minres" else 10) * n
        maxiter = default if self.maxiter is None else whole_number("maxiter", self.maxiter, 0)
        core.maxiter = min(maxiter, MOST_ITERATIONS)
        core.rtol, core.atol = tolerance("rtol", self.rtol), tolerance("atol", self.atol)
        core.shift, core.check = real_number("shift", self.shift), bool(self.check)
        core.flexible = bool(self.flexible)
        if callback is not None and not callable(callback):
            raise TypeError(f"callback={callback!r} is not allowed; give a function of the iterate, or None")
        core.legacy = kind == "legacy" and (callback is not None or self.watch is not None)
        core.look_restarts = callback is not None and self.method == "gmres" and kind == "x"
        core.look_each = callback is not None and not core.look_restarts
        if self.check_every is not None:
            core.look_every = whole_number("check_every", self.check_every, 1, 2**30)
        core.guess_is_mb = isinstance(self.x0, str) and self.x0 == "Mb"
        core.record = self.residuals is not None
        return core


def run(A: object, b: object, request: KrylovRequest) -> tuple[AnyArray, Info, SolveInfo]:
    """Run a solver of the core on what the caller gave: the solution, SciPy's `info`, and how it went.

    Of a distributed system all ranks raise what any of them finds wrong with what it was given.
    """
    if isinstance(A, BatchedOperator):
        return _each_system(A, b, request)
    with agreement_of(A):
        system = system_of(A, b)
    system.check_same(columns=system.columns)
    x0, M, nullspace = request.x0, request.M, request.nullspace
    if system.columns is not None and isinstance(A, OverRanks):
        return _each_column(A, system, request)
    if system.columns == 0:
        vectors = system.vectors(False)
        vectors.take("b", system.b)
        if x0 is not None and not isinstance(x0, str):
            vectors.take("x0", x0)
        residuals: Any = [] if isinstance(request.residuals, list) else request.residuals
        one = replace(request, x0=None, residuals=residuals)
        _, _, how = run(A, zero_column(system.b, system.library), one)
        return no_columns(system.unknowns, system.dtype, system.b, system.library), np.zeros(0, int), how
    callback = system.shared_callback(request.callback)
    with system.agreement():
        core = request.checked(system, callback)
        if isinstance(M, str):
            M = named(M, system.operator(f"M={M!r}"), request.method)
        M = checked_preconditioner(M)
        is_vector = system.columns is None and request.batch is None
        vectors = system.vectors(is_vector and nullspace is None and keeps_pieces(system, M))
        right = vectors.take("b", system.b)
        guess = NO_VECTOR if x0 is None or core.guess_is_mb else vectors.take("x0", x0)
        preconditioner = map_of_preconditioner(system, M, vectors)
        x = vectors.new()
    kind_of_M = "none" if preconditioner is None else "diagonal" if preconditioner.is_diagonal else "operator"
    kind_of_x0 = "none" if x0 is None else "Mb" if isinstance(x0, str) else "array"
    kinds = {"x0": kind_of_x0, "M": kind_of_M, "nullspace is None": nullspace is None}
    system.check_same(**values_of(core), **kinds)
    null: NullSpace | None = None
    if nullspace is not None:
        null = NullSpace(system, nullspace, request.method, vectors.ordinal, core.shift)
        preconditioner = null.projected(preconditioner)
        guess = null.without(guess, vectors.stream)
        if null.of_adjoint:
            right = null.without(right, vectors.stream)
    watch = request.watch

    def look(seen: Sequence[tuple[int, float, float]]) -> bool:
        if callback is None:
            assert watch is not None
            return watch(*max(seen, key=lambda column: column[1] / (column[2] or 1.0))) is True
        if request.shows_norm:
            norms = [residual / norm_b if norm_b else 0.0 for _, residual, norm_b in seen]
            callback(np.float64(norms[0]) if is_vector else np.array(norms))
        else:
            callback(vectors.result())
        return False

    core.M = None if preconditioner is None else preconditioner.core
    core.ordinal, core.stream, core.ranks = vectors.ordinal, vectors.stream, system.ranks
    core.columns = core.batch * (system.columns or 1)
    core.b, core.guess, core.x = right.pointer, guess.pointer, x.pointer
    core.callback = None if callback is None and watch is None else system.together(look)
    reports = _core.solve(core)
    if null is not None:
        null.project(x, x)
    if request.residuals is not None:
        each = [report.residuals for report in reports]
        recorded: Sequence[object] = each[0] if is_vector else residuals_of_columns(each)
        cast("list[object]", request.residuals).extend(recorded)
    how = info_from(request.method, reports, is_vector)
    system.report(how)
    return vectors.result(), infos_of(how, system.dtype, reports, core.maxiter, request.warns), how


def _each_system(A: BatchedOperator, b: object, request: KrylovRequest) -> tuple[AnyArray, Info, SolveInfo]:
    """Solve the systems of a batch together, each until it has converged."""
    count = len(A)
    check_square(A.shape[1:])
    if request.nullspace is not None:
        raise TypeError("nullspace= is for one system; solve the systems of the batch one by one")
    if isinstance(request.M, str) and request.M == "block_jacobi" and A.shape[1] % 3:
        raise ValueError(
            f"M='block_jacobi' has blocks of 3 rows, and systems of {A.shape[1]} rows do not consist of "
            "these; give M=block_jacobi(A.blocks, block) with a block that divides the number of rows"
        )
    flat, library = A._flat("b", b)
    given: dict[str, Any] = {"x0": request.x0, "M": request.M}
    for name, x in given.items():
        if library_of(x) is not None:
            given[name], _ = A._flat(name, x, 2 if name == "M" else None)
    callback, record = request.callback, request.residuals

    def in_order(numbers: HostArray) -> HostArray:
        """Numbers of all solves, which the core has system by system for each right-hand side."""
        return numbers.reshape(-1, count).T.reshape(count, *flat.shape[1:])

    def of_systems(seen: AnyArray) -> object:
        assert callback is not None
        return callback(in_order(seen) if request.shows_norm else A._each(seen, library))

    recorded: Any = [] if isinstance(record, list) else record
    own = replace(request, **given, batch=count, residuals=recorded)
    if callable(callback):
        own = replace(own, callback=of_systems)
    x, info, how = run(A.blocks, flat, own)
    if isinstance(record, list):
        cast("list[object]", record).extend(map(in_order, recorded))
    return A._each(x, library), in_order(info), how


def _each_column(A: OverRanks, system: System, request: KrylovRequest) -> tuple[AnyArray, Info, SolveInfo]:
    """Solve for one column after the other, as ranks add the sums of one vector alone."""
    M, library, shape = request.M, system.library, (system.shape[0], system.columns or 0)
    with system.agreement():
        columns = columns_of("b", system.b, library, shape)
        guesses: list[object] = [request.x0] * shape[1]
        if request.x0 is not None and not isinstance(request.x0, str):
            guesses = [*columns_of("x0", *array_and_library("x0", request.x0), shape)]
        if isinstance(M, str):
            M = named(M, system.operator(f"M={M!r}"), request.method)
    if not columns:  # one stands for the type of the solutions
        columns, guesses = [zero_column(system.b, library)], [None]
    records: list[Any] = [[] if isinstance(request.residuals, list) else request.residuals for _ in columns]
    solved = [
        run(A, column, replace(request, M=M, x0=guess, residuals=record))
        for column, guess, record in zip(columns, guesses, records, strict=True)
    ]
    if isinstance(request.residuals, list) and shape[1]:
        cast("list[object]", request.residuals).extend(residuals_of_columns(records))
    how = info_of_columns([how for _, _, how in solved])
    system.report(how)
    X, infos = library.stacked([x for x, _, _ in solved]), np.array([info for _, info, _ in solved])
    return X[..., : shape[1]], infos[: shape[1]], how
