"""Pictures of partitions, looked at through what was drawn."""

import numpy as np
import pytest

from spmvgpu import partition, plot

pytestmark = pytest.mark.usefixtures("pyplot")
LENGTHS = np.array([2, 5, 0, 7, 1, 5, 2, 6])


def splits(lengths=LENGTHS):
    every = {"rows": partition.by_rows, "nnz": partition.by_nnz, "pmf": partition.by_pmf}
    return {name: split(lengths, [1, 0, 2]) for name, split in every.items()}


def test_row_lengths():
    ax = plot.row_lengths(LENGTHS)
    np.testing.assert_allclose(ax.lines[0].get_xydata(), np.column_stack(partition.pmf(LENGTHS)))
    assert ax.get_xscale() == "linear"
    assert plot.row_lengths([1, 2, 10_000]).get_xscale() == "symlog"
    assert plot.row_lengths(LENGTHS, ax=ax) is ax


def test_partition_rows():
    figure = plot.partition_rows(LENGTHS, splits())
    assert len(figure.axes) == 3
    for ax, parts in zip(figure.axes, splits().values(), strict=True):
        # Of every part that has rows, its padding and the rows on top of it.
        drawn = [patch.get_data() for patch in ax.patches]
        assert [padding.values.tolist() for padding in drawn[::2]] == [[w] for w in parts.width[[0, 2]]]
        rows = np.concatenate([LENGTHS[rows] for rows in parts.sets])
        np.testing.assert_array_equal(np.concatenate([heights.values for heights in drawn[1::2]]), rows)
        assert f"{100 * parts.mean_density:.0f} %" in ax.get_title(loc="left")


def test_many_rows_are_drawn_as_means(rng):
    lengths = rng.integers(0, 9, 10_000)
    figure = plot.partition_rows(lengths, {"pmf": partition.by_pmf(lengths, [1, 2])}, pixels=50)
    heights = [patch.get_data() for patch in figure.axes[0].patches][1::2]
    assert sum(len(drawn.values) for drawn in heights) <= 50
    total = sum(np.sum(drawn.values * np.diff(drawn.edges)) for drawn in heights)
    assert total == pytest.approx(lengths.sum())


def test_partition_densities():
    every = splits()
    ax = plot.partition_densities(every)
    assert [bar.get_height() for bar in ax.patches] == [parts.mean_density for parts in every.values()]
    for dots, parts in zip(ax.lines, every.values(), strict=True):
        np.testing.assert_array_equal(dots.get_ydata(), parts.density[[0, 2]])  # a part without rows has none
    assert [label.get_text() for label in ax.get_xticklabels()] == list(every)


def test_empty_matrix():
    plot.row_lengths([])
    plot.partition_rows([], splits([]))
    plot.partition_densities(splits([]))
