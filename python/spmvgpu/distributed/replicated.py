"""A distributed operator for programs that have whole vectors on every rank."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator


class Replicated(LinearOperator):  # type: ignore[misc]
    """See `DistributedOperator.replicated`."""

    def __init__(self, op: Any) -> None:
        super().__init__(op.dtype, op.shape)
        self._op = op

    def _matvec(self, x: Any) -> Any:
        return self._matmat(np.asarray(x).reshape(-1))

    def _matmat(self, X: Any) -> Any:
        cols = self._op.col_ranges
        return self._op.row_ranges.gather(self._op.dot(X[cols.begin : cols.end]), root=None)

    def _adjoint(self) -> Replicated:
        return Replicated(self._op.H)

    def _transpose(self) -> Replicated:
        return Replicated(self._op.T)
