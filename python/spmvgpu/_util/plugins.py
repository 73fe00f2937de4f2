"""What modules that nothing imports add to the package.

An addition has a name that a caller gives, as in ``format="partitioned"``. Its module is imported then.
"""

from __future__ import annotations

from collections import UserDict
from importlib import import_module
from typing import Any, TypeVar

_T = TypeVar("_T")

# By what is added and by its name: a module of the package, and what to take from it.
_ADDED: dict[str, dict[str, Any]] = {
    "calibration": {"guo2011": "papers.guo2011_planning:Calibration"},
    "chooser": {"partitioned": "papers.guo2011_planning:cut_by_length"},
    "model": {"guo2011": "papers.guo2011_planning:MODEL"},
    "multigrid": {"ranks": "distributed.multigrid:multigrid_over_ranks"},
    "operator": {"divided": "multi_device.operator:MultiDeviceOperator"},
    "problem": {"ranks": "distributed.problem:DoubleSystemOverRanks"},
    "partition": {"pmf": "papers.yang2015:by_pmf"},
}


class Plugins(UserDict[str, _T]):
    """What is added of one kind, by name, after what the caller has of its own."""

    def __init__(self, kind: str, **own: _T) -> None:
        super().__init__({**own, **_ADDED[kind]})

    def __getitem__(self, name: str) -> _T:
        found = self.data[name]
        if isinstance(found, str):
            module, attribute = found.split(":")
            self.data[name] = getattr(import_module(f"spmvgpu.{module}"), attribute)
        return self.data[name]
