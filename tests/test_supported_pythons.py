"""The Pythons that the package declares are those that are tested, and those that wheels are made for."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = (ROOT / "pyproject.toml").read_text()
DECLARED = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', PROJECT)
TAGS = [f"cp{version.replace('.', '')}" for version in DECLARED]
TAGS += [f"{TAGS[-1]}t"]  # the newest without the interpreter lock as well


def in_checkout(name):
    """The text of a file that source distributions leave out."""
    path = ROOT / name
    if not path.is_file():
        pytest.skip(f"{name} is in the repository only")
    return path.read_text()


def matrix(workflow, key):
    """The values that a workflow of GitHub takes for one key of its matrix."""
    text = in_checkout(f".github/workflows/{workflow}.yml")
    values = re.search(rf"^ +{key}: \[(.*)\]$", text, re.MULTILINE)[1]
    return re.findall(r"[\w.]+", values)


def test_none_between_the_first_and_the_last_is_missing():
    minors = [int(version.removeprefix("3.")) for version in DECLARED]
    assert minors == list(range(minors[0], minors[-1] + 1))
    assert f'requires-python = ">={DECLARED[0]}"' in PROJECT


def test_all_are_tested():
    assert matrix("checks", "python") == DECLARED
    smoke = re.findall(r'stage: smoke, python: "([\d.]+)"', in_checkout(".github/workflows/checks.yml"))
    assert smoke == [DECLARED[0], DECLARED[-1]]


def test_wheels_are_made_for_all():
    assert re.search(r'^build = "(.*?)"', PROJECT, re.MULTILINE)[1].split() == [f"{tag}-*" for tag in TAGS]
    assert matrix("wheels", "build") == TAGS
    guide = (ROOT / "docs" / "install.md").read_text()
    assert re.search(r"tools/wheels.py --python (.*)", guide)[1].split() == [f"python{v}" for v in DECLARED]
    assert f"for Python {DECLARED[0]} to {DECLARED[-1]}" in guide


def test_hooks_and_the_extra_lint_check_with_the_same_versions():
    extra = re.search(r"^lint = \[(.*)\]$", PROJECT, re.MULTILINE)[1]
    # The stub is made from the compiled module, which hooks do without.
    pinned = {pin for pin in re.findall(r"[\w-]+==[\d.]+", extra) if "stubgen" not in pin}
    assert set(re.findall(r"[\w-]+==[\d.]+", in_checkout(".pre-commit-config.yaml"))) == pinned
