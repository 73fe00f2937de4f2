"""Where earlier pickles look for what was requested of several devices."""

from .planning.placement import Request as Wish

__all__ = ["Wish"]
