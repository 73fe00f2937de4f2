"""PyTorch. It is asked for addresses through its own methods, in a fraction of the time of the protocols."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .._util.lazy import lazy
from .._util.types import DType, HostArray
from ..devices import CPU
from .library import ArrayInfo, Library, Memory, Operator, Shape, in_items
from .numpy_arrays import NUMPY
from .products import is_transformed

if TYPE_CHECKING:
    import torch


_TRANSFORMED = "op @ x, spmvgpu.torch.matmul and spmvgpu.torch.solve"
_OF_VALUES = (
    "pattern.matmul and spmvgpu.torch.solve of a spmvgpu.torch.MatrixPattern give gradients of values"
)
_VALUES = {  # of a matrix A, in the order of its pattern, by layout
    "torch.sparse_coo": ", which are A.coalesce().values() for MatrixPattern(A.detach())",
    "torch.sparse_csr": ", which are A.values() for MatrixPattern(A.detach()) if columns ascend",
    "torch.strided": ", which are A[pattern.rows, pattern.cols] for MatrixPattern(A.detach())",
}
_WITH_GRADIENTS = {  # by the names of arguments
    "A": _OF_VALUES,
    "data": _OF_VALUES,
    "values": _OF_VALUES,
    "b": "spmvgpu.torch.solve(A, b) gives gradients of solutions",
    "x": "op @ x and spmvgpu.torch.matmul(op, x), of an operator of one process, give gradients",
}


class Torch(Library["torch.Tensor"]):
    def __init__(self, module: ModuleType) -> None:
        super().__init__(module)
        self._dtypes: dict[torch.dtype, DType] = {}

    @lazy
    def _forward_ad(self) -> Any:
        return self.module.autograd.forward_ad

    def locate(self, x: torch.Tensor, name: str) -> ArrayInfo:
        device, dtype = x.device, self._dtypes.get(x.dtype)
        if dtype is None:
            dtype = self.type_of(x)
        if x.requires_grad or self._forward_ad._current_level >= 0:
            self.refuse_gradient(name, x)
        try:
            if device.type == "cuda":
                return self._on_device(x, dtype)
            if device.type == "cpu":
                return self._on_host(x, dtype)
        except (RuntimeError, TypeError):
            what, instead = f"of layout {x.layout}", "give a dense one"
            if x.layout == self.module.strided:
                what = f"that is transformed by torch.func or torch.vmap, which transform {_TRANSFORMED}"
                instead = "use these"
            raise TypeError(f"{name} is a tensor {what}, whose memory cannot be read; {instead}") from None
        raise ValueError(
            f"{name} is on the PyTorch device {str(device)!r}; allowed are tensors on 'cpu' and 'cuda'"
        )

    def type_of(self, x: torch.Tensor) -> DType:
        found = self._dtypes[x.dtype] = _numpy_type(x.dtype)
        return found

    def refuse_gradient(self, name: str, x: torch.Tensor) -> None:
        """Refuse, with TypeError, a tensor whose gradient would be lost."""
        torch, forward_ad = self.module, self._forward_ad
        is_wanted = x.requires_grad and torch.is_grad_enabled()
        if not is_wanted and forward_ad._current_level >= 0 and torch._C._is_fwd_grad_enabled():
            is_wanted = forward_ad.unpack_dual(x).tangent is not None
        if is_wanted:
            by = _WITH_GRADIENTS.get(name, f"{_TRANSFORMED} give gradients")
            by += _VALUES.get(str(x.layout), "") if name == "A" else ""
            raise TypeError(
                f"{name} requires a gradient, which is not computed here; {by}. Use that, or give "
                f"{name}.detach()"
            )

    def _on_device(self, x: torch.Tensor, dtype: DType) -> ArrayInfo:
        pointer, shape = x.data_ptr(), tuple(x.shape)
        is_plain = not _is_changed(x) and pointer % x.element_size() == 0
        in_order = is_plain and x.is_contiguous()
        strides = x.stride() if is_plain and len(shape) == 2 else None
        return ArrayInfo(self, x, pointer, shape, dtype, x.device.index, in_order, strides)

    def _on_host(self, x: torch.Tensor, dtype: DType) -> ArrayInfo:
        view = x.detach()
        if not isinstance(dtype, np.dtype):  # NumPy can have no view of it
            view = view.to(self.module.complex64 if x.is_complex() else self.module.float32)
        is_changed = _is_changed(x)
        host = (view.resolve_conj().resolve_neg() if is_changed else view).numpy()
        in_order, shape = host.flags.c_contiguous, host.shape
        strides = in_items(host.strides, host.itemsize) if len(shape) == 2 else None
        return ArrayInfo(NUMPY, host, 0, shape, dtype, CPU, in_order, strides, not is_changed, host)

    def differentiable(self, op: Operator, x: torch.Tensor) -> torch.Tensor | None:
        torch = self.module
        if not ((x.requires_grad and torch.is_grad_enabled()) or is_transformed(torch)):
            return None
        from .torch_gradients import differentiable  # which imports PyTorch

        return differentiable(op if torch.compiler.is_compiling() else op._snapshot(), x)

    def contiguous(self, x: torch.Tensor, dtype: DType) -> torch.Tensor:
        converted = x.detach().to(getattr(self.module, dtype.name))
        result = converted.resolve_conj().resolve_neg().contiguous()
        return result if result.data_ptr() % result.element_size() == 0 else result.clone()

    def permuted(self, x: torch.Tensor, axes: Shape) -> torch.Tensor:
        return x.permute(axes)

    def join(self, real: torch.Tensor, imaginary: torch.Tensor) -> torch.Tensor:
        return self.module.complex(real, imaginary)

    def stream(self, located: ArrayInfo) -> int:
        # A stream object would be of another type, without a handle, where torch.compile traces this.
        return int(self.module._C._cuda_getCurrentRawStream(located.ordinal))

    def empty(self, shape: Shape, like: torch.Tensor, located: ArrayInfo) -> tuple[torch.Tensor, int]:
        result = like.new_empty(shape)
        return result, result.data_ptr()

    def from_host(self, result: HostArray, like: torch.Tensor) -> torch.Tensor:
        made = self.module.from_numpy(result)
        return made.to(like.device) if like.is_cuda else made

    def device(self, x: torch.Tensor) -> AbstractContextManager[object]:
        return self.module.cuda.device(x.device)  # type: ignore[no-any-return]

    def pinned(self, shape: Shape, x: torch.Tensor) -> HostArray:
        return self.module.empty(shape, dtype=x.dtype, pin_memory=True).numpy()  # type: ignore[no-any-return]

    def copy(self, x: torch.Tensor, to: torch.Tensor | HostArray) -> None:
        self.module.as_tensor(to).copy_(x.detach())

    def beside(self, array: torch.Tensor | HostArray | Memory, x: torch.Tensor) -> torch.Tensor:
        return self.module.as_tensor(array, device=x.device)


def _is_changed(x: torch.Tensor) -> bool:
    """Whether a view negates or conjugates: what lies at its address is something else."""
    return bool(x.is_neg() or x.is_conj())


def _numpy_type(dtype: torch.dtype) -> DType:
    try:
        found = np.dtype(str(dtype).removeprefix("torch."))
    except TypeError:  # bfloat16 and other types that NumPy lacks
        return cast("DType", dtype)
    # Other packages teach NumPy some of those, but PyTorch does not hand them over for all that.
    return found if found.isbuiltin == 1 else cast("DType", dtype)
