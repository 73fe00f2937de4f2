"""The PEP 517 backend: scikit-build-core's, with an nvcc from pip where a GPU would otherwise be left idle.

CUDA is built where an nvcc of CUDA 12.0 or later is found. Where there is none, but an NVIDIA driver, the pip
packages of NVIDIA's compiler are asked for as build requirements. ``SPMVGPU_CUDA=ON`` asks for them without a
driver too, on a login node or in a container, and ``SPMVGPU_CUDA=OFF`` leaves CUDA out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from scikit_build_core import build as _build
from scikit_build_core.build import (
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

from find_nvcc import Decision, look, requested_cuda

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

# The hooks that differ from scikit-build-core's


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    return [
        *_build.get_requires_for_build_wheel(config_settings),
        *look(config_settings, os.environ).requires,
    ]


def get_requires_for_build_editable(config_settings: dict[str, Any] | None = None) -> list[str]:
    return [
        *_build.get_requires_for_build_editable(config_settings),
        *look(config_settings, os.environ).requires,
    ]


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    _tell_cmake(config_settings)
    return _build.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    _tell_cmake(config_settings)
    return _build.build_editable(wheel_directory, config_settings, metadata_directory)


def _tell_cmake(settings: Mapping[str, Any] | None) -> None:
    decision = look(settings, os.environ)
    if decision.requires:  # without build isolation nobody installs what was asked for
        missing = f"no nvcc was found; install it: pip install '{decision.requires[0]}'"
        if requested_cuda(settings, os.environ) == "ON":
            raise RuntimeError(f"SPMVGPU_CUDA=ON, but {missing}")
        decision = Decision(False, f"{decision.reason}, but {missing}")
    os.environ["SPMVGPU_CUDA"] = "ON" if decision.cuda else "OFF"
    os.environ["SPMVGPU_CUDA_REASON"] = decision.reason
    if decision.nvcc is not None:
        os.environ["CUDACXX"] = decision.nvcc
