"""What the pictures share."""

from __future__ import annotations

from typing import Any

#: The colour of what is stored and is no entry of the matrix.
PADDING = (0.85, 0.85, 0.85, 1.0)


def pyplot_module() -> Any:
    try:
        import matplotlib.pyplot as pyplot
    except ImportError as error:
        raise ImportError('spmvgpu.plot needs matplotlib: pip install "spmvgpu[plot]"') from error
    return pyplot


def axes_or_new(ax: Any, **figure: Any) -> Any:
    """The axes that a caller gives; without them, those of a new figure."""
    return pyplot_module().figure(layout="constrained", **figure).add_subplot() if ax is None else ax
