"""A signal handler may run between any two steps of a program: here something runs, or is raised, at each."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import spmvgpu

PACKAGE = str(Path(spmvgpu.__file__).parent)


class Interrupted(BaseException):
    """What a handler raises: nothing in the package catches it."""


def interrupt() -> None:
    raise Interrupted


class _Handler:
    """A trace function that calls something before one of the instructions of the files in a place."""

    def __init__(self, at: int, action: Callable[[], object], place: str) -> None:
        self.left, self.action, self.place = at, action, place
        self.ran_at = ""

    def __call__(self, frame: FrameType, event: str, _: Any) -> _Handler | None:
        if not frame.f_code.co_filename.startswith(self.place):
            return None
        frame.f_trace_opcodes = True
        # There is no line where a generator ends. Python ignores what it raises there.
        if event == "opcode" and frame.f_lineno is not None:
            self.left -= 1
            if self.left == 0:
                self.ran_at = f"{frame.f_code.co_filename}:{frame.f_lineno}, instruction {frame.f_lasti}"
                self.action()
        return self


def at_each_step(
    call: Callable[[], object],
    action: Callable[[], object] = interrupt,
    place: str = PACKAGE,
    stride: int = 1,
) -> Iterator[str]:
    """Run `call` again and again, with `action` at one step after the other, until it is through.

    Parameters
    ----------
    call : callable
    action : callable
        By default it raises `Interrupted`, which ends `call`.
    place : str, default the package
        With what the names of the files begin whose steps count.
    stride : int, default 1
        1: at every step; 3: at every third.

    Yields
    ------
    str
        Where it was, once `call` has ended.
    """
    at = 1
    while True:
        handler = _Handler(at, action, place)
        before = sys.gettrace()
        # Python 3.12 tells of instructions only if some frame asks for them when tracing begins.
        sys._getframe().f_trace_opcodes = True
        sys.settrace(handler)
        try:
            call()
        except Interrupted:
            pass
        finally:
            sys.settrace(before)
        if not handler.ran_at:
            assert at > 1, "no step of the call was seen"
            return
        yield handler.ran_at
        at += stride


def ends_in_another_thread(call: Callable[[], object], seconds: float = 60.0) -> bool:
    """Whether a call ends in a thread that has none of this one's locks."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()
