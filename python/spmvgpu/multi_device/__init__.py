"""The operator over several devices of one process, and what goes where."""
