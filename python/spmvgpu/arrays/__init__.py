"""Array libraries: where an array lies, and how to make copies and results of the same kind.

Arrays in host memory are used through NumPy views of them. Arrays on a CUDA device are used through their
address; CuPy and PyTorch are asked for it through their own attributes, which takes a fraction of the time of
the protocols; every other library goes through DLPack or the CUDA Array Interface.
"""

from __future__ import annotations

import operator
import sys
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from .. import _core
from ..devices import CPU


class Located(NamedTuple):
    """Where an array lies."""

    pointer: int  # on a CUDA device; 0 in host memory, which is used through `host`
    shape: tuple[int, ...]
    dtype: Any  # NumPy's, or the library's own for a type that NumPy lacks
    ordinal: int  # CUDA device, or CPU
    contiguous: bool  # C order without gaps, and aligned; on a CUDA device to whole items
    writable: bool = True
    host: Any = None  # a NumPy view of an array in host memory
    owner: Any = None  # what must stay alive while the pointer is used
    stream: int | None = None  # stream to order the work after, where the array itself names one


class Library(Protocol):
    """What products ask of an array library; after the first four, of one with arrays on CUDA devices."""

    moves: bool  # whether its arrays may lie elsewhere than the operator, and are copied to it and back

    def locate(self, x: Any, name: str) -> Located:
        """Where the argument called `name` lies."""

    def from_host(self, result: npt.NDArray[Any], like: Any) -> Any:
        """A NumPy array that was made for the purpose, as an array of the same kind."""

    def transposed(self, x: Any) -> Any:
        """The transpose of a 2-D array, which may be a view."""

    def stream(self, located: Located) -> int:
        """The CUDA stream that work on the array must be ordered after."""

    def strides(self, x: Any, located: Located) -> tuple[int, ...] | None:
        """Elements from row to row, and from column to column; None if no aligned array lies like that."""

    def contiguous(self, x: Any, dtype: np.dtype[Any]) -> Any:
        """`x` in C order as `dtype`; itself if it is so."""

    def real_and_imaginary(self, x: Any) -> tuple[Any, Any]:
        """Both parts of a complex array, which may be views."""

    def join(self, real: Any, imaginary: Any) -> Any:
        """The complex array of two parts."""

    def empty(self, shape: tuple[int, ...], like: Any, located: Located) -> tuple[Any, int]:
        """A new array of the same kind, type and device, and its address."""

    def deliver(self, result: Any, like: Any, stream: int) -> Any:
        """What the caller gets for `result`, made by `empty`, once what fills it is queued on `stream`."""


class _Numpy:
    moves = True

    def locate(self, x: Any, name: str) -> Located:
        if type(x) is not np.ndarray:
            x = as_array(name, x)
        flags = x.flags
        return Located(0, x.shape, x.dtype, CPU, flags.c_contiguous and flags.aligned, flags.writeable, x)

    def transposed(self, x: Any) -> Any:
        return x.T

    def from_host(self, result: npt.NDArray[Any], like: Any) -> Any:
        return result


