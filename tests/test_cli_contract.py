"""What scripts and the documentation rely on: JSON, exit codes, messages of one line, progress, the page."""

import io
import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from threading import Event

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from spmvgpu import cli, matrix_io
from support import run_python

ROOT = Path(__file__).parents[1]

# -- JSON ----------------------------------------------------------------------------------------------------

KINDS = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "object": dict,
    "array": list,
    "array of strings": list,
    "null": type(None),
}


def flattened(value, path, fields):
    """The values in a JSON object by their paths, as the tables of fields name them."""
    if path in fields:
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from flattened(inner, f"{path}.{key}" if path else key, fields)
    elif isinstance(value, list):
        for inner in value:
            yield from flattened(inner, f"{path}[]", fields)
    else:
        yield path, value


def assert_documented(found, command, empty=()):
    """All keys that are documented are there, with values of their types, and no others.

    `empty` names the arrays that have no elements.
    """
    fields = import_module(f"spmvgpu.cli.{command}").FIELDS
    values = list(flattened(found, "", fields))
    inside = {path for path in fields if path.startswith(tuple(f"{name}[]" for name in empty))}
    assert {path for path, _ in values} == set(fields) - inside
    assert all(found[name] == [] for name in empty)
    for path, value in values:
        kinds = [KINDS[kind] for kind in fields[path][0].split(" or ")]
        assert any(isinstance(value, kind) for kind in kinds), (path, value)
        assert not isinstance(value, bool) or bool in kinds


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("arguments", "code", "empty"),
    [
        ("info", 0, []),
        ("solve --size 3", 0, ["suggestions"]),
        ("solve --size 3 -o x.npy --dtype float32 --solver gmres", 0, ["suggestions"]),
        ("solve --size 3 --maxiter 2 --preconditioner jacobi", 1, []),
        ("solve --size 3 --solver direct -o x.mtx", 0, ["suggestions"]),
        ("solve --size 3 --solver lsqr", 0, ["suggestions"]),
        ("solve --size 3 --solver lsmr --maxiter 2", 1, []),
        ("eigsh --size 3 -k 2 -o v.mtx", 0, []),
        ("bench --size 3 --repeats 2", 0, ["left_out"]),
        ("bench A.npz --repeats 2", 0, []),
        ("calibrate --quick --device cpu --out p.json", 0, []),
        ("cache", 0, []),
        ("cache --clear", 0, []),
    ],
)
def test_json_has_the_documented_keys(run, tmp_path, monkeypatch, arguments, code, empty):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPMVGPU_CACHE_DIR", str(tmp_path / "cache"))
    sp.save_npz("A.npz", sp.csr_array([[1.0, 2, 3], [0, 1, 0], [0, 0, 1]]))  # not symmetric
    found_code, out, err = run(*arguments.split(), "--json")
    assert found_code == code
    assert err.count("\n") == code
    assert_documented(json.loads(out), arguments.split()[0], empty)


def test_json_says_what_the_text_says(run, tmp_path):
    arguments = ["solve", "--size", 14, "--device", "cpu", "-o", tmp_path / "x.npy"]
    found = json.loads(run(*arguments, "--json")[1])
    text = run(*arguments)[1]
    assert found["rows"] == len(np.load(tmp_path / "x.npy"))
    assert f"{found['rows']} x {found['cols']}, {found['nnz']} non-zeros, {found['dtype']}" in text
    assert re.search(rf"^iterations +{found['iterations']}$", text, re.MULTILINE)
    assert re.search(rf"^residual +{found['residual']:.2e} ", text, re.MULTILINE)
    assert re.search(rf"^solver +{found['solver']}, because {found['solver_reason']}$", text, re.MULTILINE)
    assert found["converged"] is True


def test_a_solver_that_diverges_is_followed_by_another(run, tmp_path, rng):
    """One that only needs more iterations is not: they are as many as were allowed."""
    sp.save_npz(tmp_path / "A.npz", sp.csr_array(rng.standard_normal((60, 60)) + 0.1 * np.eye(60)))
    common = "solve", tmp_path / "A.npz", "--preconditioner", "none", "--maxiter", 3, "--json"
    assert json.loads(run(*common, "--solver", "bicgstab")[1])["residual"] > 1
    found = json.loads(run(*common)[1])
    assert (found["solver"], found["iterations"]) == ("gmres", 3)
    assert found["residual"] < 1
    assert found["solver_reason"] == "bicgstab did not converge"


