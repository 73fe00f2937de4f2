"""Operators travel through pickle and copy, and serve many threads at once."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from threading import Barrier

import numpy as np
import pytest

import spmvgpu as sg
from battery import matrix, vector
from support import (
    allowed_values,
    assert_same_entries,
    build,
    format_fixture,
    formats_of,
    run_python,
    type_fixture,
)

THREADS = 8
fmt = format_fixture("power_law_rows")
dtype = type_fixture()


@pytest.fixture(name="A")
def tested_matrix(dtype):
    return matrix("power_law_rows", dtype)


@pytest.fixture
def op(A, fmt, device):
    return build(A, fmt, device)


# Pickle and copy


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(op, protocol):
    other = pickle.loads(pickle.dumps(op, protocol=protocol))
    assert isinstance(other, sg.SparseOperator)
    for name in ("shape", "dtype", "format", "device", "nnz", "options"):
        assert getattr(other, name) == getattr(op, name)
    x = vector(op.shape[1], op.dtype)
    np.testing.assert_array_equal(other @ x, op @ x)


@pytest.mark.parametrize("place", ["one", "several"])
@pytest.mark.parametrize("kind", [bytearray, bytes])
def test_what_comes_from_foreign_buffers_owns_what_it_needs(kind, place, A, fmt, device):
    """Buffers out of band may be read-only, overwritten and given back as soon as the operator is there."""
    op = build(A, fmt, device) if place == "one" else build(A, fmt, [device, "cpu"], powers=[2, 1])
    x, y = vector(A.shape[1], A.dtype), vector(A.shape[0], A.dtype)
    expected, turned = op @ x, op.T @ y
    buffers = []
    stream = pickle.dumps(op, protocol=5, buffer_callback=buffers.append)
    given = [kind(buffer.raw()) for buffer in buffers]
    assert given
    other = pickle.loads(stream, buffers=given)
    for buffer in given:
        if isinstance(buffer, bytearray):
            buffer[:] = b"\xff" * len(buffer)
            buffer.clear()  # BufferError if anybody looks at it
    del given
    np.testing.assert_array_equal(other @ x, expected)
    np.testing.assert_array_equal(other.T @ y, turned)
    assert_same_entries(other.tocsr(), A)
    if place == "one":
        other.update_values(2 * other.tocsr().data)
        np.testing.assert_array_equal(other @ x, 2 * expected)


def test_pickle_keeps_options(A, fmt):
    described = sg.format_options(fmt)
    options = {option["name"]: allowed_values(option)[-1] for option in described}
    op = build(A, fmt, **options)
    assert pickle.loads(pickle.dumps(op)).options == op.options


LOAD = """
    import pickle
    import numpy as np
    import spmvgpu as sg
    with open({path!r}, "rb") as file:
        for op in pickle.load(file):
            print(op.device, op.format, float((op @ np.ones(op.shape[1], op.dtype))[0]))
