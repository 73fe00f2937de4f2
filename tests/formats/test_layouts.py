"""The arrays of small matrices in each format, written down, what they take, and their products."""

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from examples import BELL_GARLAND, FIVE_ROWS, YIN

PITCH = 32  # slots in a column of up to 32 rows
ANY = np.nan  # what is stored there says nothing


def columns(rows, padding):
    """Columns of slots as one array, each filled up to the pitch."""
    return np.concatenate([[*column, *[padding] * (PITCH - len(column))] for column in rows])


def bands(n):
    return sp.csr_array(sp.diags_array((5.0, 2.0, 7.0), offsets=[-1, 0, 1], shape=(n, n)))


def rows_of_their_own():
    """Bands with another diagonal in the last row, and no entry in the third."""
    A = sp.lil_array(bands(5))
    A[4, 4] = 3.0
    A[2] = 0.0
    return sp.csr_array(A)


SYMMETRIC = sp.csr_array(np.array([[1.0, 5, 0, 0], [5, 2, 6, 0], [0, 6, 3, 7], [0, 0, 7, 4]]))
ROWS_OF_A_SYMMETRIC = sp.csr_array(np.array([[6.0, 3, 7, 0], [0, 7, 4, 8]]))
OF_YIN = {
    "col_indices": columns([[0, 0, 0, 0], [1, 1, -1, 1], [-1, 2, -1, -1]], -1),
    "values": columns([[2, 1, 1, 1], [4, 2, 0, 1], [0, 3, 0, 0]], 0),
}
CSR_OF_BELL = {
    "row_offsets": [0, 2, 4, 7, 9],
    "col_indices": [0, 1, 1, 2, 0, 2, 3, 1, 3],
    "values": [1, 7, 2, 8, 5, 3, 9, 6, 4],
}
IN_ORDER = columns([[0, -1, 1, 0, 3], [3, -1, -1, 2, -1], [-1, -1, -1, 3, -1]], -1)
SORTED = columns([[0, 0, 1, 3, -1], [2, 3, -1, -1, -1], [3, -1, -1, -1, -1]], -1)

