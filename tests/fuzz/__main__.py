"""As many cases as one likes, from a checkout: see docs/sanitizers.md."""

from __future__ import annotations

import argparse
import faulthandler
import json
import math
import os
import resource
import sys
import tempfile

from .cases import KINDS, default_kinds, finding_of
from .runner import MEMORY, Finding, Task, channel, run, tasks


def main() -> int:
    """Run the command; 1 if there was a finding."""
    given = _parser().parse_args()
    unknown = sorted({*given.kinds, *given.without} - KINDS.keys())
    if unknown:
        print(f"unknown kinds {', '.join(unknown)}; there are {', '.join(KINDS)}", file=sys.stderr)
        return 2
    given.kinds = [kind for kind in given.kinds if kind not in given.without]
    if not given.kinds:
        print("no kinds are left", file=sys.stderr)
        return 2
    if given.worker:
        return _work(given)
    with tempfile.TemporaryDirectory(prefix="spmvgpu-fuzz-") as folder:
        os.environ["SPMVGPU_CACHE_DIR"] = folder
        return _command(given)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    kinds = default_kinds()
    parser.add_argument("--cases", type=int, default=2000, help="how many in all (default: %(default)s)")
    parser.add_argument("--kinds", nargs="+", default=kinds, metavar="KIND", help=f"of {', '.join(kinds)}")
    parser.add_argument("--without", nargs="+", default=[], metavar="KIND", help="of these, leave out")
    parser.add_argument("--seed", type=int, default=0, help="the first of every kind (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no more batches after these")
    parser.add_argument("--device", default="cpu", help="where operators are (default: %(default)s)")
    parser.add_argument("--memory", type=int, default=MEMORY, help="most bytes of a process; 0 for any")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser


def _command(given: argparse.Namespace) -> int:
    todo = tasks(given.kinds, given.seed, given.cases)
    done = 0

    def report(task: Task, findings: list[Finding]) -> None:
        nonlocal done
        done += task.count
        for finding in findings:
            again = f"--kinds {finding.kind} --seed {finding.seed} --cases 1"
            print(f"\n== finding: python -m tests.fuzz {again}\n{finding.text}", flush=True)
        print(f"{done} of {given.cases} cases", end="\r", file=sys.stderr, flush=True)

    found = run(todo, given.jobs, given.device, given.memory, 60 * given.minutes, report)
    print(f"{done} cases of {len(given.kinds)} kinds from seed {given.seed}, {len(found)} findings")
    return 1 if found else 0


def _work(given: argparse.Namespace) -> int:
    """One task, in this process, with a line before each case and after each finding."""
    faulthandler.enable()
    if given.memory:
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (given.memory, most))  # which libraries may raise
    with channel() as out:
        (name,) = given.kinds
        for seed in range(given.seed, given.seed + given.cases):
            print(json.dumps({"seed": seed}), file=out, flush=True)
            text = finding_of(name, seed, given.device)
            if text is not None:
                print(json.dumps({"seed": seed, "text": text}), file=out, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
