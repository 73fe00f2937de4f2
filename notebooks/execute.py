"""Run the notebooks and keep their outputs: ``python notebooks/execute.py``.

Names of notebooks may follow. Needs the extra [notebook]. Some outputs are
times, so run it on an idle machine with a GPU, CuPy, JAX, pyamg and PyTorch.
"""

from __future__ import annotations

import argparse
import base64
import io
import os
import re
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from PIL import Image

import spmvgpu as sg

FOLDER = Path(__file__).parent
# Not everywhere: the kernel warns about itself. A GPU need not have a profile:
# `explain` says whose is used.
STRICT = """\
import warnings
warnings.filterwarnings('error', module='__main__|spmvgpu')
warnings.filterwarnings('ignore', 'there is no profile of')
"""
# What is not the same on the next machine, or the next day, and is no result.
UNWANTED = {
    "a path": re.compile(r"(?<![\w.<])/(?:[\w.+-]+/)+[\w.+-]*"),
    "a date": re.compile(r"\b\d{4}-\d{2}-\d{2}\b"),
    "an address": re.compile(r"\b0x[0-9a-f]{6,}\b"),
}


def execute(
    notebook: nbformat.NotebookNode, folder: Path
) -> nbformat.NotebookNode:
    """The notebook with its outputs; its and spmvgpu's warnings are errors."""
    notebook.cells.insert(0, nbformat.v4.new_code_cell(STRICT))
    NotebookClient(
        notebook,
        timeout=300,
        resources={"metadata": {"path": folder}},
        record_timing=False,
        coalesce_streams=True,
    ).execute()
    del notebook.cells[0]
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for number, cell in enumerate(code, start=1):
        cell.execution_count = number
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = number
    # Which Python ran them is of no interest, and differs every time.
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def shrink(notebook: nbformat.NotebookNode) -> None:
    """Store the pictures with a palette."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            picture = output.get("data", {}).get("image/png")
            if picture is not None:
                large, small = base64.b64decode(picture), io.BytesIO()
                image = Image.open(io.BytesIO(large)).convert("RGB")
                image = image.quantize(256, dither=Image.Dither.NONE)
                image.save(small, "png", optimize=True)
                encoded = base64.b64encode(small.getvalue()).decode()
                output["data"]["image/png"] = encoded


def faults(notebook: nbformat.NotebookNode) -> list[str]:
    """What the outputs show that is not to be kept."""
    found = []
    for number, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            if output.output_type == "error" or output.get("name") == "stderr":
                found.append(f"cell {number}: {output.get('name', 'error')}")
            data = output.get("data", {})
            texts = [data[kind] for kind in data if kind.startswith("text/")]
            text = "\n".join([output.get("text", ""), *texts])
            for what, pattern in UNWANTED.items():
                for match in pattern.finditer(text):
                    found.append(f"cell {number}: {what}, {match[0]}")
    return found


def missing() -> list[str]:
    """What this machine lacks for outputs that are complete."""
    gpu = ["a GPU"] if len(sg.devices()) == 1 else []
    libraries = "cupy", "jax", "pyamg", "torch"
    return gpu + [name for name in libraries if find_spec(name) is None]


def main() -> int:
    names = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
    known = ", ".join(names)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {known}")
    chosen = parser.parse_args().names or names
    for name in chosen:
        if name not in names:
            parser.error(f"there is no notebook {name!r}; there are {known}")
    if lacking := ", ".join(missing()):
        print(
            f"outputs are incomplete: this machine lacks {lacking}",
            file=sys.stderr,
        )
    found = []
    with tempfile.TemporaryDirectory() as folder:
        # As on a machine where nothing has been tuned or calibrated.
        os.environ["SPMVGPU_CACHE_DIR"] = folder
        for name in chosen:
            path = FOLDER / f"{name}.ipynb"
            notebook = execute(nbformat.read(path, as_version=4), Path(folder))
            shrink(notebook)
            found += [f"{path.name}, {fault}" for fault in faults(notebook)]
            nbformat.write(notebook, path)
            print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")
    print(*found, sep="\n", end="\n" if found else "", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
