"""Device profiles: what calibration found out about a device, kept as JSON files.

The profile of a device is looked for in the user's cache directory, where ``python -m spmvgpu calibrate``
puts it, and then among those that ship with the package.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from .. import _core, cache
from .._util.lazy import lazy
from .._util.schema import Range, check
from .._util.steps import step
from .._util.types import DType
from .._util.value_types import type_in_profiles
from ..devices import CPU, devices

SCHEMA = 2
#: The types of values that profiles have times of.
DTYPES: dict[str, type[np.floating[Any]]] = {"f32": np.float32, "f64": np.float64}
SHIPPED = Path(__file__).parents[1] / "profiles"
_DEFAULTS = {"cpu": "generic-cpu.json", "cuda": "nvidia-h100-80gb-hbm3.json"}


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
    rates : dict
        The device in a dozen numbers: how long launches, bytes, gathers, instructions and loads take, over
        how long they take on the device that the library's costs are of, an H100 or a CPU of 16 threads.
        What is not named takes as long.
    formats : dict
        By name: "scale", how many times as long as the rates say products take, and "error", the mean
        relative error of predictions, or None where it is unknown.
    measured : dict
        When and with what the profile was made.
    extra : dict
        Sections of the file that others than planning write and read, by name.
    """

    device: str
    kind: str
    processors: int
    cache_bytes: int
    memory_bandwidth: float
    power: Mapping[str, float]
    bus: Mapping[str, float]
    rates: Mapping[str, float]
    formats: Mapping[str, Mapping[str, float | None]]
    measured: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    def model(self, dtype: DType, errors_hold: bool) -> _core.RooflineModel:
        """The roofline model of matrices of a value type, made once for each.

        `errors_hold`: the errors of the predictions are those on this device, see `is_profile_of`.
        """
        key = dtype, errors_hold
        if key not in self._models:
            measured = {
                name: (found["scale"] or 1.0, found["error"] if errors_hold else None)
                for name, found in self.formats.items()
            }
            self._models[key] = _core.RooflineModel(self.machine, dtype, measured)
        return self._models[key]

    @property
    def machine(self) -> _core.Machine:
        """What the model wants to know of the device."""
        return _core.Machine(self.kind == "cuda", self.cache_bytes, self.processors, self.rates)

    @lazy
    def _models(self) -> dict[tuple[DType, bool], _core.RooflineModel]:
        return {}

    def save(self, path: Path) -> None:
        """Write the profile, all at once or not at all."""
        content = asdict(self)
        extra = content.pop("extra")
        text = json.dumps({"schema": SCHEMA, **content, **extra}, indent=1)
        # Lists of numbers on one line each.
        text = re.sub(r"\[[^\[\]{}]*\]", lambda match: re.sub(r"\s+", " ", match[0]), text)
        cache.write(path, text + "\n")

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
        content = cache.read(path, object)
        if not isinstance(content, dict) or "schema" not in content:
            raise ValueError("it is not a device profile")
        if content.pop("schema") != SCHEMA:
            raise ValueError(f"it has another schema; this version reads schema {SCHEMA}")
        extra = {name: content.pop(name) for name in content.keys() - _TABLE.keys()}
        check(content, _TABLE)
        return cls(**content, extra=extra)


_LARGE = 1e18
_POSITIVE, _COUNT = Range(1e-9, _LARGE), Range(1, _LARGE, whole=True)
_SCALAR = (str, bool, type(None), Range(-_LARGE, _LARGE))
_FORMAT = {"scale": Range(1e-3, 1e3), "error": (type(None), Range(0, 1e6))}

# Contents of a profile: finite numbers, of sizes that the models can compute with.
_TABLE = {
    "device": str,
    "kind": {"cpu", "cuda"},
    "processors": Range(1, 1e6, whole=True),
    "cache_bytes": _COUNT,
    "memory_bandwidth": _POSITIVE,
    "power": dict.fromkeys(DTYPES, _POSITIVE),
    "bus": ({}, {"up": _POSITIVE, "down": _POSITIVE}),
    "rates": {str: Range(1e-3, 1e3)},
    "formats": {str: _FORMAT},
    "measured": {str: _SCALAR},
}


#: Raises ValueError for a profile that cannot be used.
Check: TypeAlias = Callable[[Profile], None] | None


def profile_path(ordinal: int) -> Path | None:
    """Where the calibration of a device is kept; None if this user has no place for it."""
    where = cache.directory()
    return None if where is None else where / "profiles" / f"{slug(ordinal)}.json"


def load_profile(ordinal: int, path: str | os.PathLike[str] | None = None, check: Check = None) -> Profile:
    """The profile of a device.

    Parameters
    ----------
    ordinal : int
        The device.
    path : path, optional
        A file to read instead of the device's own.
    check : callable, optional
        Raises ValueError for a profile that the caller cannot use, because of what is in `extra`.

    Returns
    -------
    Profile
        The one asked for, if it is a valid profile of that device. Otherwise there is a warning that says
        what is wrong with which file, and the next best profile is used: the one that ships for the device,
        or for one of its kind.
    """
    if path is not None:
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"profile={path!r} is not allowed; give the path of a file")
        return _read_or_warn(Path(path), ordinal, check) or shipped(ordinal)
    return _loaded(ordinal, profile_path(ordinal), check)


