"""The public names, what refused calls say was meant, and what objects show of themselves."""

import inspect
import re
from importlib.util import find_spec

import numpy as np
import pytest

import spmvgpu as sg
from support import run_python

A = sg.gallery.poisson2d(8)
DUNDERS = ["__all__", "__doc__", "__name__", "__version__"]
MODULES = [name for name in sg.__all__ if inspect.ismodule(getattr(sg, name))]

# The public names


@pytest.mark.parametrize(
    "before",
    ["", "from spmvgpu import *", "import spmvgpu.cli", "sg.aslinearoperator; sg.plot"],
)
def test_dir_shows_what_is_public(before):
    run_python(f"""
        import spmvgpu as sg
        {before}
        assert dir(sg) == sorted([*sg.__all__, *{DUNDERS}]), dir(sg)
        assert dir(sg) == sorted(set(dir(sg)))
        for name in sg.__all__:
            getattr(sg, name)
        assert dir(sg) == sorted([*sg.__all__, *{DUNDERS}]), dir(sg)
    """)


@pytest.mark.parametrize("name", MODULES)
def test_dir_of_a_module_shows_what_is_public(name):
    module = getattr(sg, name)
    assert dir(module) == sorted(module.__all__)
    assert all(hasattr(module, public) for public in module.__all__)


# What refused calls say

# Their further options are those of another function, which says what was meant.
PASS_ON = {"assemble", "from_petsc", "read_matrix", "scatter"}
TAKE_OPTIONS = [
    function
    for module in [sg, *(getattr(sg, name) for name in MODULES)]
    for function in map(vars(module).get, module.__all__)
    if inspect.isfunction(function) and len(inspect.signature(function).parameters) > 1
    if (module.__name__, function.__name__) not in {("spmvgpu.distributed", name) for name in PASS_ON}
]


def misspelled(name):
    """The name with two letters in each other's place."""
    return f"{name[:-2]}{name[-1]}{name[-2]}"


@pytest.mark.parametrize("function", TAKE_OPTIONS)
def test_a_misspelled_keyword(function):
    parameters = inspect.signature(function).parameters.values()
    for name in [p.name for p in parameters if p.kind is not p.VAR_KEYWORD and len(p.name) > 3]:
        if misspelled(name) == name:
            continue
        with pytest.raises(TypeError) as refused:
            function(**{misspelled(name): None})
        assert f"keyword argument {misspelled(name)!r}; did you mean {name!r}?" in str(refused.value)


def test_all_functions_with_options_are_tested():
    assert {"aslinearoperator", "cg", "estimate", "powerlaw", "spy", "write_matrix"} <= {
        function.__name__ for function in TAKE_OPTIONS
    }


def op():
    return sg.aslinearoperator(A, device="cpu")


b = np.ones(64)
REFUSED = {
    "a device for a format": (lambda: sg.aslinearoperator(A, "cpu"), "did you mean device='cpu'?"),
    "a GPU for a format": (lambda: sg.aslinearoperator(A, "cuda:1"), "did you mean device='cuda:1'?"),
    "devices for a format": (
        lambda: sg.aslinearoperator(A, ["cpu", "cpu"]),
        "did you mean device=['cpu', 'cpu']?",
    ),
    "a dtype for a format": (lambda: sg.aslinearoperator(A, "float32"), "did you mean dtype='float32'?"),
    "a type for a format": (lambda: sg.aslinearoperator(A, np.float32), "did you mean dtype=float32?"),
    "a dtype for a device": (
        lambda: sg.aslinearoperator(A, "csr", "float32"),
        "did you mean dtype='float32'?",
    ),
    "both in each other's place": (
        lambda: sg.aslinearoperator(A, "cpu", "csr"),
        "did you mean device='cpu'?",
    ),
    "a misspelled format": (lambda: sg.aslinearoperator(A, "elpack"), "did you mean 'ellpack'?"),
    "a misspelled word": (lambda: sg.aslinearoperator(A, tune="cahced"), "did you mean 'cached'?"),
    "a misspelled option": (
        lambda: sg.aslinearoperator(A, "ellr_t", thread_per_row=4),
        "did you mean 'threads_per_row'?",
    ),
    "an option of another format": (
        lambda: sg.aslinearoperator(A, "csr", threads_per_row=4),
        "format 'csr' has no option 'threads_per_row'; it has: kernel, lanes_per_row, tile",
    ),
    "too many by position": (
        lambda: sg.predict(A, "cpu", "roofline", np.float32),
        "give these by name: dtype, profile",
    ),
    "a device for a format of estimate": (lambda: sg.estimate(A, "cpu"), "did you mean device='cpu'?"),
    "a tolerance for a guess": (lambda: sg.linalg.cg(op(), b, 1e-8), "did you mean rtol=1e-08?"),
    "a preconditioner for a guess": (
        lambda: sg.linalg.gmres(op(), b, sg.linalg.jacobi(op())),
        "did you mean M=...?",
    ),
    "the tolerance of older versions": (lambda: sg.linalg.cg(op(), b, tol=1e-8), "did you mean 'rtol'?"),
    "nothing like it": (lambda: sg.partition.by_rows(A, [1], bogus=1), "it takes A, powers"),
}


