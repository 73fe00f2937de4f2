"""What type checkers are told of solvers: the solution is of the library of b."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, overload

if TYPE_CHECKING:
    from typing_extensions import TypeVarTuple, Unpack

    from .._util.types import ArrayT, HostArray, HostOperand
    from ..arrays import AnyArray

    Others = TypeVarTuple("Others")
    P = ParamSpec("P")

    class Solver(Protocol[P, Unpack[Others]]):
        """A solver: it returns x, and other results beside it."""

        @overload
        def __call__(
            self, A: object, b: HostOperand, *args: P.args, **kwargs: P.kwargs
        ) -> tuple[HostArray, Unpack[Others]]: ...
        @overload
        def __call__(
            self, A: object, b: ArrayT, *args: P.args, **kwargs: P.kwargs
        ) -> tuple[ArrayT, Unpack[Others]]: ...
        @overload
        def __call__(
            self, A: object, b: object, *args: P.args, **kwargs: P.kwargs
        ) -> tuple[Any, Unpack[Others]]: ...


def by_library(
    solver: Callable[Concatenate[object, object, P], tuple[AnyArray, Unpack[Others]]],
) -> Solver[P, Unpack[Others]]:
    """Decorate a solver, for type checkers alone."""
    return solver  # type: ignore[return-value]  # for its first two arguments may be given by name, too
