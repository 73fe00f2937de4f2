"""Who does what when a matrix is spread over several devices: sets of rows, powers, memory, formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _core
from .._util.arguments import whole_number
from .._util.plugins import Plugins
from .._util.value_types import DistributedMatrix, value_type
from ..devices import CPU, device_name, resolve_device
from ..formats import Choice, build_in_one, reads_all_of_x, reads_diagonals
from ..inputs.compressed import narrowed, pieces_of, rows_of
from ..partition.partitions import Partition, by_nnz, by_rows, check_powers
from ..planning import parts
from ..planning.budget import BUDGET
from ..planning.choosing import choose, general_formats
from ..planning.predict import predict_csr
from ..planning.profile import calibrated_power, device_model, load_profile
from ..planning.requests import requested
from ..planning.symmetry import Symmetry, of_part

# What the CUDA context, the kernels of other libraries and the pages of the driver may still take.
_MEMORY_KEPT_FREE = 0.03
_LEAST_KEPT_FREE = 16 << 20  # memory comes in pages, and every stream takes some

# Entries of the rows that are timed where powers must be measured.
_SAMPLE_ENTRIES = 8_000_000

# Bytes per second from page-locked memory to the device, as measured on an H200.
_BUS_RATE = 54e9

# Bytes in one transfer of rows that are streamed: large beside what a transfer costs of itself.
_LARGEST_CHUNK = 64 << 20

# Entries of an interior that is worth kernels of its own: its product takes longer than their launches.
_LEAST_INTERIOR = 4_000_000

Rows: TypeAlias = range | npt.NDArray[np.int32]
PARTITIONS: Mapping[str, Callable[[Any, Sequence[float]], Partition]] = Plugins(
    "partition", nnz=by_nnz, rows=by_rows
)


@dataclass(frozen=True)
class Request:
    """What the caller asked for.

    Attributes
    ----------
    devices : tuple of str
        As given.
    format, tune, options
        As `aslinearoperator` takes them; for every shard.
    powers : tuple of float or None
        Relative computing powers of the devices; None to measure unlike ones.
    partition : str or Partition
        A key of `PARTITIONS`, or the sets of rows themselves.
    memory_limit : int or None
        Bytes to take of each GPU's memory; None for what is free.
    threads : int or None
        The most threads of the CPU; None for no bound.
    budget : float
        As `aslinearoperator` takes it; for every shard.
    symmetric : Symmetry or None
        What is known of the whole matrix; None for nothing.
    """

    devices: tuple[str, ...]
    format: str = "auto"
    tune: str = "off"
    options: tuple[tuple[str, Any], ...] = ()
    powers: tuple[float, ...] | None = None
    partition: str | Partition = "nnz"
    memory_limit: int | None = None
    threads: int | None = None
    budget: float = BUDGET
    symmetric: Symmetry | None = None


def checked_request(
    device: Any,
    format: str,
    tune: str,
    options: dict[str, Any],
    powers: Any,
    partition: Any,
    memory_limit: Any,
) -> Request:
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
        raise ValueError("device is an empty list; name at least one device")
    for name in names:
        resolve_device(name)
    checked = None if powers is None else tuple(check_powers(powers).tolist())
    if checked is not None and len(checked) != len(names):
        raise ValueError(
            f"there are {len(checked)} powers for {len(names)} devices; give one power per device"
        )
    if not isinstance(partition, Partition) and not (isinstance(partition, str) and partition in PARTITIONS):
        kind = ValueError if isinstance(partition, str) else TypeError
        allowed = ", ".join(map(repr, PARTITIONS))
        raise kind(f"partition={partition!r} is not allowed; give {allowed} or a Partition")
    if memory_limit is not None:
        memory_limit = whole_number("memory_limit", memory_limit, 0)
    return Request(names, format, tune, tuple(options.items()), checked, partition, memory_limit)


@dataclass(frozen=True, eq=False)
class Shard:
    """Some rows of the matrix, on one device.

    Attributes
    ----------
    rows : range or array of int32
    ordinal : int
        The device.
    resident : int or None
        How many of the rows stay in the memory of the GPU; the others pass through it in every product. None:
        all stay.
    chunk : int
        Bytes of each of the two buffers that those others pass through.
    is_full : bool
        The rows were chosen to fill the memory in the format that is predicted to be the fastest, so that
        there is no room to try others.
    reason : str
        Why rows are not where the partition put them, or not in the memory of their GPU; empty if they are.
    """

    rows: Rows
    ordinal: int
    resident: int | None = None
    chunk: int = 0
    is_full: bool = False
    reason: str = ""


def divide(csr: Any, request: Request, ordinals: Sequence[int]) -> list[Shard]:
    """The rows that each device gets."""
    if isinstance(request.partition, Partition):
        sets = request.partition.sets
        if len(sets) != len(ordinals):
            raise ValueError(
                f"the partition has {len(sets)} sets of rows for {len(ordinals)} devices; give one set per "
                "device"
            )
        request.partition.check_rows(csr.shape[0])
    else:
        powers = request.powers or measured_powers(csr, request, ordinals)
        if len(powers) != len(ordinals):
            raise ValueError(
                f"there are {len(powers)} powers for {len(ordinals)} devices; give one power per device"
            )
        sets = PARTITIONS[request.partition](np.diff(csr.indptr), powers).sets
    return [Shard(_as_rows(rows), ordinal) for rows, ordinal in zip(sets, ordinals, strict=True)]


def measured_powers(csr: Any, request: Request, ordinals: Sequence[int]) -> tuple[float, ...]:
    """Equal ones if all devices are of one kind; else as calibrated, or from products with some rows."""
    kinds = {ordinal: device_model(ordinal) for ordinal in ordinals}
    if len(set(kinds.values())) == 1:
        return (1.0,) * len(ordinals)
    calibrated = [calibrated_power(ordinal, csr.dtype) for ordinal in ordinals]
    if None not in calibrated:
        return tuple(power for power in calibrated if power is not None)
    sample = _sample(csr, min(_room(ordinal) for ordinal in kinds if ordinal != CPU))
    times: dict[str, float] = {}
    for ordinal, kind in kinds.items():
        if kind not in times:
            times[kind] = _build(sample, request, ordinal).time_products(10)
    return tuple(1 / times[kinds[ordinal]] for ordinal in ordinals)


def fit(csr: Any, request: Request, shards: Sequence[Shard]) -> list[Shard]:
    """The shards, less the rows that do not fit the memory of their GPU.

    Those are done by the CPU, or streamed through the GPU in every product, whichever is expected to take
    less time.
    """
    fitting: list[Shard] = []
    for shard in shards:
        twins = sum(other.ordinal == shard.ordinal for other in shards)
        if shard.ordinal == CPU:
            fitting.append(shard)
        elif request.memory_limit is not None:
            fitting += _split(csr, request, shard, request.memory_limit // twins)
        else:
            fitting += _split(csr, request, shard, _room(shard.ordinal) // twins)
    return fitting


def _split(csr: Any, request: Request, shard: Shard, available: int) -> list[Shard]:
    own = _rows_in(csr, shard.rows)
    vectors = own.dtype.itemsize * (own.shape[0] + own.shape[1])
    needed = _bytes_needed(own, request, shard.ordinal)
    if needed + vectors <= available or own.nnz == 0:
        return [shard]
    chunk = chunk_bytes(available)
    for_matrix = max(0, available - 2 * chunk - vectors)
    resident = int(np.searchsorted(own.indptr, own.nnz * for_matrix / needed, side="right")) - 1
    rest = _rows_in(own, range(resident, own.shape[0]))
    streamed_ms, cpu_ms = _streamed_ms(rest), _cpu_ms(rest)
    reason = (
        f"{needed + vectors} bytes do not fit into the {available} bytes of {device_name(shard.ordinal)}: "
        f"streaming {rest.shape[0]} rows takes {streamed_ms:.3g} ms, and computing them on the CPU takes "
        f"{cpu_ms:.3g} ms"
    )
    if streamed_ms < cpu_ms:
        streamed = f"{reason}; streaming was chosen"
        return [replace(shard, resident=resident, chunk=chunk, is_full=True, reason=streamed)]
    reason += "; the CPU was chosen"
    on_cpu = Shard(shard.rows[resident:], CPU, reason=reason)
    return [replace(shard, rows=shard.rows[:resident], is_full=True), on_cpu] if resident else [on_cpu]


def chunk_bytes(available: int) -> int:
    """Size of each of the two buffers that streamed rows pass through."""
    return min(_LARGEST_CHUNK, available // 16)


def _streamed_ms(csr: Any) -> float:
    entries, rows = int(csr.nnz), int(csr.shape[0])
    return 1e3 * (entries * (int(csr.dtype.itemsize) + 4) + rows * 4) / _BUS_RATE


def _cpu_ms(csr: Any) -> float:
    sample = _sample(csr)
    microseconds = build_in_one(sample, Choice("csr"), CPU).time_products(5)
    return 1e-3 * microseconds * int(csr.nnz) / max(int(sample.nnz), 1)


def _room(ordinal: int) -> int:
    """Bytes of a GPU's memory that may be taken."""
    _core.release_idle_memory(ordinal)  # for blocks larger than those that are kept
    free = int(_core.device_properties(ordinal)["memory_free"])
    return max(0, free - max(_LEAST_KEPT_FREE, int(free * _MEMORY_KEPT_FREE)))


