"""What may be given as a format and is none: a plug-in chooses for the matrix what is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from .._util.plugins import Plugins
from ..formats import Choice

#: Of a canonical matrix, the device and the options that were given.
Request: TypeAlias = Callable[[Any, int, Mapping[str, Any]], Choice]
REQUESTS: Mapping[str, Request] = Plugins("request")


def requested(csr: Any, format: str, ordinal: int, options: Mapping[str, Any]) -> Choice:
    """What a canonical matrix is stored as if a format or a request is given by name."""
    if format in REQUESTS:
        return REQUESTS[format](csr, ordinal, options)
    return Choice(format, dict(options))
