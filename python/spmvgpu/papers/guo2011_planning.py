"""What callers use of Guo et al. 2011: format "partitioned", model "guo2011" and `partition.separator`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .. import _core
from .._util import schema
from .._util.arguments import with_hints
from .._util.schema import Range
from .._util.value_types import value_type
from ..devices import CPU, resolve_device
from ..formats import Choice, Indices, Part, estimate_csr
from ..inputs.canonical import canonical_csr
from ..planning.predict import Model, Prediction
from ..planning.profile import DTYPES, Profile, load_profile
from .guo2011 import KNOWN, Guo2011, Separator, find_separator

PARTITIONED = "partitioned"


@with_hints
def separator(A: Any, device: str = "auto", *, profile: str | os.PathLike[str] | None = None) -> Separator:
    """Find the best cut of a matrix, its rows sorted by length, into a CSR and an ELLPACK part.

    The method comes from Guo et al. 2011, section 5. ``format="partitioned"`` of `spmvgpu.aslinearoperator`
    uses it.

    Parameters
    ----------
    A : sparse matrix
        As `spmvgpu.aslinearoperator` takes it.
    device : str, default "auto"
        As `spmvgpu.aslinearoperator` takes it.
    profile : path, optional
        A device profile, as ``python -m spmvgpu calibrate`` writes it. The default is the profile of the
        device.

    Returns
    -------
    Separator

    Examples
    --------
    >>> import spmvgpu as sg
    >>> cut = sg.partition.separator(sg.gallery.powerlaw(2000, 8.0), "cpu")
    >>> 0 <= cut.csr_rows <= 2000
    True
    """
    ordinal = resolve_device(device)
    return separator_csr(canonical_csr(A), load_profile(ordinal, profile, check))


def separator_csr(csr: Any, profile: Profile) -> Separator:
    """`separator` of a matrix that is canonical CSR already."""
    refused = [name for name in KNOWN if isinstance(_cost(csr, name, CPU), str)]
    return find_separator(np.diff(csr.indptr), model_of(profile, csr.dtype), refused)


def cut_by_length(csr: Any, ordinal: int, options: Mapping[str, Any]) -> Choice:
    """The choice for format "partitioned": long rows as CSR, short ones as ELLPACK, or one format for all."""
    unknown = set(options) - {"separator"}
    if unknown:
        raise TypeError(f"format {PARTITIONED!r} has no option {min(unknown)!r}; its options are: separator")
    rows, cut = csr.shape[0], options.get("separator", 0)
    if not isinstance(cut, int) or not 0 <= cut < max(rows, 1):
        raise ValueError(
            f"separator={cut!r} is not allowed; give 0 for an automatic choice, or a number of rows up to "
            f"{rows - 1}"
        )
    reason = "the separator was given"
    if cut == 0:
        found = separator_csr(csr, load_profile(ordinal, check=check))
        if found.format != PARTITIONED:
            reason = f"a split is not predicted to be faster than {found.format} alone"
            return Choice(found.format, {}, reason)
        cut = found.csr_rows
        name, alone = min(found.whole_us.items(), key=lambda entry: entry[1])
        reason = (
            f"{cut} of {rows} rows as csr and the others as ellpack are predicted to take "
            f"{found.time_us:.1f} us, and {name} alone {alone:.1f} us"
        )
    by_length = np.argsort(-np.diff(csr.indptr), kind="stable").astype(np.int32)
    return partitioned([by_length[:cut], by_length[cut:]], [Choice("csr"), Choice("ellpack")], reason)


def partitioned(rows: Sequence[Indices], choices: Sequence[Choice], reason: str) -> Choice:
    """The choice of one format per set of rows; together the sets hold every row once."""
    made = tuple(Part(own, choice) for own, choice in zip(rows, choices, strict=True))
    return Choice(PARTITIONED, {}, reason, made)


def model_of(profile: Profile, dtype: Any) -> Guo2011:
    """The model of matrices of a value type."""
    return Guo2011.from_parameters(profile.extra["guo2011"][value_type(dtype).profile])


def predictions(csr: Any, ordinal: int, profile: Profile, names: Iterable[str]) -> list[Prediction]:
    """What the model says of each format."""
    times = model_of(profile, csr.dtype).predict(np.diff(csr.indptr))
    entries = []
    for name in names:
        cost = _cost(csr, name, ordinal)
        if isinstance(cost, str):
            entries.append(Prediction(name, note=cost))
            continue
        options = {"kernel": "shared"} if name == "csr" else {}
        note = "" if name in times else "the model does not cover this format"
        entries.append(Prediction(name, options, times.get(name), cost["bytes"], cost["padding"], note=note))
    return entries


def _cost(csr: Any, format: str, ordinal: int) -> dict[str, float] | str:
    """What a format costs, or why it refuses the matrix."""
    try:
        return estimate_csr(csr, format, ordinal)
    except _core.FormatError as refused:
        return str(refused)


_LARGE = 1e18
_POSITIVE, _COUNT = Range(1e-9, _LARGE), Range(1, _LARGE, whole=True)
_NOT_NEGATIVE, _COEFFICIENT = Range(0, _LARGE), Range(-_LARGE, _LARGE)

_PARAMETERS = {
    "csr": {
        "full_load": _COUNT,
        "threshold": _NOT_NEGATIVE,
        "conic": [_COEFFICIENT, 3],
        "line": [_COEFFICIENT, 2],
    },
    "ell": {"rows": [_COUNT], "widths": [_COUNT], "times": [[_POSITIVE]]},
    "coo": {"line": [_NOT_NEGATIVE, 2]},
}


def check(profile: Profile) -> None:
    """Raise ValueError, naming the entry, if the profile has no parameters that the model can use."""
    parameters = profile.extra.get("guo2011", {})
    schema.check(parameters, dict.fromkeys(DTYPES, _PARAMETERS), "guo2011")
    for entry in parameters.values():
        schema.check(entry["csr"]["line"][1], _POSITIVE, "the slope of csr's line")
        rows, widths, times = (entry["ell"][name] for name in ("rows", "widths", "times"))
        if len(times) != len(rows) or {len(row) for row in times} != {len(widths)}:
            raise ValueError(f"ell must have {len(rows)} rows of {len(widths)} times")
        for grid in (rows, widths):
            if len(grid) < 2 or any(a >= b for a, b in pairwise(grid)):
                raise ValueError("the rows and widths of ell must increase")


MODEL = Model(check, predictions)
