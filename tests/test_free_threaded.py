"""Importing leaves a free-threaded Python without its interpreter lock."""

import subprocess
import sys
import sysconfig

import pytest

CODE = """
import sys, warnings
assert not sys._is_gil_enabled()
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    import spmvgpu
assert not sys._is_gil_enabled()
assert not [str(warning.message) for warning in warned if warning.category is RuntimeWarning]
"""


def test_the_interpreter_lock_stays_off():
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        pytest.skip("this Python has an interpreter lock that is always on")
    done = subprocess.run([sys.executable, "-c", CODE], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
