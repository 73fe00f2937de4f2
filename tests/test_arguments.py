"""Every parameter of every public function, given what it does not take: the message names the parameter.

Nor does a caller ever see the vocabulary of the machinery beneath, see `support.MACHINERY`.
"""

import re

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from spmvgpu import gallery, linalg, matrix_io, partition
from support import MACHINERY

A = sp.csr_array(np.diag([4.0, 5.0, 6.0]) + np.eye(3, k=1) + np.eye(3, k=-1))
LENGTHS = [2, 3, 2]
DEVICES = ["cpu", "cpu"]

# What hardly any parameter takes; a row of the table below leaves out what its own does.
STRANGE = {
    "object": object(),
    "list": [None],
    "array": np.array([1, 2]),
    "bytes": b"x",
    "complex": 1j,
    "dict": {"a": 1},
    "text": "bogus",
    "huge": 2**70,
    "negative": -(2**70),
    "nan": float("nan"),
}


def op(**options):
    return sg.aslinearoperator(A, **{"device": "cpu", **options})


def spread(**options):
    return sg.aslinearoperator(A, device=DEVICES, **options)


def estimate(**options):
    return sg.estimate(A, **{"format": "sell", **options})


def solve(**options):
    return linalg.cg(op(), np.ones(3), **options)


def given(function, *before, **fixed):
    """The function with all other arguments in place."""
    return lambda **argument: function(*before, **fixed, **argument)


PARTS = partition.by_nnz(A, [1, 1])

# name: (function of the one argument, its name, what it does take of the strange values)
TABLE = {
    "aslinearoperator.format": (op, "format", ()),
    "aslinearoperator.device": (given(sg.aslinearoperator, A), "device", ()),
    "aslinearoperator.dtype": (op, "dtype", ()),
    "aslinearoperator.shape": (
        given(sg.aslinearoperator, (A.data, A.indices, A.indptr), device="cpu"),
        "shape",
        ("array",),
    ),
    "aslinearoperator.symmetric": (op, "symmetric", ()),
    "aslinearoperator.reorder": (op, "reorder", ()),
    "aslinearoperator.stream": (op, "stream", ()),
    "aslinearoperator.tune": (op, "tune", ()),
    "aslinearoperator.powers": (spread, "powers", ("array",)),
    "aslinearoperator.partition": (spread, "partition", ()),
    "aslinearoperator.memory_limit": (spread, "memory_limit", ("huge",)),
    "aslinearoperator.reorder with devices": (spread, "reorder", ()),
    "aslinearoperator.format with devices": (spread, "format", ()),
    "aslinearoperator.tune with devices": (spread, "tune", ()),
    "aslinearoperator.symmetric with devices": (spread, "symmetric", ()),
    "aslinearoperator.threads": (op, "threads", ("huge",)),
    "aslinearoperator.threads with devices": (spread, "threads", ("huge",)),
    "aslinearoperator.slice_rows": (given(op, format="sell"), "slice_rows", ()),
    "aslinearoperator.kernel": (given(op, format="csr"), "kernel", ()),
    "aslinearoperator.max_padding": (given(op, format="dia"), "max_padding", ("huge",)),
    "aslinearoperator.width": (given(op, format="hyb"), "width", ()),
    "aslinearoperator.separator": (given(op, format="partitioned"), "separator", ()),
    "estimate.format": (given(sg.estimate, A), "format", ()),
    "estimate.slice_rows": (estimate, "slice_rows", ()),
    "format_options.format": (sg.format_options, "format", ()),
    "predict.device": (given(sg.predict, A), "device", ()),
    "predict.model": (given(sg.predict, A, "cpu"), "model", ()),
    "predict.dtype": (given(sg.predict, A, "cpu"), "dtype", ()),
    "separator.device": (given(sg.separator, A), "device", ()),
    "limit_threads.threads": (lambda threads: sg.limit_threads(threads).__enter__(), "threads", ("huge",)),
    "partition.by_nnz.powers": (given(partition.by_nnz, LENGTHS), "powers", ("array",)),
    "partition.by_rows.powers": (given(partition.by_rows, LENGTHS), "powers", ("array",)),
    "partition.by_pmf.powers": (given(partition.by_pmf, LENGTHS), "powers", ("array",)),
    "partition.by_submatrices.powers": (given(partition.by_submatrices, A), "powers", ("array",)),
    "partition.by_submatrices.block_size": (given(partition.by_submatrices, A), "block_size", ()),
    "partition.from_sets.sets": (given(partition.Partition.from_sets, lengths=LENGTHS), "sets", ()),
    "partition.from_sets.powers": (
        given(partition.Partition.from_sets, [[0], [1, 2]], LENGTHS),
        "powers",
        ("array",),
    ),
    "partition.transfer_time.bus_rate": (PARTS.transfer_time, "bus_rate", ("huge",)),
    "cg.maxiter": (solve, "maxiter", ("huge",)),
    "cg.rtol": (solve, "rtol", ("huge",)),
    "cg.atol": (solve, "atol", ("huge",)),
    "cg.x0": (solve, "x0", ()),
    "cg.callback": (solve, "callback", ()),
    "cg.M": (solve, "M", ()),
    "cg.b": (given(linalg.cg, op()), "b", ()),
    "cg.op": (given(linalg.cg, b=np.ones(3)), "op", ()),
    "jacobi.op": (linalg.jacobi, "op", ()),
    "spmv.x": (op().spmv, "x", ()),
    "spmv.out": (given(op().spmv, np.ones(3)), "out", ()),
    "spmv.alpha": (given(op().spmv, np.ones(3)), "alpha", ("huge", "negative", "nan")),
    "spmv.beta": (given(op().spmv, np.ones(3), np.ones(3)), "beta", ("huge", "negative", "nan")),
    "spmv.stream": (given(op().spmv, np.ones(3)), "stream", ()),
    "time_products.repeats": (op().time_products, "repeats", ()),
    "time_products.repeats with devices": (spread().time_products, "repeats", ()),
    "distribute.x": (spread().distribute, "x", ()),
    "predict.A": (given(sg.predict, device="cpu"), "A", ()),
    "set_x.x": (op(format="csr_m").set_x, "x", ()),
    "poisson1d.n": (gallery.poisson1d, "n", ()),
    "poisson2d.ny": (given(gallery.poisson2d, 3), "ny", ()),
    "poisson3d.nz": (given(gallery.poisson3d, 3), "nz", ()),
    "poisson3d.points": (given(gallery.poisson3d, 3), "points", ()),
    "poisson3d.contrast": (given(gallery.poisson3d, 3), "contrast", ("huge",)),
    "poisson3d.dtype": (given(gallery.poisson3d, 3), "dtype", ()),
    "poisson3d.seed": (given(gallery.poisson3d, 3), "seed", ("huge",)),
    "elasticity3d.n": (gallery.elasticity3d, "n", ()),
    "elasticity3d.contrast": (given(gallery.elasticity3d, 3), "contrast", ("huge",)),
    "elasticity3d.poisson_ratio": (given(gallery.elasticity3d, 3), "poisson_ratio", ()),
    "elasticity3d_load.n": (gallery.elasticity3d_load, "n", ()),
    "banded_random.per_row": (given(gallery.banded_random, 9, half_bandwidth=3), "per_row", ()),
    "banded_random.half_bandwidth": (given(gallery.banded_random, 9, 3), "half_bandwidth", ()),
    "uniform_random.rows": (given(gallery.uniform_random, cols=3, per_row=2), "rows", ()),
    "uniform_random.cols": (given(gallery.uniform_random, 3, per_row=2), "cols", ()),
    "powerlaw.n": (given(gallery.powerlaw, mean=3), "n", ()),
    "powerlaw.mean": (given(gallery.powerlaw, 9), "mean", ("huge",)),
    "powerlaw.exponent": (given(gallery.powerlaw, 9, 3), "exponent", ("huge",)),
    "powerlaw.max_length": (given(gallery.powerlaw, 9, 3), "max_length", ("huge",)),
    "powerlaw.locality": (given(gallery.powerlaw, 9, 3), "locality", ()),
    "powerlaw.seed": (given(gallery.powerlaw, 9, 3), "seed", ("huge",)),
    "lp_like.per_column": (given(gallery.lp_like, 3, 9), "per_column", ()),
    "read_matrix.path": (matrix_io.read_matrix, "path", ("text",)),
    "read_vector.path": (matrix_io.read_vector, "path", ("text",)),
}
CASES = [
    pytest.param(function, name, value, id=f"{row}={kind}")
    for row, (function, name, taken) in TABLE.items()
    for kind, value in STRANGE.items()
    if kind not in taken
]