def test_a_residual_that_is_not_finite_is_null(run, tmp_path):
    sp.save_npz(tmp_path / "A.npz", sp.csr_array([[1e300, 1e300], [0.0, 1e-300]]))
    code, out, _ = run("solve", tmp_path / "A.npz", "--solver", "gmres", "--json")
    if code != 2:  # it may be refused as well
        json.loads(out, parse_constant=lambda text: pytest.fail(f"{text} is no JSON"))


def test_errors_leave_stdout_empty(run):
    assert run("solve", "nothing.mtx", "--json")[:2] == (2, "")


# -- exit codes ----------------------------------------------------------------------------------------------


def test_exit_codes_that_commands_return(run, monkeypatch):
    assert run("solve", "--size", 3)[0] == 0
    assert run("solve", "--size", 3, "--maxiter", 1, "--preconditioner", "jacobi")[0] == 1
    assert run("solve", "nothing.mtx")[0] == 2

    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(sg, "devices", interrupt)
    assert run("info")[0] == 130
    assert {0, 1, 2, 130, 141} == set(cli.EXIT_CODES)


def test_exit_code_of_a_broken_pipe():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", "spmvgpu", "info"], stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(os.name != "posix", reason="closes streams in a shell")
@pytest.mark.parametrize(
    ("arguments", "closed", "code"),
    [
        ("info --json", ">&-", 0),
        ("solve -o x.npy --size 3", "<&- >&- 2>&-", 0),
        ("solve A.mtx", "2>&-", 2),
        ("solve A.mtx", ">&-", 2),
    ],
)
def test_closed_streams(arguments, closed, code, tmp_path):
    """A daemon starts programs with closed streams: the work is done, and no traceback is printed."""
    command = f"exec {sys.executable} -W error -m spmvgpu {arguments} {closed}"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert re.fullmatch(r"error: A\.mtx: .*\n" if (code, closed) == (2, ">&-") else "", done.stderr)
    assert (tmp_path / "x.npy").exists() == ("x.npy" in arguments)


@pytest.mark.parametrize("arguments", [[], ["--help"], *([name, "--help"] for name in cli.COMMANDS)])
def test_help_lists_the_exit_codes(run, capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        run(*arguments)
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for code, meaning in cli.EXIT_CODES.items():
        assert re.search(rf"^  {code} +{re.escape(meaning)}$", text, re.MULTILINE)
    assert max(map(len, text.splitlines())) <= 100


# -- messages ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("nonsense", "invalid choice: 'nonsense'"),
        ("--nonsense", "--nonsense|required"),
        ("solve --rtol 0", "argument --rtol: '0' is not a positive finite number; see spmvgpu solve --help"),
        ("solve --rtol nan", "argument --rtol: 'nan' is not a positive"),
        ("solve --rtol x", "argument --rtol: 'x' is not a positive"),
        ("solve --size x", "argument --size: "),
        ("solve --dtype float16", "argument --dtype: invalid choice"),
        ("bench --repeats 0", "argument --repeats: "),
        ("solve --maxiter -1", "argument --maxiter: '-1' is not a whole number"),
        ("solve --solver lu", "argument --solver: invalid choice: 'lu'"),
        ("solve --maxiter", "argument --maxiter: expected one argument"),
        ("solve a.mtx b.mtx", "unrecognized arguments: b.mtx"),
        ("bench --nonsense", "unrecognized arguments: --nonsense"),
        ("info --size 3", "unrecognized arguments: --size 3"),
    ],
)
def test_wrong_options_are_told_in_one_line(run, capsys, arguments, says):
    with pytest.raises(SystemExit) as caught:
        run(*arguments.split())
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(rf"error: .*({says}).*\n", err)


# -- progress ------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


def on_a_terminal(monkeypatch):
    """Make stderr a terminal, and show progress from the start; what is drawn is in the result.

    No fixture: pytest replaces stderr between fixtures and tests.
    """
    monkeypatch.setattr("spmvgpu._util.progress._DELAY", 0.0)
    monkeypatch.setattr("spmvgpu._util.progress._INTERVAL", 0.0)
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    return stream


