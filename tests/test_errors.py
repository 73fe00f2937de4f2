"""Bad matrices, formats and devices: each gives the documented error and leaves the process usable."""

import re

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from support import over, run_python

DATA = np.array([1.0, 2.0, 3.0, 4.0])
INDICES = np.array([0, 2, 1, 2], dtype=np.int32)
INDPTR = np.array([0, 2, 3, 4], dtype=np.int32)
SHAPE = (3, 3)


pytestmark = pytest.mark.usefixtures("still_usable")


# The matrix


@over(
    "shape",
    [
        (float("nan"), 3),
        (3, float("nan")),
        (3.5, 3),
        (-3, 3),
        (3, -3),
        (3,),
        (3, 3, 3),
        "abc",
        3,
        None,
        ("3", "3"),
    ],
    ids=str,
)
def test_bad_shape(shape, fmt, device):
    with pytest.raises((ValueError, TypeError), match="shape"):
        sg.aslinearoperator((DATA, INDICES, INDPTR), format=fmt, device=device, shape=shape)


@over("shape", [(2, 3), (4, 3), (3, 2), (0, 0)], ids=str)
def test_shape_that_does_not_fit_the_arrays(shape, fmt):
    with pytest.raises(ValueError, match=r"shape|indptr|column"):
        sg.aslinearoperator((DATA, INDICES, INDPTR), format=fmt, device="cpu", shape=shape)


@pytest.mark.parametrize("shape", [(2**40, 3), (3, 2**31), (2**40, 2**40)], ids=str)
def test_shape_beyond_the_index_type(shape):
    """Never wrapped: dimensions that int32 cannot hold are refused by name."""
    with pytest.raises(ValueError, match=str(max(shape))):
        sg.aslinearoperator(sp.coo_array(shape), device="cpu")


@over(
    ("indices", "named"),
    [
        ([0, 2, 1, -1], "-1"),
        ([0, 2, 1, 3], "3"),
        ([0, 2, 1, 2**31 - 1], "2147483647"),
        ([0, 2, 1, 2**32], "4294967296"),
    ],
    ids=["negative", "one_too_far", "int32_max", "beyond_int32"],
)
def test_index_out_of_range(indices, named, fmt, device):
    with pytest.raises(ValueError, match=named):
        sg.aslinearoperator((DATA, np.array(indices), INDPTR), format=fmt, device=device, shape=SHAPE)


@over("bad", [-1, 3, 10**6])
def test_index_broken_after_scipy_checked_it(bad, fmt):
    A = sp.csr_array((DATA, INDICES.copy(), INDPTR), shape=SHAPE)
    A.indices[3] = bad
    with pytest.raises(ValueError, match=str(bad)):
        sg.aslinearoperator(A, format=fmt, device="cpu")


BROKEN = """
    import numpy as np
    import scipy.sparse as sp
    import spmvgpu as sg

    for bad in (-1, -(10**6), 60, 10**6):
        A = getattr(sp, {kind!r})(np.eye(60))
        getattr(A, {attribute!r})[33] = bad
        try:
            sg.aslinearoperator(A, device="cpu")
        except ValueError as error:
            assert str(error)
        else:
            raise AssertionError(f"{{bad}}: no ValueError")
        assert (sg.aslinearoperator(np.eye(60), device="cpu") @ np.ones(60) == 1).all(), bad
"""


@pytest.mark.parametrize(
    ("kind", "attribute"),
    [
        ("coo_array", "row"),
        ("coo_array", "col"),
        ("csc_array", "indices"),
        ("csc_array", "indptr"),
        ("bsr_array", "indices"),
        ("bsr_array", "indptr"),
    ],
)
def test_other_kinds_broken_after_scipy_checked_them(kind, attribute):
    """In a process of its own: SciPy converts without a check and would write out of bounds."""
    run_python(BROKEN.format(kind=kind, attribute=attribute))


@over(
    "indptr",
    [
        [0, 3, 2, 4],
        [0, 5, 3, 4],
        [1, 2, 3, 4],
        [-1, 2, 3, 4],
        [0, 2, 3, 5],
        [0, 2, 3, 3],
        [0, 2, 4],
        [0, 2, 3, 4, 4],
        [],
    ],
    ids=str,
)
def test_bad_indptr(indptr, fmt, device):
    with pytest.raises(ValueError, match="indptr"):
        sg.aslinearoperator(
            (DATA, INDICES, np.array(indptr, dtype=np.int32)), format=fmt, device=device, shape=SHAPE
        )


