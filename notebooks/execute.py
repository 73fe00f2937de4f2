"""Run the notebooks and keep their outputs: ``python notebooks/execute.py``; needs the extra [notebook].

Run it on a machine that does nothing else: one of the pictures shows measured times.
"""

from __future__ import annotations

import base64
import io
import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from PIL import Image

FOLDER = Path(__file__).parent
COLOURS = 24  # of a picture, which is a quarter as large then
# Not everywhere: the kernel warns about itself.
STRICT = "import warnings\nwarnings.filterwarnings('error', module='__main__|spmvgpu')"


def execute(notebook: nbformat.NotebookNode, folder: Path) -> nbformat.NotebookNode:
    """The notebook with its outputs; a warning of its own code or of the package is an error."""
    notebook.cells.insert(0, nbformat.v4.new_code_cell(STRICT))
    resources = {"metadata": {"path": folder}}
    NotebookClient(notebook, timeout=300, resources=resources, record_timing=False).execute()
    del notebook.cells[0]
    for number, cell in enumerate((cell for cell in notebook.cells if cell.cell_type == "code"), start=1):
        cell.execution_count = number
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = number
    # Which Python ran them is of no interest to a reader, and another one every time.
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def shrink(notebook: nbformat.NotebookNode) -> None:
    """Store the pictures with a palette of few colours."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            picture = output.get("data", {}).get("image/png")
            if picture is not None:
                image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB")
                small = io.BytesIO()
                image.quantize(COLOURS, dither=Image.Dither.NONE).save(small, "png", optimize=True)
                output["data"]["image/png"] = base64.b64encode(small.getvalue()).decode()


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SPMVGPU_CACHE_DIR"] = folder  # as on a machine where nothing has been tuned or calibrated
        for path in sorted(FOLDER.glob("*.ipynb")):
            notebook = execute(nbformat.read(path, as_version=4), Path(folder))
            shrink(notebook)
            nbformat.write(notebook, path)
            print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
