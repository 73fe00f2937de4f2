"""The build backend: which nvcc it finds or asks pip for, what it tells CMake, and why."""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from find_nvcc import Nvcc, decide, requested_cuda, requirement, system_nvcc, usable

BACKEND = Path(__file__).parents[1] / "build_backend"
TOOLKIT = Nvcc("/opt/cuda/bin/nvcc", (12, 4))
FROM_PIP = Nvcc("/site-packages/nvidia/cu13/bin/nvcc", (13, 0))


@pytest.mark.parametrize(
    ("requested", "system", "from_pip", "driver", "on_pip", "cuda", "nvcc", "asks", "reason"),
    [
        ("OFF", TOOLKIT, FROM_PIP, (13, 0), True, False, None, False, "SPMVGPU_CUDA is OFF"),
        ("AUTO", TOOLKIT, None, None, True, True, TOOLKIT.path, False, "nvcc 12.4 is installed"),
        ("AUTO", TOOLKIT, FROM_PIP, (13, 0), True, True, TOOLKIT.path, False, "nvcc 12.4 is installed"),
        ("AUTO", None, None, None, True, False, None, False, "neither nvcc nor an NVIDIA driver"),
        ("AUTO", None, FROM_PIP, None, True, False, None, False, "neither nvcc nor an NVIDIA driver"),
        ("AUTO", None, None, (13, 1), True, True, None, True, "driver of CUDA 13.1 was found"),
        ("AUTO", None, FROM_PIP, (13, 1), True, True, FROM_PIP.path, False, "nvcc 13.0 is the one of pip"),
        ("AUTO", None, None, (12, 4), True, False, None, False, "install the CUDA Toolkit 12.4"),
        ("AUTO", None, None, (13, 0), False, False, None, False, "pip does not have for this platform"),
        ("ON", TOOLKIT, FROM_PIP, None, True, True, TOOLKIT.path, False, "nvcc 12.4 is installed"),
        ("ON", None, None, None, True, True, None, True, "SPMVGPU_CUDA is ON"),
        ("ON", None, FROM_PIP, None, True, True, FROM_PIP.path, False, "nvcc 13.0 is the one of pip"),
    ],
)
def test_decision(requested, system, from_pip, driver, on_pip, cuda, nvcc, asks, reason):
    decision = decide(requested, system, from_pip, driver, on_pip)
    assert (decision.cuda, decision.nvcc, bool(decision.requires)) == (cuda, nvcc, asks)
    assert reason in decision.reason


def test_on_without_any_nvcc_is_refused():
    with pytest.raises(RuntimeError, match="pip has none for this platform; install the CUDA Toolkit"):
        decide("ON", None, None, None, on_pip=False)


@pytest.mark.parametrize(
    ("driver", "expected"),
    [
        (None, "cuda-toolkit[nvcc,cudart,cccl]==13.*"),
        ((13, 0), "cuda-toolkit[nvcc,cudart,cccl]==13.*,<13.1"),  # a newer one's PTX is Greek to the driver
        ((12, 8), "cuda-toolkit[nvcc,cudart,cccl]==13.*"),
        ((14, 1), "cuda-toolkit[nvcc,cudart,cccl]==13.*"),
    ],
)
def test_the_toolkit_is_not_newer_than_the_driver(driver, expected):
    assert requirement(driver) == expected


@pytest.mark.parametrize(
    ("settings", "environment", "expected"),
    [
        (None, {}, "AUTO"),
        ({}, {"SPMVGPU_CUDA": "on"}, "ON"),
        ({}, {"CMAKE_ARGS": "-DFOO=1 -DSPMVGPU_CUDA=OFF"}, "OFF"),
        ({}, {"CMAKE_ARGS": "-DSPMVGPU_CUDA:STRING=ON", "SPMVGPU_CUDA": "OFF"}, "ON"),
        ({"cmake.define.SPMVGPU_CUDA": "OFF"}, {"SPMVGPU_CUDA": "ON"}, "OFF"),
    ],
)
def test_who_decides(settings, environment, expected):
    assert requested_cuda(settings, environment) == expected


def test_other_values_are_refused():
    with pytest.raises(ValueError, match="SPMVGPU_CUDA=YES is not allowed; give AUTO, ON or OFF"):
        requested_cuda(None, {"SPMVGPU_CUDA": "yes"})


@pytest.fixture
def make_nvcc(tmp_path):
    """A function that writes an nvcc which only tells its version, and returns its path."""

    def make(version, name="bin"):
        path = tmp_path / name / "nvcc"
        path.parent.mkdir()
        path.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {version}, V{version}.0'\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return make


