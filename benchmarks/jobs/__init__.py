"""Whole jobs, as users run them: ``python -m benchmarks.jobs``. See benchmarks/README.md."""
