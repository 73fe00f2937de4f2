"""Ctrl-C ends a long call, wherever it is; so does whatever else a signal handler raises."""

import signal

import pytest

import spmvgpu as sg
from support import run_python

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
    from spmvgpu.inputs.compressed import transpose

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

    def arrays(A):
        return A.indptr, A.indices, A.data

    def build(A, name, **options):
        return _core.MatrixF64(*arrays(A), A.shape[1], name, options, -1, True)

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
    "transpose": ("A = scattered(rows)", "_core.transpose(*arrays(A), rows)"),
    "columns": (
        "op = build(scattered(rows), 'csr'); X = np.ones((rows, 16))",
        "op.multiply_columns(X)",
    ),
    "columns one by one": (
        "op = build(scattered(rows), 'sell'); X = np.ones((rows, 16))",
        "op.multiply_columns(X)",
    ),
    "time_products": ("op = build(scattered(rows), 'csr')", "op.time_products(1000)"),
    "tsmv": ("A = scattered(rows); A = canonical_csr(A + A.T)", "build(A, 'tsmv', max_memory=4.0)"),
    "tocsr of dia": (f"{BANDED}; op = build(A, 'dia')", "op.to_csr()"),
    "tocsr of hyb": ("op = build(scattered(rows), 'hyb')", "op.to_csr()"),
}


@pytest.mark.parametrize("name", CALLS)
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
        assert np.allclose(op._origin.transposed(op.tocsr().T.tocsr()) @ x, expected)
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