class _Cupy:
    moves = False

    def locate(self, x: Any, name: str) -> Located:
        memory, dtype = x.data, x.dtype
        pointer = memory.ptr
        in_order = x.flags.c_contiguous and pointer % dtype.itemsize == 0
        return Located(pointer, x.shape, dtype, memory.device_id, in_order)

    def from_host(self, result: npt.NDArray[Any], like: Any) -> Any:
        raise AssertionError("CuPy has no arrays in host memory")

    def stream(self, located: Located) -> int:
        return int(sys.modules["cupy"].cuda.get_current_stream(located.ordinal).ptr)

    def strides(self, x: Any, located: Located) -> tuple[int, ...] | None:
        return _in_elements(x.strides, located)

    def contiguous(self, x: Any, dtype: np.dtype[Any]) -> Any:
        with x.device:
            result = sys.modules["cupy"].ascontiguousarray(x, dtype)
            return result if result.data.ptr % result.itemsize == 0 else result.copy()

    def transposed(self, x: Any) -> Any:
        return x.T

    def real_and_imaginary(self, x: Any) -> tuple[Any, Any]:
        return x.real, x.imag

    def join(self, real: Any, imaginary: Any) -> Any:
        with real.device:
            result = sys.modules["cupy"].empty(real.shape, np.result_type(real.dtype, np.complex64))
            result.real = real
            result.imag = imaginary
        return result

    def empty(self, shape: tuple[int, ...], like: Any, located: Located) -> tuple[Any, int]:
        cupy = sys.modules["cupy"]
        if cupy.cuda.runtime.getDevice() == located.ordinal:
            result = cupy.ndarray(shape, located.dtype)
        else:
            with like.device:
                result = cupy.ndarray(shape, located.dtype)
        return result, result.data.ptr

    def deliver(self, result: Any, like: Any, stream: int) -> Any:
        return result


class _Torch:
    moves = False

    def __init__(self) -> None:
        self._dtypes: dict[Any, Any] = {}

    def locate(self, x: Any, name: str) -> Located:
        device, dtype = x.device, self._dtypes.get(x.dtype)
        if dtype is None:
            dtype = self._dtypes[x.dtype] = _numpy_dtype_of_torch(x.dtype)
        if device.type == "cuda":
            # A view that negates or conjugates: what lies at its address is something else.
            in_order = x.is_contiguous() and not x.is_neg() and not x.is_conj()
            try:
                pointer = x.data_ptr()
            except RuntimeError:
                raise _not_dense(x, name) from None
            return Located(
                pointer, tuple(x.shape), dtype, device.index, in_order and pointer % x.element_size() == 0
            )
        if device.type != "cpu":
            raise ValueError(
                f"{name} is on the PyTorch device {str(device)!r}; allowed are tensors on 'cpu' and 'cuda'"
            )
        if not isinstance(dtype, np.dtype):  # NumPy can have no view of it
            in_order = x.is_contiguous()
            x = x.detach().to(
                sys.modules["torch"].complex64 if dtype.is_complex else sys.modules["torch"].float32
            )
            return Located(0, tuple(x.shape), dtype, CPU, in_order, True, x.resolve_conj().numpy())
        try:
            host = x.detach().resolve_conj().resolve_neg().numpy()
        except (RuntimeError, TypeError):
            raise _not_dense(x, name) from None
        is_writable = not x.is_neg() and not x.is_conj()
        return Located(0, host.shape, dtype, CPU, host.flags.c_contiguous, is_writable, host)

    def from_host(self, result: npt.NDArray[Any], like: Any) -> Any:
        return sys.modules["torch"].from_numpy(result)

    def stream(self, located: Located) -> int:
        return int(sys.modules["torch"].cuda.current_stream(located.ordinal).cuda_stream)

    def strides(self, x: Any, located: Located) -> tuple[int, ...] | None:
        if x.is_neg() or x.is_conj() or x.data_ptr() % x.element_size():
            return None
        return tuple(x.stride())

    def contiguous(self, x: Any, dtype: np.dtype[Any]) -> Any:
        converted = x.detach().to(getattr(sys.modules["torch"], dtype.name))
        result = converted.resolve_conj().resolve_neg().contiguous()
        return result if result.data_ptr() % result.element_size() == 0 else result.clone()

    def transposed(self, x: Any) -> Any:
        return x.t()

    def real_and_imaginary(self, x: Any) -> tuple[Any, Any]:
        return x.real, x.imag

    def join(self, real: Any, imaginary: Any) -> Any:
        return sys.modules["torch"].complex(real, imaginary)

    def empty(self, shape: tuple[int, ...], like: Any, located: Located) -> tuple[Any, int]:
        result = like.new_empty(shape)
        return result, result.data_ptr()

    def deliver(self, result: Any, like: Any, stream: int) -> Any:
        return result