def test_an_old_or_broken_nvcc_is_passed_over(make_nvcc, tmp_path):
    assert usable(str(make_nvcc("12.0", "new"))).version == (12, 0)
    assert usable(str(make_nvcc("11.8", "old"))) is None
    assert usable(str(make_nvcc("unknown", "odd"))) is None
    assert usable(str(tmp_path)) is None
    assert usable(str(tmp_path / "absent")) is None


def test_where_nvcc_is_looked_for(make_nvcc):
    old, new, other = make_nvcc("11.8", "old"), make_nvcc("12.3", "new"), make_nvcc("13.1", "other")
    on_path = {"PATH": str(new.parent)}
    assert system_nvcc(on_path).path == str(new)
    assert system_nvcc({**on_path, "CUDACXX": str(other)}).path == str(other)
    assert system_nvcc({**on_path, "CUDACXX": str(old)}).path == str(new)
    other.parent.rename(other.parent.parent / "bin")
    assert system_nvcc({"PATH": "", "CUDA_HOME": str(other.parent.parent)}).version == (13, 1)


PYPROJECT = """
[build-system]
requires = ["scikit-build-core"]
build-backend = "spmvgpu_build"
[project]
name = "told"
version = "1"
[tool.scikit-build]
wheel.packages = []
"""

# What CMake is told ends in the wheel.
CMAKE = """
cmake_minimum_required(VERSION 3.15)
project(told LANGUAGES NONE)
file(WRITE ${CMAKE_BINARY_DIR}/told.txt "$ENV{SPMVGPU_CUDA}|$ENV{CUDACXX}|$ENV{SPMVGPU_CUDA_REASON}")
install(FILES ${CMAKE_BINARY_DIR}/told.txt DESTINATION .)
"""

HOOKS = """
import json, sys, zipfile
import find_nvcc, spmvgpu_build
find_nvcc.driver_version = lambda: DRIVER
hook, *arguments = sys.argv[1:]
result = getattr(spmvgpu_build, hook)(*arguments)
if hook == "build_wheel":
    result = zipfile.ZipFile(result).read("told.txt").decode().split("|")
print(json.dumps(result))
"""


def run_hook(hook, *arguments, cwd, driver=None, check=True, **environment):
    """Run a hook of the backend in a process of its own, as pip does; its result, or what it said."""
    kept = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", HOOKS.replace("DRIVER", repr(driver)), hook, *arguments],
        cwd=cwd,
        env={**kept, "PYTHONPATH": str(BACKEND), **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    if not check:
        assert done.returncode != 0
        return done.stderr
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def project(tmp_path):
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    return tmp_path


@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_build_requirements(kind, project):
    hook = f"get_requires_for_build_{kind}"
    toolkit = "cuda-toolkit[nvcc,cudart,cccl]==13.*"
    hidden = {"CUDA_HOME": "/nowhere", "PATH": "/nowhere"}
    if system_nvcc(hidden) is None:  # where a toolkit is in its usual place, it is found whatever PATH says
        assert toolkit in run_hook(hook, cwd=project, SPMVGPU_CUDA="ON", **hidden)
        assert f"{toolkit},<13.1" in run_hook(hook, cwd=project, driver=(13, 0), **hidden)
    assert not [name for name in run_hook(hook, cwd=project, SPMVGPU_CUDA="OFF") if "cuda" in name]
    assert not [
        name for name in run_hook(hook, cwd=project, SPMVGPU_CUDA="OFF", driver=(13, 0)) if "cuda" in name
    ]


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")
def test_what_cmake_is_told(project, make_nvcc):
    nvcc = make_nvcc("12.6")
    told = run_hook("build_wheel", ".", cwd=project, CUDACXX=str(nvcc))
    assert told == ["ON", str(nvcc), f"nvcc 12.6 is installed: {nvcc}"]
    told = run_hook("build_wheel", ".", cwd=project, SPMVGPU_CUDA="OFF")
    assert told == ["OFF", "", "SPMVGPU_CUDA is OFF"]


@pytest.mark.skipif(system_nvcc({"PATH": ""}) is not None, reason="a CUDA Toolkit is in its usual place")
def test_an_nvcc_that_nobody_installed(project):
    """Without build isolation the requirement is not met: ON refuses, AUTO leaves CUDA out and says so."""
    folder = str(Path(shutil.which("cmake") or "/nowhere/cmake").parent)
    message = run_hook("build_wheel", ".", cwd=project, check=False, SPMVGPU_CUDA="ON", PATH=folder)
    assert "SPMVGPU_CUDA=ON, but no nvcc was found; install it: pip install 'cuda-toolkit[" in message
