"""Results files: written as the run goes, read back by the report."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Case = tuple[str, str]  # matrix and dtype

RESULTS = Path("benchmarks/results")  # a folder per device; commands are run from the root of the checkout


class Recorder:
    """Collects what one experiment finds, and writes it to `path` whenever it is told to.

    Attributes
    ----------
    environment : dict
        What `environment.describe` says, and more of the kind.
    rows, skipped : list of dict
        One entry per measurement, and per thing that was not measured, with the reason.
    parts : dict
        What else the file has: lists by name.
    """

    def __init__(self, path: Path, environment: dict[str, Any]) -> None:
        self.path = path
        self.environment = environment
        self.rows: list[Row] = []
        self.skipped: list[Row] = []
        self.parts: dict[str, list[Any]] = {}

    def add(self, **row: Any) -> None:
        self.rows.append(row)

    def skip(self, reason: str, **what: Any) -> None:
        """Note that something named was not measured, and why."""
        entry = {**what, "reason": reason}
        if entry not in self.skipped[-50:]:  # the same thing fails alike for every number of threads
            self.skipped.append(entry)

    def keep_other_matrices(self, matrices: Iterable[str]) -> None:
        """Start from the file that is there, less the matrices about to be measured again.

        Only results of the same device, driver and commit may stand in one file.
        """
        if not self.path.is_file():
            return
        old = json.loads(self.path.read_text())
        for key in ("device", "driver", "cuda", "commit"):
            if old["environment"].get(key) != self.environment.get(key):
                raise SystemExit(
                    f"{self.path} was measured with {key} {old['environment'].get(key)!r}, this is "
                    f"{self.environment.get(key)!r}: give another --out, or leave out --merge"
                )
        again = set(matrices)
        self.rows = [row for row in old["rows"] if _matrix(row) not in again]
        self.skipped = [row for row in old["skipped"] if _matrix(row) not in again]

    def write(self) -> None:
        """Replace the file in one step, so that a kill leaves the previous one whole."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".tmp")
        draft.write_text(self._as_json())
        os.replace(draft, self.path)

    def _as_json(self) -> str:
        lists = {"rows": self.rows, **self.parts, "skipped": self.skipped}
        # An entry per line: small files that still read and compare well.
        bodies = {name: ",\n".join(map(_compact, entries)) for name, entries in lists.items()}
        members = [f'"{name}":[\n{body}\n]' if body else f'"{name}":[]' for name, body in bodies.items()]
        return "{\n" + ",\n".join([f'"environment":{_compact(self.environment)}', *members]) + "\n}\n"


def _matrix(row: Row) -> str | None:
    return row.get("matrix", row.get("system"))


def _compact(value: Any) -> str:
    return json.dumps(value, default=_plain, separators=(",", ":"), allow_nan=False)


def _plain(value: Any) -> Any:
    """NumPy scalars and the like as JSON has them."""
    return value.item() if hasattr(value, "item") else str(value)


def geometric_mean(values: Iterable[float]) -> float:
    """Geometric mean; nan of nothing."""
    logarithms = [math.log(value) for value in values]
    return math.exp(math.fsum(logarithms) / len(logarithms)) if logarithms else math.nan


@dataclass(frozen=True)
class Content:
    """What one file of results has; rows are looked up by case, library, variant, cache and threads."""

    environment: dict[str, Any]
    rows: list[Row]
    skipped: list[Row] = field(default_factory=list)
    parts: dict[str, list[Row]] = field(default_factory=dict)  # what else is in the file

    @classmethod
    def of(cls, file: dict[str, Any]) -> Content:
        """The content of a parsed file."""
        known = {name: file.get(name, []) for name in ("rows", "skipped")}
        parts = {name: file[name] for name in file if name not in ("environment", *known)}
        return cls(file["environment"], **known, parts=parts)

    @property
    def on_gpu(self) -> bool:
        return self.environment["cuda"] is not None

    @property
    def threads(self) -> list[int]:
        """The numbers of threads that were measured on a CPU; empty for a GPU."""
        return sorted({row["threads"] for row in self.rows if row.get("threads")})

    def grouped(self, case: str, key: str) -> dict[tuple[Any, ...], dict[Any, Row]]:
        """Rows by case, in the order measured, and then by a key; both name fields, separated by spaces."""
        found: dict[tuple[Any, ...], dict[Any, Row]] = {}
        keys = key.split()
        for row in self.rows:
            name = row.get(key) if len(keys) == 1 else tuple(row[part] for part in keys)
            found.setdefault(tuple(row[part] for part in case.split()), {})[name] = row
        return found

    @cached_property
    def _rows(self) -> dict[tuple[Any, ...], dict[tuple[str, str], Row]]:
        rows: dict[tuple[Any, ...], dict[tuple[str, str], Row]] = {}
        for row in self.rows:
            case = (row["matrix"], row["dtype"], row["cache"], row.get("threads"))
            rows.setdefault(case, {})[row["library"], row["variant"]] = row
        return rows

    def cases(self) -> list[Case]:
        """(matrix, dtype) pairs, in the order measured."""
        return list(dict.fromkeys((matrix, dtype) for matrix, dtype, _, _ in self._rows))

    def each(self, value: Callable[[Case], float | None]) -> dict[str, float]:
        """A value of every case that has it, by its name."""
        found = {" ".join(case): value(case) for case in self.cases()}
        return {name: one for name, one in found.items() if one is not None}

    def of_case(self, case: Case, cache: str = "hot", threads: int | None = None) -> list[Row]:
        return list(self._rows.get((*case, cache, threads), {}).values())

    def row(
        self, case: Case, library: str, variant: str, cache: str = "hot", threads: int | None = None
    ) -> Row | None:
        return self._rows.get((*case, cache, threads), {}).get((library, variant))

    def best(
        self, case: Case, library: str, prefix: str = "", cache: str = "hot", threads: int | None = None
    ) -> Row | None:
        """The fastest of a library's variants whose name starts with `prefix`, calls from Python left out."""
        return fastest(
            row
            for row in self.of_case(case, cache, threads)
            if row["library"] == library and row["variant"].startswith(prefix) and not _called_on_gpu(row)
        )


Results = Mapping[str, Content]


def _called_on_gpu(row: Row) -> bool:
    """Whether the time has the cost of a Python call in it; on the CPU all have, and say their threads."""
    return row.get("how") == "call" and row.get("threads") is None


def fastest(rows: Iterable[Row | None]) -> Row | None:
    """The row with the least time; None of none."""
    return min((row for row in rows if row is not None), key=lambda row: row["time_us"], default=None)


def ratio(row: Row | None, other: Row | None, field: str = "time_us") -> float | None:
    """Time of `row` over time of `other`, None if either is missing."""
    above, below = ((row or {}).get(field), (other or {}).get(field))
    return float(above / below) if above and below else None
