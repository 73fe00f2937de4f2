"""`SparseOperator`: a sparse matrix on a device, as a SciPy linear operator."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from . import _core, describe, operands, parts
from ._locks import ForkSafeLock
from ._types import ArrayT, T
from .algebra import MatrixMethods, multiply_sparse, multiply_sparse_from_left
from .arguments import whole_number
from .arrays import Located, library_of
from .canonical import canonical_csr
from .choose import Tuning
from .compressed import transpose
from .devices import CPU, at_most, device_name, resolve_device
from .parts import AnyMatrix, build
from .tune import Choice, needs_symmetry

_MOST_REPEATS = 2**31 - 1  # as many as the core counts


class SparseOperator(MatrixMethods):
    """A sparse matrix on one device, made by `aslinearoperator`.

    A `scipy.sparse.linalg.LinearOperator`, so it goes wherever SciPy takes one. NumPy arrays give NumPy
    arrays; arrays on the operator's own GPU give arrays of their own library, without a detour through the
    host.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
        float32 or float64.
    format, device : str
    nnz : int
        Stored entries, explicit zeros included, padding not.
    nbytes : int
        Bytes held on the device: the arrays of the format, its work space, vectors for products with NumPy
        arrays once there was one, and the transposed copy once there is one.
    options : dict
        The format's tunables in force.
    T, H : SparseOperator
        The transpose: a copy, made on first use, in the same format, or as CSR where that refuses the
        transposed matrix. A matrix that is declared symmetric, or that its format knows to be, is its own.
    tuning : Tuning or None
        What finding the format took, where that was done for this very operator.
    setup_seconds : dict
        Seconds spent in "convert" and "transfer" when it was made.
    max_threads : int or None
        The most threads of the CPU that it uses, where that was said.
    """

    def __init__(
        self,
        matrix: AnyMatrix,
        shape: tuple[int, int],
        ordinal: int,
        choice: Choice,
        requested_device: Any,
        symmetric: bool,
        stream: int | None,
        threads: int | None = None,
    ) -> None:
        super().__init__(matrix.dtype, shape)
        self._matrix = matrix
        self._ordinal = ordinal
        self._choice = choice
        self._tuning: Tuning | None = None
        self._requested_device = requested_device
        self._symmetric = symmetric or needs_symmetry(choice.format)
        self._stream = stream
        self._threads = threads
        if threads is not None:
            matrix.max_threads = threads
        self._transposing = ForkSafeLock()
        self._declared_x: Any = None
        self._transposed: SparseOperator | None = None
        self._transpose_of: weakref.ref[SparseOperator] | None = None

    # What it is

    @property
    def format(self) -> str:
        return self._choice.format

    @property
    def device(self) -> str:
        return device_name(self._ordinal)

    @property
    def nnz(self) -> int:
        return self._matrix.nnz

    @property
    def nbytes(self) -> int:
        transposed = self._transposed
        return self._matrix.nbytes + (transposed.nbytes if transposed is not None else 0)

    @property
    def options(self) -> dict[str, Any]:
        return parts.options(self._matrix)

    @property
    def setup_seconds(self) -> dict[str, float]:
        return self._matrix.setup_seconds

    @property
    def max_threads(self) -> int | None:
        return self._threads

    @property
    def tuning(self) -> Tuning | None:
        return self._tuning

    def tocsr(self) -> Any:
        """The matrix as a new `scipy.sparse.csr_array` of the operator's dtype."""
        with at_most(self._threads):
            return parts.to_csr(self._matrix, self.shape)

    def explain(self) -> str:
        """Why this format is in use, and what the others would store.

        Returns
        -------
        str
            Several lines of text.
        """
        return describe.explanation(self, self._choice.reason)

    def __repr__(self) -> str:
        rows, cols = self.shape
        return (
            f"<{rows}x{cols} SparseOperator of {self.dtype}, {self.nnz} stored entries, "
            f"format {self.format!r} on {self.device!r}, {self.nbytes} bytes"
            f"{'' if self._threads is None else f', at most {self._threads} threads'}>"
        )

    def _repr_html_(self) -> str:
        return describe.html_table(self)

    def __reduce__(self) -> tuple[Any, ...]:
        rebuild = (self.tocsr(), self._choice, self._requested_device, self._symmetric, self._threads)
        return _unpickle, rebuild

    # Products

    @overload
    def __matmul__(self, x: npt.NDArray[Any] | Sequence[float]) -> npt.NDArray[Any]: ...
    @overload
    def __matmul__(self, x: ArrayT) -> ArrayT: ...
    @overload
    def __matmul__(self, x: Any) -> Any: ...
    def __matmul__(self, x: Any) -> Any:
        library = library_of(x)
        if library is not None:
            return operands.multiply(self, x, library)
        if np.isscalar(x):
            raise ValueError("Scalar operands are not allowed, use '*' instead")
        return self.dot(x)

    def dot(self, x: Any) -> Any:
        """``A @ x`` for a vector or the columns of a 2-D array; also composes operators, as in SciPy.

        Parameters
        ----------
        x : (n,) or (n, k) array, or sparse matrix of n rows
            NumPy, or on the operator's device; of any real or complex type and any layout. It is converted to
            the operator's type where it lies; a complex one gives two products. A sparse matrix of SciPy's is
            multiplied by SciPy.

        Returns
        -------
        (m,) or (m, k) array
            Of the library of `x` and on its device, of the type that NumPy's promotion gives; a `csr_array`
            for a sparse `x`.

        Raises
        ------
        TypeError
            For an array that is not numeric, or that its library is not known to convert.
        ValueError
            For an array of wrong shape or on another device.
        """
        library = library_of(x)
        if library is not None:
            return operands.multiply(self, x, library)
        if sp.issparse(x):
            return multiply_sparse(self, x)
        if isinstance(x, list | tuple):
            return self.dot(np.asarray(x))
        if isinstance(x, str | bytes):
            raise TypeError(
                f"x={x!r} is not allowed; give an array, a sparse matrix, a number or an operator"
            )
        return super().dot(x)

    def __rmatmul__(self, x: Any) -> Any:
        return multiply_sparse_from_left(x, self) if sp.issparse(x) else super().__rmatmul__(x)

    def matvec(self, x: Any) -> Any:
        """``A @ x`` for a vector of shape (n,) or (n, 1)."""
        return self.dot(operands.check_shape("x", x, 1, self.shape[1]))

    def matmat(self, X: Any) -> Any:
        """``A @ X`` for a 2-D array of shape (n, k)."""
        return self.dot(operands.check_shape("X", X, 2, self.shape[1]))

    def rmatvec(self, x: Any) -> Any:
        """``A.T @ x`` for a vector of shape (m,) or (m, 1); makes the transposed copy on first use."""
        return self.T.matvec(x)

    def rmatmat(self, X: Any) -> Any:
        """``A.T @ X`` for a 2-D array of shape (m, k)."""
        return self.T.matmat(X)

    def spmv(
        self, x: T, out: T | None = None, alpha: float = 1.0, beta: float = 0.0, stream: Any = None
    ) -> T:
        """``alpha * A @ x + beta * out``, without an allocation where `out` is given.

        Parameters
        ----------
        x : (n,) array
            C-contiguous, of the operator's dtype; NumPy, or on the operator's device.
        out : (m,) array, optional
            C-contiguous, of the same library, dtype and device; overwritten and returned. With ``beta=0`` it
            is never read.
        alpha, beta : float
        stream : optional
            CUDA stream for arrays on a GPU, and for them only: integer handle, CuPy or PyTorch stream. The
            call returns once the product is queued there.

        Returns
        -------
        (m,) array
            `out`, or a new array.

        Raises
        ------
        TypeError
            For an array of another dtype, `out` of another library, factors that are no real numbers, and
            `stream` with arrays in host memory.
        ValueError
            For an array of wrong length, layout or device, for `out` that is read-only or overlaps `x`, and
            for ``beta`` without `out`.
        """
        result: T = operands.scaled_product(self, x, out, alpha, beta, stream)
        return result

    def set_x(self, x: Any) -> None:
        """Declare that products with this very array follow, so that it is gathered from only once.

        For format ``"csr_m"``, the one that gathers. The array must not change until `set_x` is called again:
        with the same array after its contents changed, with another one, or with None to end it. Products
        with other arrays are as ever.

        Parameters
        ----------
        x : (n,) array or None
            C-contiguous, of the operator's dtype; NumPy, or on the operator's device. It is kept alive.

        Raises
        ------
        TypeError
            If the operator's format does not gather, and for an array of another dtype.
        ValueError
            For an array of wrong length, layout or device.
        """
        if x is None:
            self._matrix.set_x(0)
        else:
            _, located = operands.vector(self, "x", x, self.shape[1])
            self._matrix.set_x(operands.address(located))
        self._declared_x = x

    def time_products(self, repeats: int = 50) -> float:
        """Time products, to compare formats, options or devices.

        Parameters
        ----------
        repeats : int
            How many products are made, one after the other, all with the same vector.

        Returns
        -------
        float
            Median microseconds of a product: device time on a GPU, wall time on the CPU. Copies of NumPy
            arrays to and from a GPU are not in it.

        Raises
        ------
        TypeError, ValueError
            For what is no number of repeats, of which there must be one at least.
        """
        return self._matrix.time_products(whole_number("repeats", repeats, 1, _MOST_REPEATS))

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Copies of the arrays that the matrix is stored in.

        Returns
        -------
        dict of str to numpy.ndarray
            By the names that the format has for them (``row_offsets``, ``col_indices``, ``values``), in host
            memory.
        """
        return parts.arrays(self._matrix)

    def _check_device(self, name: str, located: Located, home: int | None = None) -> None:
        """On the operator's device, or on the one given, where x lies."""
        if located.ordinal != (self._ordinal if home is None else home):
            other = f"the operator on {self.device!r}" if home is None else f"x on {device_name(home)!r}"
            raise ValueError(f"{name} lies on {device_name(located.ordinal)!r}, {other}; move one of them")

    # What MatrixMethods calls

    def _like(self, csr: Any, device: str | None = None) -> SparseOperator:
        """The operator of a canonical matrix of the same shape and pattern, stored as this one is."""
        ordinal = self._ordinal if device is None else resolve_device(device)
        stream = self._stream if ordinal == self._ordinal else None
        threads = self._threads if ordinal == CPU else None
        with at_most(threads):
            matrix = build(csr, self._choice, ordinal)
        device = self._requested_device if device is None else device
        return SparseOperator(
            matrix, csr.shape, ordinal, self._choice, device, self._symmetric, stream, threads
        )

    def _like_part(self, csr: Any) -> SparseOperator:
        """The operator of a canonical matrix of another shape, in the same format, or as CSR."""
        choice = (
            Choice(self._choice.format, self._choice.options) if not self._choice.parts else Choice("csr")
        )
        return self._build_or_csr(csr, replace(choice, reason="the whole matrix has it"), "a part")

    # What LinearOperator's own algebra calls

    def _matvec(self, x: Any) -> Any:
        return self.dot(np.asarray(x))

    def _matmat(self, X: Any) -> Any:
        return self.dot(np.asarray(X))

    def _adjoint(self) -> SparseOperator:
        return self._transpose()  # real

    def _transpose(self) -> SparseOperator:
        if self._symmetric:
            return self
        if self._transpose_of is not None:
            original = self._transpose_of()
            if original is not None:
                return original
        with self._transposing:
            if self._transposed is None:
                with at_most(self._threads):
                    transposed = self._make_transposed()
                # A weak reference, so that the pair is freed as soon as nobody uses it.
                transposed._transpose_of = weakref.ref(self)
                self._transposed = transposed
        return self._transposed

    def _make_transposed(self) -> SparseOperator:
        csr = transpose(self.tocsr())
        return self._build_or_csr(csr, parts.transposed(self._choice), "the transposed matrix")

    def _build_or_csr(self, csr: Any, choice: Choice, what: str) -> SparseOperator:
        """The operator of a matrix as chosen, or as CSR where the format refuses it."""
        with at_most(self._threads):
            try:
                matrix = build(csr, choice, self._ordinal)
            except _core.FormatError as refused:
                choice = Choice("csr", {}, f"it holds {what}, which {choice.format} refuses: {refused}")
                matrix = build(csr, choice, self._ordinal)
        device = self._requested_device
        return SparseOperator(
            matrix, csr.shape, self._ordinal, choice, device, False, self._stream, self._threads
        )


def _unpickle(csr: Any, choice: Choice, device: str, symmetric: bool, threads: int | None) -> SparseOperator:
    ordinal = resolve_device(device)
    threads = threads if ordinal == CPU else None  # "auto" may be another device here
    with at_most(threads):
        csr = canonical_csr(csr)  # whose arrays may lie in buffers that somebody else writes to
        matrix = build(csr, choice, ordinal)
    return SparseOperator(matrix, csr.shape, ordinal, choice, device, symmetric, None, threads)
