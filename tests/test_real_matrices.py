"""Real matrices, from the folder that SPMVGPU_MATRICES names: every format multiplies them correctly."""

import json
import os
from pathlib import Path

import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import vector
from reference import assert_product, assert_within, reference
from support import assert_same_entries, build, each_format, each_type, poisoned

NAMES = sorted(path.stem for path in Path(os.environ.get("SPMVGPU_MATRICES", os.devnull)).glob("*.npz"))


@pytest.fixture(scope="module", params=NAMES or ["all"])
def stored(request, matrix_folder):
    """A matrix as it is in its file, and which part of it the file holds."""
    if not NAMES:
        pytest.skip(f"no .npz file in {matrix_folder}")
    index = json.loads((matrix_folder / "index.json").read_text())
    part = next(entry["stored"] for entry in index if entry["name"] == request.param)
    A = sp.load_npz(matrix_folder / f"{request.param}.npz")
    if A.dtype == bool:
        A = sp.csr_matrix((vector(A.nnz, "float64"), A.indices, A.indptr), shape=A.shape)
    return A, part


@pytest.fixture(scope="module", name="A")
def tested_matrix(stored):
    matrix, part = stored
    if part == "lower":
        matrix = matrix + sp.tril(matrix, -1).T
    return sp.csr_array(matrix)


@pytest.fixture(scope="module")
def products(A):
    """By type: x, and what `reference` gives for it."""
    if A.dtype.kind == "c":
        return {}
    vectors = {dtype: vector(A.shape[1], dtype) for dtype in ("float32", "float64")}
    return {dtype: (x, reference(A.astype(dtype), x)) for dtype, x in vectors.items()}


@each_format
@each_type
def test_product(stored, A, products, fmt, device, dtype):
    if A.dtype.kind == "c":
        with pytest.raises(TypeError, match="complex128"):
            sg.aslinearoperator(A, format=fmt, device=device)
        return
    matrix, part = stored
    op = build(matrix, fmt, device, dtype=dtype, symmetric="lower" if part == "lower" else None)
    x, expected = products[dtype.name]
    assert_within(op.spmv(x, out=poisoned(A.shape[0], dtype)), *expected)


def test_transposed_product(A, device):
    if A.dtype.kind == "c":
        pytest.skip("complex values are not supported")
    op = sg.aslinearoperator(A, device=device)
    x = vector(A.shape[0], op.dtype)
    assert_product(op.rmatvec(x), A.T.astype(op.dtype), x)


@each_format
def test_roundtrip(A, fmt, device):
    if A.dtype.kind == "c":
        pytest.skip("complex values are not supported")
    assert_same_entries(build(A, fmt, device).tocsr(), A)
