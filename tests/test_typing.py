"""What a type checker makes of calls: of the documentation, and with arrays of other libraries."""

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import spmvgpu as sg

STUBS = any(found.metadata["Name"] == "scipy-stubs" for found in metadata.distributions())

SAMPLE = """
from __future__ import annotations
from typing import Any
import numpy as np
import numpy.typing as npt
import spmvgpu as sg
from typing_extensions import assert_type

class Tensor:  # of a library that speaks DLPack
    def __dlpack__(self, *, stream: int | None = None) -> Any:
        raise NotImplementedError

A = sg.gallery.poisson2d(4)
one = sg.aslinearoperator(A, "csr", "cpu", np.float32, symmetric=True)
assert_type(one, sg.SparseOperator)
many = sg.aslinearoperator(A, device=["cpu", "cpu"], powers=[1, 2])
assert_type(many, sg.MultiDeviceOperator)
assert_type(sg.aslinearoperator(A, "csr", ("cpu",)), sg.MultiDeviceOperator)
name: str = "cuda" + ":1"
assert_type(sg.aslinearoperator(A, format=one.format, device=name), sg.SparseOperator)
for other in (one.T, one.H, one.transpose(), one.adjoint(), one * 2, one / 2, -one, one[:2]):
    assert_type(other, sg.SparseOperator)
assert_type(one.astype("float32")[1:].to("cuda:1"), sg.SparseOperator)
for format in sg.formats():
    assert_type(sg.estimate(A, format)["bytes"], float)
assert_type(sg.aslinearoperator(A, sg.predict(A)[0].format), sg.SparseOperator)
x: npt.NDArray[np.float64] = np.ones(3)
t = Tensor()
assert_type(one @ x, npt.NDArray[Any])
assert_type(one @ [1.0, 2.0, 3.0], npt.NDArray[Any])
assert_type(one.spmv(x), npt.NDArray[np.float64])
for made in (one @ t, many @ t, one.spmv(t, out=t, alpha=2)):
    assert_type(made, Tensor)
for vector in (many.vector(np.ones(A.shape[1])), many @ many.vector(x)):
    assert_type(vector, sg.MultiDeviceVector)
sg.plot.spy(sg.matrix_io.read_matrix("A.mtx"))
"""

# What users of SciPy's stubs write: operators where SciPy takes LinearOperators.
WITH_SCIPY = """
import numpy as np
import scipy.sparse as sp
import spmvgpu as sg
from scipy.sparse.linalg import LinearOperator, cg, eigsh, gmres, lobpcg, lsqr, minres, svds
from typing_extensions import assert_type

A = sp.csr_array(sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(50, 50)))
b = np.ones(50)
op = sg.aslinearoperator(A, device="cpu")
several = sg.aslinearoperator(A, device=["cpu", "cpu"])
x, info = cg(op, b, rtol=1e-8, M=sg.linalg.jacobi(op), callback=lambda xk: None)
x, info = sg.linalg.cg(op, b, rtol=1e-8, M=sg.linalg.jacobi(op))
print(sg.linalg.cg(op, np.ones((50, 2)))[1].max(), sg.linalg.splu(A).solve(b), sg.linalg.spsolve(op, b))
gmres(op, b), minres(several, b), lsqr(op.T, b), cg(2 * op, b)
eigsh(op, k=2, return_eigenvectors=False), svds(op, k=2), lobpcg(op, np.ones((50, 2)))
linear: LinearOperator = op
linear = op + several
rows, cols = op.shape
y = op @ b + op.matvec(b) + op.rmatvec(b) + op.dot(b) - 2 * (op.H @ b)
Y = op @ np.ones((50, 3)) - op.T @ np.ones((50, 3))
C: sp.csr_array = op @ A
back: sp.csr_array = (op / 2).tocsr()
print(op.T.format, op.H.explain(), (2 * op).device, op[1:].nbytes, op.dtype.itemsize, back.nnz, Y.sum())
op.T.spmv(b, out=b)
assert_type(op.T, sg.SparseOperator)
"""

