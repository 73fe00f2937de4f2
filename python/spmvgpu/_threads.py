"""How long OpenMP's threads wait actively for work; to be imported before the compiled core.

By default libgomp's threads spin for milliseconds, and so does the caller at the end of a parallel loop.
Where another process takes one of the cores, the thread that everybody waits for cannot run, because the
caller spins on the core it needs: products become tens of times slower. A short spin keeps back-to-back
products fast and costs little otherwise. With a GPU it is the other way round: the threads work between
transfers, and waking them would double a transfer's time.

The variable is read when libgomp is loaded, so it is set for that moment only, and never over the user's own
setting.
"""

from __future__ import annotations

import os

_SPINS = "5000"  # 0.1 to 0.3 ms
_VARIABLE = "GOMP_SPINCOUNT"

_GPU_FILES = ("/dev/nvidiactl", "/dev/dxg")  # asking CUDA would start it

_is_set_here = not (
    _VARIABLE in os.environ or "OMP_WAIT_POLICY" in os.environ or any(map(os.path.exists, _GPU_FILES))
)
if _is_set_here:
    os.environ[_VARIABLE] = _SPINS


def restore() -> None:
    """Take the variable out of the environment again, once the core is loaded."""
    if _is_set_here:
        os.environ.pop(_VARIABLE, None)
