"""The commands of ``python -m spmvgpu``, one file each; `spmvgpu.cli.COMMANDS` lists them.

A command is a function ``add_<name>`` that adds its parser to the given subparsers and sets ``run``, a
function of the parsed arguments that returns the exit code.
"""
