"""Device profiles: reading, writing, and what happens when one is not usable."""

import json
import re

import pytest

import spmvgpu as sg
from internals import own_profile
from spmvgpu import gallery
from spmvgpu.cli import main
from support import shipped_profile, write_profile

A = gallery.poisson2d(12)
THIS_CPU = sg.devices()[0]


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    """Every test has a cache directory of its own, whose profile no other test has loaded."""
    monkeypatch.setenv("SPMVGPU_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.parametrize("name", ["generic-cpu.json", "nvidia-h100-80gb-hbm3.json", "nvidia-h200.json"])
def test_shipped_profiles_are_complete(name):
    found = shipped_profile(name)
    assert found["kind"] == ("cpu" if "cpu" in name else "cuda")
    assert found["memory_bandwidth"] > 1e9
    assert found["measured"]["quick"] is False
    for dtype in ("f32", "f64"):
        assert found["power"][dtype] > 1e7
        assert found["guo2011"][dtype].keys() == {"csr", "ell", "coo"}
    assert set(found["formats"]) <= set(sg.formats())
    assert set(found["bus"]) == ({"up", "down"} if found["kind"] == "cuda" else set())


def test_the_own_profile_goes_before_the_shipped_one():
    write_profile(own_profile(), processors=77)
    assert "with 77 processors" in " ".join(str(sg.predict(A, "cpu")).split())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not JSON"),
        ("[1, 2]", "not a device profile"),
        ('{"schema": 99}', "another schema"),
        ('{"schema": 2, "device": "x"}', "missing or unknown"),
    ],
)
def test_a_broken_profile_is_named_and_replaced(text, reason):
    path = own_profile()
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.warns(UserWarning, match=reason) as caught:
        predictions = sg.predict(A, "cpu")
    assert str(path) in str(caught[0].message)
    assert "generic-cpu.json" in str(caught[0].message)
    assert predictions.best.time_us > 0
    sg.predict(A, "cpu")  # warned once: this one is silent


def test_models_with_missing_parts_are_refused(tmp_path):
    with pytest.warns(UserWarning, match=r"power are missing.*f64"):
        sg.predict(A, "cpu", profile=write_profile(tmp_path / "p.json", power={"f32": 1.0}))
    with pytest.warns(UserWarning, match=r"guo2011 are missing.*f32"):
        sg.partition.separator(
            A, "cpu", profile=write_profile(tmp_path / "q.json", guo2011={"f64": {"csr": {}}})
        )


def test_a_missing_file_is_named_and_replaced(tmp_path):
    with pytest.warns(UserWarning, match=r"nowhere\.json.*generic-cpu"):
        assert sg.predict(A, "cpu", profile=tmp_path / "nowhere.json").best.time_us > 0


def test_the_profile_of_another_device_is_not_used(tmp_path):
    path = write_profile(tmp_path / "p.json", device="Abacus 3000")
    with pytest.warns(UserWarning, match="another device: Abacus 3000"):
        assert "Abacus" not in str(sg.predict(A, "cpu", profile=path))


def test_an_unreadable_profile_does_not_stop_an_operator():
    path = own_profile()
    path.mkdir(parents=True)
    with pytest.warns(UserWarning, match=r"is not used"):
        op = sg.aslinearoperator(A, device="cpu", tune="full")
    assert op.format in sg.formats()


def _set(*keys):
    """An edit: what all keys but the last lead to gets that value."""
    *path, last, value = keys

    def edit(content):
        for key in path:
            content = content[key]
        content[last] = value

    return edit


def _use_profile():
    op = sg.aslinearoperator(A, device="cpu", tune="full")
    assert "bytes/non-zero" in op.explain()
    assert sg.partition.separator(A, "cpu").time_us > 0
    sg.cache.clear()


@pytest.mark.parametrize(
    "edit",
    [
        _set("processors", 10**400),
        _set("processors", 2**31),  # more than the core can be told
        _set("processors", True),
        _set("cache_bytes", 0),
        _set("cache_bytes", -1),
        _set("memory_bandwidth", 0),
        _set("memory_bandwidth", float("nan")),
        _set("kind", "abacus"),
        _set("kind", ["cpu"]),
        _set("kind", "cuda"),
        _set("power", {}),
        _set("power", "f64", "fast"),
        _set("bus", {"up": 1.0}),
        _set("measured", []),
        _set("guo2011", "f64", "ell", "rows", [1]),
        _set("guo2011", "f64", "ell", "rows", [1024] * 6),
        _set("guo2011", "f64", "ell", "times", [[1.0]]),
        _set("guo2011", "f64", "ell", "times", 0, 0, 0.0),
        _set("guo2011", "f64", "coo", {"line": [1.0]}),
        _set("guo2011", "f64", "coo", {"line": [-1.0, 1.0]}),
        _set("guo2011", "f64", "csr", "line", [6.0, 0]),
        _set("guo2011", "f64", "csr", "full_load", 0),
        _set("rates", 3),
        _set("rates", {"launch": 0}),
        _set("rates", {"launch": "fast"}),
        _set("formats", [3]),
        _set("formats", {"csr": {"scale": 1.0}}),
        _set("formats", {"csr": {"scale": 1e300, "error": 0.1}}),
        _set("formats", {"csr": {"scale": 1.0, "error": "large"}}),
    ],
)
def test_a_damaged_profile_is_replaced_with_one_warning(edit):
    content = shipped_profile("generic-cpu.json")
    edit(content)
    path = write_profile(own_profile(), **content | {"device": THIS_CPU.model})
    with pytest.warns(UserWarning, match=r"is not used") as caught:
        _use_profile()
    assert [str(path) in str(warning.message) for warning in caught] == [True]
    _use_profile()  # warned once: this one is silent


def test_errors_are_those_of_the_device_that_was_measured(tmp_path):
    own = write_profile(tmp_path / "own.json", processors=sg.devices()[0].multiprocessors)
    assert sg.predict(A, "cpu", profile=own).best.error > 0
    other = sg.predict(A, "cpu", profile=write_profile(tmp_path / "other.json", processors=12345))
    assert {entry.error for entry in other} == {None}
    assert "12345 processors, another device" in " ".join(str(other).split())


def test_the_name_of_a_profile_has_letters_digits_and_dashes():
    name = own_profile().name
    assert re.fullmatch(rf"[a-z0-9]+(-[a-z0-9]+)*-{THIS_CPU.multiprocessors}-threads\.json", name)


def test_calibrate_writes_a_profile_that_is_used(tmp_path, capsys):
    out, samples = tmp_path / "own.json", tmp_path / "samples.json"
    arguments = ["calibrate", "--device", "cpu", "--quick", "--out", str(out), "--samples", str(samples)]
    assert main(arguments) == 0
    made = json.loads(out.read_text())
    assert made["device"] == THIS_CPU.model
    assert made["measured"]["quick"]
    assert {path.name for path in tmp_path.iterdir()} <= {"own.json", "samples.json", "cache"}
    assert json.loads(samples.read_text())["roofline"][0]["time_us"] > 0
    assert str(out) in capsys.readouterr().out
    for model in ("roofline", "guo2011"):
        assert sg.predict(A, "cpu", model, profile=out).best.time_us > 0


def test_a_quick_calibration_is_not_kept_for_use(capsys):
    assert main(["calibrate", "--device", "cpu", "--quick"]) == 2
    assert "--out" in capsys.readouterr().err
    assert not own_profile().exists()
