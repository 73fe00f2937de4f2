"""What importing does to a free-threaded Python."""

import subprocess
import sys
import sysconfig

import pytest

CODE = """
import sys, warnings
assert not sys._is_gil_enabled()
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    import spmvgpu
assert sys._is_gil_enabled()
print([str(warning.message) for warning in told if warning.category is RuntimeWarning])
"""


def test_the_interpreter_lock_is_turned_on_and_python_says_so():
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        pytest.skip("this Python has an interpreter lock that is always on")
    done = subprocess.run([sys.executable, "-c", CODE], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "spmvgpu._core" in done.stdout
