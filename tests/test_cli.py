"""The command line: what it prints, what it writes, and its exit codes for everything that can be wrong."""

import gzip
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import spmvgpu as sg
from spmvgpu import cli, gallery
from support import run_python
from systems import with_empty

A = gallery.elasticity3d(4)
ROWS = A.shape[0]


@pytest.fixture
def matrix_file(tmp_path):
    """Write a matrix as A.mtx, by default a stiffness matrix."""

    def write(content=A, **options):
        path = tmp_path / "A.mtx"
        with path.open("wb") as stream:
            scipy.io.mmwrite(stream, sp.coo_array(content), **options)
        return path

    return write


def fields(out):
    """The lines of the report by name."""
    lines = (line.strip().split(maxsplit=1) for line in out.splitlines() if line.strip())
    return {line[0]: line[1] if len(line) > 1 else "" for line in lines}


def assert_solves(path, matrix, b, rtol=1e-8):
    x = np.load(path)
    assert x.dtype == np.float64
    assert np.linalg.norm(b - matrix @ x) <= rtol * np.linalg.norm(b) * (1 + 1e-6)


# -- info ----------------------------------------------------------------------------------------------------


def test_info(run):
    code, out, err = run("info")
    assert (code, err) == (0, "")
    for name in (*(device.name for device in sg.devices()), *sg.formats(), *sg.build_info()):
        assert f"  {name} " in out


ARGUMENTS = {
    "info": "",
    "solve": "--size 3",
    "eigsh": "--size 3",
    "bench": "--size 3 --repeats 2",
    "calibrate": "--quick --device cpu --out p.json",
    "cache": "",
}


