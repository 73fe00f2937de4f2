"""Which room, or folder, of the C++ sources may include which: read from the #include lines."""

import re
from pathlib import Path

from support import over

CPP = Path(__file__).parents[1] / "cpp"

# Each room includes itself and these, all of which stand above it in this table.
MAY_INCLUDE = {
    "core": set(),
    "gpu": {"core"},
    "formats": {"core", "gpu"},
    "matrix": {"core", "gpu", "formats"},
    "multi": {"core", "gpu", "formats", "matrix"},
    "planning": {"core", "gpu", "formats", "matrix", "multi"},
    "solvers": {"core", "gpu", "formats", "matrix", "multi"},
    "bindings": {"core", "gpu", "formats", "matrix", "multi", "planning", "solvers"},
}

# The same of the folders in `solvers`; "" stands for the files beside them, which bring all together.
SOLVERS_MAY_INCLUDE = {
    "system": set(),
    "engines": {"system"},
    "preconditioners": {"system", "engines"},
    "methods": {"system", "engines"},
    "": {"system", "engines", "preconditioners", "methods"},
}

FILES = sorted(path for path in CPP.rglob("*") if path.suffix in {".cpp", ".hpp", ".cu", ".cuh"})


def room(path):
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


def test_every_room_is_known():
    assert len(FILES) > 100
    assert {room(path) for path in FILES} == set(MAY_INCLUDE)


@over("table", [MAY_INCLUDE, SOLVERS_MAY_INCLUDE])
def test_rooms_do_not_include_each_other_in_a_circle(table):
    above = set()
    for name, below in table.items():
        assert below <= above, name
        above.add(name)


@over("path", FILES)
def test_a_file_includes_only_what_its_room_may(path):
    allowed = {room(path), *MAY_INCLUDE[room(path)]}
    ours, _ = included(path)
    assert not {name for name in ours if name.split("/")[0] not in allowed}, (
        f"it may include {sorted(allowed)}"
    )
    generated = {"bindings/build_info.hpp"}
    assert not {name for name in ours - generated if not (CPP / name).is_file()}


def in_solvers(name):
    """The folder of `solvers` that holds a file, or "" for one beside the folders."""
    return "/".join(Path(name).parts[1:-1])


@over("path", [path for path in FILES if room(path) == "solvers"])
def test_a_file_of_solvers_includes_only_what_its_folder_may(path):
    own = in_solvers(path.relative_to(CPP))
    allowed = {own, *SOLVERS_MAY_INCLUDE[own]}
    ours, _ = included(path)
    assert {in_solvers(name) for name in ours if name.startswith("solvers/")} <= allowed


@over("path", FILES)
def test_pybind11_stays_in_the_bindings(path):
    _, headers = included(path)
    if room(path) != "bindings":
        assert not [name for name in headers if name.startswith(("pybind11/", "Python.h"))]


# Patterns that name CUDA, and how often they may stand outside gpu/cuda and the kernels. A number here may
# only fall.
NAMES_OF_CUDA = {
    r"\bcuda::|::cuda\b|\bis_cuda\b": 0,
    r"^\s*#\s*include\s+<(cuda|cub/|thrust/)": 0,
}


@over("pattern", NAMES_OF_CUDA)
def test_gpus_are_reached_by_their_door(pattern):
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
