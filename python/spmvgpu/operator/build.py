"""From a matrix and a description to what is stored, also where a format refuses the matrix."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

from .. import _core
from .._core import AnyMatrix
from .._util.steps import Recording, step
from ..devices import CPU, at_most
from ..formats import Choice
from ..inputs.canonical import canonical_csr
from ..inputs.csr import CanonicalCsr
from ..inputs.rows import DividedCsr
from ..multi_device import division
from ..multi_device.division import DevicePart
from ..planning import parts
from ..planning.choosing import choose
from ..planning.reordering import in_order
from ..planning.symmetry import Symmetry
from .description import Description
from .stored import StoredMatrix


def build(
    csr: DividedCsr,
    description: Description,
    recording: Recording | None = None,
    divided: Sequence[DevicePart] = (),
) -> StoredMatrix:
    """Store a matrix as described; it is canonical, unless it goes to several devices.

    `recording` has the steps that were taken before, such as the checks of the matrix, and goes on. Over
    several devices, `divided` says which rows each one gets, where that is known.

    Raises
    ------
    FormatError, MemoryError, CudaError
        As `aslinearoperator`.
    """
    with at_most(description.threads):
        if description.is_divided or not isinstance(csr, CanonicalCsr):
            return _on_several_devices(csr, description, divided)
        if description.choice.format == "auto":
            return _in_chosen_format(csr, description, recording)
        return StoredMatrix(csr, _in_given_format(csr, description), description)


def _in_given_format(csr: CanonicalCsr, description: Description) -> AnyMatrix:
    (ordinal,), choice = description.ordinals, description.choice
    try:
        return parts.build(csr, choice, ordinal)
    except MemoryError:
        if csr.ordinal == CPU:
            raise
    # There may be room without the copy in CSR. Outside of the handler: an error keeps alive what was made.
    csr.leave_device()
    return parts.build(csr, choice, ordinal)


def _in_chosen_format(
    csr: CanonicalCsr, description: Description, recording: Recording | None
) -> StoredMatrix:
    (ordinal,), request = description.ordinals, description.request
    with nullcontext(recording) if recording else Recording() as recording:
        orders, ordered = None, csr
        if description.reorder:
            with step("order"):
                orders, ordered = in_order(csr, description.reorder, ordinal)
        choice, matrix, tuning = choose(ordered, request, ordinal, may_reorder=description.reorder is None)
    tuning.steps = recording.steps()
    if orders is not None:
        choice, matrix = parts.reordered(choice, orders), parts.wrapped(matrix, orders)
    return StoredMatrix(csr, matrix, replace(description, choice=choice), tuning=tuning)


def _on_several_devices(
    csr: DividedCsr, description: Description, divided: Sequence[DevicePart]
) -> StoredMatrix:
    request, how = description.request, description.division
    if isinstance(csr, CanonicalCsr) and not division.may_stay(csr, how, request, description.ordinals):
        csr.leave_device()
    fitting = divided or division.fit(
        csr, request, division.divide(csr, how, request, description.ordinals), how.memory_limit
    )
    matrix = division.build(csr, request, fitting, description.threads)
    formats = {parts.format_of(part) for part, *_ in matrix.parts}
    reason = "it suits the rows of each device" if request.format == "auto" else "it was asked for"
    choice = Choice(formats.pop() if len(formats) == 1 else "parts", reason=reason)
    return StoredMatrix(csr, matrix, replace(description, choice=choice), fitting)


def build_values(
    csr: CanonicalCsr,
    description: Description,
    symmetric: Symmetry | None,
    divided: Sequence[DevicePart] = (),
) -> StoredMatrix:
    """Store a matrix with the pattern of the one described and values of which `symmetric` is known.

    If the format was chosen automatically and cannot hold the values, another one is chosen. `divided` is as
    in `build`.

    Raises
    ------
    FormatError
        If the format was asked for and cannot hold the values.
    """
    new = description.knowing(symmetric)
    try:
        return build(csr, new, divided=divided)
    except _core.FormatError:
        if not description.may_change_format:
            raise
    return build(csr, new.unchosen())


def build_multiple(csr: CanonicalCsr, description: Description, symmetric: Symmetry | None) -> StoredMatrix:
    """Store new values as `build_values`, or in CSR if the format that was asked for cannot hold them."""
    try:
        return build_values(csr, description, symmetric)
    except _core.FormatError as refused:
        return build(csr, description.knowing(symmetric).in_csr(_reason(description, "new", refused)))


def build_derived(csr: CanonicalCsr, description: Description, which: str) -> StoredMatrix:
    """Store the "new" or "transposed" matrix as described, or in CSR if the format cannot hold it."""
    try:
        return build(csr, description)
    except _core.FormatError as refused:
        return build(csr, description.in_csr(_reason(description, which, refused)))


def _reason(description: Description, which: str, refused: _core.FormatError) -> str:
    return f"{description.choice.format} cannot hold the {which} matrix: {refused}"


def restored(csr: object, description: Description) -> StoredMatrix:
    """Store a matrix that comes from a pickle, on the devices that its description names in this process."""
    here = replace(description.on(description.device), stream=None)
    with at_most(here.threads):
        # A copy: arrays that come from a pickle may lie in buffers that others write to.
        return build(canonical_csr(csr), here)
