"""What the package shows of itself without the libraries that are optional, and with them."""

import inspect
import pickle
import pydoc
import shutil
import subprocess
import sys

import pytest

import spmvgpu as sg
from support import run_python

OPTIONAL = ["torch", "cupy", "cupyx", "jax", "mpi4py", "matplotlib", "tqdm", "pyamg", "pandas"]
WITHOUT = f"""
    import importlib.abc, sys

    class Hidden(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in {OPTIONAL!r}:
                raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

    sys.meta_path.insert(0, Hidden())
"""
BLOCKED = f"""
    import sys

    sys.modules.update(dict.fromkeys({OPTIONAL!r}))
"""
LOOK = """
    import copy, inspect, pickle, pydoc
    import spmvgpu as sg

    modules = [sg, *(value for _, value in inspect.getmembers(sg, inspect.ismodule))]
    assert len(modules) > 8
    for module in modules:
        for name in dir(module):
            getattr(module, name)
        assert inspect.getmembers(module)
        assert module.__name__ in pydoc.render_doc(module)
        assert set(getattr(module, "__all__", ())) <= set(dir(module))
        names = {}
        exec(f"from {module.__name__} import *", names)
    for name in sg.__all__:
        value = getattr(sg, name)
        if callable(value):
            assert pickle.loads(pickle.dumps(value)) is copy.deepcopy(value) is copy.copy(value) is value
"""


@pytest.mark.parametrize("hidden", [WITHOUT, BLOCKED, ""], ids=["without", "blocked", "with"])
def test_what_looks_at_everything(hidden):
    run_python(hidden + LOOK)


@pytest.mark.parametrize("hidden", [WITHOUT, BLOCKED], ids=["without", "blocked"])
def test_module_without_its_library(hidden):
    code = """
    import spmvgpu as sg

    for library, name in (("jax", "JAX"), ("torch", "PyTorch")):
        assert not hasattr(sg, library) and library not in dir(sg)
        assert getattr(sg, library, None) is None
        for use in (f"sg.{library}", f"import spmvgpu.{library}", f"from spmvgpu import {library}"):
            try:
                exec(use)
            except (AttributeError, ImportError) as error:
                assert f"needs {name}" in str(error) and f"pip install {library}" in str(error), error
            else:
                raise AssertionError(use)
    try:
        sg.nothing
    except AttributeError as error:
        assert "no attribute 'nothing'" in str(error)
    """
    run_python(hidden + code)


@pytest.mark.parametrize("library", ["jax", "torch"])
def test_module_with_its_library(library):
    pytest.importorskip(library)
    module = getattr(sg, library)
    assert library in dir(sg)
    assert "MatrixPattern" in pydoc.render_doc(module)
    assert dict(inspect.getmembers(sg))[library] is module
    assert pickle.loads(pickle.dumps(module.solve)) is module.solve


@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("nm"), reason="needs nm, of Linux")
def test_no_other_module_finds_functions_in_the_core():
    """A libstdc++ within it stood in for that of modules which were imported later, and these crashed."""
    core = sys.modules[sg.FormatError.__module__].__file__
    told = subprocess.run(["nm", "-D", "--defined-only", core], capture_output=True, text=True, check=True)
    assert [line.split()[-1] for line in told.stdout.splitlines()] == ["PyInit__core"]


def test_adapters_of_array_libraries_are_whole():
    """Also those of libraries that are not installed, whose results nothing else looks at."""
    done = run_python("""
        import numpy as np, spmvgpu as sg

        op = sg.aslinearoperator(np.eye(3), device="cpu")
        for library in "cupy", "torch", "jax", "another":
            try:
                op @ type("Array", (), {"__module__": library, "__dlpack__": None})()
            except Exception as error:
                print(error)
    """)
    assert len(done.stdout.splitlines()) == 4
    assert "abstract" not in done.stdout