def _numpy_dtype_of_torch(dtype: Any) -> Any:
    try:
        found = np.dtype(str(dtype).removeprefix("torch."))
    except TypeError:  # bfloat16 and other types that NumPy lacks
        return dtype
    # Other packages teach NumPy some of those, but PyTorch does not hand them over for all that.
    return found if found.isbuiltin == 1 else dtype


def _not_dense(x: Any, name: str) -> TypeError:
    return TypeError(
        f"{name} is a tensor of layout {x.layout}, whose memory cannot be read; give a dense one"
    )


class _Protocols:
    """A library that is only known by DLPack or the CUDA Array Interface."""

    moves = False

    def locate(self, x: Any, name: str) -> Located:
        if hasattr(x, "__dlpack__"):
            return self._locate_dlpack(x, name)
        interface = x.__cuda_array_interface__
        if interface.get("mask") is not None:
            raise TypeError(f"{name} has a mask, which products cannot use; give an array without a mask")
        dtype = np.dtype(interface["typestr"])
        shape = tuple(interface["shape"])
        pointer = int(interface["data"][0])
        strides = interface.get("strides")
        in_order = strides is None or tuple(strides) == _c_strides(shape, dtype.itemsize)
        in_order = in_order and pointer % dtype.itemsize == 0
        ordinal = _core.device_of(pointer) if pointer else 0
        writable = not interface["data"][1]
        stream = interface.get("stream")
        return Located(pointer, shape, dtype, ordinal, in_order, writable, None, x, stream)

    def _locate_dlpack(self, x: Any, name: str) -> Located:
        kind, number = (int(part) for part in x.__dlpack_device__())
        if kind in (_DLPACK_CPU, _DLPACK_CUDA_HOST):
            host = _host_view(x, name)
            flags = host.flags
            return Located(
                0, host.shape, host.dtype, CPU, flags.c_contiguous and flags.aligned, flags.writeable, host
            )
        if kind not in (_DLPACK_CUDA, _DLPACK_CUDA_MANAGED):
            raise ValueError(
                f"{name} is on a device of DLPack type {kind}{_DLPACK_NAMES.get(kind, '')}; allowed are CPU "
                "and CUDA arrays"
            )
        view = _core.DlpackView(x.__dlpack__(stream=_LEGACY_DEFAULT_STREAM))
        try:
            dtype = np.dtype(f"{_DLPACK_KINDS[view.type_code]}{view.type_bits}".replace("bool8", "bool"))
        except (KeyError, TypeError):
            raise TypeError(
                f"{name} has DLPack type code {view.type_code} with {view.type_bits} bits, which NumPy does "
                "not have; convert it to a NumPy dtype"
            ) from None
        in_order = view.contiguous and view.pointer % dtype.itemsize == 0
        return Located(view.pointer, tuple(view.shape), dtype, number, in_order, True, None, view)

    def from_host(self, result: npt.NDArray[Any], like: Any) -> Any:
        if hasattr(like, "__array_namespace__"):
            return like.__array_namespace__().from_dlpack(result)
        return result

    def stream(self, located: Located) -> int:
        return _LEGACY_DEFAULT_STREAM if located.stream is None else int(located.stream)

    def strides(self, x: Any, located: Located) -> tuple[int, ...] | None:
        if isinstance(located.owner, _core.DlpackView):
            return None if located.pointer % located.dtype.itemsize else tuple(located.owner.strides)
        strides = x.__cuda_array_interface__.get("strides")
        return _in_elements(strides or _c_strides(located.shape, located.dtype.itemsize), located)

    def contiguous(self, x: Any, dtype: np.dtype[Any]) -> Any:
        located = self.locate(x, "x")
        if located.contiguous and located.dtype == dtype:
            return x
        if located.dtype != dtype and hasattr(x, "__array_namespace__"):
            namespace = x.__array_namespace__()
            converted = namespace.astype(x, getattr(namespace, dtype.name))
            located = self.locate(converted, "x")
            if located.contiguous and located.dtype == dtype:
                return converted
        raise TypeError(
            f"x is a {'' if located.contiguous else 'non-'}contiguous {type(x).__name__} of dtype "
            f"{located.dtype} that cannot be converted or copied; give a C-contiguous array of dtype "
            f"{dtype}, or a CuPy or PyTorch array"
        )

    def transposed(self, x: Any) -> Any:
        if hasattr(x, "__array_namespace__"):
            return x.__array_namespace__().permute_dims(x, (1, 0))
        located = self.locate(x, "x")
        if located.host is not None:
            return located.host.T
        raise TypeError(
            f"x is a 2-D {type(x).__name__} on a CUDA device that cannot be transposed; give its columns one "
            "by one, or a CuPy or PyTorch array"
        )

    def real_and_imaginary(self, x: Any) -> tuple[Any, Any]:
        if hasattr(x, "__array_namespace__"):
            namespace = x.__array_namespace__()
            return namespace.real(x), namespace.imag(x)
        raise TypeError(
            f"x is a complex {type(x).__name__} on a CUDA device that cannot be split; give its real and "
            "imaginary parts separately, or a CuPy or PyTorch array"
        )

    def join(self, real: Any, imaginary: Any) -> Any:
        raise TypeError(
            f"a complex result cannot be returned as a {type(real).__name__} on a CUDA device; give the real "
            "and imaginary parts separately, or a CuPy or PyTorch array"
        )

    def empty(self, shape: tuple[int, ...], like: Any, located: Located) -> tuple[Any, int]:
        result = _core.DeviceArray(shape, located.dtype, located.ordinal)
        return result, result.pointer

    def deliver(self, result: Any, like: Any, stream: int) -> Any:
        # Nobody can say on which stream the result will be read, so it is finished first.
        _core.synchronize(stream, result.__dlpack_device__()[1])
        return self.from_host(result, like)


