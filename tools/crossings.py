"""Count how often Python and the compiled core call each other while an operator is made.

    python tools/crossings.py

It counts calls of functions, methods and constructors of `spmvgpu._core`, its `with` statements, reads of
properties, and calls of functions that it is given. Where there is no GPU, one is pretended: the core plans
as for an H200, and builds in host memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FunctionType
from typing import Any
from unittest.mock import patch

import spmvgpu as sg
from spmvgpu import _core
from spmvgpu.planning import profile

_H200 = {
    "model": "NVIDIA H200",
    "multiprocessors": 132,
    "memory_total": 1 << 37,
    "memory_free": 1 << 37,
    "memory_idle": 0,
    "compute_capability": (9, 0),
}


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Within a ``with`` statement, count what crosses, by name."""
    counts: Counter[str] = Counter()
    with _replaced(lambda name, function: _counting(counts, name, function)):
        yield counts


def _counting(counts: Counter[str], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*given: Any, **named: Any) -> Any:
        counts[name] += 1
        handed = [_counting(counts, f"{name} calling back", v) if _is_function(v) else v for v in given]
        return function(*handed, **named)

    return call


def _is_function(value: object) -> bool:
    return isinstance(value, FunctionType | partial)


@contextmanager
def _replaced(replacement: Callable[[str, Callable[..., Any]], Any]) -> Iterator[None]:
    """Within a ``with`` statement, every function of the core is what `replacement` makes of it."""
    undo: list[tuple[Any, str, Any]] = []
    for owner in _owners():
        for name, own in list(vars(owner).items()):
            full = name if owner is _core else f"{owner.__name__}.{name}"
            is_special = name.startswith("__") and name not in ("__init__", "__enter__", "__exit__")
            if is_special or isinstance(own, type) or (owner is not _core and issubclass(owner, Exception)):
                continue
            if isinstance(own, staticmethod):
                new: Any = staticmethod(replacement(full, own.__func__))
            elif isinstance(own, property):
                new = property(own.fget and replacement(full, own.fget), own.fset)
            elif callable(own):
                new = replacement(full, own)
            else:
                continue
            undo.append((owner, name, own))
            setattr(owner, name, new)
    try:
        yield
    finally:
        for owner, name, own in undo:
            setattr(owner, name, own)


def _owners() -> list[Any]:
    return [_core, *(found for found in vars(_core).values() if isinstance(found, type))]


@contextmanager
def pretended_gpu(count: int = 1) -> Iterator[str]:
    """Within a ``with`` statement, there are GPUs whose memory is the host's; gives the name of the first."""

    def on_host(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        if name in ("CsrSource.__init__", "CsrSource.checked", "CsrSource.build"):
            return lambda *given: function(*given[:-1], -1)  # for the CPU
        if name == "CsrSource.plan":
            return lambda *given: function(*given[:-1], _H200["multiprocessors"])
        return function

    with (
        _replaced(on_host),
        patch.object(_core, "device_count", lambda: count),
        patch.object(_core, "device_properties", lambda ordinal: _H200),
    ):
        _forget_profiles()
        try:
            yield "cuda:0"
        finally:
            _forget_profiles()


def _forget_profiles() -> None:
    """Forget the names of devices and their profiles, as the name of a device stands for another one now."""
    profile.device_model.cache_clear()
    profile.shipped.cache_clear()
    profile.forget_loaded()


def report(what: str, make: Callable[[], object]) -> None:
    """Print what crosses when an operator is made that was made before."""
    make()
    with counted() as counts:
        make()
    print(f"{what}: {counts.total()} crossings")
    for name, count in counts.most_common():
        print(f"  {count:3d} {name}")


def main() -> None:
    small, large = sg.gallery.poisson2d(45), sg.gallery.poisson2d(300)
    with sg.cache.empty():
        for A in (small, large):
            what = f"{A.nnz:,} non-zeros"
            report(f"CPU, {what}", lambda A=A: sg.aslinearoperator(A, device="cpu"))  # type: ignore[misc]
            if any(info.name == "cuda:0" for info in sg.devices()):
                report(f"GPU, {what}", lambda A=A: sg.aslinearoperator(A, device="cuda:0"))  # type: ignore[misc]
                continue
            with pretended_gpu() as device:
                report(f"pretended GPU, {what}", lambda A=A: sg.aslinearoperator(A, device=device))  # type: ignore[misc]


if __name__ == "__main__":
    main()
