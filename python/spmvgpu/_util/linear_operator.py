"""SciPy's `LinearOperator`, without the rest of `scipy.sparse.linalg`.

Importing that package loads SciPy's solvers and LAPACK, which takes a third of the time from the start of a
process to its first product, and a product needs none of it. The module with the class can run on its own.
When the package is imported later, a finder gives it this module, so that there is one class.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec, spec_from_loader
from types import ModuleType
from typing import TYPE_CHECKING

import scipy.sparse

_PACKAGE = "scipy.sparse.linalg"
_NAME = f"{_PACKAGE}._interface"


class _Executed(MetaPathFinder, Loader):
    """Finds a module that was executed before, at its first import only: to reload it is to read its file."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._module.__name__:
            return None
        return spec_from_loader(name, self, origin=self._module.__file__)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        self.remove()

    def remove(self) -> None:
        with suppress(ValueError):  # if another thread has done so
            sys.meta_path.remove(self)


def _executed() -> ModuleType | None:
    """The module, executed without its package; None if that needs the package, or the package is loaded."""
    spec = PathFinder.find_spec(_NAME, [f"{folder}/linalg" for folder in scipy.sparse.__path__])
    if _PACKAGE in sys.modules or spec is None or spec.loader is None:
        return None
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ImportError:
        return None
    finder = _Executed(module)
    sys.meta_path.insert(0, finder)
    if _PACKAGE in sys.modules:  # another thread imports it, and may have looked for the module before
        finder.remove()
        return None
    return module


if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator as LinearOperator
else:
    LinearOperator = (_executed() or import_module(_PACKAGE)).LinearOperator
