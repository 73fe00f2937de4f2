"""Whose turn it is on the GPUs, among tests in several processes."""

from __future__ import annotations

import contextlib
import fcntl


@contextlib.contextmanager
def turn(folder, alone):
    """Hold what the two lock files in `folder` stand for, together with other holders or `alone`.

    Whoever wants it alone keeps others from coming in while it waits for those inside to leave: with one file
    it would wait until no test is left that comes in together with others.
    """
    with open(folder / "turnstile.lock", "w") as turnstile, open(folder / "inside.lock", "w") as inside:
        fcntl.flock(turnstile, fcntl.LOCK_EX)
        fcntl.flock(inside, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(turnstile, fcntl.LOCK_UN)
        yield
