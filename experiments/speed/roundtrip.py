"""NumPy array in, NumPy array out: ``op @ x`` against ``cupy.asnumpy(G @ cupy.asarray(x))``."""

from __future__ import annotations

from collections.abc import Iterator

import spmvgpu as sg
from experiments import peers
from experiments.clock import Call, Timing, in_turns
from experiments.engine import Experiment, Report, Run, Table
from experiments.goals import Mark, at_most
from experiments.peers.problem import Problem
from experiments.records import Content, Row, geometric_mean, ratio

LEAST_ROWS = 50_000
SECONDS = 0.25  # per library


def measure(run: Run, problem: Problem) -> Iterator[Row]:
    if not run.on_gpu:
        raise peers.NotApplicableError("a round trip needs a GPU")
    if problem.matrix.shape[0] < LEAST_ROWS:
        return
    import cupy

    op = sg.aslinearoperator(problem.matrix, device=run.device)
    G, x = peers.cupy.matrix(problem), problem.x
    calls: dict[tuple[str, str], Call] = {
        ("spmvgpu", "auto"): lambda: op @ x,
        ("cupy", "csr"): lambda: cupy.asnumpy(G @ cupy.asarray(x)),
    }
    for call in calls.values():
        problem.check(call())
    for (library, variant), samples in in_turns(calls, SECONDS, least=7, most=300).items():
        yield {
            **problem.describe(), "library": library, "variant": variant, **Timing.of(samples).fields(),
            "options": {"format": op.format} if library == "spmvgpu" else {},
        }  # fmt: skip


# -- report --------------------------------------------------------------------------------------------------

GOAL = 0.4
HEAD = ("matrix", "dtype", "rows", "CuPy, us", "spmvgpu, us", "x")


def _over(content: Content) -> dict[str, float]:
    found = {
        " ".join(case): ratio(pair.get("spmvgpu"), pair.get("cupy"))
        for case, pair in content.grouped("matrix dtype", "library").items()
    }
    return {case: quotient for case, quotient in found.items() if quotient is not None}


def note(content: Content) -> str:
    return (
        f"With a NumPy array, `op @ x` takes {geometric_mean(_over(content).values()):.2f} times as long as "
        "`cupy.asnumpy(G @ cupy.asarray(x))` (geometric mean)."
    )


def rows(content: Content) -> Table:
    over = _over(content)
    for case, pair in content.grouped("matrix dtype", "library").items():
        if " ".join(case) in over:
            ours, theirs = pair["spmvgpu"], pair["cupy"]
            yield *case, ours["rows"], theirs, ours, over[" ".join(case)]


def goals(content: Content) -> list[Mark]:
    return at_most("NumPy round trip over CuPy's", _over(content), each=GOAL)


EXPERIMENTS = [
    Experiment(
        command="speed",
        file="roundtrip",
        reserve=0.2,
        measure=measure,
        report=Report(120, "NumPy round trips", note, HEAD, rows, goals=goals),
    )
]
