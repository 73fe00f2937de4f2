"""Results files: written as a run goes, read by the report."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Row = dict[str, Any]

RESULTS = Path("benchmarks/results")  # a folder per device; commands run from the root of the checkout


class Recorder:
    """Collects what one experiment measures, and writes it to `path`.

    Attributes
    ----------
    environment : dict
        What `environment.describe` says, and more of the kind.
    rows, skipped : list of dict
        One entry per measurement, and per thing that was not measured, with the reason.
    parts : dict
        Further lists of the file by name.
    """

    def __init__(self, path: Path, environment: dict[str, Any]) -> None:
        self.path = path
        self.environment = environment
        self.rows: list[Row] = []
        self.skipped: list[Row] = []
        self.parts: dict[str, list[Any]] = {}

    def skip(self, reason: str, **what: Any) -> None:
        """Note that something was not measured, and why."""
        entry = {**what, "reason": reason}
        if entry not in self.skipped[-50:]:  # a failure repeats for every number of threads
            self.skipped.append(entry)

    def keep_other_matrices(self, matrices: Iterable[str]) -> None:
        """Start from the existing file, less the matrices that are about to be measured again.

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
        self.rows, self.skipped = (
            [row for row in old[name] if row.get("matrix", row.get("system")) not in again]
            for name in ("rows", "skipped")
        )

    def write(self) -> None:
        """Replace the file in one step, so that a kill leaves the previous one whole."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".tmp")
        lists = {"rows": self.rows, **self.parts, "skipped": self.skipped}
        draft.write_text(as_json({"environment": self.environment, **lists}))
        os.replace(draft, self.path)


def as_json(content: dict[str, Any]) -> str:
    """A results file: an entry of a list per line, which is small and compares well."""
    members = []
    for name, value in content.items():
        body = "[\n" + ",\n".join(map(_compact, value)) + "\n]" if isinstance(value, list) and value else None
        members.append(f'"{name}":{body or _compact(value)}')
    return "{\n" + ",\n".join(members) + "\n}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, default=_plain, separators=(",", ":"), allow_nan=False)


def _plain(value: Any) -> Any:
    """NumPy scalars and the like as JSON has them."""
    return value.item() if hasattr(value, "item") else str(value)


def geometric_mean(values: Iterable[float]) -> float:
    """Geometric mean; nan of nothing."""
    logarithms = [math.log(value) for value in values]
    return math.exp(math.fsum(logarithms) / len(logarithms)) if logarithms else math.nan
