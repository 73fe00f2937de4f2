"""Whole jobs, as users run them; `measure` is the command."""
