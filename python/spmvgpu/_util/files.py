"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import get_ident


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to, whose file takes the place of another once it is whole.

    A reader, or another writer, never meets half a file. If writing fails, nothing is left, and the error
    names the path.
    """
    target = Path(os.path.realpath(path))  # which links that lead nowhere do not stop
    temporary = target.with_name(f".{target.name[:200]}.{os.getpid()}.{get_ident()}")
    try:
        yield temporary
        temporary.replace(target)
    except OSError as error:
        raise OSError(f"{path}: could not be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            temporary.unlink()
