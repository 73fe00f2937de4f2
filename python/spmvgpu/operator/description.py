"""What an operator is, apart from the entries of its matrix."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from .._util.types import Devices
from ..devices import CPU, resolve_device
from ..formats import Choice, traits
from ..multi_device.division import Division
from ..planning import parts
from ..planning.reordering import Reorder
from ..planning.request import CHOOSERS, Request
from ..planning.symmetry import Symmetry, of_part

_UNCHOSEN = Choice("auto")


@dataclass(frozen=True)
class Description:
    """How the matrix of an operator is stored and multiplied; `build` stores a matrix as described.

    Whatever is made of an operator has a description that is derived from its own.

    Attributes
    ----------
    device : str or tuple of str
        As the caller named it. A tuple: the rows are divided among these devices.
    ordinals : tuple of int
        The devices that the names stand for.
    request : Request
        What is asked of the format, and what is known of the matrix.
    division : Division
        How the rows are divided among several devices.
    reorder : str, bool or None
        The order in which rows and columns are stored, as `aslinearoperator` takes it.
    stream : int or None
        CUDA stream of products with arrays on a device, if one was given.
    threads : int or None
        Largest number of CPU threads, if one was given.
    choice : Choice
        The format in use, and why. `build` replaces "auto" by the format that it chooses. Over several
        devices it chooses a format for the rows of each, and the choice only names them.
    """

    device: str | tuple[str, ...]
    ordinals: tuple[int, ...]
    request: Request = field(default_factory=Request)
    division: Division = field(default_factory=Division)
    reorder: Reorder = None
    stream: int | None = None
    threads: int | None = None
    choice: Choice = _UNCHOSEN

    @property
    def is_divided(self) -> bool:
        """Whether the rows are divided among several devices, of which a list may name only one."""
        return isinstance(self.device, tuple)

    @property
    def may_change_format(self) -> bool:
        """Whether values that the format cannot hold lead to another format, as the caller asked for none."""
        known = traits(self.choice.format)
        is_found = known.needs_rows_that_repeat or (known.needs_symmetry and not self.request.symmetric)
        return is_found and self.request.format == "auto"

    def on(self, device: str | Devices) -> Description:
        """The description for other devices, less the stream and threads that mean nothing there."""
        ordinals = resolved(device)
        return replace(
            self,
            device=tuple(device) if isinstance(device, list) else device,
            ordinals=ordinals,
            stream=self.stream if ordinals == self.ordinals else None,
            threads=self.threads if CPU in ordinals else None,
        )

    def unchosen(self) -> Description:
        """The description with nothing asked of the format, which is chosen again."""
        request = Request(symmetric=self.request.symmetric)
        return replace(self, request=request, division=Division(), reorder=False, choice=_UNCHOSEN)

    def knowing(self, symmetric: Symmetry | None) -> Description:
        """The description of a matrix with the same pattern, of which this is known."""
        return replace(self, request=replace(self.request, symmetric=symmetric))

    def of_part(self) -> Description:
        """The description of some rows and columns: the same format, but in no parts of its own."""
        made = self.knowing(of_part(self.request.symmetric))
        if isinstance(self.division.partition, str):
            division = self.division
        else:
            division = replace(self.division, partition="nnz")
        if self.is_divided and self.request.format in CHOOSERS:  # its options may be for the rows that were
            made = made.in_csr("")
        same = Choice("csr") if self.choice.parts else self.choice
        return replace(made, division=division, choice=replace(same, reason=_SAME))

    def transposed(self) -> Description:
        """The description of the transpose."""
        return replace(self.of_part(), choice=parts.transposed(self.choice))

    def in_csr(self, reason: str) -> Description:
        """The description with format "csr", which holds every matrix."""
        request = replace(self.request, format="csr", options={})
        return replace(self, request=request, choice=Choice("csr", {}, reason))


_SAME = "the original operator has this format"


def resolved(device: str | Devices) -> tuple[int, ...]:
    """The numbers of the devices that a caller named.

    Raises
    ------
    TypeError, ValueError, CudaError
        As `resolve_device`.
    """
    names = device if isinstance(device, list | tuple) else (device,)
    if not names:
        raise ValueError("device is an empty list; name at least one device")
    return tuple(map(resolve_device, names))