def _host_view(x: Any, name: str) -> npt.NDArray[Any]:
    try:
        return np.from_dlpack(x)
    except (BufferError, RuntimeError, TypeError, ValueError) as refused:
        # A read-only array cannot cross DLPack before its version 1.0, which NumPy reads from 2.1 on. What
        # comes instead may be a copy, so nothing must be written to it.
        if hasattr(x, "__array__") or hasattr(x, "__array_interface__"):
            view = as_array(name, x).view()
            view.flags.writeable = False
            return view
        raise TypeError(
            f"{name} is a {type(x).__name__} that NumPy cannot read through DLPack: {refused}; give a NumPy "
            "array"
        ) from None


_DLPACK_CPU, _DLPACK_CUDA, _DLPACK_CUDA_HOST, _DLPACK_CUDA_MANAGED = 1, 2, 3, 13
_DLPACK_NAMES = {
    4: " (OpenCL)",
    7: " (Vulkan)",
    8: " (Metal)",
    10: " (ROCm)",
    14: " (oneAPI)",
    15: " (WebGPU)",
}
_DLPACK_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
_LEGACY_DEFAULT_STREAM = 1


class _Traced:
    """What JAX hands a function in place of arrays, to find out what it does."""

    moves = True

    def locate(self, x: Any, name: str) -> Located:
        raise TypeError(
            f"{name} is traced by JAX (jax.jit, jax.grad, jax.vmap, ...), which cannot trace an operator; "
            "call the operator outside the transformed function, or inside it through jax.pure_callback, "
            "with jax.custom_vjp for a gradient"
        )

    def from_host(self, result: npt.NDArray[Any], like: Any) -> Any:
        raise AssertionError("arrays traced by JAX have no memory")


NUMPY: Any = _Numpy()
TORCH: Any = _Torch()
_KNOWN: dict[str, Library] = {"numpy": NUMPY, "cupy": _Cupy(), "torch": TORCH}
_PROTOCOLS = _Protocols()
_TRACED: Any = _Traced()
_by_type: dict[type, Library | None] = {np.ndarray: NUMPY}


