"""Notebooks run and are kept with their outputs; the code of README and docs runs."""

import contextlib
import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("nbformat", reason="the notebook extra is not installed")
pytest.importorskip("nbclient", reason="the notebook extra is not installed")
pytest.importorskip("ipykernel", reason="the notebook extra is not installed")
pytest.importorskip("matplotlib", reason="the notebook extra is not installed")

sys.path.insert(0, str(Path(__file__).parents[1] / "notebooks"))  # no part of the installed package
import nbformat
from execute import execute, faults, shrink
from nbformat.v4 import new_output

from support import naming, nightly

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))
CODE = "coming-from", "formats", "solvers", "symmetric", "reordering", "update-values", "settings"
PAGES = [f"docs/{name}.md" for name in (*CODE, "several-devices")]
LIBRARIES = {"jax": "0.10", "torch": None}  # that some notebooks need, and from which version on
LARGEST = 300_000  # bytes of a notebook with its pictures


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request):
    return request.param


@pytest.fixture
def notebook(path):
    return nbformat.read(path, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def kinds(cell):
    """What a cell shows: printed text counts once, in however many pieces it came."""
    found = [output.get("name", output.output_type) for output in cell.outputs]
    return [kind for number, kind in enumerate(found) if kind != "stdout" or kind not in found[:number]]


def figures(cell):
    """Numbers that a cell prints on every device: no times, and none of cells with the tag "device"."""
    if cell.execution_count == 1 or "device" in cell.metadata.get("tags", ()):
        return []  # the first cell lists the devices
    text = "".join(output.text for output in cell.outputs if output.get("name") == "stdout")
    untimed = re.sub(r"[\d.,]+ (?:us|ms|s)\b", "", text)
    return re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?", untimed)


def assert_agree(found, expected):
    """Processors round differently, which may move an iteration; small numbers are rounding errors."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        absolute = 1 if one.isdigit() and other.isdigit() else 1e-6
        one, other = (float(text.replace(",", "")) for text in (one, other))
        assert one == pytest.approx(other, rel=0.05, abs=absolute)


@pytest.mark.parametrize(
    ("printed", "others", "agree"),
    [
        ("9 iterations, 0.236 s in all", "8 iterations, 0.104 s in all", True),
        ("iterations: 20\n", "iterations: 9\n", False),
        ("eigenvalue 0.00194", "eigenvalue 0.00293", False),
        ("residual 9.2e-09", "residual 5.0e-10", True),
        ("residual 9.2e-09", "residual 5.0e-03", False),
        ("262,144 unknowns", "110,592 unknowns", False),
        ("1 of 2", "1", False),
    ],
)
def test_figures_that_differ_are_found(printed, others, agree):
    cells = [
        nbformat.v4.new_code_cell(execution_count=2, outputs=[new_output("stream", text=text)])
        for text in (printed, others)
    ]
    with contextlib.nullcontext() if agree else pytest.raises(AssertionError):
        assert_agree(*map(figures, cells))


def test_there_are_notebooks():
    assert NOTEBOOKS


def test_is_kept_with_its_outputs(notebook, path):
    nbformat.validate(notebook)
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert faults(notebook) == []
    assert re.search(r"^cpu: \w", cells[0].outputs[0].text, re.MULTILINE)  # where the outputs come from
    drawn = [cell for cell in cells if any("image/png" in output.get("data", {}) for output in cell.outputs)]
    assert drawn
    for cell in drawn:  # what readers are told who do not see it
        assert cell.metadata["mystnb"]["image"]["alt"], cell.source
    assert path.stat().st_size < LARGEST


def test_ends_with_links_that_lead_somewhere(notebook, path):
    assert notebook.cells[-1].source.splitlines().count("## Where next") == 1
    for cell in notebook.cells:
        for target in re.findall(r"\]\(([^)#]+)", cell.source if cell.cell_type == "markdown" else ""):
            assert (path.parent / target).is_file(), target


@pytest.mark.parametrize(
    ("output", "found"),
    [
        (new_output("stream", text="residual 1e-9, us/product, 5 / 8\n"), None),
        (new_output("stream", name="stderr", text="UserWarning"), "stderr"),
        (new_output("error", ename="ValueError"), "error"),
        (new_output("stream", text="read from /home/someone/A.mtx\n"), "a path, /home/someone/A.mtx"),
        (new_output("display_data", {"text/html": "<td>2026-01-31</td></tr>"}), "a date, 2026-01-31"),
        (new_output("display_data", {"text/plain": "<object at 0x7f00aa>"}), "an address, 0x7f00aa"),
        (new_output("display_data", {"image/png": "/ab/c0x123456"}), None),
    ],
)
def test_outputs_not_to_keep_are_found(output, found):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(outputs=[output])])
    assert faults(notebook) == ([f"cell 0: {found}"] if found else [])


def test_uses_public_names_only(notebook):
    for cell in code_cells(notebook):
        assert not re.findall(r"(?:\.|import )_[a-z]\w*", cell.source)


@pytest.mark.parametrize(
    "path",
    [path if path.stem == "quickstart" else nightly([path])[0] for path in NOTEBOOKS],
    ids=lambda path: path.stem,
)
def test_runs(notebook, tmp_path):
    source = "\n".join(cell.source for cell in code_cells(notebook))
    for library, version in LIBRARIES.items():
        if re.search(rf"^import {library}$", source, re.MULTILINE):
            pytest.importorskip(library, minversion=version)
    kept = [kinds(cell) for cell in code_cells(notebook)]
    kept_figures = [figures(cell) for cell in code_cells(notebook)]
    again = execute(notebook, tmp_path)
    assert [kinds(cell) for cell in code_cells(again)] == kept
    for cell, figures_kept in zip(code_cells(again), kept_figures, strict=True):
        with naming(cell=cell.source):
            assert_agree(figures(cell), figures_kept)
    shrink(again)
    nbformat.validate(again)


def test_code_of_readme_and_docs_runs():
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in ("README.md", *PAGES)]
    blocks = re.findall(r"^```python\n(.*?)^```", "\n".join(texts), re.MULTILINE | re.DOTALL)
    names = {}
    for block in blocks:
        if "import cupy" not in block:
            exec(compile(block, "README.md", "exec"), names)
    assert names["info"] == 0
    assert names["A"].shape[0] == len(names["x"])
    assert names["parts"].nnz.sum() == names["A"].nnz  # the last page's last example
