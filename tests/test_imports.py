"""What commands load, which module asks what a matrix is, and the package without the papers."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import spmvgpu
from support import run_python

PACKAGE = Path(spmvgpu.__file__).parent


def test_one_module_asks_which_library_a_matrix_belongs_to() -> None:
    asks = re.compile(r'hasattr\(\w+, "(tocsr|to_scipy_sparse|matvec)"\)|"cupyx"|"JAXSparse"')
    found = {
        str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if asks.search(path.read_text())
    }
    assert found == {"arrays/__init__.py", "inputs/canonical.py"}


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        ("import spmvgpu", "scipy platformdirs matplotlib torch cupy tqdm"),
        ("from spmvgpu.cli import main; main(['info'])", "scipy platformdirs matplotlib tqdm torch cupy"),
        ("import spmvgpu.plot, spmvgpu.gallery", "matplotlib torch cupy"),
        (
            "import numpy as np, spmvgpu as sg; sg.aslinearoperator(np.eye(3), device='cpu') @ np.ones(3)",
            "scipy.linalg scipy.sparse.linalg html statistics multiprocessing",
        ),
    ],
)
def test_only_what_is_needed_is_loaded(code: str, unwanted: str) -> None:
    loaded = f"print([name for name in {unwanted.split()} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {code}; {loaded}"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_operators_from_before_the_import_of_scipy_sparse_linalg_are_its_linear_operators() -> None:
    run_python("""
        import copy, importlib, inspect, pickle, sys
        import numpy as np
        import spmvgpu as sg

        op = sg.aslinearoperator(np.diag([1.0, 2.0, 3.0]), device="cpu")
        squared = op @ op
        assert "scipy.sparse.linalg" not in sys.modules
        import scipy.sparse.linalg as sla

        assert isinstance(op, sla.LinearOperator) and isinstance(squared, sla.LinearOperator)
        assert sla.LinearOperator is sla._interface.LinearOperator
        assert "class LinearOperator" in inspect.getsource(sla.LinearOperator)
        np.testing.assert_allclose(sla.cg(op, np.ones(3))[0], [1, 1 / 2, 1 / 3])
        other = sla.aslinearoperator(np.eye(3))
        np.testing.assert_array_equal((other + op) @ np.ones(3), [2, 3, 4])
        assert pickle.loads(pickle.dumps(other)).shape == (3, 3)
        assert importlib.reload(sla._interface).__spec__.loader.get_source("scipy.sparse.linalg._interface")
    """)


def test_threads_that_import_scipy_sparse_linalg_meanwhile_have_the_same_class() -> None:
    run_python("""
        import threading
        import numpy as np
        import spmvgpu as sg

        start, ops, classes = threading.Barrier(4), [], []

        def make():
            start.wait()
            ops.append(sg.aslinearoperator(np.eye(3), device="cpu"))

        def load():
            start.wait()
            from scipy.sparse.linalg import LinearOperator
            classes.append(LinearOperator)

        threads = [threading.Thread(target=target) for target in (make, load, make, load)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(ops) == len(classes) == 2
        assert all(isinstance(op, kind) for op in ops for kind in classes)
    """)


def test_without_the_papers_everything_else_works(tmp_path: Path) -> None:
    """Without their folder, and the lines of the table that say by which names it is found."""
    copy = tmp_path / "spmvgpu"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("papers", "__pycache__"))
    shutil.copy(str(sys.modules[spmvgpu.FormatError.__module__].__file__), copy)
    table = copy / "_util" / "plugins.py"
    lines = table.read_text().splitlines()
    kept = [re.sub(r'"\w+": "papers\.[^"]*"', "", line) for line in lines]
    assert len(set(lines) - set(kept)) == 4
    table.write_text("\n".join(kept))
    # Finders of editable installs, which are no types, would go before the path.
    code = """
        import sys

        sys.meta_path[:] = [found for found in sys.meta_path if isinstance(found, type)]
        sys.path.insert(0, FOLDER)
        import numpy as np
        import spmvgpu as sg
        import spmvgpu.cli, spmvgpu.linalg, spmvgpu.plot

        assert sg.__file__.startswith(FOLDER)
        A = sg.gallery.poisson2d(30)
        for options in [{}, {"tune": "full"}, {"format": "sell"}, {"device": ["cpu", "cpu"]}]:
            op = sg.aslinearoperator(A, **{"device": "cpu"} | options)
            np.testing.assert_allclose(op @ np.ones(900), A @ np.ones(900), atol=1e-12)
            assert op.explain()
        assert sg.predict(A, "cpu").best.time_us > 0
        assert sum(sg.partition.by_nnz(A, [1, 2]).rows) == 900
        profile = FOLDER + "/profile.json"
        assert spmvgpu.cli.main(["calibrate", "--device", "cpu", "--quick", "--quiet", "--out", profile]) == 0
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
    """
    run_python(textwrap.dedent(code).replace("FOLDER", repr(str(tmp_path))))