def test_indptr_broken_after_scipy_checked_it(fmt):
    A = sp.csr_array((DATA, INDICES, INDPTR.copy()), shape=SHAPE)
    A.indptr[1] = 4
    with pytest.raises(ValueError, match="indptr"):
        sg.aslinearoperator(A, format=fmt, device="cpu")


@over(
    ("data", "indices"),
    [
        (DATA[:3], INDICES),
        (DATA, INDICES[:3]),
        (DATA.reshape(2, 2), INDICES),
        (DATA, INDICES.reshape(2, 2)),
        (4.0, 1),
    ],
    ids=["short_data", "short_indices", "data_2d", "indices_2d", "scalars"],
)
def test_mismatched_arrays(data, indices):
    with pytest.raises(ValueError, match=r"data|indices"):
        sg.aslinearoperator((data, indices, INDPTR), device="cpu", shape=SHAPE)


@pytest.mark.parametrize(
    "indices",
    [INDICES + 0.5, INDICES.astype(complex), np.array(list("abcd"))],
    ids=["float", "complex", "text"],
)
def test_index_type(indices):
    with pytest.raises((TypeError, ValueError), match=str(indices.dtype)):
        sg.aslinearoperator((DATA, indices, INDPTR), device="cpu", shape=SHAPE)


@pytest.mark.parametrize("arrays", [(), (DATA,), (DATA, INDICES), (DATA, INDICES, INDPTR, DATA)], ids=len)
def test_tuple_of_another_length(arrays):
    with pytest.raises((TypeError, ValueError)):
        sg.aslinearoperator(arrays, device="cpu", shape=SHAPE)


def test_shape_that_contradicts_the_matrix():
    with pytest.raises((TypeError, ValueError), match="shape"):
        sg.aslinearoperator(np.eye(3), device="cpu", shape=(4, 4))


@over("kind", ["clongdouble", "object", "longdouble", "<U3", "datetime64[s]"])
def test_value_types_that_are_not_supported(kind, fmt):
    dense = np.ones((2, 2), "int64").astype(kind)
    with pytest.raises(TypeError, match=re.escape(str(dense.dtype))) as caught:
        sg.aslinearoperator(dense, format=fmt, device="cpu")
    assert "float32, float64, complex64 and complex128" in str(caught.value)


@over("kind", ["clongdouble", "longdouble"])
def test_sparse_value_types_that_are_not_supported(kind, fmt):
    with pytest.raises(TypeError, match=np.dtype(kind).name):
        sg.aslinearoperator(sp.csr_array(np.eye(3), dtype=kind), format=fmt, device="cpu")


@pytest.mark.parametrize("wish", ["int32", "bool", "float16", "clongdouble", "longdouble", object])
def test_asked_type_that_is_not_supported(wish):
    with pytest.raises(TypeError, match=np.dtype(wish).name):
        sg.aslinearoperator(np.eye(3), device="cpu", dtype=wish)


def test_asked_type_that_is_none():
    with pytest.raises(TypeError, match="nonsense"):
        sg.aslinearoperator(np.eye(3), device="cpu", dtype="nonsense")


@pytest.mark.parametrize(
    "given",
    [
        None,
        3.0,
        "matrix",
        b"matrix",
        np.ones(3),
        np.ones((2, 2, 2)),
        [1.0, 2.0],
        {"data": 1},
        object(),
        [[1, 2], [3]],
    ],
    ids=lambda given: type(given).__name__,
)
def test_what_is_not_a_matrix(given):
    with pytest.raises((TypeError, ValueError)):
        sg.aslinearoperator(given, device="cpu")


# Format and device


@pytest.mark.parametrize("name", ["nonsense", "", "CSR ", "csr\0", None, 3])
def test_unknown_format(name):
    with pytest.raises((ValueError, TypeError), match="format") as caught:
        sg.aslinearoperator(np.eye(3), format=name, device="cpu")
    assert all(known in str(caught.value) for known in sg.formats())


@pytest.mark.parametrize("name", ["tpu", "", "cuda:", "cuda:x", "cuda:-1", "cuda:1.5", "cpu:0", None, 3])
def test_unknown_device(name):
    with pytest.raises((ValueError, TypeError), match="device") as caught:
        sg.aslinearoperator(np.eye(3), device=name)
    assert "cpu" in str(caught.value)
    assert "cuda" in str(caught.value)


def test_device_that_is_not_there():
    with pytest.raises((ValueError, sg.CudaError), match=r"cuda:99|without CUDA"):
        sg.aslinearoperator(np.eye(3), device="cuda:99")


def test_estimate_of_an_unknown_format():
    with pytest.raises(ValueError, match="nonsense"):
        sg.estimate(np.eye(3), "nonsense")
