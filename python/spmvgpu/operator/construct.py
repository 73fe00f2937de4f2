"""`aslinearoperator`: from a matrix and what its owner wants to an operator."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, overload

from .. import _core
from .._util.arguments import one_of, plain_options, real_number, whole_number, with_hints
from .._util.linear_operator import LinearOperator
from .._util.steps import Recording
from .._util.types import Device, Devices, DType, Format
from ..arrays import AnyArray, library_of, stream_handle
from ..arrays.products import common_type
from ..devices import CPU, at_most, device_name, thread_count
from ..formats import check_format, formats
from ..inputs.canonical import ForeignOperator, Symmetric, canonical_csr, checked_symmetry, source_of
from ..inputs.rows import DividedCsr, divided_csr
from ..multi_device.division import Division
from ..multi_device.operator import MultiDeviceOperator
from ..multi_device.partitions import Partition
from ..planning.reordering import NAMED, Reorder, check_reorder
from ..planning.request import BUDGET, CHOOSERS, MODES, Request
from ..planning.symmetry import declared
from .batch import BatchedOperator, block_diagonal
from .build import build
from .description import Description, resolved
from .operands import refuse_stack
from .operator import SparseOperator, operator_of

P = ParamSpec("P")


class _ByDevice(Protocol[P]):
    """What type checkers are told of `aslinearoperator`: for a list of devices, it gives another class."""

    @overload
    def __call__(
        self, A: object, format: Format = ..., device: Device = ..., *args: P.args, **kwargs: P.kwargs
    ) -> SparseOperator: ...
    @overload
    def __call__(
        self, A: object, format: Format = ..., device: Devices = ..., *args: P.args, **kwargs: P.kwargs
    ) -> MultiDeviceOperator: ...
    @overload
    def __call__(self, A: object, *, values: object, **options: Any) -> BatchedOperator: ...


def _by_device(
    function: Callable[Concatenate[object, Format, Device | Devices, P], SparseOperator | BatchedOperator],
) -> _ByDevice[P]:
    return function  # type: ignore[return-value]


@_by_device  # type: ignore[arg-type]  # for its first three parameters may be given by name, too
@with_hints
def aslinearoperator(
    A: object,
    format: Format = "auto",
    device: Device | Devices = "auto",
    dtype: object = None,
    *,
    shape: tuple[int, int] | None = None,
    symmetric: Symmetric = None,
    reorder: Reorder = None,
    stream: object = None,
    tune: str = "cached",
    budget: float = BUDGET,
    powers: Sequence[float] | None = None,
    partition: str | Partition = "nnz",
    memory_limit: int | None = None,
    max_threads: int | None = None,
    values: None = None,
    **format_options: Any,
) -> SparseOperator | BatchedOperator:
    """Return a sparse matrix as an operator on a GPU, on the CPU, or on several devices.

    Parameters
    ----------
    A : sparse matrix
        A SciPy sparse array or matrix, a CuPy sparse matrix, a PyTorch sparse tensor (CSR, CSC, BSR or COO),
        a matrix of another library with a method `tocsr` or `to_scipy_sparse`, a sparse data frame of pandas,
        a dense 2-D array, or a ``(data, indices, indptr)`` tuple together with `shape`. Tensors, and the
        arrays of a tuple, may be on the GPU of the operator. `A` is never changed; duplicates are summed in a
        copy. A `SparseOperator` is returned unchanged if no other argument is given. Of sums, products,
        powers and multiples of operators, as ``R @ A @ P``, the entries are computed on their device.
    format : str, default "auto"
        The storage format, one of `formats()`. "auto" chooses one for the matrix and the device.
        "partitioned" stores long rows as csr and short rows as ellpack. `spmvgpu.partition.separator` says
        where to cut, or the option `separator` with a number of rows. A matrix that gains nothing from a cut
        has one format.
    device : str or list of str, default "auto"
        "cpu", "cuda" or "cuda:N". "auto" takes the first GPU, and the CPU if there is none. A list, as in
        ``["cuda:0", "cuda:1", "cpu"]``, divides the rows among these devices and gives a
        `MultiDeviceOperator`; each device has a format that suits its rows.
    dtype : {None, float32, float64, complex64, complex128}
        Data type of the stored matrix and of its products. None keeps any of these four and converts other
        types to float64. It refuses longdouble, which an explicit `dtype` rounds. A complex matrix cannot
        become a real one.
    shape : tuple of int, optional
        The shape (rows, columns) that a ``(data, indices, indptr)`` tuple needs.
    symmetric : {None, False, True, "lower", "upper", "hermitian"}
        True: the matrix is symmetric, which makes it its own transpose. "lower", "upper": `A` holds only that
        triangle of a symmetric matrix. "hermitian": the matrix equals its conjugate transpose; this is
        checked. None: nothing is known, and ``format="auto"`` may look for symmetry on a GPU. False: it does
        not look, and later values may be of any kind.
    reorder : {None, False, "rcm", "clusters", "columns", "auto"}
        The order in which the rows and columns of the matrix are stored. An order in which neighbouring rows
        read neighbouring entries of x is faster. Products and solvers hide the order: a product permutes x, a
        solver of `linalg` permutes its vectors once. "rcm": reverse Cuthill-McKee, which takes the CPU as
        long as thousands of products on a GPU. "clusters": clusters of rows that are close in a mesh, found
        on the device in the time of some dozen products. Both need a square matrix. "columns": the rows as
        given, the columns with the most entries first, for matrices some of whose columns are in most rows;
        found in the time of about a hundred products. "auto": "rcm" if entries lie far from the diagonal and
        come at least twice as close. None: the given order, but ``format="auto"`` may find clusters on a GPU
        within its `budget`, and with ``tune="full"`` it tries all three. False: the given order.
    stream : CUDA stream, optional
        The stream for products with arrays on the device: an integer handle, or a stream of CuPy or PyTorch.
        The default is the current stream of the array's library.
    tune : {"cached", "off", "full"}
        How to choose the format. "cached": reuse the result for a similar matrix if there is one. Otherwise
        a GPU times the two or three formats with the best predictions, unless one is clearly the best, and
        the CPU takes csr, or stencil for a matrix whose rows repeat. "off": time nothing and reuse nothing.
        "full": time every format, in the given order of rows and in others, or all options of the given
        format, unless that was done before. No trial begins after 2 s, or 40 times the time until the first
        one if that is more. Results are kept on disk, see `spmvgpu.cache`. `SparseOperator.tuning` has the
        times.
    budget : float, default 50
        Time limit for ``tune="cached"``, in products of the matrix, without the upload. Formats are timed
        only if predictions, conversions and trials are expected to take less, and until the time is used up.
        For matrices below some millions of non-zeros it is too short for two formats, and the prediction
        decides. 0: time nothing. ``math.inf``: time all formats with close predictions. ``tune="full"`` may
        take as long, too, if that is longer than its own limit; ``math.inf``: it leaves nothing out.
    powers : sequence of float, optional
        Relative speeds of the devices in a list. By default devices of one kind are equal, and others are
        measured.
    partition : {"nnz", "rows", "pmf"} or Partition, default "nnz"
        How to divide the rows among the devices in a list, in proportion to `powers`. "nnz": neighbouring
        rows with equal numbers of non-zeros. "rows": equal numbers of neighbouring rows. "pmf": rows of
        similar length together. See `spmvgpu.partition`.
    memory_limit : int, optional
        Largest number of bytes to use on a GPU. The default is nearly all free memory. With a limit or a list
        of devices, the CPU multiplies the rows that do not fit, or they are streamed through the GPU.
    max_threads : int, optional
        Largest number of CPU threads for this operator and for every operator made from it. By default,
        `limit_threads` decides. The number does not change the bits of a result. It is refused if no part of
        the operator is on the CPU.
    values : (m, nnz) array, optional
        The values of m matrices with the sparsity pattern of `A`, whose own values are not used then: a row
        for each, in the order of ``aslinearoperator(A).tocsr().data``. An array of NumPy, or on the GPU of
        the operator. On one device only.
    **format_options
        Options of the format, see `format_options`.

    Returns
    -------
    SparseOperator, or BatchedOperator for `values`

    Raises
    ------
    TypeError
        If a dtype is not supported, or the format does not have an option.
    ValueError
        If the arrays do not describe a matrix, the matrix is not as `symmetric` says, a format or device is
        unknown, or an option is out of range.
    FormatError
        If the format does not suit the matrix. The message names the cost and a format that does.
    MemoryError
        If the device has too little memory. The message names the bytes needed and free.
    CudaError
        If a CUDA device does not exist or a CUDA call fails.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp, spmvgpu as sg
    >>> A = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(5, 5))
    >>> op = sg.aslinearoperator(A, device="cpu")
    >>> op @ np.ones(5)
    array([1., 0., 0., 0., 1.])

    A format with an option, a matrix of which only the lower triangle is given, and two devices:

    >>> sg.aslinearoperator(A, format="ellr_t", device="cpu", threads_per_row=4).options["threads_per_row"]
    4
    >>> half = sg.aslinearoperator(sp.tril(A), device="cpu", symmetric="lower")
    >>> half @ np.ones(5)
    array([1., 0., 0., 0., 1.])
    >>> sg.aslinearoperator(A, device=["cpu", "cpu"]).device
    ('cpu', 'cpu')
    """
    if isinstance(A, SparseOperator) and _all_left_out(locals()):
        return A
    asks_for_several = powers is not None or memory_limit is not None or not _is_same(partition, "nnz")
    if values is not None:
        if asks_for_several or not isinstance(device, str):
            raise TypeError("values= is for one device; leave out powers=, partition= and memory_limit=")
        if isinstance(symmetric, str) and symmetric != "hermitian":
            raise ValueError(f"symmetric={symmetric!r} does not go with values=; give whole matrices")
        made = block_diagonal(A, values, shape)
        if format == "auto" and made.shape[0] <= made.number * _core.most_rows_of_batch():
            format = "csr"  # which small systems are solved in
        order: Reorder = False if reorder is None else reorder
        how = {"symmetric": symmetric, "reorder": order, "stream": stream, "tune": tune, "budget": budget}
        limits = {"max_threads": max_threads, **format_options}
        blocks = aslinearoperator(made.arrays, format, device, dtype, shape=made.shape, **how, **limits)
        return BatchedOperator(blocks, made.number)
    handle = None if stream is None else whole_number("stream", stream_handle(stream), 0, 2**64 - 1)
    _check(format, format_options, tune, reorder)
    options = plain_options(format_options)
    products = "a number of products from 0 on, or math.inf"
    budget = real_number("budget", budget, products, lambda number: number >= 0)
    checked_symmetry(symmetric)
    if asks_for_several and isinstance(device, str):
        device = (device,)
    ordinals = resolved(device)
    division = Division.checked(len(ordinals), powers, partition, memory_limit)
    threads = _checked_threads(max_threads, ordinals)
    if isinstance(device, list | tuple) and reorder in NAMED:
        raise ValueError(
            f"reorder={reorder!r} is for one device; reorder the matrix itself before it is divided"
        )
    names = tuple(device) if isinstance(device, list) else device
    with at_most(threads), Recording() as recording:
        if isinstance(names, tuple):
            csr: DividedCsr = divided_csr(A, ordinals, shape=shape, dtype=dtype, symmetric=symmetric)
        else:
            place = CPU if format in CHOOSERS or reorder in ("rcm", "auto") else ordinals[0]
            csr = canonical_csr(A, shape=shape, dtype=dtype, symmetric=symmetric, ordinal=place)
        request = Request(format, options, tune, budget, declared(symmetric, csr.dtype))
        description = Description(names, ordinals, request, division, reorder, handle, threads)
        return operator_of(build(csr, description, recording))


def as_operator(
    A: object,
    like: AnyArray = None,
    name: str = "b",
    *,
    device: Device = "auto",
    dtype: DType | None = None,
    format: Format = "auto",
) -> SparseOperator | LinearOperator:
    """The operator of an argument: an operator stays what it is, and a matrix becomes one.

    A matrix goes to a device that is named, or else to the one of `like`, an array of the caller's called
    `name`. Without `dtype`, it has the type of the solution of a system with that for its right-hand side.
    """
    if isinstance(A, SparseOperator):
        return A
    source = source_of(A)
    if isinstance(source, ForeignOperator):
        from scipy.sparse.linalg import aslinearoperator as foreign_operator  # slow to import

        refuse_stack(source.given)
        op = foreign_operator(source.given)
        return op
    library = library_of(like)
    if library is not None:
        located = library.locate(like, name)
        if device == "auto" and not library.moves:
            device = device_name(located.ordinal)
        if dtype is None:
            dtype = common_type(source.dtype, located.dtype)
    return aslinearoperator(source, format, device, dtype)


def _all_left_out(given: Mapping[str, object]) -> bool:
    """Whether all arguments of `aslinearoperator` but `A` are as if they were not given."""
    return all(_is_same(given[name], default) for name, default in _DEFAULTS.items())


def _is_same(given: object, default: object) -> bool:
    return given is default or (isinstance(given, str | int | float | dict) and given == default)


_DEFAULTS = {
    name: {} if parameter.kind is parameter.VAR_KEYWORD else parameter.default
    for name, parameter in inspect.signature(aslinearoperator).parameters.items()
    if name != "A"
}


def _checked_threads(max_threads: object, ordinals: Sequence[int]) -> int | None:
    """The bound of the CPU's threads, which an operator on GPUs alone has no use for."""
    if max_threads is None:
        return None
    count = thread_count("max_threads", max_threads)
    if CPU not in ordinals:
        raise ValueError(
            f"max_threads={max_threads!r} is for the CPU, and the operator would be on "
            f"{', '.join(map(device_name, ordinals))}; leave it out, or give device='cpu'"
        )
    return count


def _check(format: object, options: Mapping[str, object], tune: object, reorder: object) -> None:
    """Refuse what is not allowed before the matrix is converted."""
    if not isinstance(format, str) or format not in ("auto", *CHOOSERS):
        check_format(format)
    if format == "auto" and options:
        raise TypeError(
            f"options {sorted(options)} need a format; give format= (one of {', '.join(formats())})"
        )
    one_of("tune", tune, MODES)
    check_reorder(reorder)
    if format in CHOOSERS and reorder:
        raise ValueError(f"reorder={reorder!r} does not go with format {format!r}, which orders the rows")
