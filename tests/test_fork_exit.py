"""Forks and the end of the interpreter while other threads are at work: nothing hangs, nothing aborts."""

import itertools
import os

import pytest

import spmvgpu as sg
from support import every_third, in_turn, nightly, run_python

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


@pytest.mark.parametrize(
    "options",
    [*every_third(OPERATORS[:-3], 2), *OPERATORS[-3:]],
    ids=lambda options: "-".join(map(str, options.values())),
)
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
    work = "v = op.vector(x); op.spmv(v).collect()"
    run_python(FORK.format(options={"format": "csr", "device": ["cpu", "cpu"]}, work=work, right=IN_A_CHILD))


# Forks in the middle of a call, by the thread that makes it. Some children do work of their own and end at
# once, the others go on with the call and end after it.
FORK_WITHIN = """
    import os, signal, sys, warnings
    import numpy as np
    import scipy.sparse as sp
    import scipy.sparse.linalg as sla
    import spmvgpu as sg
    import spmvgpu.linalg  # now, as a handler would find half of it

    warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of threads
    A = sp.diags_array([-1.0, 4.0, -1.0], offsets=[-1, 0, 1], shape=(30_000, 30_000)).tocsr()
    x = np.arange(30_000.0)
    expected, solution = A @ x, sla.spsolve(A.tocsc(), x)
    of_two = np.stack([expected, expected], axis=1)
    preconditioner = sla.LinearOperator(A.shape, matvec=lambda v: v / 4, dtype=float)
    forks, is_forking, is_child = 0, False, False

    def build():
        return sg.aslinearoperator(A, **{options})

    def is_right():
        y, info = sg.linalg.cg(op, x, rtol=1e-10, M=preconditioner)
        products = [own @ x for own in (op, op.T, build())]
        return info == 0 and np.allclose(y, solution) and all(np.allclose(y, expected) for y in products)

    def fork(*_):
        global forks, is_forking, is_child
        if is_forking:
            return
        is_forking = True  # and stays so in a child
        forks += 1
        child = os.fork()
        if child == 0:
            is_child = True
            signal.alarm(100)
            if forks % 2:
                os._exit(0 if is_right() else 1)
        status = os.waitpid(child, 0)[1] if child else 0
        if status != 0:
            print("a child gave wrong results or hung until its alarm:", status, file=sys.stderr, flush=True)
            os._exit(3)
        is_forking = is_child

    def set_alarm():
        # A fork after some time of the processor's, wherever that is.
        signal.signal(signal.SIGPROF, fork)
        if signal.getitimer(signal.ITIMER_PROF)[0] == 0 and not is_child:
            signal.setitimer(signal.ITIMER_PROF, 0.004 * (1 + forks % 5))

    class Ends:
        def __del__(self):
            fork()

    op = build()
    while forks < 8:
        {work}
        if is_child:
            os._exit(0 if is_right() else 1)
    signal.setitimer(signal.ITIMER_PROF, 0)
    assert is_right()
"""

PYTHONS = "sla.LinearOperator(A.shape, matvec=lambda v: ({call}, v / 4)[1], dtype=float)"
BY_CALL = {
    "callback": ("sg.linalg.cg(op, x, rtol=1e-10, callback=fork)[0]", "solution"),
    "preconditioner": (f"sg.linalg.cg(op, x, rtol=1e-10, M={PYTHONS.format(call='fork()')})[0]", "solution"),
    "destructor": (f"sg.linalg.cg(op, x, rtol=1e-10, M={PYTHONS.format(call='Ends()')})[0]", "solution"),
}
BY_SIGNAL = {
    "product": ("[op @ x for _ in range(40)]", "expected"),
    "columns": ("op @ np.stack([x, x], axis=1)", "of_two"),
    "construction": ("build() @ x", "expected"),
    "transpose": ("build().T @ x", "expected"),
    "update": ("(op.update_values(A.data), op.T @ x, op @ x)[1:]", "expected"),
    "tocsr": ("op.tocsr() @ x", "expected"),
    "solve": ("sg.linalg.gmres(op, x, rtol=1e-10, M=preconditioner)[0]", "solution"),
}


