"""The user's cache: seen, cleared, and never a reason to fail, whatever became of its files."""

import contextlib
import json
import math
import os
import sys
import warnings
from pathlib import Path

import pytest

import spmvgpu as sg
from internals import own_profile
from spmvgpu import cache, gallery
from spmvgpu.cli import main
from support import write_profile

A = gallery.poisson2d(20)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache of its own for every test, and nothing warned of yet."""
    monkeypatch.setenv("SPMVGPU_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_warned", set())
    cache._of_user.cache_clear()
    yield tmp_path / "cache"
    cache._of_user.cache_clear()


def tuned(format="sell", **options):
    return sg.aslinearoperator(A, format=format, device="cpu", tune="full", **options)


def entry(folder):
    """The one tuning result that there is."""
    (path,) = (folder / "tuning").iterdir()
    return path


def warned(*calls):
    """What was warned of in all of the calls together."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for call in calls:
            call()
    return [str(warning.message) for warning in caught]


def predict():
    assert sg.predict(A, "cpu").best.time_us > 0


SCHEMA = 5  # of results that this version reads


def content(**changes):
    """A tuning result that is right, but for the changes."""
    return {
        "schema": SCHEMA,
        "format": "sell",
        "options": {"warps_per_slice": 2},
        "reorder": None,
        "time_us": 1.5,
        "budget": math.inf,
    } | changes


DAMAGED = [
    "",
    "{",
    "null",
    "[]",
    "3",
    '"csr"',
    "\x00",
    "[" * 100_000,
    '{"a":' * 100_000,
    "1" * 5000,
    json.dumps(content(format=None)),
    json.dumps(content(format=["csr"])),
    json.dumps(content(format={})),
    json.dumps(content(format="gone")),
    json.dumps(content(format="csr")),  # not what was asked for
    json.dumps(content(options=None)),
    json.dumps(content(options=[])),
    json.dumps(content(options={"warps_per_slice": 3})),
    json.dumps(content(options={"warps_per_slice": True})),
    json.dumps(content(options={"warps_per_slice": 2.0})),
    json.dumps(content(options={"warps_per_slice": "2"})),
    json.dumps(content(options={"warps_per_slice": None})),
    json.dumps(content(options={"warps_per_slice": [2]})),
    json.dumps(content(options={"warps_per_slice": 10**30})),
    json.dumps(content(options={"no such option": 1})),
    json.dumps(content(options={"max_padding": 1e6})),  # tuning never loosens a limit
    json.dumps(content(reorder="auto")),
    json.dumps(content(time_us="short")),
    json.dumps(content(time_us=[1])),
    json.dumps(content(time_us=-1)),
    json.dumps(content(time_us=10**400)),
    json.dumps(content(time_us=float("nan"))),
    json.dumps(content(time_us=float("inf"))),
    json.dumps(content(budget=-1)),
    json.dumps(content(budget=None)),
    json.dumps(content(surplus=1)),
    json.dumps({"schema": SCHEMA}),
]


