"""`limit_threads`: at once, for a block, and never with nonsense."""

import numpy as np
import pytest

import spmvgpu as sg
from spmvgpu import _core
from support import run_python

CORES = _core.max_threads()
NONSENSE = ["many", "1", 0, -1, 1.5, 1.0, True, None, float("nan"), float("inf"), [1], np.float64(2), 1j]


@pytest.mark.parametrize("threads", NONSENSE)
def test_nonsense_is_refused_at_once(threads):
    with pytest.raises((TypeError, ValueError), match=r"^threads=.*a whole number at least 1"):
        sg.limit_threads(threads)
    assert _core.max_threads() == CORES


@pytest.mark.parametrize("threads", [1, np.int8(1), np.uint64(1)])
def test_for_a_block(threads):
    with sg.limit_threads(threads):
        assert _core.max_threads() == 1
    assert _core.max_threads() == CORES


def test_more_threads_than_can_be_counted():
    with sg.limit_threads(10**30):
        assert _core.max_threads() == CORES


def test_as_a_statement():
    """It holds from then on, and blocks within it end as they began."""
    code = """
    import numpy as np
    import spmvgpu as sg
    from spmvgpu import _core

    A = sg.gallery.poisson2d(40)
    op = sg.aslinearoperator(A, device="cpu")
    expected = op @ np.ones(1600)
    sg.limit_threads(1)
    assert _core.max_threads() == 1
    np.testing.assert_array_equal(op @ np.ones(1600), expected)
    with sg.limit_threads(3):
        assert _core.max_threads() == 3
    assert _core.max_threads() == 1
    sg.limit_threads(2)
    assert _core.max_threads() == 2
    """
    run_python(code, SPMVGPU_NUM_THREADS="4")


def test_a_block_that_began_before_its_limit():
    """As with threadpoolctl: a limit that is kept in a variable acts at once, and ends with the block."""
    code = """
    import spmvgpu as sg
    from spmvgpu import _core

    limit = sg.limit_threads(2)
    assert _core.max_threads() == 2
    with limit:
        assert _core.max_threads() == 2
    assert _core.max_threads() == 4
    try:
        with sg.limit_threads(1):
            raise KeyError
    except KeyError:
        pass
    assert _core.max_threads() == 4
    """
    run_python(code, SPMVGPU_NUM_THREADS="4")
