"""Parts of a matrix on as many threads of the CPU, to see how well they are balanced."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import spmvgpu as sg
from experiments.clock import timed

Array = npt.NDArray[Any]

ROUNDS = 3


class ThreadParts:
    """A matrix whose rows are divided among threads, in CSR.

    The library itself does a matrix on the CPU with all threads, each of which gets as many non-zeros. Here
    the sets of rows say what a thread gets.

    Parameters
    ----------
    matrix : csr_array
    sets : sequence of arrays of int
        Rows of each thread.

    Attributes
    ----------
    nbytes : int
        Bytes of all parts.
    """

    def __init__(self, matrix: Any, sets: Sequence[Array]) -> None:
        self._sets = sets
        self._ops = [sg.aslinearoperator(matrix[rows], "csr", "cpu") for rows in sets]
        self._results = [np.empty(len(rows), matrix.dtype) for rows in sets]
        self._rows = matrix.shape[0]
        self.nbytes = sum(op.nbytes for op in self._ops)

    def multiply(self, x: Array) -> Array:
        """The product, put together from the parts."""
        self._run(x, 1)
        y = np.empty(self._rows, x.dtype)
        for rows, result in zip(self._sets, self._results, strict=True):
            y[rows] = result
        return y

    def time_us(self, x: Array, repeats: int) -> float:
        """Microseconds of a product, until the last thread is done: median of several series.

        The threads do not wait for each other between the products of a series, which takes as long as the
        thread that has most to do.
        """
        return 1e6 * float(np.median([self._run(x, repeats) / repeats for _ in range(ROUNDS)]))

    def _run(self, x: Array, repeats: int) -> float:
        """Seconds that all threads need for a number of products."""
        ready = threading.Barrier(len(self._ops) + 1)

        def work(op: sg.SparseOperator, result: Array) -> None:
            with sg.limit_threads(1):
                op.spmv(x, out=result)  # once, to warm up
                ready.wait()
                for _ in range(repeats):
                    op.spmv(x, out=result)

        threads = [
            threading.Thread(target=work, args=args, daemon=True)
            for args in zip(self._ops, self._results, strict=True)
        ]
        for thread in threads:
            thread.start()
        ready.wait()

        def join() -> None:
            for thread in threads:
                thread.join()

        return timed(join)[0]