@pytest.mark.parametrize("text", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_result_is_as_good_as_none(folder, text):
    tuned()
    path = entry(folder)
    path.write_text(text)
    with pytest.warns(UserWarning, match="damaged") as caught:
        op = tuned()
    assert [str(path) in str(warning.message) for warning in caught] == [True]
    assert op.format == "sell"
    assert op.tuning.products > 0
    again = tuned()  # of what was written anew
    assert again.tuning.cached
    assert again.options == op.options


def test_a_result_that_is_right_is_used(folder):
    tuned()
    entry(folder).write_text(json.dumps(content()))
    op = tuned()
    assert op.tuning.cached
    assert op.options["warps_per_slice"] == 2


@pytest.mark.parametrize("options", [{"sigma": 32}, {"max_padding": 5.0}])
def test_a_result_for_other_options_is_damaged(folder, options):
    tuned(**options)
    assert tuned(**options).tuning.cached
    entry(folder).write_text(json.dumps(content()))
    with pytest.warns(UserWarning, match="damaged"):
        op = tuned(**options)
    assert op.options.items() >= options.items()


def test_a_result_of_another_version_is_passed_over_in_silence(folder):
    tuned()
    entry(folder).write_text('{"schema": 99, "anything": 1}')
    assert not tuned().tuning.cached


def make_directory(path):
    path.mkdir()


def make_pipe(path):
    os.mkfifo(path)


def make_loop(path):
    path.symlink_to(path)


def make_large(path):
    path.write_text(" " * (cache._MAX_FILE_BYTES + 1))


OBSTACLES = [make_directory, make_pipe, make_loop, make_large]


@pytest.mark.parametrize("make", OBSTACLES)
def test_something_else_in_place_of_a_result(folder, make):
    tuned()
    path = entry(folder)
    path.unlink()
    make(path)
    reasons = warned(tuned, tuned)
    assert sum("is not used" in reason for reason in reasons) == 1
    assert len(reasons) == len(set(reasons)) <= 2  # a directory cannot be overwritten, either


@pytest.mark.parametrize("make", OBSTACLES)
def test_something_else_in_place_of_a_profile(make):
    path = own_profile()
    path.parent.mkdir(parents=True)
    make(path)
    (reason,) = warned(predict, predict)
    assert "is not used" in reason


@contextlib.contextmanager
def locked(path):
    """Nobody may look into the folder; the superuser becomes somebody else meanwhile."""
    path.chmod(0o000)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        path.chmod(0o700)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions of this system are others")
def test_a_folder_that_cannot_be_searched(folder):
    with cache.empty():  # Somebody else may not be able to read the profiles of the package.
        predict()
    tuned()
    folder.parent.chmod(0o755)
    with locked(folder):
        kept, calibrated = warned(tuned, tuned, predict, predict)
        assert cache.info().tuning_entries == 0
    assert "cannot be kept" in kept
    assert "device profile" in calibrated


@pytest.mark.parametrize("name", ["file", "x" * 300])
def test_a_cache_that_cannot_be_written_is_no_error(monkeypatch, tmp_path, name):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SPMVGPU_CACHE_DIR", str(tmp_path / name))
    assert warned(tuned, predict)
    assert cache.info().tuning_entries == 0


def test_without_a_home_nothing_is_kept(monkeypatch, tmp_path):
    """As for a user without HOME who is in no list of users."""
    monkeypatch.delenv("SPMVGPU_CACHE_DIR")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cache.platformdirs, "user_cache_path", lambda *_, **__: Path("~/.cache/spmvgpu"))
    (reason,) = warned(tuned, predict, tuned, predict)
    assert "no home directory" in reason
    assert "SPMVGPU_CACHE_DIR" in reason
    assert os.listdir(tmp_path) == []
    assert cache.info() == cache.CacheInfo(None, 0, (), 0)
    assert cache.clear() == 0


def test_directory(monkeypatch, folder):
    assert cache.directory() == folder
    monkeypatch.delenv("SPMVGPU_CACHE_DIR")
    if sys.platform.startswith("linux"):
        monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
        assert str(cache.directory()) == "/somewhere/spmvgpu"
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setenv("HOME", "/home/her")
        assert str(cache.directory()) == "/home/her/.cache/spmvgpu"


def fill(folder):
    """A tuning result, a profile, and somebody's file, which is none of our business."""
    tuned()
    path = own_profile()
    write_profile(path)
    (folder / "notes.txt").write_text("mine")
    return path


def test_info_and_clear(folder):
    assert cache.info() == cache.CacheInfo(folder, 0, (), 0)
    path = fill(folder)
    found = cache.info()
    assert (found.tuning_entries, found.profiles) == (1, (path.stem,))
    assert found.bytes == path.stat().st_size + entry(folder).stat().st_size
    assert cache.clear() == 1
    assert cache.info().profiles == found.profiles
    assert cache.info().tuning_entries == 0
    assert cache.clear(profiles=True) == 1
    assert cache.info() == cache.CacheInfo(folder, 0, (), 0)
    assert (folder / "notes.txt").exists()


def test_command(folder, capsys):
    path = fill(folder)
    assert main(["cache"]) == 0
    shown = capsys.readouterr().out
    assert str(folder) in shown
    assert "1 of at most" in shown
    assert path.stem in shown
    assert main(["cache", "--clear"]) == 0
    assert "1 file\n" in capsys.readouterr().out
    assert path.exists()
    assert main(["cache", "--clear", "--profiles"]) == 0
    assert not path.exists()
    assert main(["cache", "--profiles"]) == 2
    assert "--clear" in capsys.readouterr().err
