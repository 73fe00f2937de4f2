"""What the sources may name: folders that C++ includes, and formats."""

import ast
import contextlib
import re
import textwrap
from pathlib import Path

import pytest

import spmvgpu as sg
from support import naming

CPP = Path(__file__).parents[1] / "cpp"
PYTHON = CPP.parent / "python" / "spmvgpu"

# Each folder includes itself and these, all of which stand above it in this table.
MAY_INCLUDE = {
    "core": set(),
    "gpu": {"core"},
    "formats": {"core", "gpu"},
    "matrix": {"core", "gpu", "formats"},
    "multi": {"core", "gpu", "formats", "matrix"},
    "planning": {"core", "gpu", "formats", "matrix", "multi"},
    "solvers": {"core", "gpu", "formats", "matrix", "multi"},
    "multigrid": {"core", "gpu"},
    "bindings": {"core", "gpu", "formats", "matrix", "multi", "planning", "solvers", "multigrid"},
}

# The same of the folders in `solvers`; "" stands for the files beside them, which bring all together.
SOLVERS_MAY_INCLUDE = {
    "system": set(),
    "engines": {"system"},
    "preconditioners": {"system", "engines"},
    "methods": {"system", "engines"},
    "subspaces": {"system", "engines"},
    "": {"system", "engines", "preconditioners", "methods"},
}

FILES = sorted(path for path in CPP.rglob("*") if path.suffix in {".cpp", ".hpp", ".cu", ".cuh"})


def folder(path):
    """The first folder of a path."""
    return path.relative_to(CPP).parts[0]


def included(path):
    """What a file's #include lines name: our own files in quotes, and others in brackets."""
    return [
        set(re.findall(pattern, path.read_text(), re.MULTILINE))
        for pattern in (r'^\s*#\s*include\s+"([^"]+)"', r"^\s*#\s*include\s+<([^>]+)>")
    ]


def only_nvcc_compiles(path):
    """Whether a file is compiled, or included in what is compiled, by nvcc alone."""
    return path.suffix in {".cu", ".cuh"} or path.parent == CPP / "gpu" / "cuda"


def test_every_folder_is_known():
    assert len(FILES) > 100
    assert {folder(path) for path in FILES} == set(MAY_INCLUDE)


@pytest.mark.parametrize("table", [MAY_INCLUDE, SOLVERS_MAY_INCLUDE])
def test_folders_do_not_include_each_other_in_a_circle(table):
    above = set()
    for name, below in table.items():
        assert below <= above, name
        above.add(name)


def test_a_file_includes_only_what_its_folder_may():
    generated = {"bindings/build_info.hpp"}
    for path in FILES:
        allowed = {folder(path), *MAY_INCLUDE[folder(path)]}
        ours, _ = included(path)
        with naming(path=path.relative_to(CPP), allowed=sorted(allowed)):
            assert not {name for name in ours if name.split("/")[0] not in allowed}
            assert not {name for name in ours - generated if not (CPP / name).is_file()}


def in_solvers(name):
    """The folder of `solvers` that holds a file, or "" for one beside the folders."""
    return "/".join(Path(name).parts[1:-1])


def test_a_file_of_solvers_includes_only_what_its_folder_may():
    for path in (path for path in FILES if folder(path) == "solvers"):
        own = in_solvers(path.relative_to(CPP))
        ours, _ = included(path)
        found = {in_solvers(name) for name in ours if name.startswith("solvers/")}
        assert found <= {own, *SOLVERS_MAY_INCLUDE[own]}, path


def test_pybind11_stays_in_the_bindings():
    for path in (path for path in FILES if folder(path) != "bindings"):
        _, headers = included(path)
        assert not [name for name in headers if name.startswith(("pybind11/", "Python.h"))], path


def test_memory_outlives_its_address():
    """An address of a temporary object is that of freed memory as soon as it is used."""
    for path in PYTHON.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in {"pointer", "address"}:
                assert not isinstance(node.value, ast.Call), f"{path.name}:{node.lineno}"


# Patterns that name CUDA, and how often they may stand outside gpu/cuda and the kernels. A number here may
# only fall.
NAMES_OF_CUDA = {r"\bcuda::|::cuda\b|\bis_cuda\b": 0, r"^\s*#\s*include\s+<(cuda|cub/|thrust/)": 0}


def yields_in_a_block(function):
    """Whether a generator has a `yield` within a `with` or `try` statement."""
    inner = [node for node in ast.walk(function) if isinstance(node, ast.FunctionDef | ast.Lambda)]
    others = {part for node in inner if node is not function for part in ast.walk(node)}
    blocks = [
        node for node in ast.walk(function) if isinstance(node, ast.With | ast.Try) and node not in others
    ]
    parts = {part for block in blocks for part in ast.walk(block)} - others
    return any(isinstance(part, ast.Yield | ast.YieldFrom) for part in parts)


def test_no_generator_is_thrown_away_within_a_block():
    """The end of the block is Python code, in which what a signal handler raises would get lost."""
    for path in PYTHON.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and yields_in_a_block(node):
                names = [ast.unparse(name) for name in node.decorator_list]
                assert names == ["contextmanager"], (path, node.name)


