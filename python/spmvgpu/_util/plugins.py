"""What the modules of papers add to the package, which imports none of them by itself.

Each addition has a name that a caller gives, as in ``format="partitioned"``. Its module is imported then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, TypeVar

_T = TypeVar("_T")

# By what is added and by its name: a module of the package, and what to take from it.
_ADDED: dict[str, dict[str, str]] = {
    "calibration": {"guo2011": "papers.guo2011_calibration:Calibration"},
    "model": {"guo2011": "papers.guo2011_planning:MODEL"},
    "partition": {"pmf": "papers.yang2015:by_pmf"},
    "request": {"partitioned": "papers.guo2011_planning:cut_by_length"},
}


class Plugins(Mapping[str, _T]):
    """All that is added of one kind, by name, after the room's own."""

    def __init__(self, kind: str, **own: _T) -> None:
        self._found: dict[str, Any] = {**own, **_ADDED[kind]}

    def __getitem__(self, name: str) -> _T:
        found = self._found[name]
        if isinstance(found, str):
            module, attribute = found.split(":")
            found = self._found[name] = getattr(import_module(f"spmvgpu.{module}"), attribute)
        value: _T = found
        return value

    def __contains__(self, name: object) -> bool:  # without importing it
        return name in self._found

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)
