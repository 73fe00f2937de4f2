"""A wheel where nothing else is: no compiler, no toolkit, no package but what it requires.

The workflow that makes wheels runs this file with pytest alone, without the fixtures of the other tests.
"""

import json
import os
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

NAMED = os.environ.get("SPMVGPU_WHEEL")
pytestmark = pytest.mark.skipif(
    NAMED is None,
    reason="needs a wheel for this Python: SPMVGPU_WHEEL=file, made by tools/wheels.py or pip wheel",
)


@pytest.fixture(scope="module")
def wheel():
    path = Path(NAMED)
    assert path.is_file(), f"SPMVGPU_WHEEL={NAMED} is no file"
    return path


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """An interpreter in a new environment with the wheel, and a function that runs it with an empty PATH."""
    folder = tmp_path_factory.mktemp("empty")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    interpreter = folder / "bin" / "python"
    # Every package as a wheel: nothing may be compiled.
    install = [interpreter, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", wheel]
    subprocess.run(list(map(str, install)), check=True)

    def run(*arguments):
        done = subprocess.run(
            [str(interpreter), "-I", *arguments],
            cwd=folder,
            env={"PATH": "", "HOME": str(folder)},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_what_is_in_it(wheel):
    assert wheel.stat().st_size < 100e6
    with zipfile.ZipFile(wheel) as files:
        names = files.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        told = Parser().parsestr(files.read(metadata).decode())
        texts = {name: files.read(name).decode() for name in names if ".dist-info/" in name}
    required = {text.split(";")[0] for text in told.get_all("Requires-Dist") if "extra ==" not in text}
    assert {text.rstrip("0123456789.>= ") for text in required} == {"numpy", "scipy", "platformdirs"}
    assert told["License-Expression"] == "BSD-3-Clause"
    assert "spmvgpu/py.typed" in names
    (notices,) = (name for name in names if name.endswith(".dist-info/licenses/THIRD_PARTY_NOTICES.txt"))
    assert "pybind11" in texts[notices]
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    (scripts,) = (name for name in names if name.endswith(".dist-info/entry_points.txt"))
    assert "spmvgpu = spmvgpu.cli:main" in texts[scripts].splitlines()
    assert {address.split(", ")[0] for address in told.get_all("Project-URL")} >= {"Repository", "Issues"}
    folders = {name.partition("/")[0] for name in names}
    assert {name for name in folders if not name.endswith(".dist-info")} <= {"spmvgpu", "spmvgpu.libs"}


def test_the_console_script_runs(python):
    code = """
import subprocess, sys
from pathlib import Path
script = Path(sys.executable).with_name("spmvgpu")
command = [script, "solve", "--size", "4", "--json"]
print(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
"""
    assert json.loads(python("-c", code))["converged"]


def test_the_main_job_runs(python):
    assert "converged" in python("-m", "spmvgpu", "solve", "--quiet")
    assert "cuda_reason" in python("-m", "spmvgpu", "info")


def test_a_product_is_right(python):
    code = """
import numpy as np, scipy.sparse as sp, spmvgpu as sg
A = sp.random_array((500, 400), density=0.05, random_state=np.random.default_rng(0)).tocsr()
x = np.linspace(-1, 1, 400)
for name in sg.formats():
    try:
        op = sg.aslinearoperator(A, format=name)
    except sg.FormatError:
        continue
    np.testing.assert_allclose(op @ x, A @ x, atol=1e-12)
print("right on", op.device)
"""
    assert python("-c", code).startswith("right on")
