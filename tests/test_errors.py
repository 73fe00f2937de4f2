"""Bad matrices, formats and devices: each gives the documented error and leaves the process usable."""

import re

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from support import naming

pytestmark = pytest.mark.usefixtures("still_usable")

DATA = np.array([1.0, 2.0, 3.0, 4.0])
INDICES = np.array([0, 2, 1, 2], dtype=np.int32)
INDPTR = np.array([0, 2, 3, 4], dtype=np.int32)
ARRAYS = DATA, INDICES, INDPTR
SHAPE = (3, 3)
EITHER = (ValueError, TypeError)
NAN = float("nan")


def changed(attribute, place, bad):
    """A matrix that was broken after SciPy had checked it."""
    A = sp.csr_array(tuple(array.copy() for array in ARRAYS), shape=SHAPE)
    getattr(A, attribute)[place] = bad
    return A


BAD_SHAPES = [(NAN, 3), (3, NAN), (3.5, 3), (-3, 3), (3, -3), (3,), (3, 3, 3), "abc", 3, None, ("3", "3")]
SHAPES_OF_OTHER_ARRAYS = [(2, 3), (4, 3), (3, 2), (0, 0)]
SHAPES_BEYOND_INT32 = [(2**40, 3), (3, 2**31), (2**40, 2**40)]  # which are never wrapped
BAD_INDPTR = [
    *([0, 3, 2, 4], [0, 5, 3, 4], [1, 2, 3, 4], [-1, 2, 3, 4], [0, 2, 3, 5], [0, 2, 3, 3]),
    *([0, 2, 4], [0, 2, 3, 4, 4], []),
]
MISMATCHED = [
    *((DATA[:3], INDICES), (DATA, INDICES[:3]), (4.0, 1)),
    *((DATA.reshape(2, 2), INDICES), (DATA, INDICES.reshape(2, 2))),
]
OTHER_TUPLES = [(), (DATA,), (DATA, INDICES), (*ARRAYS, DATA)]
INDEX_TYPES = [INDICES + 0.5, INDICES.astype(complex), np.array(list("abcd"))]
TYPES = ["clongdouble", "object", "longdouble", "<U3", "datetime64[s]"]
VALUE_TYPES = [np.ones((2, 2), "int64").astype(kind) for kind in TYPES]
SPARSE_TYPES = [sp.csr_array(np.eye(3), dtype=kind) for kind in ("clongdouble", "longdouble")]

# What is given, its shape, the error and what the message says.
REFUSED = [
    *((ARRAYS, shape, EITHER, "shape") for shape in BAD_SHAPES),
    *((ARRAYS, shape, ValueError, "shape|indptr|column") for shape in SHAPES_OF_OTHER_ARRAYS),
    *((sp.coo_array(shape), None, ValueError, str(max(shape))) for shape in SHAPES_BEYOND_INT32),
    (np.eye(3), (4, 4), EITHER, "shape"),
    *(
        ((DATA, np.array([0, 2, 1, bad]), INDPTR), SHAPE, ValueError, str(bad))
        for bad in (-1, 3, 2**31 - 1, 2**32)
    ),
    *((changed("indices", 3, bad), None, ValueError, str(bad)) for bad in (-1, 3, 10**6)),
    *(((DATA, INDICES, np.array(bad, "int32")), SHAPE, ValueError, "indptr") for bad in BAD_INDPTR),
    (changed("indptr", 1, 4), None, ValueError, "indptr"),
    *(((*pair, INDPTR), SHAPE, ValueError, "data|indices") for pair in MISMATCHED),
    *(((DATA, bad, INDPTR), SHAPE, EITHER, str(bad.dtype)) for bad in INDEX_TYPES),
    *((bad, SHAPE, EITHER, None) for bad in OTHER_TUPLES),
    *((bad, None, TypeError, re.escape(str(bad.dtype))) for bad in (*VALUE_TYPES, *SPARSE_TYPES)),
]


@pytest.mark.parametrize(("given", "shape", "error", "says"), REFUSED)
def test_matrix(given, shape, error, says, device):
    for fmt in sg.formats():
        with naming(fmt=fmt), pytest.raises(error, match=says) as caught:
            sg.aslinearoperator(given, format=fmt, device=device, shape=shape)
        if error is TypeError:
            assert "float32, float64, complex64 and complex128" in str(caught.value)


# What is asked for


@pytest.mark.parametrize(
    "wish", ["int32", "bool", "float16", "clongdouble", "longdouble", object, "nonsense"]
)
def test_asked_type(wish):
    with pytest.raises(TypeError, match="nonsense" if wish == "nonsense" else np.dtype(wish).name):
        sg.aslinearoperator(np.eye(3), device="cpu", dtype=wish)


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
