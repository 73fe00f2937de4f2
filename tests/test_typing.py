"""What a type checker makes of the calls in the documentation."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import spmvgpu

pytest.importorskip("mypy", reason="mypy, which checks types, is not installed")

SAMPLE = """
import numpy as np
import spmvgpu as sg
from typing_extensions import assert_type

A = sg.gallery.poisson2d(4)
one = sg.aslinearoperator(A, "csr", "cpu", np.float32, symmetric=True)
assert_type(one, sg.SparseOperator)
many = sg.aslinearoperator(A, device=["cpu", "cpu"], powers=[1, 2])
assert_type(many, sg.MultiDeviceOperator)
assert_type(many.distribute(np.ones(A.shape[1])), sg.DistributedVector)
assert_type(sg.aslinearoperator(A, "csr", ("cpu",)), sg.MultiDeviceOperator)
for name in sg.formats():
    assert_type(sg.estimate(A, name)["bytes"], float)
sg.plot.spy(sg.matrix_io.read_matrix("A.mtx"))
"""


def check(folder: Path, sample: str) -> tuple[int, str]:
    (folder / "sample.py").write_text(sample)
    # Where the package is imported from its sources, mypy does not find it; where it is installed, it does.
    source = Path(spmvgpu.__file__).parents[1]
    found = {} if source.name == "site-packages" else {"MYPYPATH": str(source)}
    options = ["--strict", "--follow-imports=silent", "--ignore-missing-imports", "--no-incremental"]
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "sample.py"],
        cwd=folder,
        env=os.environ | found,
        capture_output=True,
        text=True,
        check=False,
    )
    return run.returncode, run.stdout + run.stderr


def test_documented_calls_have_types(tmp_path):
    code, said = check(tmp_path, SAMPLE)
    assert code == 0, said


def test_a_wrong_type_is_seen(tmp_path):
    code, said = check(tmp_path, SAMPLE + "assert_type(one, sg.MultiDeviceOperator)\n")
    assert code == 1
    assert 'Expression is of type "SparseOperator"' in said
