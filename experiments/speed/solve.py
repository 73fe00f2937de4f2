"""From a matrix to a solution: multigrid, columns, eigenvalues, least squares, direct solvers, and `solve`.

What is measured is in the folder `solving`; here stand the command, and what the report says.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import spmvgpu as sg
from experiments.engine import Experiment, Items, Report, Run, Table
from experiments.goals import Mark, at_least, at_most
from experiments.peers.problem import Problem
from experiments.records import Content, Row, fastest, ratio
from experiments.solving import columns, direct, iteration, libraries, spectra, systems, which, whole
from experiments.tables import duration, machine, number, table
from spmvgpu import gallery, linalg

SECONDS = 540.0
KINDS = {
    "whole": (whole.PART, systems.WHOLE),
    "columns": (columns.PART, systems.COLUMNS),
    "iteration": (iteration.PART, systems.ITERATION),
    "eigenvalues": (spectra.EIGENVALUES, systems.EIGENVALUES),
    "least_squares": (spectra.LEAST_SQUARES, systems.LEAST_SQUARES),
    "which": (which.PART, systems.WHICH),
    "direct": (direct.PART, systems.DIRECT),
}  # by the name that --experiments has


def items(options: argparse.Namespace) -> Items:
    """The matrices of the chosen experiments, so that ``--merge`` keeps those of the others."""
    chosen = [KINDS[name] for name in KINDS if name in options.experiments]
    return [item for part, kinds in chosen for item in systems.items(kinds, part, options)], {}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scale", type=_share, default=1.0, metavar="S",
                        help="part of the unknowns that all systems have, at most 1 (1)")  # fmt: skip
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of random coefficients (1)")


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not allowed; give a number above 0 and at most 1")
    return value


def start(run: Run) -> None:
    """Say what is missing, start the device, and load what a process loads once."""
    facts = run.record.environment
    if "missing_peers" in facts:  # an experiment of the same command has done so
        return
    facts["missing_peers"] = libraries.missing(run.on_gpu)
    facts["versions"].update(libraries.versions(run.on_gpu))
    for library, reason in facts["missing_peers"].items():
        run.record.skip(reason, library=library)
    A = gallery.poisson2d(70)
    b = np.ones(A.shape[0])
    small = systems.System("warm-up", systems.WHICH["grid"], A, b)
    with sg.cache.empty():
        op = sg.aslinearoperator(A, device=run.device)
        linalg.cg(op, b, M="amg")
        linalg.solve(A, b, device=run.device)
        linalg.eigsh(op, k=2, tol=1e-2)
        linalg.lsmr(op, b)
    for library in libraries.others(run.on_gpu):
        with run.noted(matrix=small.name, library=library.name, variant=library.variant):
            library.solve(small)


# -- tables --------------------------------------------------------------------------------------------------

HEAD = (
    "system", "library", "method", "unknowns", "in all", "set-up", "hierarchy", "solve", "new values",
    "iterations",
)  # fmt: skip
NOTE = (
    "Times from a SciPy matrix to the solution in NumPy in float64, with upload, choice of the format and "
    'set-up, to a relative residual of 1e-8. *once* is `amg` with `cycle="once"`, as for `M="amg"`. '
    "*Hierarchy* is `amg(op)` for an operator that is on the device. "
    "*New values* is `M.update_values`. For other libraries, *set-up* is the time before the first "
    "iteration, or of the factors."
)


def _of_part(content: Content, part: str) -> Content:
    return Content(content.environment, [row for row in content.rows if row["part"] == part])


def rows(content: Content) -> Table:
    """Whole solutions."""
    for row in _of_part(content, whole.PART).rows:
        times = [_time(row, field) for field in ("time", "setup", "hierarchy", "solve", "update")]
        method = row.get("chose") and f"solve(): {row['chose']}"
        yield (
            _said(row), _library(row), method or row["variant"], f"{row['rows']:,}", *times,
            row.get("iterations"),
        )  # fmt: skip


def _said(row: Row) -> str:
    return f"{row['kind']} ({row['matrix']})"


def _library(row: Row) -> str:
    names = {"cupy": "CuPy", "scipy": "SciPy", "cudss": "cuDSS"}
    name = names.get(row["library"], row["library"])
    return f"{name}, {row['device'].upper()}"


def _time(row: Row | None, field: str = "time") -> str | None:
    us = (row or {}).get(f"{field}_us")
    return duration(us) if us else None


COLUMNS_HEAD = (
    "system", "library", "preconditioner", *(f"k = {count}" for count in columns.COUNTS), "last / first",
)  # fmt: skip
ITERATION_HEAD = (
    "system", "library", "preconditioner", "format", "iteration", "copy", "x",
)  # fmt: skip
SPECTRA_HEAD = (
    "system", "what", "rows", "spmvgpu", "SciPy", "SciPy with pyamg", "CuPy", "SciPy / ours", "CuPy / ours",
)  # fmt: skip
CHOICE_HEAD = ("system", "`solve` chose", "fastest by name", "rows", "`solve`", "fastest", "solve / fastest")
DIRECT_HEAD = (
    "system", "library", "unknowns", "in all", "factors", "solve", "new values and solve",
    "entries of factors",
)  # fmt: skip
METHODS_HEAD = ("system", "library", "method", "iterations", "time")


def more(content: Content) -> Iterator[str]:
    parts = (
        ("Several right-hand sides", COLUMNS_NOTE, COLUMNS_HEAD, columns_rows(content), 3),
        ("One iteration of `cg`", ITERATION_NOTE, ITERATION_HEAD, iteration_rows(content), 4),
        ("Eigenvalues and singular values", EIGENVALUES_NOTE, SPECTRA_HEAD, spectra_rows(content, True), 2),
        ("Least squares", LEAST_SQUARES_NOTE, SPECTRA_HEAD, spectra_rows(content, False), 2),
        ("What `solve` chooses", CHOICE_NOTE, CHOICE_HEAD, choice_rows(content), 3),
        ("Direct solvers", DIRECT_NOTE, DIRECT_HEAD, direct_rows(content), 2),
        ("All methods by name", METHODS_NOTE, METHODS_HEAD, method_rows(content), 3),
    )
    for title, note, head, lines, words in parts:
        found = list(lines)
        if found:
            yield from (f"### {title}", note, table(head, found, words))
    left_out = []
    for entry in content.skipped:
        keys = ("part", "matrix", "library", "variant", "solver", "preconditioner", "columns")
        what = " ".join(str(entry[key]) for key in keys if key in entry)
        left_out.append(f"- {what}: {entry['reason']}")
    yield "Left out:\n\n" + "\n".join(left_out) if left_out else ""


COLUMNS_NOTE = (
    "Times of `cg` to a relative residual of 1e-8 in all columns, with right-hand sides on the device. CuPy "
    "solves for one after the other."
)
ITERATION_NOTE = (
    "The time of an iteration with vectors on the device, from solves with "
    f"{iteration.SHORT} and {iteration.LONG} of them. *copy* is the time in which a copy moves the matrix as "
    f"it is stored and {iteration.VECTORS} vectors, and *x* the time over that."
)
EIGENVALUES_NOTE = (
    f"Times from a SciPy matrix to {spectra.COUNT} eigenpairs or singular triples; `tol` is {spectra.TOL:g}. "
    "*Smallest* is by the shift 0: with `cg` and multigrid here, with the factors of SuperLU in SciPy, and "
    "with `cg` and pyamg's hierarchy in SciPy's loop. CuPy has no shift."
)
LEAST_SQUARES_NOTE = f"Times from a SciPy matrix to a solution, with tolerances of {spectra.TOL:g}."
CHOICE_NOTE = (
    "Times from a SciPy matrix to a solution with a relative residual of 1e-8. `solve` knows nothing but the "
    "matrix, and the null space of the singular one. *Fastest* is the fastest of all methods of the next "
    "table, which has those of spmvgpu by name and direct solvers."
)
DIRECT_NOTE = (
    "Times from a SciPy matrix to the solution in NumPy, and then of `splu`, of `solve` with its factors, "
    "and of `update_values` with a solve. SciPy's factors are made anew."
)
METHODS_NOTE = (
    "*rigid* is `amg` with the rigid body modes. A method that takes long ends after about "
    f"{which.LONGEST:g} s."
)


def columns_rows(content: Content) -> Table:
    found = _of_part(content, columns.PART).grouped("matrix library variant", "columns")
    for (*_, variant), by_count in found.items():
        first = next(iter(by_count.values()))
        times = (_time(by_count.get(count)) for count in columns.COUNTS)
        over = ratio(by_count.get(columns.COUNTS[-1]), by_count.get(1))
        yield _said(first), _library(first), variant, *times, number(over)


def iteration_rows(content: Content) -> Table:
    for row in _of_part(content, iteration.PART).rows:
        over = row["time_us"] / row["copy_us"] if "copy_us" in row else None
        yield (
            _said(row), _library(row), row["variant"], row.get("format"), _time(row), _time(row, "copy"),
            number(over),
        )  # fmt: skip


def spectra_rows(content: Content, values: bool) -> Table:
    for (_, variant), found in _spectra(content).items():
        first = next(iter(found.values()))
        is_of_values = first["part"] == spectra.EIGENVALUES or variant == "svds"
        if is_of_values == values:
            ours = found.get("spmvgpu")
            times = (_time(found.get(library)) for library in ("spmvgpu", "scipy", "pyamg", "cupy"))
            over = (number(ratio(found.get(other), ours)) for other in ("scipy", "cupy"))
            yield _said(first), variant, f"{first['rows']:,}", *times, *over


def _spectra(content: Content) -> dict[tuple[Any, ...], dict[Any, Row]]:
    """By matrix and what is found, the rows of the libraries."""
    rows = [row for row in content.rows if row["part"] in (spectra.EIGENVALUES, spectra.LEAST_SQUARES)]
    return Content({}, rows).grouped("matrix variant", "library")


def _choices(content: Content) -> Iterator[tuple[Row, Row | None]]:
    """Of each system the row of `solve`, and the fastest by name."""
    for found in _of_part(content, which.PART).grouped("matrix", "library solver preconditioner").values():
        (own,) = (row for row in found.values() if row["solver"] == "solve()")
        yield own, fastest(row for row in found.values() if row is not own and "time_us" in row)


def choice_rows(content: Content) -> Table:
    for own, best in _choices(content):
        yield (
            _said(own), own.get("chose", own["outcome"]), _method(best), f"{own['rows']:,}", _time(own),
            _time(best), number(ratio(own, best)),
        )  # fmt: skip


def direct_rows(content: Content) -> Table:
    for row in _of_part(content, direct.PART).rows:
        times = [_time(row, field) for field in ("time", "setup", "solve", "update")]
        yield _said(row), _library(row), f"{row['rows']:,}", *times, f"{row['factors_nnz']:,}"


def _method(row: Row | None) -> str | None:
    if row is None:
        return None
    if row["solver"] == "direct":
        return f"direct, {_library(row)}"
    name = row["preconditioner"]
    return row["solver"] if name == "none" else f"{row['solver']} with {name}"


def method_rows(content: Content) -> Table:
    for row in _of_part(content, which.PART).rows:
        if row["solver"] != "solve()":
            time = _time(row) or row["outcome"].replace("|", "/")
            yield _said(row), _library(row), _method(row), row["iterations"], time


# -- goals ---------------------------------------------------------------------------------------------------

# By matrix, milliseconds on a GPU from the matrix to the solution.
WHOLE_MS = {"poisson3d_160": 100.0, "poisson2d_3000": 150.0, "jumps3d_160": 200.0}
HIERARCHY_MS = {"poisson3d_160": 50.0}
ELASTIC_ITERATIONS, OVER_PYAMG_ITERATIONS, NEW_VALUES = 30, 1.2, 0.4
MANY_OVER_ONE, ITERATION = 4.0, 1.2
EIGSH_SCIPY, EIGSH_CUPY, LSMR_CUPY = 10.0, 3.0, 5.0
PYAMG_CPU, AMGCL_CPU = 5.0, 1.0
LEAST_ROWS = 50_000  # of systems that goals are for


def goals(content: Content) -> Iterator[Mark]:
    large = Content(content.environment, [row for row in content.rows if row["rows"] >= LEAST_ROWS])
    yield from _multigrid_goals(large)
    for variant, said in (("none", ""), ("amg", " with multigrid")):
        found = _of_part(large, columns.PART).grouped("matrix library variant", "columns")
        over = {
            matrix: ratio(by_count.get(columns.COUNTS[-1]), by_count.get(1))
            for (matrix, library, name), by_count in found.items()
            if library == "spmvgpu" and name == variant
        }
        yield from at_most(f"16 right-hand sides over one{said}", over, MANY_OVER_ONE)
    if content.on_gpu:
        over = {
            row["matrix"]: row["time_us"] / row["copy_us"]
            for row in _of_part(large, iteration.PART).rows
            if row["library"] == "spmvgpu" and row["variant"] == "none" and "copy_us" in row
        }
        yield from at_most("an iteration of cg over a copy of matrix and 8 vectors", over, each=ITERATION)
        yield from _spectra_goals(large)
    solved = {
        own["matrix"]: (own["residual"] or float("inf")) / libraries.RTOL for own, _ in _choices(content)
    }
    yield from at_most("the residual that `solve` leaves, over the tolerance", solved, each=1.0)


def _multigrid_goals(content: Content) -> Iterator[Mark]:
    cases = _of_part(content, whole.PART).grouped("matrix", "library variant")
    found = {matrix: rows for (matrix,), rows in cases.items()}
    ours, once = (
        {matrix: rows["spmvgpu", name] for matrix, rows in found.items() if ("spmvgpu", name) in rows}
        for name in ("amg", "once")
    )
    if content.on_gpu:
        for name, field, limits in (
            ("matrix to solution with multigrid, ms", "time_us", WHOLE_MS),
            ("the hierarchy of multigrid, ms", "hierarchy_us", HIERARCHY_MS),
        ):
            for matrix in filter(once.__contains__, limits):
                yield from at_most(name, {matrix: once[matrix][field] / 1e3}, limits[matrix])
    elastic = {matrix: row["iterations"] for matrix, row in ours.items() if matrix.startswith("elasticity")}
    yield from at_most("iterations with rigid body modes", elastic, ELASTIC_ITERATIONS)
    theirs = {matrix: found[matrix].get(("pyamg", "amg")) for matrix in ours}
    iterations = {matrix: ratio(ours[matrix], theirs[matrix], "iterations") for matrix in ours}
    yield from at_most("iterations over those of pyamg", iterations, OVER_PYAMG_ITERATIONS)
    again = {matrix: row["update_us"] / row["setup_us"] for matrix, row in ours.items()}
    yield from at_most("set-up with new values over the first", again, NEW_VALUES)
    if not content.on_gpu:
        for library, goal in (("amgcl", AMGCL_CPU), ("pyamg", PYAMG_CPU)):
            for field, said in (("setup_us", "set-up"), ("solve_us", "solve")):
                over = {m: ratio(found[m].get((library, "amg")), ours[m], field) for m in ours}
                yield from at_least(f"{library}'s {said} over ours, on the same cores", over, goal)


def _spectra_goals(content: Content) -> Iterator[Mark]:
    cases = _spectra(content)
    for end in ("largest", "smallest"):
        for library, goal in (("scipy", EIGSH_SCIPY), ("cupy", EIGSH_CUPY)):
            over = {
                matrix: ratio(found.get(library), found.get("spmvgpu"))
                for (matrix, variant), found in cases.items()
                if variant == end
            }
            name = "SciPy" if library == "scipy" else "CuPy"
            yield from at_least(f"{name}'s eigsh over ours, {end} eigenvalues", over, goal)
    over = {
        matrix: ratio(found.get("cupy"), found.get("spmvgpu"))
        for (matrix, variant), found in cases.items()
        if variant == "lsmr"
    }
    yield from at_least("CuPy's lsmr over ours", over, LSMR_CUPY)


# -- docs/which-solver.md ------------------------------------------------------------------------------------

PEERS = (("pyamg", "amg"), ("amgcl", "amg"), ("cupy", "cg"), ("scipy", "direct"), ("cudss", "direct"))
WHOLE_INSET_HEAD = (
    "system", "machine", "unknowns", "`amg` and `cg`", "set-up", "solve", "iterations",
    "`cg` with `M=\"amg\"`", "pyamg", "amgcl",
    "CuPy's `cg`", "SciPy's `splu`", "cuDSS",
)  # fmt: skip


def whole_inset(contents: list[Content]) -> str:
    """Multigrid from the matrix to the solution on each machine."""

    def lines() -> Table:
        for content in contents:
            for found in _of_part(content, whole.PART).grouped("matrix", "library variant").values():
                own = found.get(("spmvgpu", "amg"))
                if own is not None:
                    yield (
                        own["kind"], machine(content.environment), f"{own['rows']:,}", _time(own),
                        _time(own, "setup"), _time(own, "solve"), own["iterations"],
                        _time(found.get(("spmvgpu", "once"))), *(_time(found.get(peer)) for peer in PEERS),
                    )  # fmt: skip

    found = list(lines())
    return table(WHOLE_INSET_HEAD, found) if found else ""


def choice_inset(contents: list[Content]) -> str:
    """What `solve` chose on the first machine, and its time on each."""
    measured = [(content, list(_choices(content))) for content in contents]
    measured = [(content, found) for content, found in measured if found]
    if not measured:
        return ""
    names = [machine(content.environment) for content, _ in measured]
    times = [{own["matrix"]: _time(own) for own, _ in found} for _, found in measured]
    head = (
        "system", "`solve` chose", "fastest by name", "rows", *(f"`solve`, {name}" for name in names),
        f"fastest, {names[0]}",
    )  # fmt: skip
    lines = [
        (
            own["kind"], own.get("chose", own["outcome"]), _method(best), f"{own['rows']:,}",
            *(found.get(own["matrix"]) for found in times), _time(best),
        )
        for own, best in measured[0][1]
    ]  # fmt: skip
    return table(head, lines, 3)


SPECTRA_INSET_HEAD = (
    "problem",
    "machine",
    "function",
    "rows",
    "spmvgpu",
    "SciPy",
    "SciPy with pyamg",
    "CuPy",
)


def spectra_inset(contents: list[Content]) -> str:
    """Eigenvalues, singular values and least squares on each machine."""
    functions = {"largest": "`eigsh`, largest", "smallest": "`eigsh`, smallest by shift"}

    def lines() -> Table:
        for content in contents:
            for (_, variant), found in _spectra(content).items():
                first = next(iter(found.values()))
                yield (
                    first["kind"], machine(content.environment), functions.get(variant, f"`{variant}`"),
                    f"{first['rows']:,}",
                    *(_time(found.get(library)) for library in ("spmvgpu", "scipy", "pyamg", "cupy")),
                )  # fmt: skip

    found = list(lines())
    return table(SPECTRA_INSET_HEAD, found, 3) if found else ""


PAGE = "which-solver.md"
REPORT = Report(
    72, "From a matrix to a solution", NOTE, HEAD, rows, 3, more=more, goals=goals,
    insets={
        (PAGE, "choices"): choice_inset, (PAGE, "whole"): whole_inset, (PAGE, "spectra"): spectra_inset,
    },
)  # fmt: skip


def experiment(name: str, measure: Callable[[Run, Problem], Iterator[Row]], reserve: float) -> Experiment:
    """One of the experiments, with the part of the time that is kept for it."""
    part, _ = KINDS[name]
    return Experiment(
        command="solve",
        about="from a matrix to a solution: multigrid, eigenvalues, least squares, factors, which solver",
        file="solve",
        name=name,
        items=items,
        choose=lambda found: [item for item in found if item.group == part],
        dtypes=("f64",),
        seconds=SECONDS,
        reserve=reserve,
        start=start,
        measure=measure,
        report=REPORT,
        add_options=add_options,
    )


EXPERIMENTS = [
    experiment("whole", whole.measure, 0.4),
    experiment("columns", columns.measure, 0.05),
    experiment("iteration", iteration.measure, 0.05),
    experiment("eigenvalues", spectra.eigenvalues, 0.2),
    experiment("least_squares", spectra.least_squares, 0.1),
    experiment("which", which.measure, 0.15),
    experiment("direct", direct.measure, 0.1),
]
