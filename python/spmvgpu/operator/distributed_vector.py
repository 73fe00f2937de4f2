"""Vectors that stay on the devices of an operator."""

from __future__ import annotations

from typing import cast

import numpy.typing as npt

from .._util.show import fit
from .._util.types import HostArray
from .._util.value_types import DistributedMatrix
from ..arrays import NUMPY, host_array
from .operands import Multiplier, converted_vector


class DistributedVector:
    """A vector in pieces on the devices of an operator.

    `MultiDeviceOperator.distribute` makes one.

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
    >>> x = op.distribute(np.ones(4))
    >>> (op @ x).collect()
    array([1., 0., 0., 1.])
    """

    def __init__(self, operator: Multiplier, device: tuple[str, ...]) -> None:
        self._operator = operator  # kept alive: its streams carry the work on the vector
        self._device = device
        self._core = cast("DistributedMatrix", operator._matrix).make_vector()
        self.shape = (operator.shape[1],)
        self.dtype = operator.dtype

    @property
    def nbytes(self) -> int:
        return int(self._core.nbytes)

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
        >>> x = op.distribute()
        >>> x.assign(np.arange(4.0))
        >>> x.collect()
        array([0., 1., 2., 3.])
        """
        self._core.assign(converted_vector(self._operator, "x", host_array("x", x), NUMPY)[0])

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
        >>> op.distribute([1.0, 2.0, 3.0, 4.0]).collect()
        array([1., 2., 3., 4.])
        """
        host: HostArray = self._core.collect()
        return host

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> HostArray:
        if copy is False:
            raise ValueError(
                "the pieces are on several devices, so an array of them is a copy; leave out copy=False"
            )
        return self.collect() if dtype is None else self.collect().astype(dtype)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __repr__(self) -> str:
        return fit(f"<DistributedVector of {self.dtype}, length {len(self)}, on {', '.join(self._device)}>")
