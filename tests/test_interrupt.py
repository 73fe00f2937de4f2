"""Ctrl-C ends a long call, wherever it is; so does whatever else a signal handler raises."""

import pickle
import signal
import threading
import time

import numpy as np
import pytest
import scipy.sparse.linalg as spla

import spmvgpu as sg
from interrupts import Interrupted, at_each_step, ends_in_another_thread, interrupt
from spmvgpu import _core, gallery
from spmvgpu._util import steps
from spmvgpu.devices import at_most
from support import nightly, run_python

pytestmark = pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs pthread_kill")

# Signals come all the time. After a call that looks for none, or looks only once it is done, the handler runs
# once, as those that came meanwhile count as one; in the middle of a call that does look it runs again and
# again. A call that is too short for that is repeated with a larger matrix, until it is long enough. Where
# other processes take turns the next one may still see too few of them, and is repeated.
COUNT = """
    import signal, threading, time
    import numpy as np
    import scipy.sparse as sp
    import spmvgpu as sg
    from spmvgpu import _core
    from spmvgpu.inputs.canonical import canonical_csr

    class Ended(Exception):
        pass

    def handler(*_):
        global seen, raised
        seen += 1
        if seen == stop_after:
            raised = True
            raise Ended

    def send():
        while not done:
            time.sleep(0.01)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    def scattered(rows, per_row=8):
        indices = np.random.default_rng(0).integers(0, rows, rows * per_row, dtype=np.int32)
        offsets = np.arange(0, indices.size + 1, per_row, dtype=np.int32)
        return canonical_csr((np.ones(indices.size), indices, offsets), shape=(rows, rows))

    def build(A, name, **options):
        return A.build(name, options, -1)

    done, seen, stop_after, raised = False, 0, -1, False
    signal.signal(signal.SIGUSR1, handler)
    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    with sg.limit_threads(1):
        for rows in (50_000, 200_000, 800_000, 3_200_000, 12_800_000):
            {setup}
            for _ in range(2):  # the first call takes memory that the system has to find
                seen = 0
                {call}
            if seen > 5:
                break
        else:
            raise AssertionError("no signal was handled in the middle of the call")
        for _ in range(100):
            try:
                seen, stop_after = 0, 2
                {call}
                stop_after = -1
            except Ended:
                break
            assert not raised, "what the handler raised was lost"
        else:
            raise AssertionError("no call was interrupted")
    stop_after, done = -1, True
    sender.join()
    assert np.array_equal(sg.aslinearoperator(np.eye(3), device="cpu") @ np.ones(3), np.ones(3))
"""

BANDED = "A = canonical_csr(sp.diags_array([np.ones(rows)] * 9, offsets=[*range(9)], shape=(rows, rows)))"
CALLS = {
    "dia with much padding": (
        "n = min(rows // 40, 30_000); at = np.random.default_rng(0).permutation(rows)[:n].astype(np.int32);"
        "A = canonical_csr((np.ones(n), at, np.arange(n + 1)), shape=(n, rows))",
        "build(A, 'dia', max_padding=1e6)",
    ),
    "transpose": ("A = scattered(rows)", "A.source.transposed()"),
    "columns": ("op = build(scattered(rows), 'csr'); X = np.ones((rows, 16))", "op.multiply_columns(X)"),
    "columns one by one": (
        "op = build(scattered(rows), 'sell'); X = np.ones((rows, 16))",
        "op.multiply_columns(X)",
    ),
    "time_products": ("op = build(scattered(rows), 'csr')", "op.time_products(1000)"),
    "tsmv": ("A = scattered(rows); A = canonical_csr(A.host + A.host.T)", "build(A, 'tsmv', max_memory=4.0)"),
    "tocsr of dia": (f"{BANDED}; op = build(A, 'dia')", "op.to_csr()"),
    "tocsr of hyb": ("op = build(scattered(rows), 'hyb')", "op.to_csr()"),
}


# Their matrices grow until a signal comes in the middle, which takes millions of rows.
SLOW = ["dia with much padding", "tocsr of dia", "tocsr of hyb"]


@pytest.mark.parametrize("name", [*(name for name in CALLS if name not in SLOW), *nightly(SLOW)])
def test_signals_are_handled_in_the_middle_of_a_call(name):
    setup, call = CALLS[name]
    run_python(COUNT.format(setup=setup, call=call))


# A handler that uses what the interrupted call uses: it may be refused, but must not wait for its own thread.
HANDLER = """
    import signal, time
    import numpy as np
    import scipy.sparse as sp
    import spmvgpu as sg

    n = 300_000
    A = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n)).tocsr()
    op = sg.aslinearoperator(A, **{options})
    x = np.arange(float(n))
    expected = A @ x
    X = np.repeat(x[:, None], 16, axis=1)
    ran, refused = 0, []

    def handler(*_):
        global ran
        ran += 1
        try:
            assert np.allclose(op @ x, expected)
            assert np.allclose(op.T @ x, expected)
            assert op.nbytes > 0
        except RuntimeError as error:
            refused.append(str(error))

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.06, 0.3)
    while ran < 4:
        op @ X
        assert np.allclose(op.copy().T @ x, expected)
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert all("signal handler" in message for message in refused), refused
    assert np.allclose(op @ x, expected)
"""


