"""What `solve` tries with a matrix, from what is known of it."""

from __future__ import annotations

from typing import NamedTuple

# Preconditioners that leave the system unsymmetric, and the ones made of triangular factors.
_UNSYMMETRIC, _OF_TRIANGLES = ("ilu0",), ("ic0", "ilu0")

# Incomplete factors are stable where the diagonal outweighs its rows, or nearly so. Where it does so by far,
# the diagonal is a good preconditioner alone.
_STABLE, _DOMINANT = 0.99, 1.1


class Approach(NamedTuple):
    """A solver with a preconditioner, by their names; "none" stands for no preconditioner."""

    solver: str
    preconditioner: str

    def __str__(self) -> str:
        return self.solver if self.preconditioner == "none" else f"{self.solver} with {self.preconditioner}"


DIRECT = Approach("direct", "none")


def choose(
    hermitian: bool,
    positive_diagonal: bool,
    preconditioner: str,
    kind: str,
    *,
    divides: bool = True,
    dominance: float = 0.0,
    on_gpu: bool = False,
    suits_multigrid: bool = False,
    direct: bool = False,
) -> tuple[list[Approach], str]:
    """What to try with a matrix, each where the one before fails, and why the first was chosen.

    Parameters
    ----------
    hermitian : bool
        Whether the matrix is symmetric, or Hermitian if it is complex.
    positive_diagonal : bool
        Whether all of its diagonal is positive, without which no matrix is positive definite.
    preconditioner : str
        The only one to use, or "auto".
    kind : {"symmetric", "Hermitian"}
        What a matrix of this type is called that equals its (conjugate) transpose.
    divides : bool
        Whether all of the diagonal has an inverse, without which there are no preconditioners.
    dominance : float
        As `problem.dominance` gives it; 0 if it is not known.
    on_gpu : bool
        Whether solvers run on a GPU, where a solve with triangular factors may take as long as a thousand
        products, so that they are the last to be tried.
    suits_multigrid : bool
        Whether the matrix nearly maps constant vectors to zero, if it is not Hermitian.
    direct : bool
        Whether to try factors on a GPU.
    """
    solvers, reason = _solvers(hermitian, positive_diagonal, preconditioner, kind)
    factorized = [DIRECT] if direct else []
    if preconditioner != "auto":
        return [*(Approach(solver, preconditioner) for solver in solvers), *factorized], reason
    jacobi = "jacobi" if divides else "none"
    factors = ["ilu0"] if divides else []
    if not hermitian:
        factors_first = _STABLE <= dominance < _DOMINANT and not on_gpu
        names = [*factors, jacobi] if factors_first else [jacobi, *factors]
        if factors_first and factors:
            reason += ", and its diagonal about as large as the rest of each row"
        approaches = [Approach(solver, name) for name in names for solver in solvers]
        approaches[1:1] = [Approach(solvers[0], "amg")] if suits_multigrid else []
    else:
        approaches = [Approach(solver, jacobi) for solver in solvers]
        if "cg" in solvers:
            approaches[1:1] = [Approach("cg", name) for name in ("amg", "ic0")]
        approaches += [Approach("gmres", name) for name in (*factors, jacobi)]
    if not on_gpu:
        return approaches, reason
    slow = [approach for approach in approaches if approach.preconditioner in _OF_TRIANGLES]
    return [approach for approach in approaches if approach not in slow] + factorized + slow, reason


def _solvers(
    hermitian: bool, positive_diagonal: bool, preconditioner: str, kind: str
) -> tuple[tuple[str, ...], str]:
    if not hermitian:
        return ("bicgstab", "gmres"), f"the matrix is not {kind}"
    if preconditioner in _UNSYMMETRIC:
        return ("bicgstab", "gmres"), f"{preconditioner} is not {kind}"
    if not positive_diagonal:
        why = f"the matrix is {kind}, and not positive definite: its diagonal is not positive"
        return ("minres",), why
    return ("cg", "minres"), f"the matrix is {kind} with a positive diagonal"
