"""`SparseOperator`: a sparse matrix on a device, as a SciPy linear operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import scipy.sparse as sp

from .. import _core
from .._core import AnyMatrix
from .._util.arguments import whole_number
from .._util.lazy import lazy
from .._util.plugins import Plugins
from .._util.show import fit
from .._util.types import Device, Devices, Format, OperandT
from ..devices import at_most, device_name
from ..planning import parts
from ..planning.symmetry import simplest
from ..planning.tuning import Tuning
from . import algebra, csr_m, explain, operands
from .build import build, restored
from .description import Description, resolved
from .entries import StoredEntries
from .new_values import NewValues, replaced
from .stored import StoredMatrix

if TYPE_CHECKING:
    from typing_extensions import Self

    from .solve_info import SolveInfo

_MOST_REPEATS = 2**31 - 1  # as many as the core counts

# The classes of operators that this module does not import.
_KINDS: Mapping[str, type[SparseOperator]] = Plugins("operator")


class SparseOperator(algebra.MatrixAlgebra, StoredEntries):
    """A sparse matrix on a device; `aslinearoperator` makes it.

    It is a `scipy.sparse.linalg.LinearOperator`, so SciPy's functions accept it. A product with a NumPy array
    gives a NumPy array. A product with an array on the operator's GPU gives an array of the same library, and
    nothing passes through the host.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
        float32, float64, complex64 or complex128.
    format : str
    device : str or tuple of str
        A tuple for a `MultiDeviceOperator`.
    nnz : int
        Number of stored entries, with explicit zeros and without padding.
    nbytes : int
        Bytes of the matrix on the device: the arrays of the format, and what its products and new values need
        beside them. On a GPU this includes the vectors of products with NumPy arrays, once they exist.
    work_nbytes : int
        Bytes that solvers, and products with `T` and `H`, have left with the operator for the next call:
        vectors, and transposed copies.
    memory : dict
        The same bytes by what they are: "matrix", which is `nbytes`, "transposes" and "vectors".
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

    _matrix: AnyMatrix
    _check_device: Callable[..., None]
    _is_snapshot = False  # whether it is kept by what was made of an operator, and no caller has it
    _product = operands.multiply
    set_x = csr_m.set_x

    def __init__(self, stored: StoredMatrix) -> None:
        super().__init__(stored.dtype, stored.shape)
        self._ordinal, self._stream = stored.ordinal, stored.description.stream
        # Any, so that a program need not ask for None after a solve.
        self.solve_info: SolveInfo | Any = None
        self._become(stored)

    def _become(self, stored: StoredMatrix) -> None:
        """Have this matrix from now on."""
        with stored.lock:
            stored.belongs_to(self)
            # One call of a dict, so that no signal handler finds, or leaves, half of it.
            self.__dict__.update(_stored=stored, _matrix=stored.matrix, _check_device=stored.check_device)

    @lazy
    def _solver_memory(self) -> _core.SolverMemory:
        return _core.SolverMemory(self._ordinal)

    def _snapshot(self) -> Self:
        """An operator that shares the matrix, and keeps the values that it has now.

        It is made in less time than a small product takes, without LinearOperator's checks.
        """
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, solve_info=None, _is_snapshot=True)
        made.__dict__.pop("_solver_memory", None)
        with made._stored.lock:
            made._stored.belongs_to(made)
        return made

    @property
    def format(self) -> Format | Any:
        return self._stored.description.choice.format

    @property
    def device(self) -> str | tuple[str, ...]:
        return self._stored.device

    @property
    def nnz(self) -> int:
        return self._matrix.nnz

    @property
    def nbytes(self) -> int:
        return self._matrix.nbytes

    @property
    def work_nbytes(self) -> int:
        return sum(self.memory.values()) - self.nbytes

    @property
    def memory(self) -> dict[str, int]:
        transposes, vectors = self._stored.memory_of_variants()
        vectors += self._solver_memory.nbytes
        return {"matrix": self.nbytes, "transposes": transposes, "vectors": vectors}

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
        return _restored_operator, (self.tocsr(), self._stored.description)

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
        with at_most(self.max_threads):
            self._update(NewValues(self._stored, data))

    def _update(self, values: NewValues) -> None:
        """Have these values from now on."""
        with self._stored.lock, at_most(self.max_threads):
            stored = replaced(self._stored, values, self)
            if stored is not self._stored:
                self._become(stored)

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
        own = self._stored
        names = tuple(device) if isinstance(device, list | tuple) else device_name(*resolved(device))
        if names == own.device:
            return self
        there = own.description.on(device)
        stays = not there.is_divided and not own.description.is_divided
        csr = own.canonical_there() if there.ordinals == own.ordinals else own.canonical()
        return operator_of(build(csr, there if stays else there.unchosen()))

    def _adjoint(self) -> Self:
        return self._variant(True, True)

    def _transpose(self) -> Self:
        return self._variant(True, False)

    def _variant(self, transposed: bool, conjugated: bool) -> Self:
        """The operator transposed, conjugated or both, which may be itself."""
        which = simplest(self._stored.symmetry, self.dtype, transposed, conjugated)
        if which == (False, False):
            return self
        made = self._stored.variant(which, type(self), algebra.variant)
        return made._snapshot() if self._is_snapshot else made


def operator_of(stored: StoredMatrix) -> SparseOperator:
    """The operator of a stored matrix, on one device or on several."""
    kind = _KINDS["divided"] if stored.description.is_divided else SparseOperator
    return kind(stored)


def _restored_operator(csr: sp.csr_array, description: Description) -> SparseOperator:
    """What pickle and copy call."""
    return operator_of(restored(csr, description))
