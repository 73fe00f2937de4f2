"""Every parameter of every public function, given what it does not take: the message names the parameter.

Nor does a caller ever see the vocabulary of the machinery beneath, see `support.MACHINERY`.
"""

import inspect
import re
from functools import partial
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
    return sg.aslinearoperator(A, device="cpu", **options)


HIERARCHY = SimpleNamespace(levels=[SimpleNamespace(A=A)])
PARTS = partition.by_nnz(A, [1, 1])
OP, SPREAD, FACTORS = op(), sg.aslinearoperator(A, device=DEVICES), linalg.splu(op())
SYSTEM = {"A": OP, "b": np.ones(3)}
POWERS, POINTS, ALONG_X = {"powers": [1, 1]}, {"n": 3}, {"nx": 3}
LARGEST, OPERATOR = {"A": OP, "k": 1}, {"op": OP}

# function: the arguments that stay in place while each of its parameters in turn is given what is strange
FUNCTIONS = {
    sg.aslinearoperator: {"A": A, "device": "cpu"},
    sg.estimate: {"A": A, "format": "csr"},
    sg.predict: {"A": A, "device": "cpu"},
    sg.format_options: {},
    sg.limit_threads: {},
    partition.separator: {"A": A, "device": "cpu"},
    partition.by_nnz: {"A": LENGTHS, **POWERS},
    partition.by_rows: {"A": LENGTHS, **POWERS},
    partition.by_pmf: {"A": LENGTHS, **POWERS},
    partition.by_submatrices: {"A": A, **POWERS},
    partition.pmf: {},
    partition.row_lengths: {},
    partition.Partition.from_sets: {"sets": [[0], [1, 2]], "lengths": LENGTHS},
    PARTS.check_rows: {},
    PARTS.storage: {},
    PARTS.transfer_time: {"bus_rate": 1.0},
    OP.spmv: {"x": np.ones(3)},
    OP.time_products: {},
    OP.update_values: {},
    OP.astype: {},
    OP.diagonal: {},
    OP.trace: {},
    OP.sum: {},
    OP.to: {},
    OP.dot: {},
    OP.matvec: {},
    OP.matmat: {},
    OP.rmatvec: {},
    OP.rmatmat: {},
    op(format="csr_m").set_x: {},
    SPREAD.vector: {},
    SPREAD.vector().assign: {},
    **dict.fromkeys([linalg.cg, linalg.bicgstab, linalg.gmres, linalg.minres], SYSTEM),
    **dict.fromkeys([linalg.lsqr, linalg.lsmr, linalg.cgls, linalg.solve], SYSTEM),
    **dict.fromkeys([linalg.eigsh, linalg.svds], LARGEST),
    linalg.splu: {"A": A, "device": "cpu"},
    linalg.spsolve: {"A": A, "b": np.ones(3), "device": "cpu"},
    **dict.fromkeys([linalg.jacobi, linalg.block_jacobi, linalg.chebyshev], OPERATOR),
    **dict.fromkeys([linalg.ic0, linalg.ilu0, linalg.ic, linalg.ilu], OPERATOR),
    linalg.expm_multiply: {"A": OP, "B": np.ones(3), "start": 0.0, "stop": 1.0},
    linalg.amg: {"A": A, "device": "cpu"},
    linalg.fieldsplit: {"A": OP, "parts": {"u": [0, 1], "p": [2]}},
    linalg.aspreconditioner: {"ml": HIERARCHY},
    **dict.fromkeys([gallery.poisson1d, gallery.elasticity2d, gallery.elasticity3d], POINTS),
    **dict.fromkeys([gallery.elasticity2d_points, gallery.elasticity3d_points], POINTS),
    **dict.fromkeys([gallery.elasticity2d_load, gallery.elasticity3d_load], POINTS),
    gallery.elasticity3d_mass: POINTS,
    **dict.fromkeys([gallery.poisson2d, gallery.poisson3d], ALONG_X),
    gallery.rigid_body_modes: {},
    gallery.banded_random: {"n": 9, "per_row": 3, "half_bandwidth": 3},
    gallery.uniform_random: {"rows": 3, "cols": 3, "per_row": 2},
    gallery.powerlaw: {"n": 9, "mean": 3},
    gallery.lp_like: {"rows": 3, "cols": 9, "per_column": 2},
    gallery.rmat: {"levels": 3, "per_row": 2},
    matrix_io.read_matrix: {},
    matrix_io.read_vector: {},
    matrix_io.write_matrix: {"path": "A.mtx", "A": A},
}

