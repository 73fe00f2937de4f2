"""The CPU backend with any number of threads: every split of the work gives the product."""

import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Event
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import from_lengths, uniform, vector
from internals import CPU, GPU, gpu_threads, threads_of_environment
from reference import assert_within, reference
from spmvgpu import gallery
from support import assert_same_entries, build, each_type, explained, formats_of, poisoned, run_python


def max_threads():
    """How many threads a product of the calling thread takes."""
    return sg.devices()[0].multiprocessors


CORES = max_threads()

# Large enough that every one of the threads gets a part
LARGE = {
    "even": lambda: uniform(20_000, 20_000, 8),
    "empty_ends": lambda: from_lengths(np.r_[np.zeros(30_000), np.full(5000, 15), np.zeros(30_000)], 5000),
    "one_dense_row": lambda: from_lengths(np.r_[np.ones(3000), 200_000, np.ones(3000)], 200_000),
    "two_dense_rows": lambda: from_lengths([100_000, 100_001], 150_000),
    "one_row": lambda: from_lengths([150_000], 150_000),
    "growing": lambda: from_lengths(np.arange(600), 600),
    "many_empty": lambda: from_lengths(np.arange(60_000) % 50 == 0, 1000),
}


@pytest.fixture(params=[1, 2, 3, 8])
def threads(request):
    with sg.limit_threads(request.param):
        yield request.param


@cache
def large(name):
    return sp.csr_array(LARGE[name]()).sorted_indices()


def held():
    """Every matrix with the formats that hold it, and sell, however much it pads."""
    formats = {name: {*formats_of(large(name)), "sell"} for name in LARGE}
    return [(name, fmt) for name in LARGE for fmt in sorted(formats[name])]


class Case(NamedTuple):
    """A matrix of one type, what it is multiplied with, and what `reference` gives."""

    A: sp.csr_array
    x: np.ndarray
    start: np.ndarray
    product: tuple[np.ndarray, np.ndarray]
    accumulated: tuple[np.ndarray, np.ndarray]

    @classmethod
    def of(cls, A):
        x, start = vector(A.shape[1], A.dtype), vector(A.shape[0], A.dtype, seed=40)
        return cls(A, x, start, reference(A, x), reference(A, x, -0.5, 2.0, start))


@cache
def case_of(name, dtype):
    return Case.of(large(name).astype(dtype))


@pytest.mark.parametrize(("name", "fmt"), held())
@pytest.mark.usefixtures("threads")
@each_type
def test_products(name, fmt, dtype):
    A, x, start, product, accumulated = case_of(name, dtype)
    op = build(A, fmt, max_padding=1e6) if fmt == "sell" else build(A, fmt)
    y = op.spmv(x, out=poisoned(A.shape[0], A.dtype))
    assert_within(y, *product)
    np.testing.assert_array_equal(op @ x, y)
    with sg.limit_threads(1):
        np.testing.assert_array_equal(op @ x, y)  # the same bits with any number of threads
    y = op.spmv(x, out=start.copy(), alpha=-0.5, beta=2.0)
    assert_within(y, *accumulated)
    assert_same_entries(op.tocsr(), A)


@pytest.mark.usefixtures("threads")
def test_same_bits_of_a_solution_with_any_number_of_threads(dtype):
    A, b = gallery.elasticity3d(16), gallery.elasticity3d_load(16)
    op = sg.aslinearoperator(A, device="cpu", format="csr", dtype=dtype)
    b = b.astype(dtype)
    with sg.limit_threads(1):
        alone, _ = sg.linalg.cg(op, b, rtol=0.0, maxiter=20)
    np.testing.assert_array_equal(sg.linalg.cg(op, b, rtol=0.0, maxiter=20)[0], alone)


def test_threads_of_other_threads_are_their_own():
    with ThreadPoolExecutor(1) as pool, sg.limit_threads(1):
        assert max_threads() == 1
        assert pool.submit(max_threads).result() == CORES


@pytest.mark.parametrize("ordinals", [(CPU,), (GPU, GPU + 1)])
def test_threads_that_wait_for_gpus_have_the_bound_of_their_own(ordinals):
    ended = Event()
    with sg.limit_threads(1), gpu_threads(*ordinals) as threads:
        assert threads.each(lambda k: (k, max_threads()), 5) == [(k, 1) for k in range(5)]
        assert threads.start(max, 3, 7)() == 7
        threads.start(ended.set)
        with pytest.raises(ZeroDivisionError):
            threads.each(lambda k: 1 / k, 2)
    assert ended.is_set()