def within(name, options):
    """A program that forks in the middle of a call."""
    call, wanted = (BY_CALL | BY_SIGNAL)[name]
    before = "set_alarm()" if name in BY_SIGNAL else "pass"
    return FORK_WITHIN.format(options=options, work=f"{before}; y = {call}; assert np.allclose(y, {wanted})")


FORMATS = ["csr", "csr_m"]
IN_TURN = in_turn([*BY_CALL, *BY_SIGNAL], FORMATS)
OTHERS = set(itertools.product([*BY_CALL, *BY_SIGNAL], FORMATS)) - set(IN_TURN)


@pytest.mark.parametrize("case", [*IN_TURN, *nightly(sorted(OTHERS))], ids="-".join)
def test_fork_within_a_call(case):
    name, format = case
    run_python(within(name, {"format": format, "device": "cpu"}))


# Daemon threads, which the interpreter does not wait for. The children start without any, and end as it does.
# They import the package anew: what the first solve of a process needs is not there yet.
EXIT = """
    import os, pickle, sys, threading, time, warnings
    import numpy as np
    import scipy.sparse as sp
    import scipy.sparse.linalg as sla

    warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of threads, those of BLAS too
    for attempt in range({attempts}):
        child = os.fork()
        if child == 0:
            break
        status = os.waitpid(child, 0)[1]
        assert status == 0, f"attempt {{attempt}} ended with {{status}}"
    else:
        sys.exit()

    import spmvgpu as sg
    import spmvgpu.linalg

    A = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=({rows}, {rows})).tocsr()
    op = {op}
    x = np.arange({rows}.0)
    preconditioner = sla.LinearOperator(A.shape, matvec=lambda v: v / 2, dtype=float)

    def work():
        while True:
            {work}

    for _ in range(4):
        threading.Thread(target=work, daemon=True).start()
    time.sleep({delay} * attempt)
"""


def exiting(work, device="cpu", **more):
    """A program that ends while daemon threads do some work with an operator."""
    op = f"sg.aslinearoperator(A, format='csr', device={device!r})"
    given = {"attempts": 4, "rows": 20_000, "op": op, "work": work, "delay": "0.05 + 0.01"}
    return EXIT.format(**given | more)


WORK = {
    "multiply": "op @ x",
    "build": "sg.aslinearoperator(A, format='csr', device='cpu')",
    "tocsr": "op.tocsr()",
    "callback": "sg.linalg.cg(op, x, maxiter=20, callback=lambda _: None)",
    "solve": "sg.linalg.cg(op, x, maxiter=20)",
    "transpose": "sg.aslinearoperator(A + A.T, format='dia', device='cpu').T",
    "spread": "sg.aslinearoperator(A, format='csr', device=['cpu', 'cpu']).T @ x",
    "pickle": "pickle.loads(pickle.dumps(op)).nbytes",
    "preconditioner": "sg.linalg.gmres(op, x, rtol=0, maxiter=20, M=preconditioner)",
    "nested": ("sg.linalg.bicgstab(op, x, rtol=0, maxiter=20, M=preconditioner, callback=lambda _: op @ x)"),
    "update": "op.update_values(op.tocsr().data); op.T",
}


@pytest.mark.parametrize("name", every_third(WORK))
def test_exit_while_daemon_threads_work(name):
    run_python(exiting(WORK[name]))


def test_exit_in_the_first_solve():
    work = "sg.linalg.gmres(A, x, rtol=0, M=preconditioner)"
    run_python(exiting(work, attempts=12, rows=3600, op=None, delay=0.003))


def test_exit_while_daemon_threads_multiply_over_several_devices():
    run_python(exiting("op @ x", ["cpu", "cpu"]))


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
    run_python(exiting(work.format(device=cuda_device), cuda_device))


@pytest.mark.gpu
@pytest.mark.parametrize("work", ["op @ x", "sg.linalg.cg(op, x, maxiter=5)", "build()"])
def test_fork_while_another_thread_uses_a_gpu(work, cuda_device):
    for format in ("csr", "csr_m"):
        options = {"format": format, "device": cuda_device}
        run_python(FORK.format(options=options, work=work, right=WITHOUT_CUDA))
