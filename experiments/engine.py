"""What an experiment declares, and the one loop that runs, stores, merges and continues all of them.

An experiment is a file in `speed/` with a list ``EXPERIMENTS``: what is measured, and what is made of it.
`pages` makes the report.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import spmvgpu as sg

from . import environment, peers
from .clock import DeviceClock
from .goals import Mark
from .peers.problem import COMPLEX, DTYPES
from .records import RESULTS, Content, Recorder, Results, Row
from .store import Store, default_workers
from .suite import Item
from .tables import Cell, table

Items = tuple[list[Item], dict[str, str]]  # what is measured, and what is left out, with reasons
Table = Iterable[Sequence[Cell]]


@dataclass(frozen=True)
class Report:
    """What the report says of an experiment; every part may be missing.

    A function that takes `Content` is given the file of the experiment on one device, and is not called where
    there is none. One that takes `Results` is given all files of a device.
    """

    place: int  # of the section on the page of a device, among the others
    title: str = ""
    note: str | Callable[[Content], str] = ""
    head: Sequence[str] | Callable[[Content], Sequence[str]] = ()
    rows: Callable[[Content], Table] = lambda content: ()
    words: int = 2  # columns of the table that are text
    also: tuple[str, ...] = ()  # other files whose rows the section has, too
    more: Callable[[Content], Iterable[str]] = lambda content: ()  # what follows the table
    goals: Callable[[Content], Iterable[Mark]] = lambda content: ()
    goals_apart: bool = False  # whether the goals stand in the section, not among those of the page
    needs_gpu: bool = False  # whether the goals are those of a GPU
    chart: Callable[[Content, Path], None] | None = None  # drawn to a file
    # What README.md and docs/performance.md get of the first device: lines of a table, sentences, reasons to
    # choose another library, and what draws a part of the picture.
    overview: Callable[[Results], Table] = lambda results: ()
    facts: Callable[[Results], Iterable[str]] = lambda results: ()
    against: Callable[[Results], Iterable[str]] = lambda results: ()
    panel: Callable[[Results], Callable[[Any], None] | None] | None = None
    # (page in docs, name of the marker lines) -> text between them, from the files of all devices.
    insets: Mapping[tuple[str, str], Callable[[list[Content]], str]] = field(default_factory=dict)

    def marks(self, content: Content | None) -> list[Mark]:
        """The goals beside what was measured; none where nothing was."""
        if content is None or (self.needs_gpu and not content.on_gpu):
            return []
        return list(self.goals(content))

    def section(self, content: Content) -> list[str]:
        """The paragraphs of the section."""
        rows = list(self.rows(content))
        note = self.note(content) if callable(self.note) else self.note
        head = self.head(content) if callable(self.head) else self.head
        return [*([note, table(head, rows, self.words)] if rows else []), *filter(None, self.more(content))]


@dataclass(frozen=True)
class Experiment:
    """What is measured.

    Attributes
    ----------
    command, about : str
        ``python -m experiments <command>``, and what the list of commands says of it. Experiments of one
        command share its options and matrices, which the first one declares.
    file : str
        Results go to ``<device>/<file>.json``.
    report : Report
        What is made of them.
    measure : callable, optional
        Given the run and a `Problem`, it yields rows; given the run alone where there are no `items`. None if
        another command measures it.
    name : str
        As ``--experiments`` has it; `file` unless given.
    items : callable
        From the options to the matrices; `choose` selects some of them for this experiment.
    dtypes : tuple of str
        Measured unless ``--dtype`` says otherwise.
    peers : dict
        The other libraries on "cuda" and on "cpu". With them there are a clock for the device, matrices that
        are built ahead, and the bandwidth of copies in the environment.
    variants : dict, optional
        Those of this library by name, with what `aslinearoperator` is asked for; all unless given.
    seconds, reserve : float
        The time budget, and the part of it that is kept for this experiment of its command.
    of_device : bool
        Whether results depend on the device.
    stores, leads : callable
        Whether results are kept, given the options; whether this process is the one that writes and prints.
    start, add_options : callable
        What is to be done before the first matrix; further options.
    """

    command: str
    file: str
    report: Report
    about: str = ""
    measure: Callable[..., Iterator[Row]] | None = None
    name: str = ""
    items: Callable[[argparse.Namespace], Items] | None = None
    choose: Callable[[list[Item]], list[Item]] = lambda items: items
    dtypes: tuple[str, ...] = ("f64", "f32")
    peers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    variants: Mapping[str, dict[str, Any]] | None = None
    seconds: float = float("inf")
    reserve: float = 0.0
    of_device: bool = True
    stores: Callable[[argparse.Namespace], bool] = lambda options: True
    leads: Callable[[], bool] = lambda: True
    start: Callable[[Run], None] = lambda run: None
    add_options: Callable[[argparse.ArgumentParser], None] = lambda parser: None

    @property
    def called(self) -> str:
        return self.name or self.file


class DeviceLostError(Exception):
    """A kernel failed in a way that leaves the device unusable for this process."""


@dataclass
class Run:
    """One run of one experiment."""

    experiment: Experiment
    options: argparse.Namespace
    device: str  # "cpu" or "cuda:N"
    record: Recorder
    started: float
    deadline: float
    items: list[Item]
    peers: list[Any] = field(default_factory=list)
    clock: DeviceClock | None = None  # None on the CPU, and for experiments without peers

    @property
    def on_gpu(self) -> bool:
        return self.device != "cpu"

    def say(self, text: str) -> None:
        if self.experiment.leads():
            print(f"[{time.perf_counter() - self.started:6.1f} s] {text}", flush=True)

    def fits(self, seconds: float, **what: Any) -> bool:
        """Whether so many seconds are left; it is noted where they are not."""
        left = self.deadline - time.perf_counter()
        if seconds < left:
            return True
        if left <= 0:
            reason = "the time budget was spent"
        else:
            reason = f"about {seconds:.0f} s needed, {left:.0f} s left of the time budget"
        self.record.skip(reason, **what)
        return False

    @contextmanager
    def noted(self, **what: Any) -> Iterator[None]:
        """Turn a failure into an entry of what was skipped, unless it took the device with it."""
        try:
            yield
        except Exception as error:  # one case must not cost the results of the others
            plain = isinstance(error, peers.NotApplicableError | sg.FormatError)
            reason = str(error) if plain else f"{type(error).__name__}: {error}"
            self.record.skip(reason[:400], **what)
            if not plain:
                self.say(f"failed: {' '.join(map(str, what.values()))}: {reason}"[:300])
            self._require_device(what)

    def _require_device(self, what: dict[str, Any]) -> None:
        if self.clock is not None:
            try:
                self.clock.synchronize()
            except Exception as error:
                raise DeviceLostError(f"{what} broke the device: {error}") from error


def load_experiments() -> list[Experiment]:
    """All experiments that are declared, in the order of the report."""
    from . import speed

    modules = [import_module(f"{speed.__name__}.{info.name}") for info in iter_modules(speed.__path__)]
    found = [experiment for module in modules for experiment in getattr(module, "EXPERIMENTS", ())]
    return sorted(found, key=lambda experiment: experiment.report.place)


def run_command(command: str, arguments: Sequence[str] | None = None) -> int:
    """Measure what a command stands for; returns its exit code."""
    started = time.perf_counter()
    experiments = [experiment for experiment in load_experiments() if experiment.command == command]
    options, shared = parse(experiments, arguments), experiments[0]
    experiments = [experiment for experiment in experiments if experiment.called in options.experiments]
    device = chosen_device(options.device or "cpu") if shared.of_device else "cpu"
    items, left_out = ([], {}) if shared.items is None else shared.items(options)
    items = [item for item in items if re.search(options.only, item.name)]
    if shared.items is not None and not items:
        print(f"no matrix matches --only {options.only!r}", file=sys.stderr)
        return 2
    wanted = shared.peers.get(device.partition(":")[0], ())
    usable, missing = peers.usable(wanted)
    ahead = default_workers() if wanted and device != "cpu" else 0
    store = Store(items, options.dtype, ahead if options.workers is None else options.workers)
    try:
        clock = DeviceClock() if wanted and device != "cpu" else None
        facts = environment.describe(device, usable) | {"missing_peers": missing}
        if wanted:
            facts |= _bandwidths(clock)
        folder = options.out / environment.slug(facts) if shared.of_device else options.out
        records = {e.file: Recorder(folder / f"{e.file}.json", facts) for e in experiments}
        for record in records.values():
            if options.merge:
                record.keep_other_matrices(item.name for item in items)
            for library, reason in missing.items():
                record.skip(reason, library=library)
            for matrix, reason in left_out.items():
                record.skip(reason, matrix=matrix)
        store.wait()
        complete = True
        for position, experiment in enumerate(experiments):
            later = sum(other.reserve for other in experiments[position + 1 :])
            deadline = started + options.budget_seconds * (1 - later)
            record, chosen = records[experiment.file], experiment.choose(items)
            run = Run(experiment, options, device, record, started, deadline, chosen, usable, clock)
            run.say(f"{experiment.called}: {facts['device']} -> {record.path}")
            complete = _measure(run, store)
            if not complete:
                break
        if shared.leads():
            reports = {experiment.file: experiment.report for experiment in experiments}
            print("\n".join(summary(reports[file], record) for file, record in records.items()))
        return 0 if complete else 3
    finally:
        store.close()


def _bandwidths(clock: DeviceClock | None) -> dict[str, Any]:
    """Bytes read and written per second by copies: on the device, or on one and two cores.

    Of a GPU, also how many numbers a second are gathered from its L2 cache.
    """
    if clock is None:
        return {"copy_bandwidth": {str(n): environment.cpu_copy_bandwidth(n) for n in (1, 2)}}
    return {
        "copy_bandwidth": clock.copy_bandwidth(),
        "copy_kernel_bandwidth": clock.copy_bandwidth(by_kernel=True),
        "gather_rate": clock.gather_rate(),
    }


def _measure(run: Run, store: Store) -> bool:
    """Fill the record of a run; False if the device was lost."""
    experiment, record = run.experiment, run.record
    assert experiment.measure is not None
    experiment.start(run)
    write = record.write if experiment.leads() and experiment.stores(run.options) else lambda: None
    try:
        if not run.items:
            for row in experiment.measure(run):
                record.add(**row)
                write()
        for number, item in enumerate(run.items, 1):
            for dtype in run.options.dtype:
                if run.fits(0, matrix=item.name, dtype=dtype):
                    before, begin = len(record.rows), time.perf_counter()
                    with run.noted(matrix=item.name, dtype=dtype):
                        problem = store.get(item, dtype)
                        for row in experiment.measure(run, problem):
                            record.add(**row)
                        problem.release()
                    write()
                    took = f"{len(record.rows) - before} rows in {time.perf_counter() - begin:.1f} s"
                    run.say(f"{number}/{len(run.items)} {item.name} {dtype}: {took}")
        return True
    except DeviceLostError as error:
        print(f"stopped: {error}. What was measured is kept; try --skip.", file=sys.stderr, flush=True)
        return False
    finally:
        write()


def summary(report: Report, record: Recorder) -> str:
    """What the report will say of a run: its section, what failed, and the goals."""
    content = Content(record.environment, record.rows, record.skipped, record.parts)
    failed = [str(row) for row in record.skipped if row.get("library") == "spmvgpu"]
    return "\n".join([*report.section(content), *failed[:3], *map(str, report.marks(content))])


def parse(experiments: list[Experiment], arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options of a command."""
    shared, names = experiments[0], [experiment.called for experiment in experiments]
    program, about = f"python -m experiments {shared.command}", f"{shared.about}. See experiments/README.md."
    parser = argparse.ArgumentParser(prog=program, description=about)
    add = parser.add_argument
    add("--out", type=Path, default=RESULTS, help="folder of the results")
    add("--device", default="auto", help="cuda:0, cpu or auto (a GPU if there is one)")
    add("--quick", action="store_true", help="a few small matrices")
    add("--budget-seconds", "--seconds", type=float, default=shared.seconds, metavar="N",
        help="start no new matrix after N s")  # fmt: skip
    if shared.dtypes:
        dtypes = tuple(DTYPES if shared.dtypes[0] in DTYPES else COMPLEX)
        add("--dtype", type=names_of(dtypes), default=",".join(shared.dtypes),
            help=f"comma-separated, of {', '.join(dtypes)}")  # fmt: skip
    if shared.items is not None:
        add("--only", default="", metavar="REGEX", help="matrices whose name matches")
        add("--workers", type=int, help="processes that build matrices first (0: none)")
        add("--merge", action="store_true", help="keep the other matrices' rows of the files that are there")
    if shared.peers:
        add("--skip", metavar="REGEX", help='leave out matching "library/variant" names')
    if len(names) > 1:
        add("--experiments", "--variants", "--jobs", type=names_of(names), default=",".join(names),
            help=f"comma-separated, of {', '.join(names)}")  # fmt: skip
    shared.add_options(parser)
    others = {"experiments": names, "dtype": [], "only": "", "workers": None, "merge": False, "skip": None}
    options = argparse.Namespace(**(others | vars(parser.parse_args(arguments))))
    if options.budget_seconds < 0:
        parser.error(f"--budget-seconds is {options.budget_seconds:g}; give a number that is not negative")
    return options


def names_of(allowed: Sequence[str]) -> Callable[[str], list[str]]:
    """The type of an option that is a comma-separated list of allowed names."""

    def names(text: str) -> list[str]:
        for name in text.split(","):
            if name not in allowed:
                raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(allowed)}")
        return text.split(",")

    return names


def chosen_device(wanted: str) -> str:
    names = [info.name for info in sg.devices()]
    if wanted == "auto":
        return next((name for name in names if name != "cpu"), "cpu")
    device = "cuda:0" if wanted == "cuda" else wanted
    if device not in names:
        raise SystemExit(f"no device {wanted!r}; there are: {', '.join(names)}")
    if device not in ("cpu", "cuda:0"):
        raise SystemExit(f"{wanted}: choose a GPU with CUDA_VISIBLE_DEVICES and measure cuda:0")
    return device


def read(folder: Path) -> dict[str, Content]:
    """What was measured on one device, by file, in the order of the report."""
    files = [experiment.file for experiment in load_experiments()]
    paths = {name: folder / f"{name}.json" for name in dict.fromkeys(files)}
    return {name: Content.of(json.loads(path.read_text())) for name, path in paths.items() if path.is_file()}