NONSENSE = ["many", "0", "-1", "1.5", "1e3", "4x", "nan", "4,2", "x" * 200]


@pytest.mark.parametrize("name", ["SPMVGPU_NUM_THREADS", "OMP_NUM_THREADS"])
def test_environment(name, monkeypatch):
    """Ours is a number or an error; that of others may be a list, whose first is taken, or nonsense."""
    good = {"5": 5, " 5 ": 5, "+5": 5, "": None, " ": None, "9" * 30: 2**31 - 1}
    monkeypatch.setenv("SPMVGPU_NUM_THREADS", "")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    is_ours = name.startswith("SPMVGPU")
    for text in [*good, *NONSENSE]:
        monkeypatch.setenv(name, text)
        if text in NONSENSE and is_ours:
            with pytest.raises(ValueError, match="a whole number of threads from 1 on") as refused:
                threads_of_environment()
            assert f"{name}='{text[:40]}" in str(refused.value)
            assert len(str(refused.value)) < 200
            continue
        expected = {**good, "4,2": 4}.get(text)
        assert threads_of_environment() == (3 if expected is None and is_ours else expected)


def test_a_limit_acts_at_once_and_stays_until_it_is_lifted():
    limit = sg.limit_threads(1)
    assert max_threads() == 1
    limit.restore()
    assert max_threads() == CORES
    limit.restore()  # once more is nothing
    with sg.limit_threads(2):
        sg.limit_threads(1)
        assert max_threads() == 1
    assert max_threads() == CORES


@pytest.mark.parametrize(("threads", "most"), [(1, 1), (np.int8(1), 1), (np.uint64(1), 1), (10**30, CORES)])
def test_a_limit_for_a_block(threads, most):
    with sg.limit_threads(threads):
        assert max_threads() == most
    assert max_threads() == CORES


def test_a_block_that_began_before_its_limit():
    """As with threadpoolctl: a limit that is kept in a variable acts at once, and ends with the block."""
    code = """
    import spmvgpu as sg

    def max_threads():
        return sg.devices()[0].multiprocessors

    limit = sg.limit_threads(2)
    assert max_threads() == 2
    with limit:
        assert max_threads() == 2
    assert max_threads() == 4
    try:
        with sg.limit_threads(1):
            raise KeyError
    except KeyError:
        pass
    assert max_threads() == 4
    """
    run_python(code, SPMVGPU_NUM_THREADS="4")


def test_a_limit_stays_when_what_it_returned_is_dropped():
    def count():
        sg.limit_threads(1)
        return max_threads()

    with ThreadPoolExecutor(1) as pool:  # whose thread keeps it
        assert [pool.submit(count).result(), pool.submit(max_threads).result()] == [1, 1]
    assert max_threads() == CORES


@pytest.mark.parametrize("variable", ["SPMVGPU_NUM_THREADS", "OMP_NUM_THREADS"])
def test_environment_is_what_products_take(variable):
    unset = dict.fromkeys(("SPMVGPU_NUM_THREADS", "OMP_NUM_THREADS"))
    code = "import spmvgpu as sg; print(sg.devices()[0].multiprocessors)"
    done = run_python(code, **(unset | {variable: "3"}))
    assert done.stdout.strip() == "3"


def test_product_with_nonsense_in_the_environment():
    code = "import spmvgpu as sg; sg.aslinearoperator([[1.0]], device='cpu') @ [1.0]"
    done = run_python(code, check=False, SPMVGPU_NUM_THREADS="many")
    assert "ValueError: SPMVGPU_NUM_THREADS='many'" in done.stderr


def test_import_leaves_the_environment_alone():
    code = "import os; before = dict(os.environ); import spmvgpu; assert dict(os.environ) == before"
    subprocess.run([sys.executable, "-c", code], check=True)


# An operator with a bound of its own

