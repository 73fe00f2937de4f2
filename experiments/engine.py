"""Declarations of experiments, and the loop that runs, stores, merges and continues all of them."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import scipy.sparse as sp

import spmvgpu as sg

from . import environment, peers
from .clock import DeviceClock
from .peers.problem import ALL, Problem
from .records import RESULTS, Recorder, Row
from .suite import Item
from .tables import pivot

Items = tuple[list[Item], dict[str, str]]  # what is measured, and what is left out, with reasons


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
    measure : callable
        Given the run and a `Problem`, it yields rows; given the run alone if there are no `items`.
    name : str
        As ``--experiments`` has it; `file` unless given.
    items : callable
        From the options to the matrices; `group` selects the matrices of this experiment.
    dtypes : tuple of str
        Measured unless ``--dtype`` says otherwise.
    peers : dict
        The other libraries on "cuda" and on "cpu". With them there are a clock for the device, matrices that
        are built ahead, and the bandwidth of copies in the environment.
    variants : dict, optional
        What is measured of this library: names, with arguments of `aslinearoperator`. All unless given.
    seconds, reserve : float
        The time budget, and the part of it that is kept for this experiment of its command.
    of_device : bool
        Whether results depend on the device.
    leads : callable
        Whether this process is the one that writes and prints.
    start, add_options : callable
        What happens before the first matrix; further options.
    """

    command: str
    file: str
    measure: Callable[..., Iterator[Row]]
    about: str = ""
    name: str = ""
    items: Callable[[argparse.Namespace], Items] | None = None
    group: str | None = None
    dtypes: tuple[str, ...] = ("f64", "f32")
    peers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    variants: Mapping[str, dict[str, Any]] | None = None
    seconds: float = float("inf")
    reserve: float = 0.0
    of_device: bool = True
    leads: Callable[[], bool] = lambda: True
    start: Callable[[Run], None] = lambda run: None
    add_options: Callable[[argparse.ArgumentParser], None] = lambda parser: None

    @property
    def called(self) -> str:
        return self.name or self.file


@dataclass
class Run:
    """One run of one experiment."""

    experiment: Experiment
    options: argparse.Namespace
    device: str  # "cpu" or "cuda:N"
    record: Recorder
    started: float
    deadline: float
    peers: list[Any] = field(default_factory=list)
    clock: DeviceClock | None = None  # None on the CPU, and for experiments without peers

    @property
    def on_gpu(self) -> bool:
        return self.device != "cpu"

    def say(self, text: str) -> None:
        if self.experiment.leads():
            print(f"[{time.perf_counter() - self.started:6.1f} s] {text}", flush=True)

    def fits(self, seconds: float, **what: Any) -> bool:
        """Whether this many seconds are left; if not, it is noted."""
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
        """Turn a failure into an entry of what was skipped, unless the device is lost."""
        try:
            yield
        except Exception as error:  # one case must not cost the results of the others
            plain = isinstance(error, peers.NotApplicableError | sg.FormatError)
            reason = str(error) if plain else f"{type(error).__name__}: {error}"
            self.record.skip(reason[:400], **what)
            if not plain:
                self.say(f"failed: {' '.join(map(str, what.values()))}: {reason}"[:300])
            if self.clock is not None:
                self.clock.synchronize()


