"""Products on suites of matrices; the commands are `run`, `symmetric`, `multi` and `prediction`."""
