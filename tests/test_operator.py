"""The operator as a user meets it: attributes, pictures, algebra, products of all kinds."""

import inspect
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import spmvgpu as sg
from battery import dense_column, uniform, vector
from reference import assert_product
from support import build, each_format_of, explained, format_fixture, type_fixture

MATRIX = uniform(120, 80, 9)
ONE_DENSE_COLUMN = sp.csr_array(dense_column(9000, 4000))
fmt = format_fixture(MATRIX)
dtype = type_fixture()


@pytest.fixture(name="A")
def tested_matrix(dtype):
    return MATRIX.astype(dtype)


@pytest.fixture
def op(A, fmt, device):
    return build(A, fmt, device)


# What an operator says about itself


def test_attributes(op, A, fmt, device, dtype):
    assert isinstance(op, sg.SparseOperator)
    assert isinstance(op, spla.LinearOperator)
    assert op.shape == (120, 80)
    assert op.ndim == 2
    assert op.dtype == dtype
    assert isinstance(op.dtype, np.dtype)
    assert (op.format, op.device, op.nnz) == (fmt, device, A.nnz)
    assert isinstance(op.nnz, int)
    assert isinstance(op.nbytes, int)
    assert op.nbytes >= A.nnz * dtype.itemsize


def test_the_type_is_known_by_identity(A, device, dtype):
    """As products know the arrays that need no conversion; a slower way would give the same results."""
    other = np.dtype(dtype).newbyteorder()
    op = build(A, "csr", device)
    made = (
        op, op.T, op.H, pickle.loads(pickle.dumps(op)), sg.aslinearoperator(A, device=device, dtype=other),
        sg.aslinearoperator(A.toarray().astype(other), device=device),
        build(A.real.astype(np.int16), "csr", device).astype(dtype),
    )  # fmt: skip
    assert all(one.dtype is np.dtype(dtype) for one in made)


def test_options_are_those_of_the_format(op, fmt):
    assert set(op.options) == {option["name"] for option in sg.format_options(fmt)}


def test_setup_seconds(op):
    assert set(op.setup_seconds) == {"convert", "transfer"}
    assert all(seconds >= 0.0 for seconds in op.setup_seconds.values())


def test_repr(op, fmt, device, dtype):
    for word in ("120", "80", str(op.nnz), str(dtype), fmt, device):
        assert word in repr(op)


def test_explain_compares_the_formats(device):
    text = sg.aslinearoperator(MATRIX, device=device).explain()
    assert device in text
    assert all(name in text for name in sg.formats())
    assert len(text.splitlines()) >= len(sg.formats())


def test_devices():
    cpu, *others = sg.devices()
    assert cpu.name == "cpu"
    assert [info.name for info in others] == [f"cuda:{index}" for index in range(len(others))]
    for info in sg.devices():
        assert isinstance(info.model, str)
        assert info.model
        assert 0 < info.memory_free <= info.memory_total
        assert info.multiprocessors > 0


def test_build_info():
    info = sg.build_info()
    assert {"version", "cuda", "cuda_version", "cuda_architectures", "compiler"} <= set(info)
    assert info["version"] == sg.__version__


def test_environment_forces_automatic_device(monkeypatch):
    monkeypatch.setenv("SPMVGPU_DEVICE", "cpu")
    assert sg.aslinearoperator(MATRIX).device == "cpu"


def test_environment_does_not_force_a_named_device(cuda_device, monkeypatch):
    monkeypatch.setenv("SPMVGPU_DEVICE", "cpu")
    assert sg.aslinearoperator(MATRIX, device=cuda_device).device == cuda_device


@pytest.mark.parametrize("blank", ["", " "])
def test_empty_environment_says_nothing(blank, monkeypatch):
    monkeypatch.delenv("SPMVGPU_DEVICE", raising=False)
    without = sg.aslinearoperator(MATRIX).device
    monkeypatch.setenv("SPMVGPU_DEVICE", blank)
    assert sg.aslinearoperator(MATRIX).device == without


def test_environment_with_nonsense(monkeypatch):
    monkeypatch.setenv("SPMVGPU_DEVICE", "tpu")
    with pytest.raises(ValueError, match=r"SPMVGPU_DEVICE.*tpu|tpu.*SPMVGPU_DEVICE"):
        sg.aslinearoperator(MATRIX)


# Products


# Transposition


@each_format_of(ONE_DENSE_COLUMN)
def test_transpose_that_the_format_refuses_is_stored_as_csr(fmt, device, dtype):
    """One dense column becomes a dense row, which pads all others; products must not depend on that."""
    A = ONE_DENSE_COLUMN.astype(dtype)
    op = build(A, fmt, device)
    try:
        sg.estimate(A.T, fmt)
    except sg.FormatError:
        assert op.T.format == "csr"
        assert f"{fmt} cannot hold" in explained(op.T)
    else:
        assert op.T.format == fmt
    x = vector(9000, dtype)
    assert_product(op.rmatvec(x), A.T, x)
    assert op.T.T is op
    copy = pickle.loads(pickle.dumps(op.T))
    assert copy.format == op.T.format
    np.testing.assert_array_equal(copy @ x, op.T @ x)


# LinearOperator algebra


def test_scipy_takes_it_as_it_is(op):
    assert spla.aslinearoperator(op) is op


@pytest.mark.parametrize("asked", ["auto", ["auto", "cpu"]], ids=["one", "several"])
def test_what_is_made_of_an_operator_stays_on_its_device(asked, monkeypatch):
    """Whatever "auto" means by then, and what was asked for goes along."""
    monkeypatch.setenv("SPMVGPU_DEVICE", "cpu")
    A = uniform(90, 90, 5)
    op = sg.aslinearoperator(A, "csr", asked, tune="off", budget=3, max_threads=2, stream=7, lanes_per_row=4)
    monkeypatch.setenv("SPMVGPU_DEVICE", "no device")
    for make in (lambda op: 2 * op, lambda op: op.T, lambda op: op[:5], lambda op: op.astype(np.float32)):
        made = make(op)
        assert (made.device, made.format, made.max_threads) == (op.device, op.format, op.max_threads)
        assert (type(made), made._stream) == (type(op), 7)
        if asked == "auto":
            assert made.options["lanes_per_row"] == 4
    monkeypatch.setenv("SPMVGPU_DEVICE", "cpu")
    loaded = pickle.loads(pickle.dumps(op))
    assert (type(loaded), loaded.device, loaded.max_threads) == (type(op), op.device, op.max_threads)
    assert loaded._stream is None  # whose handle means nothing in another process


def test_an_operator_is_given_back_where_nothing_else_is_asked_for(device):
    op = sg.aslinearoperator(np.eye(3), "csr", device)
    signature = inspect.signature(sg.aslinearoperator)
    defaults = {name: p.default for name, p in signature.parameters.items() if p.default is not p.empty}
    assert len(defaults) == 14
    assert sg.aslinearoperator(op, **defaults) is op
    for name, other in [
        ("dtype", np.float64),
        ("symmetric", False),
        ("reorder", False),
        ("device", [device]),
    ]:
        assert sg.aslinearoperator(op, **{name: other}) is not op
