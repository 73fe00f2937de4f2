"""Where earlier pickles look for the choice of a format."""

from .formats import Choice

__all__ = ["Choice"]