def _sample(csr: Any, room: int | None = None) -> Any:
    """The first rows, as many as are worth timing and leave most of the room free."""
    entries = _SAMPLE_ENTRIES
    if room is not None:
        entries = min(entries, room // (8 * (csr.dtype.itemsize + 4)))
    end = int(np.searchsorted(csr.indptr, entries, side="right")) - 1
    return narrowed(rows_of(csr, range(min(max(end, 1), csr.shape[0]))))


def _bytes_needed(piece: Any, request: Request, ordinal: int) -> int:
    choice = requested(piece, request.format, ordinal, dict(request.options))
    if request.format == "auto" and ordinal == CPU:
        choice = Choice("csr")
    elif request.format == "auto":
        names = general_formats(of_part(request.symmetric), "cuda")  # those that `choose` asks
        expected = predict_csr(piece, ordinal, "roofline", load_profile(ordinal), names, True).best
        choice = Choice(expected.format, expected.options)
    return parts.estimate(piece, choice, ordinal)


def _build(piece: Any, request: Request, ordinal: int) -> Any:
    options, symmetric = dict(request.options), of_part(request.symmetric)
    _, matrix, _ = choose(piece, request.format, ordinal, request.tune, options, symmetric, request.budget)
    return matrix


def build(csr: Any, request: Request, shards: Sequence[Shard]) -> DistributedMatrix:
    """The matrix, spread over the devices."""
    in_pieces = len(shards) > 1 and csr.shape[0] == csr.shape[1]  # as vectors may be then
    made = []
    for shard in shards:
        own = _rows_in(csr, shard.rows)
        rows = shard.rows.start if isinstance(shard.rows, range) else shard.rows
        interior = _interior(own, shard) if in_pieces else range(0)
        if interior:
            matrix = _build_around(interior, own, request, shard)
        else:
            matrix = _build_shard(own, request, shard)
        made.append((matrix, rows, *_window(own, matrix), 1 if interior else 0))
    return value_type(csr.dtype).distributed(csr.shape[0], csr.shape[1], made)


def _build_shard(own: Any, request: Request, shard: Shard) -> Any:
    untuned = replace(request, tune="off") if shard.is_full else request
    if shard.resident is None:
        return _build(own, untuned, shard.ordinal)
    first = shard.resident
    made: list[tuple[Any, int, int]] = []
    if first > 0:
        made.append((_build(_rows_in(own, range(first)), untuned, shard.ordinal), 0, 0))
    streamed = value_type(own.dtype).streamed
    for piece in pieces_of(rows_of(own, range(first, own.shape[0]))):
        arrays = (piece.indptr, piece.indices, piece.data)
        made.append((streamed(*arrays, own.shape[1], shard.ordinal, shard.chunk), first, 0))
        first += piece.shape[0]
    if len(made) == 1:
        return made[0][0]
    return value_type(own.dtype).parted(own.shape[0], own.shape[1], made)


def _interior(own: Any, shard: Shard) -> range:
    """The rows of a shard, counted from its first, that are multiplied while it gets its halo of x.

    They are those further from its first and last row than any of its entries is from the diagonal, so that
    no format reads the halo for them. None on the CPU, where rows do not stay, and where they are too few.
    """
    nothing, rows = range(0), shard.rows
    stays = shard.ordinal != CPU and shard.resident is None and not shard.is_full
    if not stays or not isinstance(rows, range) or own.nnz < 2 * _LEAST_INTERIOR:
        return nothing
    filled, first, last = _ends_of_rows(own)
    below, above = int((filled + rows.start - first).max()), int((last - filled - rows.start).max())
    start = 0 if rows.start == 0 else max(0, below)
    stop = len(rows) if rows.stop == own.shape[1] else len(rows) - max(0, above)
    worthwhile = start < stop and own.indptr[stop] - own.indptr[start] >= max(_LEAST_INTERIOR, own.nnz // 2)
    return range(start, stop) if worthwhile and stop - start < len(rows) else nothing


def _build_around(interior: range, own: Any, request: Request, shard: Shard) -> Any:
    """The rows of a shard in three parts: its interior first, then those before it and those after it."""
    ends = [range(interior.start), range(interior.stop, own.shape[0])]
    made = [(_build(_rows_in(own, interior), request, shard.ordinal), interior.start, 0)]
    for rows in filter(len, ends):
        made.append((_build(_rows_in(own, rows), replace(request, tune="off"), shard.ordinal), rows.start, 0))
    return value_type(own.dtype).parted(own.shape[0], own.shape[1], made)


def _ends_of_rows(csr: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """The rows of a canonical matrix that are not empty, and the columns of their first and last entries."""
    filled = np.flatnonzero(csr.indptr[:-1] < csr.indptr[1:])
    first = csr.indices[csr.indptr[filled]].astype(np.int64)
    last = csr.indices[csr.indptr[filled + 1] - 1].astype(np.int64)
    return filled, first, last


def _window(csr: Any, matrix: Any) -> tuple[int, int]:
    """The columns in which products of a canonical matrix, stored as `matrix`, read x: first and end."""
    names = parts.formats_in(matrix)
    if any(map(reads_all_of_x, names)):
        return 0, csr.shape[1]
    filled, first, last = _ends_of_rows(csr)
    if not filled.size:
        return 0, 0
    if any(map(reads_diagonals, names)):  # along diagonals, from one end of the rows to the other
        return max(0, int((first - filled).min())), min(
            csr.shape[1], csr.shape[0] + int((last - filled).max())
        )
    return int(first.min()), int(last.max()) + 1


def _rows_in(csr: Any, rows: Rows) -> Any:
    """Some rows of a canonical matrix, in the order given."""
    return narrowed(rows_of(csr, rows) if isinstance(rows, range) else csr[rows])


def _as_rows(rows: Any) -> Rows:
    if len(rows) == 0:
        return range(0)
    if rows[-1] - rows[0] + 1 == len(rows):  # each of them once, as in every partition
        return range(int(rows[0]), int(rows[-1]) + 1)
    return np.ascontiguousarray(rows, dtype=np.int32)
