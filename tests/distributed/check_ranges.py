"""Ranges of indices over ranks, and vectors that are gathered and scattered by them."""

from __future__ import annotations

import numpy as np
import pytest

from ranks import COMM, divided, each_division
from spmvgpu import distributed


@pytest.mark.parametrize("total", [0, 1, 3, 1000, 10**15 + 7])
def test_even(total):
    ranges = distributed.Ranges.even(COMM, total)
    lengths = np.diff(ranges.offsets)
    assert ranges.total == total
    assert lengths.max() - lengths.min() <= 1
    assert ranges.end - ranges.begin == lengths[COMM.rank] == len(ranges)


@each_division
def test_owners(division):
    ranges = divided(200, division)
    expected = np.repeat(np.arange(COMM.size), np.diff(ranges.offsets))
    np.testing.assert_array_equal(ranges.owners(np.arange(200)), expected)


def test_owners_of_more_than_int32_counts():
    ranges = distributed.Ranges(COMM, 5_000_000_000 * np.arange(COMM.size + 1))
    ends = ranges.offsets[1:] - 1
    np.testing.assert_array_equal(ranges.owners(ends), np.arange(COMM.size))
    np.testing.assert_array_equal(ranges.owners(ends - 4_999_999_999), np.arange(COMM.size))


def test_from_counts():
    ranges = distributed.Ranges.from_counts(COMM, 2**40 * COMM.rank)
    assert ranges.total == 2**40 * COMM.size * (COMM.size - 1) // 2
    assert len(ranges) == 2**40 * COMM.rank


@each_division
@pytest.mark.parametrize(
    "whole", [np.arange(50.0), np.arange(100).reshape(50, 2), np.zeros((50, 0)), 1j * np.arange(50)]
)
@pytest.mark.parametrize("root", [0, COMM.size - 1])
def test_scatter_and_gather(division, whole, root):
    ranges = divided(50, division)
    piece = ranges.scatter(whole if COMM.rank == root else None, root)
    assert piece.dtype == whole.dtype
    np.testing.assert_array_equal(piece, whole[ranges.begin : ranges.end])
    np.testing.assert_array_equal(ranges.gather(piece, root=None), whole)
    again = ranges.gather(piece, root)
    assert (again is None) == (COMM.rank != root)
    if again is not None:
        np.testing.assert_array_equal(again, whole)


def test_gather_takes_the_type_of_all():
    piece = np.ones(len(divided(20)), np.float32 if COMM.rank else np.int64)
    assert divided(20).gather(piece, root=None).dtype == (np.int64 if COMM.size == 1 else np.float64)


def test_pieces_that_do_not_fit():
    ranges = divided(50)
    with pytest.raises(ValueError, match="piece must be numeric"):
        ranges.gather(np.ones(len(ranges) + (COMM.rank == COMM.size - 1)))
    with pytest.raises(ValueError, match="whole must be numeric and have shape \\(50,\\)"):
        ranges.scatter(np.ones(49) if COMM.rank == 0 else None)
    with pytest.raises(ValueError, match="whole must be numeric and have shape \\(50,\\)"):
        ranges.scatter(None)


@pytest.mark.parametrize("wrong", [-1, 2.5, "ten", 2**63])
def test_totals_that_are_none(wrong):
    with pytest.raises((ValueError, TypeError), match="give a whole number"):
        distributed.Ranges.even(COMM, wrong)
    with pytest.raises((ValueError, TypeError), match="give a whole number"):
        distributed.Ranges.from_counts(COMM, wrong)