def test_progress_is_a_bar_of_tqdm(run, monkeypatch):
    terminal = on_a_terminal(monkeypatch)
    pytest.importorskip("tqdm", reason="the extra [progress] is not installed")
    assert run("solve", "--size", 12)[0] == 0
    assert "iterations" in terminal.getvalue()
    assert "relative residual" in terminal.getvalue()


def test_progress_without_tqdm_is_a_line(run, monkeypatch, tmp_path):
    terminal = on_a_terminal(monkeypatch)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert run("solve", "--size", 12)[0] == 0
    assert re.search(r"\rcg: \d+ iterations, relative residual", terminal.getvalue())
    assert run("bench", "--size", 3, "--repeats", 2)[0] == 0
    assert re.search(r"\rtiming: 100%, tsmv", terminal.getvalue())
    assert run("calibrate", "--quick", "--device", "cpu", "--out", tmp_path / "profile.json")[0] == 0
    assert re.search(r"\rcalibrating: \d+%", terminal.getvalue())
    assert terminal.getvalue().endswith(" \r")  # the line is cleared


def test_progress_is_for_terminals_only(monkeypatch):
    monkeypatch.setattr("spmvgpu._util.progress._DELAY", 0.0)
    monkeypatch.setattr(sys, "stderr", stream := io.StringIO())
    assert cli.main(["solve", "--size", "12"]) == 0
    assert stream.getvalue() == ""


@pytest.mark.parametrize("with_tqdm", [False, True])
@pytest.mark.parametrize(("delay", "quiet"), [(1e6, ""), (0.0, "--quiet")])
def test_what_is_done_at_once_or_quietly_shows_no_progress(run, monkeypatch, with_tqdm, delay, quiet):
    if with_tqdm:
        pytest.importorskip("tqdm", reason="the extra [progress] is not installed")
    else:
        monkeypatch.setitem(sys.modules, "tqdm", None)
    terminal = on_a_terminal(monkeypatch)
    monkeypatch.setattr("spmvgpu._util.progress._DELAY", delay)
    for arguments in ("solve --size 6", "bench --size 3 --repeats 2"):
        assert run(*arguments.split(), *quiet.split())[0] == 0
    assert terminal.getvalue() == ""


def test_a_wait_is_told_and_cleared(monkeypatch):
    terminal = on_a_terminal(monkeypatch)
    drawn = Event()
    write = terminal.write

    def draw(text):
        write(text)
        drawn.set()

    monkeypatch.setattr(terminal, "write", draw)

    def read(path):
        assert drawn.wait(60)
        assert terminal.getvalue() == "\rreading the matrix ..."
        raise FileNotFoundError(2, "gone", path)

    monkeypatch.setattr(matrix_io, "read_matrix", read)
    assert cli.main(["solve", "A.mtx"]) == 2
    assert terminal.getvalue().startswith(f"\rreading the matrix ...\r{' ' * 22}\r")


# -- the console script, and the page ------------------------------------------------------------------------


def test_console_script():
    project = (ROOT / "pyproject.toml").read_text()
    assert re.search(r'^\[project.scripts\]\nspmvgpu = "spmvgpu.cli:main"$', project, re.MULTILINE)
    done = run_python(
        "import sys; from spmvgpu.cli import main; sys.argv = ['spmvgpu', 'cache']; sys.exit(main())"
    )
    assert done.stdout.startswith("directory")


def labels(part):
    """The first words of the lines of an example, in an order that does not depend on times."""
    lines = [line for line in part.splitlines() if not line.startswith(" " * 10)]
    words = {line.split()[0] for line in lines if line.strip()}
    return {word for word in words if not word.startswith("cuda:")}


@pytest.mark.smoke
def test_page_is_up_to_date(monkeypatch):
    """``python tools/command_line.py`` writes it anew."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    page = import_module("command_line")
    text = page.PAGE.read_text()
    assert page.replaced(text, page.parts()) == text
    for name, command in page.EXAMPLES.items():
        shown = text.split(f"<!-- {name}:begin -->\n")[1].split(f"\n<!-- {name}:end -->")[0]
        assert labels(shown) == labels(page.example(command)), name
