"""Figures of the report; matplotlib is needed where one is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

OWN, GREY, OTHER = "#2a5db0", "#8a8f98", "#c0792a"  # this library, SciPy, others


@contextmanager
def drawing(path: Path, rows: int = 1, columns: int = 1, **options: Any) -> Iterator[tuple[Any, Any]]:
    """A figure and the panels of its first row; it is saved at the end of the context."""
    import matplotlib

    matplotlib.use("Agg")  # no display is needed, or asked for
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(rows, columns, layout="constrained", squeeze=False, **options)
    yield figure, panels[0]
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
