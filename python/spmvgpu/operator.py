"""`SparseOperator`: a sparse matrix on a device, as a SciPy linear operator."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from . import _core, describe, parts
from ._locks import ForkSafeLock
from .arrays import Library, Located, check_operand, library_of, stream_handle
from .choose import Tuning
from .devices import CPU, device_name, resolve_device
from .parts import AnyMatrix, build
from .tune import Choice, needs_symmetry


class SparseOperator(LinearOperator):  # type: ignore[misc]
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
    ) -> None:
        super().__init__(matrix.dtype, shape)
        self._matrix = matrix
        self._ordinal = ordinal
        self._choice = choice
        self._tuning: Tuning | None = None
        self._requested_device = requested_device
        self._symmetric = symmetric or needs_symmetry(choice.format)
        self._stream = stream
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
    def tuning(self) -> Tuning | None:
        return self._tuning

    def tocsr(self) -> Any:
        """The matrix as a new `scipy.sparse.csr_array` of the operator's dtype."""
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
            f"format {self.format!r} on {self.device!r}, {self.nbytes} bytes>"
        )

    def _repr_html_(self) -> str:
        return describe.html_table(self)

    def __reduce__(self) -> tuple[Any, ...]:
        rebuild = (self.tocsr(), self._choice, self._requested_device, self._symmetric)
        return _unpickle, rebuild

    # Products

    def __matmul__(self, x: Any) -> Any:
        if isinstance(x, np.ndarray):
            return self._multiply_numpy(x)
        library = library_of(x)
        if library is not None:
            return self._multiply_array(x, library)
        if np.isscalar(x):
            raise ValueError("Scalar operands are not allowed, use '*' instead")
        return self.dot(x)

    def dot(self, x: Any) -> Any:
        """``A @ x`` for a vector or the columns of a 2-D array; also composes operators, as in SciPy."""
        if isinstance(x, np.ndarray) or library_of(x) is not None:
            return self @ x
        if sp.issparse(x):
            raise TypeError(
                "a product with a sparse matrix is not supported; use A.tocsr() @ x, or x.toarray()"
            )
        if isinstance(x, list | tuple):
            return self._multiply_numpy(np.asarray(x))
        return super().dot(x)

    def matvec(self, x: Any) -> Any:
        """``A @ x`` for a vector of shape (n,) or (n, 1)."""
        return self.dot(check_operand(x, 1, self.shape[1]))

    def matmat(self, X: Any) -> Any:
        """``A @ X`` for a 2-D array of shape (n, k)."""
        return self.dot(check_operand(X, 2, self.shape[1]))

    def rmatvec(self, x: Any) -> Any:
        """``A.T @ x`` for a vector of shape (m,) or (m, 1); makes the transposed copy on first use."""
        return self.T.matvec(x)

    def rmatmat(self, X: Any) -> Any:
        """``A.T @ X`` for a 2-D array of shape (m, k)."""
        return self.T.matmat(X)

    def spmv(self, x: Any, out: Any = None, alpha: float = 1.0, beta: float = 0.0, stream: Any = None) -> Any:
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
            CUDA stream for device arrays: integer handle, CuPy or PyTorch stream. The call returns once the
            product is queued there.

        Returns
        -------
        (m,) array
            `out`, or a new array.

        Raises
        ------
        TypeError
            For an array of another dtype.
        ValueError
            For an array of wrong length, layout or device, for `out` that is read-only or overlaps `x`, and
            for ``beta`` without `out`.
        """
        if out is None and beta != 0:
            raise ValueError(f"beta={beta} needs out=, the array to scale and add to")
        if not isinstance(x, np.ndarray):
            library = library_of(x)
            if library is None:
                raise TypeError(f"x must be a NumPy array or a device array, not {type(x).__name__}")
            return self._spmv_array(x, library, library.inspect(x), out, alpha, beta, stream)
        self._check_vector(
            "x", Located(0, x.shape, x.dtype, self._ordinal, x.flags.c_contiguous), self.shape[1]
        )
        if out is not None:
            if not isinstance(out, np.ndarray):
                raise TypeError(f"out must be a NumPy array like x, not {type(out).__name__}")
            target = Located(
                0, out.shape, out.dtype, self._ordinal, out.flags.c_contiguous, out.flags.writeable
            )
            self._check_vector("out", target, self.shape[0])
            if np.may_share_memory(x, out):
                raise ValueError("out overlaps x; give an array of its own")
        result = self._matrix.multiply_numpy(x, out, alpha, beta)
        return result if out is None else out

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
        elif isinstance(x, np.ndarray):
            located = Located(x.ctypes.data, x.shape, x.dtype, self._ordinal, x.flags.c_contiguous)
            self._check_vector("x", located, self.shape[1])
            self._matrix.set_x(located.pointer)
        else:
            library = library_of(x)
            if library is None:
                raise TypeError(f"x must be a NumPy array or a device array, not {type(x).__name__}")
            located = library.inspect(x)
            self._check_device("x", located)
            self._check_vector("x", located, self.shape[1])
            self._matrix.set_x(located.pointer)
        self._declared_x = x

    def _time_products(self, repeats: int = 50) -> float:
        """Median microseconds of one product in a series: device time on a GPU, wall time on the CPU."""
        return self._matrix.time_products(repeats)

    def _arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Copies of the stored arrays, by the names that the format's header gives them."""
        return parts.arrays(self._matrix)

    def _multiply_numpy(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if x.ndim not in (1, 2) or x.shape[0] != self.shape[1]:
            raise self._dimension_mismatch(x.shape)
        if x.dtype.kind == "c":
            result: np.ndarray[Any, Any] = self._multiply_numpy(x.real) + 1j * self._multiply_numpy(x.imag)
            return result
        if x.dtype.kind not in "biuf":
            raise TypeError(
                f"x has dtype {x.dtype}, which is not numeric; allowed are real and complex numbers"
            )
        if x.ndim == 1:
            y = self._matrix.multiply_numpy(np.ascontiguousarray(x, self.dtype))
        else:
            columns = np.ascontiguousarray(x.T, self.dtype)
            y = np.empty((x.shape[1], self.shape[0]), self.dtype)
            for column, result_column in zip(columns, y, strict=True):
                self._matrix.multiply_numpy(column, result_column)
            y = y.T
        if x.dtype == self.dtype:
            return y
        return y.astype(np.result_type(self.dtype, x.dtype), copy=False)

    def _multiply_array(self, x: Any, library: Library) -> Any:
        located = library.inspect(x)
        if len(located.shape) == 1:
            if not located.contiguous:
                x = library.transposed(x)
                located = library.inspect(x)
            return self._spmv_array(x, library, located, None, 1.0, 0.0, None)
        if len(located.shape) != 2 or located.shape[0] != self.shape[1]:
            raise self._dimension_mismatch(located.shape)
        columns = library.transposed(x)
        located = library.inspect(columns)
        self._check_device("x", located)
        result, pointer = library.empty((located.shape[0], self.shape[0]), columns, located)
        stream = self._stream_for(library, located, None)
        item = self.dtype.itemsize
        for i in range(located.shape[0]):
            self._matrix.multiply_pointers(
                located.pointer + i * self.shape[1] * item,
                pointer + i * self.shape[0] * item,
                1.0,
                0.0,
                stream,
            )
        return library.deliver(result, x, stream).T

    def _spmv_array(
        self, x: Any, library: Library, located: Located, out: Any, alpha: float, beta: float, stream: Any
    ) -> Any:
        self._check_device("x", located)
        self._check_vector("x", located, self.shape[1])
        handle = self._stream_for(library, located, stream)
        if out is None:
            result, pointer = library.empty(self.shape[0], x, located)
            self._matrix.multiply_pointers(located.pointer, pointer, alpha, beta, handle)
            return library.deliver(result, x, handle)
        out_library = library_of(out)
        if out_library is None or isinstance(out, np.ndarray):
            raise TypeError(f"out must be an array on the same device as x, not {type(out).__name__}")
        target = out_library.inspect(out)
        self._check_device("out", target, located.ordinal)
        self._check_vector("out", target, self.shape[0])
        x_end = located.pointer + self.dtype.itemsize * self.shape[1]
        out_end = target.pointer + self.dtype.itemsize * self.shape[0]
        if located.pointer < out_end and target.pointer < x_end:
            raise ValueError("out overlaps x; give an array of its own")
        self._matrix.multiply_pointers(located.pointer, target.pointer, alpha, beta, handle)
        return out

    def _stream_for(self, library: Library, located: Located, stream: Any) -> int:
        if located.ordinal == CPU:
            return 0
        if stream is not None:
            return stream_handle(stream)
        return library.stream(located) if self._stream is None else self._stream

    def _dimension_mismatch(self, shape: tuple[int, ...]) -> ValueError:
        return ValueError(
            f"dimension mismatch: an operator of shape {self.shape} cannot multiply an array of shape {shape}"
        )

    def _check_device(self, name: str, located: Located, home: int | None = None) -> None:
        """On the operator's device, or on the one given, where x lies."""
        if located.ordinal != (self._ordinal if home is None else home):
            other = f"the operator on {self.device!r}" if home is None else f"x on {device_name(home)!r}"
            raise ValueError(f"{name} lies on {device_name(located.ordinal)!r}, {other}; move one of them")

    def _check_vector(self, name: str, located: Located, length: int) -> None:
        if located.dtype is not self.dtype and located.dtype != self.dtype:
            raise TypeError(f"{name} has dtype {located.dtype}; the operator needs {self.dtype}")
        if located.shape != (length,):
            raise ValueError(
                f"{name} has shape {located.shape}; an operator of shape {self.shape} needs ({length},)"
            )
        if not located.contiguous:
            raise ValueError(f"{name} is not contiguous; give a C-contiguous array")
        if name == "out" and not located.writable:
            raise ValueError("out is read-only; give an array that may be written")

    # What LinearOperator's own algebra calls

    def _matvec(self, x: Any) -> Any:
        return self._multiply_numpy(np.asarray(x))

    def _matmat(self, X: Any) -> Any:
        return self._multiply_numpy(np.asarray(X))

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
                transposed = self._make_transposed()
                # A weak reference, so that the pair is freed as soon as nobody uses it.
                transposed._transpose_of = weakref.ref(self)
                self._transposed = transposed
        return self._transposed

    def _make_transposed(self) -> SparseOperator:
        csr = parts.transpose(self.tocsr())
        matrix, choice = self._build_transposed(csr)
        return SparseOperator(
            matrix, csr.shape, self._ordinal, choice, self._requested_device, False, self._stream
        )

    def _build_transposed(self, csr: Any) -> tuple[AnyMatrix, Choice]:
        """The transposed matrix in the operator's own format, or as CSR where that refuses it."""
        choice = parts.transposed(self._choice)
        try:
            return build(csr, choice, self._ordinal), choice
        except _core.FormatError as refused:
            choice = Choice(
                "csr", {}, f"it holds the transposed matrix, which {self.format} refuses: {refused}"
            )
            return build(csr, choice, self._ordinal), choice


def _unpickle(csr: Any, choice: Choice, device: str, symmetric: bool) -> SparseOperator:
    ordinal = resolve_device(device)
    return SparseOperator(build(csr, choice, ordinal), csr.shape, ordinal, choice, device, symmetric, None)