def library_of(x: Any) -> Library | None:
    """The library that an array belongs to; None for what is no array (lists, operators, numbers)."""
    kind = type(x)
    try:
        return _by_type[kind]
    except KeyError:
        pass
    library: Library | None = None
    if isinstance(x, np.ndarray):
        library = NUMPY
    elif isinstance(x, _tracers()):
        library = _TRACED
    elif hasattr(x, "__dlpack__") or hasattr(x, "__cuda_array_interface__"):
        roots = (base.__module__.partition(".")[0] for base in kind.__mro__)
        library = next((_KNOWN[root] for root in roots if root in _KNOWN), _PROTOCOLS)
    _by_type[kind] = library
    return library


def _tracers() -> Any:
    """The class of what JAX traces; none where nobody has imported it."""
    return getattr(getattr(sys.modules.get("jax"), "core", None), "Tracer", ())


def taken(name: str, x: Any, wanted: str = "an array") -> tuple[Any, Library]:
    """What a caller gives for a vector or columns, as an array, and its library.

    The one rule for all of them: an array of a library stays what it is, and everything else is what NumPy
    makes of it: lists, ranges, buffers, objects of pandas, xarray and h5py. `wanted` says what else may be
    given, for the message.

    Raises
    ------
    TypeError
        For what is no array, for a sparse matrix, and for a masked array that masks something.
    ValueError
        For nested lists of different lengths, and for what cannot be read.
    """
    library = library_of(x)
    if library is not None:
        return x, library
    if is_sparse(x):
        raise TypeError(
            f"{name} is a sparse {type(x).__name__}; give a dense array, such as {name}.toarray()"
        )
    array = as_array(name, x)
    if array.ndim == 0:
        raise TypeError(
            f"{name} must be {wanted}, not {type(x).__name__}, which NumPy cannot convert to an array"
        )
    return array, NUMPY


def is_sparse(x: Any) -> bool:
    """Whether this is a sparse matrix, of SciPy's or of another library that makes SciPy's of its own."""
    return (hasattr(x, "tocsr") or hasattr(x, "to_scipy_sparse")) and not hasattr(x, "matvec")


def as_array(name: str, given: Any) -> npt.NDArray[Any]:
    """A caller's array, as an array of NumPy's own; ValueError or TypeError that names it if it is none."""
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        raise TypeError(f"{name} is a masked array with masked entries; give {name}.filled(value)")
    try:
        return np.asarray(given)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(
            f"{name} is of type {type(given).__name__}, which NumPy cannot convert to an array: {error}"
        ) from None


def host_array(name: str, x: Any) -> npt.NDArray[Any]:
    """What a caller gives for a vector or columns, as an array of NumPy's; TypeError if it is on a GPU."""
    x, library = taken(name, x)
    host: npt.NDArray[Any] | None = library.locate(x, name).host
    if host is None:
        raise TypeError(f"{name} is a {type(x).__name__} on a GPU; give a NumPy array")
    return host


def stream_handle(stream: Any) -> int:
    """A CUDA stream as an integer: from an integer, or from a CuPy, PyTorch or Numba stream object."""
    for name in ("ptr", "cuda_stream", "handle"):
        value = getattr(stream, name, None)
        if value is not None:
            return int(getattr(value, "value", value) or 0)
    try:
        return operator.index(stream)
    except TypeError:
        raise TypeError(
            "stream must be an integer handle or an object with .ptr (CuPy) or .cuda_stream (PyTorch), "
            f"not {stream!r}"
        ) from None


def _in_elements(strides: tuple[int, ...], located: Located) -> tuple[int, ...] | None:
    item = located.dtype.itemsize
    if located.pointer % item or any(stride % item for stride in strides):
        return None
    return tuple(stride // item for stride in strides)


def _c_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    strides = [itemsize] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return tuple(strides)
