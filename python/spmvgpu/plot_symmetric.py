"""Pictures of the symmetric format: its tiles over the matrix, and the schedule of a tile step by step.

>>> import spmvgpu as sg
>>> op = sg.aslinearoperator(sg.gallery.poisson2d(8), format="tsmv", device="cpu")
>>> sg.plot_symmetric.schedule_of(op).entries > 0
True
"""

from .plot.symmetric import Schedule, schedule, schedule_of, tiles

__all__ = ["Schedule", "schedule", "schedule_of", "tiles"]
