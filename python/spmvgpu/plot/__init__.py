"""Pictures of matrices, formats, partitions and solves.

``import spmvgpu.plot`` does not import matplotlib; a call does.

>>> import spmvgpu as sg
>>> sg.plot.spy(sg.gallery.poisson1d(9)).get_title()
'9 x 9, 25 non-zeros'
"""

from typing import TYPE_CHECKING

from .._util.lazy import public_names
from .matrices import layout, residual_history, spy

if TYPE_CHECKING:
    from ..papers.mironowicz_pictures import TsmvSchedule, tsmv_schedule, tsmv_tiles
    from ..papers.yang2015_pictures import partition_densities, partition_rows, row_lengths

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

__getattr__, __dir__ = public_names(
    __name__, __all__, "..papers.yang2015_pictures", "..papers.mironowicz_pictures"
)
