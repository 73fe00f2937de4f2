"""Fixtures shared by all tests: every format, every device of this machine, both precisions."""

from __future__ import annotations

import contextlib
import gc
import os
import tempfile
from importlib import import_module
from pathlib import Path

import hypothesis
import pytest

# Before NumPy is imported. Idle threads of BLAS wait in loops, on cores that other processes of tests need.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import numpy as np

import libraries
import spmvgpu as sg
from battery import TYPES, matrix, vector
from reference import assert_product
from spmvgpu import cli

# The same examples in every run of a version of hypothesis, so that it says something about the code.
# An example that grows too large is dropped, which is no fault of a test; older versions count that as one.
hypothesis.settings.register_profile(
    "spmvgpu",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.data_too_large, hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("spmvgpu")

# What is in there is run by several processes together, which test_distributed.py starts.
collect_ignore = ["distributed"]

# Else JAX would take most of the memory of a GPU, and leave little to the others.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

CUDA_DEVICES = [info.name for info in sg.devices() if info.name != "cpu"]
CUDA_PARAMS = [pytest.param(name, marks=pytest.mark.gpu) for name in CUDA_DEVICES or ["cuda:0"]]
LEFT_OUT = pytest.StashKey[int]()
TURN_IS_HELD = "SPMVGPU_TESTS_TURN_IS_HELD"  # in the environment of tests that a test starts


def pytest_collection_modifyitems(config, items):
    """Put those first that take longest, so that none is left over at the end, and those alone on a GPU last.

    While one waits to be alone no other test begins, and the wait is as long as the longest that still runs.
    Without a CUDA device, those that need one are left out; test_gpu_tests_are_run counts them.
    """
    marks = ("first", "long")
    items.sort(key=lambda item: (*(not item.get_closest_marker(mark) for mark in marks), is_alone(item)))
    if CUDA_DEVICES:
        return
    left_out = [item for item in items if item.get_closest_marker("gpu")]
    items[:] = [item for item in items if not item.get_closest_marker("gpu")]
    config.hook.pytest_deselected(items=left_out)
    config.stash[LEFT_OUT] = len(left_out)


@pytest.fixture
def run(capsys):
    """Run a command of the command line in this process; gives the exit code, stdout and stderr."""

    def call(*args):
        capsys.readouterr()
        code = cli.main([str(arg) for arg in args])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With pytest-xdist, let processes that are done take over what waits behind another one's long tests."""
    if config.getoption("dist") != "load":
        return None
    try:
        from xdist.scheduler import WorkStealingScheduling
    except ImportError:  # before pytest-xdist 3.2
        return None
    return WorkStealingScheduling(config, log)


def pytest_report_header():
    """Say which array libraries the tests of operands do without."""
    return f"array libraries not installed: {', '.join(libraries.MISSING) or 'none'}"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    """Where there is a GPU, a test runs together with those of other processes or alone, fixtures included.

    All tests, because an operator without a device goes to a GPU: one that fills the memory would starve it.
    Long tests take most of the host's memory, and so run one after the other. One that runs alone lets them
    end before it keeps the others from beginning. A test that starts others has its turn for them: they would
    wait for one that waits for it.
    """
    if os.environ.get(TURN_IS_HELD):
        yield
        return
    alone = bool(CUDA_DEVICES) and is_alone(item)
    with contextlib.ExitStack() as turns:
        if os.name == "posix" and (alone or item.get_closest_marker("long")):
            turns.enter_context(turn_on("memory", alone=True))
        if CUDA_DEVICES:
            turns.enter_context(turn_on("gpus", alone=alone))
        yield


def is_alone(item):
    """Whether no other test may run meanwhile."""
    return {mark.name for mark in item.iter_markers()} >= {"gpu", "alone_on_gpu"}


def turn_on(what, alone):
    """Take a turn on something that processes of one user share."""
    from turnstile import turn  # needs POSIX

    folder = Path(tempfile.gettempdir(), f"spmvgpu-tests-{os.getuid()}", what)
    folder.mkdir(parents=True, exist_ok=True)
    return turn(folder, alone)


def pytest_collection_finish():
    """The tests themselves are no garbage: do not look through them in every collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """Tests keep profiles and tuning results to themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPMVGPU_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", params=["cpu", *(CUDA_PARAMS if CUDA_DEVICES else [])])
def device(request):
    """Name of a device: "cpu", then every CUDA device."""
    return request.param


@pytest.fixture
def jax_place(device):
    """The device in JAX's terms; arrays are made there, with types of 64 bits."""
    jax = pytest.importorskip("jax", minversion="0.10")
    kind, _, number = device.partition(":")
    try:
        place = jax.devices(kind)[int(number or 0)]
    except (RuntimeError, IndexError):
        pytest.skip(f"JAX has no device for {device}")
    with jax.enable_x64(True), jax.default_device(place):
        yield place


@pytest.fixture(scope="session", params=CUDA_PARAMS)
def cuda_device(request):
    """Name of a CUDA device."""
    return request.param


@pytest.fixture
def gpu_tests_left_out(request):
    """How many tests were left out because this machine has no CUDA device."""
    return request.config.stash.get(LEFT_OUT, 0)


@pytest.fixture(scope="session", params=sg.formats())
def fmt(request):
    """Name of a storage format."""
    return request.param


@pytest.fixture(scope="session", params=TYPES, ids=str)
def dtype(request):
    """A supported value type."""
    return request.param


@pytest.fixture
def pyplot():
    """Matplotlib without a window; its figures are closed after the test."""
    matplotlib = pytest.importorskip("matplotlib", reason="the plot extra is not installed")
    matplotlib.use("Agg")
    import matplotlib.pyplot as pyplot

    yield pyplot
    pyplot.close("all")


@pytest.fixture
def crossings(monkeypatch):
    """The module ``tools/crossings.py``, which counts calls of the core and pretends that there is a GPU."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "tools"))
    with sg.cache.empty():
        yield import_module("crossings")


@pytest.fixture
def gpu(crossings):
    """The name of a GPU, an H200 that need not be here."""
    with crossings.pretended_gpu() as name:
        yield name


@pytest.fixture
def rng():
    """A generator that gives the same numbers in every run."""
    return np.random.default_rng(20110807)


@pytest.fixture(scope="session", params=["cupy", "torch"])
def library(request):
    """A Python library with arrays on the GPU, behind the small interface of libraries.py."""
    pytest.importorskip(request.param, reason=f"{request.param} is not installed")
    return getattr(libraries, request.param.capitalize())()


@pytest.fixture(scope="session", params=[n for n in libraries.HOST_LIBRARIES if n not in libraries.MISSING])
def host_library(request):
    """An installed Python library with arrays in host memory, behind the small interface of libraries.py."""
    return libraries.HOST_LIBRARIES[request.param]()


@pytest.fixture(scope="session")
def matrix_folder():
    """The folder of real matrices named by SPMVGPU_MATRICES."""
    name = os.environ.get("SPMVGPU_MATRICES")
    if not name:
        pytest.skip("SPMVGPU_MATRICES does not name a folder of matrices")
    if not Path(name).is_dir():
        pytest.skip(f"SPMVGPU_MATRICES names {name}, which is not a folder")
    return Path(name)


@pytest.fixture
def still_usable(request):
    """After the test, which gave an error, a product on the same device is correct."""
    yield
    params = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    name = params.get("device") or params.get("cuda_device") or "cpu"
    A = matrix("uniform", np.dtype("float64"))
    x = vector(A.shape[1], A.dtype)
    assert_product(sg.aslinearoperator(A, device=name) @ x, A, x)
