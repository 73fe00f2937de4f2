"""Operators that are spread over several devices, and vectors that stay there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, cast, overload

import numpy.typing as npt

from ._types import ArrayT
from .arrays import NUMPY, host_array
from .operands import converted_vector, factor
from .operator import SparseOperator
from .show import fit
from .value_types import DistributedMatrix


class DistributedVector:
    """A vector whose pieces stay on the devices of an operator; made by `MultiDeviceOperator.distribute`.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    nbytes : int
        Bytes held on GPUs.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(sg.gallery.poisson1d(4), device=["cpu", "cpu"])
    >>> x = op.distribute(np.ones(4))
    >>> (op @ x).collect()
    array([1., 0., 0., 1.])
    """

    def __init__(self, operator: MultiDeviceOperator) -> None:
        self._operator = operator  # kept alive: its streams carry the work on the vector
        self._core = operator._spread.make_vector()
        self.shape = (operator.shape[1],)
        self.dtype = operator.dtype

    @property
    def nbytes(self) -> int:
        return int(self._core.nbytes)

    def assign(self, x: Any) -> None:
        """Copy an array in host memory into the pieces.

        Raises
        ------
        TypeError
            If it is an array on a GPU, has masked entries, or is not real.
        ValueError
            If it has another shape.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> x = sg.aslinearoperator(sg.gallery.poisson1d(4), device=["cpu", "cpu"]).distribute()
        >>> x.assign(np.arange(4.0))
        >>> x.collect()
        array([0., 1., 2., 3.])
        """
        x = host_array("x", x)
        self._core.assign(converted_vector(self._operator, "x", x, NUMPY)[1].host)

    def collect(self) -> npt.NDArray[Any]:
        """The vector as a NumPy array; waits for the product that makes it.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(sg.gallery.poisson1d(4), format="csr", device=["cpu", "cpu"])
        >>> op.distribute([1.0, 2.0, 3.0, 4.0]).collect()
        array([1., 2., 3., 4.])
        """
        host: npt.NDArray[Any] = self._core.collect()
        return host

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("the pieces lie on several devices; an array of them is a copy")
        return self.collect() if dtype is None else self.collect().astype(dtype)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __repr__(self) -> str:
        return fit(
            f"<DistributedVector of {self.dtype}, length {len(self)}, on {', '.join(self._operator.device)}>"
        )


class MultiDeviceOperator(SparseOperator):
    """A sparse matrix over several devices, made by `aslinearoperator` with a list of them.

    A `SparseOperator`, with these differences: `device` is a tuple of names, `format` is "parts" where the
    parts have different ones, `options` has those of every part. Arrays of CuPy or PyTorch may lie on any of
    the GPUs; the others get their part of x, and give back their part of the result, by copies from device to
    device. NumPy arrays go to each device in parts. Vectors of iterations stay on the devices:

    >>> import numpy as np, scipy.sparse as sp, spmvgpu as sg
    >>> A = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(6, 6))
    >>> op = sg.aslinearoperator(A, device=["cpu", "cpu"])
    >>> x, y = op.distribute(np.arange(6.0)), op.distribute()
    >>> for _ in range(2):
    ...     y = op.spmv(x, out=y)
    ...     x, y = y, x
    >>> x.collect()
    array([-2.,  1.,  0.,  0., -6., 12.])
    """

    @property
    def _spread(self) -> DistributedMatrix:
        return cast("DistributedMatrix", self._matrix)

    @property
    def device(self) -> tuple[str, ...]:  # type: ignore[override]
        names: tuple[str, ...] = self._origin.device
        return names

    def distribute(self, x: Any = None) -> DistributedVector:
        """A vector in pieces on the operator's devices, each of which keeps the rows that it computes.

        Parameters
        ----------
        x : (n,) array, optional
            What it holds: an array in host memory. Without it, the vector is not initialised.

        Raises
        ------
        ValueError
            If the matrix is not square, or a part's rows are not neighbours.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(sg.gallery.poisson1d(4), format="csr", device=["cpu", "cpu"])
        >>> op.distribute(np.ones(4))
        <DistributedVector of float64, length 4, on cpu, cpu>
        """
        vector = DistributedVector(self)
        if x is not None:
            vector.assign(x)
        return vector

    def update_values(self, data: Any) -> NoReturn:
        """Not for several devices: make a new operator.

        Raises
        ------
        TypeError
            Always.

        Examples
        --------
        >>> import spmvgpu as sg
        >>> A = sg.gallery.poisson1d(4)
        >>> op = sg.aslinearoperator(A, device=["cpu", "cpu"])
        >>> A.data *= 2
        >>> op = sg.aslinearoperator(A, device=["cpu", "cpu"])
        """
        raise TypeError(
            f"an operator over several devices ({', '.join(self.device)}) keeps its values; make a new one "
            "with aslinearoperator(A, device=[...])"
        )

    def synchronize(self) -> None:
        """Wait for the products of distributed vectors that are under way.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(sg.gallery.poisson1d(4), format="csr", device=["cpu", "cpu"])
        >>> y = op @ op.distribute(np.ones(4))
        >>> op.synchronize()
        """
        self._spread.synchronize()

    def spmv(
        self, x: Any, out: Any = None, alpha: complex = 1.0, beta: complex = 0.0, stream: Any = None
    ) -> Any:
        """``alpha * A @ x + beta * out``, as in `SparseOperator.spmv`.

        `x` and `out` may also be distributed vectors. The call returns once the product is queued on the
        GPUs and done on the CPU; `out` may be the `x` of the next one without more ado.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(sg.gallery.poisson1d(4), format="csr", device=["cpu", "cpu"])
        >>> x, y = op.distribute(np.ones(4)), op.distribute()
        >>> op.spmv(x, out=y, alpha=3.0) is y
        True
        >>> y.collect()
        array([3., 0., 0., 3.])
        """
        if not isinstance(x, DistributedVector):
            return super().spmv(x, out, alpha, beta, stream)
        if out is None and beta != 0:
            raise ValueError(f"beta={beta} needs out=, the vector to scale and add to")
        if out is None:
            out = self.distribute()
        elif not isinstance(out, DistributedVector):
            raise TypeError(f"out must be a DistributedVector like x, not {type(out).__name__}")
        if stream is not None:
            raise TypeError("distributed vectors have streams of their own; leave out stream")
        for name, vector in (("x", x), ("out", out)):
            if vector.dtype != self.dtype:
                raise TypeError(f"{name} has dtype {vector.dtype}; the operator needs {self.dtype}")
        scale, keep = factor(self, "alpha", alpha), factor(self, "beta", beta)
        self._spread.multiply_distributed(scale, x._core, keep, out._core)
        return out

    @overload
    def __matmul__(self, x: npt.NDArray[Any] | Sequence[float]) -> npt.NDArray[Any]: ...
    @overload
    def __matmul__(self, x: ArrayT) -> ArrayT: ...
    @overload
    def __matmul__(self, x: DistributedVector) -> DistributedVector: ...
    @overload
    def __matmul__(self, x: Any) -> Any: ...
    def __matmul__(self, x: Any) -> Any:
        return self.spmv(x) if isinstance(x, DistributedVector) else super().__matmul__(x)
