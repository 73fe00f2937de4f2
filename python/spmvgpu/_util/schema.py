"""Checking the content of a JSON file against a table that says what may be in it.

A table is made of: a type; a `Range`; a set of the allowed values; ``[table]`` for a list of such entries,
and ``[table, length]`` for one of a given length; ``{"name": table, ...}`` for an object with these entries
and no others; ``{str: table}`` for an object with any names; and a tuple of tables, one of which must fit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Range:
    """Finite numbers from `low` to `high`; `whole` ones only, if so."""

    low: float
    high: float
    whole: bool = False


def check(value: object, table: Any, name: str = "it") -> None:
    """Raise ValueError, naming the entry, unless the value fits the table."""
    if isinstance(table, tuple):
        _check_any(value, table, name)
    elif isinstance(table, Range):
        _check_number(value, table, name)
    elif isinstance(table, frozenset | set):
        if not isinstance(value, str | int) or isinstance(value, bool) or value not in table:
            raise ValueError(f"{name} is not one of {', '.join(sorted(map(repr, table)))}")
    elif isinstance(table, list):
        _check_list(value, table, name)
    elif isinstance(table, dict):
        _check_object(value, table, name)
    elif not isinstance(value, table):
        raise ValueError(f"{name} is not of type {table.__name__}")


def _check_any(value: object, tables: tuple[object, ...], name: str) -> None:
    problems = []
    for table in tables:
        try:
            return check(value, table, name)
        except ValueError as error:
            problems.append(str(error))
    raise ValueError(problems[0])


def _check_number(value: Any, table: Range, name: str) -> None:
    kinds = int if table.whole else (int, float)
    fits = isinstance(value, kinds) and not isinstance(value, bool)
    # An int may be too large to become a float, but not to be compared.
    if not fits or not table.low <= value <= table.high or (isinstance(value, float) and math.isnan(value)):
        kind = "a whole number" if table.whole else "a number"
        raise ValueError(f"{name} is not {kind} from {table.low:g} to {table.high:g}")


def _check_list(value: object, table: list[Any], name: str) -> None:
    if not isinstance(value, list) or (len(table) > 1 and len(value) != table[1]):
        length = f" of length {table[1]}" if len(table) > 1 else ""
        raise ValueError(f"{name} is not a list{length}")
    for i, entry in enumerate(value):
        check(entry, table[0], f"{name}[{i}]")


def _check_object(value: object, table: dict[Any, Any], name: str) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"{name} is not an object")
    if str in table:
        for key, entry in value.items():
            check(entry, table[str], f"{name}.{key}")
        return
    if value.keys() != table.keys():
        wrong = ", ".join(sorted(map(str, value.keys() ^ table.keys())))
        raise ValueError(f"entries of {name} are missing or unknown: {wrong}")
    for key, entry in table.items():
        check(value[key], entry, f"{name}.{key}" if name != "it" else key)
