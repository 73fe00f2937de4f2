"""Attributes that are worked out, and public names that are imported, when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    package: str, names: Sequence[str], *modules: str
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package that shows these names and no others.

    What the package does not import itself is taken from the first of `modules`, named relative to it, that
    has the name. They are imported when they are searched.
    """

    def get(name: str) -> object:
        for module in modules if name in names else ():
            found = import_module(module, package)
            if hasattr(found, name):
                return getattr(found, name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, lambda: list(names)
