"""What messages quote of files and of others' errors: one short line, whatever there is in it."""

from __future__ import annotations

_MOST_QUOTED, _MOST_SAID = 80, 300


def quoted(content: bytes | str) -> str:
    """The begin of some content, between quotes, without characters that a terminal would obey."""
    text = content[: _MOST_QUOTED + 1]
    text = text.decode("latin-1") if isinstance(text, bytes) else text
    return ascii(text[:_MOST_QUOTED]) + ("..." if len(text) > _MOST_QUOTED else "")


def reason(error: BaseException) -> str:
    """Message of an exception, with its type where the message says little without it, on one short line."""
    speaks = isinstance(error, (ValueError, TypeError, OSError, MemoryError)) and str(error)
    text = str(error) if speaks else f"{type(error).__name__}: {error}"
    line = "".join(c if c.isprintable() else " " for c in text[: _MOST_SAID + 1])
    return line if len(line) <= _MOST_SAID else line[:_MOST_SAID] + "..."


def said(error: BaseException) -> str:
    """What an exception says to those who read no Python: of an error of the system, file and reason."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__
