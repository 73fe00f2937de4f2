"""Solvers with the signatures of `scipy.sparse.linalg` that do all their work on the operator's device."""

from .cg import cg
from .preconditioners import Jacobi, jacobi

__all__ = ["Jacobi", "cg", "jacobi"]
