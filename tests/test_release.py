"""What a release says of itself: one version, one address, and the licences of what is compiled in."""

import re
from importlib import metadata
from pathlib import Path

import pytest

import spmvgpu as sg

ROOT = Path(__file__).parents[1]
PROJECT = (ROOT / "pyproject.toml").read_text()
VERSION = re.search(r'^version = "(.*)"$', PROJECT, re.MULTILINE)[1]
REPOSITORY = re.search(r'^Repository = "(.*)"$', PROJECT, re.MULTILINE)[1]
NOTICES = (ROOT / "THIRD_PARTY_NOTICES.txt").read_text(encoding="utf-8")


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_versions_agree():
    assert sg.__version__ == VERSION
    assert re.search(rf"^version: {re.escape(VERSION)}$", text("CITATION.cff"), re.MULTILINE)
    assert f'version: "{VERSION}"' in text("tools/conda/recipe.yaml")


def test_changelog_and_citation_have_the_date():
    newest = re.search(r"^## (\d.*) - (\d{4}-\d\d-\d\d)$", text("CHANGELOG.md"), re.MULTILINE)
    assert newest[1] == VERSION
    assert f'date-released: "{newest[2]}"' in text("CITATION.cff")


def test_addresses_agree():
    owner, name = REPOSITORY.split("/")[-2:]
    assert f"https://github.com/{owner}/{name}" == REPOSITORY
    urls = PROJECT.split("[project.urls]\n")[1].split("\n\n")[0]
    for address in re.findall(r'"(.*)"', urls):
        assert address.startswith((REPOSITORY, f"https://{owner}.github.io/{name}/"))
    assert f"repository-code: {REPOSITORY}\n" in text("CITATION.cff")
    recipe = text("tools/conda/recipe.yaml")
    assert f"repository: {REPOSITORY}\n" in recipe
    assert f"url: {REPOSITORY}/archive/refs/tags/v${{{{ version }}}}.tar.gz" in recipe


@pytest.mark.parametrize("key", ["requires", "dependencies"])
def test_recipe_requires_what_the_package_requires(key):
    needed = re.search(rf"^{key} = \[(.*)\]$", PROJECT, re.MULTILINE)[1]
    for name, version in re.findall(r'"([\w-]+)(>=[\d.]+)"', needed):
        assert f"- {name} {version}\n" in text("tools/conda/recipe.yaml")


def test_licences_are_shipped():
    assert 'license-files = ["LICENSE", "THIRD_PARTY_NOTICES.txt"]' in PROJECT
    listed = re.findall(r"^(\d)\. (.*)$", NOTICES, re.MULTILINE)
    texts = re.findall(r"^# (\d)\. (.*)$", NOTICES, re.MULTILINE)
    assert listed[: len(texts)] == texts
    assert {name.split(" (")[0] for _, name in texts} == {
        "pybind11",
        "CUDA Core Compute Libraries",
        "CUDA Runtime",
    }
    for passage in (
        "Wenzel Jakob",
        "---- LLVM Exceptions to the Apache 2.0 License ----",
        "CUB's source code is released under the BSD 3-Clause license",
        "The following portions of the SDK are distributable under the\nAgreement",
    ):
        assert passage in NOTICES


@pytest.mark.parametrize("package", ["pybind11", "nvidia-cuda-runtime"])
def test_notices_have_the_licence_of_what_is_installed(package):
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed")
    (file,) = [file for file in files if re.fullmatch(r"licen[cs]e(\.txt)?", file.name, re.IGNORECASE)]
    words = file.read_text(encoding="utf-8").split()
    assert " ".join(words) in " ".join(NOTICES.split())
