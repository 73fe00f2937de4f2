"""Measure products and solvers over several GPUs and the CPU: ``python -m experiments multi``.

The matrix has the pattern of a 27-point stencil. Vectors stay on the devices ("distributed"), or are NumPy
arrays that cross the bus in every product ("numpy"); "graph" is the device time of one GPU by itself, from
replayed graphs. Every result is compared with that of one GPU, and that one in some rows with NumPy.

"cg" is an iteration of `linalg.cg`, as the slope between a short and a long run without a tolerance, over
devices of one kind; what the short run arrives at is compared with what one device does.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import spmvgpu as sg
from experiments import environment
from experiments.clock import Call, timed, wall_us
from experiments.peers.problem import DTYPES
from experiments.records import RESULTS, Recorder
from spmvgpu import linalg

ROWS_PER_TASK = 250_000
CHAIN = 20  # distributed products between two waits of the host
ROUNDS = 7
SHORT, LONG = 30, 630  # iterations of cg between which the slope is taken
FILES = {"products": "multi.json", "cg": "multi_cg.json"}  # by what is measured


def stencil(rows: int, dtype: Any, threads: int | None = None) -> sp.csr_array:
    """A symmetric positive definite matrix; 27 entries a row, at the distances they have in a cubic grid.

    Rows near either end have fewer. The absolute values of a row add up to less than 1, so that no product of
    a long series overflows; of row and column i all are scaled by one factor, so that few values are alike.
    """
    side = round(rows ** (1 / 3))
    steps = np.array(list(itertools.product((-1, 0, 1), repeat=3)), np.int32) @ [side * side, side, 1]
    steps = steps.astype(np.int32)
    reach, count = int(steps[-1]), len(steps)
    if rows <= 2 * reach:
        raise ValueError(f"a stencil on {rows} rows would overlap itself; give more rows")
    ends = [np.arange(reach, dtype=np.int32), np.arange(rows - reach, rows, dtype=np.int32)]
    reached = [own[:, None] + steps for own in ends]
    inside = [(columns >= 0) & (columns < rows) for columns in reached]
    lengths = np.full(rows, count, np.int32)
    for own, mask in zip(ends, inside, strict=True):
        lengths[own] = mask.sum(axis=1)
    row_offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    indices = np.empty(row_offsets[-1], np.int32)
    data = np.empty(row_offsets[-1], dtype)

    half = np.linspace(0.5, 1.0, count // 2)
    weights = np.concatenate([-half, [2.001 * half.sum()], -half[::-1]])
    weights = (0.5 * weights / weights.max()).astype(dtype)
    factors = (0.7 + 0.3 * (np.arange(rows) % 97) / 97).astype(dtype)

    def values(own: Any, columns: Any) -> Any:
        return factors[own][:, None] * factors[columns] * weights

    def fill(first: int) -> None:
        own = np.arange(first, min(rows - reach, first + ROWS_PER_TASK), dtype=np.int32)
        at = slice(row_offsets[own[0]], row_offsets[own[-1] + 1])
        columns = indices[at].reshape(-1, count)
        np.add(own[:, None], steps, out=columns)
        data[at] = values(own, columns).ravel()

    for own, columns, mask in zip(ends, reached, inside, strict=True):
        at = slice(row_offsets[own[0]], row_offsets[own[-1] + 1])
        indices[at] = columns[mask]
        data[at] = values(own, np.clip(columns, 0, rows - 1))[mask]
    with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        list(pool.map(fill, range(reach, rows - reach, ROWS_PER_TASK)))
    return sp.csr_array((data, indices, row_offsets), shape=(rows, rows))


def device_lists(counts: Sequence[int]) -> list[list[str]]:
    """So many GPUs, and the most of them with the CPU; the CPU once and twice where there is no GPU."""
    gpus = [info.name for info in sg.devices() if info.name != "cpu"]
    if not gpus:
        return [["cpu"], ["cpu", "cpu"]]
    lists = [gpus[:count] for count in counts if count <= len(gpus)]
    return [*lists, [gpus[0], "cpu"], *([[*lists[-1], "cpu"]] if len(lists[-1]) > 1 else [])]


def is_of_one_kind(devices: Sequence[str]) -> bool:
    """Whether a solver keeps its vectors in pieces on the devices: all are GPUs, or all the CPU."""
    return len({name == "cpu" for name in devices}) == 1


class Run:
    """One matrix in one precision, over one list of devices after the other."""

    def __init__(self, matrix: sp.csr_array, name: str, dtype: str, records: dict[str, Recorder]) -> None:
        self.matrix, self.records = matrix, records
        self.facts = {
            "matrix": name, "rows": matrix.shape[0], "cols": matrix.shape[1], "nnz": int(matrix.nnz),
            "dtype": dtype, "library": "spmvgpu", "cache": "hot",
        }  # fmt: skip
        self.x = np.linspace(-1, 1, matrix.shape[1]).astype(matrix.dtype)
        self.reference: np.ndarray[Any, Any] | None = None
        self.iterate: np.ndarray[Any, Any] | None = None  # of cg, after the short run

    def one_gpu(self, device: str, format: str) -> None:
        """Device time of an ordinary operator."""
        op = sg.aslinearoperator(self.matrix, device=device, format=format)
        self.check("graph", op @ self.x)
        times = [op.time_products(20) for _ in range(3)]
        self.add("graph", [device], op, times)

    def over(self, devices: list[str], format: str, variants: Sequence[str]) -> None:
        """What is asked for over a list of devices."""
        seconds, op = timed(lambda: sg.aslinearoperator(self.matrix, device=devices, format=format))
        if "products" in variants:
            self.products(devices, op, seconds)
        if "cg" in variants:
            self.cg(devices, op, seconds)

    def products(self, devices: list[str], op: Any, setup_seconds: float) -> None:
        """Both kinds of vectors."""
        x, y = op.distribute(self.x), op.distribute()
        op.spmv(x, out=y)
        self.check("distributed", y.collect())

        def chain() -> None:
            nonlocal x, y
            for _ in range(CHAIN):
                op.spmv(x, out=y)
                x, y = y, x
            op.synchronize()

        self.add("distributed", devices, op, _times(chain, CHAIN), setup_seconds=round(setup_seconds, 2))
        out = np.empty(self.matrix.shape[0], self.matrix.dtype)
        self.check("numpy", op.spmv(self.x, out=out))
        self.add("numpy", devices, op, _times(lambda: op.spmv(self.x, out=out), 1))

    def cg(self, devices: list[str], op: Any, setup_seconds: float) -> None:
        """An iteration of conjugate gradients."""

        def solve(iterations: int) -> np.ndarray[Any, Any]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", linalg.SolverWarning)  # in float32 the residual drifts
                x, taken = linalg.cg(op, self.x, rtol=0.0, maxiter=iterations)
            if taken != iterations:
                raise SystemExit(f"cg ended as {op.solve_info.status} before {iterations} iterations")
            return np.asarray(x)

        x = solve(SHORT)
        if self.iterate is None:
            self.iterate = x
        wrong = np.linalg.norm(x - self.iterate) / np.linalg.norm(self.iterate)
        limit = np.finfo(self.matrix.dtype).eps ** 0.5
        if not wrong <= limit:
            raise SystemExit(f"cg over {devices}: off by {wrong:.3g} of the norm, more than {limit:.3g}")
        times = []
        for _ in range(ROUNDS):
            least, most = (timed(partial(solve, iterations))[0] for iterations in (SHORT, LONG))
            times.append(1e6 * (most - least) / (LONG - SHORT))
        pieces = op.solve_info.pieces
        self.add("cg", devices, op, times, setup_seconds=round(setup_seconds, 2), pieces=pieces)

    def check(self, variant: str, y: np.ndarray[Any, Any]) -> None:
        """Compare with NumPy in some rows, and with the first result in all."""
        if self.reference is None:
            rows = np.unique(np.linspace(0, len(y) - 1, 10_000).astype(int))
            expected = self.matrix[rows].astype(np.float64) @ self.x.astype(np.float64)
            wrong = np.abs(y[rows] - expected).max()
            self.reference = y
        else:
            wrong = np.abs(y - self.reference).max()
        limit = 40 * np.finfo(self.matrix.dtype).eps  # 27 products of at most 1/27 each, and their sums
        if not wrong <= limit:
            raise SystemExit(f"{variant}: off by {wrong:.3g}, more than {limit:.3g}")

    def add(self, variant: str, devices: list[str], op: Any, times: list[float], **more: Any) -> None:
        """A row of the results."""
        us = statistics.median(times)
        vectors = (self.matrix.shape[0] + self.matrix.shape[1]) * self.matrix.dtype.itemsize
        shares = [int(share[0].nnz) for share in op._spread.shards] if variant != "graph" else [op.nnz]
        record = self.records["cg" if variant == "cg" else "products"]
        record.add(
            **self.facts,
            variant=variant,
            devices=devices,
            time_us=round(us, 2),
            least_us=round(min(times), 2),
            samples=len(times),
            bytes=op.nbytes + vectors,
            format=op.format,
            nnz_per_device=shares,
            **more,
        )
        record.write()
        print(
            f"{self.facts['dtype']} {variant:12s} {'+'.join(devices):32s} {us:10.1f} us  {op.format}",
            flush=True,
        )


def _times(call: Call, products: int) -> list[float]:
    """Microseconds per product of several calls, each of so many."""
    call()
    return [us / products for us in wall_us(call, 0.0, least=ROUNDS)]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments multi", description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--rows", type=int, default=20_000_000, help="27 entries each")
    parser.add_argument("--dtype", default="f64,f32", help="comma-separated, of f64 and f32")
    parser.add_argument("--counts", default="1,2,4", help="numbers of GPUs, comma-separated")
    parser.add_argument("--format", default="auto", help="of every part")
    parser.add_argument("--variants", default=",".join(FILES), help="comma-separated, of products and cg")
    parser.add_argument("--budget-seconds", type=float, default=float("inf"), help="start nothing after that")
    options = parser.parse_args(arguments)
    variants = options.variants.split(",")
    if unknown := set(variants) - set(FILES):
        parser.error(f"--variants: {sorted(unknown)} are none of {', '.join(FILES)}")
    started = time.perf_counter()
    lists = device_lists([int(count) for count in options.counts.split(",")])
    facts = environment.describe("cpu" if lists[0] == ["cpu"] else "cuda:0", [])
    folder = options.out / environment.slug(facts)
    records = {variant: Recorder(folder / FILES[variant], facts) for variant in variants}
    for dtype in options.dtype.split(","):
        seconds, matrix = timed(partial(stencil, options.rows, DTYPES[dtype]))
        print(f"{dtype}: {matrix.nnz} entries in {seconds:.1f} s", flush=True)
        run = Run(matrix, f"stencil27_{options.rows}", dtype, records)
        if "products" in variants:
            run.one_gpu(lists[0][0], options.format)
        for devices in lists:
            measured = [variant for variant in variants if variant != "cg" or is_of_one_kind(devices)]
            if not measured:
                continue
            if time.perf_counter() - started > options.budget_seconds:
                for variant in measured:
                    records[variant].skip("out of time", dtype=dtype, devices=devices)
                continue
            run.over(devices, options.format, measured)
    for record in records.values():
        record.write()
    return 0
