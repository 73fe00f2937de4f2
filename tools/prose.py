"""Check the prose of the documentation: ``python tools/prose.py [FILE ...]``.

Words and phrases to avoid are in ``tools/prose.txt``. Sentences and headings have a longest length. Links to
files of the repository must lead to a file. A file is Markdown, a notebook (its Markdown cells are checked)
or Python (its docstrings with an example are checked, and its errors and warnings). Without files, all of
these are checked, and so are the comments of all C++ and Python files: the number with a phrase of
``BUDGETS`` may only fall.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[1]
PATTERNS = ("*.md", "docs/*.md", "experiments/*.md", "notebooks/*.ipynb", "python/spmvgpu/**/*.py")
LONGEST_SENTENCE, LONGEST_HEADING = 40, 9  # words
BUDGETS = {  # most comments with a phrase, in C++ and in Python
    r"\bthose of\b": (0, 6),
    r"\bso many\b": (0, 2),
    r"\b(nobody|somebody)\b": (0, 4),
    r"^(Of|Those|The same|What|Whether)\b": (0, 66),
}


class Text(NamedTuple):
    """A paragraph, a heading, or a cell of a table, without code."""

    line: int
    kind: str  # "paragraph", "heading" or "cell"
    words: str


class Rule(NamedTuple):
    pattern: re.Pattern[str]
    advice: str
    headings: bool  # looks at headings alone


def read_rules(text: str) -> list[Rule]:
    """The rules of ``tools/prose.txt``; lines without an arrow are comments."""
    rules = []
    for line in text.splitlines():
        pattern, arrow, advice = line.partition(" -> ")
        if arrow:
            compiled = re.compile(pattern.removeprefix("# "), re.IGNORECASE)
            rules.append(Rule(compiled, advice, pattern.startswith("# ")))
    return rules


def findings(texts: Iterator[Text], rules: list[Rule]) -> Iterator[tuple[int, str]]:
    """What is wrong, and in which line."""
    for line, kind, words in texts:
        for rule in rules:
            found = rule.pattern.search(words)
            if found and (kind == "heading" or not rule.headings):
                yield line, f'"{found[0].strip()}": {rule.advice}'
        if kind == "heading" and len(words.split()) > LONGEST_HEADING:
            yield line, f"a heading of more than {LONGEST_HEADING} words: {words}"
        if kind == "paragraph":
            for sentence in re.split(r"(?<=[.!?:;])\s+", words):
                count = len(re.findall(r"\w+", sentence))
                if count > LONGEST_SENTENCE:
                    yield line, f"a sentence of {count} words, more than {LONGEST_SENTENCE}: {sentence}"


# -- what is read ------------------------------------------------------------------------------------------


def in_markdown(text: str) -> Iterator[Text]:
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    for before, token in pairwise(tokens):
        if token.type == "inline":
            kind = {"heading_open": "heading", "paragraph_open": "paragraph"}.get(before.type, "cell")
            parts = ["code" if part.type == "code_inline" else part.content for part in token.children or []]
            breaks = [" " if part == "" else part for part in parts]
            yield Text((token.map or [0])[0] + 1, kind, "".join(breaks))


def in_notebook(text: str) -> Iterator[Text]:
    for number, cell in enumerate(json.loads(text)["cells"], 1):
        if cell["cell_type"] == "markdown":
            yield from (Text(number, kind, words) for _, kind, words in in_markdown("".join(cell["source"])))


def in_docstrings(text: str) -> Iterator[Text]:
    """The paragraphs of docstrings that have an example, without the example and inline code."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            continue
        prose, examples, _ = (ast.get_docstring(node) or "").partition("\nExamples\n")
        for paragraph in re.split(r"\n\s*\n", prose) if examples else ():
            words = re.sub(r"``.*?``|`.*?`", "code", " ".join(paragraph.split()))
            yield Text(node.lineno, "cell", words)


def in_messages(text: str) -> Iterator[Text]:
    """What is raised or warned of, with "code" in place of values."""
    for node in ast.walk(ast.parse(text)):
        is_warning = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("warn")
        call = node.exc if isinstance(node, ast.Raise) else node if is_warning else None
        if isinstance(call, ast.Call) and call.args:
            parts = getattr(call.args[0], "values", call.args[:1])  # of an f-string, or a string
            words = [str(part.value) if isinstance(part, ast.Constant) else "code" for part in parts]
            yield Text(call.lineno, "cell", "".join(words))


