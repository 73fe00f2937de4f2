"""Every public function, class and method has an example that runs, and its place in the API reference.

The examples are most of the tests with the marker `smoke`: together they call everything that is public.
"""

import doctest
import inspect
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import spmvgpu as sg
from support import over, run_python

pytestmark = pytest.mark.smoke

REFERENCE = Path(__file__).parents[1] / "docs" / "api.rst"
MODULES = [name for name in sg.__all__ if inspect.ismodule(getattr(sg, name))]
NEEDS = {
    "plot": "matplotlib",
    "torch": "torch",
    "distributed": "mpi4py",
}  # by what the name of a module begins with


def needs(module):
    return next((library for begin, library in NEEDS.items() if module.startswith(begin)), None)


def public():
    """Dotted names below spmvgpu of what users call."""
    names = [name for name in sg.__all__ if name not in MODULES]
    names += [f"{module}.{name}" for module in MODULES for name in getattr(sg, module).__all__]
    for name in names:
        value = attribute(name)
        if inspect.isclass(value) and issubclass(value, Exception):
            continue  # raised by calls, not called
        if inspect.isfunction(value) or inspect.isclass(value):
            yield name
        if inspect.isclass(value):
            yield from (f"{name}.{member}" for member, _ in inspect.getmembers(value, is_own_method))


def is_own_method(member):
    own = str(getattr(member, "__module__", "")).startswith("spmvgpu") and not isinstance(member, type)
    return own and inspect.isroutine(member) and not member.__name__.startswith("_")


def attribute(name):
    value = sg
    for part in name.split("."):
        value = getattr(value, part)
    return value


def module_of(name):
    return attribute(name).__module__.removeprefix("spmvgpu.")


# Their examples need libraries that are seldom installed, and other tests call them where these are.
NOT_RUN = {"linalg.aspreconditioner", "distributed.petsc", "distributed.from_petsc"}
ALWAYS_REFUSES = "MultiDeviceOperator.update_values"  # whose example says what to do instead


@over("name", sorted(set(public())))
def test_has_an_example_that_calls_it(name):
    value = attribute(name)
    examples = doctest.DocTestParser().get_examples(value.__doc__ or "")
    assert examples
    run = [example for example in examples if not example.options.get(doctest.SKIP)]
    assert (run != examples) == (name in NOT_RUN)
    if inspect.isroutine(value) and name not in {*NOT_RUN, ALWAYS_REFUSES}:
        assert any(re.search(rf"\b{value.__name__}\b", example.source) for example in run)


OWN_EXAMPLES = {"", "partition", "planning", "plot", "torch"}  # modules whose docstrings have some
WITH_EXAMPLES = sorted(OWN_EXAMPLES | {module_of(name) for name in public()})


@pytest.mark.parametrize("name", [name for name in WITH_EXAMPLES if needs(name) != "mpi4py"])
def test_examples_run(name, monkeypatch):
    library = needs(name)
    if library is not None and find_spec(library) is None:
        pytest.skip(f"needs {library}")
    if library == "matplotlib":
        monkeypatch.setenv("MPLBACKEND", "agg")
        import_module("matplotlib.pyplot").switch_backend("agg")
    results = doctest.testmod(import_module(f"spmvgpu.{name}".rstrip(".")))
    if library == "matplotlib":
        import_module("matplotlib.pyplot").close("all")
    assert results.attempted > 0
    assert results.failed == 0


def test_examples_of_ranks_run():
    """In a process of its own, for they start MPI."""
    if find_spec("mpi4py") is None:
        pytest.skip("needs mpi4py")
    code = """
        import doctest, importlib
        for name in {names}:
            results = doctest.testmod(importlib.import_module("spmvgpu." + name))
            assert results.attempted > 0 and results.failed == 0, name
    """
    run_python(
        code.format(names=[name for name in WITH_EXAMPLES if needs(name) == "mpi4py"]), SPMVGPU_DEVICE="cpu"
    )


def test_the_reference_lists_what_is_public():
    text = REFERENCE.read_text(encoding="utf-8")
    listed = set(re.findall(r"^\.\. auto\w+:: (?:spmvgpu\.)?(\w+)", text, re.MULTILINE))
    assert listed == {*sg.__all__, "torch"}
