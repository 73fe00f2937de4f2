"""What commands load, which module asks what a matrix is, and the package without the papers."""

from __future__ import annotations

import re
import subprocess
import sys
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
