"""One run of one paper's experiment: its measurements, its tables, its figures and its JSON file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from experiments.environment import describe
from experiments.papers import claims, figures
from experiments.papers.matrices import PaperMatrix, Sample, load
from experiments.records import Recorder, Row
from spmvgpu.devices import device_name, resolve_device

REPEATS, QUICK_REPEATS = 50, 5

STAND_INS = (
    "generated: their sizes, non-zeros and row lengths are those of the paper's; where the entries of a row"
    " lie, and so how x is read, is not"
)

# Origins of matrices that are others than the paper's, whose names they have.
STANDING_IN = ("generated", "recipe")

KNOWN = ("environment", "rows", "skipped", "claims", "figures")  # what every file has

Table = dict[str, dict[str, Any]]  # label -> matrix -> value


class Run:
    """Collects what an experiment measures and writes it.

    Parameters
    ----------
    paper : str
        Name of the experiment, which the files carry.
    device : str
        As `aslinearoperator` takes it.
    out : Path
        Folder for the JSON file and the figures.
    quick : bool
        Small matrices and few repetitions.
    content : dict, optional
        What an earlier run wrote, to report it again.
    """

    def __init__(
        self, paper: str, device: str, out: Path, quick: bool, content: dict[str, Any] | None = None
    ) -> None:
        self.paper = paper
        self.device = device if content else device_name(resolve_device(device))
        self.out = out
        self.quick = quick
        self.repeats = QUICK_REPEATS if quick else REPEATS
        content = content or {"environment": describe(self.device) | {"quick": quick}, "rows": []}
        self.recorder = Recorder(out / f"{paper}.json", content["environment"])
        self.recorder.rows = content["rows"]
        self.recorder.parts = {name: content[name] for name in content if name not in KNOWN}
        self.stand_ins = STAND_INS  # what is said of generated matrices
        self.claims: list[claims.Claim] = []
        self.figures: dict[str, str] = {}  # titles by the names of files
        # Names of matrices that are others than the paper's.
        self._not_theirs = {row["matrix"] for row in self.rows if row["origin"] in STANDING_IN}
        out.mkdir(parents=True, exist_ok=True)  # before measuring, so that a bad folder costs nothing

    @property
    def on_cpu(self) -> bool:
        return self.device == "cpu"

    @property
    def environment(self) -> dict[str, Any]:
        return self.recorder.environment

    @property
    def rows(self) -> list[Row]:
        return self.recorder.rows

    @property
    def matrices(self) -> list[str]:
        """Names of what was measured."""
        return list(dict.fromkeys(row["matrix"] for row in self.rows))

    @property
    def records(self) -> dict[str, list[Any]]:
        """Records that are not measurements of a product, by kind."""
        return self.recorder.parts

    @property
    def skipped(self) -> list[Row]:
        return self.recorder.skipped

    def start(self, title: str) -> None:
        print(title)
        print(f"device: {self.device}, {self.environment['device']}")
        if self.on_cpu:
            claims.print_wrapped("note: ", claims.CPU_NOTE)
        if self.quick:
            print("note: a quick run, with small matrices: its times say nothing about the paper's")
        print(flush=True)

    def load(self, wanted: PaperMatrix) -> Sample:
        return self.introduce(load(wanted, self.quick))

    def introduce(self, sample: Sample) -> Sample:
        """Say what is measured next."""
        rows, cols = sample.matrix.shape
        if sample.origin in STANDING_IN:
            self._not_theirs.add(sample.name)
        print(
            f"{self.called(sample.name):<20} {rows} x {cols}, {sample.matrix.nnz} non-zeros; {sample.origin}:"
            f" {sample.source}",
            flush=True,
        )
        return sample

    def called(self, text: str) -> str:
        """A text in which no stand-in goes by the name of the paper's matrix alone."""
        names = sorted(map(re.escape, self._not_theirs), key=len, reverse=True)
        if not names:
            return text
        return re.sub(rf"(?<![\w/-])({'|'.join(names)})(?![\w/-])", r"stand-in for \1", text)

    def _called_within(self, data: Any) -> Any:
        """`called` for all texts in lists, tuples and mappings."""
        if isinstance(data, str):
            return self.called(data)
        if isinstance(data, Mapping):
            return {self._called_within(key): self._called_within(value) for key, value in data.items()}
        if isinstance(data, list | tuple):
            return type(data)(map(self._called_within, data))
        return data

    def add(self, sample: Sample, dtype: str, variant: str, **measured: Any) -> dict[str, Any]:
        """One measurement; `measured` has at least label, time_us and bytes."""
        row = {
            "matrix": sample.name,
            "origin": sample.origin,
            "source": sample.source,
            "rows": int(sample.matrix.shape[0]),
            "cols": int(sample.matrix.shape[1]),
            "nnz": int(sample.matrix.nnz),
            "dtype": dtype,
            "library": "spmvgpu",
            "variant": variant,
            "cache": "hot",
            **measured,
        }
        self.rows.append(row)
        return row

    def tune(self, label: str, candidates: Sequence[dict[str, Any]]) -> None:
        """Mark the fastest of some rows: `values` finds it under `label` as well."""
        if candidates:
            min(candidates, key=lambda row: row["time_us"])["tuned_as"] = label

    def values(self, name: str, **where: Any) -> Table:
        """One field of the rows that have it, and the given values of others: label -> matrix -> value."""
        found: Table = {}
        for row in self.rows:
            if name in row and all(row.get(key) == value for key, value in where.items()):
                for label in (row["label"], row.get("tuned_as")):
                    if label is not None:
                        found.setdefault(label, {})[row["matrix"]] = row[name]
        return found

    def gains(self, label: str, over: str, **where: Any) -> dict[str, float]:
        """Matrix -> speed of one kernel over another, where both were measured."""
        times = self.values("time_us", **where)
        new, old = times.get(label, {}), times.get(over, {})
        return {name: old[name] / new[name] for name in new if name in old}

    def skip(self, sample: Sample, dtype: str, label: str, reason: object) -> None:
        """Row that something was not measured; say so once per reason, as a format misses everywhere."""
        if all(entry["reason"] != str(reason) for entry in self.skipped):
            print(f"  {label} left out: {reason}", flush=True)
        self.recorder.skip(str(reason), matrix=sample.name, dtype=dtype, label=label)

    def table(
        self, title: str, columns: Table, matrices: Sequence[str] | None = None, form: str = ".1f"
    ) -> None:
        """Print {column: {matrix: value}} with a row per matrix, without empty columns."""
        columns = {label: values for label, values in columns.items() if values}
        if not columns:
            return
        print(f"\n{title}")
        shown = {name: self.called(name) for name in (self.matrices if matrices is None else matrices)}
        first = max([20, *(len(name) + 1 for name in shown.values())])
        widths = [max(len(label), 9) for label in columns]
        heads = "".join(f" {label:>{width}}" for label, width in zip(columns, widths, strict=True))
        print(" " * first + heads)
        for name in shown:
            cells = (
                f" {format(values[name], form) if name in values else '-':>{width}}"
                for values, width in zip(columns.values(), widths, strict=True)
            )
            print(f"{shown[name]:<{first}}{''.join(cells)}")

    def bars(
        self, name: str, title: str, unit: str, series: Table, matrices: Sequence[str] | None = None
    ) -> None:
        """Print a table, and draw it as bars unless it is empty."""
        names = self.matrices if matrices is None else matrices
        self.table(f"{title} ({unit})", series, names, ".3g")
        series = {label: values for label, values in series.items() if values}
        if series:
            self.draw(name, title, figures.bars, unit, names, series)

    def draw(self, name: str, title: str, picture: Callable[..., Path], *data: Any) -> None:
        """Call ``picture(path, title, *data)``, which draws a PNG, if matplotlib is there."""
        if figures.available():
            title = f"{self.called(title)}\n{self.environment['device']}" + (
                ", quick run" if self.quick else ""
            )
            path = self.out / f"{self.paper}_{name}.png"
            self.figures[picture(path, title, *self._called_within(data)).name] = title

    def finish(self) -> Path:
        """Print the claims, write the JSON file and say what was written."""
        if self.on_cpu:
            self.claims = [
                replace(claim, verdict=claims.OPEN, why="these are CPU figures") if claim.of_gpu else claim
                for claim in self.claims
            ]
        self.claims = [
            replace(claim, here=self.called(claim.here), why=self.called(claim.why)) for claim in self.claims
        ]
        matrices = {row["matrix"]: row["origin"] for row in self.rows}
        generated = list(matrices.values()).count("generated")
        if generated:
            print()
            claims.print_wrapped("note: ", f"{generated} of {len(matrices)} matrices are {self.stand_ins}")
        claims.print_claims(self.claims, self.on_cpu)
        self.records["claims"] = [asdict(claim) for claim in self.claims]
        self.records["figures"] = list(self.figures)
        self.recorder.write()
        path = self.recorder.path
        print(f"\nwrote {path}" + (f" and {len(self.figures)} figures beside it" if self.figures else ""))
        if not figures.available():
            print(figures.NO_MATPLOTLIB)
        return path
