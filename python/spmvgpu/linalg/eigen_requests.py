"""Eigenpairs that libraries differentiate: how they are found, and how they change with the matrices.

Eigenvalues w are simple, and eigenvectors v orthonormal in the inner product of M. For changes dA and dM

    dw = v.H (dA - w dM) v
    dv = -G (dA - w dM) v - v (v.H dM v) / 2

where G is the inverse of ``A - w M`` on vectors orthogonal to v, with results orthogonal to M v. On these
vectors, ``A - w M + (M v) (M v).H`` has the same inverse, and it has one for all vectors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator

from .._util.types import HostArray
from ..arrays import AnyArray, ArrayKind
from ..devices import device_name
from ..operator.composed import keeping
from ..operator.construct import as_operator, aslinearoperator
from ..operator.operator import SparseOperator
from ..operator.patterns import Pattern
from .eigen_arguments import checked_which
from .eigsh import eigsh
from .krylov import KrylovRequest, run
from .systems import check_square, refuse_ranks


class EigenRequest(NamedTuple):
    """A problem, the matrices of which are operators or patterns, and the eigenpairs that are wanted.

    Attributes
    ----------
    A, M : LinearOperator or Pattern
        `M` may be None.
    k, sigma, which, ncv, maxiter, inner, preconditioner
        As `eigsh` takes them.
    """

    A: Any
    M: Any
    k: int
    sigma: float | None
    which: str
    ncv: int | None
    maxiter: int | None
    inner: str
    preconditioner: object

    @classmethod
    def of(
        cls, kind: ArrayKind, A: object, M: object, values: object, M_values: object, *how: Any
    ) -> tuple[EigenRequest, tuple[AnyArray, AnyArray]]:
        """The request of a caller, and the values, which are None for what is no pattern.

        Raises
        ------
        TypeError, ValueError
            For matrices and values that do not fit together.
        """
        refuse_ranks(A)
        matrices: list[Any] = []
        arrays: list[AnyArray] = []
        for argument, matrix, given in (("values", A, values), ("M_values", M, M_values)):
            own = "A" if argument == "values" else "M"
            if isinstance(matrix, Pattern) and given is None:
                raise TypeError(f"{own} is a MatrixPattern: give {argument}=, such as pattern.values")
            if given is not None and not isinstance(matrix, Pattern):
                raise TypeError(
                    f"{argument}= is for a MatrixPattern in the place of {own}, which spmvgpu.torch and "
                    "spmvgpu.jax make of a matrix"
                )
            is_ready = isinstance(matrix, Pattern) or (matrix is None and own == "M")
            matrices.append(matrix if is_ready else keeping(as_operator(matrix)))
            arrays.append(None if given is None else kind.array(argument, given))
            if given is not None:
                matrices[-1]._type_of(arrays[-1])  # which checks them
        first, second = matrices
        check_square(first.shape)
        if isinstance(second, SparseOperator) and isinstance(first, SparseOperator | Pattern):
            dtype = first.dtype if isinstance(first, SparseOperator) else first._type_of(values)
            second = aslinearoperator(second, device=device_name(first._ordinal), dtype=dtype)
        request = cls(first, second, *how)
        which, k, _ = checked_which(request.which, request.k, request.ncv, first.shape[0])
        return request._replace(which=which, k=k), (arrays[0], arrays[1])

    def operators(self, values: AnyArray, M_values: AnyArray) -> tuple[LinearOperator, LinearOperator | None]:
        """The operators of both matrices, those of patterns with the given values."""
        A = self.A if values is None else self.A._with_values(values)
        return A, self.M if M_values is None else self.M._with_values(M_values)

    def pairs(self, A: object, M: object, v0: object = None) -> tuple[AnyArray, AnyArray]:
        """The eigenvalues and eigenvectors, of the library of a start vector."""
        found: tuple[AnyArray, AnyArray] = eigsh(
            A, self.k, M, self.sigma, self.which, v0, self.ncv, self.maxiter, inner=self.inner,
            preconditioner=self.preconditioner,
        )  # fmt: skip
        return found

    def inverse(self, A: Any, M: Any, w: HostArray, v: HostArray, x: HostArray) -> HostArray:
        """The inverse of ``A - w M + (M v) (M v).H`` times the column of x, for each eigenpair.

        Raises
        ------
        numpy.linalg.LinAlgError
            If a solve does not converge, as for an eigenvalue that is not simple.
        """
        rtol = 1e-5 if v.dtype in (np.float32, np.complex64) else 1e-11
        along = np.sum(v.conj() * x, axis=0)
        mass = v if M is None else M @ v
        rest = x - mass * along
        y: HostArray = v * along
        for i, shift in enumerate(w):
            b, least = rest[:, i], rtol * float(np.linalg.norm(x[:, i]))
            if np.linalg.norm(b) <= least:
                continue
            op = A
            if M is not None:
                op = A - A.dtype.type(shift) * M
                if isinstance(A, SparseOperator) and isinstance(M, SparseOperator):
                    op = aslinearoperator(op, device=A.device, dtype=A.dtype, tune="off")
            of_identity = float(shift) if M is None else 0.0
            # Singular, but b is in its range.
            request = KrylovRequest("minres", rtol=0.0, atol=least, shift=of_identity, warns=False)
            part, _, went = run(op, b, request)
            # Rounding errors may keep the residual a little above the tolerance.
            if not went.true_residual <= 1e3 * least:
                raise np.linalg.LinAlgError(
                    f"the change of the eigenvector of {shift:g} was not found (minres ended after "
                    f"{went.iterations} iterations: {went.status}); its eigenvalue must be simple"
                )
            y[:, i] += part - v[:, i] * (mass[:, i].conj() @ part)
        return y
