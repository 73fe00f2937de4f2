"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to, whose file takes the place of another once it is whole.

    Of one that could not be written nothing is left, and the error names the path.
    """
    target = path.resolve()
    temporary = target.with_name(f".{target.name[:200]}.{os.getpid()}")
    try:
        yield temporary
        temporary.replace(target)
    except OSError as error:
        raise OSError(f"{path}: could not be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            temporary.unlink()
