"""Every parameter of every public function, given what it does not take: the message names the parameter.

Nor does a caller ever see the vocabulary of the machinery beneath, see `support.MACHINERY`.
"""

import inspect
import re
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from spmvgpu import cache, gallery, linalg, matrix_io, partition
from support import MACHINERY, naming

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


HIERARCHY = SimpleNamespace(levels=[SimpleNamespace(A=A)])
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
    "aslinearoperator.budget": (op, "budget", ("huge",)),
    "aslinearoperator.budget with devices": (spread, "budget", ("huge",)),
    "aslinearoperator.max_threads": (op, "max_threads", ("huge",)),
    "aslinearoperator.max_threads with devices": (spread, "max_threads", ("huge",)),
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
    "separator.device": (given(sg.partition.separator, A), "device", ()),
    "limit_threads.threads": (lambda threads: sg.limit_threads(threads).__enter__(), "threads", ("huge",)),
    "by_nnz.powers": (given(partition.by_nnz, LENGTHS), "powers", ("array",)),
    "by_rows.powers": (given(partition.by_rows, LENGTHS), "powers", ("array",)),
    "by_pmf.powers": (given(partition.by_pmf, LENGTHS), "powers", ("array",)),
    "by_submatrices.powers": (given(partition.by_submatrices, A), "powers", ("array",)),
    "by_submatrices.block_size": (given(partition.by_submatrices, A), "block_size", ()),
    "from_sets.sets": (given(partition.Partition.from_sets, lengths=LENGTHS), "sets", ()),
    "from_sets.powers": (
        given(partition.Partition.from_sets, [[0], [1, 2]], LENGTHS),
        "powers",
        ("array",),
    ),
    "transfer_time.bus_rate": (PARTS.transfer_time, "bus_rate", ("huge",)),
    "gmres.restart": (given(linalg.gmres, op(), np.ones(3)), "restart", ()),
    "gmres.callback_type": (given(linalg.gmres, op(), np.ones(3)), "callback_type", ()),
    "minres.shift": (given(linalg.minres, op(), np.ones(3)), "shift", ("huge", "negative")),
    "jacobi.op": (linalg.jacobi, "op", ()),
    "block_jacobi.op": (linalg.block_jacobi, "op", ()),
    "block_jacobi.block": (given(linalg.block_jacobi, op()), "block", ()),
    "ic0.op": (linalg.ic0, "op", ()),
    "ilu0.op": (linalg.ilu0, "op", ()),
    "chebyshev.op": (linalg.chebyshev, "op", ()),
    "chebyshev.degree": (given(linalg.chebyshev, op()), "degree", ()),
    "chebyshev.ratio": (given(linalg.chebyshev, op()), "ratio", ("huge",)),
    "amg.A": (linalg.amg, "A", ()),
    "amg.B": (given(linalg.amg, op()), "B", ()),
    "amg.block": (given(linalg.amg, op()), "block", ()),
    "amg.strength": (given(linalg.amg, op()), "strength", ()),
    "amg.smoother": (given(linalg.amg, op()), "smoother", ()),
    "amg.degree": (given(linalg.amg, op()), "degree", ()),
    "amg.cycle": (given(linalg.amg, op()), "cycle", ()),
    "amg.max_coarse": (given(linalg.amg, op()), "max_coarse", ()),
    "amg.max_levels": (given(linalg.amg, op()), "max_levels", ()),
    "amg.device": (given(linalg.amg, A), "device", ()),
    "amg.device of an operator": (given(linalg.amg, op()), "device", ()),
    "amg.dtype": (given(linalg.amg, A, device="cpu"), "dtype", ()),
    "aspreconditioner.ml": (linalg.aspreconditioner, "ml", ()),
    "aspreconditioner.device": (given(linalg.aspreconditioner, HIERARCHY), "device", ()),
    "aspreconditioner.dtype": (given(linalg.aspreconditioner, HIERARCHY), "dtype", ()),
    "aspreconditioner.smoother": (given(linalg.aspreconditioner, HIERARCHY), "smoother", ()),
    "aspreconditioner.degree": (given(linalg.aspreconditioner, HIERARCHY), "degree", ()),
    "spmv.x": (op().spmv, "x", ()),
    "spmv.out": (given(op().spmv, np.ones(3)), "out", ()),
    "spmv.alpha": (given(op().spmv, np.ones(3)), "alpha", ("huge", "negative", "nan")),
    "spmv.beta": (given(op().spmv, np.ones(3), np.ones(3)), "beta", ("huge", "negative", "nan")),
    "spmv.stream": (given(op().spmv, np.ones(3)), "stream", ()),
    "time_products.repeats": (op().time_products, "repeats", ()),
    "time_products.repeats with devices": (spread().time_products, "repeats", ()),
    "vector.x": (spread().vector, "x", ()),
    "predict.A": (given(sg.predict, device="cpu"), "A", ()),
    "update_values.data": (op().update_values, "data", ()),
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
    "elasticity2d_points.n": (gallery.elasticity2d_points, "n", ()),
    "elasticity3d_points.n": (gallery.elasticity3d_points, "n", ()),
    "rigid_body_modes.points": (gallery.rigid_body_modes, "points", ()),
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
    "rmat.levels": (given(gallery.rmat, per_row=3), "levels", ("huge",)),
    "rmat.per_row": (given(gallery.rmat, 3), "per_row", ()),
    "rmat.dtype": (given(gallery.rmat, 3, 2), "dtype", ()),
    "rmat.seed": (given(gallery.rmat, 3, 2), "seed", ("huge",)),
    "read_matrix.path": (matrix_io.read_matrix, "path", ("text",)),
    "read_vector.path": (matrix_io.read_vector, "path", ("text",)),
    "write_matrix.path": (given(matrix_io.write_matrix, A=A), "path", ("text",)),
    "write_matrix.A": (given(matrix_io.write_matrix, "A.mtx"), "A", ()),
    "write_matrix.symmetric": (given(matrix_io.write_matrix, "A.mtx", A), "symmetric", ()),
    "aslinearoperator.A": (given(sg.aslinearoperator, device="cpu"), "A", ("array",)),
    "estimate.A": (given(sg.estimate, format="csr"), "A", ()),
    "estimate.device": (given(sg.estimate, A, "csr"), "device", ()),
    "predict.profile": (given(sg.predict, A, "cpu"), "profile", ("text",)),
    "separator.A": (given(sg.partition.separator, device="cpu"), "A", ()),
    "separator.profile": (given(sg.partition.separator, A, "cpu"), "profile", ("text",)),
    "astype.dtype": (op().astype, "dtype", ()),
    "diagonal.k": (op().diagonal, "k", ()),
    "trace.offset": (op().trace, "offset", ()),
    "sum.axis": (op().sum, "axis", ()),
    "to.device": (op().to, "device", ()),
    "dot.x": (op().dot, "x", ("complex", "huge", "negative", "nan")),
    "matvec.x": (op().matvec, "x", ()),
    "matmat.X": (op().matmat, "X", ()),
    "rmatvec.x": (op().rmatvec, "x", ()),
    "rmatmat.X": (op().rmatmat, "X", ()),
    "assign.x": (spread().vector().assign, "x", ()),
    "check_rows.count": (PARTS.check_rows, "count", ()),
    "from_sets.lengths": (given(partition.Partition.from_sets, [[0], [1, 2]]), "lengths", ("array", "list")),
    "by_nnz.A": (given(partition.by_nnz, powers=[1, 1]), "A", ("array",)),
    "by_rows.A": (given(partition.by_rows, powers=[1, 1]), "A", ("array",)),
    "by_pmf.A": (given(partition.by_pmf, powers=[1, 1]), "A", ("array",)),
    "by_submatrices.A": (partition.by_submatrices, "A", ()),
    "pmf.A": (partition.pmf, "A", ("array",)),
    "row_lengths.A": (partition.row_lengths, "A", ("array",)),
    "storage.value_size": (PARTS.storage, "value_size", ()),
    "storage.index_size": (PARTS.storage, "index_size", ()),
    "transfer_time.value_size": (given(PARTS.transfer_time, 1.0), "value_size", ()),
    "transfer_time.index_size": (given(PARTS.transfer_time, 1.0), "index_size", ()),
    "poisson1d.contrast": (given(gallery.poisson1d, 3), "contrast", ("huge",)),
    "poisson1d.dtype": (given(gallery.poisson1d, 3), "dtype", ()),
    "poisson1d.seed": (given(gallery.poisson1d, 3), "seed", ("huge",)),
    "poisson2d.nx": (gallery.poisson2d, "nx", ()),
    "poisson2d.contrast": (given(gallery.poisson2d, 3), "contrast", ("huge",)),
    "poisson2d.dtype": (given(gallery.poisson2d, 3), "dtype", ()),
    "poisson2d.seed": (given(gallery.poisson2d, 3), "seed", ("huge",)),
    "poisson3d.nx": (gallery.poisson3d, "nx", ()),
    "poisson3d.ny": (given(gallery.poisson3d, 3), "ny", ()),
    "elasticity2d.n": (gallery.elasticity2d, "n", ()),
    "elasticity2d.poisson_ratio": (given(gallery.elasticity2d, 3), "poisson_ratio", ()),
    "elasticity2d.contrast": (given(gallery.elasticity2d, 3), "contrast", ("huge",)),
    "elasticity2d.dtype": (given(gallery.elasticity2d, 3), "dtype", ()),
    "elasticity2d.seed": (given(gallery.elasticity2d, 3), "seed", ("huge",)),
    "elasticity2d_load.n": (gallery.elasticity2d_load, "n", ()),
    "elasticity2d_load.dtype": (given(gallery.elasticity2d_load, 3), "dtype", ()),
    "elasticity3d.dtype": (given(gallery.elasticity3d, 3), "dtype", ()),
    "elasticity3d.seed": (given(gallery.elasticity3d, 3), "seed", ("huge",)),
    "elasticity3d_load.dtype": (given(gallery.elasticity3d_load, 3), "dtype", ()),
    "banded_random.n": (given(gallery.banded_random, per_row=3, half_bandwidth=3), "n", ()),
    "banded_random.dtype": (given(gallery.banded_random, 9, 3, 3), "dtype", ()),
    "banded_random.seed": (given(gallery.banded_random, 9, 3, 3), "seed", ("huge",)),
    "uniform_random.per_row": (given(gallery.uniform_random, 3, 3), "per_row", ()),
    "uniform_random.dtype": (given(gallery.uniform_random, 3, 3, 2), "dtype", ()),
    "uniform_random.seed": (given(gallery.uniform_random, 3, 3, 2), "seed", ("huge",)),
    "powerlaw.dtype": (given(gallery.powerlaw, 9, 3), "dtype", ()),
    "lp_like.rows": (given(gallery.lp_like, cols=9, per_column=2), "rows", ()),
    "lp_like.cols": (given(gallery.lp_like, 3, per_column=2), "cols", ()),
    "lp_like.dtype": (given(gallery.lp_like, 3, 9, 2), "dtype", ()),
    "lp_like.seed": (given(gallery.lp_like, 3, 9, 2), "seed", ("huge",)),
}
for solver in (linalg.cg, linalg.bicgstab, linalg.gmres, linalg.minres):
    TABLE[f"{solver.__name__}.A"] = (given(solver, b=np.ones(3)), "A", ())
    TABLE[f"{solver.__name__}.b"] = (given(solver, op()), "b", ())
    for argument, taken in (
        *((argument, ("huge",)) for argument in ("maxiter", "rtol", "atol")),
        *((argument, ()) for argument in ("x0", "callback", "M", "check_every", "nullspace")),
        ("residuals", ("list",)),
    ):
        TABLE[f"{solver.__name__}.{argument}"] = (given(solver, op(), np.ones(3)), argument, taken)
