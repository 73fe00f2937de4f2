"""A matrix over several devices of one process: which rows each one gets, and in which format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, starmap
from typing import Any, TypeAlias

import numpy as np

from .. import _core
from .._core import AnyMatrix, FormatError, MultiDeviceMatrix, PartedMatrix, StreamedMatrix
from .._util.arguments import whole_number
from .._util.plugins import Plugins
from .._util.types import HostArray
from ..devices import CPU, at_most, device_name
from ..formats import Choice, Indices, traits
from ..inputs.csr import CanonicalCsr, Reach, Rows
from ..inputs.rows import DividedCsr
from ..multi_device.partitions import Partition, check_powers, ends_by_nnz, ends_by_rows
from ..planning.choosing import choose
from ..planning.parts import bytes_of, formats_in
from ..planning.predict import fastest, predict_considered
from ..planning.profile import calibrated_power, device_model
from ..planning.request import CHOOSERS, Request
from ..planning.symmetry import of_part

# Memory for the CUDA context, the kernels of other libraries and the pages of the driver.
_MEMORY_KEPT_FREE = 0.03
_LEAST_KEPT_FREE = 24 << 20  # memory comes in pages, and streams and kernels take some

# Entries of the rows that are timed where powers must be measured.
_SAMPLE_ENTRIES = 8_000_000

# A part surely fits where there is room for this many copies of the whole matrix in CSR.
_AMPLE = 2

# Bytes per second from page-locked memory to the device, as measured on an H200.
_BUS_RATE = 54e9

# Bytes in one transfer of rows that are streamed: large beside what a transfer costs of itself.
_LARGEST_CHUNK = 64 << 20

# Entries of an interior that is worth kernels of its own: its product takes longer than their launches.
_LEAST_INTERIOR = 4_000_000

# An interior begins after a multiple of this number of rows, where entries of y fill whole sectors of memory.
# Elsewhere, products that add to y take longer.
_ALIGNED_ROWS = 64

# Where neighbouring rows with these offsets are cut, for these powers.
_ENDS: Mapping[str, Callable[[Any, HostArray], HostArray]] = {"nnz": ends_by_nnz, "rows": ends_by_rows}

# Rows are cut at multiples of this number, which keeps 2, 3, 4 or 6 unknowns of a node together, where each
# device has many more rows.
_ROWS_TOGETHER = 12
_MANY_ROWS = 500 * _ROWS_TOGETHER

# Partitions that may put rows anywhere, of row lengths and powers.
_SCATTERED: Mapping[str, Callable[[HostArray, Sequence[float]], Partition]] = Plugins("partition")

PARTITIONS = (*_ENDS, *_SCATTERED)


#: A part for `MultiDeviceMatrix`: matrix, first row or all rows, window of x, parts in the interior.
_Stored: TypeAlias = tuple[AnyMatrix, "int | HostArray", int, int, int]


@dataclass(frozen=True)
class Division:
    """How the rows of a matrix are divided among devices: arguments of `aslinearoperator`.

    Attributes
    ----------
    powers : tuple of float or None
        Relative computing powers of the devices; None to measure unlike ones.
    partition : str or Partition
        A key of `PARTITIONS`, or the sets of rows themselves.
    memory_limit : int or None
        Largest number of bytes on a GPU; None for what is free.
    """

    powers: tuple[float, ...] | None = None
    partition: str | Partition = "nnz"
    memory_limit: int | None = None

    @classmethod
    def checked(cls, devices: int, powers: object, partition: object, memory_limit: object) -> Division:
        """The division among a number of devices that a caller asks for.

        Raises
        ------
        TypeError, ValueError
            For a value that is not allowed.
        """
        given = None if powers is None else tuple(check_powers(powers).tolist())
        if given is not None and len(given) != devices:
            raise ValueError(
                f"there are {len(given)} powers for {devices} devices; give one power per device"
            )
        limit = None if memory_limit is None else whole_number("memory_limit", memory_limit, 0)
        if isinstance(partition, Partition) or (isinstance(partition, str) and partition in PARTITIONS):
            return cls(given, partition, limit)
        kind = ValueError if isinstance(partition, str) else TypeError
        allowed = ", ".join(map(repr, PARTITIONS))
        raise kind(f"partition={partition!r} is not allowed; give {allowed} or a Partition")


@dataclass(frozen=True, eq=False)
class DevicePart:
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


def divide(
    csr: DividedCsr, division: Division, request: Request, ordinals: Sequence[int]
) -> list[DevicePart]:
    """The rows that each device gets."""
    given = division.partition
    if isinstance(given, Partition):
        if len(given.sets) != len(ordinals):
            raise ValueError(
                f"the partition has {len(given.sets)} sets of rows for {len(ordinals)} devices; give one set "
                "per device"
            )
        given.check_rows(csr.shape[0])
        sets = given.sets
    elif len(ordinals) == 1:
        return [DevicePart(range(csr.shape[0]), ordinals[0])]
    else:
        powers = division.powers or measured_powers(csr, request, ordinals)
        if given in _ENDS:
            ends = _ENDS[given](csr.offsets, check_powers(powers))
            if csr.shape[0] >= _MANY_ROWS * len(ends):
                ends[:-1] -= ends[:-1] % _ROWS_TOGETHER
            ends = ends.tolist()
            parts = zip(starmap(range, pairwise([0, *ends])), ordinals, strict=True)
            return list(starmap(DevicePart, parts))
        sets = _SCATTERED[given](np.diff(csr.indptr), powers).sets
    return [DevicePart(_as_rows(rows), ordinal) for rows, ordinal in zip(sets, ordinals, strict=True)]


def measured_powers(csr: DividedCsr, request: Request, ordinals: Sequence[int]) -> tuple[float, ...]:
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
            times[kind] = _store(sample, request, ordinal)[1].time_products(10)
    return tuple(1 / times[kinds[ordinal]] for ordinal in ordinals)


def fit(
    csr: DividedCsr, request: Request, parts: Sequence[DevicePart], memory_limit: int | None = None
) -> list[DevicePart]:
    """The parts, less the rows that do not fit the memory of their GPU.

    Those are done by the CPU, or streamed through the GPU in every product, whichever is expected to take
    less time.
    """
    fitting: list[DevicePart] = []
    for part in parts:
        sharing = sum(other.ordinal == part.ordinal for other in parts)
        if part.ordinal == CPU or _has_ample_room(csr, request, part, memory_limit, sharing):
            fitting.append(part)
        else:
            room = _room(part.ordinal) if memory_limit is None else memory_limit
            fitting += _split(csr, request, part, room // sharing)
    return fitting


def may_stay(csr: CanonicalCsr, division: Division, request: Request, ordinals: Sequence[int]) -> bool:
    """Whether a matrix is divided where it lies.

    That is in host memory, or on the GPU that all rows go to, if it surely has room for them once more.
    """
    if csr.ordinal == CPU:
        return True
    (ordinal, *others), limit = ordinals, division.memory_limit
    part = DevicePart(range(csr.shape[0]), ordinal)
    return not others and ordinal == csr.ordinal and _has_ample_room(csr, request, part, limit, 1)


def _has_ample_room(
    csr: DividedCsr, request: Request, part: DevicePart, memory_limit: int | None, sharing: int
) -> bool:
    """Whether a part surely fits, without a look at its rows."""
    free = _free(part.ordinal) if memory_limit is None else memory_limit
    needed = _AMPLE * _bytes_in_csr(csr) + csr.dtype.itemsize * (len(part.rows) + csr.shape[1])
    return request.format in ("auto", "csr") and needed <= free // sharing


def _split(csr: DividedCsr, request: Request, part: DevicePart, available: int) -> list[DevicePart]:
    own = csr.rows(part.rows)
    vectors = own.dtype.itemsize * (own.shape[0] + own.shape[1])
    needed = _bytes_needed(own, request, part.ordinal)
    if needed + vectors <= available or own.nnz == 0:
        return [part]
    chunk = min(_LARGEST_CHUNK, available // 16)  # of each of two buffers
    for_matrix = max(0, available - 2 * chunk - vectors)
    resident = int(np.searchsorted(own.indptr, own.nnz * for_matrix / needed, side="right")) - 1
    rest = own.rows(range(resident, own.shape[0]))
    streamed_ms, cpu_ms = _streamed_ms(rest), _cpu_ms(rest)
    reason = (
        f"{needed + vectors} bytes do not fit into the {available} bytes of {device_name(part.ordinal)}: "
        f"streaming {rest.shape[0]} rows takes {streamed_ms:.3g} ms, and computing them on the CPU takes "
        f"{cpu_ms:.3g} ms"
    )
    if streamed_ms < cpu_ms:
        streamed = f"{reason}; streaming was chosen"
        return [replace(part, resident=resident, chunk=chunk, is_full=True, reason=streamed)]
    on_cpu = DevicePart(part.rows[resident:], CPU, reason=f"{reason}; the CPU was chosen")
    return [replace(part, rows=part.rows[:resident], is_full=True), on_cpu] if resident else [on_cpu]


def _bytes_in_csr(csr: DividedCsr) -> int:
    return csr.nnz * (csr.dtype.itemsize + 4) + csr.shape[0] * 4


def _streamed_ms(csr: CanonicalCsr) -> float:
    return 1e3 * _bytes_in_csr(csr) / _BUS_RATE


def _cpu_ms(csr: CanonicalCsr) -> float:
    sample = _sample(csr)
    microseconds = sample.build("csr", {}, CPU).time_products(5)
    return 1e-3 * microseconds * int(csr.nnz) / max(int(sample.nnz), 1)


def _room(ordinal: int) -> int:
    """Bytes of a GPU's memory that may be taken."""
    _core.release_idle_memory(ordinal)  # for blocks larger than those that are kept
    return _free(ordinal)


