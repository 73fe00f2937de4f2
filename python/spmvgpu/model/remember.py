"""What tuning found out, kept on disk: one small file per matrix and device."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spmvgpu import _core
from spmvgpu.model.profile import cache_directory, device_model, slug, write_atomically
from spmvgpu.tune import Choice, formats

SCHEMA = 1
MAX_ENTRIES = 512


def entry_path(features: Mapping[str, Any], dtype: Any, ordinal: int, wish: Mapping[str, Any]) -> Path:
    """Where the result is kept for all matrices with these features, this dtype, device and wish."""
    build = _core.build_info()
    key = {
        "features": features,
        "dtype": str(dtype),
        "device": slug(device_model(ordinal), ordinal),
        "wish": wish,
        "formats": formats(),
        "build": [build["version"], build["cuda_version"]],
    }
    name = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:32]
    return cache_directory() / "tuning" / f"{name}.json"


def recall(path: Path) -> Choice | None:
    """The choice kept there; None, with a warning, if the file is not what `keep` writes."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["schema"] != SCHEMA or content["format"] not in formats():
            return None  # of another version
        time_us = float(content["time_us"])
        reason = f"it was the fastest on a matrix like this one, at {time_us:.1f} us a product"
        return Choice(content["format"], dict(content["options"]), reason)
    except OSError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        warnings.warn(
            f"the tuning result {path} is not used: it is corrupt ({type(error).__name__}); "
            "it will be written anew",
            UserWarning,
            stacklevel=2,
        )
        return None


def keep(path: Path, choice: Choice, time_us: float) -> None:
    """Write a result. Where that is not possible, the next operator is tuned again: no reason to fail."""
    content = {"schema": SCHEMA, "format": choice.format, "options": choice.options, "time_us": time_us}
    try:
        write_atomically(path, json.dumps(content))
        _drop_oldest(path.parent)
    except OSError:
        pass


def _drop_oldest(folder: Path) -> None:
    files = list(folder.glob("*.json"))
    if len(files) <= MAX_ENTRIES:
        return

    def age(file: Path) -> float:
        try:
            return file.stat().st_mtime
        except OSError:  # another process was faster
            return 0.0

    for file in sorted(files, key=age)[: len(files) - MAX_ENTRIES * 3 // 4]:
        file.unlink(missing_ok=True)
