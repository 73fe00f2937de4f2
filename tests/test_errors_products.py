"""Bad vectors and results: each gives the documented error and leaves the process usable."""

import numpy as np
import pytest

from battery import matrix
from support import build, each_format, format_fixture, over, type_fixture

pytestmark = pytest.mark.usefixtures("still_usable")


MATRIX = matrix("tall", np.dtype("float64"))[:100]
fmt = format_fixture(MATRIX)
dtype = type_fixture()


@pytest.fixture
def op(fmt, device, dtype):
    return build(MATRIX.astype(dtype), fmt, device)


# The vector


@over("length", [0, 49, 51, 100, 5000])
def test_x_of_wrong_length(length, op):
    with pytest.raises(ValueError, match=r"100.*50") as caught:
        op @ np.ones(length, op.dtype)
    assert str(length) in str(caught.value)
    with pytest.raises(ValueError, match=str(length)):
        op.spmv(np.ones(length, op.dtype))


@over("shape", [(49, 2), (2, 50), (50, 1, 1), ()], ids=str)
def test_x_of_wrong_shape(shape, op):
    with pytest.raises(ValueError, match=r"100.*50|dimension"):
        op @ np.ones(shape, op.dtype)


@over("length", [0, 50, 99, 101])
def test_x_of_wrong_length_from_the_other_side(length, op):
    with pytest.raises(ValueError, match=r"\b100\b|dimension"):
        op.rmatvec(np.ones(length, op.dtype))


@over("kind", ["object", "U1", "M8[s]"])
def test_x_of_a_type_without_product(kind, op):
    with pytest.raises(TypeError):
        op @ np.ones(50, "int64").astype(kind)


@over("kind", ["float16", "another float", "int32", "complex128", "bool"])
def test_spmv_wants_its_own_type(kind, op):
    kind = {"float32": "float64", "float64": "float32"}[op.dtype.name] if kind == "another float" else kind
    with pytest.raises(TypeError, match=kind) as caught:
        op.spmv(np.ones(50, kind))
    assert str(op.dtype) in str(caught.value)


@over(
    "shape_of",
    [lambda x: np.repeat(x, 2)[::2], lambda x: x[::-1], lambda x: x[None, :]],
    ids=["strided", "reversed", "row"],
)
def test_spmv_wants_one_contiguous_vector(shape_of, op):
    with pytest.raises(ValueError, match=r"contiguous|shape|1-D"):
        op.spmv(shape_of(np.ones(50, op.dtype)))


@over("x", [None, 3.0, "text", [1.0] * 50])
def test_spmv_wants_an_array(x, op):
    with pytest.raises((TypeError, ValueError)):
        op.spmv(x)


# The result


def read_only(dtype):
    array = np.ones(100, dtype)
    array.flags.writeable = False
    return array


@over(
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
        "list",
        "number",
    ],
)
def test_bad_out(make, error, op):
    out = make(op.dtype)
    with pytest.raises(error):
        op.spmv(np.ones(50, op.dtype), out=out)
    np.testing.assert_array_equal(
        out, 3.0 if isinstance(out, float) else 1 if isinstance(out, np.ndarray) else 0
    )


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


@over("factor", ["alpha", "beta"])
@over("value", ["text", None, 1j, [1.0, 2.0]], ids=str)
def test_factor_that_is_no_number(factor, value, op):
    with pytest.raises((TypeError, ValueError)):
        op.spmv(np.ones(50, op.dtype), out=np.ones(100, op.dtype), **{factor: value})
