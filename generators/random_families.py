"""Matrices drawn at random, another set for every seed: meshes, graphs, systems of blocks, bands and others.

A family is a function of a random generator and a number of non-zeros. It draws what a matrix is like, in
words, and says how its pattern is made. `sketch` adds what all families have in common: couplings that are
dropped or added, unknowns of a node, an order, and a law of the values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from spmvgpu import gallery
from spmvgpu.gallery import meshes

from . import families
from .families import canonical

Array = npt.NDArray[Any]
Random = np.random.Generator
#: From a matrix to another one.
Change: TypeAlias = Callable[[Random, sp.csr_array], sp.csr_array]
#: From a number of non-zeros to a matrix.
Family: TypeAlias = "Callable[[Random, float], Sketch]"
Nodes: TypeAlias = Callable[[Sequence[int], Random], sp.csr_array]


@dataclass(frozen=True)
class Sketch:
    """A matrix that is described and not made yet.

    Attributes
    ----------
    words : tuple of str
        Description of the matrices.
    pattern : callable
        From a random generator to the sparse matrix whose pattern it has; that of the nodes of a mesh.
    dof : int
        Unknowns per node.
    steps : tuple of callable
        Function of a random generator and the matrix that makes another matrix, applied in turn.
    """

    words: tuple[str, ...]
    pattern: Callable[[Random], sp.csr_array]
    dof: int = 1
    steps: tuple[Change, ...] = ()


def described(seed: int, number: int, least: float, most: float) -> tuple[str, str]:
    """The family of a matrix of a seed, and what it is like in words."""
    family, matrix = sketch(seed, number, least, most)
    return family, ", ".join(matrix.words)


def build(seed: int, number: int, least: float, most: float) -> sp.csr_array:
    """One of the matrices of a seed."""
    _, matrix = sketch(seed, number, least, most)
    rng = np.random.default_rng((seed, number, 1))
    made = canonical(matrix.pattern(rng))
    for step in matrix.steps:
        made = canonical(step(rng, made))
    return made


def sketch(seed: int, number: int, least: float, most: float) -> tuple[str, Sketch]:
    """The family of a matrix, and what it is like."""
    turn, place = divmod(number, len(FAMILIES))
    name = list(FAMILIES)[np.random.default_rng((seed, turn)).permutation(len(FAMILIES))[place]]
    family, is_loose = FAMILIES[name]
    rng = np.random.default_rng((seed, number, 0))
    matrix = family(rng, _between(rng, least, most))
    words, steps = list(matrix.words), list(matrix.steps)
    if is_loose and rng.random() < 0.3:
        share = _between(rng, 0.01, 0.3)
        words.append(f"{share:.0%} dropped")
        steps.append(partial(_without, share))
    if is_loose and rng.random() < 0.2:
        share = _between(rng, 0.001, 0.05)
        words.append(f"{share:.1%} added")
        steps.append(partial(_with_far, share))
    order = str(rng.choice(list(ORDERS), p=(0.5, 0.15, 0.2, 0.15))) if is_loose else "given"
    if order != "given":
        words.append(order)
        steps.append(ORDERS[order])
    if matrix.dof > 1:
        words.append(f"{matrix.dof} unknowns a node")
        steps.append(partial(_with_unknowns, matrix.dof))
        if rng.random() < 0.1:
            words.append("by component")
            steps.append(partial(_by_component, matrix.dof))
    # Differences on a grid have the same coefficients everywhere more often than other matrices.
    weights = np.array((0.35, 0.2, 0.1, 0.3, 0.05) if name == "grids" else (0.55, 0.2, 0.12, 0.05, 0.08))
    weights[list(VALUES).index("symmetric")] *= name not in UNSYMMETRIC
    values = str(rng.choice(list(VALUES), p=weights / weights.sum()))
    words.append(values)
    steps.append(VALUES[values])
    return name, Sketch(tuple(words), matrix.pattern, matrix.dof, tuple(steps))


def _between(rng: Random, low: float, high: float) -> float:
    """A number whose logarithm is uniform."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _whole(rng: Random, low: int, high: int) -> int:
    return round(_between(rng, low, high))


# -- what all families have in common ------------------------------------------------------------------------


def _pattern_of(rows: Array, cols: Array, shape: tuple[int, int]) -> sp.csr_array:
    """Ones at these places; coinciding ones become one."""
    return _ones(sp.csr_array(sp.coo_array((np.ones(len(rows), np.int8), (rows, cols)), shape=shape)))


def _ones(matrix: sp.csr_array) -> sp.csr_array:
    matrix.sum_duplicates()
    matrix.data = np.ones(matrix.nnz, np.int8)
    return matrix


def _kept(matrix: sp.csr_array, keep: Array) -> sp.csr_array:
    coo = matrix.tocoo()
    return sp.csr_array((coo.data[keep], (coo.row[keep], coo.col[keep])), shape=matrix.shape)


def _without(share: float, rng: Random, matrix: sp.csr_array) -> sp.csr_array:
    """Less a part of the couplings, each in both directions; the diagonal stays."""
    coo, weight = matrix.tocoo(), rng.random(matrix.shape[0])
    mixed = 1e4 * (weight[coo.row] + weight[coo.col])  # of both directions alike
    return _kept(matrix, (coo.row == coo.col) | (mixed - np.floor(mixed) >= share))