@pytest.mark.parametrize("pattern", NAMES_OF_CUDA)
def test_gpus_are_reached_by_one_interface(pattern):
    """All but gpu/cuda and the kernels ask cpp/gpu, which names no vendor."""
    found = {
        str(path.relative_to(CPP)): len(re.findall(pattern, path.read_text(), re.MULTILINE))
        for path in FILES
        if not only_nvcc_compiles(path)
    }
    assert sum(found.values()) <= NAMES_OF_CUDA[pattern], {k: n for k, n in found.items() if n}


def test_a_file_that_needs_nvcc_is_never_included_by_one_that_does_not():
    needs_nvcc = {str(path.relative_to(CPP)) for path in FILES if only_nvcc_compiles(path)}
    assert "gpu/cuda/check.hpp" in needs_nvcc
    for path in FILES:
        if not only_nvcc_compiles(path):
            assert not needs_nvcc & included(path)[0], path


# Tests

TESTS = CPP.parent / "tests"
# The files that import private modules, and why. This table may only shrink.
ASK_PRIVATE_MODULES = {
    "distributed/check_transports.py": "transports between GPUs that are not here",
    "guarded.py": "products of single parts, whose vectors lie between pages that must not be touched",
    "internals.py": "questions that several tests have in common",
    "test_device_planning.py": "a matrix on a device beside one in host memory, before it has a format",
    "test_direct.py": "a substitute for cuDSS, for machines without it",
    "test_division.py": "rows divided among GPUs that are not here",
    "test_interrupt.py": "calls of the core, and locks, that a signal interrupts",
    "test_model.py": "the model of a product's time, by examples that are computed by hand",
    "test_model_guo2011.py": "the parts of the model of a paper, by examples that are computed by hand",
}
PUBLIC = {*sg.__all__, "cli", "gallery.meshes", *(f"linalg.{name}" for name in sg.linalg.__all__)}


def private_imports(tree):
    """The private modules that a syntax tree imports, also as the text of another program."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names if alias.name != "*"]
            is_package = node.module == "spmvgpu"
            modules = [name for name in names if is_package or is_module(name)] or [str(node.module)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "import" in node.value:
            with contextlib.suppress(SyntaxError):
                yield from private_imports(ast.parse(textwrap.dedent(node.value)))
            continue
        else:
            continue
        ours = [name.removeprefix("spmvgpu.") for name in modules if name.startswith("spmvgpu.")]
        yield from (name for name in ours if name not in PUBLIC)


def is_module(name):
    """Whether a dotted name is that of a file or a folder of the package."""
    path = PYTHON.parent.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def test_tests_make_public_calls():
    found = {
        str(path.relative_to(TESTS))
        for path in TESTS.rglob("*.py")
        if any(private_imports(ast.parse(path.read_text())))
    }
    assert found == set(ASK_PRIVATE_MODULES)


# Formats

# The name of a format stands in its own folder and in the list of formats. Docs may name formats, and so may
# comments and docstrings. "csr" is also how every matrix comes in, so it stands anywhere.
NAMES = [name for name in sg.formats() if name != "csr"]
LIST_OF_FORMATS = CPP / "formats" / "all.hpp"

# What else names a format, and why. This table may only shrink.
MAY_NAME = {
    "cpp/bindings/register_model.cpp": ({"hyb"}, "the model of Guo et al. 2011 asks for its width"),
    "python/spmvgpu/cli/problem.py": ({"stencil"}, "it is a word for a grid's neighbours, too"),
    "python/spmvgpu/inputs/source.py": ({"coo", "dia"}, "SciPy's sparse arrays have these names"),
    "python/spmvgpu/plot/__init__.py": ({"tsmv"}, "pictures of its schedule"),
}
# A format may be made of another one.
MADE_OF = {"sdia": {"dia"}}


def names_in(text):
    """The formats that a text names: whole words, or the types that are named after a format."""
    words = set(re.findall(r"\w+", text))

    def is_named(name):
        type_name = name.title().replace("_", "")
        return name in words or any(re.match(rf"{type_name}(?![a-z])", word) for word in words)

    return {name for name in NAMES if is_named(name)}


def code_of(path):
    """C++ without comments."""
    return re.sub(r"//.*", "", path.read_text())


def strings_of(path):
    """The strings of a Python file, without its docstrings."""
    tree = ast.parse(path.read_text())
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    strings = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in prose)
    return "\n".join(node.value for node in strings if isinstance(node.value, str))


def named_by(path):
    """The formats that a file names without being one of theirs."""
    if path.suffix == ".py":
        return names_in(strings_of(path))
    name = path.parent.name
    is_own = path.is_relative_to(CPP / "formats") and name in NAMES
    return names_in(code_of(path)) - ({name, *MADE_OF.get(name, ())} if is_own else set())


def test_a_format_is_one_folder():
    papers = CPP / "formats" / "papers", PYTHON / "papers"
    files = [
        path
        for path in [*FILES, *sorted(PYTHON.rglob("*.py"))]
        if path != LIST_OF_FORMATS and not any(map(path.is_relative_to, papers))
    ]
    found = {str(path.relative_to(CPP.parent)): named_by(path) for path in files}
    assert {path: names for path, names in found.items() if names} == {
        path: names for path, (names, _) in MAY_NAME.items()
    }


def test_names_are_found():
    name = NAMES[0]
    type_name = name.title().replace("_", "")
    assert names_in(f'{{"{name}", [](const Work& work) {{}}}}') == {name}
    assert names_in(f"std::vector<{type_name}Rows<T>> rows") == {name}
    assert names_in(f"{name}s and {type_name}ing are other words") == set()
