"""Which Krylov solver suits a matrix: THE decision of `solve` and of the command line."""

from __future__ import annotations

from typing import NamedTuple

# Preconditioners that leave the system unsymmetric.
_UNSYMMETRIC = ("ilu0",)


class Choice(NamedTuple):
    """Solvers to try, each where the one before breaks down or diverges, and why the first was chosen.

    There is no reason for a solver that the user asked for.
    """

    solvers: tuple[str, ...]
    reason: str | None = None


def choose(
    hermitian: bool, positive_diagonal: bool, preconditioner: str, kind: str, is_indefinite: bool = False
) -> Choice:
    """The solvers that suit a matrix.

    Parameters
    ----------
    hermitian : bool
        Whether the matrix is symmetric, or Hermitian if it is complex.
    positive_diagonal : bool
        Whether all of its diagonal is positive, without which no matrix is positive definite.
    preconditioner : str
    kind : {"symmetric", "Hermitian"}
        What a matrix of this type is called that equals its (conjugate) transpose.
    is_indefinite : bool
        Whether steps of the Lanczos method have shown that it is not positive definite.
    """
    if not hermitian:
        return Choice(("bicgstab", "gmres"), f"the matrix is not {kind}")
    if preconditioner in _UNSYMMETRIC:
        return Choice(("bicgstab", "gmres"), f"{preconditioner} is not {kind}")
    if not positive_diagonal:
        why = f"the matrix is {kind}, and not positive definite: its diagonal is not positive"
        return Choice(("minres",), why)
    if is_indefinite:
        why = f"the matrix is {kind}, and not positive definite: so steps of the Lanczos method show"
        return Choice(("minres",), why)
    return Choice(("cg", "minres"), f"the matrix is {kind} with a positive diagonal")
