"""A sparse matrix over several devices of this process, as an operator, and vectors that stay there."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, cast, overload

import numpy.typing as npt

from .._core import MultiDeviceMatrix
from .._util.show import fit
from .._util.types import ArrayT, HostArray
from ..arrays import NUMPY, host_array
from ..operator import operands
from ..operator.operator import SparseOperator


class MultiDeviceVector:
    """A vector in pieces on the devices of an operator.

    `MultiDeviceOperator.vector` makes one.

    Attributes
    ----------
    shape : tuple of int
        ``(n,)``.
    dtype : numpy.dtype
    nbytes : int
        Bytes of GPU memory.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(sg.gallery.poisson1d(4), device=["cpu", "cpu"])
    >>> x = op.vector(np.ones(4))
    >>> (op @ x).collect()
    array([1., 0., 0., 1.])
    """

    def __init__(self, operator: MultiDeviceOperator) -> None:
        # Kept alive, also when the operator has another one for new values: its streams carry the work.
        self._matrix = operator._several
        self._operator = operator
        self._core = self._matrix.make_vector()
        self.shape: tuple[int] = (operator.shape[1],)
        self.dtype = operator.dtype

    @property
    def nbytes(self) -> int:
        return self._core.nbytes

    def assign(self, x: object) -> None:
        """Copy an array in host memory to the pieces.

        Parameters
        ----------
        x : (n,) array
            In host memory. It is converted to the dtype of the vector.

        Raises
        ------
        TypeError
            If `x` is on a GPU, has masked entries, or is complex and the vector is real.
        ValueError
            If `x` has another shape.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(sg.gallery.poisson1d(4), device=["cpu", "cpu"])
        >>> x = op.vector()
        >>> x.assign(np.arange(4.0))
        >>> x.collect()
        array([0., 1., 2., 3.])
        """
        self._core.assign(operands.converted_vector(self._operator, "x", host_array("x", x), NUMPY)[0])

    def collect(self) -> HostArray:
        """Return the whole vector as a NumPy array.

        The call waits for the product that computes the vector.

        Returns
        -------
        (n,) numpy.ndarray

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> A = sg.gallery.poisson1d(4)
        >>> op = sg.aslinearoperator(A, format="csr", device=["cpu", "cpu"])
        >>> op.vector([1.0, 2.0, 3.0, 4.0]).collect()
        array([1., 2., 3., 4.])
        """
        return self._core.collect()

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> HostArray:
        if copy is False:
            raise ValueError(
                "the pieces are on several devices, so an array of them is a copy; leave out copy=False"
            )
        return self.collect() if dtype is None else self.collect().astype(dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return fit(
            f"<MultiDeviceVector of {self.dtype}, length {len(self)}, on {', '.join(self._operator.device)}>"
        )


class MultiDeviceOperator(SparseOperator):
    """A sparse matrix over several devices.

    `aslinearoperator` makes one if `device` is a list. Each device holds a set of rows. The class is a
    `SparseOperator` with these differences:

    - `format` is "parts" if the devices have different formats.
    - `options` holds the options of each part.
    - `x` may be on any of the GPUs, and the result is on the same GPU. Pieces are copied from GPU to GPU.
    - `update_values` stores the matrix again, with the same rows on each device. A `MultiDeviceVector` from
      before can be read, but not multiplied.

    Use a `MultiDeviceVector` to keep the vectors of an iteration on the devices.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp, spmvgpu as sg
    >>> A = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(6, 6))
    >>> op = sg.aslinearoperator(A, device=["cpu", "cpu"])
    >>> x, y = op.vector(np.arange(6.0)), op.vector()
    >>> for _ in range(2):
    ...     y = op.spmv(x, out=y)
    ...     x, y = y, x
    >>> x.collect()
    array([-2.,  1.,  0.,  0., -6., 12.])
    """

    @property
    def _several(self) -> MultiDeviceMatrix:
        return cast("MultiDeviceMatrix", self._matrix)

    @property
    def device(self) -> tuple[str, ...]:
        return cast("tuple[str, ...]", self._stored.device)

    def vector(self, x: object = None) -> MultiDeviceVector:
        """Return a vector in pieces on the devices of the operator.

        Each device holds the entries that belong to its rows.

        Parameters
        ----------
        x : (n,) array, optional
            Initial contents, in host memory. Without it, the vector is not initialized.

        Returns
        -------
        MultiDeviceVector

        Raises
        ------
        TypeError
            If `x` is on a GPU.
        ValueError
            If the matrix is not square, if the rows of a device are not contiguous, or if `x` has another
            shape.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> A = sg.gallery.poisson1d(4)
        >>> op = sg.aslinearoperator(A, format="csr", device=["cpu", "cpu"])
        >>> op.vector(np.ones(4))
        <MultiDeviceVector of float64, length 4, on cpu, cpu>
        """
        vector = MultiDeviceVector(self)
        if x is not None:
            vector.assign(x)
        return vector

    def distribute(self, x: object = None) -> MultiDeviceVector:
        """Return ``op.vector(x)``.

        Deprecated: use `vector`.

        Parameters
        ----------
        x : (n,) array, optional

        Returns
        -------
        MultiDeviceVector

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(sg.gallery.poisson1d(4), device=["cpu", "cpu"])
        >>> op.vector(np.ones(4))  # in place of op.distribute(np.ones(4))
        <MultiDeviceVector of float64, length 4, on cpu, cpu>
        """
        warnings.warn("distribute(x) is deprecated; use vector(x)", DeprecationWarning, stacklevel=2)
        return self.vector(x)

    def synchronize(self) -> None:
        """Wait until all products with vectors in pieces are done.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> A = sg.gallery.poisson1d(4)
        >>> op = sg.aslinearoperator(A, format="csr", device=["cpu", "cpu"])
        >>> y = op @ op.vector(np.ones(4))
        >>> op.synchronize()
        """
        self._several.synchronize()

    def spmv(
        self, x: object, out: object = None, alpha: complex = 1.0, beta: complex = 0.0, stream: object = None
    ) -> Any:
        """Return ``alpha * A @ x + beta * out``.

        As `SparseOperator.spmv`, and also for vectors in pieces. With these, the call returns when the
        product is queued on the GPUs and done on the CPU. `out` can be the `x` of the next product at once.

        Parameters
        ----------
        x : (n,) or (n, k) array, or MultiDeviceVector
        out : like `x`, optional
        alpha, beta : float or complex
        stream : optional
            Not for vectors in pieces.

        Returns
        -------
        array or MultiDeviceVector
            `out`, or a new one.

        Raises
        ------
        TypeError, ValueError
            As `SparseOperator.spmv`.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> A = sg.gallery.poisson1d(4)
        >>> op = sg.aslinearoperator(A, format="csr", device=["cpu", "cpu"])
        >>> x, y = op.vector(np.ones(4)), op.vector()
        >>> op.spmv(x, out=y, alpha=3.0) is y
        True
        >>> y.collect()
        array([3., 0., 0., 3.])
        """
        if not isinstance(x, MultiDeviceVector):
            return super().spmv(x, out, alpha, beta, stream)
        if out is None and beta != 0:
            raise ValueError(f"beta={beta} needs out=, the vector to scale and add to")
        if out is None:
            out = self.vector()
        elif not isinstance(out, MultiDeviceVector):
            raise TypeError(f"out must be a MultiDeviceVector like x, not {type(out).__name__}")
        if stream is not None:
            raise TypeError(
                "stream is not allowed with vectors in pieces, which have their own streams; leave it out"
            )
        for name, vector in (("x", x), ("out", out)):
            if vector.dtype != self.dtype:
                raise TypeError(f"{name} has dtype {vector.dtype}; the operator needs {self.dtype}")
        scale, keep = operands.factor(self, "alpha", alpha), operands.factor(self, "beta", beta)
        self._several.multiply_pieces(scale, x._core, keep, out._core)
        return out

    @overload
    def __matmul__(self, x: HostArray | Sequence[float]) -> HostArray: ...
    @overload
    def __matmul__(self, x: ArrayT) -> ArrayT: ...
    @overload
    def __matmul__(self, x: MultiDeviceVector) -> MultiDeviceVector: ...
    @overload
    def __matmul__(self, x: object) -> Any: ...
    def __matmul__(self, x: object) -> Any:
        return self.spmv(x) if isinstance(x, MultiDeviceVector) else super().__matmul__(x)
