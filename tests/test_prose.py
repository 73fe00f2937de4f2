"""Commands that the documentation names are there."""

import re
from importlib.util import find_spec
from pathlib import Path

from experiments.__main__ import COMMANDS
from experiments.papers import PAPERS
from spmvgpu import cli
from support import over

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "docs/*.rst", "experiments/*.md", "notebooks/*.ipynb")
    for path in ROOT.glob(pattern)
    if path.name
    not in {"changelog.md", "contributing.md"}  # copies that a build of the site made at some time
)
SUBCOMMANDS = {"spmvgpu": {"", *cli.COMMANDS}, "experiments": {"", *COMMANDS, *PAPERS}}
OTHERS = {"mpi4py", "mypy", "pip", "pytest", "venv"}


def test_there_are_pages():
    assert {"README.md", "CONTRIBUTING.md", "guide.md"} <= {page.name for page in PAGES}


@over("page", PAGES)
def test_a_command_in_prose_is_there(page):
    for module, name in re.findall(r"python3? -m (\w[\w.]*)(?: ([a-z]\w*))?", page.read_text()):
        root = module.split(".")[0]
        assert root in OTHERS or find_spec(module), f"python -m {module}"
        assert name in SUBCOMMANDS.get(module, {name}), f"python -m {module} {name}"
