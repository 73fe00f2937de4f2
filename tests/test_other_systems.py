"""Windows and macOS lack some of what Linux has in Python: nothing in plain use needs it."""

import pytest

from support import run_python

LACKING = """
import os, sys
import platformdirs, scipy.sparse.linalg, subprocess, tempfile  # which ask at import what the system has
for name in "{attributes}".split():
    delattr(os, name)
for name in "{modules}".split():
    sys.modules[name] = None  # an import of it fails
"""

MACOS = "sched_getaffinity sched_setaffinity posix_fadvise", ""
WINDOWS = (
    f"{MACOS[0]} sysconf fork register_at_fork uname getuid geteuid getloadavg killpg mkfifo statvfs pread "
    "pwrite fchmod wait4 O_NONBLOCK O_CLOEXEC O_NOFOLLOW",
    "fcntl grp posix pwd resource termios",
)


@pytest.mark.parametrize(("attributes", "modules"), [MACOS, WINDOWS], ids=["macOS", "Windows"])
def test_what_only_linux_has_is_not_needed(attributes, modules):
    run_python(
        LACKING.format(attributes=attributes, modules=modules)
        + """
import numpy as np
import spmvgpu as sg
from spmvgpu.cli import main

A, b = sg.gallery.poisson2d(20), np.ones(400)
assert 0 < sg.devices()[0].memory_free <= sg.devices()[0].memory_total
with sg.cache.empty():
    op = sg.aslinearoperator(A, device="cpu", tune="full")
    assert sg.cache.info().tuning_entries == 1
    sg.aslinearoperator(A, device="cpu", tune="cached")
np.testing.assert_allclose(op @ b, A @ b)
x, info = sg.linalg.cg(op, b, rtol=1e-10)
np.testing.assert_allclose(A @ x, b, atol=1e-6)
np.testing.assert_allclose(sg.linalg.spsolve(A, b, device="cpu"), x, atol=1e-6)
assert op.explain() and sg.predict(A, device="cpu")
with sg.limit_threads(1):
    op @ b
sg.show_versions()
assert main(["info"]) == 0
""",
        SPMVGPU_DEVICE=None,
    )
