"""The hyb format: the first entries of every row in an ELL part, the rest in a COO part."""

import numpy as np
import pytest

import spmvgpu as sg
from battery import from_lengths

PITCH = 32  # slots per column for up to 32 rows


@pytest.mark.parametrize(
    ("lengths", "width"),
    [
        pytest.param([5] * 4095, 0, id="too-few-rows-to-fill-a-device"),
        pytest.param([5] * 4096, 5, id="rows-enough"),
        pytest.param([2] * 10_000 + [6] * 4999, 2, id="less-than-a-third-is-longer"),
        pytest.param([2] * 9_998 + [6] * 4999, 6, id="a-third-is-longer"),
        pytest.param([0] * 20_000 + [9], 0, id="nearly-empty"),
    ],
)
def test_automatic_width(lengths, width, device):
    A = from_lengths(lengths, 50)
    op = sg.aslinearoperator(A, format="hyb", device=device)
    assert op.options["width"] == width
    assert op.arrays()["coo_values"].size == np.maximum(np.array(lengths) - width, 0).sum()


def test_transposed_copy_chooses_its_own_width():
    A = from_lengths([3] * 5000, 50)
    op = sg.aslinearoperator(A, format="hyb", device="cpu")
    assert (op.options["width"], op.T.options["width"]) == (3, 0)
