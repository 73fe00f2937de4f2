"""Device profiles: what calibration found out about a device, kept as JSON files.

The profile of a device is looked for in the user's cache directory, where ``python -m spmvgpu calibrate``
puts it, and then among those that ship with the package.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from spmvgpu import _core
from spmvgpu.devices import CPU, devices
from spmvgpu.model.guo2011 import Guo2011
from spmvgpu.model.roofline import Fit

SCHEMA = 1
SHIPPED = Path(__file__).parents[1] / "profiles"
_DEFAULTS = {"cpu": "generic-cpu.json", "cuda": "nvidia-h200.json"}


@dataclass(frozen=True)
class Profile:
    """What is known about one device.

    Attributes
    ----------
    device : str
        What the maker calls it.
    kind : {"cpu", "cuda"}
    processors : int
        Multiprocessors of a GPU, threads of a CPU.
    cache_bytes : int
        Of the last cache before memory: the L2 of a GPU.
    memory_bandwidth : float
        Bytes per second that the fastest product read.
    power : dict
        Non-zeros per second of a large product in the device's own best format, by dtype ("f32", "f64"): what
        a matrix is divided among devices by.
    bus : dict
        Bytes per second from host memory "up" to a GPU and "down" again; empty for a CPU.
    guo2011, roofline : dict
        Parameters of the models, by dtype.
    measured : dict
        When and with what the profile was made.
    """

    device: str
    kind: str
    processors: int
    cache_bytes: int
    memory_bandwidth: float
    power: Mapping[str, float]
    bus: Mapping[str, float]
    guo2011: Mapping[str, Any]
    roofline: Mapping[str, Any]
    measured: Mapping[str, Any] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write the profile, all at once or not at all."""
        text = json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1)
        # Lists of numbers on one line each.
        text = re.sub(r"\[[^\[\]{}]*\]", lambda match: re.sub(r"\s+", " ", match[0]), text)
        write_atomically(path, text + "\n")

    @classmethod
    def read(cls, path: Path) -> Profile:
        """Read a profile.

        Raises
        ------
        ValueError
            If the file is not a profile that this version understands; says why.
        OSError
            If it is not there or cannot be read.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"it is not JSON: {error}") from error
        if not isinstance(content, dict) or "schema" not in content:
            raise ValueError("it is not a device profile")
        if content.pop("schema") != SCHEMA:
            raise ValueError(f"it is of another schema; this version reads schema {SCHEMA}")
        try:
            profile = cls(**content)
        except TypeError as error:
            raise ValueError(f"entries are missing or unknown: {error}") from error
        for entry in fields(cls):
            expected = _TYPES[str(entry.type)]
            if not isinstance(getattr(profile, entry.name), expected):
                raise ValueError(f"{entry.name} is not of type {entry.type}")
        profile._check_models()
        return profile

    def _check_models(self) -> None:
        try:
            for dtype in ("f32", "f64"):
                Guo2011.from_parameters(self.guo2011[dtype])
                places = np.array(self.roofline[dtype]["places"], dtype=float)
                float(self.roofline[dtype]["launch_us"])
                for variant in self.roofline[dtype]["variants"]:
                    Fit.from_parameters(variant, places)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ValueError(f"its models are incomplete: {type(error).__name__} {error}") from error


_TYPES: dict[str, Any] = {"str": str, "int": int, "float": (int, float)}
_TYPES |= {name: dict for name in ("Mapping[str, float]", "Mapping[str, Any]")}


def cache_directory() -> Path:
    """Where this user's profiles and tuning results are kept; SPMVGPU_CACHE_DIR names another place."""
    given = os.environ.get("SPMVGPU_CACHE_DIR")
    if given:
        return Path(given)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "spmvgpu"


def profile_path(ordinal: int) -> Path:
    """Where the calibration of a device is kept."""
    return cache_directory() / "profiles" / f"{slug(device_model(ordinal), ordinal)}.json"


def load_profile(ordinal: int, path: str | os.PathLike[str] | None = None) -> Profile:
    """The profile of a device.

    Parameters
    ----------
    ordinal : int
        The device.
    path : path, optional
        A file to read instead of the device's own.

    Returns
    -------
    Profile
        The one asked for, if it is a valid profile of that device. Otherwise there is a warning that says
        what is wrong with which file, and the next best profile is used: the one that ships for the device,
        or for one of its kind.
    """
    if path is not None:
        return _read_or_warn(Path(path), ordinal) or _shipped(ordinal)
    return _loaded(ordinal, profile_path(ordinal))


@lru_cache(maxsize=16)
def _loaded(ordinal: int, path: Path) -> Profile:
    """Read once: a warning is not repeated for every operator."""
    return (_read_or_warn(path, ordinal) if path.exists() else None) or _shipped(ordinal)


def calibrated_power(ordinal: int, dtype: Any) -> float | None:
    """Non-zeros per second, from a profile measured on a device like this one; None without.

    Alike are GPUs of one model, and CPUs of one model with as many threads.
    """
    profile = load_profile(ordinal)
    is_alike = profile.device == device_model(ordinal)
    if ordinal == CPU:
        is_alike = is_alike and profile.processors == _core.max_threads()
    return profile.power[f"f{8 * np.dtype(dtype).itemsize}"] if is_alike else None


def forget_loaded() -> None:
    """Read the profiles anew when they are needed next."""
    _loaded.cache_clear()


def _read_or_warn(path: Path, ordinal: int) -> Profile | None:
    try:
        profile = Profile.read(path)
        if profile.device != device_model(ordinal):
            raise ValueError(f"it is of another device: {profile.device}, not {device_model(ordinal)}")
        return profile
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        instead = _shipped_path(ordinal).name
        warnings.warn(
            f"the device profile {path} is not used: {reason}; {instead} of this package is used instead. "
            "Measure this device with: python -m spmvgpu calibrate",
            UserWarning,
            stacklevel=3,
        )
        return None


def _shipped_path(ordinal: int) -> Path:
    own = SHIPPED / f"{slug(device_model(ordinal), ordinal)}.json"
    return own if own.exists() else SHIPPED / _DEFAULTS["cpu" if ordinal == CPU else "cuda"]


def _shipped(ordinal: int) -> Profile:
    path = _shipped_path(ordinal)
    profile = Profile.read(path)
    if ordinal != CPU and profile.device != device_model(ordinal):
        warnings.warn(
            f"there is no profile of {device_model(ordinal)}: {profile_path(ordinal)} is missing; the one of "
            f"{profile.device} is used instead. Measure this device with: python -m spmvgpu calibrate",
            UserWarning,
            stacklevel=3,
        )
    return profile


@lru_cache(maxsize=16)
def device_model(ordinal: int) -> str:
    """What a device's maker calls it."""
    return devices()[0].model if ordinal == CPU else str(_core.device_properties(ordinal)["model"])


def slug(model: str, ordinal: int) -> str:
    """File name of a device: letters, digits and dashes; of a CPU with the threads in use."""
    name = re.sub(r"\((r|tm)\)", "", model.lower())
    if ordinal == CPU:
        name += f" {_core.max_threads()} threads"
    return re.sub(r"[^a-z0-9]+", "-", name).strip("-")


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a reader, or another writer, never meets half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
