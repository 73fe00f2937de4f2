"""The symmetric format beside general ones, on finite-element matrices, in order and as they come.

Its variants are measured beside CSR and SELL of this library and every algorithm of cuSPARSE (on the CPU:
SciPy and MKL). The order is that of reverse Cuthill-McKee, the same for all.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from experiments import families, peers, suite
from experiments.engine import Experiment, Items, Report, Run, Table
from experiments.goals import Mark, at_most
from experiments.peers.problem import DTYPES, Problem
from experiments.records import Case, Content, Row, fastest, ratio
from experiments.suite import Item
from experiments.tables import number
from spmvgpu import gallery
from spmvgpu.gallery import meshes

from .products import products

FORMAT = "tsmv"
REORDERED, GIVEN = "rcm", "given"  # groups: in reverse Cuthill-McKee order, and as generated or read
AS_GIVEN = ", as given"  # ends the names of the second

# -- matrices ------------------------------------------------------------------------------------------------


def _edges(*nodes: int) -> sp.csr_array:
    """Edge elements of tetrahedra: short rows in a wide band, for contrast."""
    return meshes.symmetric_values(meshes.shuffled(meshes.edge_elements(nodes), 50))


def _real(source: str, dof: int) -> sp.csr_array:
    """A real mesh, or the pattern of one whose nodes have `dof` unknowns each."""
    matrix = suite.real_matrix(source)
    if dof == 1:
        return matrix
    pattern = sp.csr_array((np.ones(matrix.nnz, np.int8), matrix.indices, matrix.indptr), shape=matrix.shape)
    return meshes.symmetric_values(meshes.blocks(pattern, dof))


Builders = dict[str, tuple[int, Callable[[], Any]]]
# Name -> unknowns per node, and how it is made; 3-D elasticity and shells are what the goals are about.
NARROW: Builders = {
    "elast3d_20k": (3, partial(gallery.elasticity3d, 27, contrast=100)),
    "elast3d_55k": (3, partial(gallery.elasticity3d, 38, contrast=100)),
    "elast3d_160k": (3, partial(gallery.elasticity3d, 54, contrast=100)),
    "fe_bracket_elastic": (3, partial(_real, "fe_bracket_elastic", 1)),
    **{name: (dof, partial(_real, source, dof)) for name, (source, dof) in reversed(suite.RECIPES.items())},
    "shell_x6": (6, partial(families.shell, 600, 100)),
}
ALL: Builders = {**NARROW, "edge_elements": (1, partial(_edges, 80, 36, 36))}
QUICK: Builders = {
    "elast3d_1k": (3, partial(gallery.elasticity3d, 7, contrast=100)),
    "shell_400_x6": (6, partial(families.shell, 40, 10)),
    "edge_elements_2k": (1, partial(_edges, 8, 7, 6)),
}
# Those that need a real matrix -> its name.
REAL = {
    "fe_bracket_elastic": "fe_bracket_elastic",
    **{name: source for name, (source, _) in suite.RECIPES.items()},
}


def items(options: Namespace) -> Items:
    """All in order first, then as they come; and what needs real matrices that are not there."""
    present = {item.name for item in suite.suite()[0] if item.group == "real"}
    there: Builders = QUICK if options.quick else ALL
    left_out = {
        name: f"needs the real matrix {source}"
        for name, source in REAL.items()
        if name in there and source not in present
    }
    there = {name: builder for name, builder in there.items() if name not in left_out}
    return [
        *(Item(name, REORDERED, partial(_ordered, make, dof)) for name, (dof, make) in there.items()),
        *(Item(name + AS_GIVEN, GIVEN, make) for name, (_, make) in there.items()),
    ], left_out


def _ordered(make: Callable[[], sp.csr_array], dof: int) -> sp.csr_array:
    return meshes.cuthill_mckee(make(), dof)


# -- rows ----------------------------------------------------------------------------------------------------


def measure(run: Run, problem: Problem) -> Iterator[Row]:
    return (completed(run.record.environment, row) for row in products(run, problem))


def completed(environment: dict[str, Any], row: Row) -> Row:
    """A row with what is worked out from it.

    `memory_ratio` is the matrix as stored over CSR with 32-bit indices; `predicted_us` the time in which a
    copy moves as many bytes; `preprocess_seconds` all of `setup_seconds` but the transfer, and
    `preprocess_products` how many products take as long.
    """
    size = DTYPES[row["dtype"]].itemsize
    csr_bytes = row["nnz"] * (size + 4) + (row["rows"] + 1) * 4
    vectors = (row["rows"] + row["cols"]) * size
    derived: Row = {"memory_ratio": round((row["bytes"] - vectors) / csr_bytes, 4)}
    bandwidth = environment.get("copy_kernel_bandwidth")
    if bandwidth is None:  # the CPU's are by number of threads
        bandwidth = environment["copy_bandwidth"].get(str(row.get("threads")))
    if bandwidth is not None:
        derived["predicted_us"] = round(1e6 * row["bytes"] / bandwidth, 3)
    if row["setup_seconds"]:
        seconds = sum(value for name, value in row["setup_seconds"].items() if name != "transfer")
        derived["preprocess_seconds"] = round(seconds, 6)
        derived["preprocess_products"] = round(1e6 * seconds / row["time_us"], 1)
    return {**row, **derived}


# -- report --------------------------------------------------------------------------------------------------

SPEED, MEMORY, MOST_MEMORY, PREPROCESSING = 0.75, 0.65, 1.0, 60
LEAST_NNZ = 2_000_000
HEAD = (
    "matrix", "dtype", "nnz", "best other", "", "csr", "sell", FORMAT, "x", "bytes x", "TB/s", "predicted",
    "poster", "x", "of CSR", "preprocessing, products",
)  # fmt: skip
NOTE = (
    "Times in microseconds per product, for products in a row. *best other* is the fastest algorithm "
    "of cuSPARSE (on the CPU: of SciPy and MKL). *x* is the time over that time, *bytes x* the same "
    f"ratio of the bytes of matrix and vectors. *TB/s* is the bytes of `{FORMAT}` over its time, "
    "*predicted* the time of a copy of as many bytes, *of CSR* the memory of the matrix over CSR, and "
    "*preprocessing* the conversion from CSR."
)


@dataclass(frozen=True)
class Line:
    """One matrix in one precision; on the CPU, on all of its cores."""

    case: Case
    nnz: int
    other: Row | None  # the fastest of another library
    rows: dict[str, Row]  # ours, by variant


def lines(content: Content) -> Iterator[Line]:
    threads = max(content.threads, default=None)
    for case in content.cases():
        found = content.of_case(case, threads=threads)
        alone = [] if threads is None else content.of_case(case, threads=1)
        others = [row for row in found if row["library"] != "spmvgpu"]
        others += [row for row in alone if row["library"] == "scipy"]
        ours = {row["variant"]: row for row in found if row["library"] == "spmvgpu"}
        if found:
            yield Line(case, found[0]["nnz"], fastest(others), ours)


def rows(content: Content) -> Table:
    for line in lines(content):
        other, tsmv = line.other, line.rows.get(FORMAT, {})
        poster = fastest(row for name, row in line.rows.items() if name.startswith(f"{FORMAT}_poster"))
        yield (
            *line.case, f"{line.nnz / 1e6:.2f}M", _us(other),
            f"{other['library']} {other['variant']}" if other else None,
            *(_us(line.rows.get(name)) for name in ("csr", "sell", FORMAT)),
            ratio(tsmv, other), ratio(tsmv, other, "bytes"),
            tsmv["bytes"] / tsmv["time_us"] / 1e6 if tsmv else None, number(tsmv.get("predicted_us"), 1),
            _us(poster), ratio(poster, other), number(tsmv.get("memory_ratio")),
            number(tsmv.get("preprocess_products"), 0),
        )  # fmt: skip


def _us(row: Row | None) -> str | None:
    return None if row is None else number(row["time_us"], 2 if row["time_us"] < 10 else 1)


def goals(content: Content) -> list[Mark]:
    found = [line for line in lines(content) if FORMAT in line.rows]
    narrow = [line for line in found if line.case[0] in NARROW and line.nnz >= LEAST_NNZ]

    def of(part: list[Line], field: str) -> dict[str, float | None]:
        return {" ".join(line.case): line.rows[FORMAT].get(field) for line in part}

    over = {" ".join(line.case): ratio(line.rows[FORMAT], line.other) for line in narrow}
    return [
        *(
            at_most(f"{FORMAT} over the best of cuSPARSE, narrow bands", over, SPEED)
            if content.on_gpu
            else []
        ),
        *at_most(f"memory of {FORMAT} over CSR, narrow bands", of(narrow, "memory_ratio"), MEMORY),
        *at_most(f"memory of {FORMAT} over CSR, everywhere", of(found, "memory_ratio"), MOST_MEMORY),
        *at_most(f"preprocessing of {FORMAT}, in products", of(narrow, "preprocess_products"), PREPROCESSING),
    ]


POSTER = {"variant": "poster", "max_memory": peers.ours.POSTER["max_memory"]}  # whatever memory it takes

EXPERIMENTS = [
    Experiment(
        command="symmetric",
        about="the symmetric format beside general ones",
        file="symmetric",
        items=items,
        peers={"cuda": ("cusparse",), "cpu": ("scipy", "mkl")},
        variants={
            FORMAT: {"format": FORMAT, "symmetric": True},
            f"{FORMAT}_poster": {"format": FORMAT, "symmetric": True, **POSTER},
            f"{FORMAT}_poster_large": {"format": FORMAT, "symmetric": True, **peers.ours.POSTER},
            "csr": {"format": "csr"},
            "sell": {"format": "sell"},
        },
        measure=measure,
        report=Report(80, "Symmetric matrices", NOTE, HEAD, rows, goals=goals),
    )
]