OPERATORS = {
    "csr": {"format": "csr", "device": "cpu"},
    "sell": {"format": "sell", "device": "cpu"},
    "reordered": {"format": "csr", "reorder": "rcm", "device": "cpu"},
    "partitioned": {"format": "partitioned", "separator": 5000, "device": "cpu"},
    "several devices": {"format": "csr", "device": ["cpu", "cpu"]},
}
DERIVED = {
    "itself": lambda op: op,
    "T": lambda op: op.T,
    "T.T": lambda op: op.T.T,
    "H": lambda op: op.H,
    "astype": lambda op: op.astype(np.float32),
    "copy": lambda op: op.copy(),
    "to the CPU": lambda op: op.to("cpu"),
    "to several": lambda op: op.to(["cpu", "cpu"]),
    "pickle": lambda op: pickle.loads(pickle.dumps(op)),
    "2 * op": lambda op: 2 * op,
    "rows": lambda op: op[:10_000],
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("derive", DERIVED)
def test_operators_keep_their_bound(name, derive):
    A = large("even")
    bounded = DERIVED[derive](sg.aslinearoperator(A, max_threads=3, **OPERATORS[name]))
    free = DERIVED[derive](sg.aslinearoperator(A, **OPERATORS[name]))
    assert (bounded.max_threads, bounded._matrix.max_threads) == (3, 3)
    assert "at most 3 threads" in explained(bounded)
    assert free.max_threads is None
    assert "at most" not in explained(free)
    x, X = vector(A.shape[1], free.dtype), np.ones((A.shape[1], 8), free.dtype)
    np.testing.assert_array_equal(bounded @ x, free @ x)
    np.testing.assert_array_equal(bounded @ X, free @ X)


def test_a_bound_changes_no_format_and_is_of_the_cpu_alone():
    op = sg.aslinearoperator(large("even"), device="cpu", max_threads=np.int64(2))
    assert type(op.max_threads) is int
    assert op.format == sg.aslinearoperator(large("even"), device="cpu").format
    again = sg.aslinearoperator(op, device="cpu", max_threads=1)
    assert (op.max_threads, again.max_threads) == (2, 1)
    assert sg.aslinearoperator(op).max_threads == 2  # the operator itself
    assert max_threads() == CORES


# What the system counts, and not the library: how many threads a process has.
STARTED = """
    import os, pickle
    import numpy as np
    import scipy.sparse as sp
    import scipy.sparse.linalg  # has threads of its own
    import spmvgpu as sg

    def count():
        return len(os.listdir("/proc/self/task"))

    A = sp.diags_array([np.ones(200_000)] * 9, offsets=[*range(9)], shape=(200_000, 200_000)).tocsr()
    A.indices[:9] = A.indices[:9][::-1].copy()  # to be sorted
    sg.aslinearoperator(np.eye(3), device={device!r}) @ np.ones(3)  # imports NumPy's own
    before = count()
    op = sg.aslinearoperator(A, device={device!r}, max_threads=1)
    for made in (op, op.T, op.copy(), op.astype(np.float32), pickle.loads(pickle.dumps(op)), op[1:]):
        x = np.ones(made.shape[1], made.dtype)
        made @ x
        made @ np.ones((len(x), 8), made.dtype)
        made.spmv(x)
        made.time_products(3)
    if op.device == "cpu":  # which solvers and most preconditioners need
        sg.linalg.cg(op, np.ones(op.shape[0]), maxiter=3)
        grid = sg.aslinearoperator(sg.gallery.poisson2d(250), device="cpu", max_threads=1)
        for name in ("amg", "block_jacobi", "chebyshev", "ic0", "ilu0", "jacobi"):
            M = getattr(sg.linalg, name)(grid)
            M.update_values(2 * grid.tocsr())
            sg.linalg.cg(grid, np.ones(grid.shape[0]), M=M, maxiter=3)
        grid.update_values(2 * grid.tocsr())
        sg.linalg.solve(grid, np.ones(grid.shape[0]))
    bounded = count()
    sg.aslinearoperator(A, device={device!r}) @ np.ones(A.shape[1])
    print(bounded - before, count() > before)
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="the system does not list threads")
@pytest.mark.parametrize("device", ["cpu", ["cpu", "cpu"]], ids=["one", "two"])
def test_a_bound_of_one_thread_starts_no_other(device):
    done = run_python(STARTED.format(device=device), SPMVGPU_NUM_THREADS="4")
    assert done.stdout.split() == ["0", "True"]


@pytest.mark.parametrize("several", [False, True])
def test_a_gpu_has_no_use_for_a_bound(crossings, several):
    refused = pytest.raises(ValueError, match=r"max_threads=2 is for the CPU.*'?cuda:0")
    with crossings.pretended_gpu() as gpu, refused:
        sg.aslinearoperator(np.eye(3), device=[gpu] if several else gpu, max_threads=2)


def test_a_format_may_have_an_option_called_threads():
    A = sp.csr_array(sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(300, 300)))
    op = sg.aslinearoperator(A, format="tsmv", device="cpu", threads=128, max_threads=2)
    assert (op.options["threads"], op.max_threads) == (128, 2)
