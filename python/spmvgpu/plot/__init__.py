"""Pictures: where a matrix has entries, how a format stores them, and how fast a solver converges.

Only a call needs matplotlib. `spmvgpu.plot_partition` draws partitions, and `spmvgpu.plot_symmetric` the
symmetric format.
"""

from .matrices import layout, residual_history, spy

__all__ = ["layout", "residual_history", "spy"]