# Format, options, matrix, arrays, and bytes and padding in double precision where they are written down.
LAYOUTS = [
    ("ellpack", {}, YIN, OF_YIN, (3 * PITCH * 12, 3 * PITCH / 8)),
    ("ellpack_r", {}, YIN, {**OF_YIN, "row_lengths": [2, 3, 1, 2]}, (3 * PITCH * 12 + 16, 3 * PITCH / 8)),
    ("ellr_t", {"threads_per_row": 1}, YIN, {**OF_YIN, "row_lengths": [2, 3, 1, 2]}, None),
    (
        "ellr_t",  # each thread of the four rows has a slot in every column
        {"threads_per_row": 2},
        BELL_GARLAND,
        {
            "col_indices": columns([[0, 1, 1, 2, 0, 2, 1, 3], [-1, -1, -1, -1, 3, -1, -1, -1]], -1),
            "values": columns([[1, 7, 2, 8, 5, 3, 6, 4], [0, 0, 0, 0, 9, 0, 0, 0]], 0),
            "row_lengths": [2, 2, 3, 2],
        },
        None,
    ),
    (
        "coo",
        {},
        FIVE_ROWS,
        {
            "row_indices": [0, 0, 2, 3, 3, 3, 4],
            "col_indices": [0, 3, 1, 0, 2, 3, 3],
            "values": [10, 11, 20, 30, 31, 32, 40],
        },
        (7 * 16, 1.0),
    ),
    (
        "csr",
        {},
        FIVE_ROWS,
        {
            "row_offsets": [0, 2, 2, 3, 6, 7],
            "col_indices": [0, 3, 1, 0, 2, 3, 3],
            "values": [10, 11, 20, 30, 31, 32, 40],
        },
        None,
    ),
    ("csr_b", {}, BELL_GARLAND, {**CSR_OF_BELL, "bounds": [[0, 3]]}, (9 * 12 + 5 * 4 + 8, 1.0)),
    ("csr_m", {"gather": "device"}, BELL_GARLAND, CSR_OF_BELL, (2 * 9 * 8 + 9 * 4 + 5 * 4, 1.0)),
    (
        "hyb",
        {"width": 2},
        BELL_GARLAND,
        {
            "ell_col_indices": columns([[0, 1, 0, 1], [1, 2, 2, 3]], -1),
            "ell_values": columns([[1, 2, 5, 6], [7, 8, 3, 4]], 0),
            "coo_row_indices": [2],
            "coo_col_indices": [3],
            "coo_values": [9],
        },
        (2 * PITCH * 12 + 16, (2 * PITCH + 1) / 9),
    ),
    (
        "hyb",
        {"width": "max"},
        BELL_GARLAND,
        {"ell_col_indices": columns([[0, 1, 0, 1], [1, 2, 2, 3], [-1, -1, 3, -1]], -1), "coo_values": []},
        None,
    ),
    (
        "dia",
        {},
        BELL_GARLAND,
        {"offsets": [-2, 0, 1], "values": columns([[0, 0, 5, 6], [1, 2, 3, 4], [7, 8, 9, 0]], 0)},
        (3 * (PITCH * 8 + 4), 3 * PITCH / 9),
    ),
    ("sdia", {}, SYMMETRIC, {"offsets": [0, 1], "values": columns([[1, 2, 3, 4], [5, 6, 7, 0]], ANY)}, None),
    ("sdia", {}, ROWS_OF_A_SYMMETRIC, {"values": columns([[0, 3, 4], [6, 7, 8]], ANY)}, None),
    (
        "sell",
        {"sigma": 1},
        FIVE_ROWS,
        {
            "slice_offsets": [0, 3 * PITCH],
            "col_indices": IN_ORDER,
            "values": columns([[10, ANY, 20, 30, 40], [11, ANY, ANY, 31], [ANY] * 3 + [32]], ANY),
        },
        None,
    ),
    (
        "sell",
        {"sigma": 32},
        FIVE_ROWS,
        {
            "slice_offsets": [0, 3 * PITCH],
            "permutation": [3, 0, 2, 4, 1],
            "col_indices": SORTED,
            "values": columns([[30, 10, 20, 40], [31, 11], [32]], ANY),
        },
        None,
    ),
    (
        "stencil",  # of each kind where its slots begin, how many there are, its mask, the kind that has all
        {},
        bands(4),
        {
            "kinds": [0, 1, 1, 2],
            "examples": [0, 1, 3],
            "stencils": [0, 3, 0, 1, 0, 3, 1, 1, 0, 3, 2, 1],
            "masks": [0b110, 0b111, 0b011],
            "offsets": [-1, 0, 1, 0],
            "values": [5, 2, 7, 0],
        },
        None,
    ),
    (
        "stencil",
        {},
        rows_of_their_own(),
        {
            "kinds": [0, 1, 2, 1, 3],
            "stencils": [0, 3, 0, 1, 0, 3, 1, 1, 0, 3, 2, 1, 4, 2, 3, 3],
            "masks": [0b110, 0b111, 0, 0b11],
            "offsets": [-1, 0, 1, 0, -1, 0, 0, 0],
            "values": [5, 2, 7, 0, 5, 3, 0, 0],
        },
        None,
    ),
]


@pytest.mark.parametrize(
    ("fmt", "options", "A", "arrays", "cost"), LAYOUTS, ids=[f"{row[0]}-{row[1]}" for row in LAYOUTS]
)
def test_layout(fmt, options, A, arrays, cost, dtype, device):
    op = sg.aslinearoperator(A, format=fmt, device=device, dtype=dtype, **options)
    found = op.arrays()
    for name, expected in arrays.items():
        stored = found[name].reshape(np.shape(expected))
        np.testing.assert_array_equal(stored, np.where(np.isnan(expected), stored, expected), err_msg=name)
        assert stored.dtype == dtype or "values" not in name
    x = np.arange(1, A.shape[1] + 1).astype(dtype)
    np.testing.assert_array_equal(op @ x, A @ x)
    if cost is not None:
        assert tuple(sg.estimate(A, fmt, **options)[name] for name in ("bytes", "padding")) == cost
