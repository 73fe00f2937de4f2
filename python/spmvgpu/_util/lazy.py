"""Attributes that are worked out, and public names that are imported, when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Generic, TypeVar, overload

_T = TypeVar("_T")


class lazy(Generic[_T]):  # noqa: N801
    """As `functools.cached_property`, without the lock that Python before 3.12 has in it.

    There is one such lock for all instances. A process that is forked off while another thread works a value
    out would wait for it for ever.
    """

    def __init__(self, function: Callable[[Any], _T]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[_T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> _T: ...
    def __get__(self, instance: Any, owner: type) -> lazy[_T] | _T:
        if instance is None:
            return self
        value = self._function(instance)
        instance.__dict__[self._name] = value  # which is found before this from now on
        return value


def public_names(
    package: str, names: Sequence[str], module_of: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package with these public names.

    `module_of` has those that are imported at first use, with their modules, relative to the package.
    """

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(module_of[name], package), name)

    return get, lambda: list(names)
