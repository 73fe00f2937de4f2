"""The tests in `distributed`, which every rank runs, under mpiexec with one to four ranks."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pytest

from mpiexec import TESTS, need_ranks, run_ranks
from support import nightly

FILES = sorted((TESTS / "distributed").glob("check_*.py"))
HOSTS = (2, 1)  # the ranks of each


@pytest.mark.first
@pytest.mark.parametrize("ranks", [3, *nightly([1, 2, 4, HOSTS])])
def test_on_ranks(ranks):
    need_ranks(ranks)
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly"]
    done = run_ranks(ranks, "-m", "pytest", *options, *FILES, SPMVGPU_DEVICE="cpu")
    report = f"{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, report
    passed = re.findall(r"(\d+) passed", done.stdout)
    assert len(passed) == np.sum(ranks), report
    assert len(set(passed)) == 1, report


def test_solve_prints_once():
    need_ranks()
    arguments = ["--problem", "poisson3d", "--size", 9, "--device", "cpu"]
    done = run_ranks(3, "-m", "spmvgpu", "solve", *arguments)
    assert done.returncode == 0, done.stderr
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert len(names) == len(set(names)), done.stdout
    assert re.search(r"^ranks +3 of ", done.stdout, re.MULTILINE)
    assert re.search(r"^converged +yes, to rtol 1e-08$", done.stdout, re.MULTILINE)


def test_launcher_of_another_mpi():
    need_ranks()
    variables = {**os.environ, "SLURM_STEP_NUM_TASKS": "4"}
    command = [sys.executable, "-m", "spmvgpu", "solve", "--size", "4"]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 2
    assert "4 processes were started together" in done.stderr
    assert "the launcher belongs to another MPI" in done.stderr


SOLVE = """
import os, signal, time
import numpy as np
import spmvgpu as sg
from mpi4py import MPI

comm = MPI.COMM_WORLD
op = sg.distributed.scatter(sg.gallery.poisson2d(30) if comm.rank == 0 else None, comm, device="cpu")
b = np.ones(op.local_shape[0])
last, looks = comm.rank == comm.size - 1, []


def look(_):
    looks.append(0)
    if len(looks) == 3 and last:
        {event}


expected, _ = sg.linalg.cg(op, b, callback=lambda _: None)
x, info = sg.linalg.cg(op, b, callback=look)
assert info == 0
np.testing.assert_array_equal(x, expected)
print("solved")
"""


@pytest.mark.parametrize("ranks", [3, HOSTS])
@pytest.mark.parametrize(
    "event", ["os.kill(os.getpid(), signal.SIGKILL)", *nightly(["raise OSError('no more')"])]
)
def test_a_rank_that_ends_ends_all(event, ranks):
    need_ranks(ranks)
    done = run_ranks(ranks, "-m", "mpi4py", "-c", SOLVE.format(event=event), timeout=60)
    assert done.returncode != 0
    assert "solved" not in done.stdout


@pytest.mark.parametrize("ranks", [3, *nightly([HOSTS])])
def test_the_others_wait_for_a_slow_rank(ranks):
    need_ranks(ranks)
    done = run_ranks(ranks, "-c", SOLVE.format(event="time.sleep(1)"), timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("solved") == 3


AS_ALONE = """
import platform
import numpy as np
import spmvgpu as sg
from mpi4py import MPI

comm, A = MPI.COMM_WORLD, sg.gallery.poisson3d(16)
alone, b = sg.aslinearoperator(A, device="cpu"), np.random.default_rng(0).standard_normal(4096)
for offsets in ([0, 1400, 2700, 4096], [0, 1000, 4096, 4096]):
    rows = sg.distributed.Ranges(comm, offsets)
    local = slice(rows.begin, rows.end)
    op = sg.distributed.aslinearoperator(A[local], comm, row_ranges=rows, device="cpu")
    for call, rtol in [
        (lambda A, b: A @ b, 1e-14),
        (lambda A, b: sg.linalg.cg(A, b, M="amg", rtol=1e-12)[0], 1e-10),
        (lambda A, b: sg.linalg.solve(A, b, rtol=1e-12), 1e-10),
    ]:
        found, expected = rows.gather(call(op, b[local]), root=None), call(alone, b)
        np.testing.assert_allclose(found, expected, rtol=0, atol=rtol * np.abs(expected).max())
print(platform.node(), comm.Split_type(MPI.COMM_TYPE_SHARED).size, "the same")
"""


def test_hosts_compute_what_one_process_does():
    """Ranks of different hosts share no memory; those of the last have no rows the second time."""
    need_ranks(HOSTS)
    done = run_ranks(HOSTS, "-m", "mpi4py", "-c", AS_ALONE, timeout=100)
    assert done.returncode == 0, done.stderr
    lines = sorted(done.stdout.splitlines())
    assert lines == ["host1 2 the same", "host1 2 the same", "host2 1 the same"], done.stdout


GPUS_OF_RANKS = """
import re, sys
import spmvgpu as sg
from mpi4py import MPI

sys.path.insert(0, {tools!r})
from crossings import pretended_gpu

comm, A = MPI.COMM_WORLD, sg.gallery.poisson2d(9)
for visible in (4, 1):
    with pretended_gpu(visible):
        op = sg.distributed.scatter(A, comm, format="csr", device="cuda", transport="mpi")
        text = op.explain()
    if comm.rank == 0:
        print(re.findall(r"cuda:.", text))
"""


def test_ranks_of_a_host_take_its_gpus_in_turn():
    """A launcher may let a rank see all GPUs of its host, or only one of its own, which is then cuda:0."""
    need_ranks(HOSTS)
    program = GPUS_OF_RANKS.format(tools=str(TESTS.parent / "tools"))
    done = run_ranks(HOSTS, "-m", "mpi4py", "-c", program, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["['cuda:0', 'cuda:1', 'cuda:0']", "['cuda:0', 'cuda:0', 'cuda:0']"]