"""


def test_automatic_device_is_chosen_anew_where_it_is_loaded(tmp_path):
    A = matrix("uniform", np.dtype("float64"))
    formats = formats_of(A)
    path = tmp_path / "operators.pickle"
    path.write_bytes(pickle.dumps([build(A, fmt, "auto") for fmt in formats]))
    done = run_python(LOAD.format(path=str(path)), CUDA_VISIBLE_DEVICES="", SPMVGPU_DEVICE=None)
    loaded = [line.split() for line in done.stdout.splitlines()]
    assert [(device, name) for device, name, _ in loaded] == [("cpu", fmt) for fmt in formats]
    assert [float(first) for *_, first in loaded] == pytest.approx([A[[0]].sum()] * len(formats))


def test_named_cuda_device_is_not_silently_replaced(tmp_path, cuda_device):
    path = tmp_path / "operator.pickle"
    path.write_bytes(
        pickle.dumps([sg.aslinearoperator(matrix("uniform", np.dtype("float64")), device=cuda_device)])
    )
    done = run_python(LOAD.format(path=str(path)), check=False, CUDA_VISIBLE_DEVICES="", SPMVGPU_DEVICE=None)
    assert done.returncode != 0
    assert "CudaError" in done.stderr


# Threads


def in_threads(work):
    """Results of work(0), work(1), ... run at the same moment by as many threads."""
    barrier = Barrier(THREADS)

    def start(index):
        barrier.wait()
        return work(index)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(start, range(THREADS)))


def test_one_operator_many_threads(op):
    vectors = [vector(op.shape[1], op.dtype, seed=100 + index) for index in range(THREADS)]
    expected = [op @ x for x in vectors]
    results = in_threads(lambda index: [op @ vectors[index] for _ in range(20)])
    for index, mine in enumerate(results):
        for result in mine:
            np.testing.assert_array_equal(result, expected[index])


def test_threads_that_build_different_operators_do_not_mix_them_up(A, fmt, device):
    build(A, fmt, device)

    def work(index):
        scaled = [A * (index * 100 + i + 1) for i in range(20)]
        built = [build(matrix, fmt, device) for matrix in scaled]
        return all((op.tocsr() != matrix).nnz == 0 for op, matrix in zip(built, scaled, strict=True))

    assert all(in_threads(work))


def test_transposition_is_made_once_by_many_threads(A, fmt, device):
    op = build(A, fmt, device)
    transposed = in_threads(lambda _: op.T)
    assert all(one is transposed[0] for one in transposed)


CALLS = {
    "product": lambda op, b: op @ b,
    "columns": lambda op, b: op @ np.stack([b, 2 * b, 3 * b], axis=1),
    "transpose": lambda op, b: op.T @ b,
    "diagonal": lambda op, b: op.diagonal(),
    "entries": lambda op, b: op.tocsr().data,
    "sum": lambda op, b: (op + op) @ b,
    "other type": lambda op, b: op.astype(np.complex128) @ b,
    "other format": lambda op, b: sg.aslinearoperator(op, "sell") @ b,
    "cg": lambda op, b: sg.linalg.cg(op, b)[0],
    "gmres": lambda op, b: sg.linalg.gmres(op, b, M="ilu0")[0],
    "solve": lambda op, b: sg.linalg.solve(op, b),
    "multigrid": lambda op, b: sg.linalg.cg(op, b, M="amg")[0],
    "factors": lambda op, b: sg.linalg.splu(op).solve(b),
    "eigenvalues": lambda op, b: sg.linalg.eigsh(op, 2, return_eigenvectors=False),
}


@pytest.mark.parametrize("is_shared", [True, False], ids=["one operator", "one for each thread"])
def test_calls_of_many_threads_give_what_one_thread_gets(is_shared, device):
    """Each thread begins with another call, so that different ones meet."""
    A, names = sg.gallery.poisson2d(24), list(CALLS)
    if device != "cpu" and find_spec("nvmath") is None:
        names.remove("factors")
    vectors = [vector(A.shape[0], A.dtype, seed=200 + index) for index in range(THREADS)]
    made = [sg.aslinearoperator(A, device=device) for _ in vectors]
    operators = made[:1] * THREADS if is_shared else made
    expected = [{name: CALLS[name](made[-1], b) for name in names} for b in vectors]

    def work(index):
        order = names[index:] + names[:index]
        return {name: CALLS[name](operators[index], vectors[index]) for name in order}

    for mine, results in zip(expected, in_threads(work), strict=True):
        for name, result in results.items():
            np.testing.assert_array_equal(result, mine[name], err_msg=name)


def test_adjoints_are_shared_by_threads(device):
    """They are made at first use, by whichever thread comes first."""
    op = sg.aslinearoperator(sg.gallery.poisson2d(24), device=device)
    x = vector(op.shape[0], op.dtype)
    expected = sg.linalg.chebyshev(op).H @ x
    for _ in range(30):
        M = sg.linalg.chebyshev(op)
        for result in in_threads(lambda _, M=M: M.H @ x):
            np.testing.assert_array_equal(result, expected)


def test_preconditioners_are_shared_by_threads(device):
    A = sg.gallery.poisson2d(24)
    op = sg.aslinearoperator(A, device=device)
    vectors = [vector(A.shape[0], A.dtype, seed=300 + index) for index in range(THREADS)]
    kinds = {name: getattr(sg.linalg, name) for name in ("amg", "block_jacobi", "chebyshev", "ic0", "jacobi")}
    expected = {name: [sg.linalg.cg(op, b, M=make(op))[0] for b in vectors] for name, make in kinds.items()}
    for name, make in kinds.items():
        M = make(op)

        def work(index, M=M):
            return sg.linalg.cg(op, vectors[index], M=M)[0], M.H @ vectors[index]

        for index, (result, adjoint) in enumerate(in_threads(work)):
            np.testing.assert_array_equal(result, expected[name][index], err_msg=name)
            np.testing.assert_array_equal(adjoint, M.H @ vectors[index], err_msg=name)
