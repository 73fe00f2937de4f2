"""How the commands print."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from ..files import replacing as replacing
from ..show import in_bytes as in_bytes

# Between two looks at a bar, and before the first: what takes less time shows none.
_SECONDS_ON_TERMINAL, _SECONDS_ELSEWHERE = 0.1, 5.0


def fail(message: str, code: int) -> int:
    """Print an error and return the exit code."""
    print(f"error: {message}", file=sys.stderr)
    return code


def check_writable(path: Path) -> None:
    """Refuse, with ValueError, a path where no file can be written, before hours are spent on its content."""
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}; give a file in a folder that exists")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path}: not a regular file; give the name of one, or of none yet")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ValueError(f"{path}: it must not be written; give a file where you may write")


def print_line(name: str, value: str) -> None:
    print(f"{name:<12} {value}".rstrip(), flush=True)


def progress_bar(**options: Any) -> Any:
    """A progress bar of tqdm's on stderr; where that is not installed, one that shows nothing."""
    try:
        from tqdm import tqdm
    except ImportError:
        return _NoBar()
    # On a terminal the bar is rewritten in place; elsewhere every line of it stays.
    seconds = _SECONDS_ON_TERMINAL if sys.stderr.isatty() else _SECONDS_ELSEWHERE
    return tqdm(file=sys.stderr, leave=False, mininterval=seconds, delay=seconds, **options)


class _NoBar:
    """As much of tqdm's bar as is used here."""

    n = 0.0

    def update(self, n: float = 1) -> bool:
        """False: nothing was shown."""
        return False

    def set_postfix_str(self, text: str) -> None: ...
    def close(self) -> None: ...
