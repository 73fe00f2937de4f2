"""Every public function, class and method has an example that runs, and its place in the API reference.

The examples are most of the tests with the marker `smoke`: together they call everything that is public.
"""

import doctest
import inspect
import re
from contextlib import ExitStack
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import pytest

import spmvgpu as sg
from support import run_python

pytestmark = pytest.mark.smoke

REFERENCE = Path(__file__).parents[1] / "docs" / "api.rst"
# What cannot be imported without PyTorch, or without JAX.
OF_LIBRARIES = {
    "jax": ("jax.MatrixPattern", "jax.eigsh", "jax.solve"),
    "torch": ("torch.MatrixPattern", "torch.eigsh", "torch.matmul", "torch.solve"),
}
NEEDS = {
    "papers.mironowicz_pictures": "matplotlib",
    "papers.yang2015_pictures": "matplotlib",
    "plot": "matplotlib",
    "jax": "jax",
    "torch": "torch",
    "distributed": "mpi4py",
}  # by what the name of a module begins with


def needs(module):
    return next((library for begin, library in NEEDS.items() if module.startswith(begin)), None)


def public_names(module=sg):
    """Dotted names below spmvgpu of what modules list in ``__all__``, also in modules of theirs."""
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.ismodule(value):
            yield from public_names(value)
        else:
            yield f"{module.__name__}.{name}".removeprefix("spmvgpu.")


def public():
    """Dotted names below spmvgpu of what users call."""
    for name in public_names():
        value = attribute(name)
        if inspect.isclass(value) and issubclass(value, Exception):
            continue  # raised by calls, not called
        if inspect.isfunction(value) or inspect.isclass(value):
            yield name
        if inspect.isclass(value):
            members = (member for member, _ in inspect.getmembers(value, is_own_method))
            yield from (f"{name}.{member}" for member in members if not member.startswith("_"))


def is_own_method(member):
    if not (inspect.isfunction(member) or inspect.ismethod(member)):
        return False  # `isroutine` would take every attribute with a `__get__` of its own for a method
    return member.__module__.startswith("spmvgpu")


def attribute(name):
    value = sg
    for part in name.split("."):
        value = getattr(value, part)
    return value


def module_of(name):
    return attribute(name).__module__.removeprefix("spmvgpu.")


PUBLIC = sorted(set(public()))
# Their examples need libraries that are seldom installed, and other tests call them where these are.
NOT_RUN = {"linalg.aspreconditioner", "distributed.petsc", "distributed.from_petsc"}
ALWAYS_REFUSES = "MultiDeviceOperator.update_values"  # whose example says what to do instead


def test_has_an_example_that_calls_it():
    for name in PUBLIC:
        value = attribute(name)
        examples = doctest.DocTestParser().get_examples(value.__doc__ or "")
        assert examples, name
        run = [example for example in examples if not example.options.get(doctest.SKIP)]
        assert (run != examples) == (name in NOT_RUN), name
        if inspect.isroutine(value) and name not in {*NOT_RUN, ALWAYS_REFUSES}:
            assert any(re.search(rf"\b{value.__name__}\b", example.source) for example in run), name


OWN_EXAMPLES = {"", "partition", "planning", "jax", "plot", "torch"}  # modules whose docstrings have some
WITH_EXAMPLES = sorted(OWN_EXAMPLES | {module_of(name) for name in public()})


@pytest.mark.parametrize("name", [name for name in WITH_EXAMPLES if needs(name) != "mpi4py"])
def test_examples_run(name, monkeypatch):
    library = needs(name)
    if library is not None and find_spec(library) is None:
        pytest.skip(f"needs {library}")
    if library == "matplotlib":
        monkeypatch.setenv("MPLBACKEND", "agg")
        import_module("matplotlib.pyplot").switch_backend("agg")
    with ExitStack() as stack:
        if library == "jax":  # as it is before any test has set it
            jax = import_module("jax")
            stack.enter_context(jax.enable_x64(False))
            stack.enter_context(jax.default_device(jax.devices("cpu")[0]))
        results = doctest.testmod(import_module(f"spmvgpu.{name}".rstrip(".")))
    if library == "matplotlib":
        import_module("matplotlib.pyplot").close("all")
    assert results.attempted > 0
    assert results.failed == 0


def test_begins_with_one_sentence():
    """Which the tables of the reference show."""
    for name in PUBLIC:
        summary, *rest = inspect.cleandoc(attribute(name).__doc__).split("\n")
        assert summary.endswith("."), name
        assert not rest or not rest[0], name


def test_says_what_it_takes_and_returns():
    for name in (name for name in PUBLIC if inspect.isroutine(attribute(name))):
        function = attribute(name)
        signature, doc = inspect.signature(function), inspect.cleandoc(function.__doc__)
        section = re.search(r"^Parameters\n-+\n(.*?)(\n\n\w|\Z)", doc, re.MULTILINE | re.DOTALL)
        entries = re.findall(r"^\S.*", section[1], re.MULTILINE) if section else []
        described = {word.strip(" *") for entry in entries for word in entry.split(" : ")[0].split(",")}
        assert set(signature.parameters) - {"self", "cls"} <= described, name
        gives = str(signature.return_annotation)
        if gives not in ("None", "NoReturn") and "Iterator" not in gives and "ContextManager" not in gives:
            assert re.search(r"^Returns\n---|\AReturn ", doc, re.MULTILINE), name


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


def test_the_reference_has_every_public_name_once():
    entries = re.findall(r"^   ([\w.]+)$", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE)
    described = re.findall(r"^\.\. (?:data|exception):: ([\w.]+)$", REFERENCE.read_text(), re.MULTILINE)
    assert sorted(entries + described) == sorted({*public_names(), *chain(*OF_LIBRARIES.values())})