for solver in (linalg.lsqr, linalg.lsmr, linalg.cgls):
    TABLE[f"{solver.__name__}.A"] = (given(solver, b=np.ones(3)), "A", ())
    TABLE[f"{solver.__name__}.b"] = (given(solver, op()), "b", ())
    for argument, taken in (
        *((argument, ("huge",)) for argument in ("maxiter", "iter_lim", "rtol", "atol", "btol", "conlim")),
        ("damp", ("huge", "negative")),
        ("x0", ()),
    ):
        if argument in inspect.signature(solver).parameters:
            TABLE[f"{solver.__name__}.{argument}"] = (given(solver, op(), np.ones(3)), argument, taken)
for solver, arguments in (
    (linalg.eigsh, ("M", "Minv", "mode", "OPinv", "inner", "preconditioner")),
    (linalg.svds, ("return_singular_vectors", "solver", "options")),
):
    TABLE[f"{solver.__name__}.A"] = (given(solver, k=1), "A", ())
    for argument, taken in (
        *((argument, ("huge",)) for argument in ("maxiter", "tol")),
        ("rng", ("huge", "array")),
        *((argument, ()) for argument in ("k", "ncv", "which", "v0", *arguments)),
    ):
        fixed = {} if argument == "k" else {"k": 1}
        TABLE[f"{solver.__name__}.{argument}"] = (given(solver, op(), **fixed), argument, taken)
