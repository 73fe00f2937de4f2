"""Operators that are spread over several devices, and vectors that stay there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from . import _core, parts, shares
from ._types import ArrayT
from .arguments import whole_number
from .arrays import NUMPY, Located, library_of
from .canonical import canonical_csr
from .compressed import transpose
from .devices import CPU, at_most, device_name, resolve_device
from .operands import converted_vector
from .operator import SparseOperator
from .partition import Partition, check_powers
from .parts import DistributedMatrix
from .shares import PARTITIONS, Share, Wish
from .tune import Choice


class DistributedVector:
    """A vector whose pieces stay on the devices of an operator; made by `MultiDeviceOperator.distribute`.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    nbytes : int
        Bytes held on GPUs.
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
        """Copy a NumPy array into the pieces.

        Raises
        ------
        TypeError
            If it is an array of another library, masked, or not real.
        ValueError
            If it has another shape.
        """
        if isinstance(x, list | tuple):
            x = np.asarray(x)
        library = library_of(x)
        if library is None or library is not NUMPY:
            raise TypeError(f"x must be a NumPy array, not {type(x).__name__}")
        self._core.assign(converted_vector(self._operator, "x", x, library)[1].host)

    def collect(self) -> npt.NDArray[Any]:
        """The vector as a NumPy array; waits for the product that makes it."""
        host: npt.NDArray[Any] = self._core.collect()
        return host

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("the pieces lie on several devices; an array of them is a copy")
        return self.collect() if dtype is None else self.collect().astype(dtype)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __repr__(self) -> str:
        return (
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

    def __init__(
        self,
        matrix: DistributedMatrix,
        shape: tuple[int, int],
        wish: Wish,
        made: Sequence[Share],
        symmetric: bool,
        stream: int | None,
    ) -> None:
        on_gpus = [share.ordinal for share in made if share.ordinal != CPU]
        first = on_gpus[0] if on_gpus else CPU
        names = {parts.format_of(share) for share, *_ in matrix.shares}
        choice = Choice(names.pop() if len(names) == 1 else "parts")
        super().__init__(matrix, shape, first, choice, device_name(first), symmetric, stream, wish.threads)
        self._spread = matrix
        self._wish = wish
        self._shares = tuple(made)
        self._places = set(on_gpus) or {CPU}

    @property
    def device(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(device_name(share.ordinal) for share in self._shares)

    def distribute(self, x: Any = None) -> DistributedVector:
        """A vector in pieces on the operator's devices, each of which keeps the rows that it computes.

        Parameters
        ----------
        x : (n,) array, optional
            What it holds: a NumPy array. Without it, the vector is not initialised.

        Raises
        ------
        ValueError
            If the matrix is not square, or a part's rows are not neighbours.
        """
        vector = DistributedVector(self)
        if x is not None:
            vector.assign(x)
        return vector

    def synchronize(self) -> None:
        """Wait for the products of distributed vectors that are under way."""
        self._spread.synchronize()

    def spmv(self, x: Any, out: Any = None, alpha: float = 1.0, beta: float = 0.0, stream: Any = None) -> Any:
        """``alpha * A @ x + beta * out``, as in `SparseOperator.spmv`.

        `x` and `out` may also be distributed vectors. The call returns once the product is queued on the
        GPUs and done on the CPU; `out` may be the `x` of the next one without more ado.
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
        self._spread.multiply_distributed(alpha, x._core, beta, out._core)
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

    def explain(self) -> str:
        """Which part of the matrix each device has.

        Returns
        -------
        str
            Several lines of text.
        """
        lines = [repr(self), "", f"{'device':8s} {'rows':>12s} {'non-zeros':>14s} {'bytes':>16s}   format"]
        for share, (matrix, *_) in zip(self._shares, self._spread.shares, strict=True):
            name = device_name(share.ordinal)
            facts = f"{name:8s} {len(share.rows):12,d} {matrix.nnz:14,d} {matrix.nbytes:16,d}"
            lines.append(f"{facts}   {parts.format_of(matrix)}")
        return "\n".join(lines + [share.reason for share in self._shares if share.reason])

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self.tocsr(), self._wish, self._symmetric)

    def _check_device(self, name: str, located: Located, home: int | None = None) -> None:
        """On one of the GPUs, or in host memory where there are none; both vectors on the same."""
        if home is None and located.ordinal not in self._places:
            allowed = " or ".join(repr(device_name(place)) for place in sorted(self._places))
            raise ValueError(f"{name} lies on {device_name(located.ordinal)!r}; it must lie on {allowed}")
        super()._check_device(name, located, located.ordinal if home is None else home)

    def _make_transposed(self) -> SparseOperator:
        """In the operator's own format, or as CSR where the parts refuse it or are cut by rows."""
        return self._like_part(transpose(self.tocsr()))

    def _like(self, csr: Any, device: str | None = None) -> SparseOperator:
        return spread(csr, self._wish, self._symmetric, self._stream)

    def _like_part(self, csr: Any) -> SparseOperator:
        by = self._wish.partition if isinstance(self._wish.partition, str) else "nnz"
        wish = replace(self._wish, partition=by)
        in_csr = replace(wish, format="csr", options=())
        if wish.format == "partitioned":  # a separator is a number of rows, and they are others
            return spread(csr, in_csr, False, self._stream)
        try:
            return spread(csr, wish, False, self._stream)
        except _core.FormatError:
            return spread(csr, in_csr, False, self._stream)


def spread(csr: Any, wish: Wish, symmetric: bool, stream: int | None) -> MultiDeviceOperator:
    """The operator of a canonical matrix over the devices wished for."""
    ordinals = [resolve_device(name) for name in wish.devices]
    with at_most(wish.threads):
        made = shares.fit(csr, wish, shares.divide(csr, wish, ordinals))
        matrix = shares.build(csr, wish, made)
    return MultiDeviceOperator(matrix, csr.shape, wish, made, symmetric, stream)


def _unpickle(csr: Any, wish: Wish, symmetric: bool) -> MultiDeviceOperator:
    with at_most(wish.threads):
        return spread(canonical_csr(csr, wide=True), wish, symmetric, None)


def check_wish(
    device: Any,
    format: str,
    tune: str,
    options: dict[str, Any],
    powers: Any,
    partition: Any,
    memory_limit: Any,
) -> Wish:
    """What a caller of `aslinearoperator` wants on several devices, checked.

    Raises
    ------
    TypeError, ValueError
        For a value that is not allowed.
    CudaError
        If a CUDA device is asked for that is not there.
    """
    names = tuple(device) if isinstance(device, list | tuple) else (device,)
    if not names:
        raise ValueError("device is an empty list; name one device at least")
    for name in names:
        resolve_device(name)
    checked = None if powers is None else tuple(check_powers(powers).tolist())
    if checked is not None and len(checked) != len(names):
        raise ValueError(f"{len(checked)} powers for {len(names)} devices; give one each")
    if not isinstance(partition, Partition) and not (isinstance(partition, str) and partition in PARTITIONS):
        kind = ValueError if isinstance(partition, str) else TypeError
        allowed = ", ".join(map(repr, PARTITIONS))
        raise kind(f"partition={partition!r} is not allowed; give {allowed} or a Partition")
    if memory_limit is not None:
        memory_limit = whole_number("memory_limit", memory_limit, 0)
    return Wish(names, format, tune, tuple(options.items()), checked, partition, memory_limit)
