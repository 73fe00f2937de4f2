"""Quotations of files and of errors in messages: one short line each, whatever is in it."""

from __future__ import annotations

_MOST_QUOTED, _MOST_SAID = 80, 300


def quoted(content: bytes | str) -> str:
    """The first characters of some content in quotes, with control characters escaped."""
    text = content[: _MOST_QUOTED + 1]
    text = text.decode("latin-1") if isinstance(text, bytes) else text
    return ascii(text[:_MOST_QUOTED]) + ("..." if len(text) > _MOST_QUOTED else "")


def reason(error: BaseException) -> str:
    """The message of an exception on one short line, with the type unless the message is clear without it."""
    speaks = isinstance(error, (ValueError, TypeError, OSError, MemoryError)) and str(error)
    text = str(error) if speaks else f"{type(error).__name__}: {error}"
    line = "".join(c if c.isprintable() else " " for c in text[: _MOST_SAID + 1])
    return line if len(line) <= _MOST_SAID else line[:_MOST_SAID] + "..."


def said(error: BaseException) -> str:
    """The message of an exception for the command line; for an error of the system, file and reason."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__