TABLE["eigsh.sigma"] = (given(linalg.eigsh, op(), k=1), "sigma", ("huge", "negative"))
TABLE["splu.A"] = (given(linalg.splu, device="cpu"), "A", ())
TABLE["splu.device"] = (given(linalg.splu, A), "device", ())
TABLE["splu.device of an operator"] = (given(linalg.splu, op()), "device", ())
TABLE["spsolve.A"] = (given(linalg.spsolve, b=np.ones(3), device="cpu"), "A", ())
TABLE["spsolve.b"] = (given(linalg.spsolve, op()), "b", ())
TABLE["spsolve.device"] = (given(linalg.spsolve, A, np.ones(3)), "device", ())
TABLE["DirectFactors.solve.b"] = (linalg.splu(op()).solve, "b", ())
TABLE["DirectFactors.solve.trans"] = (given(linalg.splu(op()).solve, np.ones(3)), "trans", ())
TABLE["solve.A"] = (given(linalg.solve, b=np.ones(3)), "A", ())
TABLE["solve.b"] = (given(linalg.solve, op()), "b", ())
for argument, taken in (
    *((argument, ("huge",)) for argument in ("rtol", "atol")),
    *((argument, ()) for argument in ("x0", "nullspace", "device")),
):
    TABLE[f"solve.{argument}"] = (given(linalg.solve, op(), np.ones(3)), argument, taken)


