"""What the pictures share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._util.types import HostArray

if TYPE_CHECKING:  # importing it takes long, and it may be missing
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The colour of what is stored and is no entry of the matrix.
PADDING = (0.85, 0.85, 0.85, 1.0)


def pyplot_module() -> Any:
    try:
        import matplotlib.pyplot as pyplot
    except ImportError as error:
        raise ImportError('spmvgpu.plot needs matplotlib: pip install "spmvgpu[plot]"') from error
    return pyplot


def panels(count: int, height: float, **given: object) -> tuple[Figure, HostArray]:
    """A new figure of panels one below the other, and their axes."""
    subplots = pyplot_module().subplots
    figure, axes = subplots(count, 1, figsize=(9, height), layout="constrained", squeeze=False, **given)
    return figure, axes[:, 0]


def axes_or_new(ax: Axes | None, **figure: object) -> Axes:
    """The axes that a caller gives, or the axes of a new figure."""
    return pyplot_module().figure(layout="constrained", **figure).add_subplot() if ax is None else ax