def in_python(text: str) -> Iterator[Text]:
    yield from in_docstrings(text)
    yield from in_messages(text)


READERS = {".md": in_markdown, ".ipynb": in_notebook, ".py": in_python}


# -- links -------------------------------------------------------------------------------------------------


def lost_links(text: str, repository: str) -> Iterator[tuple[int, str]]:
    """Absolute links to files of this repository that are not there; index pages show no relative ones."""
    path = repository.removeprefix("https://github.com/")
    address = (
        rf"https://(?:github\.com/{path}/(?:blob|tree)|raw\.githubusercontent\.com/{path})/main/([^\s)#>\"]+)"
    )
    for line, content in enumerate(text.splitlines(), 1):
        for file in re.findall(address, content):
            if not (ROOT / file).exists():
                yield line, f"a link leads to {file}, which is not there"


def relative_links(text: str) -> Iterator[tuple[int, str]]:
    for line, content in enumerate(text.splitlines(), 1):
        for target in re.findall(r"\]\((?!https?://|#)([^)]+)\)|^\[[^\]]+\]: (?!https?://)(\S+)", content):
            yield line, f"an index page shows no relative link: {''.join(target)}"


def check(file: Path, rules: list[Rule], repository: str) -> list[tuple[int, str]]:
    text = file.read_text(encoding="utf-8")
    found = [*findings(READERS[file.suffix](text), rules), *lost_links(text, repository)]
    if file == ROOT / "README.md":
        found += relative_links(text)
    return sorted(found)


# -- comments ----------------------------------------------------------------------------------------------


def comments(text: str, marker: str) -> Iterator[tuple[int, str]]:
    """Paragraphs of comments and their first lines; the next line continues one from the same column on."""
    start, column, words = 0, 0, ""
    for line, content in enumerate([*text.splitlines(), ""], 1):
        found = re.match(rf"(|.*\s){marker}\s+(.+)$", content)
        continues = found is not None and not found[1].strip() and len(found[1]) == column
        if words and not continues:
            yield start, words
            words = ""
        if found is not None:
            start, column = (start if words else line), len(found[1])
            words = f"{words} {found[2]}".strip()


def over_budgets(budgets: dict[str, tuple[int, int]]) -> Iterator[str]:
    """Comments with a phrase that more have than its budget allows. Prints how far budgets can be lowered."""
    for column, (marker, pattern) in enumerate((("//", "cpp/**"), ("#", "**/*.py"))):
        read = [
            (f"{file.relative_to(ROOT)}:{line}: {words}", words)
            for file in files(pattern)
            for line, words in comments(file.read_text(encoding="utf-8"), marker)
        ]
        for phrase, limits in budgets.items():
            found = [where for where, words in read if re.search(phrase, words)]
            if len(found) > limits[column]:
                yield from found
                yield f"{len(found)} comments with {phrase}, at most {limits[column]}: reword new ones"
            elif len(found) < limits[column]:
                print(f"{phrase}: lower the budget from {limits[column]} to {len(found)} {marker} comments")


def files(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", *(f":(glob){pattern}" for pattern in patterns)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    return [ROOT / name for name in listed]


def main(arguments: list[str]) -> int:
    rules = read_rules((ROOT / "tools" / "prose.txt").read_text(encoding="utf-8"))
    metadata = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    repository = re.search(r'^Repository = "(.+)"', metadata, re.MULTILINE)
    if repository is None:
        raise SystemExit("pyproject.toml has no Repository among its URLs")
    count = 0
    for file in [Path(name).resolve() for name in arguments] or files(*PATTERNS):
        for line, what in check(file, rules, repository[1]):
            print(f"{file.relative_to(ROOT)}:{line}: {what}")
            count += 1
    for what in [] if arguments else over_budgets(BUDGETS):
        print(what)
        count += 1
    print(f"{count} findings" if count else "no findings")
    return 1 if count else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
