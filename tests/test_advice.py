"""What error messages advise: names in it exist, and calls in it work.

The messages are read from the sources. One that advises a call needs a row in TRIED, which makes the mistake,
finds the advice in the message, and follows it.
"""

import ast
import inspect
import re
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy
import scipy.sparse as sp

import spmvgpu as sg
from spmvgpu import cli, linalg, partition
from support import ignoring
from test_docstrings import attribute, public

PACKAGE = Path(sg.__file__).parent


def literal(node):
    """The text of a string in the source, with braces for what is filled in; None for another expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [literal(node.left), literal(node.right)]
        return None if parts == [None, None] else "".join(part or "{}" for part in parts)
    return None


def messages():
    """Texts of several words in the sources that are no docstrings, as (file, text)."""
    for path in sorted(PACKAGE.rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        inner = {part for node in nodes if literal(node) for part in ast.walk(node) if part is not node}
        docs = {node.value for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            text = None if node in inner or node in docs else literal(node)
            if text and " " in text:
                yield str(path.relative_to(PACKAGE)), text


MESSAGES = list(messages())

# Names


PARAMETERS = {
    parameter
    for name in public()
    if callable(attribute(name)) and not inspect.isclass(attribute(name))
    for parameter in inspect.signature(attribute(name)).parameters
}
PARAMETERS |= {option["name"] for fmt in sg.formats() for option in sg.format_options(fmt)}


def options_of_commands():
    parser = cli.parser_of()
    commands = next(action for action in parser._actions if action.dest == "command").choices.values()
    return {option for command in (parser, *commands) for option in command._option_string_actions}


def resolved(name):
    """What a dotted name stands for, of this library or another."""
    root, *parts = name.split(".")
    value = import_module({"np": "numpy"}.get(root, root))
    for number, part in enumerate(parts, start=1):
        if not hasattr(value, part):
            import_module(".".join([value.__name__, part]) if number else part)
        value = getattr(value, part)
    return value


# Modules whose library is not there.
NOT_INSTALLED = tuple(f"spmvgpu.{library}" for library in ("torch", "jax") if find_spec(library) is None)


def test_names_exist():
    options, operator = options_of_commands(), sg.aslinearoperator(np.eye(2), device="cpu")
    wrong = []
    for file, text in MESSAGES:
        for name in re.findall(r"\b((?:spmvgpu|scipy|numpy|np)(?:\.\w+)+)", text):
            if name.startswith(NOT_INSTALLED):
                continue
            try:
                resolved(name)
            except (ImportError, AttributeError):
                wrong.append((file, name, text))
        wrong += [(file, n, text) for n in re.findall(r"\bop\.(\w+)", text) if not hasattr(operator, n)]
        wrong += [(file, o, text) for o in re.findall(r"(?<![\w-])--[a-z][a-z-]*", text) if o not in options]
    assert wrong == []


# Calls

N = 12
A = sp.csr_array(sg.gallery.poisson1d(N) + 0.5 * sp.eye_array(N))
UNSYMMETRIC = A + sp.eye_array(N, k=1)
INDEFINITE = A - 4 * sp.eye_array(N)
BROKEN = sp.csr_array(
    np.array([[1.0, 2.0], [2.0, 1.0]])
)  # symmetric, with no incomplete Cholesky factorization
SINGULAR = sg.gallery.poisson1d(N) - sp.diags_array([1.0, *[0.0] * (N - 2), 1.0])


class Tried(NamedTuple):
    """A mistake, the advice that its message gives, and what follows it."""

    mistake: str
    advice: str
    remedy: str = ""  # if it is not the mistake with the advice for the first of the names
    names: dict[str, Any] = {}  # noqa: RUF012


TRIED = [
    Tried("linalg.cg(op, b)", "b.toarray()", names={"b": sp.coo_array(np.ones(N))}),
    Tried("op.matvec(x)", "x.toarray()", names={"x": sp.coo_array(np.ones(N))}),
    Tried("linalg.cg(op, b)", "b.filled(value)", names={"b": np.ma.masked_equal(np.arange(N) * 1.0, 3)}),
    Tried("op.spmv(x)", "numpy.asarray(x, 'float64')", names={"x": [1.0] * N}),
    Tried("op @ x", "x.astype(float)", names={"x": np.ones(N).astype(object)}),
    Tried("sg.aslinearoperator(A)", "spmvgpu.matrix_io.read_matrix(path)", names={"A": "A.mtx"}),
    Tried("sg.aslinearoperator(A, dtype=float)", "A.real", names={"A": 1j * A}),
    Tried(
        "sg.aslinearoperator(A, symmetric='lower')",
        "symmetric=True",
        "sg.aslinearoperator(A, symmetric=True)",
    ),
    Tried(
        "linalg.cg(op, b, M=M)",
        "spmvgpu.linalg.aspreconditioner(M)",
        names={"M": SimpleNamespace(levels=[SimpleNamespace(A=A)])},
    ),
    Tried(
        "linalg.cg(batch, b2, M='block_jacobi')",
        "M=block_jacobi(A.blocks, block)",
        "linalg.cg(batch, b2, M=linalg.block_jacobi(batch.blocks, 2))",
        names={
            "batch": sg.aslinearoperator(np.eye(4), values=np.ones((2, 4)), device="cpu"),
            "b2": np.ones((2, 4)),
        },
    ),
    Tried(
        "sg.torch.solve(op, torch.ones(N, dtype=torch.float64), M='jacobi')",
        "method='cg'",
        "sg.torch.solve(op, torch.ones(N, dtype=torch.float64), method='cg', M='jacobi')",
    ),
    Tried(
        "sg.matrix_io.write_matrix(path, A, symmetric=True)",
        "symmetric=False",
        "sg.matrix_io.write_matrix(path, A, symmetric=False)",
        {"A": UNSYMMETRIC},
    ),
    Tried("op + other", "2.0 * scipy.sparse.eye_array(n)", names={"other": np.eye(N)}),
    Tried("op + other", "op.toarray()", "op.toarray() + other", {"other": np.eye(N)}),
    Tried(
        "sg.plot.tsmv_tiles(op)",
        "aslinearoperator(A, 'tsmv')",
        "sg.plot.tsmv_tiles(aslinearoperator(A, 'tsmv'))",
    ),
    Tried(
        "partition.by_nnz(A, [1, 1])",
        "csr_array((data, indices, indptr), shape=...)",
        "partition.by_nnz(csr_array((data, indices, indptr), shape=(N, N)), [1, 1])",
        {"A": (A.data, A.indices, A.indptr)},
    ),
    Tried(
        "sg.aslinearoperator(A, reorder='rcm')",
        "reorder=None or 'auto'",
        "[sg.aslinearoperator(A, reorder=way) for way in (None, 'auto')]",
        {"A": sp.csr_array(np.ones((2, 3)))},
    ),
    Tried(
        "linalg.ic0(op)",
        "ilu0(op) with gmres or bicgstab",
        "[solve(op, [1.0, 1.0], M=linalg.ilu0(op)) for solve in (linalg.gmres, linalg.bicgstab)]",
        {"op": sg.aslinearoperator(BROKEN, device="cpu")},
    ),
    Tried(
        "linalg.jacobi(op)",
        "gmres or bicgstab with M=1 / op.diagonal(), or minres with M=1 / abs(op.diagonal())",
        "[linalg.gmres(op, b, M=1 / op.diagonal()), linalg.minres(op, b, M=1 / abs(op.diagonal()))]",
        {"op": sg.aslinearoperator(INDEFINITE, device="cpu")},
    ),
    Tried("op.update_values(A)", "make a new object", "aslinearoperator(A)", {"A": A @ A}),
    Tried("sg.torch.solve(op, b)", "torch.as_tensor(b)", names={"b": np.ones(N)}),
    Tried(
        "sg.torch.matmul(op, torch.ones(N, dtype=torch.float64))",
        "spmvgpu.aslinearoperator(op)",
        names={"op": A},
    ),
    Tried(
        "linalg.cg(op, torch.ones(N, dtype=torch.float64, requires_grad=True))",
        "spmvgpu.torch.solve(A, b)",
        "sg.torch.solve(A, torch.ones(N, dtype=torch.float64, requires_grad=True))",
    ),
    Tried(
        "aslinearoperator(A, symmetric=True).update_values(data)",
        "aslinearoperator(data, symmetric='lower')",
        "aslinearoperator(data, symmetric='lower')",
        {"data": sp.csr_array(sp.tril(A))},
    ),
    Tried(
        "linalg.aspreconditioner(M).update_values(A)",
        "amg(A)",
        "linalg.amg(A).update_values(2 * A)",
        {"M": SimpleNamespace(levels=[SimpleNamespace(A=A)])},
    ),
    Tried(
        "linalg.solve(A, b)",
        'nullspace="constant"',
        'linalg.solve(A, b - b.mean(), nullspace="constant")',
        {"A": SINGULAR},
    ),
    Tried(
        "linalg.solve(A, numpy.ones(2 * N))",
        "nullspace=numpy.eye(2)[labels] with labels = scipy.sparse.csgraph.connected_components(A)[1]",
        "linalg.solve(A, A @ numpy.arange(2.0 * N), "
        "nullspace=numpy.eye(2)[scipy.sparse.csgraph.connected_components(A)[1]])",
        {"A": sp.block_diag([SINGULAR, SINGULAR], format="csr")},
    ),
    Tried("linalg.splu(op, device='cpu')", "leave it out", "linalg.splu(op)"),
    Tried("op[:, 0, 1]", "rows, or rows and columns", "op[1:3], op[1:3, [0, 2]]"),
]
# What cannot be tried here, by file and what the text has.
NOT_TRIED = {
    ("devices.py", "or give device='cpu'"): "test_no_gpu.py",
    ("distributed/", ""): "tests/distributed",
    ("linalg/cudss.py", ""): "needs a GPU with cuDSS",
    ("linalg/eigsh.py", "needs the whole matrix"): "tests/distributed",
    ("linalg/systems.py", "A.replicated()"): "tests/distributed",
    ("linalg/direct_factors.py", "splu("): "needs a GPU with cuDSS",
    ("linalg/cycles.py", "ml.aspreconditioner()"): "a function of pyamg",
    ("linalg/multigrid.py", "does not suit"): "test_unsymmetric_multigrid.py",
    ("linalg/multigrid_in_pieces.py", "which amg over devices or ranks is for"): "tests/distributed",
    ("linalg/requests.py", "traced or transformed"): "test_torch_solves.py",
    ("multi_device/operator.py", "use vector(x)"): "a warning: test_multi.py",
    ("operator/construct.py", "max_threads={}"): "needs a GPU",
}


@pytest.fixture
def namespace(tmp_path):
    path = str(tmp_path / "A.mtx")
    sg.matrix_io.write_matrix(path, A)
    return {
        **{"sg": sg, "spmvgpu": sg, "linalg": linalg, "partition": partition, "numpy": np, "scipy": scipy},
        **{"A": A, "b": np.ones(N), "n": N, "N": N, "value": 0.0, "path": path, "csr_array": sp.csr_array},
        **{"op": sg.aslinearoperator(A, device="cpu"), "aslinearoperator": sg.aslinearoperator},
        **{"data": A.data, "indices": A.indices, "indptr": A.indptr, "torch": sys.modules.get("torch")},
    }


def said(mistake, names):
    """What the mistake raises."""
    with ignoring():
        try:
            eval(mistake, names)
        except (TypeError, ValueError, RuntimeError, IndexError) as error:
            return str(error)
    raise AssertionError(f"{mistake} is none")


def needed(row):
    for library in re.findall(r"\b(torch|plot)\.", row.mistake):
        pytest.importorskip({"plot": "matplotlib"}.get(library, library))


@pytest.mark.parametrize("row", TRIED)
def test_advice_works(row, namespace):
    needed(row)
    names = {**namespace, **row.names}
    assert row.advice in said(row.mistake, names)
    if not row.remedy:
        names[next(iter(row.names)) if row.names else "other"] = eval(row.advice, names)
    with ignoring():
        eval(row.remedy or row.mistake, names)


ADVISES = r"(?:^|[;:,] )(?:give|use|pass|set|call|make|see|read|such as|or|in which case)\b[^;]*?"
CALL = r"[\w.]+\([^)]*\)|\b\w+=[\w'\"-]+"


def test_every_call_that_is_advised_is_tried(namespace):
    for row in TRIED:
        needed(row)
    heard = [said(row.mistake, {**namespace, **row.names}) for row in TRIED]
    advising = [(file, text) for file, text in MESSAGES if re.search(rf"{ADVISES}(?:{CALL})", text)]
    assert len(advising) > 20
    untried = [
        (file, text)
        for file, text in advising
        if not any(file.startswith(place) and part in text for place, part in NOT_TRIED)
        and not any(re.search(re.escape(text).replace(r"\{\}", ".*"), one) for one in heard)
    ]
    assert untried == []
