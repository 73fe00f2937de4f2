"""Matrices of applications, from the folder that SPMVGPU_MATRICES names: every format multiplies them."""

import json
import os
from pathlib import Path

import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import COMPLEX_TYPES, TYPES, vector
from reference import assert_product, assert_within, reference
from support import assert_same_entries, check_refusal, nightly, poisoned

NAMES = sorted(path.stem for path in Path(os.environ.get("SPMVGPU_MATRICES", os.devnull)).glob("*.npz"))


@pytest.fixture(scope="module", params=NAMES or ["all"])
def stored(request, matrix_folder):
    """A matrix as it is in its file, which part of it the file holds, and the type that it is tested in."""
    if not NAMES:
        pytest.skip(f"no .npz file in {matrix_folder}")
    index = json.loads((matrix_folder / "index.json").read_text())
    part = next(entry["stored"] for entry in index if entry["name"] == request.param)
    A = sp.load_npz(matrix_folder / f"{request.param}.npz")
    if A.dtype == bool:
        A = sp.csr_matrix((vector(A.nnz, "float64"), A.indices, A.indptr), shape=A.shape)
    types = COMPLEX_TYPES if A.dtype.kind == "c" else TYPES
    return A, part, types[NAMES.index(request.param) % len(types)]


@pytest.fixture(scope="module", name="A")
def tested_matrix(stored):
    matrix, part, _ = stored
    if part == "lower":
        matrix = matrix + sp.tril(matrix, -1).T
    return sp.csr_array(matrix)


@pytest.fixture(scope="module")
def product(A, stored):
    """x, and what `reference` gives for it."""
    x = vector(A.shape[1], stored[-1])
    return x, reference(A.astype(x.dtype), x)


def built(A, fmt, device, **options):
    """The operator; None where the format refuses the matrix, and says so as it should."""
    try:
        return sg.aslinearoperator(A, format=fmt, device=device, **options)
    except sg.FormatError as refused:
        check_refusal(A, fmt, str(refused))
        return None


@pytest.mark.parametrize("every", [3, *nightly([1])])
def test_products(stored, A, product, device, every, request):
    """Of the formats that hold the matrix, of which the suite has every third; the entries come back as well.

    The types take turns.
    """
    matrix, part, dtype = stored
    x, expected = product
    held = []
    asked = sg.formats()[NAMES.index(request.node.callspec.params["stored"]) % every :: every]
    for fmt in asked:
        op = built(matrix, fmt, device, dtype=dtype, symmetric="lower" if part == "lower" else None)
        if op is None:
            continue
        held.append(op.format)
        assert_within(op.spmv(x, out=poisoned(A.shape[0], dtype)), *expected)
        assert_same_entries(op.tocsr(), A.astype(dtype))
    assert set(held) >= {"coo", "csr", "csr_m", "csr_b", "hyb"} & set(asked)


def test_transposed_product(A, device):
    op = sg.aslinearoperator(A, device=device)
    x = vector(A.shape[0], op.dtype)
    assert_product(op.rmatvec(x), A.conj().T.astype(op.dtype), x)