def run_command(experiments: list[Experiment], arguments: Sequence[str] | None = None) -> int:
    """Measure the experiments of one command; returns its exit code."""
    started = time.perf_counter()
    options, shared = parse(experiments, arguments), experiments[0]
    experiments = [experiment for experiment in experiments if experiment.called in options.experiments]
    device = chosen_device(options.device) if shared.of_device else "cpu"
    items, left_out = ([], {}) if shared.items is None else shared.items(options)
    items = [item for item in items if re.search(options.only, item.name)]
    if shared.items is not None and not items:
        print(f"no matrix matches --only {options.only!r}", file=sys.stderr)
        return 2
    wanted = shared.peers.get(device.partition(":")[0], ())
    usable, missing = peers.usable(wanted)
    facts = environment.describe(device, usable) | {"missing_peers": missing}
    build: Callable[[Item], sp.csr_array] = Item.build
    clock = None
    if wanted and device != "cpu":
        build, clock = ahead(items), DeviceClock()
        facts["copy_bandwidth"] = clock.copy_bandwidth()
        facts["copy_kernel_bandwidth"] = clock.copy_bandwidth(by_kernel=True)
    folder = options.out / environment.slug(facts) if shared.of_device else options.out
    records = {e.file: Recorder(folder / f"{e.file}.json", facts) for e in experiments}
    for record in records.values():
        if options.merge:
            record.keep_other_matrices(item.name for item in items)
        for library, reason in missing.items():
            record.skip(reason, library=library)
        for matrix, reason in left_out.items():
            record.skip(reason, matrix=matrix)
    for position, experiment in enumerate(experiments):
        later = sum(other.reserve for other in experiments[position + 1 :])
        deadline = started + options.budget_seconds * (1 - later)
        record = records[experiment.file]
        run = Run(experiment, options, device, record, started, deadline, usable, clock)
        run.say(f"{experiment.called}: {facts['device']} -> {record.path}")
        _measure(run, [item for item in items if experiment.group in (None, item.group)], build)
    for record in records.values() if shared.leads() else ():
        print(pivot(record.rows, "part job matrix system dtype", "library variant solver preconditioner"))
        failed = [str(row) for row in record.skipped if row.get("library") == "spmvgpu"]
        print("\n".join(failed[:3]))
    return 0


def ahead(items: list[Item]) -> Callable[[Item], sp.csr_array]:
    """Build all matrices at once, so that no process disturbs what is timed; each may need 3 GB."""
    # The parent may hold a CUDA context, which a fork would break.
    with ProcessPoolExecutor(min(8, (os.cpu_count() or 2) // 2), get_context("spawn")) as pool:
        built = {item.name: pool.submit(item.build) for item in items}
        wait(built.values())
    return lambda item: built[item.name].result()


def _measure(run: Run, items: list[Item], build: Callable[[Item], sp.csr_array]) -> None:
    """Fill the record of a run; what was measured is kept if it ends early."""
    experiment, record = run.experiment, run.record
    experiment.start(run)
    try:
        if experiment.items is None:
            record.rows.extend(experiment.measure(run))
        for number, item in enumerate(items, 1):
            matrix = None
            for dtype in run.options.dtype:
                if run.fits(0, matrix=item.name, dtype=dtype):
                    before, begin = len(record.rows), time.perf_counter()
                    with run.noted(matrix=item.name, dtype=dtype):
                        matrix = build(item) if matrix is None else matrix
                        problem = Problem.make(matrix, ALL[dtype], item.name, item.group)
                        for row in experiment.measure(run, problem):
                            record.rows.append(row)
                        problem.release()
                    if experiment.leads():
                        record.write()
                    took = f"{len(record.rows) - before} rows in {time.perf_counter() - begin:.1f} s"
                    run.say(f"{number}/{len(items)} {item.name} {dtype}: {took}")
    finally:
        if experiment.leads():
            record.write()


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
    add("--experiments", "--jobs", type=names_of(names), default=",".join(names),
        help=f"comma-separated, of {', '.join(names)}")  # fmt: skip
    if shared.dtypes:
        add("--dtype", type=names_of(tuple(ALL)), default=",".join(shared.dtypes),
            help=f"comma-separated, of {', '.join(ALL)}")  # fmt: skip
    if shared.items is not None:
        add("--only", default="", metavar="REGEX", help="matrices whose name matches")
        add("--merge", action="store_true", help="keep the other matrices' rows of existing files")
    if shared.peers:
        add("--skip", metavar="REGEX", help='leave out matching "library/variant" names')
    shared.add_options(parser)
    others = {"dtype": [], "only": "", "merge": False, "skip": None}
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
    if device not in names or device not in ("cpu", "cuda:0"):
        raise SystemExit(f"--device {wanted}: give cpu or cuda:0, and choose a GPU with CUDA_VISIBLE_DEVICES")
    return device
