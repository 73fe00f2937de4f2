"""Array libraries behind one small interface: some with arrays on a GPU, some with arrays in host memory."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import warnings
from functools import partial

import numpy as np


def index_of(device):
    """Number of a CUDA device from its name "cuda:N"."""
    return int(device.partition(":")[2])


class Cupy:
    """Arrays of CuPy."""

    def __init__(self):
        import cupy

        self.module = cupy
        self.array_type = cupy.ndarray
        # About 50 ms of work that only the device sees
        self._spin = cupy.RawKernel(
            """
            extern "C" __global__ void spin()
            {
                for (long long end = clock64() + 80000000; clock64() < end;) {}
            }
            """,
            "spin",
        )

    def asarray(self, array, device):
        """A device copy of a NumPy array, complete when it returns."""
        with self.module.cuda.Device(index_of(device)) as current:
            copy = self.module.asarray(array)
            current.synchronize()
        return copy

    def to_numpy(self, array):
        """A host copy of a device array."""
        return self.module.asnumpy(array)

    def pointer(self, array):
        """Address of the first element."""
        return array.data.ptr

    def device_name(self, array):
        """Name of the device that holds an array."""
        return f"cuda:{array.device.id}"

    def dtype(self, array):
        """The value type as NumPy's."""
        return array.dtype

    @contextlib.contextmanager
    def new_stream(self, device):
        """Run the block on a new stream that does not wait for the default one."""
        with self.module.cuda.Device(index_of(device)), self.module.cuda.Stream(non_blocking=True) as stream:
            yield stream

    def handle(self, stream):
        """The stream as an integer."""
        return stream.ptr

    def synchronize(self, stream):
        """Wait for a stream."""
        stream.synchronize()

    def delay(self):
        """Keep the current stream busy for tens of milliseconds."""
        self._spin((1,), (1,), ())

    def fill(self, target, source):
        """Copy a device array into another on the current stream."""
        with target.device:
            target[...] = source

    @contextlib.contextmanager
    def capture(self, device):
        """Capture the work of the block; gives a list that then holds a function that replays it."""
        replay = []
        with self.new_stream(device) as stream:
            stream.begin_capture()
            try:
                yield replay
            finally:
                graph = stream.end_capture()

        def launch():
            with self.module.cuda.Device(index_of(device)) as current:
                current.synchronize()  # what fills the inputs may be on any stream
                graph.launch(stream)
                stream.synchronize()

        replay.append(launch)


class Torch:
    """Tensors of PyTorch."""

    def __init__(self):
        import torch

        self.module = torch
        self.array_type = torch.Tensor

    def asarray(self, array, device):
        """A device copy of a NumPy array, complete when it returns."""
        copy = self.module.tensor(np.ascontiguousarray(array), device=device)
        self.module.cuda.synchronize(device)
        return copy

    def to_numpy(self, array):
        """A host copy of a device array."""
        return array.cpu().numpy()

    def pointer(self, array):
        """Address of the first element."""
        return array.data_ptr()

    def device_name(self, array):
        """Name of the device that holds an array."""
        return f"cuda:{array.device.index}"

    def dtype(self, array):
        """The value type as NumPy's."""
        return np.dtype(str(array.dtype).removeprefix("torch."))

    @contextlib.contextmanager
    def new_stream(self, device):
        """Run the block on a new stream that does not wait for the default one."""
        stream = self.module.cuda.Stream(device=device)
        with self.module.cuda.device(index_of(device)), self.module.cuda.stream(stream):
            yield stream

    def handle(self, stream):
        """The stream as an integer."""
        return stream.cuda_stream

    def synchronize(self, stream):
        """Wait for a stream."""
        stream.synchronize()

    def delay(self):
        """Keep the current stream busy for tens of milliseconds."""
        self.module.cuda._sleep(80_000_000)

    def fill(self, target, source):
        """Copy a device array into another on the current stream."""
        target.copy_(source)

    @contextlib.contextmanager
    def capture(self, device):
        """Capture the work of the block; gives a list that then holds a function that replays it."""
        replay = []
        graph = self.module.cuda.CUDAGraph()
        stream = self.module.cuda.Stream(device=device)  # that which it has is of the GPU that came first
        with self.module.cuda.device(index_of(device)), self.module.cuda.graph(graph, stream=stream):
            yield replay

        def launch():
            with self.module.cuda.device(index_of(device)):
                graph.replay()
            self.module.cuda.synchronize(device)

        replay.append(launch)