@pytest.mark.parametrize(
    "options",
    [
        *({"format": name, "device": "cpu"} for name in ("csr", "csr_m", "tsmv") if name in sg.formats()),
        {"format": "csr", "reorder": "rcm", "device": "cpu"},
        {"format": "csr", "device": ["cpu", "cpu"]},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_a_signal_handler_multiplies_with_the_operator_that_is_at_work(options):
    run_python(HANDLER.format(options=options))


# A solve that would take hours. It is interrupted in a process of its own: only a main thread may set a
# handler, and a test need not run in one.
SOLVE = """
    import signal
    import numpy as np
    import spmvgpu as sg
    from spmvgpu import gallery

    def interrupt(*_):
        raise KeyboardInterrupt

    op = sg.aslinearoperator(gallery.poisson3d(60), device="cpu")
    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        sg.linalg.cg(op, np.ones(op.shape[0]), rtol=0.0, atol=0.0, maxiter=10**9)
    except KeyboardInterrupt:
        print("interrupted")
    assert sg.linalg.cg(op, np.ones(op.shape[0]))[1] == 0
"""


def test_ctrl_c_ends_a_long_solve():
    assert run_python(SOLVE).stdout.strip() == "interrupted"


# An interrupt at every step of the package's own code, and what it leaves behind


@pytest.fixture
def operator(device):
    A = gallery.poisson2d(4).tocsr()
    A.data = np.arange(1.0, A.nnz + 1)
    return sg.aslinearoperator(A, device=device, format="csr", max_threads=1 if device == "cpu" else None)


def anew(op):
    """Another operator of the matrix, of which nothing is made yet."""
    return sg.aslinearoperator(op.tocsr(), device=op.device, format="csr")


def limited(op):
    with sg.limit_threads(1):
        return op @ np.ones(16)


def ignoring(op):
    with sg.cache.ignored():
        return anew(op)


# With how many steps each is interrupted; all of the longer ones would take minutes.
CALLS_OF_OPERATORS = {
    "T": (lambda op: op.T, 1),
    "T of a new one": (lambda op: anew(op).T, 31),
    "tocsr": (lambda op: op.tocsr(), 1),
    "product": (lambda op: op @ np.ones(16), 1),
    "astype": (lambda op: op.astype(np.float32), 7),
    "slice": (lambda op: op[2:9], 13),
    "pickle": (lambda op: pickle.loads(pickle.dumps(op)), 7),
    "limit_threads": (limited, 1),
    "ignored": (ignoring, 31),
    "several devices": (lambda op: op.to([op.device] * 2).T, 101),
    "solve": (lambda op: sg.linalg.bicgstab(op, np.ones(16), maxiter=1), 17),
}


# What is raised in a generator that is thrown away is told of, and nothing more.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", CALLS_OF_OPERATORS)
def test_an_interrupt_leaves_nothing_taken(operator, name):
    call, stride = CALLS_OF_OPERATORS[name]
    before, expected = limit_of_threads(), operator.tocsr()
    for place in at_each_step(lambda: call(operator), stride=stride):
        assert limit_of_threads() == before, place
        assert not sg.cache.is_ignored(), place
        assert steps.current() is None, place
        assert ends_in_another_thread(lambda: operator.T), place
        if name == "T":
            operator._stored.variants.clear()
    np.testing.assert_array_equal(operator.toarray(), expected.toarray())
    np.testing.assert_array_equal(operator.T.toarray(), expected.toarray().T)


def limit_of_threads():
    limit = _core.set_thread_limit(1)
    _core.set_thread_limit(limit)
    return limit


@pytest.mark.parametrize(
    "manager", [lambda: sg.limit_threads(1), lambda: at_most(1), sg.cache.ignored, steps.Recording]
)
def test_an_interrupt_of_a_with_statement_leaves_nothing_taken(manager):
    def use():
        with manager():
            pass

    before, many = limit_of_threads(), 0
    for place in at_each_step(use, place=__file__):
        assert limit_of_threads() == before, place
        assert not sg.cache.is_ignored(), place
        assert steps.current() is None, place
        many += 1
    assert many > 5


def test_an_interrupt_of_set_x_declares_no_array_that_is_gone(device):
    A = gallery.poisson2d(40)
    op = sg.aslinearoperator(A, device=device, format="csr_m")
    for place in at_each_step(lambda: op.set_x(np.full(1600, 2.0))):
        for value in (3.0, 4.0):  # in memory that the array may have had
            x = np.full(1600, value)
            np.testing.assert_allclose(op @ x, A @ x, err_msg=place)


# Signals that come at any moment, in programs of their own
ANY_MOMENT = """
    import random, signal, threading
    import numpy as np
    import spmvgpu as sg
    from spmvgpu import _core
    from spmvgpu._util import steps

    signal.signal(signal.SIGALRM, signal.default_int_handler)
    op = sg.aslinearoperator(sg.gallery.poisson2d(10), device="cpu")
    limit, stayed = _core.set_thread_limit(3), 0
    _core.set_thread_limit(limit)
    for _ in range(1500):
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(5e-6, 2e-4))
            while True:
                {work}
        except KeyboardInterrupt:
            stayed += _core.set_thread_limit(limit) != limit
            stayed += sg.cache.is_ignored()
        stayed += steps.current() is not None
    assert not stayed, stayed
    thread = threading.Thread(target=lambda: op.T, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "the lock of the operator stayed taken"
"""


@pytest.mark.parametrize(
    "work",
    [
        "op.T; op.tocsr()",
        "with sg.limit_threads(1): op.tocsr()",
        "with sg.cache.ignored(): pass",
        "sg.aslinearoperator(op.tocsr(), device='cpu')",
    ],
)
def test_signals_at_any_moment_leave_nothing_taken(work):
    run_python(ANY_MOMENT.format(work=work))


# Handlers that use the operator that is at work, at every step


USES = {
    "product": (lambda op: op @ np.ones(16), 1),
    "T": (lambda op: anew(op).T, 31),
    "new one": (lambda op: sg.aslinearoperator(op.tocsr(), device=op.device), 31),
    "update": (lambda op: op.update_values(op.tocsr().data), 7),
}


@pytest.mark.parametrize("name", USES)
def test_a_handler_at_any_step_uses_the_operator(operator, name):
    call, stride = USES[name]
    x, seen = np.arange(16.0), []

    def use():
        seen.append((operator @ x, operator.T @ x, operator.toarray()))

    A = operator.toarray()
    for place in at_each_step(lambda: call(operator), use, stride=stride):
        product, transposed, array = seen.pop()
        np.testing.assert_array_equal(array, A, err_msg=place)
        np.testing.assert_allclose(product, A @ x, err_msg=place)
        np.testing.assert_allclose(transposed, A.T @ x, err_msg=place)


# The lock


def test_the_lock_keeps_other_threads_out_and_not_its_own():
    lock, order = threading.RLock(), []

    def other():
        with _core.Hold(lock):
            order.append("other")

    with _core.Hold(lock):
        with _core.Hold(lock):
            pass
        thread = threading.Thread(target=other)
        thread.start()
        time.sleep(0.05)
        order.append("own")
    thread.join()
    assert order == ["own", "other"]


def test_a_lock_goes_with_what_has_it():
    lock = threading.RLock()
    hold = _core.Hold(lock)
    hold.__enter__()
    assert not ends_in_another_thread(lambda: _core.Hold(lock).__enter__(), 0.05)
    del hold
    assert ends_in_another_thread(lambda: _core.Hold(lock).__enter__())


WAITING = """
    import signal, threading
    from spmvgpu import _core

    lock, taken, end = threading.RLock(), threading.Event(), threading.Event()

    def other():
        with _core.Hold(lock):
            taken.set()
            end.wait()

    thread = threading.Thread(target=other)
    thread.start()
    taken.wait()
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with _core.Hold(lock):
            raise AssertionError
    except KeyboardInterrupt:
        end.set()
    with _core.Hold(lock):
        thread.join()
"""


def test_ctrl_c_ends_the_wait_for_a_lock():
    run_python(WAITING)


@pytest.mark.parametrize("name", ["solve", "spsolve", "splu", "update_values"])
def test_a_signal_ends_a_call_that_makes_factors(name, monkeypatch):
    """SuperLU looks for no signals, so that it goes on in a thread that is left behind.

    Only a matrix whose factors would take long if they were full has one.
    """
    A, b = gallery.poisson1d(800), np.ones(800)
    factors = sg.linalg.splu(A, device="cpu")
    begun, may_end = threading.Event(), threading.Event()

    def factorize(A, **options):
        begun.set()
        may_end.wait()

    def send():
        begun.wait()
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    calls = {
        "solve": lambda: sg.linalg.solve(A, b),
        "spsolve": lambda: sg.linalg.spsolve(A, b, device="cpu"),
        "splu": lambda: sg.linalg.splu(A, device="cpu"),
        "update_values": lambda: factors.update_values(2 * A.data),
    }
    monkeypatch.setattr(spla, "splu", factorize)
    before = signal.signal(signal.SIGUSR1, lambda *_: interrupt())
    sender = threading.Thread(target=send)
    sender.start()
    try:
        with pytest.raises(Interrupted):
            calls[name]()
    finally:
        may_end.set()
        sender.join()
        signal.signal(signal.SIGUSR1, before)
    np.testing.assert_allclose(A @ factors.solve(b), b)  # with the old values
