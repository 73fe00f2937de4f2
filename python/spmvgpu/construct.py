"""`aslinearoperator`: from a matrix and what its owner wants to an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, overload

from . import parts
from ._types import Device, Format
from .arguments import one_of, plain_options, real_number, whole_number
from .arrays import stream_handle
from .devices import CPU, at_most, device_name, resolve_device, thread_count
from .formats import check_format
from .inputs.canonical import Symmetric, canonical_csr, checked_symmetry
from .inputs.compressed import wanted_dtype
from .inputs.source import device_csr
from .operator import SparseOperator
from .origins import OneDevice, spread
from .planning.budget import BUDGET
from .planning.choosing import MODES, PARTITIONED, choose
from .planning.placement import checked_request
from .planning.reordering import Reorder, check_reorder, in_order
from .spread import MultiDeviceOperator
from .steps import recorded, step
from .stored import Stored
from .symmetry import declared


@overload
def aslinearoperator(
    A: Any,
    format: Format = "auto",
    device: Device = "auto",
    dtype: Any = None,
    *,
    shape: tuple[int, int] | None = None,
    symmetric: Symmetric = None,
    reorder: Reorder = None,
    stream: Any = None,
    tune: str = "cached",
    budget: float = BUDGET,
    powers: Sequence[float] | None = None,
    partition: Any = "nnz",
    memory_limit: int | None = None,
    max_threads: int | None = None,
    **format_options: Any,
) -> SparseOperator: ...


@overload
def aslinearoperator(
    A: Any,
    format: Format = "auto",
    *,
    device: list[str] | tuple[str, ...],
    dtype: Any = None,
    shape: tuple[int, int] | None = None,
    symmetric: Symmetric = None,
    reorder: Reorder = None,
    stream: Any = None,
    tune: str = "cached",
    budget: float = BUDGET,
    powers: Sequence[float] | None = None,
    partition: Any = "nnz",
    memory_limit: int | None = None,
    max_threads: int | None = None,
    **format_options: Any,
) -> MultiDeviceOperator: ...


@overload
def aslinearoperator(
    A: Any,
    format: Format,
    device: list[str] | tuple[str, ...],
    dtype: Any = None,
    *,
    shape: tuple[int, int] | None = None,
    symmetric: Symmetric = None,
    reorder: Reorder = None,
    stream: Any = None,
    tune: str = "cached",
    budget: float = BUDGET,
    powers: Sequence[float] | None = None,
    partition: Any = "nnz",
    memory_limit: int | None = None,
    max_threads: int | None = None,
    **format_options: Any,
) -> MultiDeviceOperator: ...


def aslinearoperator(
    A: Any,
    format: Format = "auto",
    device: Device | Sequence[str] = "auto",
    dtype: Any = None,
    *,
    shape: tuple[int, int] | None = None,
    symmetric: Symmetric = None,
    reorder: Reorder = None,
    stream: Any = None,
    tune: str = "cached",
    budget: float = BUDGET,
    powers: Sequence[float] | None = None,
    partition: Any = "nnz",
    memory_limit: int | None = None,
    max_threads: int | None = None,
    **format_options: Any,
) -> SparseOperator:
    """A sparse matrix as an operator on a GPU, on the CPU's cores, or on several devices at once.

    Parameters
    ----------
    A : sparse matrix
        Any SciPy sparse array or matrix, a CuPy sparse matrix, one of another library that has `tocsr` or
        `to_scipy_sparse`, a sparse data frame of pandas, a ``(data, indices, indptr)`` tuple with
        `shape` (NumPy arrays, or arrays on the operator's GPU), or a dense 2-D array. Real or complex;
        integers and bool become float64. Never changed: duplicates are summed on a copy. A `SparseOperator`
        is given back as it is if nothing else is asked for; otherwise its matrix is taken.
    format : str, default "auto"
        One of `formats()`, "auto" to choose by the matrix and the device, or "partitioned": the rows sorted
        by length, the long ones as csr and the others as ellpack, cut where the model of Guo et al. 2011 says
        or after `separator` rows; one whole format where cutting brings nothing.
    device : str or list of str, default "auto"
        "cpu", "cuda", "cuda:N", or "auto": the first GPU where there is one, else the CPU. With a list, as in
        ``["cuda:0", "cuda:1", "cpu"]``, each device gets some of the rows, in a format that suits them; the
        result is a `MultiDeviceOperator` then.
    dtype : {None, float32, float64, complex64, complex128}
        Type that the matrix is stored and multiplied in. None keeps these four and makes everything else
        float64; longdouble is refused then, and rounded where a dtype is given. Complex values are never
        stored as real ones.
    shape : tuple of int, optional
        (rows, columns), for a ``(data, indices, indptr)`` tuple.
    symmetric : {None, False, True, "lower", "upper", "hermitian"}
        True: `A` is symmetric, so it serves as its own transpose. "lower" or "upper": only that triangle is
        in `A`. "hermitian": `A` is its own conjugate transpose, which is checked. None: nothing is known, and
        `format="auto"` may find out on a GPU. False: it need not look, and new values may be of any kind.
    reorder : {None, False, "rcm", "clusters", "auto"}
        In which order the rows and columns of a square matrix are stored, so that neighbouring rows gather
        neighbouring entries of x. Invisible outside; a product then gathers x once more, solvers of `linalg`
        permute their vectors once. "rcm": reverse Cuthill-McKee, which takes the CPU as long as thousands of
        products on a GPU. "clusters": by clusters of rows that are near each other in a mesh, found on the
        operator's device in some dozen products. "auto": "rcm" where entries lie far from the diagonal and
        come at least twice as close. None: as given, but ``format="auto"`` may find on a GPU, within its
        budget, that clusters are faster. False: as given.
    stream : CUDA stream, optional
        Integer handle, CuPy or PyTorch stream that products with device arrays run on. By default they run on
        the current stream of the library that the array comes from.
    tune : {"cached", "off", "full"}
        How much is tried. "cached": with format="auto" on a GPU, the two or three formats that are predicted
        to be the fastest are timed with a few products, unless the prediction is clear; on a CPU it is csr.
        An earlier result for a matrix like this one goes before either. "off": nothing is timed or looked up.
        "full": also the tunables of the formats, or of the one format asked for, are tried on the device,
        unless that was done before. What was found is kept on disk, see `spmvgpu.cache`, and
        `SparseOperator.tuning` for what it took.
    budget : float, default 50
        How long tune="cached" may choose, in products of the matrix, beyond the upload: formats are tried
        only if predictions, conversions and trials are expected to take no longer, and no more of them once
        that time is used up. Where it is too short for two, which it is below some millions of non-zeros, the
        prediction decides. 0: never try any; ``math.inf``: all that are predicted to be close.
    powers : sequence of float, optional
        Relative computing powers of the devices in the list. By default they are equal for devices of one
        kind, and measured otherwise.
    partition : {"nnz", "rows", "pmf"} or Partition, default "nnz"
        How rows are given to the devices in the list: neighbouring rows with non-zeros, or as many rows, as
        the powers say; or rows of similar length together; see `spmvgpu.partition`.
    memory_limit : int, optional
        Bytes to take of a GPU's memory; by default nearly all that is free. With a limit, or a list of
        devices, rows that do not fit are done by the CPU or streamed through the GPU.
    max_threads : int, optional
        Threads of the CPU that products, and everything else that is done with the operator, take at most. By
        default as many as `limit_threads` says. The results have the same bits whatever the number. Only for
        an operator that is, in part at least, on the CPU. `T` and whatever else is made of the operator there
        keep to it too.
    **format_options
        Tunables of the format, see `format_options`.

    Returns
    -------
    SparseOperator

    Raises
    ------
    TypeError
        For a dtype that is not supported, or an option that the format does not have.
    ValueError
        For arrays that do not describe a matrix, or not one as `symmetric` says, an unknown format or device,
        or an option out of its range.
    FormatError
        If the format does not fit the matrix; says what it would cost and which format fits.
    MemoryError
        If the device has not enough memory; says how much was asked for and is free.
    CudaError
        If a CUDA device is asked for that is not there, or a CUDA call fails.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp, spmvgpu as sg
    >>> A = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(5, 5))
    >>> op = sg.aslinearoperator(A, device="cpu")
    >>> op @ np.ones(5)
    array([1., 0., 0., 0., 1.])

    In a format with a tunable of its own, from one triangle, and over several devices:

    >>> sg.aslinearoperator(A, format="ellr_t", device="cpu", threads_per_row=4).options["threads_per_row"]
    4
    >>> half = sg.aslinearoperator(sp.tril(A), device="cpu", symmetric="lower")
    >>> half @ np.ones(5)
    array([1., 0., 0., 0., 1.])
    >>> sg.aslinearoperator(A, device=["cpu", "cpu"]).device
    ('cpu', 'cpu')
    """
    if isinstance(A, SparseOperator) and not format_options:
        asked = (format, device, dtype, shape, symmetric, reorder, stream, tune, budget)
        if _is_default(*asked, powers, partition, memory_limit, max_threads):
            return A
    default_stream = None if stream is None else whole_number("stream", stream_handle(stream), 0, 2**64 - 1)
    format_options = _checked(format, tune, reorder, format_options)
    budget = _checked_budget(budget)
    checked_symmetry(symmetric)
    is_spread = isinstance(device, list | tuple) or not (isinstance(partition, str) and partition == "nnz")
    if is_spread or powers is not None or memory_limit is not None:
        if reorder in ("rcm", "clusters"):
            raise ValueError(
                f"reorder={reorder!r} is for one device; reorder the matrix itself before it is spread"
            )
        request = checked_request(device, format, tune, format_options, powers, partition, memory_limit)
        request = replace(request, threads=_checked_threads(max_threads, request.devices), budget=budget)
        with at_most(request.threads):
            csr = canonical_csr(A, shape=shape, dtype=dtype, symmetric=symmetric)
            return spread(csr, replace(request, symmetric=declared(symmetric, csr.dtype)), default_stream)
    ordinal = resolve_device(device)
    threads = _checked_threads(max_threads, [device])
    with at_most(threads), recorded() as recording:
        csr = _csr_for(A, format, ordinal, dtype, shape, symmetric, reorder)
        if format == PARTITIONED and reorder:
            raise ValueError(
                f"reorder={reorder!r} does not go with format 'partitioned', which orders the rows"
            )
        order, stored = None, csr
        if reorder:
            with step("order"):
                order, stored = in_order(csr, reorder, ordinal)
        symmetry, is_free = declared(symmetric, csr.dtype), reorder is None
        choice, matrix, tuning = choose(
            stored, format, ordinal, tune, format_options, symmetry, budget, may_reorder=is_free
        )
    tuning.steps = recording.steps()
    if order is not None:
        choice, matrix = parts.reordered(choice, order), parts.wrapped(matrix, order)
    is_asked = format != "auto"
    origin = OneDevice(choice, ordinal, device, symmetry, default_stream, tuning, threads, is_asked)
    return SparseOperator(Stored(matrix, csr.shape, origin))


def _csr_for(
    A: Any, format: str, ordinal: int, dtype: Any, shape: Any, symmetric: Symmetric, reorder: Reorder
) -> Any:
    """The canonical matrix, on a GPU where nothing needs it elsewhere."""
    said = checked_symmetry(symmetric)
    needs_host = format == PARTITIONED or reorder in ("rcm", "auto")
    if ordinal != CPU and not needs_host and said in (None, True):
        found = device_csr(A, ordinal, shape, wanted_dtype(dtype))
        if found is not None and (said is None or found.shape[0] == found.shape[1]):
            return found
    with step("checks"):
        return canonical_csr(A, shape=shape, dtype=dtype, symmetric=symmetric)


def _checked_budget(budget: Any) -> float:
    allowed = "a number of products from 0 on, or math.inf"
    products = real_number("budget", budget, allowed)
    if products < 0:
        raise ValueError(f"budget={budget!r} is not allowed; give {allowed}")
    return products


def _checked_threads(max_threads: Any, devices: Sequence[Any]) -> int | None:
    """The bound of the CPU's threads, which an operator on GPUs alone has no use for."""
    if max_threads is None:
        return None
    count = thread_count("max_threads", max_threads)
    names = [device_name(resolve_device(name)) for name in devices]
    if "cpu" not in names:
        raise ValueError(
            f"max_threads={max_threads!r} is for the CPU, and the operator would be on {', '.join(names)}; "
            "leave it out, or give device='cpu'"
        )
    return count


def _is_default(*asked: Any) -> bool:
    """Whether the arguments after `A`, in the order of the signature, are all as if they were not given."""
    defaults = ("auto", "auto", None, None, None, None, None, "cached", BUDGET, None, "nnz", None, None)
    return all(
        given is default or (isinstance(given, str | int | float) and given == default)
        for given, default in zip(asked, defaults, strict=True)
    )


def _checked(format: Any, tune: Any, reorder: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as plain numbers and names; all four are refused here, before the matrix is converted."""
    if not isinstance(format, str) or format not in ("auto", PARTITIONED):
        check_format(format)
    one_of("tune", tune, MODES)
    check_reorder(reorder)
    return plain_options(options)
