"""The command ``solve`` on several ranks: rank 0 prints, and no other."""

from __future__ import annotations

import json
import os
import re
import resource

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from battery import vector
from ranks import COMM
from spmvgpu import cli, gallery
from systems import convection

pytestmark = pytest.mark.skipif(COMM.size == 1, reason="tests/test_cli.py is for one process")


@pytest.fixture
def solve(capsys):
    """Run the command on all ranks; give its exit code, and what rank 0 printed on stdout and stderr."""

    def call(*arguments):
        code = cli.main(["solve", "--device", "cpu", "--quiet", *map(str, arguments)])
        printed = capsys.readouterr()
        assert COMM.rank == 0 or printed == ("", "")
        return COMM.bcast((code, printed.out, printed.err))

    return call


@pytest.fixture
def write(folder):
    """Let rank 0 write a file that all ranks see."""

    def write(name, function, *content, **options):
        path = folder / name
        if COMM.rank == 0:
            function(path, *content, **options)
        COMM.Barrier()
        return path

    return write


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_assembled_problem(solve, folder, dtype):
    output = folder / "x.npy"
    code, out, _ = solve("--problem", "poisson3d", "--size", 9, "--dtype", dtype, "-o", output)
    assert code == 0
    assert f"{COMM.size} of " in out
    assert "yes, to rtol 1e-08" in out
    A, x = gallery.poisson3d(9), np.load(output)
    assert np.linalg.norm(1 - A @ x) <= 1e-8 * np.sqrt(len(x))


@pytest.mark.parametrize("solver", ["minres", "bicgstab", "gmres"])
@pytest.mark.parametrize("preconditioner", ["jacobi", "none"])
def test_other_solvers(solve, write, folder, solver, preconditioner):
    A = sp.csr_array(gallery.poisson2d(20) if solver == "minres" else convection())
    b = vector(A.shape[0], A.dtype)
    matrix, right = write("A.mtx", scipy.io.mmwrite, A), write("b.npy", np.save, b)
    output = folder / "x.npy"
    code, out, _ = solve(
        matrix, "--rhs", right, "--solver", solver, "--preconditioner", preconditioner, "-o", output
    )
    assert code == 0
    assert re.search(rf"^solver +{solver}$", out, re.MULTILINE)
    assert re.search(rf"^preconditioner +{preconditioner}$", out, re.MULTILINE)
    assert np.linalg.norm(b - A @ np.load(output)) <= 1e-8 * np.linalg.norm(b)


def test_complex_system(solve, write, folder):
    turn = sp.diags_array(np.exp(1j * np.arange(400)))
    A = sp.csr_array(turn.conj() @ gallery.poisson2d(20) @ turn)
    b = vector(400, A.dtype)
    matrix = write("A.mtx", scipy.io.mmwrite, A, symmetry="hermitian")
    right, output = write("b.npy", np.save, b), folder / "x.npy"
    code, out, _ = solve(matrix, "--rhs", right, "-o", output)
    assert code == 0
    assert "complex128" in out
    assert np.linalg.norm(b - A @ np.load(output)) <= 1e-8 * np.linalg.norm(b)
    real = write("B.mtx", scipy.io.mmwrite, gallery.poisson2d(20))
    code, _, err = solve(real, "--rhs", right)
    assert code == 2
    assert "the right-hand side is complex; add --dtype complex128" in err
    broken = write("C.npz", sp.save_npz, sp.csr_array(np.array([[2.0, 1j], [1j, 2.0]])))
    code, _, err = solve(broken, "--solver", "cg")
    assert code == 2
    assert "the matrix is not Hermitian" in err


def test_file_that_is_read_by_parts(solve, write, folder):
    A = gallery.poisson2d(20)
    b = vector(A.shape[0], A.dtype)
    matrix = write("A.mtx", scipy.io.mmwrite, A, symmetry="symmetric")
    right, output = write("b.npy", np.save, b), folder / "x.npy"
    code, out, _ = solve(matrix, "--rhs", right, "--preconditioner", "none", "-o", output)
    assert code == 0
    assert f"400 x 400, {A.nnz} non-zeros, float64" in out
    assert np.linalg.norm(b - A @ np.load(output)) <= 1e-8 * np.linalg.norm(b)


