"""`SparseOperator`: a sparse matrix on a device, as a SciPy linear operator."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from .. import _core
from .._util.arguments import whole_number
from .._util.show import fit
from .._util.value_types import AnyMatrix
from ..arrays import Located
from ..devices import at_most, device_name, resolve_device
from ..formats import Choice
from ..inputs.compressed import transpose
from ..inputs.source import transpose_for
from ..planning import parts
from ..planning.symmetry import Symmetry, simplest
from ..planning.tuning import Tuning
from . import describe
from .algebra import MatrixMethods
from .products import ProductMethods
from .stored import Stored, Variant
from .updating import UpdateMethods

if TYPE_CHECKING:
    from typing_extensions import Self

    from ..linalg.stopping import SolveInfo

_MOST_REPEATS = 2**31 - 1  # as many as the core counts


class Origin(Protocol):
    """How an operator was asked for, on one device or several: it makes others like it.

    Attributes
    ----------
    choice : Choice
        Format, options, and why.
    ordinal : int
        The device that vectors of solvers are staged on.
    symmetric : Symmetry or None
        What was said of the matrix, or follows from what was said of the one that it was made of.
    stream : int or None
        That products with device arrays run on, where one was given.
    tuning : Tuning or None
        What finding the format took.
    threads : int or None
        The most threads of the CPU that the operator uses, where that was said.
    """

    @property
    def choice(self) -> Choice: ...
    @property
    def ordinal(self) -> int: ...
    @property
    def symmetric(self) -> Symmetry | None: ...
    @property
    def stream(self) -> int | None: ...
    @property
    def tuning(self) -> Tuning | None: ...
    @property
    def threads(self) -> int | None: ...
    @property
    def device(self) -> Any:
        """The name of the device, or a tuple of names."""

    def check_device(self, name: str, located: Located, beside: int | None = None) -> None:
        """Refuse an array that lies on another device than the operator, or than x, which lies `beside`."""

    def like(self, csr: Any, symmetric: Symmetry | None) -> SparseOperator:
        """The operator of a canonical matrix of the same pattern, stored alike, or in another format."""

    def like_part(self, csr: Any) -> SparseOperator:
        """The operator of a canonical matrix of another shape, in the same format, or as CSR."""

    def transposed(self, csr: Any) -> SparseOperator:
        """The operator of the transposed matrix, which is given, in the same format, or as CSR."""

    def moved(self, csr: Any, device: Any) -> SparseOperator:
        """The operator on another device, or several."""

    def explanation(self, op: Any) -> str:
        """What `SparseOperator.explain` says."""

    def rebuild(self, csr: Any) -> tuple[Any, ...]:
        """What pickle needs: a function, and its arguments."""


class SparseOperator(ProductMethods, MatrixMethods, UpdateMethods):
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
        Bytes that the operator holds on the device: the arrays of the format and their work space. Vectors
        of products with NumPy arrays, vectors of solvers, and transposed copies count once they exist.
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

    _stored: Stored
    _matrix: AnyMatrix
    _origin: Origin

    def __init__(self, stored: Stored) -> None:
        super().__init__(stored.matrix.dtype, stored.shape)
        self._ordinal, self._stream = stored.origin.ordinal, stored.origin.stream
        self._solver_memory = _core.SolverMemory(self._ordinal)
        self.solve_info: SolveInfo | None = None
        self._copies: dict[Variant, SparseOperator] = {}  # `T` and `H` as they were asked for
        self._copy_of: tuple[Variant, weakref.ref[SparseOperator]] | None = None  # as which, and of which
        self._hold(stored)

    def _hold(self, stored: Stored) -> None:
        """Have this matrix from now on."""
        with stored.lock:
            stored.belongs_to(self)
            # One call of a dict, so that no signal handler finds, or leaves, half of it.
            self.__dict__.update(_stored=stored, _matrix=stored.matrix, _origin=stored.origin)

    def _snapshot(self) -> Self:
        """An operator that shares the matrix, and keeps the values that it has now."""
        return type(self)(self._stored)

    # What it is

    @property
    def format(self) -> str:
        return self._origin.choice.format

    @property
    def device(self) -> str:
        name: str = self._origin.device
        return name

    @property
    def nnz(self) -> int:
        return self._matrix.nnz

    @property
    def nbytes(self) -> int:
        solvers = [copy._solver_memory.nbytes for copy in (self, *list(self._copies.values()))]
        return self._stored.nbytes + sum(solvers)

    @property
    def options(self) -> dict[str, Any]:
        return parts.options(self._matrix)

    @property
    def setup_seconds(self) -> dict[str, float]:
        return self._matrix.setup_seconds

    @property
    def max_threads(self) -> int | None:
        return self._origin.threads

    @property
    def tuning(self) -> Tuning | None:
        return self._origin.tuning

    def tocsr(self) -> Any:
        """Return the matrix as a new `scipy.sparse.csr_array` of the operator's dtype.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.tocsr().indices
        array([0, 1, 1], dtype=int32)
        """
        with at_most(self.max_threads):
            return parts.to_csr(self._matrix, self.shape)

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
        return self._origin.explanation(self)

    def __repr__(self) -> str:
        return fit(self._summary())

    def _summary(self) -> str:
        """The first line of `explain`, however long it is."""
        rows, cols = self.shape
        return (
            f"<{rows}x{cols} SparseOperator of {self.dtype}, {self.nnz} stored entries, "
            f"format {self.format!r} on {self.device!r}, {self.nbytes} bytes"
            f"{'' if self.max_threads is None else f', at most {self.max_threads} threads'}>"
        )

    def _repr_html_(self) -> str:
        return describe.html_of(self, self._origin.choice.reason)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._origin.rebuild(self.tocsr())

    # What lies beneath

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

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
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

    def to(self, device: Any) -> SparseOperator:
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
        if self.device == (tuple(device) if isinstance(device, list | tuple) else _full_name(device)):
            return self
        return self._origin.moved(self.tocsr(), device)

    # What MatrixMethods and LinearOperator call

    def _like(self, csr: Any, symmetric: Symmetry | None) -> SparseOperator:
        return self._origin.like(csr, symmetric)

    def _like_part(self, csr: Any) -> SparseOperator:
        return self._origin.like_part(csr)

    def _adjoint(self) -> SparseOperator:
        return self._variant(True, True)

    def _transpose(self) -> SparseOperator:
        return self._variant(True, False)

    def _variant(self, transposed: bool, conjugated: bool) -> SparseOperator:
        """The operator transposed, conjugated or both: itself, or the one of which this is that."""
        own = self._stored
        which = simplest(own.symmetry, self.dtype, transposed, conjugated)
        if which == (False, False):
            return self
        there = self._copies.get(which)
        if there is not None and there._stored is own.copies.get(which):
            return there  # without a lock: as a rule it was asked for before
        stored = own.variant(which, lambda: self._made(which)._stored)
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

    def _made(self, which: Variant) -> SparseOperator:
        """A copy of the matrix, transposed, conjugated or both."""
        transposed, conjugated = which
        if not transposed:
            return self.conj()
        with at_most(self.max_threads):
            if not conjugated and isinstance(self.device, str):
                return self._origin.transposed(transpose_for(self.tocsr(), self._ordinal))
            csr = transpose(self.tocsr())
            if conjugated:
                csr.data = np.conjugate(csr.data)
            return self._origin.transposed(csr)


def _full_name(device: Any) -> str:
    return device_name(resolve_device(device))
