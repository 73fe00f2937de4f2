"""Random vectors that the core draws where they are needed."""

import numpy as np
import pytest

from battery import TYPES
from internals import drawn


@pytest.mark.parametrize("dtype", TYPES)
def test_entries_are_spread_evenly(dtype):
    parts = drawn(100_000, dtype, 3).view(np.finfo(dtype).dtype)
    assert np.all(np.abs(parts) <= 1)
    counts = np.histogram(parts, 10, (-1, 1))[0]
    assert np.abs(counts / parts.size - 0.1).max() < 0.005
    assert abs(np.vdot(parts[1:], parts[:-1])) < 0.01 * np.vdot(parts, parts)


@pytest.mark.parametrize("dtype", TYPES)
def test_seeds_draw_independent_vectors(dtype):
    vectors = np.stack([drawn(50_000, dtype, seed) for seed in range(6)])
    np.testing.assert_array_equal(vectors[2], drawn(50_000, dtype, 2))
    norms = np.linalg.norm(vectors, axis=1)
    across = vectors.conj() @ vectors.T / np.outer(norms, norms)
    np.testing.assert_allclose(across, np.eye(6), rtol=0, atol=0.02)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", TYPES)
def test_devices_draw_the_same(dtype):
    np.testing.assert_array_equal(drawn(10_007, dtype, 5, 0), drawn(10_007, dtype, 5))


@pytest.mark.parametrize("dtype", TYPES)
def test_entries_belong_to_their_places(dtype):
    whole = drawn(100, dtype, 4)
    for length in (0, 1, 57):
        np.testing.assert_array_equal(drawn(length, dtype, 4), whole[:length])