@lru_cache(maxsize=16)
def _loaded(ordinal: int, path: Path | None, check: Check) -> Profile:
    """Read once, not for every operator."""
    return (_read_or_warn(path, ordinal, check, is_optional=True) if path else None) or shipped(ordinal)


def is_profile_of(profile: Profile, ordinal: int) -> bool:
    """Whether a profile was measured on a device like this one.

    Alike are GPUs of one model, and CPUs of one model with as many threads.
    """
    is_alike = ordinal < _core.device_count() and profile.device == device_model(ordinal)
    return is_alike and (ordinal != CPU or profile.processors == _core.max_threads())


def model_of(profile: Profile, ordinal: int, dtype: DType) -> _core.RooflineModel:
    """The roofline model of matrices of a value type on a device."""
    return profile.model(dtype, is_profile_of(profile, ordinal))


def load_model(ordinal: int, dtype: DType) -> _core.RooflineModel:
    """`model_of` the profile of the device."""
    with step("profile"):
        return model_of(load_profile(ordinal), ordinal, dtype)


def calibrated_power(ordinal: int, dtype: Any) -> float | None:
    """Non-zeros per second, from a profile measured on a device like this one; None without."""
    profile = load_profile(ordinal)
    if not is_profile_of(profile, ordinal):
        return None
    return profile.power[type_in_profiles(dtype)]


def forget_loaded() -> None:
    """Read the profiles anew when they are needed next."""
    for found in (_loaded, _shipped_path, _warn):
        found.cache_clear()


def _read_or_warn(path: Path, ordinal: int, check: Check, is_optional: bool = False) -> Profile | None:
    kind = _kind(ordinal)
    try:
        profile = Profile.read(path)
        if profile.device != device_model(ordinal) or profile.kind != kind:
            raise ValueError(f"it belongs to another device: {profile.device}, not {device_model(ordinal)}")
        if check is not None:
            check(profile)
        return profile
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError) and is_optional:
            return None
        reason = error.strerror if isinstance(error, OSError) else str(error)
        shipped = _shipped_path(ordinal).name
        _warn(f"the device profile {path} is not used: {reason}; {shipped} of this package")
        return None


@lru_cache(maxsize=16)
def _warn(text: str) -> None:
    """Warn the caller of `load_profile`, once."""
    advice = "is used instead. Measure this device with: python -m spmvgpu calibrate"
    warnings.warn(f"{text} {advice}", UserWarning, stacklevel=4)


def _kind(ordinal: int) -> str:
    return "cpu" if ordinal == CPU else "cuda"


@lru_cache(maxsize=16)
def _shipped_path(ordinal: int) -> Path:
    own = SHIPPED / f"{slug(ordinal)}.json"
    return own if own.exists() else SHIPPED / _DEFAULTS[_kind(ordinal)]


@lru_cache(maxsize=16)
def _read_shipped(path: Path) -> Profile:
    """Read once: unlike a user's own, it stays what it is."""
    return Profile.read(path)


@lru_cache(maxsize=16)
def shipped(ordinal: int) -> Profile:
    """The device's own, or what its properties make of the one for a device of its kind."""
    profile = _read_shipped(_shipped_path(ordinal))
    if ordinal == CPU or profile.device == device_model(ordinal):
        return profile
    return scaled(profile, _core.device_properties(ordinal))


def scaled(profile: Profile, properties: Mapping[str, Any]) -> Profile:
    """The profile of a GPU of which no more is known than its properties."""
    units = properties["multiprocessors"] * properties["clock"]
    moves = _REFERENCE["memory_bandwidth"] / properties["memory_bandwidth"]
    works = _REFERENCE["multiprocessors"] * _REFERENCE["clock"] / units
    waits = _REFERENCE["clock"] / properties["clock"]
    rates = dict.fromkeys(("memory", "x_memory"), moves)
    rates |= dict.fromkeys(("cache", "x_cache", "work"), works) | dict.fromkeys(
        ("start", "load", "gather"), waits
    )
    return replace(
        profile,
        processors=properties["multiprocessors"],
        cache_bytes=properties["l2_bytes"],
        memory_bandwidth=profile.memory_bandwidth / moves,
        power={dtype: power / moves for dtype, power in profile.power.items()},
        rates=rates,
    )


#: The properties of the GPU that rates are over.
_REFERENCE = {"multiprocessors": 132, "clock": 1.98e9, "memory_bandwidth": 3.352e12}


@lru_cache(maxsize=16)
def device_model(ordinal: int) -> str:
    """What a device's maker calls it."""
    return devices()[0].model if ordinal == CPU else str(_core.device_properties(ordinal)["model"])


def slug(ordinal: int) -> str:
    """File name of a device: letters, digits and dashes; of a CPU with the threads in use."""
    model = device_model(ordinal)
    return _slug(f"{model} {_core.max_threads()} threads" if ordinal == CPU else model)


@lru_cache(maxsize=16)
def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"\((r|tm)\)", "", name.lower())).strip("-")
