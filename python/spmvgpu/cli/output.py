"""How the commands print and write files."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import wrap
from types import NoneType, UnionType
from typing import TypeAlias, get_args, get_origin, get_type_hints

from .._util.files import replacing as replacing
from .._util.show import in_bytes as in_bytes

#: The type and the meaning of each value in the JSON of a command, by its path, like "devices[].name".
Fields: TypeAlias = Mapping[str, tuple[str, str]]

_WIDTH = 80

_JSON_TYPES = {str: "string", int: "integer", float: "number", list: "array", NoneType: "null"}


def fields_of(path: str, record: type) -> Fields:
    """The fields of a class whose attributes are annotated with their meanings, below a path."""
    fields = {}
    for name, hint in get_type_hints(record, include_extras=True).items():
        kind, meaning = get_args(hint)
        kinds = get_args(kind) if isinstance(kind, UnionType) else (kind,)
        types = " or ".join(_JSON_TYPES[get_origin(one) or one] for one in kinds)
        fields[f"{path}.{name}"] = types, meaning
    return fields


class Report:
    """What a command found: lines of text, printed at once, or one JSON object at the end.

    Parameters
    ----------
    as_json : bool
    shown : bool
        False on all ranks of MPI but the first: nothing is printed.
    """

    def __init__(self, as_json: bool, shown: bool = True) -> None:
        self.values: dict[str, object] = {}
        self._as_json, self._shown = as_json, shown

    def line(self, label: str, text: object, **values: object) -> None:
        """Print a line with a label; `values` are for JSON."""
        self.text(f"{label:<14} {text}")
        self.values.update(values)

    def text(self, text: str = "") -> None:
        """Print some text, which JSON leaves out."""
        if self._shown and not self._as_json:
            print(text.rstrip(), flush=True)

    def wrapped(self, head: str, text: str) -> None:
        """Print text after a head, in as many lines as it takes; no-break spaces do not end a line."""
        lines = wrap(text, _WIDTH - len(head) - 1, break_long_words=False, break_on_hyphens=False) or [""]
        for i, line in enumerate(lines):
            self.text(f"{head if i == 0 else ' ' * len(head)} {line}".replace("\u00a0", " "))

    def finish(self, **values: object) -> None:
        """Print the JSON object, if that is what was asked for; records and paths may be in it."""
        self.values.update(values)
        if self._shown and self._as_json:
            print(json.dumps(_plain(self.values), indent=2, default=os.fspath), flush=True)


def _plain(value: object) -> object:
    """A value for JSON: a record as an object, also inside lists and objects."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return list(map(_plain, value)) if isinstance(value, list) else value


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
        raise ValueError(f"{path}: no permission to write it; give a file where you may write")
