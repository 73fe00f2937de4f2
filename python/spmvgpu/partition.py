"""Partitions of the rows of a matrix over processors of different computing power.

The methods are from W. Yang, K. Li, Z. Mo, K. Li, "Performance Optimization Using Partitioned SpMV on GPUs
and Multicore CPUs", IEEE Transactions on Computers 64(9), 2015. Sections, algorithms and formulas in this
module are those of this paper.

`by_rows` and `by_nnz` cut the rows in their order. `by_pmf` sorts them by length first, which reduces
padding. `by_submatrices` separates the blocks on the diagonal from the other entries.

>>> from spmvgpu import partition
>>> parts = partition.by_pmf([2, 5, 3, 7, 1, 5, 2, 6], powers=[1, 3])
>>> parts.sets
(array([0, 2, 4, 6]), array([1, 3, 5, 7]))
>>> parts.nnz, parts.width, round(parts.mean_density, 2)
(array([ 8, 23]), array([3, 7]), 0.78)
"""

from typing import TYPE_CHECKING

from ._util.lazy import public_names
from .multi_device.partitions import Partition, by_nnz, by_rows, row_lengths

if TYPE_CHECKING:
    from .papers.guo2011 import Separator
    from .papers.guo2011_planning import separator
    from .papers.yang2015 import Submatrices, by_pmf, by_submatrices, pmf

__all__ = [
    "Partition",
    "Separator",
    "Submatrices",
    "by_nnz",
    "by_pmf",
    "by_rows",
    "by_submatrices",
    "pmf",
    "row_lengths",
    "separator",
]

__getattr__, __dir__ = public_names(__name__, __all__, "..papers.yang2015", "..papers.guo2011_planning")