def _with_far(share: float, rng: Random, matrix: sp.csr_array) -> sp.csr_array:
    """With couplings of any two nodes, each in both directions."""
    ends = rng.integers(0, matrix.shape[0], (2, max(1, int(share * matrix.nnz / 2))))
    far = _pattern_of(np.concatenate(ends), np.concatenate(ends[::-1]), matrix.shape)
    return _ones(sp.csr_array(matrix + far))


def _at_random(rng: Random, matrix: sp.csr_array) -> sp.csr_array:
    return meshes.permuted(matrix, rng.permutation(matrix.shape[0]))


def _by_rcm(rng: Random, matrix: sp.csr_array) -> sp.csr_array:
    return meshes.permuted(matrix, reverse_cuthill_mckee(sp.csr_matrix(matrix), symmetric_mode=False))


def _in_pieces(rng: Random, matrix: sp.csr_array) -> sp.csr_array:
    """Pieces of the order, as of subdomains, in random order."""
    pieces = _whole(rng, 4, 400)
    return meshes.shuffled(matrix, max(1, matrix.shape[0] // pieces), int(rng.integers(1 << 30)))


ORDERS: dict[str, Change] = {
    "given": lambda rng, matrix: matrix,
    "random order": _at_random,
    "rcm": _by_rcm,
    "cut in pieces": _in_pieces,
}


def _with_unknowns(dof: int, rng: Random, matrix: sp.csr_array) -> sp.csr_array:
    return meshes.blocks(matrix, dof)


def _by_component(dof: int, rng: Random, matrix: sp.csr_array) -> sp.csr_array:
    """The first unknowns of all nodes before the second ones."""
    return meshes.permuted(matrix, np.arange(matrix.shape[0]).reshape(-1, dof).T.ravel())


def _with(matrix: sp.csr_array, values: Array) -> sp.csr_array:
    return sp.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def _distinct(rng: Random, matrix: sp.csr_array) -> sp.csr_array:
    return _with(matrix, rng.uniform(-1, 1, matrix.nnz))


def _symmetric(rng: Random, matrix: sp.csr_array) -> sp.csr_array:
    """A symmetric matrix, with entries wherever there are some in either triangle."""
    pattern = canonical(_ones(sp.csr_array(matrix + matrix.T)))
    return meshes.symmetric_values(pattern, int(rng.integers(1 << 30)))


def _few(rng: Random, matrix: sp.csr_array) -> sp.csr_array:
    known = rng.uniform(-1, 1, _whole(rng, 2, 64))
    return _with(matrix, known[rng.integers(0, len(known), matrix.nnz)])


def _by_diagonal(rng: Random, matrix: sp.csr_array) -> sp.csr_array:
    """One value for all entries of a diagonal."""
    coo = matrix.tocoo()
    by_diagonal = rng.uniform(-1, 1, sum(matrix.shape))
    return _with(matrix, by_diagonal[coo.col.astype(np.int64) - coo.row + matrix.shape[0]])


def _all_ones(rng: Random, matrix: sp.csr_array) -> sp.csr_array:
    return _with(matrix, np.ones(matrix.nnz))


VALUES: dict[str, Change] = {
    "distinct values": _distinct,
    "symmetric": _symmetric,
    "few values": _few,
    "a value per diagonal": _by_diagonal,
    "ones": _all_ones,
}


# -- meshes --------------------------------------------------------------------------------------------------


def _box(rng: Random, points: float, dim: int, least: int = 3) -> tuple[int, ...]:
    """Nodes along the axes of a box of random proportions."""
    sides = np.exp(rng.uniform(-0.8, 0.8, dim))
    sides *= (points / sides.prod()) ** (1 / dim)
    return tuple(max(least, round(side)) for side in sides)


def _triangles(nodes: Sequence[int], rng: Random) -> sp.csr_array:
    """Squares, each cut along one of its diagonals."""
    squares = meshes.cells(nodes)
    is_falling = rng.random(len(squares)) < rng.random()
    corners = np.where(is_falling[:, None], squares[:, [0, 1, 3, 2]], squares[:, [1, 3, 2, 0]])
    halves = [corners[:, [0, 1, 2]], corners[:, [0, 3, 2]]]
    return meshes.coupled(np.concatenate(halves), prod(nodes))


def _tetrahedra(nodes: Sequence[int], rng: Random) -> sp.csr_array:
    return meshes.coupled(meshes.tetrahedra(meshes.cells(nodes)), prod(nodes))


def _prisms(nodes: Sequence[int], rng: Random) -> sp.csr_array:
    return meshes.product(_triangles(nodes[:2], rng), meshes.solid(nodes[2:]))


def _delaunay(nodes: Sequence[int], rng: Random) -> sp.csr_array:
    """A triangulation of random points, numbered along a curve that fills the space."""
    from scipy.spatial import Delaunay

    points = rng.random((prod(nodes), len(nodes)))
    points = points[_along_curve(points)]
    return meshes.coupled(Delaunay(points).simplices, len(points))


def _along_curve(points: Array) -> Array:
    """The order of points by the interleaved bits of their coordinates (Morton)."""
    cell = (1023 * (points - points.min(axis=0)) / np.ptp(points, axis=0)).astype(np.int64)
    code = np.zeros(len(points), np.int64)
    for bit in range(10):
        for axis in range(points.shape[1]):
            code |= ((cell[:, axis] >> bit) & 1) << (bit * points.shape[1] + axis)
    return np.argsort(code, kind="stable")


# By dimensions of the box: name -> couplings per node of the box, and the pattern of its nodes.
ELEMENTS: dict[int, dict[str, tuple[int, Nodes]]] = {
    2: {
        "triangles": (7, _triangles),
        "quadrilaterals": (9, lambda nodes, rng: meshes.solid(nodes)),
        "Delaunay triangles": (7, _delaunay),
    },
    3: {
        "hexahedra": (27, lambda nodes, rng: meshes.solid(nodes)),
        "tetrahedra": (15, _tetrahedra),
        "prisms": (21, _prisms),
        "Delaunay tetrahedra": (16, _delaunay),
    },
}
# The same for elements with unknowns elsewhere than in the nodes of a box.
OTHER_ELEMENTS: dict[str, tuple[int, Nodes]] = {
    "quadratic tetrahedra": (215, lambda nodes, rng: meshes.quadratic_elements(nodes)),
    "edge elements": (115, lambda nodes, rng: meshes.edge_elements(nodes)),
}


def _unknowns(rng: Random, most: int = 6) -> int:
    return int(rng.integers(2, most + 1)) if rng.random() < 0.6 else 1


def _mesh(dim: int, rng: Random, nnz: float) -> Sketch:
    name = str(rng.choice(list(ELEMENTS[dim])))
    per_node, make = ELEMENTS[dim][name]
    dof = _unknowns(rng)
    nodes = _box(rng, nnz / (per_node * dof**2), dim)
    return Sketch((name,), partial(make, nodes), dof)


def _higher_order(rng: Random, nnz: float) -> Sketch:
    name = str(rng.choice(list(OTHER_ELEMENTS)))
    per_node, make = OTHER_ELEMENTS[name]
    dof = _unknowns(rng, 3) if name.startswith("quadratic") else 1
    return Sketch((name,), partial(make, _box(rng, nnz / (per_node * dof**2), 3)), dof)


def _shell(rng: Random, nnz: float) -> Sketch:
    dof = int(rng.integers(3, 7))
    points = nnz / (9 * dof**2)
    if rng.random() < 0.5:
        nodes = _box(rng, points, 2)
        return Sketch(("cylinder",), lambda rng: meshes.solid(nodes, closed=(1,)), dof)
    across = max(4, round((points / 14) ** 0.5))  # five plates of a hull thrice as long, and bulkheads
    hull, spacing = (3 * across, across, across), int(rng.integers(3, across + 1))
    return Sketch(("hull",), lambda rng: meshes.box_girder(hull, spacing), dof)


def _line(points: int, reach: int, closed: bool) -> sp.csr_array:
    """Neighbours up to `reach` on a line or a ring."""
    offsets = [offset for offset in range(-reach, reach + 1) if abs(offset) < points]
    if closed:
        offsets += [sign * (points - k) for k in range(1, reach + 1) for sign in (-1, 1) if k < points]
    return _ones(sp.csr_array(sp.diags_array(np.ones(len(offsets)), offsets=offsets, shape=(points, points))))


def _difference_grid(rng: Random, nnz: float) -> Sketch:
    dim, reach = int(rng.integers(1, 4)), 1 + int(rng.random() < 0.3)
    is_star = dim > 1 and rng.random() < 0.7
    per_point = 1 + 2 * dim * reach if is_star else (1 + 2 * reach) ** dim
    nodes = _box(rng, nnz / per_point, dim)
    closed = [bool(rng.random() < 0.2) for _ in nodes]
    holes = 0 if dim == 1 or rng.random() < 0.7 else int(rng.integers(1, 20))
    words = (f"{per_point}-point grid", f"{dim}-D", *(["periodic"] if any(closed) else []))
    return Sketch(
        (*words, *([f"{holes} holes"] if holes else [])),
        partial(_difference_pattern, nodes, reach, closed, is_star, holes),
    )


def _difference_pattern(
    nodes: Sequence[int], reach: int, closed: Sequence[bool], is_star: bool, holes: int, rng: Random
) -> sp.csr_array:
    made = sp.csr_array(np.ones((1, 1), np.int8))
    for points, is_closed in zip(nodes, closed, strict=True):
        line = _line(points, reach, is_closed)
        if is_star:
            made = sp.csr_array(
                sp.kron(made, sp.eye_array(points)) + sp.kron(sp.eye_array(made.shape[0]), line)
            )
        else:
            made = sp.csr_array(sp.kron(made, line, format="csr"))
    position = np.stack([axis.ravel() / size for axis, size in zip(np.indices(nodes), nodes, strict=True)])
    inside = np.ones(prod(nodes), bool)
    for _ in range(holes):
        centre, radius = rng.random((len(nodes), 1)), rng.uniform(0.02, 0.15)
        inside &= ((position - centre) ** 2).sum(axis=0) > radius**2
    return _ones(sp.csr_array(made[inside][:, inside]))


def _cloud(rng: Random, nnz: float) -> Sketch:
    dim, neighbours = int(rng.integers(2, 4)), _whole(rng, 6, 60)
    points, is_symmetric = max(neighbours + 1, int(nnz / neighbours)), bool(rng.random() < 0.5)
    centres = 0 if rng.random() < 0.6 else _whole(rng, 3, 100)
    words = (f"{neighbours} {'mutual ' if is_symmetric else ''}neighbours", f"{dim}-D")
    return Sketch(
        (*words, *([f"{centres} clusters"] if centres else [])),
        partial(_neighbours, points, dim, neighbours, is_symmetric, centres),
    )


def _neighbours(
    points: int, dim: int, count: int, is_symmetric: bool, centres: int, rng: Random
) -> sp.csr_array:
    """The nearest points of each point; with `is_symmetric` those of which one is near the other."""
    from scipy.spatial import cKDTree

    place = rng.random((points, dim))
    if centres:
        around = rng.random((centres, dim))[rng.integers(0, centres, points)]
        place = around + rng.normal(0, 0.3 / centres ** (1 / dim), (points, dim))
    place = place[_along_curve(place)]
    _, near = cKDTree(place).query(place, count)
    rows = np.repeat(np.arange(points), count)
    made = _pattern_of(rows, near.ravel(), (points, points))
    return _ones(sp.csr_array(made.multiply(made.T) + sp.eye_array(points))) if is_symmetric else made


# -- graphs and rectangular matrices -------------------------------------------------------------------------


def _skewed(rng: Random, nnz: float) -> Sketch:
    if rng.random() < 0.35:
        per_row, share = _whole(rng, 4, 40), rng.uniform(0.55, 1.0)
        levels = int(np.clip(np.ceil(np.log2(nnz / (0.8 * per_row * share**2))), 6, 22))
        kind = f"R-MAT of {levels} levels"
        return Sketch((kind, f"{share:.0%} of its nodes"), partial(_rmat, levels, per_row, share))
    exponent, mean = rng.uniform(1.8, 3.5), _between(rng, 2.5, 50)
    locality = 0.0 if rng.random() < 0.4 else rng.uniform(0.2, 0.95)
    n = max(100, int(nnz / mean))
    longest = min(n, _whole(rng, 100, 100_000))
    words = f"power law {exponent:.1f}", f"{mean:.0f} a row", *([f"{locality:.0%} near"] if locality else [])
    return Sketch(words, partial(_powerlaw, n, mean, exponent, longest, locality, bool(rng.random() < 0.4)))


def _rmat(levels: int, per_row: int, share: float, rng: Random) -> sp.csr_array:
    graph = gallery.rmat(levels, per_row, seed=int(rng.integers(1 << 30)))
    keep = np.sort(rng.permutation(graph.shape[0])[: int(share * graph.shape[0])])
    return _ones(sp.csr_array(graph[keep][:, keep]))


def _powerlaw(
    n: int, mean: float, exponent: float, longest: int, locality: float, both_ways: bool, rng: Random
) -> sp.csr_array:
    seed = int(rng.integers(1 << 30))
    graph = gallery.powerlaw(
        n, mean / (1 + both_ways), exponent=exponent, max_length=longest, locality=locality, seed=seed
    )
    return _ones(sp.csr_array(graph + graph.T) if both_ways else graph)


# Law -> lengths of a number of rows, with a mean.
LENGTHS: dict[str, Callable[[Random, int, float], Array]] = {
    "equal": lambda rng, rows, mean: np.full(rows, max(1, round(mean))),
    "uniform": lambda rng, rows, mean: rng.integers(0, max(2, round(2 * mean)), rows, endpoint=True),
    "geometric": lambda rng, rows, mean: rng.geometric(1 / (1 + mean), rows) - 1,
    "log-normal": lambda rng, rows, mean: rng.lognormal(np.log(mean) - 0.5, 1.0, rows).astype(np.int64),
    "mostly empty": lambda rng, rows, mean: np.where(rng.random(rows) < 0.15, round(mean / 0.15), 0),
}


def _by_length(
    words: tuple[str, ...], rows: int, cols: int, mean: float, law: str, rng: Random, turned: bool = False
) -> Sketch:
    """Rows with lengths of a law, and columns near the diagonal or anywhere."""
    near = 0.0 if rng.random() < 0.35 else 1.0 if rng.random() < 0.5 else rng.uniform(0.5, 0.99)
    window = _between(rng, 2 * mean + 4, max(2 * mean + 5, cols / 4))
    words = (*words, f"{mean:.0f} a row, {law}", *([f"{near:.0%} within {window:.0f}"] if near else []))
    return Sketch(words, partial(_random_rows, rows, cols, mean, law, near, window, turned))


def _random_rows(
    rows: int, cols: int, mean: float, law: str, near: float, window: float, turned: bool, rng: Random
) -> sp.csr_array:
    lengths = np.clip(LENGTHS[law](rng, rows, mean), 0, cols)
    at = np.repeat(np.arange(rows), lengths)
    anywhere = rng.integers(0, cols, len(at))
    beside = np.rint(at * (cols / rows) + rng.laplace(0, window / 4, len(at))).astype(np.int64)
    column = np.where(rng.random(len(at)) < near, np.clip(beside, 0, cols - 1), anywhere)
    made = _pattern_of(at, column, (rows, cols))
    return sp.csr_array(made.T) if turned else made


def _graph(rng: Random, nnz: float) -> Sketch:
    mean, law = _between(rng, 2, 60), str(rng.choice(list(LENGTHS)))
    n = max(100, int(nnz / mean))
    return _by_length(("graph",), n, n, mean, law, rng)


def _oblong(turned: bool, rng: Random, nnz: float) -> Sketch:
    mean, law = _between(rng, 2, 30), str(rng.choice(list(LENGTHS)))
    rows = max(200, int(nnz / mean))
    cols = max(20, int(rows / _between(rng, 4, 2000)))
    shape = f"{cols} x {rows}" if turned else f"{rows} x {cols}"
    return _by_length((shape,), rows, cols, min(mean, cols / 2), law, rng, turned)


def _long_rows(rng: Random, nnz: float) -> Sketch:
    rows = min(_whole(rng, 8, 5000), int(nnz / 100))
    mean = nnz / rows
    cols = int(mean * _between(rng, 1.5, 100))
    return _by_length((f"{rows} x {cols}",), rows, cols, mean, str(rng.choice(list(LENGTHS)[:4])), rng)


def _circuit(rng: Random, nnz: float) -> Sketch:
    nets = _whole(rng, 2, 60)
    n = max(100 * nets, int(nnz / 7))
    return Sketch((f"circuit of {nets} nets",), partial(_netlist, n, nets))


def _netlist(n: int, nets: int, rng: Random) -> sp.csr_array:
    return _ones(families.circuit(n, nets, int(rng.integers(1 << 30))))


# -- bands, and systems of blocks ----------------------------------------------------------------------------


def _band(rng: Random, nnz: float) -> Sketch:
    kind = str(rng.choice(["full band", "diagonals", "random band"]))
    count = _whole(rng, 3, 200)
    n = max(2 * count, int(nnz / count))
    width = count if kind == "full band" else _whole(rng, count, max(count + 1, n // 2))
    share = 0.5 if rng.random() < 0.6 else rng.uniform(0, 1)  # of the band that lies below the diagonal
    words = f"{kind}, {count} a row", *([] if kind == "full band" else [f"{width} wide"])
    return Sketch(words, partial(_band_pattern, kind, n, count, width, round(share * width)))


def _band_pattern(kind: str, n: int, count: int, width: int, below: int, rng: Random) -> sp.csr_array:
    if kind == "random band":
        rows = np.repeat(np.arange(n), count)
        cols = rows + rng.integers(-below, width - below, len(rows), endpoint=True)
        inside = (cols >= 0) & (cols < n)
        return _pattern_of(rows[inside], cols[inside], (n, n))
    chosen = np.arange(width) if kind == "full band" else rng.permutation(width)[: count - 1]
    offsets = np.unique(np.append(chosen - below, 0))
    diagonals = sp.diags_array(np.ones(len(offsets)), offsets=offsets, shape=(n, n))
    return _ones(sp.csr_array(diagonals))


def _arrow(rng: Random, nnz: float) -> Sketch:
    reach, heads = int(rng.integers(0, 8)), _whole(rng, 1, 60)
    share = float(rng.choice([1.0, 0.3, 0.05]))
    n = max(4 * heads, int(nnz / (2 * reach + 1 + 2 * heads * share)))
    place = str(rng.choice(["first", "last", "spread"]))
    words = f"arrow of {heads} {place}", f"{share:.0%} full", f"{2 * reach + 1} diagonals"
    return Sketch(words, partial(_arrow_pattern, n, reach, heads, share, place))


def _arrow_pattern(n: int, reach: int, heads: int, share: float, place: str, rng: Random) -> sp.csr_array:
    ends = {"first": np.arange(heads), "last": np.arange(n - heads, n), "spread": rng.permutation(n)[:heads]}
    rows = np.repeat(ends[place], n)
    cols = np.tile(np.arange(n), heads)
    keep = rng.random(len(rows)) < share
    head = _pattern_of(rows[keep], cols[keep], (n, n))
    return _ones(sp.csr_array(_line(n, reach, False) + head + head.T))


def _saddle(rng: Random, nnz: float) -> Sketch:
    kind = str(rng.choice(["control", "constraints", "constraints"]))
    dim = int(rng.integers(2, 4))
    name = str(rng.choice(["triangles", "quadrilaterals"] if dim == 2 else ["hexahedra", "tetrahedra"]))
    per_node, make = ELEMENTS[dim][name]
    if kind == "control":
        mesh = partial(make, _box(rng, nnz / (2 * per_node + 4), dim))
        return Sketch(("optimal control", name), lambda rng: _ones(families.kkt(mesh(rng))))
    dof, ratio, length = int(rng.integers(1, 4)), _between(rng, 0.03, 0.6), _whole(rng, 2, 40)
    nodes = _box(rng, nnz / (per_node * dof**2 + 2 * ratio * dof * length), dim)
    is_near, regularised = bool(rng.random() < 0.7), bool(rng.random() < 0.4)
    words = f"saddle point, {name}", f"{ratio:.0%} {'local' if is_near else 'random'} constraints of {length}"
    mesh = partial(make, nodes)
    return Sketch(words, partial(_saddle_pattern, mesh, dof, ratio, length, is_near, regularised))


def _saddle_pattern(
    mesh: Callable[[Random], sp.csr_array],
    dof: int,
    ratio: float,
    length: int,
    is_near: bool,
    regularised: bool,
    rng: Random,
) -> sp.csr_array:
    mesh_part = meshes.blocks(mesh(rng), dof)
    unknowns = mesh_part.shape[0]
    count = max(1, int(ratio * unknowns))
    near, window = float(is_near), 4.0 * length
    constraints = _random_rows(count, unknowns, length, "equal", near, window, False, rng)
    corner = sp.eye_array(count, dtype=np.int8) if regularised else None
    return _ones(sp.csr_array(sp.block_array([[mesh_part, constraints.T], [constraints, corner]])))


def _partly_filled(rng: Random, nnz: float) -> Sketch:
    dim = int(rng.integers(2, 4))
    name = str(rng.choice(list(ELEMENTS[dim])))
    per_node, make = ELEMENTS[dim][name]
    if rng.random() < 0.4:
        low, high = sorted(int(size) for size in rng.integers(1, 13, 2))
        nodes = _box(rng, nnz / (per_node * ((low + high) / 2) ** 2), dim)
        kind = f"{name}, {low} to {high} unknowns a node"
        return Sketch((kind,), partial(_blocks_of_sizes, partial(make, nodes), low, high))
    side, fill, alike = int(rng.integers(2, 9)), rng.uniform(0.25, 0.95), bool(rng.random() < 0.5)
    nodes = _box(rng, nnz / (per_node * side**2 * fill), dim)
    words = f"{name}, {fill:.0%} of blocks of {side}", *(["all alike"] if alike else [])
    return Sketch(words, partial(_blocks_with_gaps, partial(make, nodes), side, fill, alike))


def _blocks_of_sizes(
    mesh: Callable[[Random], sp.csr_array], low: int, high: int, rng: Random
) -> sp.csr_array:
    graph = mesh(rng)
    sizes = rng.integers(low, high, graph.shape[0], endpoint=True)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    ones = np.ones(offsets[-1], np.int32)
    unknowns_of = sp.csr_array((ones, np.arange(offsets[-1]), offsets), shape=(graph.shape[0], offsets[-1]))
    return _ones(sp.csr_array(unknowns_of.T @ graph @ unknowns_of))


def _blocks_with_gaps(
    mesh: Callable[[Random], sp.csr_array], side: int, fill: float, alike: bool, rng: Random
) -> sp.csr_array:
    graph = mesh(rng)
    if alike:
        block = (rng.random((side, side)) < fill) | np.eye(side, dtype=bool)
        return _ones(sp.csr_array(sp.kron(graph, block.astype(np.int8), format="csr")))
    full = meshes.blocks(graph, side)
    coo = full.tocoo()
    return _kept(full, (coo.row == coo.col) | (rng.random(full.nnz) < fill))


def _triangular(rng: Random, nnz: float) -> Sketch:
    kinds: list[Family] = [partial(_mesh, 2), partial(_mesh, 3), _graph, _band, _skewed]
    whole = kinds[int(rng.integers(0, len(kinds)))](rng, 2 * nnz)
    is_lower = bool(rng.random() < 0.5)
    words = ("lower triangle" if is_lower else "upper triangle", *whole.words)
    steps: list[Change] = []
    if whole.dof > 1:
        words += (f"{whole.dof} unknowns a node",)
        steps.append(partial(_with_unknowns, whole.dof))
    return Sketch(words, whole.pattern, steps=(*steps, partial(_triangle, is_lower)))


def _triangle(is_lower: bool, rng: Random, matrix: sp.csr_array) -> sp.csr_array:
    """With a diagonal, as of a factor."""
    half = sp.tril(matrix, -1) if is_lower else sp.triu(matrix, 1)
    return _ones(sp.csr_array(half + sp.eye_array(matrix.shape[0])))


# -- matrices of jobs ----------------------------------------------------------------------------------------


def _dense_blocks(rng: Random, nnz: float) -> Sketch:
    """Discontinuous elements: all unknowns of a cell couple to all of the cells across its faces."""
    dim = int(rng.integers(2, 4))
    unknowns = _whole(rng, 3, 20)
    cells = _box(rng, nnz / ((1 + 2 * dim) * unknowns**2), dim)
    star = partial(_difference_pattern, cells, 1, [False] * dim, True, 0)
    return Sketch((f"discontinuous elements, {dim}-D", f"blocks of {unknowns}"), _in_blocks(star, unknowns))


def _in_blocks(graph: Callable[[Random], sp.csr_array], size: int) -> Callable[[Random], sp.csr_array]:
    return lambda rng: meshes.blocks(graph(rng), size)


def _all_time_steps(rng: Random, nnz: float) -> Sketch:
    """A grid at all times, each coupled to the times before."""
    dim, before = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    times = _whole(rng, 8, 300)
    nodes = _box(rng, nnz / times / (1 + 2 * dim + before), dim)
    words = f"all of {times} time steps, {dim}-D", f"{before} before"
    return Sketch(words, partial(_time_steps, nodes, times, before))


def _time_steps(nodes: Sequence[int], times: int, before: int, rng: Random) -> sp.csr_array:
    space = _difference_pattern(nodes, 1, [False] * len(nodes), True, 0, rng)
    earlier = sp.diags_array(np.ones(before), offsets=-np.arange(1, before + 1), shape=(times, times))
    steps = sp.kron(sp.eye_array(times), space) + sp.kron(earlier, sp.eye_array(space.shape[0]))
    return _ones(sp.csr_array(steps))


def _queue(rng: Random, nnz: float) -> Sketch:
    """States of queues in a row: a customer arrives, goes to the next queue or leaves."""
    queues = int(rng.integers(2, 5))
    places = _box(rng, nnz / (queues + 2), queues)
    return Sketch((f"{queues} queues in a row",), partial(_queue_pattern, places))


def _queue_pattern(places: Sequence[int], rng: Random) -> sp.csr_array:
    state = np.indices(places).reshape(len(places), -1)
    number = np.arange(state.shape[1])
    rows, cols = [number], [number]
    for queue in range(-1, len(places)):
        after = state.copy()
        if queue >= 0:
            after[queue] -= 1
        if queue + 1 < len(places):
            after[queue + 1] += 1
        may = ((after >= 0) & (after < np.array(places)[:, None])).all(axis=0)
        rows.append(number[may])
        cols.append(np.ravel_multi_index(tuple(after[:, may]), places))
    return _pattern_of(np.concatenate(rows), np.concatenate(cols), (len(number), len(number)))


def _attention(rng: Random, nnz: float) -> Sketch:
    """Blocks of words beside each other, some anywhere, and some that see all and are seen by all."""
    per_row = _whole(rng, 3, 12)
    size = int(rng.choice([side for side in (16, 32, 64) if 2 * (side * per_row) ** 2 <= nnz] or [8]))
    rows = max(2 * per_row, int(nnz / (size**2 * per_row)))
    window, heads = max(1, per_row // 2), int(rng.integers(0, 3))
    graph = partial(_attention_pattern, rows, window, per_row - window, heads)
    return Sketch((f"attention, blocks of {size}", f"{per_row} a row"), _in_blocks(graph, size))


def _attention_pattern(rows: int, window: int, random: int, heads: int, rng: Random) -> sp.csr_array:
    at = np.repeat(np.arange(rows), random)
    far = _pattern_of(at, rng.integers(0, rows, len(at)), (rows, rows))
    offsets = np.arange(window) - window // 2
    near = sp.diags_array(np.ones(window), offsets=offsets, shape=(rows, rows))
    number = np.tile(np.arange(rows), heads)
    head = _pattern_of(np.repeat(np.arange(heads), rows), number, (rows, rows))
    return _ones(sp.csr_array(near + far + head + head.T))


def _radial(rng: Random, nnz: float) -> Sketch:
    """Functions around points, not zero within a distance."""
    dim, mean = int(rng.integers(2, 4)), _whole(rng, 15, 120)
    points = max(2 * mean, int(nnz / mean))
    is_ordered = bool(rng.random() < 0.5)
    words = f"radial functions, {dim}-D", f"{mean} a row", *(["along a curve"] if is_ordered else [])
    return Sketch(words, partial(_within, points, dim, mean, is_ordered))


def _within(points: int, dim: int, mean: int, is_ordered: bool, rng: Random) -> sp.csr_array:
    from scipy.spatial import cKDTree

    place = rng.random((points, dim))
    place = place[_along_curve(place)] if is_ordered else place
    ball = {2: np.pi, 3: 4 / 3 * np.pi}[dim]
    pairs = cKDTree(place).query_pairs((mean / points / ball) ** (1 / dim), output_type="ndarray").T
    number = np.arange(points)
    return _pattern_of(np.append(pairs, number), np.append(pairs[::-1], number), (points, points))


def _counts(rng: Random, nnz: float) -> Sketch:
    """Counts of genes in cells, or of words in texts: some columns are in most rows."""
    mean, cols = _between(rng, 50, 800), _whole(rng, 2000, 200_000)
    rows, spread = max(10, int(nnz / mean)), rng.uniform(1.0, 2.0)
    return Sketch(
        (f"counts, {rows} x {cols}", f"{mean:.0f} a row"), partial(_counts_pattern, rows, cols, mean, spread)
    )


def _counts_pattern(rows: int, cols: int, mean: float, spread: float, rng: Random) -> sp.csr_array:
    share = np.sort(rng.lognormal(0, spread, cols))[rng.permutation(cols)]
    lengths = np.minimum(rng.lognormal(np.log(mean) - 0.1, 0.45, rows).astype(np.int64), cols // 2)
    at = np.repeat(np.arange(rows), lengths)
    return _pattern_of(at, rng.choice(cols, len(at), p=share / share.sum()), (rows, cols))


def _spectral(rng: Random, nnz: float) -> Sketch:
    """Quadrilaterals or hexahedra with nodes along their edges: all nodes of an element couple."""
    dim = int(rng.integers(2, 4))
    order = int(rng.integers(3, 9 if dim == 2 else 5))
    per_element = (order + 1) ** (2 * dim)
    elements = _box(rng, nnz / per_element, dim, least=1)
    return Sketch(
        (f"spectral elements of order {order}, {dim}-D",), partial(_spectral_pattern, elements, order)
    )


def _spectral_pattern(elements: Sequence[int], order: int, rng: Random) -> sp.csr_array:
    made = sp.csr_array(np.ones((1, 1), np.int8))
    for count in elements:
        element = np.arange(count)[:, None] * order + np.arange(order + 1)
        cell = np.repeat(np.arange(count), order + 1)
        incidence = _pattern_of(cell, element.ravel(), (count, count * order + 1))
        line = _ones(sp.csr_array(incidence.T.astype(np.int32) @ incidence.astype(np.int32)))
        made = sp.csr_array(sp.kron(made, line, format="csr"))
    return _ones(made)


def _words_of_letters(rng: Random, nnz: float) -> Sketch:
    """Words of an assembly graph (de Bruijn), each before those that may follow it; many dead ends."""
    ends, branching = rng.uniform(0.1, 0.5), rng.uniform(0.0, 0.6)
    words = max(16, int(nnz / ((1 - ends) * (1 + branching))))
    is_hashed = bool(rng.random() < 0.5)
    said = f"de Bruijn graph of {words} words", f"{ends:.0%} dead ends"
    return Sketch(
        (*said, "numbered by a hash" if is_hashed else "numbered by letters"),
        partial(_following_words, words, ends, branching, is_hashed),
    )


def _following_words(words: int, ends: float, branching: float, is_hashed: bool, rng: Random) -> sp.csr_array:
    following = np.minimum(rng.geometric(1 / (1 + branching), words), 4)  # there are four letters
    at = np.repeat(np.arange(words), np.where(rng.random(words) < ends, 0, following))
    next_word = (4 * at + rng.integers(0, 4, len(at))) % words
    return _pattern_of(at, rng.permutation(words)[next_word] if is_hashed else next_word, (words, words))


def _citations(rng: Random, nnz: float) -> Sketch:
    """Papers that cite earlier ones, recent or famous."""
    mean, recent = _whole(rng, 5, 40), rng.uniform(0.3, 0.9)
    papers = max(4 * mean, int(nnz / mean))
    words = f"citations of {papers} papers", f"{mean} each", f"{recent:.0%} recent"
    return Sketch(words, partial(_citation_pattern, papers, mean, recent))


def _citation_pattern(papers: int, mean: int, recent: float, rng: Random) -> sp.csr_array:
    at = np.repeat(np.arange(papers), rng.lognormal(np.log(mean) - 0.4, 0.9, papers).astype(np.int64))
    age = rng.exponential(papers / 40, len(at)).astype(np.int64) + 1
    fame = rng.pareto(1.2, papers)
    famous = np.searchsorted(np.cumsum(fame / fame.sum()), rng.random(len(at)))
    cited = np.where(rng.random(len(at)) < recent, at - age, np.minimum(famous, papers - 1))
    is_earlier = (cited >= 0) & (cited < at)
    return _pattern_of(at[is_earlier], cited[is_earlier], (papers, papers))


def _incomplete_factor(rng: Random, nnz: float) -> Sketch:
    """The lower factor of a mesh with entries in places of some levels of fill."""
    dim, level = int(rng.integers(2, 4)), int(rng.integers(1, 3))
    name = str(rng.choice(["grid", *ELEMENTS[dim]]))
    per_node, make = ELEMENTS[dim].get(name, (2 * dim + 1, _star))
    fill = 1.5 if dim == 2 else 2.0
    nodes = _box(rng, 2 * nnz / (per_node * fill**level), dim)
    words = f"incomplete factor, {level} levels of fill", f"{name}, {dim}-D"
    return Sketch(words, partial(_factor_pattern, partial(make, nodes), level))


def _star(nodes: Sequence[int], rng: Random) -> sp.csr_array:
    return _difference_pattern(nodes, 1, [False] * len(nodes), True, 0, rng)


def _factor_pattern(mesh: Callable[[Random], sp.csr_array], level: int, rng: Random) -> sp.csr_array:
    pattern = sp.csr_array(mesh(rng), dtype=np.int32)
    for _ in range(level):  # eliminating an unknown couples all that it was coupled to
        through = sp.tril(pattern, -1, format="csr") @ sp.triu(pattern, 1, format="csr")
        pattern = sp.csr_array(pattern + through)
        pattern.data[:] = 1
    return _ones(sp.csr_array(sp.tril(pattern)))


# Name -> how a matrix is drawn, and whether couplings and the order of the nodes may be changed.
FAMILIES: dict[str, tuple[Family, bool]] = {
    "meshes, 2-D": (partial(_mesh, 2), True),
    "meshes, 3-D": (partial(_mesh, 3), True),
    "quadratic and edge elements": (_higher_order, True),
    "shells": (_shell, True),
    "grids": (_difference_grid, True),
    "clouds": (_cloud, True),
    "partly filled blocks": (_partly_filled, True),
    "saddle points": (_saddle, True),
    "skewed graphs": (_skewed, False),
    "other graphs": (_graph, False),
    "circuits": (_circuit, False),
    "bands": (_band, False),
    "arrows": (_arrow, False),
    "tall": (partial(_oblong, False), False),
    "wide": (partial(_oblong, True), False),
    "long rows": (_long_rows, False),
    "triangular": (_triangular, False),
    "dense blocks": (_dense_blocks, False),
    "all time steps": (_all_time_steps, False),
    "queues": (_queue, False),
    "attention": (_attention, False),
    "radial functions": (_radial, False),
    "counts": (_counts, False),
    "spectral elements": (_spectral, False),
    "assembly graphs": (_words_of_letters, False),
    "citations": (_citations, False),
    "incomplete factors": (_incomplete_factor, False),
}
UNSYMMETRIC = (
    "tall",
    "wide",
    "long rows",
    "triangular",
    "all time steps",
    "queues",
    "counts",
    "assembly graphs",
    "citations",
    "incomplete factors",
)