@pytest.mark.parametrize("row", REFUSED)
def test_a_refused_call_says_what_was_meant(row):
    call, hint = REFUSED[row]
    with pytest.raises((TypeError, ValueError)) as refused:
        call()
    assert str(refused.value).endswith(hint), str(refused.value)


def test_a_call_that_is_right_gets_no_hint():
    with pytest.raises(sg.FormatError) as refused:
        sg.aslinearoperator(np.triu(np.ones((3, 3))), "tsmv", "cpu")
    assert "did you mean" not in str(refused.value)
    with pytest.raises(ValueError, match=r"^M has shape \(7,\)") as refused:  # where a vector may stand
        sg.linalg.cg(op(), b, M=np.ones(7))
    assert "did you mean" not in str(refused.value)

    def callback(x):
        raise ValueError("stop")

    with pytest.raises(ValueError, match=r"^stop$"):
        sg.linalg.cg(op(), b, callback=callback)


# What objects show of themselves


def solved(op, b=b):
    sg.linalg.cg(op, b)
    return op.solve_info


def trials_on(device):
    with sg.cache.empty():
        return sg.aslinearoperator(A, device=device, tune="full").tuning


def splu_on(device):
    if device != "cpu":
        pytest.importorskip("nvmath")
    return sg.linalg.splu(A + sg.gallery.poisson1d(A.shape[0]), device=device)


SHOWN = {
    "BatchedOperator": lambda on: sg.aslinearoperator(A, device=on, values=np.ones((3, A.nnz))),
    "SparseOperator": lambda on: sg.aslinearoperator(A * 1j, "packed_sell", on),
    "MultiDeviceOperator": lambda on: sg.aslinearoperator(A, device=[on] * 16),
    "MultiDeviceVector": lambda on: sg.aslinearoperator(A, device=[on] * 16).vector(),
    "DeviceInfo": lambda on: next(info for info in sg.devices() if info.name == on),
    "planning.Predictions": lambda on: sg.predict(A, on),
    "planning.Prediction": lambda on: sg.predict(np.triu(np.ones((9, 9))), on)[-1],
    "planning.Tuning": trials_on,
    "planning.Trial": lambda on: trials_on(on).trials[-1],
    "planning.Step": lambda on: sg.aslinearoperator(A, device=on).tuning.steps[0],
    "linalg.SolveInfo": lambda on: solved(sg.aslinearoperator(A, device=on)),
    "linalg.SolveInfo of columns": lambda on: solved(sg.aslinearoperator(A, device=on), np.ones((64, 5))),
    "linalg.Solved": lambda on: sg.linalg.solve(A, np.ones(A.shape[0]), device=on, full_output=True)[1],
    "linalg.Jacobi": lambda on: sg.linalg.jacobi(sg.aslinearoperator(A, device=on)),
    "linalg.BlockJacobiOperator": lambda on: sg.linalg.block_jacobi(sg.aslinearoperator(A, device=on)),
    "linalg.DirectFactors": splu_on,
    "linalg.IncompleteFactors": lambda on: sg.linalg.ic0(sg.aslinearoperator(A, device=on)),
    "linalg.FieldSplit": lambda on: sg.linalg.fieldsplit(
        sg.aslinearoperator(A, device=on), {"u": slice(0, 40), "p": slice(40, None)}
    ),
    "linalg.Multigrid": lambda on: sg.linalg.amg(A, device=on),
    "linalg.Cycle": lambda on: sg.linalg.chebyshev(sg.aslinearoperator(A, device=on)),
    "partition.Partition": lambda on: sg.partition.by_pmf(A, [1.0 / 3] * 50),
    "partition.Separator": lambda on: sg.partition.separator(sg.gallery.powerlaw(9999, 5.0), on),
    "partition.Submatrices": lambda on: sg.partition.by_submatrices(A, block_size=8),
    "cache.CacheInfo": lambda on: sg.cache.info(),
    "plot.TsmvSchedule": lambda on: sg.plot.TsmvSchedule.of(sg.aslinearoperator(A, "tsmv", on)),
    "jax.MatrixPattern": lambda on: sg.jax.MatrixPattern(A, device=on),
    "torch.MatrixPattern": lambda on: sg.torch.MatrixPattern(A, device=on),
}


