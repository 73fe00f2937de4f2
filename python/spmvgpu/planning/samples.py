"""The matrices that a device is calibrated with.

They are generated, quickly and sorted as they come, and span what users have: from 10^3 to 3 * 10^7
non-zeros, even and uneven rows, columns side by side, within a band and anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .. import gallery
from .._util.types import HostArray
from ..gallery import meshes


@dataclass(frozen=True)
class Sample:
    """One matrix: `build` makes it, as a canonical float64 `csr_array`, from `kind` and `arguments`."""

    kind: str
    arguments: tuple[Any, ...]

    @property
    def name(self) -> str:
        return f"{self.kind}({', '.join(map(str, self.arguments))})"

    def build(self) -> sp.csr_array:
        return KINDS[self.kind].build(*self.arguments)


def dense(rows: int, cols: int) -> sp.csr_array:
    """Every entry stored."""
    return _spread(np.full(rows, cols), np.zeros(rows, np.int64), cols, cols)


def even(rows: int, cols: int, per_row: int, window: int = 0) -> sp.csr_array:
    """`per_row` entries in every row, spread over `window` columns about the diagonal, or over all (0)."""
    return _about_diagonal(np.full(rows, per_row), cols, window)


def varied(rows: int, cols: int, mean: float, spread: float, window: int = 0) -> sp.csr_array:
    """As `even`, with log-normal row lengths whose standard deviation is `spread` times their mean."""
    sigma = np.sqrt(np.log1p(spread**2))
    lengths = np.random.default_rng(1).lognormal(np.log(mean) - sigma**2 / 2, sigma, rows)
    return _about_diagonal(np.rint(lengths).astype(np.int64), cols, window)


def outliers(rows: int, per_row: int, count: int, length: int) -> sp.csr_array:
    """Short rows near the diagonal, and `count` long rows among them."""
    lengths = np.full(rows, per_row)
    lengths[np.linspace(0, rows - 1, count).astype(np.int64)] = length
    return _about_diagonal(lengths, rows, 100)


def mostly_empty(rows: int, per_row: int, fraction: float) -> sp.csr_array:
    """Entries in every 1 / `fraction`-th row alone, anywhere."""
    lengths = np.zeros(rows, np.int64)
    lengths[:: round(1 / fraction)] = per_row
    return _about_diagonal(lengths, rows, 0)


def mesh(nodes: int, degree: int, window: int, unknowns: int) -> sp.csr_array:
    """Symmetric: nodes in a good order, each with about `degree` neighbours and `unknowns` unknowns."""
    half = sp.tril(even(nodes, nodes, degree, window), -1)
    graph = sp.csr_array(half + half.T + 4 * degree * sp.eye_array(nodes))
    if unknowns > 1:
        graph = sp.csr_array(sp.kron(graph, np.ones((unknowns, unknowns)), format="csr"))
    graph.sum_duplicates()
    graph = sp.csr_array(
        (graph.data, graph.indices.astype(np.int32), graph.indptr.astype(np.int32)), shape=graph.shape
    )
    graph.has_canonical_format = True
    return graph


def _about_diagonal(lengths: HostArray, cols: int, window: int) -> sp.csr_array:
    rows = len(lengths)
    lengths = np.minimum(lengths, cols)
    spans = np.maximum(lengths, window or cols)
    starts = np.clip(np.arange(rows) * cols // max(rows, 1) - spans // 2, 0, cols - spans)
    return _spread(lengths, starts, spans, cols)


def _spread(lengths: HostArray, starts: HostArray, spans: Any, cols: int) -> sp.csr_array:
    """Rows with their columns anywhere in their spans, ascending as they are made, without sorting."""
    rng = np.random.default_rng(0)
    row_offsets = np.concatenate(([0], np.cumsum(lengths)))
    # Sums of exponential gaps are spread like sorted uniform numbers. The k-th column of a row is moved on by
    # k, so that no two coincide.
    ends = np.cumsum(rng.standard_exponential(row_offsets[-1]))
    before = np.concatenate(([0.0], ends))[row_offsets[:-1]]
    total = np.concatenate(([0.0], ends))[row_offsets[1:]] - before + rng.standard_exponential(len(lengths))
    scale = (np.broadcast_to(spans, lengths.shape) - lengths) / total
    position = np.arange(row_offsets[-1]) - np.repeat(row_offsets[:-1], lengths)
    columns = ((ends - np.repeat(before, lengths)) * np.repeat(scale, lengths)).astype(np.int64) + position
    columns += np.repeat(starts, lengths)
    matrix = sp.csr_array(
        (rng.random(len(columns)), columns.astype(np.int32), row_offsets.astype(np.int32)),
        shape=(len(lengths), cols),
    )
    matrix.has_canonical_format = True
    return matrix


def quadratic(n: int) -> sp.csr_array:
    """Quadratic elements, `n` along each axis."""
    return meshes.symmetric_values(meshes.quadratic_elements((n, n, n)))


def powerlaw(n: int, mean: float, exponent: float, longest: int, locality: float) -> sp.csr_array:
    """As `gallery.powerlaw`."""
    return gallery.powerlaw(n, mean, exponent=exponent, max_length=longest, locality=locality)


class Kind(NamedTuple):
    """How a matrix is made of some arguments, and about how many entries it has then."""

    build: Callable[..., sp.csr_array]
    nnz: Callable[..., float]


KINDS = {
    "dense": Kind(dense, lambda rows, cols: rows * cols),
    "even": Kind(even, lambda rows, cols, per_row, window=0: rows * per_row),
    "varied": Kind(varied, lambda rows, cols, mean, spread, window=0: rows * mean),
    "outliers": Kind(outliers, lambda rows, per_row, count, length: rows * per_row + count * length),
    "mostly_empty": Kind(mostly_empty, lambda rows, per_row, fraction: rows * per_row * fraction),
    "mesh": Kind(mesh, lambda nodes, degree, window, unknowns: nodes * (degree + 1) * unknowns**2),
    "poisson2d": Kind(gallery.poisson2d, lambda n: 5 * n**2),
    "poisson3d": Kind(lambda n, points: gallery.poisson3d(n, points=points), lambda n, points: points * n**3),
    "elasticity2d": Kind(gallery.elasticity2d, lambda n: 36 * n**2),
    "elasticity3d": Kind(gallery.elasticity3d, lambda n: 243 * n**3),
    "quadratic": Kind(quadratic, lambda n: 215 * n**3),
    "powerlaw": Kind(powerlaw, lambda n, mean, exponent, longest, locality: n * mean),
    "lp_like": Kind(gallery.lp_like, lambda rows, cols, per_column: cols * per_column),
}

# Arguments of the kinds above; a comment says what the lines after it are there for.
# fmt: off
_GENERAL: dict[str, tuple[tuple[Any, ...], ...]] = {
    "poisson2d": ((40,), (150,), (450,), (1200,), (1800,), (2500,)),
    "poisson3d": (
        (16, 7), (45, 7), (90, 7), (130, 7), (165, 7), (10, 27), (28, 27), (60, 27), (80, 27), (105, 27),
    ),
    "elasticity2d": ((35,), (150,), (500,)),
    "elasticity3d": ((6,), (13,), (20,), (30,), (40,)),
    "quadratic": ((12,), (24,), (36,)),
    "even": (
        # bands
        (3000, 3000, 5, 50), (3000, 3000, 60, 600), (20_000, 20_000, 3, 40), (20_000, 20_000, 16, 2000),
        (20_000, 20_000, 100, 8000), (150_000, 150_000, 8, 300), (150_000, 150_000, 30, 20_000),
        (600_000, 600_000, 12, 1000), (600_000, 600_000, 24, 6000), (600_000, 600_000, 24, 60_000),
        (300_000, 300_000, 45, 4000), (250_000, 250_000, 60, 40_000), (100_000, 100_000, 50, 1000),
        (50_000, 50_000, 30, 1500), (3_000_000, 3_000_000, 4, 100), (2_000_000, 2_000_000, 8, 200_000),
        # bands with few gaps or none
        (1000, 1000, 32, 40), (3000, 3000, 48, 48), (120_000, 120_000, 2, 10), (40_000, 40_000, 20, 24),
        (500_000, 500_000, 24, 30),
        # anywhere: x in the L1, in the L2 and beyond
        (1000, 1000, 10), (5000, 5000, 4), (5000, 5000, 80), (40_000, 40_000, 20), (250_000, 250_000, 4),
        (250_000, 250_000, 40), (1_000_000, 1_000_000, 8), (1_000_000, 1_000_000, 16),
        (4_000_000, 4_000_000, 3), (1_000_000, 16_000_000, 12), (8_000_000, 20_000_000, 2),
        # wide and short, tall and narrow
        (200, 100_000, 500), (2000, 1_000_000, 1000), (50, 20_000, 3000), (4, 500_000, 100_000),
        (1_000_000, 500, 5), (200_000, 64, 2), (3_000_000, 3000, 4),
        # one entry a row
        (10_000, 10_000, 1, 1), (1_000_000, 1_000_000, 1, 1), (5_000_000, 5_000_000, 1, 1),
    ),
    "varied": (
        (3000, 3000, 10, 0.5), (3000, 3000, 40, 1.5), (30_000, 30_000, 12, 0.3, 1000),
        (30_000, 30_000, 12, 1.0), (30_000, 30_000, 60, 2.0, 5000), (100_000, 100_000, 40, 0.3, 2000),
        (20_000, 20_000, 50, 0.3, 3000), (200_000, 200_000, 6, 0.6, 500), (300_000, 300_000, 10, 0.3, 3000),
        (300_000, 300_000, 10, 1.0, 3000), (300_000, 300_000, 30, 0.6),
        (1_000_000, 1_000_000, 12, 0.5, 20_000), (1_000_000, 1_000_000, 12, 1.5),
        (2_000_000, 2_000_000, 5, 0.8, 500),
    ),
    "mesh": (
        (2000, 12, 100, 1), (15_000, 2, 200, 1), (20_000, 13, 400, 1), (100_000, 1, 400, 1),
        (150_000, 7, 3000, 1), (500_000, 14, 8000, 1), (60_000, 8, 600, 2), (1200, 13, 100, 3),
        (8000, 13, 300, 3), (30_000, 13, 1000, 3), (100_000, 14, 3000, 3), (4000, 5, 200, 6),
        (20_000, 9, 400, 6),
    ),
    "powerlaw": (
        (5000, 6, 2.1, 1000, 0.0), (50_000, 10, 2.1, 5000, 0.0), (300_000, 8, 2.1, 5000, 0.7),
        (300_000, 25, 2.5, 2000, 0.3), (800_000, 10, 2.1, 10_000, 0.0), (1_000_000, 3, 3.0, 300, 0.5),
    ),
    "outliers": (
        (2000, 4, 2, 2000), (20_000, 3, 1, 20_000), (200_000, 5, 10, 100_000), (1_000_000, 4, 3, 1_000_000),
        (50_000, 20, 500, 800),
    ),
    "mostly_empty": ((10_000, 6, 0.2), (100_000, 8, 0.1), (2_000_000, 8, 0.1)),
    "lp_like": ((300, 30_000, 5), (2000, 300_000, 8)),
    "dense": ((100, 100), (500, 500), (1500, 1500), (3000, 3000)),
}
# fmt: on


def general_samples(max_nnz: int) -> Iterator[Sample]:
    """What the library's own model is fitted to: all formats are timed on each."""
    for kind, entries in _GENERAL.items():
        for arguments in entries:
            if KINDS[kind].nnz(*arguments) <= max_nnz:
                yield Sample(kind, arguments)
