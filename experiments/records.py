"""Results files: written as the run goes, read back by the report."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Row = dict[str, Any]

RESULTS = Path("benchmarks/results")  # a folder per device; commands are run from the root of the checkout

EXPERIMENTS = ("spmv", "overhead", "roundtrip", "memory")
# Whole jobs come first, as in the reports; those measured by a command of their own last.
FILES = (
    "jobs",
    "imports",
    "info",
    "auto",
    "setup",
    "updates",
    "orders",
    *EXPERIMENTS,
    "packed_sell",
    "symmetric",
    "matmat",
    "complex",
    "multi",
    "multi_cg",
    "scaling",
    "solvers",
    "prediction",
    "reproduce/guo2011",
)
# What every row of spmv.json has; other experiments keep the fields that make sense for them.
SPMV_FIELDS = (
    "matrix", "rows", "cols", "nnz", "dtype", "library", "variant", "cache", "time_us", "bytes",
)  # fmt: skip


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
    complete : callable, optional
        Makes the row that is kept from the one that was measured.
    """

    def __init__(self, path: Path, environment: dict[str, Any]) -> None:
        self.path = path
        self.environment = environment
        self.rows: list[Row] = []
        self.skipped: list[Row] = []
        self.parts: dict[str, list[Any]] = {}
        self.complete: Callable[[Row], Row] | None = None

    def add(self, **row: Any) -> None:
        self.rows.append(row if self.complete is None else self.complete(row))

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
        self.rows = [row for row in old["rows"] if row.get("matrix") not in again]
        self.skipped = [row for row in old["skipped"] if row.get("matrix") not in again]

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


def _compact(value: Any) -> str:
    return json.dumps(value, default=_plain, separators=(",", ":"), allow_nan=False)


def _plain(value: Any) -> Any:
    """NumPy scalars and the like as JSON has them."""
    return value.item() if hasattr(value, "item") else str(value)


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """All experiments measured on one device, by name."""
    return {name: json.loads((folder / f"{name}.json").read_text()) for name in FILES
            if (folder / f"{name}.json").is_file()}  # fmt: skip


def geometric_mean(values: Iterable[float]) -> float:
    """Geometric mean; nan of nothing."""
    logarithms = [math.log(value) for value in values]
    return math.exp(math.fsum(logarithms) / len(logarithms)) if logarithms else math.nan


class Times:
    """Times of one spmv.json, looked up by matrix, dtype, library, variant, cache and threads."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.environment = content["environment"]
        self._rows: dict[tuple[Any, ...], dict[tuple[str, str], Row]] = {}
        for row in content["rows"]:
            case = (row["matrix"], row["dtype"], row["cache"], row.get("threads"))
            self._rows.setdefault(case, {})[row["library"], row["variant"]] = row
        self.threads = sorted({row["threads"] for row in content["rows"] if row.get("threads")})

    def cases(self) -> list[tuple[str, str]]:
        """(matrix, dtype) pairs, in the order measured."""
        return list(dict.fromkeys((matrix, dtype) for matrix, dtype, _, _ in self._rows))

    def rows(self, matrix: str, dtype: str, cache: str = "hot", threads: int | None = None) -> list[Row]:
        return list(self._rows.get((matrix, dtype, cache, threads), {}).values())

    def row(
        self,
        matrix: str,
        dtype: str,
        library: str,
        variant: str,
        cache: str = "hot",
        threads: int | None = None,
    ) -> Row | None:
        return self._rows.get((matrix, dtype, cache, threads), {}).get((library, variant))

    def best(
        self,
        matrix: str,
        dtype: str,
        library: str,
        prefix: str = "",
        cache: str = "hot",
        threads: int | None = None,
    ) -> Row | None:
        """The fastest of a library's variants whose name starts with `prefix`, calls from Python left out."""
        found = [
            row
            for row in self.rows(matrix, dtype, cache, threads)
            if row["library"] == library and row["variant"].startswith(prefix) and not _called_on_gpu(row)
        ]
        return min(found, key=lambda row: row["time_us"], default=None)


def _called_on_gpu(row: Row) -> bool:
    """Whether the time has the cost of a Python call in it; on the CPU all have, and say their threads."""
    return row.get("how") == "call" and row.get("threads") is None


def ratio(row: Row | None, other: Row | None) -> float | None:
    """Time of `row` over time of `other`, None if either is missing."""
    if row is None or other is None:
        return None
    quotient: float = row["time_us"] / other["time_us"]
    return quotient
