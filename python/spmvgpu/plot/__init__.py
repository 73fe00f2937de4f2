"""Pictures: where a matrix has entries, how a format stores them, and how fast a solver converges.

Only a call needs matplotlib. `spmvgpu.plot_partition` draws partitions, and `spmvgpu.plot_symmetric` the
symmetric format.

>>> import spmvgpu as sg
>>> sg.plot.spy(sg.gallery.poisson1d(9)).get_title()
'9 x 9, 25 non-zeros'
"""

from .matrices import layout, residual_history, spy

__all__ = ["layout", "residual_history", "spy"]
