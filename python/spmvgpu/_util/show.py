"""What objects show of themselves: a few lines at a prompt, a small table in a notebook."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, cast

import numpy as np

#: No `repr` of a public object is larger.
COLUMNS, LINES = 100, 5

_MOST_ITEMS = 4  # of a list or a dict
_MOST_NUMBERS = 8  # of an array
_LONGEST_TEXT = 60


def fit(text: str) -> str:
    """Text in at most `LINES` lines of at most `COLUMNS` characters; "..." stands for what is left out."""
    return "\n".join(
        textwrap.wrap(
            text, COLUMNS, subsequent_indent="  ", break_on_hyphens=False, max_lines=LINES, placeholder=" ..."
        )
    )


def wrapped(text: str) -> str:
    """Text in lines of at most `COLUMNS` characters, all but the first one indented."""
    return textwrap.fill(text, COLUMNS, subsequent_indent="  ", break_on_hyphens=False)


class Brief:
    """A dataclass with a `repr` that shortens long values; it is made with ``repr=False``."""

    def __repr__(self) -> str:
        names = [field.name for field in fields(cast(Any, self)) if field.repr]
        shown = ", ".join(f"{name}={short(getattr(self, name))}" for name in names)
        return fit(f"{type(self).__name__}({shown})")


def short(value: object) -> str:
    """A value in about `_LONGEST_TEXT` characters."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    if isinstance(value, np.ndarray):
        if value.ndim == 1 and len(value) <= _MOST_NUMBERS:
            return f"array([{', '.join(map(short, value.tolist()))}])"
        return f"<array of {'x'.join(map(str, value.shape))} {value.dtype}>"
    if isinstance(value, list) or type(value) is tuple:
        return _items(value, "()" if isinstance(value, tuple) else "[]")
    if isinstance(value, Mapping):
        entries = [f"{key!r}: {short(entry)}" for key, entry in value.items()]
        return "{" + ", ".join(_few(entries)) + "}"
    text = repr(value)
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 3]}...{text[-1]}"


def _items(values: Iterable[object], brackets: str = "[]") -> str:
    return brackets[0] + ", ".join(_few([short(value) for value in values])) + brackets[1]


def _few(texts: list[str]) -> list[str]:
    if len(texts) <= _MOST_ITEMS:
        return texts
    return [*texts[: _MOST_ITEMS - 1], f"... {len(texts)} in all"]


def in_bytes(count: float) -> str:
    """A number of bytes as people read it: ``"24.64 KB"``."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.4g} {unit}"
        count /= 1000
    return f"{count:.4g} TB"


def html_table(caption: str, rows: Iterable[Iterable[object]], heads: Iterable[str] = ()) -> str:
    """A table for a notebook; without heads, the first cell of each row says what is in it."""
    lines = ["".join(_cell("th", head) for head in heads)]
    first_tag = "td" if lines[0] else "th"
    for first, *rest in rows:
        lines.append(_cell(first_tag, first) + "".join(_cell("td", cell) for cell in rest))
    body = "".join(f"<tr>{line}</tr>" for line in lines if line)
    return f"<table><caption>{_escaped(caption)}</caption>{body}</table>"


def _cell(tag: str, content: object) -> str:
    return f"<{tag} style='text-align:left'>{_escaped(content)}</{tag}>"


def _escaped(content: object) -> str:
    import html  # with all named characters

    return html.escape(str(content))
