"""What one rank gives wrongly, all ranks hear of, and none waits for another."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from mpi4py import MPI

import spmvgpu as sg
from ranks import COMM, case, divided, operator, piece
from spmvgpu import distributed

LAST = COMM.size - 1
on_last = COMM.rank == LAST
several = pytest.mark.skipif(COMM.size == 1, reason="takes two ranks")


def who(culprit=LAST):
    """What messages begin with: the rank, unless it is the only one."""
    return f"^rank {culprit}: " if COMM.size > 1 else "^"


def build(*A_local, **arguments):
    """An operator of some rows, or of those of a matrix that is in order."""
    A_local = A_local or [piece(case("uniform")[0], divided(3000))]
    return distributed.aslinearoperator(*A_local, COMM, **arguments)


def agreement():
    return operator(case("uniform")[0]).agreement()


def raise_on_last(error):
    with agreement():
        if on_last:
            raise error


@pytest.mark.parametrize(
    "kind", [ValueError, TypeError, MemoryError, OSError, np.linalg.LinAlgError, sg.FormatError, sg.CudaError]
)
def test_agreement_raises_the_same_everywhere(kind):
    with pytest.raises(kind, match=f"{who()}the reason"):
        raise_on_last(kind("the reason"))


class OddError(Exception):
    def __init__(self, message, _):
        super().__init__(message)


@several
def test_agreement_on_an_error_that_nobody_else_knows():
    with pytest.raises(RuntimeError, match=f"{who()}odd"):
        raise_on_last(OddError("odd", None))


@pytest.mark.parametrize("error", [ValueError("everywhere"), OddError("everywhere", None)])
def test_agreement_names_no_rank_where_all_fail_alike(error):
    with pytest.raises(type(error), match=r"^everywhere$"), agreement():
        raise error


@several
def test_agreement_on_several_errors():
    with pytest.raises(ValueError, match=r"^rank 0: one \(ranks? 1.* failed otherwise\)$"), agreement():
        raise (ValueError("one") if COMM.rank == 0 else TypeError("another"))


@several
def test_agreement_keeps_the_cause():
    cause = KeyError("absent")
    with pytest.raises(RuntimeError) as raised:
        raise_on_last(cause)
    assert (raised.value.__cause__ is cause) == on_last


@pytest.mark.parametrize("comm", [None, 4, "world"])
def test_no_communicator(comm):
    with pytest.raises(TypeError, match="comm must be an mpi4py communicator"):
        distributed.aslinearoperator(sp.csr_array((1, 1)), comm)


def test_null_communicator():
    with pytest.raises(ValueError, match="has no ranks"):
        distributed.aslinearoperator(sp.csr_array((1, 1)), MPI.COMM_NULL)


@several
def test_intercommunicator():
    half = COMM.Split(COMM.rank % 2)
    inter = half.Create_intercomm(0, COMM, 1 - COMM.rank % 2)
    with pytest.raises(TypeError, match="intercommunicator"):
        distributed.aslinearoperator(sp.csr_array((1, 1)), inter)
    inter.Free()
    half.Free()


def test_communicator_of_the_caller_may_go():
    own = COMM.Dup()
    op = distributed.aslinearoperator(sp.csr_array((2, 2 * COMM.size)), own)
    np.testing.assert_array_equal(op @ np.ones(2), np.zeros(2))
    own.Free()


@pytest.mark.parametrize("wrong", [None, "matrix.mtx", np.ones(3), [[1.0]]])
def test_no_matrix(wrong):
    with pytest.raises(TypeError, match=f"{who()}A_local must be a SciPy sparse matrix"):
        build(wrong if on_last else sp.csr_array((1, 5)))


def test_broken_matrix():
    own = sp.csr_array(np.ones((2, 5)))
    if on_last:
        own.indices[3] = 5
    with pytest.raises(ValueError, match=f"{who()}.*indices"):
        build(own)


@several
def test_different_columns():
    with pytest.raises(ValueError, match=rf"{who()}A_local.shape\[1\]=6 on this rank and 5 on rank 0"):
        build(sp.csr_array((1, 6 if on_last else 5)))


@several
@pytest.mark.parametrize(
    ("other", "options"),
    [
        (sp.csr_array(np.ones((1, 5), np.float32)), {}),
        (sp.csr_array(np.ones((1, 5), complex)), {}),
        (sp.csr_array((3, 5), dtype=np.complex128), {}),
        (sp.csr_array(np.ones((1, 5), np.int64)), {}),
        (sp.csr_array(np.ones((1, 5))), {"dtype": "float32"}),
    ],
    ids=["single", "complex", "no entries", "integers", "dtype"],
)
def test_different_types(other, options):
    own = other if on_last else sp.csr_array(np.ones((1, 5)))
    given = np.dtype(options.get("dtype", other.dtype)).name
    says = rf"^the rows .* dtypes \(float64 on rank 0, {given} on rank {LAST}\).*; give the same dtype="
    with pytest.raises(TypeError, match=says):
        build(own, **options if on_last else {})
    if other.dtype.kind == "f":
        assert build(own, dtype="float32").dtype == np.float32


@pytest.mark.parametrize(
    "arguments", [{"format": "abc"}, {"format": "csr", "sigma": 1}, {"tune": "maybe"}, {"device": "gpu"}]
)
def test_arguments_that_aslinearoperator_refuses(arguments):
    with pytest.raises((ValueError, TypeError)) as alone:
        sg.aslinearoperator(sp.csr_array((2, 2)), **{"device": "cpu", **arguments})
    with pytest.raises(type(alone.value)) as together:
        build(**arguments)
    assert str(together.value) == str(alone.value)


def test_format_that_one_rank_cannot_have():
    n = 3000
    rows = divided(n)
    rng = np.random.default_rng(1)
    scattered = sp.coo_array(
        (np.ones(len(rows)), (np.arange(len(rows)), rows.begin + rng.permutation(len(rows)))),
        shape=(len(rows), n),
    )
    ordered = sp.eye_array(n, format="csr")[rows.begin : rows.end]
    with pytest.raises(sg.FormatError, match=f"{who()}.*dia"):
        build(scattered if on_last else ordered, format="dia")


def test_memory_that_one_rank_has_not(monkeypatch):
    def exhausted(*_, **__):
        raise MemoryError("asked for 8 bytes, 7 are free")

    if on_last:
        monkeypatch.setattr("spmvgpu.distributed.from_rows.build", exhausted)
    with pytest.raises(MemoryError, match=f"{who()}asked for 8 bytes"):
        build()


@pytest.mark.parametrize("symmetric", ["lower", 2])
def test_symmetry_that_is_not_allowed(symmetric):
    with pytest.raises(ValueError, match="give None, False, True or 'hermitian'"):
        build(symmetric=symmetric)


def test_symmetric_and_rectangular():
    with pytest.raises(ValueError, match="needs a square matrix"):
        build(sp.csr_array((2, 3 * COMM.size)), symmetric=True)


@several
def test_symmetric_on_some_ranks():
    with pytest.raises(ValueError, match="symmetric=True on this rank and False on rank 0"):
        build(symmetric=on_last)


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([0], "whole numbers, ascending from 0"),
        ([1] * (COMM.size + 1), "ascending from 0"),
        ([0] + [5] * (COMM.size - 1) + [4 - 5 * (COMM.size == 1)], "ascending from 0"),
        ([0.5] * (COMM.size + 1), "whole numbers"),
        ("rows", "whole numbers"),
    ],
)
def test_ranges_that_are_none(offsets, message):
    with pytest.raises((ValueError, TypeError), match=message):
        build(row_ranges=offsets)


def test_ranges_of_other_rows():
    A = case("uniform")[0]
    with pytest.raises(ValueError, match=r"rank.* row_ranges assign rows|^row_ranges assign"):
        build(piece(A, divided(3000)), row_ranges=divided(3001, "uneven"))


@several
def test_ranges_that_differ():
    offsets = divided(3000).offsets.copy()
    offsets[1] += on_last
    with pytest.raises(ValueError, match=r"on this rank and \[0, .* on rank 0; give the same on all ranks"):
        build(row_ranges=offsets)


@several
def test_ranges_on_some_ranks():
    offsets = divided(3000).offsets
    with pytest.raises(ValueError, match="give the same on all ranks"):
        build(row_ranges=offsets if on_last else None)


def test_ranges_of_x_that_do_not_cover_the_columns():
    with pytest.raises(ValueError, match="col_ranges end at 2999; they must end at 3000"):
        build(col_ranges=divided(2999))


def test_pieces_of_wrong_shape():
    op = operator(case("tall")[0])
    n = op.local_shape[1]
    for wrong in (np.ones(n + 1), np.ones((n + 1, 2)), np.ones((1, n, 1)), np.array(1.0)):
        with pytest.raises(ValueError, match=f"rank {COMM.rank} holds {n} of the columns of an operator"):
            op @ wrong
    with pytest.raises(ValueError, match="it must have shape"):
        op.spmv(np.ones((n, 1)))


def test_pieces_of_wrong_kind():
    op = operator(case("uniform")[0])
    x = np.ones(op.local_shape[1])
    with pytest.raises(TypeError, match="x has dtype float32; the operator needs float64"):
        op.spmv(x.astype(np.float32))
    with pytest.raises(TypeError, match="out has dtype float32"):
        op.spmv(x, out=x.astype(np.float32))
    with pytest.raises(ValueError, match="overlaps"):
        op.spmv(x, out=x)
    with pytest.raises(ValueError, match="needs out="):
        op.spmv(x, beta=1.0)
    with pytest.raises(ValueError, match="contiguous"):
        op.spmv(np.ones(2 * len(x))[::2])
    fixed = x.copy()
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        op.spmv(x, out=fixed)
    with pytest.raises(TypeError):
        x @ op
    np.testing.assert_array_equal(op @ x, op.spmv(x))  # and all of that has left no message behind


def test_what_an_operator_does_not_do():
    op = operator(case("tall")[0])
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(op)
    with pytest.raises(TypeError, match=r"op\.T\.tocsr\(\)"):
        op.T.tocsr()
    with pytest.raises(ValueError, match="distributed differently"):
        op.T.diagonal()
