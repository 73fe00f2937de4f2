"""`SparseOperator`: a sparse matrix on a device, as a SciPy linear operator."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from .. import _core
from .._core import AnyMatrix
from .._util.arguments import is_number, whole_number
from .._util.lazy import lazy
from .._util.show import fit
from .._util.types import ArrayT, Device, Devices, HostArray, OperandT
from .._util.value_types import NAMES
from ..arrays import array_and_library, is_sparse, library_of
from ..devices import at_most, device_name
from ..inputs.compressed import storage_dtype, wanted_dtype
from ..inputs.limits import INDEX_LIMIT
from ..planning import parts
from ..planning.symmetry import simplest
from ..planning.tuning import Tuning
from . import algebra, explain, operands
from .composed import Composable, is_operand, plain, refuse_number
from .description import Description, resolved
from .held import Held
from .new_values import NewValues, replaced
from .solve_info import SolveInfo
from .stored import Stored, Variant

if TYPE_CHECKING:
    from typing_extensions import Self

_MOST_REPEATS = 2**31 - 1  # as many as the core counts


class SparseOperator(Composable):
    """A sparse matrix on a device; `aslinearoperator` makes it.

    It is a `scipy.sparse.linalg.LinearOperator`, so SciPy's functions accept it. A product with a NumPy array
    gives a NumPy array. A product with an array on the operator's GPU gives an array of the same library, and
    nothing passes through the host.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
        float32, float64, complex64 or complex128.
    format, device : str
    nnz : int
        Number of stored entries, with explicit zeros and without padding.
    nbytes : int
        Bytes of the matrix on the device: the arrays of the format, and what its products and new values need
        beside them. On a GPU this includes the vectors of products with NumPy arrays, once they exist.
    work_nbytes : int
        Bytes that solvers, and products with `T` and `H`, have left with the operator for the next call:
        vectors, and transposed copies.
    options : dict
        Options of the format.
    T, H : SparseOperator
        The transpose and the conjugate transpose. They are copies in the same format, or in csr if that
        format refuses them, and are made at first use. For a real matrix both are the same. A symmetric
        matrix, declared or found, is its own transpose; a Hermitian one is its own conjugate transpose.
    tuning : spmvgpu.planning.Tuning or None
        How the format was chosen. None over several devices, and for an operator made from another one.
    setup_seconds : dict
        Seconds of "convert" and "transfer" when the operator was made.
    max_threads : int or None
        Largest number of CPU threads, if one was given.
    solve_info : spmvgpu.linalg.SolveInfo or None
        How the last solve of `spmvgpu.linalg` with this operator went.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(sg.gallery.poisson2d(30), format="csr", device="cpu")
    >>> op.shape, op.dtype, op.nnz, op.format, op.device
    ((900, 900), dtype('float64'), 4380, 'csr', 'cpu')
    >>> float((op @ np.ones(900)).sum())
    120.0
    """

    __pandas_priority__ = 5000  # above that of a data frame: pandas would multiply each entry by the operator

    _stored: Stored
    _matrix: AnyMatrix
    _check_device: Callable[..., None]
    # Which class an operator has is known by the module of MultiDeviceOperator, which sets these.
    _of: Callable[[Stored], SparseOperator]
    _unpickled: Callable[[sp.csr_array, Description], SparseOperator]

    if TYPE_CHECKING:  # what LinearOperator has, whose stubs do not know of which class it is here

        @property
        def T(self) -> Self: ...  # noqa: N802
        @property
        def H(self) -> Self: ...  # noqa: N802
        def transpose(self) -> Self: ...
        def adjoint(self) -> Self: ...

    def __init__(self, stored: Stored) -> None:
        super().__init__(stored.dtype, stored.shape)
        self._ordinal, self._stream = stored.ordinal, stored.description.stream
        self.solve_info: SolveInfo | None = None
        self._copies: dict[Variant, Self] = {}  # `T` and `H` as they were asked for
        self._copy_of: tuple[Variant, weakref.ref[Self]] | None = None  # as which, and of which
        self._hold(stored)

    def _hold(self, stored: Stored) -> None:
        """Have this matrix from now on."""
        with stored.lock:
            stored.belongs_to(self)
            # One call of a dict, so that no signal handler finds, or leaves, half of it.
            self.__dict__.update(_stored=stored, _matrix=stored.matrix, _check_device=stored.check_device)

    @lazy
    def _solver_memory(self) -> _core.SolverMemory:
        return _core.SolverMemory(self._ordinal)

    def _snapshot(self) -> Self:
        """An operator that shares the matrix, and keeps the values that it has now."""
        return type(self)(self._stored)

    def _held(self) -> Held:
        """The same for products alone."""
        return Held(self._stored)

    # What it is

    @property
    def format(self) -> str:
        return self._stored.description.choice.format

    @property
    def device(self) -> str:
        return cast(str, self._stored.device)

    @property
    def nnz(self) -> int:
        return self._matrix.nnz

    @property
    def nbytes(self) -> int:
        return self._matrix.nbytes

    @property
    def work_nbytes(self) -> int:
        operators: list[SparseOperator] = [self, *self._copies.values()]
        return self._stored.nbytes_of_copies + sum(op._solver_memory.nbytes for op in operators)

    @property
    def options(self) -> dict[str, Any]:
        return parts.options(self._matrix)

    @property
    def setup_seconds(self) -> dict[str, float]:
        return self._matrix.setup_seconds

    @property
    def max_threads(self) -> int | None:
        return self._stored.description.threads

    @property
    def tuning(self) -> Tuning | None:
        return self._stored.tuning

    def explain(self) -> str:
        """Explain why the operator has its format, and compare the others with it.

        Returns
        -------
        str
            Several lines of text, to be printed.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> print(op.explain().splitlines()[0])
        <2x2 SparseOperator of float64, 3 stored entries, format 'csr' on 'cpu', 48 bytes>
        """
        return explain.explanation(self._stored, self.nbytes)

    def __repr__(self) -> str:
        return fit(explain.summary(self._stored, self.nbytes))

    def _repr_html_(self) -> str:
        return explain.html(self._stored, self.nbytes)

    def __reduce__(self) -> tuple[object, ...]:
        return SparseOperator._unpickled, (self.tocsr(), self._stored.description)

    # Products

    @overload
    def __matmul__(self, x: HostArray | Sequence[float]) -> HostArray: ...
    @overload
    def __matmul__(self, x: ArrayT) -> ArrayT: ...
    @overload
    def __matmul__(self, x: object) -> Any: ...
    def __matmul__(self, x: object) -> Any:
        library = library_of(x)
        if library is not None:
            return operands.multiply(self, x, library)
        return super().__matmul__(x)

    def dot(self, x: object) -> Any:
        """Return ``A @ x``.

        Parameters
        ----------
        x : (n,), (n, k) or (..., n, k) array, or sparse matrix with n rows
            A NumPy array, an array of another library on the device of the operator, or a sequence that NumPy
            converts. Any real or complex dtype and any memory layout. SciPy multiplies a SciPy sparse matrix,
            and CuPy multiplies a CuPy sparse matrix. A `LinearOperator` or a number gives an operator, as in
            SciPy.

        Returns
        -------
        (m,), (m, k) or (..., m, k) array
            Of the library and on the device of `x`. Its dtype follows NumPy's promotion rules. A `csr_array`
            for a SciPy sparse matrix, a `csr_matrix` for a CuPy one.

        Raises
        ------
        TypeError
            If `x` is not numeric, or cannot be converted by its library.
        ValueError
            If `x` has a shape that does not fit, or is on another device.

        Notes
        -----
        `x` is converted to the dtype of the operator on its device. A real operator computes two products for
        a complex `x`.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.dot([1.0, 2.0])
        array([6., 6.])
        >>> op @ np.eye(2, dtype=np.complex64)
        array([[4.+0.j, 1.+0.j],
               [0.+0.j, 3.+0.j]])
        """
        library = library_of(x)
        if library is not None:
            return operands.multiply(self, x, library)
        if is_sparse(x):
            return algebra.multiply_sparse(self._stored, x)
        if is_operand(x):
            return super().dot(x)
        return operands.multiply(self, *array_and_library("x", x))

    def __rmatmul__(self, x: object) -> Any:
        refuse_number(x)
        return self._rdot(x)

    def _rdot(self, x: object) -> Any:
        """``x @ A``; what LinearOperator calls for ``x * A``, where `x` is no number."""
        if is_sparse(x):
            return algebra.multiply_sparse(self._stored, x, from_left=True)
        if isinstance(x, LinearOperator):
            return super().__rmul__(x)
        return operands.multiply_from_left(self, *array_and_library("x", x))

    def spmv(
        self,
        x: OperandT,
        out: OperandT | None = None,
        alpha: complex = 1.0,
        beta: complex = 0.0,
        stream: object = None,
    ) -> OperandT:
        """Return ``alpha * A @ x + beta * out``.

        The call allocates nothing if `out` is given.

        Parameters
        ----------
        x : (n,) or (n, k) array
            Of the dtype of the operator. A NumPy array, or an array of another library on the device of the
            operator. A vector must be contiguous. A 2-D array may have any memory layout.
        out : (m,) or (m, k) array, optional
            Of the library, dtype and device of `x`. A vector must be contiguous. It is overwritten and
            returned. With ``beta=0`` it is not read.
        alpha, beta : float or complex
            Complex only if the operator is.
        stream : int, CuPy stream or PyTorch stream, optional
            CUDA stream, for arrays on a GPU. The call returns when the product is queued there.

        Returns
        -------
        (m,) or (m, k) array
            `out`, or a new array with the memory order of `x`.

        Raises
        ------
        TypeError
            If `x` has another dtype, `out` is of another library, `alpha` or `beta` is not a number or is
            complex for a real operator, or `stream` is given for arrays in host memory.
        ValueError
            If an array has a shape, a layout or a device that does not fit, if `out` is read-only or overlaps
            `x`, or if `beta` is given without `out`.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> x, y = np.ones(2), np.array([10.0, 20.0])
        >>> op.spmv(x, out=y, alpha=2.0, beta=1.0)
        array([20., 26.])
        >>> y
        array([20., 26.])
        """
        return operands.scaled_product(self, x, out, alpha, beta, stream)

    def set_x(self, x: object) -> None:
        """Gather from an array once for all products with it that follow.

        This is for format "csr_m" (Yin 2012, CSR-M), which stores the gathered entries of x. Do not change
        the array until the next call: with the same array after a change, with another array, or with None.
        Products with other arrays are not affected.

        Parameters
        ----------
        x : (n,) array or None
            C-contiguous and of the dtype of the operator. A NumPy array, or an array of another library on
            the device of the operator. The operator keeps a reference to it.

        Raises
        ------
        TypeError
            If the format is not "csr_m", or `x` has another dtype.
        ValueError
            If `x` has a length, a layout or a device that does not fit.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> A = np.array([[4.0, 1.0], [0.0, 3.0]])
        >>> op = sg.aslinearoperator(A, format="csr_m", device="cpu")
        >>> x = np.ones(2)
        >>> op.set_x(x)
        >>> op @ x, op @ x
        (array([5., 3.]), array([5., 3.]))
        >>> op.set_x(None)
        """
        located = None if x is None else operands.operand(self, "x", x, self.shape[1])[1]
        self._matrix.set_x(0)  # first, so that no array is declared that may be freed
        self._stored.declared_x = x
        if located is not None:
            self._matrix.set_x(operands.address(located))

    def time_products(self, repeats: int = 50) -> float:
        """Time products, to compare formats, options or devices.

        Parameters
        ----------
        repeats : int, default 50
            Number of products, one after the other, with the same vector.

        Returns
        -------
        float
            Median microseconds of a product: device time on a GPU, wall time on the CPU. The copies of NumPy
            arrays to and from a GPU do not count.

        Raises
        ------
        TypeError, ValueError
            If `repeats` is not a whole number, or is less than 1.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.time_products(10) > 0
        True
        """
        return self._matrix.time_products(whole_number("repeats", repeats, 1, _MOST_REPEATS))

    # Its entries

    def tocsr(self) -> sp.csr_array:
        """Return the matrix as a new `scipy.sparse.csr_array` of the operator's dtype.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.tocsr().indices
        array([0, 1, 1], dtype=int32)
        """
        return self._stored.to_csr()

    def toarray(self) -> HostArray:
        """Return the matrix as a dense array in host memory.

        Returns
        -------
        (m, n) numpy.ndarray

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.toarray()
        array([[4., 1.],
               [0., 3.]])
        """
        dense: HostArray = self.tocsr().toarray()
        return dense

    def diagonal(self, k: int = 0) -> HostArray:
        """Return a diagonal of the matrix.

        Parameters
        ----------
        k : int, default 0
            Which diagonal. ``k > 0`` is above the main diagonal.

        Returns
        -------
        numpy.ndarray
            In host memory.

        Raises
        ------
        TypeError, ValueError
            If `k` is not an integer, or out of range.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.diagonal(), op.diagonal(1)
        (array([4., 3.]), array([1.]))
        """
        shift = whole_number("k", k, -INDEX_LIMIT, INDEX_LIMIT)
        with at_most(self.max_threads):
            return self._stored.canonical_there().diagonal(shift)

    def trace(self, offset: int = 0) -> Any:
        """Return the sum of the entries of a diagonal.

        Parameters
        ----------
        offset : int, default 0
            Which diagonal, as `k` of `diagonal`.

        Returns
        -------
        scalar

        Raises
        ------
        TypeError, ValueError
            If `offset` is not an integer, or out of range.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> float(op.trace())
        7.0
        """
        return self.tocsr().trace(whole_number("offset", offset, -INDEX_LIMIT, INDEX_LIMIT))

    def sum(self, axis: int | None = None) -> Any:
        """Sum the entries of the matrix, of each column or of each row.

        Parameters
        ----------
        axis : {None, 0, 1, -1, -2}, optional
            None: all entries. 0: the sum of each column. 1: the sum of each row.

        Returns
        -------
        scalar or numpy.ndarray

        Raises
        ------
        TypeError, ValueError
            If `axis` is not one of these.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.sum(axis=0)
        array([4., 4.])
        """
        return self.tocsr().sum(None if axis is None else whole_number("axis", axis, -2, 1))

    def arrays(self) -> dict[str, HostArray]:
        """Copy the arrays of the stored matrix to the host.

        Returns
        -------
        dict of str to numpy.ndarray
            The arrays by name, as in ``row_offsets``, ``col_indices`` and ``values`` of csr.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.arrays()["row_offsets"], op.arrays()["col_indices"]
        (array([0, 2, 3], dtype=int32), array([0, 1, 1], dtype=int32))
        """
        return parts.arrays(self._matrix)

    def update_values(self, data: object) -> None:
        """Replace the values of the stored entries, as in Newton's method and time stepping.

        The sparsity pattern, the format and its options stay. The operator does not choose or time formats
        again.

        Parameters
        ----------
        data : sparse matrix, SparseOperator, dense matrix, or (nnz,) array
            A matrix with the same sparsity pattern, in any form that `aslinearoperator` takes, such as CSR,
            CSC and COO. Entries may be missing, and become zero; none may be added. Or an array of values in
            CSR order, which is the order of ``op.tocsr().data``: row by row, columns ascending, no
            duplicates. The values of a CSC matrix are in another order, which an array does not tell: give
            the matrix. An array is in host memory, or on the device of the operator. The dtype must convert
            to the dtype of the operator without loss.

        Raises
        ------
        TypeError
            If `data` is neither a matrix nor an array, or if its values would be rounded.
        ValueError
            If `data` has an entry where the operator has none, has another shape, or is an array on another
            device. If the operator was made with ``symmetric="hermitian"`` and the new matrix is not
            Hermitian, or if it was made of a symmetric matrix and `data` has only a part of the entries and
            is not symmetric. Symmetry is not checked otherwise.
        FormatError
            If the requested format cannot hold the new values: a symmetric format holds symmetric values
            only, and "stencil" holds repeated rows only. If ``format="auto"`` chose the format, another one
            is chosen instead.
        MemoryError, CudaError
            If the device has no memory left, or fails. After any error except `CudaError`, the operator has
            the old values.

        Notes
        -----
        Everything made from the operator keeps its values: copies, slices, multiples, sums, products, powers,
        preconditioners, `T`, `H` and gradients that are still to be computed. `T` and `H` are rebuilt when
        they are used next. Sums, products, powers and `linalg.chebyshev` share memory with the operator.
        While one of them exists, an update allocates new arrays.

        A `LinearOperator` of another library, such as ``other @ op``, refers to the operator and follows its
        updates. Use ``op.copy()`` to keep the values.

        "csr", "csr_b", "csr_m" and "coo" store values in the given order. Every other format computes the
        positions of the values in the first update and keeps them. `nbytes` includes this memory: 4 bytes per
        row, 8 in "hyb", 8 per 32 diagonals in "dia" and "sdia", 4 more per 32 blocks in "bsell", and 8 per
        stored value in "tsmv". A reordered matrix needs 4 more bytes per stored value.

        "packed_sell", matrices in several parts and operators on several devices are rebuilt in each update.
        "packed_sell" keeps the sparsity pattern for this: 4 bytes per entry and 4 per row. After such an
        update, and after one that allocates new arrays, capture CUDA graphs again that contain products.

        A matrix takes longer than an array of values: the stored matrix is converted to CSR, to find where
        the values belong. A `SparseOperator` and a CSR matrix on the device of the operator stay there.

        An update waits for products that are queued. Do not run it at the same time as a product, a solve or
        another update of the operator in another thread, nor while a product with device arrays is being
        captured in a CUDA stream.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.update_values(np.array([8.0, 2.0, 6.0]))
        >>> op @ np.ones(2)
        array([10.,  6.])
        >>> op.update_values(op.tocsr().tocsc() / 2)  # a matrix, in any form
        >>> op @ np.ones(2)
        array([5., 3.])
        """
        self._take(NewValues(self._stored, data))

    def _take(self, values: NewValues) -> None:
        """Have these values from now on."""
        with self._stored.lock, at_most(self.max_threads):
            self._become(replaced(self._stored, values, self))

    def _become(self, stored: Stored) -> None:
        """Have this matrix from now on, which may be the same with other values."""
        if stored is not self._stored:
            self._hold(stored)
        self._copies.clear()

    # Other operators that are made of it

    def astype(self, dtype: object, copy: bool = True) -> Self:
        """Return the operator with its values in another dtype.

        Parameters
        ----------
        dtype : {float32, float64, complex64, complex128}
        copy : bool, default True
            With False, return the operator itself if it has this dtype.

        Returns
        -------
        SparseOperator

        Raises
        ------
        TypeError
            If `dtype` is not one of these, or is real and the operator is complex.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.astype(np.float32).dtype
        dtype('float32')
        """
        wanted = wanted_dtype(dtype)
        if wanted is None:
            raise TypeError(f"dtype=None is not a dtype; allowed are {NAMES}")
        if wanted == self.dtype and not copy:
            return self
        return type(self)(algebra.retyped(self._stored, storage_dtype(self.dtype, wanted)))

    def conj(self) -> Self:
        """Return the complex conjugate of the operator.

        Returns
        -------
        SparseOperator
            The operator itself if it is real.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0j], [0.0, 3.0]]), device="cpu")
        >>> bool((op.conj().toarray() == op.toarray().conj()).all())
        True
        """
        return self._multiple(np.conjugate) if self.dtype.kind == "c" else self

    def copy(self) -> Self:
        """Return a copy that shares no memory with the operator.

        Returns
        -------
        SparseOperator

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.copy() is op
        False
        """
        return self._multiple(lambda values: values)

    def to(self, device: Device | Devices) -> SparseOperator:
        """Return the operator on another device, in the same format.

        ``aslinearoperator(op, device=device)`` chooses the format again, for that device.

        Parameters
        ----------
        device : str or list of str
            As `aslinearoperator` takes it. For a list, the format is chosen for each device.

        Returns
        -------
        SparseOperator
            The operator itself if it is on this device already.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.to("cpu") is op
        True
        >>> op.to(["cpu", "cpu"]).device
        ('cpu', 'cpu')
        """
        there = self._stored.device
        names = tuple(device) if isinstance(device, list | tuple) else device_name(*resolved(device))
        return self if names == there else SparseOperator._of(algebra.moved(self._stored, device))

    def __getitem__(self, key: object) -> Self:
        """Select rows and columns: ``op[10:20]``, ``op[rows]`` or ``op[:, 5:]``.

        Parameters
        ----------
        key : slice, 1-D array of int or bool, or a tuple of these for rows and columns
            At least one of rows and columns must be a slice.

        Returns
        -------
        SparseOperator
            In the format of the operator, or in "csr" if that format cannot hold the submatrix.

        Raises
        ------
        TypeError
            If `key` selects a single row, column or entry.
        IndexError
            If an index is out of range, or there are more than two.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op[1:].toarray()
        array([[0., 3.]])
        >>> op[:, [1, 0]].toarray()
        array([[1., 4.],
               [3., 0.]])
        """
        return type(self)(algebra.submatrix(self._stored, key))

    def __neg__(self) -> Self:
        return self._multiple(np.negative)

    def __add__(self, other: object) -> Any:
        return super().__add__(other) if isinstance(other, LinearOperator) else self._sum(other, 1, 1)

    def __radd__(self, other: object) -> Self:
        return self._sum(other, 1, 1)

    def __sub__(self, other: object) -> Any:
        return super().__sub__(other) if isinstance(other, LinearOperator) else self._sum(other, 1, -1)

    def __rsub__(self, other: object) -> Self:
        return self._sum(other, -1, 1)

    def _sum(self, other: object, sign: int, other_sign: int) -> Self:
        if is_number(other) and not other:  # what `sum` begins with
            return self if sign == 1 else -self
        stored = algebra.summed(self._stored, other, sign, other_sign)
        return NotImplemented if stored is None else type(self)(stored)

    @overload
    def __mul__(self, other: float) -> Self: ...
    @overload
    def __mul__(self, other: object) -> Any: ...
    def __mul__(self, other: object) -> Any:
        factor = plain(other)
        if algebra.is_factor(factor, self.dtype):
            return self._multiple(lambda values: values * factor, factor)
        return super().__mul__(factor)

    @overload
    def __rmul__(self, other: float) -> Self: ...
    @overload
    def __rmul__(self, other: object) -> Any: ...
    def __rmul__(self, other: object) -> Any:
        factor = plain(other)
        return self * factor if is_number(factor) else self._rdot(other)

    @overload
    def __truediv__(self, other: float) -> Self: ...
    @overload
    def __truediv__(self, other: object) -> Any: ...
    def __truediv__(self, other: object) -> Any:
        divisor = plain(other)
        if algebra.is_factor(divisor, self.dtype):
            return self._multiple(lambda values: values / divisor, divisor)
        return super().__truediv__(divisor)

    def _multiple(self, function: Callable[[HostArray], HostArray], factor: complex = 1) -> Self:
        return type(self)(algebra.multiple(self._stored, function, factor))

    def _adjoint(self) -> Self:
        return self._variant(True, True)

    def _transpose(self) -> Self:
        return self._variant(True, False)

    def _variant(self, transposed: bool, conjugated: bool) -> Self:
        """The operator transposed, conjugated or both: itself, or the one of which this is that."""
        own = self._stored
        which = simplest(own.symmetry, self.dtype, transposed, conjugated)
        if which == (False, False):
            return self
        there = self._copies.get(which)
        if there is not None and there._stored is own.copies.get(which):
            return there  # without a lock: as a rule it was asked for before
        stored = own.variant(which, lambda: algebra.variant(own, which))
        with own.lock:
            others = [self._copies.get(which)]
            if self._copy_of is not None and self._copy_of[0] == which:
                others.append(self._copy_of[1]())
            for other in others:
                if other is not None and other._stored is stored:
                    return other
            made = type(self)(stored)
            # A weak reference, so that the pair is freed as soon as nobody uses it.
            made._copy_of = which, weakref.ref(self)
            self._copies[which] = made
            return made
