"""What solvers are given, made into what the core solves, and its answer made into theirs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from .. import _core
from .._core import SolverLimits
from .._util.arguments import whole_number
from ..arrays import AnyArray
from ..operator.solve_info import SolveInfo
from .named import named
from .nullspace import NullSpace
from .preconditioners import PreconditionerMap, checked_preconditioner, keeps_pieces, map_of_preconditioner
from .stopping import Info, Residuals, check_residuals, info_from, infos_of, residuals_from, values_of
from .systems import Callback, OverRanks, system_of
from .vectors import NO_VECTOR, no_columns, zero_column


def run(
    solver: str,
    A: object,
    b: object,
    x0: object,
    M: object,
    limits: Callable[[int, Callback | None], SolverLimits],
    callback: Callback | None = None,
    residuals: Residuals | None = None,
    check_every: int | None = None,
    *,
    shows_norm: bool = False,
    watch: Callable[[int, float, float], object] | None = None,
    nullspace: object = None,
    warns: bool = True,
) -> tuple[AnyArray, Info, SolveInfo]:
    """Run a solver of the core on what the caller gave: the solution, SciPy's `info`, and how it went.

    ``limits(unknowns, callback)`` says when it ends. `callback` gets x or, if `shows_norm`, the relative
    residual. `watch` gets the iterations, the residual and the norm of b whenever the host looks at the
    solve, of several columns those of the one furthest from its end. `nullspace` is as solvers take it. Of a
    distributed system all ranks raise what any of them finds wrong with what it was given.
    """
    system = system_of(A, b)
    if system.columns == 0:
        vectors = system.vectors(False)
        vectors.take("b", system.b)
        if x0 is not None and not isinstance(x0, str):
            vectors.take("x0", x0)
        _, _, how = run(
            solver,
            A,
            zero_column(system.b, system.library),
            None,
            M,
            limits,
            callback,
            [] if isinstance(residuals, list) else residuals,
            check_every,
            shows_norm=shows_norm,
            watch=watch,
            nullspace=nullspace,
        )
        return no_columns(system.unknowns, system.dtype, system.b, system.library), np.zeros(0, int), how
    callback = system.shared_callback(callback)
    with system.agreement():
        check_residuals(residuals)
        asked = limits(system.unknowns, callback)
        if check_every is not None:
            asked.look_every = whole_number("check_every", check_every, 1, 2**30)
        asked.guess_is_mb, asked.record = isinstance(x0, str) and x0 == "Mb", residuals is not None
        M = named(M, system.operator(f"M={M!r}"), solver) if isinstance(M, str) else checked_preconditioner(M)
        is_vector = system.columns is None
        vectors = system.vectors(is_vector and nullspace is None and keeps_pieces(system, M))
        right = vectors.take("b", system.b)
        guess = NO_VECTOR if x0 is None or asked.guess_is_mb else vectors.take("x0", x0)
        preconditioner = map_of_preconditioner(system, M, vectors)
        null: NullSpace | None = None
        if nullspace is not None:
            if isinstance(A, OverRanks):
                raise ValueError("nullspace= is for operators of one process, and A is over ranks")
            null = NullSpace(system, nullspace, solver, vectors.ordinal, asked.shift)
            preconditioner = null.projected(preconditioner)
            guess = null.without(guess, vectors.stream)
            if null.of_adjoint:
                right = null.without(right, vectors.stream)
        x = vectors.new()
    system.check_same(**values_of(asked), x0=_kind_of_guess(x0), M=_kind_of(preconditioner))

    def look(seen: Sequence[tuple[int, float, float]]) -> None:
        if callback is None:
            assert watch is not None
            watch(*max(seen, key=lambda column: column[1] / (column[2] or 1.0)))
        elif shows_norm:
            norms = [residual / norm_b if norm_b else 0.0 for _, residual, norm_b in seen]
            callback(np.float64(norms[0]) if is_vector else np.array(norms))
        else:
            callback(vectors.result())

    looked = None if callback is None and watch is None else system.together(look)
    reports = _core.solve(
        solver,
        system.core_map(),
        None if preconditioner is None else preconditioner.core,
        system.shape[0],
        system.columns or 1,
        vectors.ordinal,
        right.pointer,
        guess.pointer,
        x.pointer,
        asked,
        system.memory,
        vectors.stream,
        system.max_threads,
        looked,
        system.ranks,
    )
    if null is not None:
        null.clean(x)
    if residuals is not None:
        cast("list[object]", residuals).extend(residuals_from(reports, is_vector))
    how = info_from(solver, reports, is_vector)
    system.report(how)
    info = infos_of(how, system.dtype, [report.offending_value for report in reports], asked.maxiter, warns)
    return vectors.result(), info, how


def _kind_of_guess(x0: object) -> str:
    return "none" if x0 is None else "Mb" if isinstance(x0, str) else "array"


def _kind_of(preconditioner: PreconditionerMap | None) -> str:
    if preconditioner is None:
        return "none"
    return "diagonal" if preconditioner.is_diagonal else "operator"
