"""Where to cut a matrix into a CSR and an ELLPACK part, after Guo et al. 2011, section 5."""

from __future__ import annotations

import os
from typing import Any

from .._util.arguments import with_hints
from ..devices import resolve_device
from ..inputs.canonical import canonical_csr
from ..planning.guo2011 import Separator
from ..planning.predict import separator_csr
from ..planning.profile import load_profile


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
    return separator_csr(canonical_csr(A), load_profile(ordinal, profile))
