"""Every notebook runs from top to bottom and is kept without outputs; README and docstring examples run."""

import doctest
import re
from pathlib import Path

import pytest

import spmvgpu as sg
from support import STRICT_WARNINGS

nbformat = pytest.importorskip("nbformat", reason="the notebook extra is not installed")

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return nbformat.read(request.param, as_version=4)


def test_there_are_notebooks():
    assert NOTEBOOKS


def test_is_kept_without_outputs(notebook):
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


def test_runs(notebook, tmp_path):
    nbclient = pytest.importorskip("nbclient", reason="the notebook extra is not installed")
    pytest.importorskip("ipykernel", reason="the notebook extra is not installed")
    pytest.importorskip("matplotlib", reason="the notebook extra is not installed")
    # Not everywhere: the kernel warns about itself.
    notebook.cells.insert(0, nbformat.v4.new_code_cell(STRICT_WARNINGS))
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": tmp_path}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    assert any("image/png" in output.get("data", {}) for output in outputs)


@pytest.mark.parametrize("module", [sg, sg.linalg], ids=lambda module: module.__name__)
def test_examples_in_docstrings(module):
    results = doctest.testmod(module)
    assert results.attempted > 0
    assert results.failed == 0


def test_readme_code_runs():
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    names = {}
    for block in blocks:
        if "import cupy" not in block:
            exec(compile(block, "README.md", "exec"), names)
    assert names["info"] == 0
    assert names["A"].shape[0] == len(names["z"])