# A user writes functions with types, and uses what solvers give.
SCRIPT = """
from __future__ import annotations
import numpy as np
import numpy.typing as npt
import spmvgpu as sg

Vector = npt.NDArray[np.float64]

def heat(n: int, steps: int, dt: float) -> Vector:
    A = sg.gallery.poisson2d(n)
    op = sg.aslinearoperator(A, format="csr", device="cpu", max_threads=2)
    M = sg.linalg.jacobi(op)
    u: Vector = np.ones(op.shape[0])
    for step in range(steps):
        u, info = sg.linalg.cg(op, dt * u, rtol=1e-8, M=M)
        if info != 0:
            raise RuntimeError(f"step {step}: {op.solve_info.status}, {op.solve_info.true_residual:.1e}")
    print(op.solve_info.iterations, op.solve_info.seconds, op.format, op.device, op.nbytes)
    return u

def solved(op: sg.SparseOperator, b: Vector) -> Vector:
    x, how = sg.linalg.solve(op, b, rtol=1e-10, full_output=True)
    print(how.method, how.residual < 1e-10, how.tried[-1].iterations, how.explain())
    y = sg.linalg.solve(op, b)
    return x - y

def fitted(op: sg.SparseOperator, b: Vector) -> tuple[Vector, float]:
    x, istop, itn, norm_r, *rest = sg.linalg.lsqr(op, b, atol=1e-10)
    z, info = sg.linalg.cgls(op, b, damp=0.1)
    print(istop, itn, info, rest, sg.linalg.lsmr(op, b)[0] - x)
    return x - z, norm_r

def fastest(A: object, x: Vector) -> sg.SparseOperator:
    best = sg.aslinearoperator(A, tune="off")
    for name in sg.formats():
        try:
            op = sg.aslinearoperator(A, name, best.device)
        except sg.FormatError:
            continue
        if op.time_products(5) < best.time_products(5):
            best = op
    return sg.aslinearoperator(A, best.format, device="cpu", **best.options)

def columns(op: sg.SparseOperator, count: int) -> npt.NDArray[np.int64]:
    X, info = sg.linalg.gmres(op, np.ones((op.shape[0], count)), M="ilu0")
    direct = sg.linalg.splu(op.tocsr(), device="cpu").solve(X)
    print(X.mean() - direct.mean(), info.max(), sg.linalg.spsolve(op, X[:, 0]).sum())
    return np.flatnonzero(info)

def gpus(A: object) -> sg.MultiDeviceOperator:
    names = [device.name for device in sg.devices() if device.compute_capability is not None]
    return sg.aslinearoperator(A, device=[*names, "cpu"])

op = fastest(sg.gallery.poisson2d(5), np.ones(25))
x = heat(5, 2, 0.1) + solved(op, np.ones(25))
residual = op @ solved(op, x) - x
print(np.linalg.norm(residual), fitted(op, x), columns(op, 3), gpus(op.tocsr()).device)
"""
WRONG = [  # a checker has to see each line
    'sg.aslinearoperator(A, "crs")',
    "sg.aslinearoperator(A, device=0)",
    "op.solve_info.residul",
    "sg.linalg.cg(op, b, tol=1e-8)",
    "sg.linalg.solve(op, b).converged",
    "sg.linalg.lsmr(op, b)[8]",
]


def check(folder: Path, *samples: str) -> tuple[int, str]:
    """What mypy says of the samples, each a file: one run, for it reads NumPy and SciPy in each."""
    pytest.importorskip("mypy", reason="mypy, which checks types, is not installed")
    names = [f"sample_{number}.py" for number in range(len(samples))]
    for name, sample in zip(names, samples, strict=True):
        (folder / name).write_text(sample)
    # Where the package is imported from its sources, mypy does not find it; where it is installed, it does.
    source = Path(sg.__file__).parents[1]
    found = {} if source.name == "site-packages" else {"MYPYPATH": str(source)}
    options = ["--strict", "--follow-imports=silent", "--ignore-missing-imports", "--no-incremental"]
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *names],
        cwd=folder,
        env=os.environ | found,
        capture_output=True,
        text=True,
        check=False,
    )
    return run.returncode, run.stdout + run.stderr


def test_calls_have_types(tmp_path):
    """Of the documentation and of a user: the library of an array comes out, and errors are seen."""
    exec(compile(SCRIPT, "script", "exec"), {})
    of_another_class = SAMPLE + "assert_type(one, sg.MultiDeviceOperator)\n"
    wrong = "\n".join([SCRIPT, "b = np.ones(25)", *WRONG, ""])
    code, said = check(tmp_path, SAMPLE, SCRIPT, of_another_class, wrong)
    assert code == 1
    lines = {(int(file), int(line)) for file, line in re.findall(r"sample_(\d)\.py:(\d+): error:", said)}
    last = wrong.count("\n")
    seen = {(3, line) for line in range(last - len(WRONG) + 1, last + 1)}
    assert lines == {(2, of_another_class.count("\n")), *seen}, said
    assert re.search('sample_2.py.*Expression is of type "SparseOperator"', said)


def test_stubs_of_scipy_give_no_false_error(tmp_path):
    if not STUBS:
        pytest.skip("scipy-stubs is not installed")
    # SciPy's stubs are what is checked against: without them, the last line would be no error.
    code, said = check(tmp_path, WITH_SCIPY, WITH_SCIPY + "cg('no matrix', b)\n")
    assert code == 1
    assert said.count("error:") == 1, said
    assert "sample_1.py" in said
    assert "cg" in said


def test_pyright_finds_no_error(tmp_path):
    pytest.importorskip("pyright", reason="pyright is not installed")
    samples = {"script.py": f"# pyright: strict\n{SCRIPT}", "sample.py": SAMPLE}
    if STUBS:
        samples["with_scipy.py"] = WITH_SCIPY
    for name, sample in samples.items():
        (tmp_path / name).write_text(sample)
    paths = os.pathsep.join([str(Path(sg.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, "-m", "pyright", *samples, "--pythonpath", sys.executable],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_package_says_that_it_is_typed():
    assert os.path.exists(os.path.join(os.path.dirname(sg.__file__), "py.typed"))
