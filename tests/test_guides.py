"""The guides to additions: their examples compile and run, and the files that they name exist."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from internals import adapt
from test_contract import CPP, compile_cpp, needs_a_compiler

ROOT = CPP.parent
PAGE = (ROOT / "docs" / "extending.md").read_text()
EXAMPLES = {  # files that the examples would be
    "cpp/solvers/methods/steepest.hpp",
    "python/spmvgpu/linalg/steepest.py",
    "python/spmvgpu/linalg/spai0.py",
    "python/spmvgpu/arrays/tiny_arrays.py",
}


def example(word):
    """The code of the guide that has a word."""
    found = [code for code in re.findall(r"```(?:cpp|python)\n(.*?)```", PAGE, re.DOTALL) if word in code]
    assert len(found) == 1
    return found[0]


@needs_a_compiler
def test_the_solver_of_the_guide_compiles(tmp_path):
    (tmp_path / "steepest.hpp").write_text(example("Steepest"))
    source = """
#include "steepest.hpp"
#include "solvers/engines/host_queue.hpp"
#include "solvers/methods/methods.hpp"
namespace spmvgpu {
using Given = System<double>;
template Reports run_method<Steepest<double>>(HostQueue&, const Given&, const Limits&, char*, const LookAt&);
}
"""
    flags = (f"-I{tmp_path}", "-fsyntax-only", "-fopenmp-simd", "-Wall", "-Wextra", "-Werror")
    done = compile_cpp(tmp_path, source, *flags)
    assert done.returncode == 0, done.stderr


def test_the_preconditioner_of_the_guide_speeds_a_solver_up():
    made = {}
    exec(example("spai0"), made)
    scale = sp.diags_array(np.logspace(-2, 2, 400))
    op = sg.aslinearoperator(scale @ sg.gallery.poisson2d(20) @ scale, device="cpu")
    b = op @ np.ones(400)
    sg.linalg.cg(op, b, rtol=1e-8, maxiter=10_000)
    alone = op.solve_info.iterations
    x, info = sg.linalg.cg(op, b, rtol=1e-8, M=made["spai0"](op))
    assert info == 0
    assert op.solve_info.iterations < alone / 2
    np.testing.assert_allclose(op @ x, b, rtol=0, atol=1e-7 * np.linalg.norm(b))


def test_the_array_library_of_the_guide_multiplies(monkeypatch):
    made = {}
    exec(example("Tiny"), made)

    class Array:
        def __init__(self, values):
            self.values = np.array(values)

        def __dlpack__(self, **options):
            return self.values.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.values.__dlpack_device__()

    library = made["Tiny"](SimpleNamespace(array=Array))
    adapt(monkeypatch, Array, library)
    A = sg.gallery.poisson1d(50)
    op, x = sg.aslinearoperator(A, device="cpu"), np.linspace(-1, 1, 50)
    for factor in (1, 1j):
        y = op @ Array(factor * x)
        assert isinstance(y, Array)
        np.testing.assert_allclose(y.values, factor * (A @ x), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("page", ["extending.md", "adding-a-format.md"])
def test_the_files_that_a_guide_names_exist(page):
    named = re.findall(r"`((?:cpp|python|tests)/[\w/]+\.\w+)`", (ROOT / "docs" / page).read_text())
    assert named
    missing = {name for name in named if not (ROOT / name).exists() and "rowwise" not in name}
    assert missing <= EXAMPLES, missing - EXAMPLES
