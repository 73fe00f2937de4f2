"""Settings of Sphinx; the site is made by ``sphinx-build -W docs docs/_build/html``.

The package must be installed, with its extra "docs".
"""

import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import spmvgpu

sys.path.insert(0, str(Path(__file__).parents[1]))  # the experiments, which are not installed
sys.path.insert(0, str(Path(__file__).parent))

from generate import generate

from experiments.report import repository

project = "spmvgpu"
author = "the spmvgpu developers"
copyright = f"2026, {author}"
version = release = spmvgpu.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx_design",
]
# Files of `generated` that other pages include are no pages.
exclude_patterns = [
    "_build",
    "generated/layouts.md",
    "generated/speeds.md",
    "generated/tables",
    "generated/tally.md",
]
html_theme = "pydata_sphinx_theme"
html_title = "spmvgpu"
html_theme_options = {
    "github_url": repository(),
    "navbar_center": [],  # the sidebar has all pages
    "navigation_with_keys": False,
    "show_prev_next": False,
    "show_toc_level": 2,
}
html_sidebars = {"**": ["globaltoc.html"]}
html_static_path = ["_static"]
html_css_files = ["site.css"]

# The notebooks carry their outputs; notebooks/execute.py makes them, and tests run them.
nb_execution_mode = "off"
here = Path(__file__).parent
shutil.copytree(here.parent / "notebooks", here / "notebooks", dirs_exist_ok=True)
# Their links to pages lead there from the repository, where the folder of notebooks is beside docs.
for notebook in (here / "notebooks").glob("*.ipynb"):
    notebook.write_text(notebook.read_text(encoding="utf-8").replace("](../docs/", "](../"), encoding="utf-8")
for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
    text = (here.parent / name).read_text(encoding="utf-8")
    text = re.sub(r"\]\((?!https?:|#|docs/)", "](../", text)  # as a page in docs names these files
    (here / name.lower()).write_text(text.replace("](docs/", "]("), encoding="utf-8")
generate()

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
suppress_warnings = ["toc.not_included"]
# `sphinx-build -b linkcheck` asks these addresses only from the branch that they name.
linkcheck_ignore = [rf"{re.escape(repository())}/(blob|tree)/main/"]

templates_path = ["_templates"]
maximum_signature_line_length = 40  # longer signatures have a line for each argument, for narrow screens

default_role = "autolink"
nitpicky = True
nitpick_ignore_regex = [("py:obj", ".*")]  # of the default role, for which a name without a target is code
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
doctest_test_doctest_blocks = "default"

autodoc_mock_imports = ["torch"] if find_spec("torch") is None else []


def lead_to_the_site(app, docname, source):
    """Links to files outside of docs: to their copy on the site, or else to the repository."""
    text = re.sub(
        r"\]\(\.\./(CHANGELOG|CONTRIBUTING)\.md", lambda found: f"]({found[1].lower()}.md", source[0]
    )
    text = text.replace("](../notebooks/", "](notebooks/")
    if "/" not in docname:  # pages in folders name pages of docs so
        text = text.replace("](../", f"]({repository()}/blob/main/")
    source[0] = text


def setup(app):
    """Connect what lets links work, examples without their library pass, and private constructors hide."""
    app.connect("source-read", lead_to_the_site)
    needs = {"spmvgpu.jax": "jax", "spmvgpu.torch": "torch", "spmvgpu.distributed": "mpi4py"}

    def skip_examples(app, what, name, obj, options, lines):
        room = next((room for room in needs if name.startswith(room)), None)
        if room and find_spec(needs[room]) is None:
            bare = [line.partition("  # doctest:")[0] for line in lines]
            lines[:] = [f"{line}  # doctest: +SKIP" if ">>>" in line else line for line in bare]

    def hide_constructor(app, what, name, obj, options, signature, return_annotation):
        """Of classes that functions make instances of, whose docstrings describe no parameters."""
        if what == "class" and "\n    Parameters\n" not in (obj.__doc__ or ""):
            return "", ""

    app.connect("autodoc-process-docstring", skip_examples)
    app.connect("autodoc-process-signature", hide_constructor)