@pytest.mark.parametrize(
    ("A", "chosen"),
    [
        (gallery.poisson2d(20), ["cg"]),
        (gallery.poisson2d(20) - 0.1 * sp.eye_array(400), ["cg", "minres"]),
        (gallery.poisson2d(20) - 1.5 * sp.eye_array(400), ["cg", "minres"]),
        (-gallery.poisson2d(20), ["minres"]),
        (convection(), ["bicgstab"]),
    ],
    ids=range(5),
)
def test_solver_that_is_chosen(solve, write, A, chosen):
    """All ranks choose the same solver, and go on with the next one together."""
    path = write("A.npz", sp.save_npz, sp.csr_array(A))
    code, out, err = solve(path)
    assert (code, err) == (0, "")
    assert re.findall(r"^solver +(\w+), because", out, re.MULTILINE) == chosen
    code, out, _ = solve(path, "--json")
    found = json.loads(out) if COMM.rank == 0 else None
    found = COMM.bcast(found)
    assert (found["solver"], found["ranks"], found["converged"]) == (chosen[-1], COMM.size, True)
    assert found["seconds"]["convert"] is None


def test_one_triangle(solve, write):
    path = write("A.npz", sp.save_npz, sp.tril(gallery.poisson2d(9), format="csr"))
    code, out, _ = solve(path, "--symmetric", "lower")
    assert code == 0
    assert "yes, to rtol 1e-08" in out


def test_not_converged(solve):
    code, _, err = solve("--size", 60, "--maxiter", 1)
    assert code == 1
    assert err.startswith("error: not converged")
    assert err.count("error") == 1
    assert "--maxiter" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.mtx"], "absent.mtx"),
        (["--size", "4", "-o", "absent/x.npy"], "in a folder that exists"),
        (["--size", "4", "--rhs", "b.mtx"], "belong to a matrix file"),
        (["--size", "4", "--format", "abc"], "abc"),
        (["--size", "4", "--reorder"], "--reorder is for one process"),
        (["--size", "4", "--solver", "lsqr"], "--solver lsqr is for one process"),
        (["--size", "4", "--solver", "direct"], "--solver direct is for one process"),
        (["absent.mtx", "--size", "4"], "give either a file"),
    ],
)
def test_arguments_that_do_not_fit(solve, arguments, message):
    code, out, err = solve(*arguments)
    assert (code, out) == (2, "")
    assert err.count("error: ") == 1
    assert message in err


def test_pipes_do_not_block(solve, write):
    pipe, matrix = write("pipe.mtx", os.mkfifo), write("A.mtx", scipy.io.mmwrite, gallery.poisson2d(4))
    for arguments in ([pipe], [pipe, "--symmetric", "lower"], [matrix, "--rhs", pipe]):
        code, _, err = solve(*arguments)
        assert code == 2
        assert f"{pipe}: not a regular file" in err


def test_a_disk_that_is_full(solve, folder):
    """What cannot be written leaves nothing behind, on any rank."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        code, _, err = solve("--size", "6", "-o", folder / "x.npy")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert code == 2
    assert f"{folder / 'x.npy'}: could not be written: File too large" in err
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    ("A", "message"),
    [
        ([[2.0, 1.0], [0.0, 2.0]], "not symmetric.*--solver bicgstab or gmres"),
        ([[2.0, 0.0], [0.0, -1.0]], "A.npz: .*not positive definite.*--solver gmres"),
        ([[1.0, 2.0], [2.0, 0.5]], "A.npz: .*not positive definite.*--solver gmres"),
        ([[2.0, 0.0]], "square"),
    ],
)
def test_matrices_that_it_cannot_solve(solve, write, A, message):
    code, _, err = solve(write("A.npz", sp.save_npz, sp.csr_array(A)), "--solver", "cg")
    assert code == 2
    assert err.count("error: ") == 1
    assert re.search(message, err), err
    assert "Errno" not in err