@pytest.mark.smoke
@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command(run, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(command, *ARGUMENTS[command].split())
    assert (code, err) == (0, "")
    assert out


@pytest.mark.smoke
def test_python_m_spmvgpu():
    done = subprocess.run(
        [sys.executable, "-m", "spmvgpu", "info"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")  # a warning would be in the latter
    assert "formats" in done.stdout


def test_version(run, capsys):
    with pytest.raises(SystemExit) as caught:
        run("--version")
    assert caught.value.code == 0
    assert sg.__version__ in capsys.readouterr().out


# -- solve ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", ["elasticity3d", "poisson3d"])
def test_solve_assembled_problem(run, tmp_path, problem, fmt, device, dtype):
    path = tmp_path / "x.npy"
    arguments = ["--problem", problem, "--size", 5, "--format", fmt, "--device", device, "--dtype", dtype]
    code, out, err = run("solve", *arguments, "-o", path)
    assert (code, err) == (0, "")
    said = fields(out)
    matrix = getattr(gallery, problem)(5)
    b = gallery.elasticity3d_load(5) if problem == "elasticity3d" else np.ones(125)
    assert said["matrix"] == f"{len(b)} x {len(b)}, {matrix.nnz} non-zeros, {dtype}"
    assert said["device"].startswith(device)
    assert said["format"] == fmt
    assert float(said["memory"].split()[0]) > 0
    assert {"input", "check", "convert", "transfer", "precondition", "solve", "verify"} <= said.keys()
    assert int(said["iterations"].split(",")[0]) > 0
    assert float(said["residual"].split()[0]) <= 1e-8
    assert said["converged"] == "yes, to rtol 1e-08"
    assert_solves(path, matrix, b)


def test_solve_chooses_problem_device_and_format(run):
    code, out, _ = run("solve", "--size", 4)
    said = fields(out)
    assert code == 0
    assert said["problem"].startswith("linear elasticity, 4 x 4 x 4")
    assert "(chosen automatically)" in said["format"]
    assert said["solver"] == f"direct, because the matrix is small ({ROWS} rows)"


@pytest.mark.parametrize("name", ["A.mtx", "A.mtx.gz", "A.npz"])
def test_solve_file(run, tmp_path, name):
    path = tmp_path / name
    if name == "A.npz":
        sp.save_npz(path, A)
    else:
        scipy.io.mmwrite(tmp_path / "A.mtx", A)
        if name == "A.mtx.gz":
            path.write_bytes(gzip.compress((tmp_path / "A.mtx").read_bytes()))
    code, out, err = run("solve", path, "-o", tmp_path / "x.npy")
    assert (code, err) == (0, "")
    assert fields(out)["problem"] == str(path)
    assert_solves(tmp_path / "x.npy", A, np.ones(ROWS))


@pytest.mark.parametrize("name", ["b.mtx", "b.npy"])
def test_solve_with_right_hand_side(run, tmp_path, matrix_file, rng, name):
    b = rng.standard_normal(ROWS)
    if name == "b.npy":
        np.save(tmp_path / name, b)
    else:
        scipy.io.mmwrite(tmp_path / name, b[:, None])
    code, _, _ = run(
        "solve", matrix_file(), "--rhs", tmp_path / name, "--rtol", "1e-6", "-o", tmp_path / "x.npy"
    )
    assert code == 0
    assert_solves(tmp_path / "x.npy", A, b, 1e-6)


@pytest.mark.parametrize("preconditioner", ["auto", "amg", "block_jacobi", "chebyshev", "ic0", "ilu0"])
def test_solve_beside_empty_rows(run, tmp_path, preconditioner):
    large = with_empty(A)[0]
    b = large @ np.ones(ROWS + 3)
    scipy.io.mmwrite(tmp_path / "A.mtx", large)
    np.save(tmp_path / "b.npy", b)
    options = ["--preconditioner", preconditioner, "-o", tmp_path / "x.npy"]
    code, _, _ = run("solve", tmp_path / "A.mtx", "--rhs", tmp_path / "b.npy", *options)
    assert code == 0
    assert_solves(tmp_path / "x.npy", large, b)


def test_solve_reads_one_triangle(run, tmp_path):
    sp.save_npz(tmp_path / "A.npz", sp.tril(A, format="csr"))
    code, out, _ = run("solve", tmp_path / "A.npz", "--symmetric", "lower", "-o", tmp_path / "x.npy")
    assert code == 0
    assert f"{A.count_nonzero()} non-zeros" in out
    assert_solves(tmp_path / "x.npy", A, np.ones(ROWS))


INDEFINITE = sp.csr_array(A - 0.5 * min(A.diagonal()) * sp.eye_array(ROWS))  # with a positive diagonal


@pytest.mark.parametrize(
    ("matrix", "says"),
    [
        (A, ["cg, because the matrix is symmetric with a positive diagonal"]),
        (
            INDEFINITE,
            [
                "cg, because the matrix is symmetric with a positive diagonal",
                "minres, because cg with jacobi found that the matrix is not positive definite",
            ],
        ),
        (sp.csr_array(-A), ["minres, because the matrix is symmetric, and not positive definite"]),
        (sp.csr_array([[0.0, 1], [1, 0]]), ["minres, because"]),
        (sp.csr_array(A + sp.triu(A, 1)), ["bicgstab, because the matrix is not symmetric"]),
        (sp.csr_array([[0.0, 1], [-1, 0]]), ["bicgstab, because", "gmres, because bicgstab broke down"]),
        (sp.csr_array([[2j, 1], [1, 2j]]), ["bicgstab, because the matrix is not Hermitian"]),
        (sp.csr_array([[2, 1j], [-1j, 2]]), ["cg, because the matrix is Hermitian"]),
        (sp.csr_array([[2.0, 0], [1, 2]]), ["bicgstab, because .* give --symmetric lower or upper"]),
    ],
    ids=range(9),
)
def test_solve_chooses_the_solver(run, tmp_path, matrix, says):
    sp.save_npz(tmp_path / "A.npz", matrix)
    code, out, err = run("solve", tmp_path / "A.npz", "--maxiter", 10_000, "-o", tmp_path / "x.npy")
    assert (code, err) == (0, "")
    chosen = re.findall(r"^solver +(.*(?:\n +.*)*)$", out, re.MULTILINE)
    assert len(chosen) == len(says)
    for text, expected in zip(chosen, says, strict=True):
        assert re.match(expected, " ".join(text.split()))
    jacobi = (np.abs(matrix.diagonal()) > 0).all()
    assert fields(out)["preconditioner"] == ("jacobi" if jacobi else "none")
    residual = 1 - matrix @ np.load(tmp_path / "x.npy")
    assert np.linalg.norm(residual) <= 1.1e-8 * np.sqrt(matrix.shape[0])


def test_reordered_system(run, tmp_path, rng):
    """Incomplete factors are better with entries near the diagonal; x has the order of the file."""
    shuffle = rng.permutation(900)
    shuffled = sp.csr_array(gallery.poisson2d(30)[shuffle][:, shuffle])
    sp.save_npz(tmp_path / "A.npz", shuffled)
    b = rng.standard_normal(900)
    np.save(tmp_path / "b.npy", b)
    common = ["solve", tmp_path / "A.npz", "--rhs", tmp_path / "b.npy", "--preconditioner", "ic0"]
    _, out, _ = run(*common)
    before = int(fields(out)["iterations"])
    code, out, _ = run(*common, "--reorder", "-o", tmp_path / "x.npy")
    assert code == 0
    assert int(fields(out)["iterations"]) < before
    assert_solves(tmp_path / "x.npy", shuffled, b)
    assert "--reorder" in run(*common, "--maxiter", 2)[2]
    assert "--reorder" not in run(*common, "--maxiter", 2, "--reorder")[2]


@pytest.mark.parametrize("solver", ["cg", "minres", "gmres"])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_solve_complex_matrix(run, tmp_path, matrix_file, solver, dtype):
    turn = sp.diags_array(np.exp(1j * np.arange(ROWS)))
    matrix = sp.csr_array(turn.conj() @ A @ turn)
    b = np.cos(np.arange(ROWS)) + 1j
    np.save(tmp_path / "b.npy", b)
    x = tmp_path / "x.npy"
    path = matrix_file(matrix, symmetry="hermitian")
    code, out, err = run(
        "solve", path, "--rhs", tmp_path / "b.npy", "--solver", solver, "--dtype", dtype, "-o", x
    )
    assert (code, err) == (0, "")
    assert dtype in fields(out)["matrix"]
    assert np.load(x).dtype == np.complex128
    assert np.linalg.norm(b - matrix @ np.load(x)) <= 1e-8 * np.linalg.norm(b) * (1 + 1e-6)


def test_complex_matrix_in_a_real_type(run, matrix_file):
    path = matrix_file(np.array([[1.0, 2j], [-2j, 8]]))
    assert "the matrix is complex, and --dtype float64 is not" in refusal(
        run, "solve", path, "--dtype", "float64"
    )


def test_not_converged(run, tmp_path):
    code, out, err = run("solve", "--size", 5, "--maxiter", 3, "-o", tmp_path / "x.npy")
    assert code == 1
    assert err.startswith("error: not converged")
    assert "--maxiter" in err
    assert fields(out)["iterations"] == "3"
    assert fields(out)["converged"] == "no, not to rtol 1e-08"
    assert np.load(tmp_path / "x.npy").shape == (3 * 125,)  # the best there is


@pytest.mark.parametrize("suffix", ["npy", "mtx"])
@pytest.mark.parametrize("solver", ["direct", "lsqr", "lsmr"])
def test_solve_by_name(run, tmp_path, matrix_file, rng, solver, suffix):
    """What is written is the solution; of least squares also for a rectangular matrix."""
    A = rng.standard_normal((9, 9 if solver == "direct" else 5))
    b, path = rng.standard_normal(9), tmp_path / f"x.{suffix}"
    np.save(tmp_path / "b.npy", b)
    given = "solve", matrix_file(A), "--rhs", tmp_path / "b.npy", "--rtol", 1e-12, "--solver", solver
    code, out, err = run(*given, "-o", path)
    assert (code, err, fields(out)["solver"]) == (0, "", solver)
    x = sg.matrix_io.read_vector(path)
    np.testing.assert_allclose(x, np.linalg.lstsq(A, b)[0], rtol=1e-9)


def test_least_squares_that_end_early(run, matrix_file, rng):
    code, out, err = run("solve", matrix_file(rng.random((9, 5))), "--solver", "lsmr", "--maxiter", 1)
    assert (code, fields(out)["try"].split(":")[0]) == (1, "--maxiter 10")
    assert "error: not converged: the gradient is" in err


def test_eigenvalues(run, tmp_path):
    path = tmp_path / "v.npy"
    near_zero = ("--sigma", 0, "--inner", "cg", "--preconditioner", "ic0")
    code, out, err = run("eigsh", "--problem", "poisson3d", "--size", 5, "-k", 3, *near_zero, "-o", path)
    assert (code, err) == (0, "")
    A = sg.gallery.poisson3d(5)
    v, values = np.load(path), np.linalg.eigvalsh(A.toarray())[:3]
    np.testing.assert_allclose(A @ v, v * values, atol=1e-12)
    found = [float(line.split()[0]) for line in out.splitlines()[-4:-1]]
    np.testing.assert_allclose(found, values)
    assert run("eigsh", "--problem", "poisson3d", "--size", 9, "--maxiter", 1)[0] == 1


def test_singular_system(run, matrix_file, tmp_path):
    np.save(tmp_path / "b.npy", [0.0, 1])
    code, _, err = run("solve", matrix_file(np.ones((2, 2))), "--rhs", tmp_path / "b.npy")
    assert code == 1
    assert "the matrix may be singular" in err


def test_tolerance_out_of_reach(run):
    code, _, err = run("solve", "--size", 5, "--rtol", "1e-30")
    assert code == 1
    assert "not converged" in err
    assert "1e-30" in err


# -- solve: refusals -----------------------------------------------------------------------------------------


def refusal(run, *args):
    code, _, err = run(*args)
    assert code == 2
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize(
    ("matrix", "reason"),
    [
        ([[2.0, 1], [0, 2]], "--symmetric lower or upper"),
        ([[2.0, 1, 0], [0.5, 2, 0], [0, 0, 1]], "not symmetric: A[0, 1] = 1, but A[1, 0] = 0.5"),
        ([[1.0, 1], [1, 0]], "zero or negative, the first in row 1 (0)"),
        ([[-1.0, 0], [0, -3]], "solve with -A and -b"),
        ([[1.0, np.nan], [np.nan, 1]], "inf or nan, the first at row 0, column 1"),
        ([[np.inf, 0], [0, 1]], "inf or nan, the first at row 0, column 0"),
        ([[1.0, 2j], [2j, 1]], "not Hermitian: A[0, 1] = 0+2j, but A[1, 0] = 0+2j"),
        ([[1.0, 2j], [-2j, -1j]], "zero or negative, the first in row 1 (0-1j)"),
        (np.zeros((0, 0)), "empty"),
    ],
)
def test_unsuitable_matrix(run, matrix_file, matrix, reason):
    path = matrix_file(np.array(matrix), symmetry="general")
    message = refusal(run, "solve", path, "--solver", "cg")
    assert reason in message
    assert str(path) in message


@pytest.mark.parametrize(
    ("b", "reason"),
    [
        (np.ones((ROWS, 2)), f"({ROWS}, 2)"),
        (np.ones(0), "has 0 entries"),
        (np.full(ROWS, np.inf), "entry 0 of the right-hand side is not finite"),
        (np.append(np.ones(ROWS - 1), np.nan), f"entry {ROWS - 1} of the right-hand side is not finite"),
        (np.ones(ROWS, dtype=complex), "complex; add --dtype complex128"),
        (np.full(ROWS, "a"), "give numbers"),
    ],
)
def test_unsuitable_right_hand_side(run, tmp_path, matrix_file, b, reason):
    path = tmp_path / "b.npy"
    np.save(path, b)
    message = refusal(run, "solve", matrix_file(), "--rhs", path)
    assert reason in message
    assert str(path) in message


@pytest.mark.skipif(len(sg.devices()) > 1, reason="this machine has a CUDA device")
@pytest.mark.parametrize("command", ["solve", "bench"])
def test_cuda_without_a_gpu(run, command):
    assert "cuda" in refusal(run, command, "--device", "cuda", "--size", 3).lower()


MARKET = "%%MatrixMarket matrix coordinate "
POSITIVE = MARKET + "real symmetric\n2 2 2\n1 1 2\n2 2 3\n"
INPUTS = {
    "good.mtx": POSITIVE,
    "text.mtx": "hello\n",
    "short.mtx": MARKET + "real general\n2 2 2\n1 1 1\n",
    "word.mtx": MARKET + "real general\n2 2 1\n1 1 x\n",
    "huge.mtx": MARKET + "real general\n1000000000 1000000000 1\n1 1 1\n",
    "wide.mtx": MARKET + "real general\n2 3 1\n1 1 1\n",
    "negative.mtx": MARKET + "real general\n2 2 2\n1 1 -1\n2 2 1\n",
    "indefinite.mtx": MARKET + "real symmetric\n2 2 3\n1 1 1\n2 1 2\n2 2 1\n",
    "zero.mtx": MARKET + "real symmetric\n2 2 2\n1 1 1\n2 1 2\n",
    "empty.mtx": MARKET + "real symmetric\n2 2 1\n1 1 1\n",
    "singular.mtx": MARKET + "real symmetric\n3 3 6\n1 1 1\n2 1 1\n3 1 1\n2 2 1\n3 2 1\n3 3 1\n",
    "close.mtx": MARKET + "real general\n2 2 4\n1 1 1\n2 2 1\n1 2 0.3\n2 1 0.30000001\n",
    "diagonal.mtx": MARKET + "complex general\n1 1 1\n1 1 4 0.4\n",
    "complex.mtx": MARKET + "complex symmetric\n2 2 3\n1 1 1 0\n2 1 0 2\n2 2 1 0\n",
    "array.mtx": "%%MatrixMarket matrix array real general\n2 2\n1\n0\n1\n",
    "b.mtx": "%%MatrixMarket vector array real general\n2\n3\n1\n",
    "mixed.mtx": "%%MatrixMarket vector array real general\n2\n1\n0\n",
    "long.mtx": "%%MatrixMarket vector array real general\n3\n1\n1\n1\n",
    "x.txt": "",
}
REFUSALS = [
    ("solve nothing.mtx", "nothing.mtx: No such file or directory"),
    ("solve good.mtx --rhs nothing.npy", "nothing.npy: No such file or directory"),
    ("bench nothing.npz", "nothing.npz: No such file or directory"),
    ("solve x.txt", "x.txt: unknown kind of file; its name must end in .mtx, .mtx.gz, .npz"),
    ("solve folder.mtx", "folder.mtx: not a regular file"),
    ("solve pipe.mtx", "pipe.mtx: not a regular file"),
    ("solve good.mtx --rhs pipe.mtx", "pipe.mtx: not a regular file"),
    ("solve text.mtx", "text.mtx: not a valid Matrix Market file: it begins with 'hello'"),
    ("solve short.mtx", "short.mtx: not a valid Matrix Market file: truncated: .* 2 entries, and 1 follow"),
    ("bench word.mtx", "word.mtx: not a valid Matrix Market file: line 3: 'x' is no number"),
    ("solve array.mtx", "array.mtx: .* announces 4 entries, and 3 follow"),
    ("solve huge.mtx", "huge.mtx: .*(empty rows out|does not fit the memory)"),
    ("solve wide.mtx", "wide.mtx: the matrix is rectangular .2 x 3.; give a square one, or --solver lsmr"),
    ("solve negative.mtx --solver cg", "negative.mtx: .*row 0 .-1.; try --solver minres.*--solver gmres"),
    (
        "solve indefinite.mtx --rhs mixed.mtx --solver cg",
        "indefinite.mtx: .*not positive definite.*--solver gmres",
    ),
    ("solve empty.mtx", "empty.mtx: there is no solution: row 1 of A .* b is 1 there"),
    ("solve zero.mtx --solver cg", "zero.mtx: .*not positive definite.*--solver gmres"),
    (
        "solve zero.mtx --solver gmres --preconditioner jacobi",
        "zero.mtx: --preconditioner jacobi: the diagonal has zeros, .*; try another",
    ),
    ("solve indefinite.mtx --preconditioner ic0", "indefinite.mtx: --preconditioner ic0: .*--solver gmres"),
    ("solve singular.mtx --preconditioner block_jacobi", "singular.mtx: --preconditioner block_jacobi: "),
    (
        "solve close.mtx --solver cg",
        r"A\[0, 1\] = 0.2999999\d*, but A\[1, 0\] = 0.3000000\d*; .*--solver bicgstab or gmres",
    ),
    (
        "solve diagonal.mtx --solver minres",
        r"diagonal.mtx: .*A\[0, 0\] = 4\+0.4j, which must be real; .*--solver bicgstab or gmres",
    ),
    ("solve complex.mtx --solver cg", r"= 0\+2j and not 0-2j; .*--solver bicgstab or gmres"),
    ("solve singular.mtx --solver direct", "singular.mtx: .*singular.*; try --solver lsmr"),
    ("solve good.mtx --solver direct --preconditioner ic0", "--preconditioner is not for --solver direct"),
    ("solve wide.mtx --solver lsqr --preconditioner amg", "--preconditioner is not for --solver lsqr"),
    ("eigsh wide.mtx", "wide.mtx: the matrix is rectangular"),
    ("eigsh negative.mtx -k 3", "k=3"),
    ("eigsh complex.mtx", "complex.mtx: the matrix is not Hermitian"),
    ("eigsh good.mtx -k 1 --sigma nan", "sigma=nan is not allowed"),
    ("solve complex.mtx --dtype float32", "complex.mtx: the matrix is complex, and --dtype float32 is not"),
    (
        "solve good.mtx --rhs long.mtx",
        "long.mtx: the right-hand side has 3 entries, but .*good.mtx has 2 rows",
    ),
    (
        "solve good.mtx --rhs good.npz",
        "good.npz: unknown kind of file; its name must end in .mtx, .mtx.gz, .npy",
    ),
    ("solve --symmetric lower", "--rhs and --symmetric belong to a matrix file, and none is given"),
    ("solve indefinite.mtx --symmetric lower", "entries beyond that triangle"),
    ("solve --size 1", "give at least 2"),
    ("solve good.mtx --size 3", "give either a file .*good.mtx. or --problem and --size, not both"),
    ("solve good.mtx -o x.txt", "x.txt: results go to a .npy or .mtx file"),
    ("solve good.mtx -o none/x.npy", "none/x.npy: there is no folder .*none"),
    ("solve good.mtx -o folder.npy", "folder.npy: not a regular file"),
    ("solve good.mtx -o pipe.npy", "pipe.npy: not a regular file"),
    ("solve good.mtx -o full.npy", "full.npy: not a regular file"),
    ("solve good.mtx --format csrr", "csrr"),
    ("solve good.mtx --device tpu", "tpu"),
    ("solve --problem poisson3d --size 100000", "no memory for --size 100000: .*; give a smaller size"),
    ("calibrate --quick --out none/p.json", "none/p.json: there is no folder .*none"),
    ("calibrate --quick --out folder.npy", "folder.npy: not a regular file"),
    ("calibrate --quick --out p.json --samples none/s.json", "none/s.json: there is no folder .*none"),
]


@pytest.fixture
def inputs(tmp_path, monkeypatch):
    for name, text in INPUTS.items():
        (tmp_path / name).write_text(text)
    for name in ("folder.mtx", "folder.npy"):
        (tmp_path / name).mkdir()
    for name in ("pipe.mtx", "pipe.npy"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "full.npy").symlink_to("/dev/full")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("arguments", "says"), REFUSALS, ids=[arguments for arguments, _ in REFUSALS])
def test_what_is_said_of_bad_inputs(run, inputs, arguments, says):
    """One line that names the file and says what to do, without words of Python's."""
    before = set(os.listdir())
    message = refusal(run, *arguments.split())
    assert re.search(says, message), message
    assert len(message) < 500
    assert not re.search(r"Errno|Traceback|Error\b|\ba (array|integer)\b|\ban (real|complex)\b", message), (
        message
    )
    assert set(os.listdir()) - before <= {"p.json"}


FULL_DISK = """
    import resource, sys
    from spmvgpu.cli import main

    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    sys.exit(main(["solve", "--size", "6", "--device", "cpu", "--quiet", "-o", "x.npy"]))
"""


@pytest.mark.parametrize("there_was_one", [False, True])
def test_a_disk_that_is_full(tmp_path, monkeypatch, there_was_one):
    monkeypatch.chdir(tmp_path)
    if there_was_one:
        np.save("x.npy", np.ones(3))
    done = run_python(FULL_DISK, check=False)
    assert done.returncode == 2
    assert done.stderr == "error: x.npy: could not be written: File too large\n"
    assert os.listdir() == ["x.npy"] * there_was_one
    if there_was_one:
        np.testing.assert_array_equal(np.load("x.npy"), np.ones(3))


@pytest.mark.parametrize("arguments", ["info", "solve --size 4 --device cpu --quiet"])
def test_output_that_cannot_be_printed(arguments):
    command = [sys.executable, "-m", "spmvgpu", *arguments.split()]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "error: standard output: No space left on device\n")


# -- bench ---------------------------------------------------------------------------------------------------


def table(out):
    """The rows of the table of times: name, format, device and time."""
    lines = out.split("GB/s\n", 1)[1].split("\n\n", 1)[0].splitlines()
    for line in lines:
        name, _, rest = line.partition(": ") if line.startswith("auto") else line.partition(" ")
        words = rest.split()
        yield (name, words.pop(0) if name == "auto" else name, words[0], float(words[1]))


def test_bench_has_a_row_per_format(run, device):
    code, out, err = run("bench", "--size", 4, "--device", device, "--repeats", 3)
    assert (code, err) == (0, "")
    rows = list(table(out))
    assert sorted(name for name, *_ in rows) == sorted([*sg.formats(), "auto", "scipy"])
    for name, format, where, time in rows:
        assert where == ("cpu" if name == "scipy" else device)
        assert format in ([*sg.formats(), "scipy"] if name != "auto" else sg.formats())
        assert time > 0
    assert [time for *_, time in rows] == sorted(time for *_, time in rows)
    assert max(map(len, out.splitlines())) <= 90


def test_bench_says_what_auto_chooses(run, device):
    _, out, _ = run("bench", "--size", 4, "--device", device, "--repeats", 2)
    (chosen,) = (format for name, format, *_ in table(out) if name == "auto")
    assert chosen == sg.aslinearoperator(A, device=device).format


def test_bench_times_once_what_is_stored_alike(run, device):
    """So that noise never puts the choice behind the row of the same format with the same options."""
    _, out, _ = run("bench", "--size", 4, "--device", device, "--repeats", 2)
    rows = list(table(out))
    ((place, (_, chosen, _, time)),) = ((n, row) for n, row in enumerate(rows) if row[0] == "auto")
    assert rows[place + 1] == (chosen, chosen, device, time)


def test_bench_takes_a_rectangular_matrix(run, matrix_file, rng):
    code, out, _ = run("bench", matrix_file(rng.random((5, 9))), "--repeats", 2, "--dtype", "float32")
    assert code == 0
    assert "5 x 9, 45 non-zeros, float32" in out


def test_bench_goes_on_after_a_refusal(run, monkeypatch):
    refused, reason = sg.formats()[0], "too much padding, " * 20
    convert = sg.aslinearoperator

    def refuse(matrix, name, *args, **options):
        if name == refused:
            raise sg.FormatError(reason)
        return convert(matrix, name, *args, **options)

    monkeypatch.setattr(sg, "aslinearoperator", refuse)
    code, out, _ = run("bench", "--size", 3, "--repeats", 2)
    assert code == 0
    head, left_out = out.split("left out\n")
    assert {name for name, *_ in table(head)} == {*sg.formats(), "auto", "scipy"} - {refused}
    assert left_out.split()[0] == refused
    assert left_out.count("too much") == 20
    assert max(map(len, out.splitlines())) <= 90


@pytest.mark.parametrize("name", ["chart.png", "chart.svg"])
def test_bench_draws_a_chart(run, tmp_path, name):
    pytest.importorskip("matplotlib", reason="the extra [plot] is not installed")
    path = tmp_path / name
    assert run("bench", "--size", 3, "--repeats", 2, "--plot", path)[0] == 0
    assert path.read_bytes()[:6] in (b"\x89PNG\r\n", b"<?xml ")
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize(
    ("name", "says"), [("chart.txt", "must end in .*png.*svg"), ("none/chart.png", "there is no folder")]
)
def test_bench_refuses_a_chart_before_it_measures(run, tmp_path, name, says):
    pytest.importorskip("matplotlib", reason="the extra [plot] is not installed")
    assert re.search(says, refusal(run, "bench", "nothing.mtx", "--plot", tmp_path / name))


def test_bench_without_matplotlib(run, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    assert "pip install matplotlib" in refusal(run, "bench", "nothing.mtx", "--plot", tmp_path / "c.png")
