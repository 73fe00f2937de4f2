"""Matrices of more stored entries than a format holds, on one device: in pieces, which nobody sees."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import matrix, vector
from internals import hold_at_most
from reference import assert_product
from support import (
    assert_multiplies,
    assert_same_entries,
    build,
    check_refusal,
    each_type,
    explained,
    format_fixture,
)

fmt = format_fixture("uniform")
LIMIT = 5000


@pytest.fixture(autouse=True)
def limit(request, monkeypatch):
    """A low limit, but for the test of the real one."""
    if request.node.get_closest_marker("long") is None:
        hold_at_most(monkeypatch, LIMIT)


def assert_in_pieces(op, A):
    """The operator stores pieces of the rows, each with as many entries as a format holds at most."""
    arrays = op.arrays()
    rows = [arrays[f"{number}.rows"] for number in range(len(op.options["parts"]))]
    entries = [np.diff(A.indptr)[piece].sum() for piece in rows]
    assert len(entries) >= sum(entries) / LIMIT
    assert max(entries) <= LIMIT
    assert sum(entries) == A.nnz


def check_all(op, A):
    assert_in_pieces(op, A)
    assert (op.nnz, op.shape, op.dtype) == (A.nnz, A.shape, A.dtype)
    assert op.nbytes >= A.nnz * (A.dtype.itemsize + 2)
    assert_multiplies(op, A)
    assert_same_entries(op.tocsr(), A)
    assert op.tocsr().indices.dtype == np.int64
    x, start = vector(A.shape[1], A.dtype), vector(A.shape[0], A.dtype, seed=3)
    assert_product(op.spmv(x, out=start.copy(), alpha=2.0, beta=-0.5), A, x, 2.0, -0.5, start)
    X = vector(3 * A.shape[1], A.dtype).reshape(-1, 3)
    assert_product(op @ X, A, X)


@each_type
def test_every_format(fmt, device, dtype):
    A = matrix("uniform", dtype)
    op = build(A, fmt, device)
    assert op.format == fmt
    check_all(op, A)
    assert op.T.format == fmt
    check_all(op.T, sp.csr_array(A.T))
    assert op.T.T is op
    for other in (pickle.loads(pickle.dumps(op)), op.copy()):
        assert (other.format, other.device, other.options) == (op.format, op.device, op.options)
        check_all(other, A)
    check_all(-op / 4, -A * dtype.type(0.25))
    check_all(op.to("cpu"), A)
    assert_multiplies(op[1000:1100], A[1000:1100])  # which one piece holds
    np.testing.assert_array_equal(op.diagonal(), A.diagonal())


@pytest.mark.parametrize("tune", ["off", "cached", "full"])
@each_type
def test_by_default(tune, device, dtype):
    A = matrix("power_law_rows", dtype)
    op = sg.aslinearoperator(A, device=device, tune=tune)
    assert op.format in sg.formats()
    check_all(op, A)
    assert f"a format holds {LIMIT} entries" in explained(op)
    assert "<- in use" in op.explain()


def test_costs_are_those_of_the_pieces(fmt):
    A = matrix("uniform", np.dtype("float64"))
    op = build(A, fmt)
    cost = sg.estimate(A, fmt, "cpu")
    assert cost["bytes"] == op.nbytes
    assert cost["padding"] >= 1.0
    predicted = next(entry for entry in sg.predict(A, "cpu") if entry.format == fmt)
    assert predicted.time_us is None or predicted.time_us > 0  # none where nothing is known
    assert predicted.bytes >= A.nnz * 8


def test_matrices_of_scipy_with_wide_indices(device):
    A = matrix("uniform", np.dtype("float64"))
    for kind in (sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix):
        wide = kind(A)
        for name in {"indices", "indptr"} & set(vars(wide)):
            setattr(wide, name, getattr(wide, name).astype(np.int64))
        check_all(sg.aslinearoperator(wide, device=device, format="csr"), A)
    arrays = (A.data, A.indices, A.indptr)
    check_all(sg.aslinearoperator(arrays, shape=A.shape, device=device, format="csr"), A)


@pytest.mark.parametrize("options", [{}, {"separator": 500}], ids=["automatic", "given"])
def test_cut_by_length(options, device):
    A = matrix("power_law_rows", np.dtype("float64"))
    op = sg.aslinearoperator(A, format="partitioned", device=device, **options)
    assert_multiplies(op, A)
    assert_same_entries(op.tocsr(), A)


def test_symmetric_matrices(device):
    A = matrix("sym_band", np.dtype("float64"))
    op = sg.aslinearoperator(sp.tril(A), device=device, symmetric="lower")
    assert op.T is op
    check_all(op, A)
    b = vector(A.shape[0], A.dtype)
    M = sp.csr_array(A + 1000 * sp.eye_array(A.shape[0]))
    x, info = sg.linalg.cg(sg.aslinearoperator(M, device=device, symmetric=True), b, rtol=1e-10)
    assert info == 0
    np.testing.assert_allclose(M @ x, b, rtol=1e-6)


def test_what_needs_the_matrix_in_one(device, still_usable):
    A = matrix("sym_band", np.dtype("float64"))
    for call in (sg.aslinearoperator, sg.estimate):
        with pytest.raises(sg.FormatError, match=f"tsmv.*at most {LIMIT} stored.*{A.nnz}") as refused:
            call(A, "tsmv", device)
        check_refusal(A, "tsmv", str(refused.value))
    with pytest.raises(ValueError, match=f"reorder='rcm'.*{LIMIT}.*{A.nnz}"):
        sg.aslinearoperator(A, device=device, reorder="rcm")
    check_all(sg.aslinearoperator(A, device=device, reorder="auto", format="csr"), A)
    with pytest.raises(TypeError, match="one part"):
        sg.aslinearoperator(A, "csr_m", device).set_x(np.ones(A.shape[1]))


@pytest.mark.long
def test_more_entries_than_int32_counts(device):
    """With default arguments; every row holds its number, modulo 5, in 2048 columns."""
    rows, per_row = 2**20 + 8, 2**11
    entries = rows * per_row
    assert entries > np.iinfo(np.int32).max
    needed = 2**36  # the matrix with int64 indices, a checked copy of them, int32 ones, and the format
    free = min(info.memory_free for info in sg.devices() if info.name == "cpu")
    on_device = min(info.memory_free for info in sg.devices() if info.name == device)
    if free < needed or on_device < 2**35:
        pytest.skip(f"needs 64 GiB of free memory and 32 on {device}; has {free >> 30} and {on_device >> 30}")
    data = np.repeat((np.arange(rows) % 5).astype(np.float32), per_row)
    A = sp.csr_array(
        (data, np.tile(np.arange(per_row), rows), np.arange(rows + 1) * per_row), shape=(rows, 2 * per_row)
    )
    op = sg.aslinearoperator(A, device=device)
    del A, data
    assert op.nnz == entries
    x = (np.arange(2 * per_row) % 3).astype(np.float32)
    np.testing.assert_array_equal(op @ x, np.arange(rows) % 5 * x[:per_row].sum())
    assert len(op.options["parts"]) == 2
