"""Pictures of partitions: how long the rows are, which part they are in, and how much the parts pad.

>>> import spmvgpu as sg
>>> parts = sg.partition.by_pmf([2, 5, 3, 7, 1, 5, 2, 6], powers=[1, 3])
>>> sg.plot_partition.densities({"by_pmf": parts}).get_ylabel() != ""
True
"""

from .plot.partition import densities, pmf, row_lengths

__all__ = ["densities", "pmf", "row_lengths"]
