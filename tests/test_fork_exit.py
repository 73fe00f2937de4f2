"""Forks and the end of the interpreter while other threads are at work: nothing hangs, nothing aborts."""

import os

import pytest

import spmvgpu as sg
from support import run_python

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

# Threads that build, multiply, transpose; the children say, each within its alarm, whether all is `right`.
FORK = """
    import os, signal, threading, time, warnings
    import numpy as np
    import scipy.sparse as sp
    import spmvgpu as sg

    warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of threads
    A = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(60_000, 60_000)).tocsr()
    x = np.arange(60_000.0)
    expected = A @ x

    def build(**options):
        return sg.aslinearoperator(A, **({options} | options))

    def multiplies(*operators):
        return all(np.allclose(own @ x, expected) for own in operators)

    def refuses(call):
        try:
            call()
        except sg.CudaError:
            return True
        return False

    op = build()
    done = False

    def work():
        while not done:
            {work}

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(8):
        time.sleep(0.003)
        child = os.fork()
        if child == 0:
            signal.alarm(100)  # of wall-clock time, on a machine that may have much else to do
            os._exit(0 if {right} else 1)
        status = os.waitpid(child, 0)[1]
        if status != 0:
            break
    done = True
    for thread in threads:
        thread.join()
    assert status == 0, f"a child gave wrong results or hung until its alarm: {{status}}"
    assert multiplies(op)
"""

IN_A_CHILD = "multiplies(op, op.T, build())"
# CUDA does not work in a child of a process that uses it: what is on a GPU says so, what is on the CPU works.
WITHOUT_CUDA = "multiplies(build(device='cpu')) and refuses(lambda: op @ x) and refuses(build)"

OPERATORS = [
    *({"format": name, "device": "cpu"} for name in sg.formats()),
    {"format": "csr", "reorder": "rcm", "device": "cpu"},
    {"format": "csr", "device": ["cpu", "cpu"]},
    {"format": "partitioned", "separator": 20_000, "device": "cpu"},
]


@pytest.mark.parametrize("options", OPERATORS, ids=lambda o: "-".join(map(str, o.values())))
def test_fork_while_another_thread_multiplies(options):
    run_python(FORK.format(options=options, work="op @ x", right=IN_A_CHILD))


@pytest.mark.parametrize(
    "work",
    ["op.spmv(x); build().T", "sg.linalg.cg(op, x, maxiter=5)", "op.set_x(x); op @ x; op.set_x(None)"],
    ids=["transpose", "solve", "set_x"],
)
def test_fork_while_another_thread_does_other_work(work):
    run_python(FORK.format(options={"format": "csr_m", "device": "cpu"}, work=work, right=IN_A_CHILD))


def test_fork_while_another_thread_assigns_distributed_vectors():
    work = "v = op.distribute(x); op.spmv(v).collect()"
    run_python(FORK.format(options={"format": "csr", "device": ["cpu", "cpu"]}, work=work, right=IN_A_CHILD))


# Daemon threads, which the interpreter does not wait for. The children start without any, and end as it does.
EXIT = """
    import os, pickle, sys, threading, time, warnings
    import numpy as np
    import scipy.sparse as sp
    import spmvgpu as sg

    warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of threads, those of BLAS too
    for attempt in range(4):
        child = os.fork()
        if child == 0:
            break
        status = os.waitpid(child, 0)[1]
        assert status == 0, f"attempt {{attempt}} ended with {{status}}"
    else:
        sys.exit()

    A = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(20_000, 20_000)).tocsr()
    op = sg.aslinearoperator(A, format="csr", device={device!r})
    x = np.arange(20_000.0)

    def work():
        while True:
            {work}

    for _ in range(4):
        threading.Thread(target=work, daemon=True).start()
    time.sleep(0.05 + 0.01 * attempt)
"""


@pytest.mark.parametrize(
    "work",
    [
        "op @ x",
        "sg.aslinearoperator(A, format='csr', device='cpu')",
        "op.tocsr()",
        "sg.linalg.cg(op, x, maxiter=20)",
        "sg.linalg.cg(op, x, maxiter=20, callback=lambda _: None)",
        "sg.aslinearoperator(A + A.T, format='dia', device='cpu').T",
        "sg.aslinearoperator(A, format='csr', device=['cpu', 'cpu']).T @ x",
        "pickle.loads(pickle.dumps(op)).nbytes",
    ],
    ids=["multiply", "build", "tocsr", "solve", "callback", "transpose", "spread", "pickle"],
)
def test_exit_while_daemon_threads_work(work):
    run_python(EXIT.format(work=work, device="cpu"))


def test_exit_while_daemon_threads_multiply_over_several_devices():
    run_python(EXIT.format(work="op @ x", device=["cpu", "cpu"]))


@pytest.mark.gpu
@pytest.mark.parametrize(
    "work",
    [
        "op @ x",
        "sg.aslinearoperator(A, device={device!r})",
        "sg.linalg.cg(op, x, maxiter=20)",
        "sg.linalg.cg(op, x, maxiter=20, callback=lambda _: None)",
        "op.T @ x",
    ],
    ids=["multiply", "build", "solve", "callback", "transpose"],
)
def test_exit_while_daemon_threads_work_on_a_gpu(work, cuda_device):
    run_python(EXIT.format(work=work.format(device=cuda_device), device=cuda_device))


@pytest.mark.gpu
@pytest.mark.parametrize("work", ["op @ x", "sg.linalg.cg(op, x, maxiter=5)", "build()"])
def test_fork_while_another_thread_uses_a_gpu(work, cuda_device):
    for format in ("csr", "csr_m"):
        options = {"format": format, "device": cuda_device}
        run_python(FORK.format(options=options, work=work, right=WITHOUT_CUDA))
