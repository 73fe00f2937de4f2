"""What a release says of itself: one version, one address, and the licences of what is compiled in."""

import re
import shutil
import subprocess
from contextlib import suppress
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
    with suppress(metadata.PackageNotFoundError):  # in place, nothing is installed
        assert metadata.version("spmvgpu") == VERSION
    assert re.search(rf"^version: {re.escape(VERSION)}$", text("CITATION.cff"), re.MULTILINE)
    assert f'version: "{VERSION}"' in text("tools/conda/recipe.yaml")


CHANGES = re.findall(r"^## (.*) - (\d{4}-\d\d-\d\d|unreleased)$", text("CHANGELOG.md"), re.MULTILINE)
RELEASED = {version for version, date in CHANGES if date != "unreleased"}


def test_changelog_and_citation_have_the_date():
    assert len(CHANGES) == len(re.findall("^## ", text("CHANGELOG.md"), re.MULTILINE))
    version, date = CHANGES[0]
    assert version == VERSION
    dates = re.findall(r'^date-released: "(.*)"$', text("CITATION.cff"), re.MULTILINE)
    assert dates == ([date] if version in RELEASED else [])


@pytest.mark.parametrize("page", ["README.md", "docs/install.md"])
def test_pages_say_whether_there_is_a_release(page):
    assert ("There is no release yet." in text(page)) == (not RELEASED)
    assert f"git clone {REPOSITORY} && cd {REPOSITORY.split('/')[-1]}\n" in text(page)


@pytest.mark.skipif(
    not (ROOT / ".git").exists() or shutil.which("git") is None, reason="needs a checkout, and git"
)
def test_tags_are_of_releases():
    def tags(*which):
        command = ["git", "-c", f"safe.directory={ROOT}", "tag", "--list", "v*", *which]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        return set(done.stdout.split())

    assert {tag.removeprefix("v") for tag in tags()} <= RELEASED
    assert tags("--points-at", "HEAD") <= {f"v{VERSION}"}


def test_extras_that_pages_name_are_there():
    listed = PROJECT.split("[project.optional-dependencies]\n")[1].split("\n[")[0]
    extras = set(re.findall(r"^([\w-]+) = ", listed, re.MULTILINE))
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "python").rglob("*.py")]
    named = {
        extra
        for page in pages
        for extras_of_one in re.findall(r"spmvgpu\[([\w,-]+)\]", page.read_text(encoding="utf-8"))
        for extra in extras_of_one.split(",")
    }
    assert {"direct", "direct-cu12", "test"} <= named <= extras


def test_packages_have_code_for_the_same_gpus(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import wheels

    monkeypatch.setattr(wheels, "system_nvcc", lambda environment: None)
    known = [wheels.cuda_architectures(wheels.known_architectures(m)) for m in ("x86_64", "aarch64")]
    assert known[1] == "75-real;80-real;86-real;87-real;90-real;100;120-real"
    assert re.findall(r'CUDAARCHS = "(.*?)"', PROJECT) == known
    in_recipe = re.search("CUDAARCHS: (.*)", text("tools/conda/recipe.yaml"))[1]
    jetson = re.compile(r'\$\{\{ "(.*?)" if aarch64 else "" \}\}')
    assert [jetson.sub("", in_recipe), jetson.sub(r"\1", in_recipe)] == known
    assert wheels.cuda_architectures([75, 80, 90]) == "75-real;80-real;90"  # of an older nvcc


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


@pytest.mark.parametrize("package", ["pybind11", "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"])
def test_notices_have_the_licence_of_what_is_installed(package):
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed")
    (file,) = [file for file in files if re.fullmatch(r"licen[cs]e(\.txt)?", file.name, re.IGNORECASE)]
    words = file.read_text(encoding="utf-8").split()
    assert " ".join(words) in " ".join(NOTICES.split())
