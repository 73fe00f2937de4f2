"""Write the generated parts of ``docs/command-line.md``: ``python tools/command_line.py``.

Options, exit codes and the keys of JSON come from the parser and its tables, the examples from running them.
A test compares the page with them. What is between the marks of a part is replaced; the rest stays.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from textwrap import fill

from spmvgpu import cli

PAGE = Path(__file__).resolve().parents[1] / "docs" / "command-line.md"

# By the part of the page; each is run on the CPU, in an empty folder, without what tuning found before.
EXAMPLES = {
    "info-example": "spmvgpu info",
    "solve-example": "spmvgpu solve --problem poisson3d --size 30 --device cpu",
    "solve-failure": "spmvgpu solve --problem poisson3d --size 30 --device cpu --maxiter 20",
    "eigsh-example": "spmvgpu eigsh --problem poisson3d --size 30 --device cpu -k 3 --sigma 0",
    "bench-example": "spmvgpu bench --problem poisson3d --size 30 --device cpu",
    "calibrate-example": "spmvgpu calibrate --device cpu --quick --out profile.json",
    "cache-example": "spmvgpu cache",
}
_CACHE = "~/.cache/spmvgpu"  # what the page shows in place of the folder that an example used


def parts() -> dict[str, str]:
    """The parts that do not depend on the machine, by their names."""
    (commands,) = (a for a in cli.parser_of()._actions if isinstance(a, argparse._SubParsersAction))
    helps = [(f"[`{action.dest}`](#{action.dest})", str(action.help)) for action in commands._choices_actions]
    codes = [(f"{code}", meaning) for code, meaning in cli.EXIT_CODES.items()]
    made = {
        "commands": table(("command", "what it does"), helps),
        "exit-codes": table(("code", "meaning"), codes),
    }
    for name, parser in commands.choices.items():
        fields = import_module(f"spmvgpu.cli.{name}").FIELDS
        keys = [(f"`{path}`", kind, meaning) for path, (kind, meaning) in fields.items()]
        made[f"{name}-options"] = table(("option", "meaning"), options(parser))
        made[f"{name}-json"] = table(("key", "type", "meaning"), keys)
    return made


def options(parser: argparse.ArgumentParser) -> list[tuple[str, str]]:
    """The options of a command, with their values, and what they mean."""
    found = []
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        names = ", ".join(action.option_strings) or str(action.metavar)
        if action.option_strings and action.nargs != 0:
            names += f" {action.metavar or action.dest.upper()}"
        choices = f"one of {', '.join(map(str, action.choices))}: " if action.choices else ""
        found.append((f"`{names}`", as_code(f"{choices}{action.help}", action.choices or ())))
    return found


def as_code(text: str, values: Iterable[object]) -> str:
    """A text with marks of code around some values, options, suffixes of files and formulas."""
    words = "|".join(rf"\b{re.escape(str(value))}\b(?![\w-])" for value in values) or "(?!)"
    others = r"--[a-z]+|\bcuda(?::N)?\b|(?<!\w)\.(?:mtx\.gz|[a-z]{3})\b|\|\|.*\|\||\bcpu\b"
    return re.sub(f"{words}|{others}", lambda found: f"`{found[0]}`", text)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in cells)


def example(command: str) -> str:
    """A command and what it prints, on stderr too, with long lines folded as on a terminal."""
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache"
        done = subprocess.run(
            [sys.executable, "-m", *command.split()],
            cwd=folder,
            env={**os.environ, "SPMVGPU_CACHE_DIR": str(cache), "COLUMNS": "80"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    printed = done.stdout.replace(str(cache), _CACHE)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{command}: {printed}")
    lines = [line if len(line) <= 90 else fill(line, 90) for line in printed.splitlines()]
    return "\n".join(["```text", f"$ {command}", *lines, "```"])


def replaced(page: str, made: dict[str, str]) -> str:
    """A page with new parts; each must be in it once."""
    for name, text in made.items():
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        if page.count(begin) != 1 or page.count(end) != 1:
            raise ValueError(f"{PAGE}: {begin} and {end} must each be there once")
        before, after = page.split(begin)[0], page.split(end)[1]
        page = f"{before}{begin}\n{text}\n{end}{after}"
    return page


def main() -> int:
    made = parts() | {name: example(command) for name, command in EXAMPLES.items()}
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), made), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
