"""Pictures of matrices, formats, partitions and solves.

``import spmvgpu.plot`` does not import matplotlib; a call does.

>>> import spmvgpu as sg
>>> sg.plot.spy(sg.gallery.poisson1d(9)).get_title()
'9 x 9, 25 non-zeros'
"""

from .matrices import layout, residual_history, spy
from .partitions import partition_densities, partition_rows, row_lengths
from .tsmv import TsmvSchedule, tsmv_schedule, tsmv_tiles

__all__ = [
    "TsmvSchedule",
    "layout",
    "partition_densities",
    "partition_rows",
    "residual_history",
    "row_lengths",
    "spy",
    "tsmv_schedule",
    "tsmv_tiles",
]


def __dir__() -> list[str]:
    return __all__
