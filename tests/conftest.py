"""Fixtures shared by all tests: every format, every device of this machine, both precisions."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import hypothesis
import numpy as np
import pytest

from battery import matrix, vector
from reference import assert_product

# Threads that spin while they wait hold each other up on a busy machine: tests would take many times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import spmvgpu as sg

hypothesis.settings.register_profile("spmvgpu", deadline=None, print_blob=True)
hypothesis.settings.load_profile("spmvgpu")

CUDA_DEVICES = [info.name for info in sg.devices() if info.name != "cpu"]


def cuda_params():
    """One parameter per CUDA device; with none, "cuda:0" is there as a visible skip."""
    if CUDA_DEVICES:
        return [pytest.param(name, marks=pytest.mark.gpu) for name in CUDA_DEVICES]
    skip = pytest.mark.skip(reason="this machine has no CUDA device")
    return [pytest.param("cuda:0", marks=[pytest.mark.gpu, skip])]


@pytest.fixture(scope="session", params=["cpu", *cuda_params()])
def device(request):
    """Name of a device: "cpu", then every CUDA device."""
    return request.param


@pytest.fixture(scope="session", params=cuda_params())
def cuda_device(request):
    """Name of a CUDA device."""
    return request.param


@pytest.fixture(scope="session", params=sg.formats())
def fmt(request):
    """Name of a storage format."""
    return request.param


@pytest.fixture(scope="session", params=["float32", "float64"])
def dtype(request):
    """A supported value type."""
    return np.dtype(request.param)


@pytest.fixture
def rng():
    """A generator that gives the same numbers in every run."""
    return np.random.default_rng(20110807)


@pytest.fixture(scope="session", params=["cupy", "torch"])
def library(request):
    """A Python library with arrays on the GPU, behind the small interface of libraries.py."""
    pytest.importorskip(request.param, reason=f"{request.param} is not installed")
    return getattr(importlib.import_module("libraries"), request.param.capitalize())()


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
