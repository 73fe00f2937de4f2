"""Pictures of the symmetric format show its arrays: each entry once, never two threads at one place."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from spmvgpu import plot
from spmvgpu.gallery import meshes

EDGES = meshes.cuthill_mckee(meshes.symmetric_values(meshes.edge_elements((7, 4, 4))))
NODES = meshes.symmetric_values(meshes.blocks(meshes.solid((12, 9)), 3))
# Options and a matrix: single rows, nodes of several, and the poster's blocks.
KINDS = {
    "halo": ({"block": 1}, EDGES),
    "blocks": ({"block": 3}, NODES),
    "poster": ({"variant": "poster"}, EDGES),
}
each_kind = pytest.mark.parametrize("kind", KINDS)


def operator(kind: str, slices: int = 2) -> sg.SparseOperator:
    options, matrix = KINDS[kind]
    return sg.aslinearoperator(matrix, "tsmv", "cpu", threads=64, slices=slices, **options)


def schedules(op: sg.SparseOperator) -> list[plot.TsmvSchedule]:
    return [plot.TsmvSchedule.of(op, tile) for tile in range(len(op.arrays()["tiles"]) - 1)]


@each_kind
def test_schedules_and_remainder_hold_the_lower_triangle_once(kind: str) -> None:
    op = operator(kind)
    matrix = op.tocsr()
    found = []
    for plan in schedules(op):
        for step, thread in np.argwhere(plan.rows >= 0):
            row, column = plan.rows[step, thread], plan.columns[step, thread]
            height, width = plan.heights[step, thread], plan.widths[step, thread]
            assert column + width <= row or (column, width) == (row, height)
            block = itertools.product(range(row, row + height), range(column, column + width))
            found += [(i, j) for i, j in block if j <= i]  # those on the diagonal are stored in full
    arrays = op.arrays()
    offsets = arrays["remainder_row_offsets"]
    rest = sp.csr_array(matrix.shape)
    if len(offsets):
        parts = (arrays["remainder_values"], arrays["remainder_col_indices"], offsets)
        rest = sp.csr_array(parts, shape=matrix.shape)
    lower = sp.coo_array(sp.tril(rest))
    found += list(zip(lower.row, lower.col, strict=True))
    expected = sp.coo_array(sp.tril(matrix))
    assert len(found) == len(set(found))
    assert set(found) == set(zip(expected.row.tolist(), expected.col.tolist(), strict=True))


@each_kind
def test_no_two_threads_meet(kind: str) -> None:
    for plan in schedules(operator(kind)):
        for rows, columns, stores in zip(plan.rows, plan.columns, plan.stores, strict=True):
            mirrored = columns[(rows >= 0) & (columns < rows)]
            assert len(np.unique(mirrored)) == len(mirrored)
            assert len(np.unique(rows[stores])) == stores.sum()
        assert plan.stores.sum() == len(np.unique(plan.rows[plan.rows >= 0]))  # each row is stored once


@each_kind
def test_schedule_is_drawn_with_its_fake_entries(pyplot, kind: str) -> None:
    op = operator(kind, slices=4)
    plan = plot.TsmvSchedule.of(op)
    ax = plot.tsmv_schedule(op, threads=8)
    texts = [text.get_text() for text in ax.texts]
    assert texts.count("fake") == (plan.rows[:, :8] == plan.FAKE).sum()
    assert len(ax.patches) == plan.stores[:, :8].sum()
    step, thread = np.argwhere(plan.rows[:, :8] >= 0)[5]
    row, column = plan.rows[step, thread], plan.columns[step, thread]
    expected = f"{row}-{row + 2}, {column}-{column + 2}" if kind == "blocks" else f"{row}, {column}"
    assert expected in texts
    assert f"{plan.entries} entries in {len(plan.rows)} steps" in ax.get_title()
    ax.figure.canvas.draw()


@each_kind
def test_tiles_are_drawn_over_the_matrix(pyplot, kind: str) -> None:
    op = operator(kind)
    ax = pyplot.figure().add_subplot()
    assert plot.tsmv_tiles(op, ax=ax) is ax
    tiles = op.arrays()["tiles"]
    squares = [patch for patch in ax.patches if not patch.get_fill()]
    assert [patch.get_width() for patch in squares] == (op.options["block"] * np.diff(tiles[:, 0])).tolist()
    shaded = sum(patch.get_width() for patch in ax.patches if patch.get_fill())
    assert shaded == op.options["block"] * len(op.arrays()["halo_nodes"])
    ax.figure.canvas.draw()


def test_other_formats_and_tiles_are_refused() -> None:
    with pytest.raises(ValueError, match="format 'csr'"):
        plot.TsmvSchedule.of(sg.aslinearoperator(sp.csr_array(np.eye(3)), "csr", "cpu"))
    with pytest.raises(ValueError, match="tile=9"):
        plot.TsmvSchedule.of(operator("halo"), 9)