class HostLibrary:
    """What the libraries with arrays in host memory have in common."""

    writable = True  # whether its arrays can be results of others, and have strides
    array_type = np.ndarray


class HostNumpy(HostLibrary):
    """NumPy."""

    def asarray(self, array):
        """The array itself: views stay views."""
        return array

    def to_numpy(self, array):
        """A NumPy array of the same contents and type."""
        return np.asarray(array)


class HostTorch(HostLibrary):
    """PyTorch on the CPU."""

    def __init__(self):
        import torch

        self.module = torch
        self.array_type = torch.Tensor

    def asarray(self, array):
        """A tensor on the same memory where PyTorch can, which has no negative strides."""
        with warnings.catch_warnings():  # it has no tensors that are read-only, and says so
            warnings.filterwarnings("ignore", message=".*NumPy array is not writable", category=UserWarning)
            return self.module.from_numpy(array if min(array.strides, default=0) >= 0 else array.copy())

    def to_numpy(self, array):
        """A NumPy array of the same contents and type."""
        return array.numpy()


class HostStrict(HostLibrary):
    """The reference implementation of the array API standard."""

    def __init__(self):
        import array_api_strict

        self.module = array_api_strict
        self.array_type = type(array_api_strict.asarray(0.0))

    def asarray(self, array):
        """An array on the same memory."""
        return self.module.from_dlpack(array) if array.flags.writeable else self.module.asarray(array)

    def to_numpy(self, array):
        """A NumPy array of the same contents and type."""
        return np.from_dlpack(array)


class HostJax(HostLibrary):
    """JAX on the CPU, with arrays of 64 bits."""

    writable = False

    def __init__(self):
        import jax

        jax.config.update("jax_enable_x64", True)
        self.module = jax.numpy
        self.place = partial(jax.device_put, device=jax.devices("cpu")[0])
        self.array_type = jax.Array

    def asarray(self, array):
        """A copy: JAX has neither strides nor views."""
        return self.place(array)

    def to_numpy(self, array):
        """A NumPy array of the same contents and type."""
        return np.asarray(array)


class HostDlpack(HostLibrary):
    """A library that nobody knows, with arrays that know nothing but DLPack; results for it are NumPy's."""

    def asarray(self, array):
        """A view."""
        return OnlyDlpack(array)

    def to_numpy(self, array):
        """A NumPy array of the same contents and type."""
        return array


HOST_LIBRARIES = {
    "numpy": HostNumpy,
    "torch": HostTorch,
    "array_api_strict": HostStrict,
    "jax": HostJax,
    "dlpack": HostDlpack,
}


def _is_there(name):
    """Whether it is installed, and NumPy new enough to give it arrays and to take them back."""
    if name in ("dlpack", "array_api_strict") and np.lib.NumpyVersion(np.__version__) < "2.1.0":
        # Earlier ones export no array through DLPack that may only be read, and import no other.
        return False
    return name == "dlpack" or importlib.util.find_spec(name) is not None


MISSING = [name for name in HOST_LIBRARIES if not _is_there(name)]


def _device_to_export_from(array):
    """PyTorch exports what lies on the current GPU, and nothing else."""
    if type(array).__module__ == "torch" and array.is_cuda:
        return sys.modules["torch"].cuda.device(array.device)
    return contextlib.nullcontext()


class OnlyDlpack:
    """A producer that knows nothing but DLPack."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        with _device_to_export_from(self._array):
            return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


class OnlyCudaArrayInterface:
    """A producer that knows nothing but __cuda_array_interface__, with changes to what it says."""

    def __init__(self, array, **changes):
        self._array = array
        self._changes = changes

    @property
    def __cuda_array_interface__(self):
        return {**self._array.__cuda_array_interface__, **self._changes}
