"""SciPy's own tests with our functions in place of SciPy's, and with our operators inside SciPy's functions.

The tests are part of SciPy's wheels and run where they are installed, each file in a process with the plugin
`peers/scipy_on_spmvgpu.py`. `peers/differences.txt` lists the tests that fail, with reasons. A test that is
listed and passes is an error like one that fails and is not listed: the list only shrinks.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import scipy

from support import nightly

FOLDER = Path(__file__).with_name("peers")
SCIPY = "1.18"  # for which the differences are listed

# How files below scipy/sparse/linalg run, and with which of their tests: others call nothing of ours.
OF_OURS = "not (bicg-numpy or cgs-numpy or gcrotmk-numpy or lgmres-numpy or qmr-numpy)"
RUNS = {
    "functions _isolve/tests/test_lsqr.py": "",
    "functions _isolve/tests/test_lsmr.py": "",
    "functions _isolve/tests/test_minres.py": "",
    "functions _isolve/tests/test_gcrotmk.py": "",
    "functions _isolve/tests/test_iterative.py": OF_OURS,
    "functions _eigen/tests/test_svds.py": "not (LOBPCG or PROPACK)",  # methods that our svds does not have
    "functions _eigen/arpack/tests/test_arpack.py": "not nonsymmetric",
    "functions _eigen/lobpcg/tests/test_lobpcg.py": "not b_orthonormalize",
    "functions _dsolve/tests/test_linsolve.py": "TestFactorized or TestLinsolve or TestSplu",
    "operators _isolve/tests/test_lsqr.py": "",
    "operators _isolve/tests/test_lsmr.py": "",
    "operators _isolve/tests/test_minres.py": "",
    "operators _isolve/tests/test_gcrotmk.py": "",
    "operators _isolve/tests/test_iterative.py": "",
    "operators _eigen/tests/test_svds.py": "",
    "operators _eigen/arpack/tests/test_arpack.py": "",
    "operators _eigen/lobpcg/tests/test_lobpcg.py": "not b_orthonormalize",
    "operators tests/test_interface.py": "",
}
QUICK = ["functions _isolve/tests/test_lsmr.py", "operators _isolve/tests/test_minres.py"]


class Difference(NamedTuple):
    """Tests that fail for one reason: regular expressions of their names and of their errors."""

    how: str
    tests: str
    error: str

    def has(self, test):
        """Whether this is a test of these."""
        return re.fullmatch(self.tests, test) is not None


def differences():
    """What `peers/differences.txt` lists."""
    for line in (FOLDER / "differences.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            how, tests, error = re.fullmatch(r"(\S+) (\S+) -> (.+)", line).groups()
            yield Difference(how, tests, error)


@pytest.mark.parametrize("run", [*QUICK, *nightly([run for run in RUNS if run not in QUICK])])
def test_tests_of_scipy(run, tmp_path):
    how, file = run.split()
    passed, failed = outcomes(how, file, RUNS[run], tmp_path / "outcomes")
    assert passed
    name = Path(file).name
    listed = [d for d in differences() if d.how == how and re.match(d.tests.partition("::")[0], name)]
    new = {
        test: error
        for test, error in failed.items()
        if not any(d.has(test) and re.search(d.error, error) for d in listed)
    }
    assert not new, "these fail and are not in peers/differences.txt"
    assert not [test for test in passed if any(d.has(test) for d in listed)], "these pass: take them out"
    assert not [d for d in listed if not any(map(d.has, failed))], "no test fails so: take them out"


def outcomes(how, file, chosen, found):
    """The tests that call ours: the names that pass, and the errors of the others by name."""
    if not scipy.__version__.startswith(f"{SCIPY}."):
        pytest.skip(f"the differences were listed with SciPy {SCIPY}, not {scipy.__version__}")
    root = Path(scipy.__file__).parent
    path = root / "sparse" / "linalg" / file
    if not path.exists():
        pytest.skip(f"SciPy's tests are not installed: no {path}")
    found.touch()
    folders = [str(FOLDER), str(Path(importlib.util.find_spec("spmvgpu").origin).parents[1])]
    variables = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "SCIPY_"))},
        "PYTHONPATH": os.pathsep.join([*folders, os.environ.get("PYTHONPATH", "")]),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "CUDA_VISIBLE_DEVICES": "",  # the differences are of the CPU
        "SPMVGPU_PEERS": how,
        "SPMVGPU_PEERS_OUTCOMES": str(found),
    }
    options = ["-q", "--tb=no", "-p", "no:cacheprovider", "-p", "scipy_on_spmvgpu", "-k", chosen]
    command = [sys.executable, "-m", "pytest", *options, "-c", os.devnull, "--rootdir", root.parent, path]
    done = subprocess.run(
        command, cwd=root.parent, env=variables, capture_output=True, text=True, timeout=1800, check=False
    )
    assert done.returncode in (0, 1), f"{done.stdout[-4000:]}\n{done.stderr}"
    lines = [json.loads(line) for line in found.read_text(encoding="utf-8").splitlines()]
    lines = [(test.rpartition("/")[2], outcome, error) for test, outcome, error in lines]
    return (
        [test for test, outcome, _ in lines if outcome == "passed"],
        {test: error for test, outcome, error in lines if outcome == "failed"},
    )
