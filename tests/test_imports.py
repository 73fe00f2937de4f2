"""The layers of the package: no two modules import each other, and commands load only what they need."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import spmvgpu
from support import run_python

PACKAGE = Path(spmvgpu.__file__).parent


def modules(folder: Path) -> dict[str, Path]:
    """The files of a package by the names that they are imported by."""
    found = {}
    for path in sorted([*folder.rglob("*.py"), *folder.rglob("*.pyi")]):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of the package that one imports: anywhere in the file, and for type checkers, too."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) + 1 - node.level] if node.level else []
            base = ".".join([*start, *(node.module.split(".") if node.module else [])])
            # What is imported from a package is one of its modules, or something of its own.
            found |= {f"{base}.{a.name}" if f"{base}.{a.name}" in known else base for a in node.names}
    return {other for other in found if other in known and other != name}


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules each of which imports the others, be it through some of them (Tarjan 1972)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(name: str) -> None:
        number[name] = low[name] = len(number)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in number:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], number[other])
        if low[name] == number[name]:
            group = stack[stack.index(name) :]
            del stack[-len(group) :]
            groups.extend([sorted(group)] if len(group) > 1 else [])

    for name in sorted(graph):
        if name not in number:
            visit(name)
    return groups


def test_one_module_asks_which_library_a_matrix_belongs_to() -> None:
    asks = re.compile(r'hasattr\(\w+, "(tocsr|to_scipy_sparse|matvec)"\)|"cupyx"|"JAXSparse"')
    found = {
        str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if asks.search(path.read_text())
    }
    assert found == {"arrays/__init__.py", "inputs/canonical.py"}


def test_cycles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": set()}
    assert cycles(graph) == [["a", "b", "c"]]
    assert cycles({**graph, "c": set()}) == []


def test_imports_within_functions_and_of_modules_are_seen(tmp_path: Path) -> None:
    folder = tmp_path / "package"
    (folder / "layer").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "layer" / "__init__.py").write_text("from . import one\n")
    (folder / "layer" / "one.py").write_text(
        "def f():\n    from ..two import g\n    import package.layer.three\n"
    )
    (folder / "layer" / "three.py").write_text("from .. import two as other\n")
    (folder / "two.py").write_text("import os\n\ng = os\n")
    known = modules(folder)
    found = {name: imports(name, path, known) for name, path in known.items()}
    assert found["package.layer"] == {"package.layer.one"}
    assert found["package.layer.one"] == {"package.two", "package.layer.three"}
    assert found["package.layer.three"] == {"package.two"}


def test_no_two_modules_import_each_other() -> None:
    known = modules(PACKAGE)
    assert len(known) > 50
    assert cycles({name: imports(name, path, known) for name, path in known.items()}) == []


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        ("import spmvgpu", "scipy platformdirs matplotlib torch cupy"),
        ("from spmvgpu.cli import main; main(['info'])", "scipy platformdirs matplotlib tqdm torch cupy"),
        ("import spmvgpu.plot, spmvgpu.gallery", "matplotlib torch cupy"),
    ],
)
def test_only_what_is_needed_is_loaded(code: str, unwanted: str) -> None:
    loaded = f"print([name for name in {unwanted.split()} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {code}; {loaded}"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_without_the_papers_everything_else_works() -> None:
    """Without their folder, and the table that says by which names it is found."""
    run_python("""
        import sys
        import numpy as np
        import spmvgpu as sg
        from spmvgpu._util import plugins

        sys.modules["spmvgpu.papers"] = None  # importing it, or from it, raises ImportError
        for added in plugins._ADDED.values():
            for name in [name for name, place in added.items() if place.startswith("papers.")]:
                del added[name]
        import spmvgpu.cli, spmvgpu.linalg, spmvgpu.plot
        from spmvgpu.planning.calibrate import calibrate

        A = sg.gallery.poisson2d(30)
        for options in [{}, {"tune": "full"}, {"format": "sell"}, {"device": ["cpu", "cpu"]}]:
            op = sg.aslinearoperator(A, **{"device": "cpu"} | options)
            np.testing.assert_allclose(op @ np.ones(900), A @ np.ones(900), atol=1e-12)
            assert op.explain()
        assert sg.predict(A, "cpu").best.time_us > 0
        assert sum(sg.partition.by_nnz(A, [1, 2]).rows) == 900
        assert calibrate(-1, quick=True, sections=True)[0].extra == {}
        for call in [
            lambda: sg.predict(A, "cpu", "guo2011"),
            lambda: sg.aslinearoperator(A, "partitioned", "cpu"),
            lambda: sg.aslinearoperator(A, device=["cpu", "cpu"], partition="pmf"),
            lambda: sg.partition.by_pmf,
        ]:
            try:
                call()
            except (ImportError, ValueError):
                continue
            raise AssertionError("that needs the papers")
    """)
