"""Measure products over several GPUs and the CPU: ``python -m experiments multi``.

The matrix has the pattern of a 27-point stencil. Vectors stay on the devices ("distributed"), or are NumPy
arrays that cross the bus in every product ("numpy"); "graph" is the device time of one GPU by itself, from
replayed graphs. Every result is compared with that of one GPU, and that one in some rows with NumPy.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import time
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

ROWS_PER_TASK = 250_000
CHAIN = 20  # distributed products between two waits of the host
ROUNDS = 7


def stencil(rows: int, dtype: Any, threads: int | None = None) -> sp.csr_array:
    """27 entries a row, at the distances they have in a cubic grid; every row sum is below 1.

    Rows near either end have the columns of the first one that does not reach beyond it, so that all rows
    have equally many, and threads can write them side by side.
    """
    side = round(rows ** (1 / 3))
    steps = np.array(list(itertools.product((-1, 0, 1), repeat=3))) @ [side * side, side, 1]
    reach, count = int(steps[-1]), len(steps)
    if rows <= 2 * reach:
        raise ValueError(f"a stencil on {rows} rows would overlap itself; give more rows")
    indices = np.empty((rows, count), np.int32)
    data = np.empty((rows, count), dtype)
    offsets = (steps + reach).astype(np.int32)
    weights = (np.linspace(0.5, 1.0, count) / count).astype(dtype)

    def fill(first: int) -> None:
        own = np.arange(first, min(rows, first + ROWS_PER_TASK), dtype=np.int32)
        base = np.clip(own - reach, 0, rows - 1 - 2 * reach)
        np.add(base[:, None], offsets, out=indices[own[0] : own[-1] + 1])
        factors = (0.5 + 0.5 * (own % 97) / 97).astype(dtype)
        np.multiply(factors[:, None], weights, out=data[own[0] : own[-1] + 1])

    with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        list(pool.map(fill, range(0, rows, ROWS_PER_TASK)))
    row_offsets = np.arange(0, rows * count + 1, count, dtype=np.int32)
    return sp.csr_array((data.ravel(), indices.ravel(), row_offsets), shape=(rows, rows))


def device_lists(counts: Sequence[int]) -> list[list[str]]:
    """So many GPUs, and the most of them with the CPU; the CPU once and twice where there is no GPU."""
    gpus = [info.name for info in sg.devices() if info.name != "cpu"]
    if not gpus:
        return [["cpu"], ["cpu", "cpu"]]
    lists = [gpus[:count] for count in counts if count <= len(gpus)]
    return [*lists, [gpus[0], "cpu"], *([[*lists[-1], "cpu"]] if len(lists[-1]) > 1 else [])]


class Run:
    """One matrix in one precision, over one list of devices after the other."""

    def __init__(self, matrix: sp.csr_array, name: str, dtype: str, record: Recorder) -> None:
        self.matrix, self.record = matrix, record
        self.facts = {
            "matrix": name, "rows": matrix.shape[0], "cols": matrix.shape[1], "nnz": int(matrix.nnz),
            "dtype": dtype, "library": "spmvgpu", "cache": "hot",
        }  # fmt: skip
        self.x = np.linspace(-1, 1, matrix.shape[1]).astype(matrix.dtype)
        self.reference: np.ndarray[Any, Any] | None = None

    def one_gpu(self, device: str, format: str) -> None:
        """Device time of an ordinary operator."""
        op = sg.aslinearoperator(self.matrix, device=device, format=format)
        self.check("graph", op @ self.x)
        times = [op.time_products(20) for _ in range(3)]
        self.add("graph", [device], op, times)

    def over(self, devices: list[str], format: str) -> None:
        """Both kinds of vectors over a list of devices."""
        seconds, op = timed(lambda: sg.aslinearoperator(self.matrix, device=devices, format=format))
        x, y = op.distribute(self.x), op.distribute()
        op.spmv(x, out=y)
        self.check("distributed", y.collect())

        def chain() -> None:
            nonlocal x, y
            for _ in range(CHAIN):
                op.spmv(x, out=y)
                x, y = y, x
            op.synchronize()

        self.add("distributed", devices, op, _times(chain, CHAIN), setup_seconds=round(seconds, 2))
        out = np.empty(self.matrix.shape[0], self.matrix.dtype)
        self.check("numpy", op.spmv(self.x, out=out))
        self.add("numpy", devices, op, _times(lambda: op.spmv(self.x, out=out), 1))

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
        self.record.add(
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
        self.record.write()
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
    parser.add_argument("--budget-seconds", type=float, default=float("inf"), help="start nothing after that")
    options = parser.parse_args(arguments)
    started = time.perf_counter()
    lists = device_lists([int(count) for count in options.counts.split(",")])
    facts = environment.describe("cpu" if lists[0] == ["cpu"] else "cuda:0", [])
    record = Recorder(options.out / environment.slug(facts) / "multi.json", facts)
    for dtype in options.dtype.split(","):
        seconds, matrix = timed(partial(stencil, options.rows, DTYPES[dtype]))
        print(f"{dtype}: {matrix.nnz} entries in {seconds:.1f} s", flush=True)
        run = Run(matrix, f"stencil27_{options.rows}", dtype, record)
        run.one_gpu(lists[0][0], options.format)
        for devices in lists:
            if time.perf_counter() - started > options.budget_seconds:
                record.skip("out of time", dtype=dtype, devices=devices)
                continue
            run.over(devices, options.format)
    record.write()
    return 0