@pytest.mark.parametrize("name", SHOWN)
def test_repr_is_a_few_lines(name, device):
    library = name.partition(".")[0]
    if library in ("jax", "torch") and find_spec(library) is None:
        pytest.skip(f"needs {library}")
    lines = repr(SHOWN[name](device)).splitlines()
    assert 1 <= len(lines) <= 5
    assert max(map(len, lines)) <= 100
    assert not re.search(r"object at 0x|\.\d{9}", " ".join(lines))  # nor a float with all of its digits


def test_every_class_shows_a_few_lines():
    classes = {name for name in sg.__all__ if inspect.isclass(getattr(sg, name))}
    for module in MODULES:
        public = getattr(sg, module).__all__
        classes |= {
            f"{module}.{name}" for name in public if inspect.isclass(getattr(getattr(sg, module), name))
        }
    errors = {
        "CudaError",
        "FormatError",
        "linalg.NotSolvedError",
        "linalg.SingularMatrixError",
        "linalg.SolverWarning",
    }
    of_ranks = {"distributed.DistributedOperator", "distributed.Ranges"}  # in tests/distributed
    assert classes - errors - of_ranks - set(SHOWN) == set()


def test_an_operator_in_a_notebook(device):
    asked = sg.aslinearoperator(A, "sell", device)._repr_html_()
    for fact in ("64 x 64", "float64", "288", "sell", device, "it was asked for", "KB", "sigma="):
        assert fact in asked, asked
    chosen = sg.aslinearoperator(A, device=device)._repr_html_()
    assert "chosen because" in chosen
    assert "it was asked for" not in chosen
    both = sg.aslinearoperator(A, device=[device, "cpu"])._repr_html_()
    assert f"{device}, cpu" in both


def test_tuning_in_a_notebook(device):
    tuning = trials_on(device)
    shown = tuning._repr_html_()
    for trial in tuning.trials:
        assert f">{trial.name}<" in shown
    assert len(re.findall("<tr>", shown)) == 1 + len(tuning.trials) + sum(
        step.name != "trial" for step in tuning.steps
    )


def test_versions(capsys, monkeypatch):
    monkeypatch.setenv("SPMVGPU_NUM_THREADS", "2")
    sg.show_versions()
    text = capsys.readouterr().out.splitlines()
    lines = dict(line.split(maxsplit=1) for line in text)
    assert lines["spmvgpu"] == sg.__version__
    assert lines["NumPy"] == np.__version__
    assert lines["compiler"] == sg.build_info()["compiler"]
    assert lines["cache"].startswith(str(sg.cache.directory()))
    assert "variable     SPMVGPU_NUM_THREADS=2" in text
    assert {
        "Python",
        "SciPy",
        "CuPy",
        "PyTorch",
        "JAX",
        "PyAMG",
        "mpi4py",
        "CUDA",
        "driver",
        "threads",
    } <= set(lines)
    for info in sg.devices():
        assert lines[info.name].startswith(info.model)