@pytest.mark.parametrize("row", TABLE)
def test_the_message_names_the_parameter(row):
    function, name, taken = TABLE[row]
    for kind in STRANGE.keys() - set(taken):
        with naming(given=kind):
            check_message(function, name, STRANGE[kind])


def check_message(function, name, value):
    with pytest.raises((TypeError, ValueError, sg.CudaError)) as caught:
        function(**{name: value})
    message = str(caught.value)
    assert not MACHINERY.search(message), message
    assert re.search(rf"\b{name}\b", message), message


# Parameters that take everything, or what is no value of theirs to be told: any object is true or false.
TRUTHS = {"astype.copy", "clear.profiles", "minres.show", "minres.check", "solve.full_output"}
TRUTHS |= {"eigsh.return_eigenvectors", "lsqr.show", "lsqr.calc_var", "lsmr.show"}
# What `predict` and `explain` give each other.
OWN = {"table.in_use", "table.options"}
OWN |= {"distribute.x"}  # the old name of `vector`


def parameters():
    """``function.parameter`` of everything public but the pictures, which have tests of their own."""
    modules = (sg, gallery, matrix_io, partition)
    found = [getattr(module, name) for module in modules for name in module.__all__]
    found += [
        getattr(linalg, name) for name in linalg.__all__ if name != "lobpcg"
    ]  # whose checks are SciPy's
    found += [cache.info, cache.clear]
    classes = [sg.SparseOperator, sg.MultiDeviceOperator, sg.MultiDeviceVector, partition.Partition]
    classes.append(sg.planning.Predictions)
    found += [getattr(kind, name) for kind in classes for name in dir(kind) if name[0] != "_"]
    functions = [f for f in found if inspect.isroutine(f) and f.__module__.startswith("spmvgpu")]
    return {
        f"{function.__name__}.{name}"
        for function in functions
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in ("self", "cls") and parameter.kind is not parameter.VAR_KEYWORD
    }


def test_the_table_has_every_parameter():
    known = {row.partition(" ")[0] for row in TABLE} | TRUTHS | OWN
    assert parameters() - known == set()


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
