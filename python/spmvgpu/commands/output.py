"""How the commands print."""

from __future__ import annotations

import sys
from time import perf_counter


def fail(message: str, code: int) -> int:
    """Print an error and return the exit code."""
    print(f"error: {message}", file=sys.stderr)
    return code


def print_line(name: str, value: str) -> None:
    print(f"{name:<12} {value}".rstrip(), flush=True)


def in_bytes(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.4g} {unit}"
        count /= 1000
    return f"{count:.4g} TB"


class Progress:
    """A line on stderr that is rewritten on a terminal and repeated now and then elsewhere."""

    SECONDS_ON_TERMINAL = 0.1
    SECONDS_ELSEWHERE = 5.0

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted
        self.terminal = sys.stderr.isatty()
        self.interval = self.SECONDS_ON_TERMINAL if self.terminal else self.SECONDS_ELSEWHERE
        self.next = perf_counter() + self.interval
        self.written = 0

    def due(self) -> bool:
        return self.wanted and perf_counter() >= self.next

    def show(self, text: str) -> None:
        self.next = perf_counter() + self.interval
        if self.terminal:
            sys.stderr.write("\r" + text.ljust(self.written))
            self.written = len(text)
        else:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def finish(self) -> None:
        if self.written:
            sys.stderr.write("\r" + " " * self.written + "\r")
            sys.stderr.flush()
