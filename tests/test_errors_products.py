"""Bad vectors and results: each gives the documented error and leaves the process usable."""

import numpy as np
import pytest

from battery import matrix
from doors import OnlyConverts
from support import build, each_format, format_fixture, type_fixture

pytestmark = pytest.mark.usefixtures("still_usable")


MATRIX = matrix("tall", np.dtype("float64"))[:100]
fmt = format_fixture(MATRIX)
dtype = type_fixture()


@pytest.fixture
def op(fmt, device, dtype):
    return build(MATRIX.astype(dtype), fmt, device)


# The result


def read_only(dtype):
    array = np.ones(100, dtype)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda dtype: np.ones(99, dtype), ValueError),
        (lambda dtype: np.ones(50, dtype), ValueError),
        (lambda dtype: np.ones((100, 1), dtype), ValueError),
        (lambda dtype: np.ones(200, dtype)[::2], ValueError),
        (lambda dtype: np.ones(100, dtype)[::-1], ValueError),
        (read_only, ValueError),
        (lambda dtype: np.ones(100, "int64"), TypeError),
        (lambda dtype: np.ones(100, "float64" if dtype == "float32" else "float32"), TypeError),
        (lambda dtype: np.ones(100, dtype).astype(dtype.newbyteorder()), TypeError),
        (lambda dtype: np.ones(100, complex), TypeError),
        (lambda dtype: np.ma.masked_all(100, dtype), TypeError),
        (lambda dtype: OnlyConverts(np.ones(100, dtype)), ValueError),
        (lambda dtype: [0.0] * 100, TypeError),
        (lambda dtype: 3.0, TypeError),
    ],
    ids=[
        "short",
        "length_of_x",
        "2d",
        "strided",
        "reversed",
        "read_only",
        "int",
        "other_float",
        "swapped",
        "complex",
        "masked",
        "only_converts",
        "list",
        "number",
    ],
)
def test_bad_out(make, error, op):
    out = make(op.dtype)
    with pytest.raises(error):
        op.spmv(np.ones(50, op.dtype), out=out)
    unchanged = 3.0 if isinstance(out, float) else 0 if isinstance(out, list) else 1
    np.testing.assert_array_equal(out, unchanged)


@each_format
def test_out_that_overlaps_x(fmt, device, dtype):
    square = build(matrix("tridiagonal", dtype), fmt, device)
    buffer = np.ones(1500, dtype)
    with pytest.raises(ValueError, match="overlap"):
        square.spmv(buffer[:999], out=buffer[:999])
    with pytest.raises(ValueError, match="overlap"):
        square.spmv(buffer[:999], out=buffer[500:1499])
    np.testing.assert_array_equal(buffer, 1)


def test_beta_without_out(op):
    with pytest.raises(ValueError, match=r"beta.*out|out.*beta"):
        op.spmv(np.ones(50, op.dtype), beta=1.0)
