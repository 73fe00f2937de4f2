"""PyTorch. It is asked for addresses through its own methods, in a fraction of the time of the protocols."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import ModuleType
from typing import TYPE_CHECKING, cast

import numpy as np

from .._util.types import DType, HostArray
from ..devices import CPU
from .library import Library, Located, Memory, Operator, Shape, in_items
from .numpy_arrays import NUMPY

if TYPE_CHECKING:
    import torch


class Torch(Library["torch.Tensor"]):
    def __init__(self, module: ModuleType) -> None:
        super().__init__(module)
        self._dtypes: dict[torch.dtype, DType] = {}

    def locate(self, x: torch.Tensor, name: str) -> Located:
        device, dtype = x.device, self._dtypes.get(x.dtype)
        if dtype is None:
            dtype = self._dtypes[x.dtype] = _numpy_type(x.dtype)
        try:
            if device.type == "cuda":
                return self._on_device(x, dtype)
            if device.type == "cpu":
                return self._on_host(x, dtype)
        except (RuntimeError, TypeError):
            raise TypeError(
                f"{name} is a tensor of layout {x.layout}, whose memory cannot be read; give a dense one"
            ) from None
        raise ValueError(
            f"{name} is on the PyTorch device {str(device)!r}; allowed are tensors on 'cpu' and 'cuda'"
        )

    def _on_device(self, x: torch.Tensor, dtype: DType) -> Located:
        pointer, shape = x.data_ptr(), tuple(x.shape)
        is_plain = not _is_changed(x) and pointer % x.element_size() == 0
        in_order = is_plain and x.is_contiguous()
        strides = x.stride() if is_plain and len(shape) == 2 else None
        return Located(self, x, pointer, shape, dtype, x.device.index, in_order, strides)

    def _on_host(self, x: torch.Tensor, dtype: DType) -> Located:
        view = x.detach()
        if not isinstance(dtype, np.dtype):  # NumPy can have no view of it
            view = view.to(self.module.complex64 if x.is_complex() else self.module.float32)
        is_changed = _is_changed(x)
        host = (view.resolve_conj().resolve_neg() if is_changed else view).numpy()
        in_order, shape = host.flags.c_contiguous, host.shape
        strides = in_items(host.strides, host.itemsize) if len(shape) == 2 else None
        return Located(NUMPY, host, 0, shape, dtype, CPU, in_order, strides, not is_changed, host)

    def differentiable(self, op: Operator, x: torch.Tensor) -> torch.Tensor | None:
        torch = self.module
        is_compiled = torch.compiler.is_compiling()
        is_recorded = x.requires_grad and torch.is_grad_enabled()
        is_forward = torch.autograd.forward_ad._current_level >= 0 and torch._C._is_fwd_grad_enabled()
        is_transformed = is_forward or torch._C._are_functorch_transforms_active()
        if not (is_compiled or is_recorded or is_transformed):
            return None
        from .torch_gradients import differentiable  # which imports PyTorch

        return differentiable(op if is_compiled else op._held(), x)

    def contiguous(self, x: torch.Tensor, dtype: DType) -> torch.Tensor:
        converted = x.detach().to(getattr(self.module, dtype.name))
        result = converted.resolve_conj().resolve_neg().contiguous()
        return result if result.data_ptr() % result.element_size() == 0 else result.clone()

    def permuted(self, x: torch.Tensor, axes: Shape) -> torch.Tensor:
        return x.permute(axes)

    def join(self, real: torch.Tensor, imaginary: torch.Tensor) -> torch.Tensor:
        return self.module.complex(real, imaginary)

    def stream(self, located: Located) -> int:
        # A stream object would be of another type, without a handle, where torch.compile traces this.
        return int(self.module._C._cuda_getCurrentRawStream(located.ordinal))

    def empty(self, shape: Shape, like: torch.Tensor, located: Located) -> tuple[torch.Tensor, int]:
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