@pytest.mark.parametrize(("function", "name", "value"), CASES)
def test_the_message_names_the_parameter(function, name, value):
    with pytest.raises((TypeError, ValueError, sg.CudaError)) as caught:
        function(**{name: value})
    message = str(caught.value)
    assert not MACHINERY.search(message), message
    assert re.search(rf"\b{name}\b", message), message


@pytest.mark.parametrize("name", ["kernel", "lanes_per_row"])
@pytest.mark.parametrize("text", ["\udc80", "\0"], ids=["surrogate", "zero"])
def test_text_that_no_option_can_be(name, text):
    for function in (sg.aslinearoperator, sg.estimate):
        with pytest.raises(ValueError, match=f"{name}=") as caught:
            function(A, format="csr", device="cpu", **{name: text})
        assert not MACHINERY.search(str(caught.value))


@pytest.mark.parametrize("name", ["rtol", "atol"])
def test_tolerances_beyond_every_float(name):
    with pytest.raises(ValueError, match=f"{name}="):
        solve(**{name: 10**400})


@pytest.mark.parametrize("text", ["cuda:" + "9" * 20, "cuda:" + "9" * 5000, "cuda:-1", "cuda:٣", "cuda: 0"])
def test_numbers_of_devices_that_there_cannot_be(text):
    with pytest.raises((ValueError, sg.CudaError)) as caught:
        sg.aslinearoperator(A, device=text)
    assert not MACHINERY.search(str(caught.value))
    assert text in str(caught.value)
