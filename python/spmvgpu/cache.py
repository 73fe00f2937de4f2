"""Results that are kept on disk: the fastest formats of matrices, and profiles of devices.

The folder ``tuning`` has a small file for each kind of matrix and device: its fastest format. The folder
``profiles`` has the measurements of ``python -m spmvgpu calibrate``. You can delete them at any time. A file
that is damaged, or cannot be read or written, is ignored with a warning.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import platformdirs

from . import _core
from ._util.files import replacing
from ._util.schema import check
from ._util.show import Brief

__all__ = ["MAX_TUNING_ENTRIES", "CacheInfo", "clear", "directory", "empty", "ignored", "info"]


def __dir__() -> list[str]:
    return __all__


#: Largest number of tuning results; the oldest are deleted first.
MAX_TUNING_ENTRIES = 512

_VARIABLE = "SPMVGPU_CACHE_DIR"
_MAX_FILE_BYTES = 1 << 22  # several times a profile
_warned: set[str] = set()
_ignored: ContextVar[bool] = ContextVar("ignored", default=False)


@dataclass(frozen=True, repr=False)
class CacheInfo(Brief):
    """What the cache contains.

    Attributes
    ----------
    directory : Path or None
        The folder of the cache, or None if the user has no folder for caches.
    tuning_entries : int
        Number of tuning results, one for each kind of matrix and device.
    profiles : tuple of str
        Names of the calibrated devices.
    bytes : int
        Size of all files.

    Examples
    --------
    >>> import spmvgpu as sg
    >>> with sg.cache.empty():
    ...     sg.cache.info().tuning_entries
    0
    """

    directory: Path | None
    tuning_entries: int
    profiles: tuple[str, ...]
    bytes: int


def directory() -> Path | None:
    """Return the folder of the cache.

    It is the value of the environment variable ``SPMVGPU_CACHE_DIR``, or else the folder ``spmvgpu`` in the
    user's folder for caches.

    Returns
    -------
    Path or None
        None if neither exists, as for a user without a home directory.

    Examples
    --------
    >>> import spmvgpu as sg
    >>> with sg.cache.empty():
    ...     sg.cache.directory().is_dir()
    True
    """
    given = os.environ.get(_VARIABLE)
    if given:
        return Path(given)
    path = _of_user(*(os.environ.get(name) for name in _OF_USER))
    if path.is_absolute():
        return path
    warn_once(
        "no directory for caches is known, as there is no home directory: nothing that is found out is kept. "
        "The environment variable SPMVGPU_CACHE_DIR names one"
    )
    return None


# Variables that say where a user's caches are. Every operator asks for the folder, which is found again only
# when one of them changes.
_OF_USER = ("XDG_CACHE_HOME", "HOME", "USERPROFILE", "LOCALAPPDATA")


@lru_cache(maxsize=4)
def _of_user(*_: str | None) -> Path:
    try:
        return platformdirs.user_cache_path("spmvgpu", appauthor=False)
    except (OSError, RuntimeError, KeyError):
        return Path()


def info() -> CacheInfo:
    """Return what the cache contains.

    Returns
    -------
    CacheInfo

    Examples
    --------
    >>> import spmvgpu as sg
    >>> with sg.cache.empty():
    ...     op = sg.aslinearoperator(sg.gallery.poisson2d(30), device="cpu", tune="full")
    ...     sg.cache.info().tuning_entries
    1
    """
    where = directory()
    tuning, profiles = _files(where, "tuning"), _files(where, "profiles")
    size = sum(int(_stat(file, "st_size")) for file in [*tuning, *profiles])
    return CacheInfo(where, len(tuning), tuple(sorted(Path(file).stem for file in profiles)), size)


def clear(*, profiles: bool = False) -> int:
    """Delete the tuning results, so that formats are timed again.

    Parameters
    ----------
    profiles : bool, default False
        Also delete the profiles of devices. ``python -m spmvgpu calibrate`` takes minutes to measure one.

    Returns
    -------
    int
        Number of deleted files.

    Raises
    ------
    OSError
        If a file cannot be deleted.

    Examples
    --------
    >>> import spmvgpu as sg
    >>> with sg.cache.empty():
    ...     op = sg.aslinearoperator(sg.gallery.poisson2d(30), device="cpu", tune="full")
    ...     sg.cache.clear()
    1
    """
    where = directory()
    files = _files(where, "tuning") + (_files(where, "profiles") if profiles else [])
    for file in files:
        Path(file).unlink(missing_ok=True)
    return len(files)


@contextmanager
def empty() -> Iterator[None]:
    """Within a ``with`` statement, use a new and empty cache, also in processes that are started there.

    Examples
    --------
    >>> import spmvgpu as sg
    >>> with sg.cache.empty():
    ...     sg.cache.info().bytes
    0
    """
    before = os.environ.get(_VARIABLE)
    try:
        with tempfile.TemporaryDirectory(prefix="spmvgpu-") as folder:
            os.environ[_VARIABLE] = folder
            yield
    finally:
        if before is None:
            os.environ.pop(_VARIABLE, None)
        else:
            os.environ[_VARIABLE] = before


def ignored() -> AbstractContextManager[object]:
    """Within a ``with`` statement, neither read nor store tuning results.

    Examples
    --------
    >>> import spmvgpu as sg
    >>> with sg.cache.ignored():
    ...     op = sg.aslinearoperator(sg.gallery.poisson2d(30), device="cpu")
    """
    return _core.Within(_ignored, True)


def is_ignored() -> bool:
    """Whether this thread is within `ignored`."""
    return _ignored.get()


def holds_tuning() -> bool:
    """Whether any tuning result is kept: a fraction of what it takes to look for that of one matrix."""
    where = directory()
    if where is not None:
        with suppress(OSError), os.scandir(where / "tuning") as entries:  # the folder may be missing
            return any(entry.name.endswith(".json") for entry in entries)
    return False


def warn_once(message: str) -> None:
    """Warn, unless the same was said before in this process."""
    if message not in _warned:
        _warned.add(message)
        warnings.warn(message, UserWarning, stacklevel=2)


def read(path: Path, table: object) -> Any:
    """The content of a JSON file.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it cannot be read, or does not fit the table (see `spmvgpu._util.schema`); says why.
    """
    try:
        # Without waiting for a writer, in case it is a named pipe.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ValueError("it is not a regular file")
            text = file.read(_MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ValueError(error.strerror or type(error).__name__) from error
    if len(text) > _MAX_FILE_BYTES:
        raise ValueError(f"it has more than {_MAX_FILE_BYTES} bytes")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {str(error)[:100]}") from error
    check(content, table)
    return content


def write(path: Path, text: str) -> None:
    """Write a file and the folder that it is in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write_text(text, encoding="utf-8")


def drop_oldest(folder: Path) -> None:
    """Keep the cache small, after a result was stored: of too many, delete the oldest quarter."""
    files = _files(folder.parent, folder.name)
    if len(files) > MAX_TUNING_ENTRIES:
        files.sort(key=lambda file: _stat(file, "st_mtime"))
        for file in files[: len(files) - MAX_TUNING_ENTRIES * 3 // 4]:
            Path(file).unlink(missing_ok=True)


def _files(where: Path | None, kind: str) -> list[os.DirEntry[str]]:
    if where is None:
        return []
    with suppress(OSError), os.scandir(where / kind) as entries:
        return [entry for entry in entries if entry.name.endswith(".json") and not entry.is_dir()]
    return []


def _stat(file: os.DirEntry[str], name: str) -> float:
    try:
        return float(getattr(file.stat(), name))
    except OSError:  # another process was faster
        return 0.0
