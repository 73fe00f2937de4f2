"""Which folder of the C++ sources may include which: read from the #include lines."""

import re
from pathlib import Path

from support import over

CPP = Path(__file__).parents[1] / "cpp"

# Each folder includes itself and these. `cuda` is the backend of GPUs: its .hpp files need no CUDA header.
MAY_INCLUDE = {
    "core": set(),
    "passes": {"core"},
    "formats": {"core", "passes"},
    "io": {"core"},
    "model": {"core", "passes", "formats", "cuda"},
    "cuda": {"core", "formats", "passes"},
    "matrix": {"core", "passes", "formats", "cuda"},
    "vector": {"core", "cuda"},
    "solvers": {"core", "cuda", "matrix", "vector"},
    "bindings": {"core", "passes", "formats", "io", "model", "cuda", "matrix", "solvers"},
}

FILES = sorted(path for path in CPP.rglob("*") if path.suffix in {".cpp", ".hpp", ".cu", ".cuh"})


def included(path):
    """What a file's #include lines name: our own files in quotes, and others in brackets."""
    return [
        set(re.findall(pattern, path.read_text(), re.MULTILINE))
        for pattern in (r'^\s*#\s*include\s+"([^"]+)"', r"^\s*#\s*include\s+<([^>]+)>")
    ]


def test_every_folder_is_known():
    assert len(FILES) > 100
    assert {path.parent.name for path in FILES} == set(MAY_INCLUDE)


@over("path", FILES)
def test_a_file_includes_only_what_its_folder_may(path):
    allowed = {path.parent.name, *MAY_INCLUDE[path.parent.name]}
    ours, _ = included(path)
    assert not {name for name in ours if name.split("/")[0] not in allowed}, (
        f"it may include {sorted(allowed)}"
    )
    generated = {"bindings/build_info.hpp"}
    assert not {name for name in ours - generated if not (CPP / name).is_file()}


@over("path", FILES)
def test_pybind11_and_cuda_headers_stay_where_they_belong(path):
    _, headers = included(path)
    if path.parent.name != "bindings":
        assert not [name for name in headers if name.startswith(("pybind11/", "Python.h"))]
    if path.parent.name != "cuda":
        assert not [name for name in headers if name.startswith(("cuda_runtime", "cub/", "thrust/"))]


def test_a_file_that_needs_nvcc_is_never_included_by_one_that_does_not():
    needs_nvcc = {"cuda/check.hpp"} | {
        str(path.relative_to(CPP)) for path in FILES if path.suffix in {".cu", ".cuh"}
    }
    assert (CPP / "cuda" / "check.hpp").is_file()
    for path in FILES:
        if path.suffix in {".cpp", ".hpp"}:
            assert not needs_nvcc & included(path)[0], path
