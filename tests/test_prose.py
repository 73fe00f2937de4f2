"""The documentation names commands that are there, shows output that is true, and is written plainly."""

import importlib.util
import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from experiments.__main__ import COMMANDS
from experiments.papers import PAPERS
from spmvgpu import cli

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "docs/*.rst", "experiments/*.md", "notebooks/*.ipynb")
    for path in ROOT.glob(pattern)
    if path.name not in {"changelog.md", "contributing.md"}  # copies, made by an earlier build of the site
)
SUBCOMMANDS = {"spmvgpu": {"", *cli.COMMANDS}, "experiments": {"", *COMMANDS, *PAPERS}}
OTHERS = {"mpi4py", "mypy", "pip", "pytest", "venv"}


def test_there_are_pages():
    assert {"README.md", "CONTRIBUTING.md", "formats.md"} <= {page.name for page in PAGES}


@pytest.mark.parametrize("page", PAGES)
def test_a_command_in_prose_is_there(page):
    for module, name in re.findall(r"python3? -m (\w[\w.]*)(?: ([a-z]\w*))?", page.read_text()):
        root = module.split(".")[0]
        assert root in OTHERS or find_spec(module), f"python -m {module}"
        assert name in SUBCOMMANDS.get(module, {name}), f"python -m {module} {name}"


def test_the_sidebar_has_few_pages():
    trees = re.findall(r"```\{toctree\}\n(.*?)```", (ROOT / "docs" / "index.md").read_text(), re.DOTALL)
    lines = [line for tree in trees for line in tree.splitlines()]
    assert 1 <= len([line for line in lines if line and not line.startswith(":")]) <= 12


# -- the README ----------------------------------------------------------------------------------------------


def test_the_output_in_the_readme_is_true(monkeypatch, capsys):
    readme = (ROOT / "README.md").read_text()
    code, shown = re.search(r"```python\n(.*?)```.*?```text\n(.*?)```", readme, re.DOTALL).groups()
    monkeypatch.setenv("SPMVGPU_DEVICE", "cpu")
    exec(code, {})
    printed = capsys.readouterr().out
    number = r"\d[\d.]*(?:e-?\d+)?"
    assert re.sub(number, "N", printed) == re.sub(number, "N", shown)
    # Processors round differently, which may move an iteration or the last digit of a residual.
    found, expected = (list(map(float, re.findall(number, text))) for text in (printed, shown))
    assert found == pytest.approx(expected, rel=0.05)


# -- the linter ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prose():
    pytest.importorskip("markdown_it", reason="the extra [lint] is not installed")
    spec = importlib.util.spec_from_file_location("prose", ROOT / "tools" / "prose.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["prose"] = module  # named tuples look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["prose"]


@pytest.fixture(scope="module")
def rules(prose):
    return prose.read_rules((ROOT / "tools" / "prose.txt").read_text())


FOUND = {
    "a phrase": ("Plain.\n\nIts speed is that of a copy.", 3, "possessive"),
    "a word over two lines": ("A larger block comes\ninto question.", 1, "is considered"),
    "a word in a table": ("| a | b |\n|---|---|\n| convert anew | c |", 3, "again"),
    "a heading that says nothing": ("# Title\n\n## See\n\ntext", 3, "say what is below"),
    "a long heading": (f"# {'word ' * 12}", 1, "heading of more than"),
    "a long sentence": (f"Short. {'word ' * 45}.", 1, "45 words"),
}
NOT_FOUND = {
    "code in a line": "`that of` is a name.",
    "a block of code": "```python\nx = 1  # that of anew\n```",
    "a word of a heading in a sentence": "See the table.",
    "two sentences": f"{'word ' * 30}. {'word ' * 30}.",
    "a comment": "<!-- anew -->",
}


@pytest.mark.parametrize("case", FOUND)
def test_the_linter_finds(prose, rules, case):
    text, line, advice = FOUND[case]
    ((where, what),) = prose.findings(prose.in_markdown(text), rules)
    assert where == line
    assert advice in what


@pytest.mark.parametrize("case", NOT_FOUND)
def test_the_linter_passes(prose, rules, case):
    assert not list(prose.findings(prose.in_markdown(NOT_FOUND[case]), rules))


def test_the_linter_reads_notebooks_and_docstrings(prose, rules):
    cells = [{"cell_type": kind, "source": ["anew"]} for kind in ("code", "markdown")]
    notebook = json.dumps({"cells": cells})
    assert [number for number, _ in prose.findings(prose.in_notebook(notebook), rules)] == [2]
    public = 'def f():\n    """Convert anew.\n\n    Examples\n    --------\n    >>> f()  # anew\n    """\n'
    private = 'def g():\n    """Convert anew."""\n'
    assert [line for line, _ in prose.findings(prose.in_docstrings(private + public), rules)] == [3]


def test_the_linter_reads_errors_and_warnings(prose, rules):
    python = (
        "def f(x):\n"
        "    if x:\n        raise ValueError(f'{x} is no matrix')\n"
        "    warnings.warn('convert it anew', stacklevel=2)\n"
        "    print('anew')\n"
    )
    assert [line for line, _ in prose.findings(prose.in_messages(python), rules)] == [3, 4]


@pytest.mark.parametrize(
    "text",
    [
        "Rows are added up in that order, and no more in the order of columns.",
        "It takes less time, and leaves the cores to others.",
        "Products take 0.9 of the time.",
        "Products take 0.92 to 0.98 of the time.",
        "It finds them in a seventh of the time.",
        "A method whose residual has ceased to fall gives way to the next.",
        "Each column ends by itself.",
        "It turns to multigrid.",
        "It is never chosen unasked.",
    ],
)
def test_the_linter_knows_phrases(prose, rules, text):
    assert list(prose.findings(prose.in_markdown(text), rules))


def test_the_linter_reads_comments(prose):
    python = "# one\n# comment\nx = 1  # another\n# a third\ny = 'a#b'\n#!x\n"
    assert list(prose.comments(python, "#")) == [(1, "one comment"), (3, "another"), (4, "a third")]
    cpp = "// two\n//\n// paragraphs\nint x;  // one\n        // more\nconst char* u = 'https://a';"
    assert list(prose.comments(cpp, "//")) == [(1, "two"), (3, "paragraphs"), (4, "one more")]


def test_the_number_of_comments_with_a_phrase_only_falls(prose, capsys):
    assert not list(prose.over_budgets(prose.BUDGETS))
    *_, message = prose.over_budgets({"^namespace ": (0, 1)})
    assert "at most 0: reword" in message
    assert "lower the budget from 1 to 0" in capsys.readouterr().out


def test_the_linter_finds_lost_links(prose):
    here = "https://github.com/spmvgpu/spmvgpu"
    raw = here.replace("github.com", "raw.githubusercontent.com")
    text = f"[a]({here}/blob/main/README.md)\n[b]({here}/blob/main/lost.md#x)\n![c]({raw}/main/docs/lost.png)"
    assert [line for line, _ in prose.lost_links(text, here)] == [2, 3]
    assert [line for line, _ in prose.relative_links("[a](docs/b.md)\n[c](https://d.e)\n[f]: docs/g.md")] == [
        1,
        3,
    ]