# What parameters do take of the strange values, by their names; those of one function below.
TAKEN = {
    **dict.fromkeys(
        ["memory_limit", "budget", "max_threads", "threads", "max_padding", "bus_rate"], ("huge",)
    ),
    **dict.fromkeys(["contrast", "seed", "mean", "exponent", "max_length", "levels", "ratio"], ("huge",)),
    **dict.fromkeys(["maxiter", "iter_lim", "rtol", "atol", "btol", "conlim", "tol"], ("huge",)),
    **dict.fromkeys(["shift", "damp", "sigma"], ("huge", "negative")),
    **dict.fromkeys(["start", "stop", "traceA"], ("huge", "negative")),
    **dict.fromkeys(["alpha", "beta"], ("huge", "negative", "nan")),
    **dict.fromkeys(["path", "profile"], ("text",)),
    "powers": ("array",),
    "lengths": ("array", "list"),
    "residuals": ("list",),
    "rng": ("huge", "array"),
    "dot.x": ("complex", "huge", "negative", "nan"),
    **dict.fromkeys(
        [f"{name}.A" for name in ("aslinearoperator", "by_nnz", "by_rows", "by_pmf", "pmf", "row_lengths")],
        ("array",),
    ),
}

# Parameters that take everything, or what is no value of theirs to be told: any object is true or false.
TRUTHS = {"astype.copy", "clear.profiles", "minres.show", "minres.check", "solve.full_output"}
TRUTHS |= {"eigsh.return_eigenvectors", "lsqr.show", "lsqr.calc_var", "lsmr.show"}
TRUTHS |= {"cg.flexible", "gmres.flexible", "expm_multiply.endpoint"}


def own_parameters(function):
    """Its parameters with a name, by ``function.parameter``."""
    return {
        f"{function.__name__}.{name}": name
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in ("self", "cls") and parameter.kind is not parameter.VAR_KEYWORD
    }


def given(function, but="", **arguments):
    """The function with all arguments in place but one."""
    return partial(function, **{name: value for name, value in arguments.items() if name != but})


def row(function, name, taken=None, **arguments):
    own = TAKEN.get(f"{function.__name__}.{name}", TAKEN.get(name, ()))
    return given(function, name, **arguments), name, own if taken is None else taken


OF_PARTS = ["powers", "partition", "memory_limit"]

# name: (function of the one argument, its name, what it does take of the strange values)
TABLE = {
    full: row(function, name, **arguments)
    for function, arguments in FUNCTIONS.items()
    for full, name in own_parameters(function).items()
    if full not in TRUTHS
}
TABLE |= {
    f"aslinearoperator.{name} with devices": row(sg.aslinearoperator, name, A=A, device=DEVICES)
    for name in [
        "reorder",
        "format",
        "tune",
        "symmetric",
        "budget",
        "max_threads",
        "powers",
        "partition",
        "memory_limit",
    ]
}
TABLE |= {
    f"aslinearoperator.{name}": row(sg.aslinearoperator, name, A=A, device="cpu", format=fmt)
    for fmt, name in [
        ("sell", "slice_rows"),
        ("csr", "kernel"),
        ("dia", "max_padding"),
        ("hyb", "width"),
        ("partitioned", "separator"),
    ]
}
TABLE |= {
    "aslinearoperator.shape": (
        given(sg.aslinearoperator, A=(A.data, A.indices, A.indptr), device="cpu"),
        "shape",
        ("array",),
    ),
    "limit_threads.threads": (sg.limit_threads, "threads", ("huge",)),
    "estimate.slice_rows": row(sg.estimate, "slice_rows", A=A, format="sell"),
    "spmv.beta": row(OP.spmv, "beta", x=np.ones(3), out=np.ones(3)),
    "time_products.repeats with devices": row(SPREAD.time_products, "repeats"),
    "amg.device of an operator": row(linalg.amg, "device", A=OP),
    "splu.device of an operator": row(linalg.splu, "device", A=OP),
    "spsolve.b of an operator": row(linalg.spsolve, "b", A=OP),
    "DirectFactors.solve.b": row(FACTORS.solve, "b"),
    "DirectFactors.solve.trans": row(FACTORS.solve, "trans", b=np.ones(3)),
}


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
    return set().union(*map(own_parameters, functions))


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
        linalg.cg(**SYSTEM, **{name: 10**400})


@pytest.mark.parametrize("text", ["cuda:" + "9" * 20, "cuda:" + "9" * 5000, "cuda:-1", "cuda:٣", "cuda: 0"])
def test_numbers_of_devices_that_there_cannot_be(text):
    with pytest.raises((ValueError, sg.CudaError)) as caught:
        sg.aslinearoperator(A, device=text)
    assert not MACHINERY.search(str(caught.value))
    assert text in str(caught.value)