def _free(ordinal: int) -> int:
    """The part of it that is free at once."""
    free = int(_core.device_properties(ordinal)["memory_free"])
    return max(0, free - max(_LEAST_KEPT_FREE, int(free * _MEMORY_KEPT_FREE)))


def _sample(csr: DividedCsr, room: int | None = None) -> CanonicalCsr:
    """The first rows, as many as are worth timing and leave most of the room free."""
    entries = _SAMPLE_ENTRIES
    if room is not None:
        entries = min(entries, room // (8 * (csr.dtype.itemsize + 4)))
    end = int(np.searchsorted(csr.indptr, entries, side="right")) - 1
    return csr.rows(range(min(max(end, 1), csr.shape[0])))


def _bytes_needed(own: CanonicalCsr, request: Request, ordinal: int) -> int:
    if request.format != "auto":
        choice = request.choice(own, ordinal)
    elif ordinal == CPU:
        choice = Choice("csr")
    else:
        request = replace(request, tune="cached", symmetric=of_part(request.symmetric))
        expected = fastest(predict_considered(own, request, ordinal))
        choice = Choice(expected.format, expected.options)
    return bytes_of(own, choice, ordinal)


def _store(
    own: CanonicalCsr, request: Request, ordinal: int, like: Choice | None = None
) -> tuple[Choice, AnyMatrix]:
    """Some rows in a format of their own on a device, or in one that others have, if they suit it."""
    request = replace(request, symmetric=of_part(request.symmetric))
    if like is not None:
        request = replace(request, tune="off")
        try:
            return choose(own, replace(request, format=like.format, options=like.options), ordinal)[:2]
        except FormatError:
            pass
    return choose(own, request, ordinal)[:2]


def build(
    csr: DividedCsr, request: Request, parts: Sequence[DevicePart], threads: int | None = None
) -> MultiDeviceMatrix:
    """The matrix whose parts are on their devices, which check and store them at the same time.

    `threads` is the bound of the CPU's threads for each device.
    """
    has_pieces = len(parts) > 1 and csr.shape[0] == csr.shape[1]  # so have vectors then

    def store(ordinal: int) -> dict[int, _Stored]:
        with at_most(threads):
            return {
                number: _stored(csr, request, part, has_pieces)
                for number, part in enumerate(parts)
                if part.ordinal == ordinal
            }

    from concurrent.futures import ThreadPoolExecutor  # which takes milliseconds to import

    ordinals = {part.ordinal for part in parts} - {CPU}
    with ThreadPoolExecutor(max(1, len(ordinals))) as pool:
        on_gpus = [pool.submit(store, ordinal) for ordinal in ordinals]
        made = store(CPU)  # in this thread, which a signal can interrupt
        for others in on_gpus:
            made |= others.result()
    return MultiDeviceMatrix(csr.shape[0], csr.shape[1], [made[number] for number in range(len(parts))])


def _stored(csr: DividedCsr, request: Request, part: DevicePart, has_pieces: bool) -> _Stored:
    """Store a part on its device."""
    stays = part.resident is None and not part.is_full and request.format not in CHOOSERS
    own = csr.rows(part.rows, part.ordinal if stays else CPU)
    reach = own.column_reach()
    interior = _interior(own, part, reach) if has_pieces else range(0)
    matrix = _store_part(own, request, part, interior)
    first = part.rows.start if isinstance(part.rows, range) else part.rows
    return matrix, first, *_window(own, reach, matrix), 1 if interior else 0


def _store_part(own: CanonicalCsr, request: Request, part: DevicePart, interior: range) -> AnyMatrix:
    """The rows of a part: in one format, or the interior first and then the others.

    The others are in the format of the interior if they suit it: every product reads them anew, and the
    format that is predicted for so few rows is that of a matrix in a cache. Rows that do not stay in memory
    come last and are streamed.
    """
    if part.is_full:
        request = replace(request, tune="off")
    if not interior and part.resident is None:
        return _store(own, request, part.ordinal)[1]
    made: list[tuple[AnyMatrix, int, int]] = []
    resident = [interior, range(interior.start), range(interior.stop, own.shape[0])]
    if part.resident is not None:
        resident = [range(part.resident)]
    choice = None
    for rows in filter(len, resident):
        choice, matrix = _store(own.rows(rows), request, part.ordinal, like=choice)
        made.append((matrix, rows.start, 0))
    if part.resident is not None:
        first = part.resident
        for some in own.rows(range(first, own.shape[0])).pieces():
            arrays = (some.indptr, some.indices, some.data)
            made.append((StreamedMatrix(*arrays, own.shape[1], part.ordinal, part.chunk), first, 0))
            first += some.shape[0]
    return made[0][0] if len(made) == 1 else PartedMatrix(own.shape[0], own.shape[1], made)


def _interior(own: CanonicalCsr, part: DevicePart, reach: Reach) -> range:
    """The rows of a part, counted from its first, that are multiplied while it gets its halo of x.

    They are those further from its first and last row than any of its entries is from the diagonal, so that
    no format reads the halo for them. None on the CPU, where rows do not stay, and where they are too few.
    """
    nothing, rows = range(0), part.rows
    stays = part.ordinal != CPU and part.resident is None and not part.is_full
    if not stays or not isinstance(rows, range) or own.nnz < 2 * _LEAST_INTERIOR:
        return nothing
    start = 0 if rows.start == 0 else max(0, rows.start - reach.low)
    start = -(-start // _ALIGNED_ROWS) * _ALIGNED_ROWS
    stop = len(rows) if rows.stop == own.shape[1] else len(rows) - max(0, reach.high - rows.start)
    if start >= stop:
        return nothing
    entries = own.nnz * (stop - start) // len(rows)  # nearly
    worthwhile = entries >= max(_LEAST_INTERIOR, own.nnz // 2) and stop - start < len(rows)
    return range(start, stop) if worthwhile else nothing


def _window(csr: CanonicalCsr, reach: Reach, matrix: AnyMatrix) -> tuple[int, int]:
    """The columns in which products of a canonical matrix, stored as `matrix`, read x: first and end."""
    known = list(map(traits, formats_in(matrix)))
    if any(format.reads_all_of_x for format in known):
        return 0, csr.shape[1]
    if csr.nnz and any(
        format.reads_whole_diagonals for format in known
    ):  # from one end of the rows to the other
        return max(0, reach.low), min(csr.shape[1], csr.shape[0] + reach.high)
    return reach.first, reach.end


def _as_rows(rows: Indices) -> Rows:
    if len(rows) == 0:
        return range(0)
    if rows[-1] - rows[0] + 1 == len(rows):  # each of them once, as in every partition
        return range(int(rows[0]), int(rows[-1]) + 1)
    return np.ascontiguousarray(rows, dtype=np.int32)
