"""Matrices that are made of parts: no product shows what they are made of."""

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import CASES, matrix, square, vector
from reference import assert_product
from support import assert_multiplies, assert_same_entries, each_type, explained, formats_of, naming, poisoned

SPECIAL = ["power_law_rows", "uniform", "empty_rows_every_other", "arrow"]
CUTS = ["first", "middle", "last"]


def cut_at(A, place):
    """A number of rows, the longest ones, that are stored as CSR while the others are padded."""
    return {"first": 0, "middle": A.shape[0] // 3, "last": A.shape[0] - 1}[place]


def cut(A, device, place="middle"):
    """The operator of `A` with its longest rows in a format of their own; None if the others are too long."""
    try:
        return sg.aslinearoperator(A, "partitioned", device, separator=cut_at(A, place))
    except sg.FormatError:
        return None


def that_are_cut():
    """The cases with the places at which they can be cut."""
    matrices = {case: matrix(case, np.dtype("float64")) for case in CASES}
    return [
        (case, place) for case, A in matrices.items() if A.shape[0] for place in CUTS if cut(A, "cpu", place)
    ]


@pytest.mark.parametrize(("case", "place"), that_are_cut())
@each_type
def test_rows_in_two_formats(case, place, device, dtype):
    A = matrix(case, dtype)
    op = cut(A, device, place)
    assert (op.nnz, op.shape, op.dtype) == (A.nnz, A.shape, dtype)
    assert_multiplies(op, A)
    assert_same_entries(op.tocsr(), A)


@pytest.mark.parametrize("case", square())
@each_type
def test_reordered(case, device, dtype):
    A = matrix(case, dtype)
    arrays = sg.aslinearoperator(A, "csr", "cpu", reorder="rcm").arrays()
    rows = arrays.get("0.rows", np.arange(A.shape[0]))
    ordered = sp.csr_array(sp.csr_array(A[rows])[:, rows]).sorted_indices()
    for fmt in formats_of(ordered):
        with naming(fmt=fmt):
            op = sg.aslinearoperator(A, fmt, device, reorder="rcm")
            assert op.format == fmt
            assert_multiplies(op, A)
            assert_same_entries(op.tocsr(), A)


@pytest.mark.parametrize("case", SPECIAL)
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@each_type
def test_special_x_reaches_only_the_rows_that_use_it(case, special, device, dtype):
    A = matrix(case, dtype)
    x = vector(A.shape[1], dtype)
    x[[0, 17, -1]] = special
    made = [cut(A, device, place) for place in CUTS]
    if A.shape[0] == A.shape[1]:
        made.append(sg.aslinearoperator(A, "csr", device, reorder="rcm"))
    for op in filter(None, made):
        assert_product(op.spmv(x, out=poisoned(A.shape[0], dtype)), A, x)


def test_bytes(device):
    """The parts, one copy of each map, and the space to gather x in."""
    A = matrix("uniform", np.dtype("float64"))
    whole, op = (sg.aslinearoperator(A, "csr", device, reorder=order) for order in (False, "rcm"))
    maps, gathered = 4 * A.shape[0], 8 * A.shape[1]
    assert maps + gathered <= op.nbytes - whole.nbytes <= maps + 5 * gathered


def test_what_it_says(device):
    A = matrix("two_populations", np.dtype("float64"))
    op = cut(A, device)
    assert [part["format"] for part in op.options["parts"]] == ["csr", "ellpack"]
    assert op.format == "partitioned"
    assert "was given" in explained(op)
    assert set(op.arrays()) >= {"0.rows", "0.values", "1.col_indices"}
    assert op.time_products(10) > 0
    assert set(op.setup_seconds) == {"convert", "transfer"}
    assert sg.aslinearoperator(A, "sell", device, reorder="rcm").options["sigma"] > 0


def test_nothing_is_gathered_ahead(device):
    A = matrix("uniform", np.dtype("float64"))
    with pytest.raises(TypeError, match="one part"):
        sg.aslinearoperator(A, "csr_m", device, reorder="rcm").set_x(np.ones(A.shape[1]))
