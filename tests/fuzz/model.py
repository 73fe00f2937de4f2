"""What an operator should be: a matrix in extended precision beside it, and the error of products with it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from reference import assert_within, reference

#: Sums of absolute values that are far from what float32 holds: larger matrices are not calculated with.
LARGEST = 2.0**40


def extended(values: Any) -> Any:
    """Numbers in the widest type; real ones stay real."""
    return values.astype(np.clongdouble if values.dtype.kind == "c" else np.longdouble)


@dataclass(frozen=True, eq=False)
class Model:
    """A matrix, and how exactly an operator can know it.

    Attributes
    ----------
    exact : csr_array
        The matrix, of longdouble or clongdouble.
    size : csr_array
        What products with it add up, in absolute value: of a product of matrices that of their sizes.
    roundings : int
        How many times as large an error may be as in a product with a matrix that is stored.
    coarsest : dtype
        The least exact real type that numbers go through.
    """

    exact: sp.csr_array
    size: sp.csr_array
    roundings: int
    coarsest: np.dtype[Any]

    @classmethod
    def of(cls, A: sp.csr_array) -> Model:
        """That of a matrix which is stored as it is given."""
        exact = sp.csr_array((extended(A.data), A.indices, A.indptr), shape=A.shape)
        return cls(exact, abs(exact), 1, np.finfo(A.dtype).dtype)

    @classmethod
    def of_dense(cls, found: np.ndarray, roundings: int) -> Model:
        """That of a linear map which is known by its columns, each the sum of many numbers."""
        largest = np.abs(found).max(initial=0.0)
        size = sp.csr_array(np.full(found.shape, largest, np.longdouble))
        return cls(sp.csr_array(extended(found)), size, roundings, np.finfo(found.dtype).dtype)

    @property
    def shape(self) -> tuple[int, int]:
        rows, cols = self.exact.shape
        return int(rows), int(cols)

    @property
    def is_small(self) -> bool:
        """Whether one may go on calculating with it."""
        return self.roundings < 40 and self.size.max() < LARGEST if self.size.nnz else True

    @property
    def is_hermitian(self) -> bool:
        square = self.shape[0] == self.shape[1]
        return square and bool(abs(self.exact - self.exact.conj().T).sum() == 0)

    @property
    def is_dominated(self) -> bool:
        """Whether the diagonal is positive, and more than 1.5 times all else in its rows and columns."""
        rows, cols = self.shape
        if rows != cols or rows == 0:
            return False
        diagonal = self.exact.diagonal()
        around = [np.asarray(abs(self.exact).sum(axis=axis)) - np.abs(diagonal) for axis in (0, 1)]
        return bool((diagonal.real > 1.5 * np.maximum(*around)).all() and (diagonal.imag == 0).all())

    def dense(self) -> np.ndarray:
        """In a type that LAPACK knows."""
        return self.exact.toarray().astype(np.complex128)

    def transposed(self, conjugated: bool = False) -> Model:
        turned = replace(self, exact=sp.csr_array(self.exact.T), size=sp.csr_array(self.size.T))
        return turned.conjugated() if conjugated else turned

    def conjugated(self) -> Model:
        return replace(self, exact=self.exact.conj())

    def times(self, factor: Any) -> Model:
        wide = np.clongdouble(factor) if np.iscomplexobj(factor) else np.longdouble(factor)
        exact, size = sp.csr_array(self.exact * wide), sp.csr_array(self.size * abs(wide))
        return replace(self, exact=exact, size=size, roundings=self.roundings + 1)

    def plus(self, other: Model, sign: int = 1) -> Model:
        return Model(
            sp.csr_array(self.exact + sign * other.exact),
            sp.csr_array(self.size + other.size),
            max(self.roundings, other.roundings) + 1,
            coarser(self.coarsest, other.coarsest),
        )

    def after(self, other: Model) -> Model:
        """That of the product of both."""
        return Model(
            sp.csr_array(self.exact @ other.exact),
            sp.csr_array(self.size @ other.size),
            self.roundings + other.roundings,
            coarser(self.coarsest, other.coarsest),
        )

    def part(self, rows: Any, cols: Any) -> Model:
        return replace(
            self, exact=sp.csr_array(self.exact[rows][:, cols]), size=sp.csr_array(self.size[rows][:, cols])
        )

    def in_type(self, dtype: Any) -> Model:
        """Stored in another type."""
        return replace(
            self, roundings=self.roundings + 1, coarsest=coarser(self.coarsest, np.finfo(dtype).dtype)
        )

    def check_product(self, y: Any, x: Any, alpha: Any = 1.0, beta: Any = 0.0, start: Any = None) -> None:
        """Fail unless `y` is ``alpha * A @ x + beta * start`` up to rounding."""
        assert y.shape == (self.shape[0], *x.shape[1:]), f"a result of shape {y.shape}"
        if x.ndim == 2:
            for column in range(x.shape[1]):
                before = None if start is None else start[:, column]
                self.check_product(y[:, column], x[:, column], alpha, beta, before)
            return
        expected, _ = reference(self.exact, x, alpha, beta, start, self.coarsest)
        sizes = None if start is None else np.abs(start)
        _, bound = reference(self.size, np.abs(x), abs(alpha), abs(beta), sizes, self.coarsest)
        assert_within(y, expected, 2 * self.roundings * bound)

    def check_entries(self, found: sp.csr_array) -> None:
        """Fail unless these are the entries of the matrix, as far as it is known."""
        assert found.shape == self.shape
        error = abs(sp.csr_array(extended(found) - self.exact))
        allowed = 4 * self.roundings * np.finfo(self.coarsest).eps * self.size
        assert (error > allowed).nnz == 0, f"entries are wrong by up to {error.max():.3g}"


def coarser(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    """The type of the two that holds less."""
    return min(a, b, key=lambda dtype: dtype.itemsize)
