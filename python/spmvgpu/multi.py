"""Where earlier pickles look for operators over several devices."""

from .origins import on_devices as _unpickle

__all__ = ["_unpickle"]
