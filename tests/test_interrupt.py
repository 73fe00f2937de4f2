"""Ctrl-C ends a long call, wherever it is."""

import signal

import pytest

pytestmark = pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs pthread_kill")

# A call that goes on for ever is made of one that is long enough not to end before the signal comes; a call that
# cannot be interrupted ends first, and KeyboardInterrupt comes after it.
INTERRUPT = """
    import signal, sys, threading, time
    import numpy as np
    import scipy.sparse as sp
    import spmvgpu as sg
    from spmvgpu import _core, parts

    {setup}

    def main():
        {call}
        returned.append(True)

    returned = []
    timer = threading.Timer(0.1, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    timer.start()
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(1 if returned else 0)
    sys.exit(2)
"""

SCATTERED = """
    rng = np.random.default_rng(0)
    rows, row_entries = 2_000_000, 8
    indices = rng.integers(0, rows, rows * row_entries, dtype=np.int32)
    A = sp.csr_array((np.ones(indices.size), indices, np.arange(0, indices.size + 1, row_entries)), shape=(rows, rows))
    A.has_sorted_indices = A.has_canonical_format = True
"""
