"""Where operators come from: how one was asked for, on one device or several, and others like it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from .. import _core
from .._util.show import wrapped
from .._util.steps import recorded
from ..arrays import Located
from ..devices import CPU, at_most, device_name, resolve_device
from ..formats import Choice, traits
from ..inputs.canonical import canonical_csr
from ..multi_device import placement
from ..multi_device.placement import Request, Shard, checked_request
from ..multi_device.spread import MultiDeviceOperator
from ..planning import parts
from ..planning.choosing import choose
from ..planning.parts import build
from ..planning.requests import REQUESTS
from ..planning.symmetry import Symmetry, of_part
from ..planning.tuning import Tuning
from . import describe
from .operator import SparseOperator
from .stored import Stored


@dataclass(frozen=True)
class OneDevice:
    """The `Origin` of an operator on one device; `requested` is the device as the caller named it."""

    choice: Choice
    ordinal: int
    requested: Any
    symmetric: Symmetry | None = None
    stream: int | None = None
    tuning: Tuning | None = None
    threads: int | None = None
    is_format_asked: bool = True  # not found by format="auto"

    @property
    def device(self) -> str:
        return device_name(self.ordinal)

    @property
    def gives_way(self) -> bool:
        """Whether new values may go to another format: nobody asked for what suits some only."""
        known = traits(self.choice.format)
        is_found = known.needs_rows_that_repeat or (known.needs_symmetry and not self.symmetric)
        return is_found and not self.is_format_asked

    def check_device(self, name: str, located: Located, beside: int | None = None) -> None:
        if beside is not None:
            _check_beside(name, located, beside)
        elif located.ordinal != self.ordinal:
            there = device_name(located.ordinal)
            raise ValueError(
                f"{name} is on {there!r}, but the operator is on {self.device!r}; move one of them"
            )

    def make(self, csr: Any) -> SparseOperator:
        """The operator of a canonical matrix."""
        with at_most(self.threads):
            return SparseOperator(Stored(build(csr, self.choice, self.ordinal), csr.shape, self))

    def with_values(self, csr: Any, symmetric: Symmetry | None) -> SparseOperator:
        """The operator with other values, in the format that was asked for.

        Raises
        ------
        FormatError
            If they do not suit that format.
        """
        own = replace(self, symmetric=symmetric, tuning=None)
        try:
            return own.make(csr)
        except _core.FormatError:
            if not self.gives_way:
                raise
            return _chosen_anew(csr, self.requested, symmetric, self.threads, self.stream)

    def like(self, csr: Any, symmetric: Symmetry | None) -> SparseOperator:
        try:
            return self.with_values(csr, symmetric)
        except _core.FormatError as refused:
            return self._in_csr(csr, symmetric, "the new matrix", refused)

    def like_part(self, csr: Any) -> SparseOperator:
        name, options = self.choice.format, self.choice.options
        same = Choice("csr") if self.choice.parts else Choice(name, options)
        reason = "the original operator has this format"
        return self._make_or_csr(csr, replace(same, reason=reason), "the new matrix")

    def transposed(self, csr: Any) -> SparseOperator:
        return self._make_or_csr(csr, parts.transposed(self.choice), "the transposed matrix")

    def _make_or_csr(self, csr: Any, choice: Choice, what: str) -> SparseOperator:
        """As chosen, or as CSR where the format refuses the matrix."""
        symmetric = of_part(self.symmetric)
        try:
            return replace(self, choice=choice, symmetric=symmetric, tuning=None).make(csr)
        except _core.FormatError as refused:
            return self._in_csr(csr, symmetric, what, refused)

    def _in_csr(
        self, csr: Any, symmetric: Symmetry | None, what: str, refused: _core.FormatError
    ) -> SparseOperator:
        choice = Choice("csr", {}, f"{self.choice.format} cannot hold {what}: {refused}")
        return replace(self, choice=choice, symmetric=symmetric, tuning=None).make(csr)

    def moved(self, csr: Any, device: Any) -> SparseOperator:
        if not isinstance(device, str):
            return _chosen_anew(csr, device, self.symmetric, self.threads)
        ordinal = resolve_device(device)
        stream = self.stream if ordinal == self.ordinal else None
        threads = self.threads if ordinal == CPU else None
        return replace(
            self, ordinal=ordinal, requested=device, stream=stream, tuning=None, threads=threads
        ).make(csr)

    def explanation(self, op: SparseOperator) -> str:
        counts, map_bytes = parts.counts(op._matrix), parts.value_map_bytes(op._matrix)
        return describe.explanation(op, self.choice.reason, counts, map_bytes)

    def rebuild(self, csr: Any) -> tuple[Any, ...]:
        return on_device, (
            csr,
            self.choice,
            self.requested,
            self.symmetric,
            self.threads,
            self.is_format_asked,
        )


def on_device(
    csr: Any,
    choice: Choice,
    device: str,
    symmetric: Symmetry | None,
    threads: int | None = None,
    is_format_asked: bool = True,
) -> SparseOperator:
    """The operator of a matrix in a format that was chosen before; what pickle calls."""
    ordinal = resolve_device(device)
    threads = threads if ordinal == CPU else None  # "auto" may be another device here
    with at_most(threads):
        csr = canonical_csr(csr)  # whose arrays may lie in buffers that somebody else writes to
        origin = OneDevice(
            choice, ordinal, device, symmetric, threads=threads, is_format_asked=is_format_asked
        )
        return origin.make(csr)


@dataclass(frozen=True)
class SeveralDevices:
    """The `Origin` of an operator over several devices."""

    request: Request
    shards: tuple[Shard, ...]
    choice: Choice  # of all shards, or named "parts" where they have different formats
    details: tuple[str, ...]  # what `explanation` says of each shard
    stream: int | None = None
    tuning: None = field(default=None, init=False)

    @property
    def device(self) -> tuple[str, ...]:
        return tuple(device_name(shard.ordinal) for shard in self.shards)

    @property
    def symmetric(self) -> Symmetry | None:
        return self.request.symmetric

    @property
    def threads(self) -> int | None:
        return self.request.threads

    @property
    def ordinals(self) -> list[int]:
        """The devices that arrays may lie on: the GPUs, or host memory where there are none."""
        return sorted({shard.ordinal for shard in self.shards if shard.ordinal != CPU}) or [CPU]

    @property
    def ordinal(self) -> int:
        return next((shard.ordinal for shard in self.shards if shard.ordinal != CPU), CPU)

    def check_device(self, name: str, located: Located, beside: int | None = None) -> None:
        if beside is not None:
            _check_beside(name, located, beside)
        elif located.ordinal not in self.ordinals:
            allowed = " or ".join(repr(device_name(ordinal)) for ordinal in self.ordinals)
            raise ValueError(f"{name} is on {device_name(located.ordinal)!r}; it must be on {allowed}")

    def like(self, csr: Any, symmetric: Symmetry | None) -> SparseOperator:
        return self._spread_or_csr(csr, replace(self.request, symmetric=symmetric))

    def like_part(self, csr: Any) -> SparseOperator:
        by = self.request.partition if isinstance(self.request.partition, str) else "nnz"
        request = replace(self.request, partition=by, symmetric=of_part(self.symmetric))
        if request.format in REQUESTS:  # its options may be for the rows that were
            request = _in_csr(request)
        return self._spread_or_csr(csr, request)

    transposed = like_part  # which is cut by rows of its own

    def _spread_or_csr(self, csr: Any, request: Request) -> SparseOperator:
        """As requested, or as CSR where the format refuses the matrix."""
        try:
            return spread(csr, request, self.stream)
        except _core.FormatError:
            return spread(csr, _in_csr(request), self.stream)

    def moved(self, csr: Any, device: Any) -> SparseOperator:
        return _chosen_anew(csr, device, self.symmetric, self.threads)

    def explanation(self, op: SparseOperator) -> str:
        """Which part of the matrix each device has."""
        heads = f"{'device':8s} {'rows':>12s} {'non-zeros':>14s} {'bytes':>16s}   format"
        reasons = [shard.reason for shard in self.shards if shard.reason]
        return "\n".join([wrapped(op._summary()), "", heads, *self.details, *map(wrapped, reasons)])

    def rebuild(self, csr: Any) -> tuple[Any, ...]:
        return on_devices, (csr, self.request)


def _in_csr(request: Request) -> Request:
    return replace(request, format="csr", options=())


def spread(csr: Any, request: Request, stream: int | None) -> MultiDeviceOperator:
    """The operator of a canonical matrix over the requested devices."""
    ordinals = [resolve_device(name) for name in request.devices]
    with at_most(request.threads):
        shards = placement.fit(csr, request, placement.divide(csr, request, ordinals))
        matrix = placement.build(csr, request, shards)
    names = {parts.format_of(shard) for shard, *_ in matrix.shards}
    reason = "it suits the rows of each device" if request.format == "auto" else "it was asked for"
    choice = Choice(names.pop() if len(names) == 1 else "parts", reason=reason)
    details = tuple(_detail(shard, stored) for shard, (stored, *_) in zip(shards, matrix.shards, strict=True))
    origin = SeveralDevices(request, tuple(shards), choice, details, stream)
    return MultiDeviceOperator(Stored(matrix, csr.shape, origin))


def _detail(shard: Shard, stored: Any) -> str:
    name = device_name(shard.ordinal)
    facts = f"{name:8s} {len(shard.rows):12,d} {stored.nnz:14,d} {stored.nbytes:16,d}"
    return f"{facts}   {parts.format_of(stored)}"


def on_devices(csr: Any, request: Request) -> MultiDeviceOperator:
    """The operator of a matrix over devices that were requested before; what pickle calls."""
    with at_most(request.threads):
        return spread(canonical_csr(csr), request, None)


def _check_beside(name: str, located: Located, beside: int) -> None:
    if located.ordinal != beside:
        there = device_name(located.ordinal)
        raise ValueError(f"{name} is on {there!r}, but x is on {device_name(beside)!r}; move one of them")


def _chosen_anew(
    csr: Any, device: Any, symmetric: Symmetry | None, threads: int | None, stream: int | None = None
) -> SparseOperator:
    """The operator on a device, or several, in the format that suits the matrix there."""
    names = device if isinstance(device, list | tuple) else [device]
    threads = threads if CPU in map(resolve_device, names) else None
    with at_most(threads):
        if isinstance(device, list | tuple):
            request = checked_request(device, "auto", "cached", {}, None, "nnz", None)
            return spread(csr, replace(request, threads=threads, symmetric=symmetric), stream)
        ordinal, csr = resolve_device(device), canonical_csr(csr)
        with recorded() as recording:
            choice, matrix, tuning = choose(csr, "auto", ordinal, "cached", {}, symmetric)
        tuning.steps = recording.steps()
        origin = OneDevice(choice, ordinal, device, symmetric, stream, tuning, threads, False)
        return SparseOperator(Stored(matrix, csr.shape, origin))
