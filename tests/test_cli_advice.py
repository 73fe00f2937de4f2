"""Which solvers ``solve`` tries one after the other, and what it suggests where all of them fail."""

import re

import numpy as np
import pytest
import scipy.sparse as sp

from generators.systems import convection
from spmvgpu import gallery, matrix_io

GRID = gallery.poisson2d(40)
ORDER = np.random.default_rng(1).permutation(1600)
BESIDE = sp.eye_array(1600, k=1)
MATRICES = {
    "definite": GRID,
    "indefinite": GRID - 0.31 * sp.eye_array(1600),
    "negative": -GRID,
    "zeros on the diagonal": sp.block_array([[None, GRID], [GRID, None]]),
    "unsymmetric": convection(30),
    "unsymmetric, with zeros": sp.block_array([[None, GRID], [2 * GRID, None]]),
    "just dominant": GRID + 0.1 * BESIDE,
    "scattered": GRID[ORDER][:, ORDER],
    "dominant": GRID + 4 * sp.eye_array(1600) + 0.1 * BESIDE,
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("matrices")
    for name, A in MATRICES.items():
        matrix_io.write_matrix(folder / f"{name}.npz", sp.csr_array(A))
    return folder


def tried_and_suggested(run, path, options):
    """What the command says that it tries, as "solver preconditioner", and the options that it suggests."""
    _, out, _ = run("solve", path, "--device", "cpu", *options.split())
    tried, preconditioner = [], ""
    for line, name in re.findall(r"^(solver|preconditioner) +(\w+)", out, re.MULTILINE):
        if line == "solver":
            tried.append(f"{name} {preconditioner}")
        else:
            preconditioner = name
    return ", ".join(tried), ", ".join(re.findall(r"^try +(--[^:]+):", out, re.MULTILINE))


@pytest.mark.parametrize(
    ("name", "options", "tried"),
    [
        ("definite", "", "cg jacobi, cg amg, cg ic0, minres jacobi, gmres ilu0, gmres jacobi"),
        ("definite", "--preconditioner jacobi", "cg jacobi, minres jacobi"),
        ("definite", "--preconditioner ic0", "cg ic0, minres ic0"),
        ("definite", "--preconditioner ilu0", "bicgstab ilu0, gmres ilu0"),
        ("indefinite", "", "cg jacobi, minres jacobi, gmres ilu0"),
        ("indefinite", "--preconditioner ilu0", "bicgstab ilu0, gmres ilu0"),
        ("negative", "--preconditioner none", "minres none"),
        ("zeros on the diagonal", "", "minres none, gmres none"),
        ("unsymmetric", "", "bicgstab ilu0, bicgstab amg, gmres ilu0, bicgstab jacobi, gmres jacobi"),
        ("unsymmetric", "--preconditioner none", "bicgstab none, gmres none"),
        ("unsymmetric, with zeros", "", "bicgstab none"),
        ("just dominant", "", "bicgstab ilu0, bicgstab amg, gmres ilu0, bicgstab jacobi, gmres jacobi"),
        ("dominant", "", "bicgstab jacobi, gmres jacobi, bicgstab ilu0, gmres ilu0"),
    ],
)
def test_what_is_tried(run, files, name, options, tried):
    """With a tolerance that rounding errors do not allow."""
    found, suggested = tried_and_suggested(
        run, files / f"{name}.npz", f"--rtol 1e-17 --maxiter 1000 {options}"
    )
    assert f"{found},".startswith(f"{tried},")
    assert re.fullmatch(r"--rtol \d+e-1\d", suggested) or name == "unsymmetric, with zeros"


@pytest.mark.parametrize(
    ("name", "options", "suggested"),
    [
        ("definite", "--solver cg", "--preconditioner ic0, --preconditioner amg, --maxiter N"),
        ("definite", "--solver cg --preconditioner ic0", "--preconditioner amg, --maxiter N"),
        ("definite", "--solver cg --preconditioner amg", "--preconditioner ic0, --maxiter N"),
        ("definite", "--solver minres", "--maxiter N, --solver gmres"),
        (
            "definite",
            "--solver gmres --preconditioner ilu0",
            "--solver gmres --restart 200, --maxiter N, --solver bicgstab",
        ),
        ("definite", "--preconditioner ilu0", "--maxiter N, --solver gmres"),
        ("scattered", "--solver cg --preconditioner ic0", "--reorder, --preconditioner amg, --maxiter N"),
        ("unsymmetric", "", "--preconditioner ilu0, --maxiter N, --solver gmres"),
        ("unsymmetric", "--solver bicgstab", "--preconditioner ilu0, --maxiter N, --solver gmres"),
        (
            "unsymmetric",
            "--solver gmres",
            "--preconditioner ilu0, --solver gmres --restart 200, --maxiter N, --solver bicgstab",
        ),
        (
            "unsymmetric",
            "--solver gmres --preconditioner ilu0 --restart 400",
            "--solver gmres --restart 900, --maxiter N, --solver bicgstab",
        ),
        (
            "unsymmetric, with zeros",
            "--solver gmres",
            "--solver gmres --restart 200, --maxiter N, --solver bicgstab",
        ),
    ],
)
def test_what_is_suggested(run, files, name, options, suggested):
    """After three iterations."""
    found = tried_and_suggested(run, files / f"{name}.npz", f"--maxiter 3 {options}")[1]
    assert re.sub(r"--maxiter \d+", "--maxiter N", found) == suggested
