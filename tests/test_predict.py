"""`predict`: the table of all formats."""

import re

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import CASES, matrix
from internals import hold_at_most, own_profile
from spmvgpu import gallery
from spmvgpu.planning import Prediction, Predictions
from support import explained, shipped_profile, write_profile


def test_every_format_is_there_once(dtype):
    A = gallery.poisson3d(12).astype(dtype)
    table = sg.predict(A, "cpu")
    assert {entry.format for entry in table} == set(sg.formats())
    times = [entry.time_us for entry in table if entry.time_us is not None]
    assert times == sorted(times)
    assert table.best == table[0]
    assert len(table) == len(list(table))
    for entry in table:
        if entry.time_us is not None:
            assert entry.time_us > 0
            assert sg.estimate(A, entry.format, "cpu") == {"bytes": entry.bytes, "padding": entry.padding}


@pytest.mark.parametrize("on_gpu", [False, True])
def test_times_consist_of_parts(on_gpu, request):
    device = request.getfixturevalue("gpu") if on_gpu else "cpu"
    names = {"start", "bytes", "gathers", "work", "waits"}
    for entry in sg.predict(gallery.poisson2d(700), device):
        parts = entry.parts_us
        assert parts.keys() == (names if entry.time_us else set())
        if entry.time_us:
            assert max(parts.values()) <= entry.time_us * (1 + 1e-12)
            overlap = sum(parts.values()) > entry.time_us * (1 + 1e-12)
            assert overlap == on_gpu


def test_what_binds_a_product_is_explained(tmp_path, monkeypatch):
    monkeypatch.setenv("SPMVGPU_CACHE_DIR", str(tmp_path))
    write_profile(own_profile(), processors=sg.devices()[0].multiprocessors)
    lines = explained(sg.aslinearoperator(gallery.poisson2d(100), "csr", "cpu"))
    found = re.search(r"a product of ([\d.]+) us is bound by (.*?): (.*) [\d.]+, ", lines)
    total, bound, first = found.groups()
    assert first.startswith(bound)
    each = [float(us) for us in re.findall(r" ([\d.]+)(?:,|$|;)", lines[found.start() :])][:5]
    assert sum(each) == pytest.approx(float(total), abs=0.3)


def test_refusals_say_why_and_come_last():
    table = sg.predict(gallery.powerlaw(5000, 6), "cpu")
    last = table[-1]
    assert last.time_us is last.bytes is None
    assert last.format in last.note
    refusal = last.note.removeprefix(f"format '{last.format}' ")
    assert f"{last.name}: {refusal}" in " ".join(str(table).split())
    assert max(map(len, str(table).splitlines())) <= 100


@pytest.mark.parametrize("model", ["roofline", "guo2011"])
@pytest.mark.parametrize("case", CASES)
def test_every_matrix_is_predicted(case, model):
    table = sg.predict(matrix(case, np.dtype("float64")), "cpu", model)
    for entry in table:
        assert entry.time_us is None or (np.isfinite(entry.time_us) and entry.time_us >= 0)


def test_the_model_of_the_paper_knows_its_formats():
    table = sg.predict(gallery.poisson2d(50), "cpu", "guo2011")
    known = {entry.name for entry in table if entry.time_us is not None}
    assert known == {"csr kernel=shared", "ellpack", "coo", "hyb"}
    assert "does not cover" in next(entry.note for entry in table if entry.format == "sell")


def test_the_profile_of_a_gpu_predicts_without_the_gpu(gpu):
    small, large = (sg.predict(gallery.poisson2d(n), gpu) for n in (50, 700))
    assert "NVIDIA H200" in small.profile
    assert {"csr", "sell"} <= {entry.name for entry in small if entry.time_us is not None}
    times = {entry.name: entry.time_us for entry in small}
    assert all(entry.time_us > times[entry.name] for entry in large if entry.time_us is not None)


def test_a_format_that_was_never_timed_comes_after_those_that_were(gpu, tmp_path):
    profile = write_profile(tmp_path / "p.json", "nvidia-h200.json", device="NVIDIA H200", formats={})
    table = sg.predict(gallery.poisson2d(700), gpu, profile=profile)
    entry = next(entry for entry in table if entry.format == "csr_m")
    assert entry.time_us is entry.error is None
    assert entry.bytes > 0
    assert re.search(r"^csr_m +not known +- +[0-9.]+ +1\.\d\d +\[\d\]", str(table), re.MULTILINE)
    assert "ever timed" in entry.note
    rest = table[list(table).index(entry) :]
    assert all(other.time_us is None for other in rest)
    assert all(other.bytes is not None for other in table if other not in rest)


@pytest.mark.parametrize("is_timed", [False, True])
def test_a_format_that_the_profile_has_times_of_is_known(gpu, tmp_path, is_timed):
    known = shipped_profile("nvidia-h100-80gb-hbm3.json")["formats"]
    formats = {name: times for name, times in known.items() if name not in ("sell", "csr_m")}
    formats |= {"csr_m": known["csr"]} if is_timed else {}
    profile = write_profile(tmp_path / "p.json", "nvidia-h200.json", device="NVIDIA H200", formats=formats)
    table = {entry.format: entry for entry in sg.predict(gallery.poisson2d(700), gpu, profile=profile)}
    assert (table["csr_m"].time_us is not None) == is_timed
    assert table["sell"].time_us is not None  # by what it costs on another device
    assert table["sell"].error is None
    assert table["csr"].error is not None


def test_of_a_matrix_in_pieces_every_format_is_planned(gpu, monkeypatch):
    """Pieces that suit different formats would leave out different ones, whose times cannot be added."""
    A = sp.csr_array(sp.vstack([gallery.poisson2d(50), gallery.uniform_random(2500, 2500, 5)]))

    def planned():
        op = sg.aslinearoperator(A, device=gpu, tune="off", symmetric=False)
        return op.format, {step.of for step in op.tuning.steps if step.name == "plan"}

    _, whole = planned()
    hold_at_most(monkeypatch, 5000)
    format, pieces = planned()
    assert pieces >= whole
    assert format in pieces


def test_text_and_html():
    table = sg.predict(gallery.poisson2d(50), "cpu")
    for name in sg.formats():
        assert re.search(rf"^{name} ", str(table), re.MULTILINE)
        assert f">{name}<" in table._repr_html_()
    assert [line.split()[0] for line in repr(table).splitlines()[1:4]] == [entry.name for entry in table[:3]]
    assert "cpu" in str(table)
    assert "&lt;" in type(table)([Prediction("csr", note="a < b")], 1, "cpu", "m", "p")._repr_html_()


@pytest.fixture
def scale(tmp_path, monkeypatch):
    """Predict that products of some formats take so many times as long, with measurements of this CPU."""
    monkeypatch.setenv("SPMVGPU_CACHE_DIR", str(tmp_path))

    def scale(calibrated=True, **scales):
        formats = {name: {"scale": scale, "error": None} for name, scale in scales.items()}
        formats = shipped_profile("generic-cpu.json")["formats"] | formats
        processors = sg.devices()[0].multiprocessors + (not calibrated)
        write_profile(own_profile(), formats=formats, processors=processors)

    return scale


def rows_of(table):
    """Lines of a table of predictions after its head, which comes first."""
    lines = table.splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("format "))
    return [line for line in lines[begin:] if re.match(r"\w+ .*[\d-]", line)]


@pytest.mark.parametrize("calibrated", [True, False])
@pytest.mark.parametrize("format", ["coo", "csr", "dia"])
def test_explain_puts_the_format_in_use_first(format, calibrated, scale):
    scale(calibrated)
    op = sg.aslinearoperator(gallery.poisson2d(50), format=format, device="cpu")
    head, first, *others = rows_of(op.explain())
    assert first.split()[0] == format
    assert "<- in use" in first
    assert len(others) >= len(sg.formats()) - 1
    assert not any("in use" in line for line in others)
    assert ("us/product" in head) == calibrated
    assert ("python -m spmvgpu calibrate" in op.explain()) != calibrated


@pytest.mark.parametrize("calibrated", [True, False])
def test_times_of_another_device_are_shown_as_ratios(calibrated, scale):
    scale(calibrated)
    predictions = sg.predict(gallery.poisson2d(50), "cpu")
    assert predictions.is_calibrated == calibrated
    head, *rows = rows_of(str(predictions))
    assert head.split()[1] == ("us/product" if calibrated else "time/csr")
    shown = next(line.split()[1] for line in rows if line.startswith("csr "))
    csr_us = next(entry.time_us for entry in predictions if entry.format == "csr")
    assert float(shown) == pytest.approx(csr_us if calibrated else 1, abs=0.01)


def test_explain_has_what_is_not_known_in_last_place(scale):
    scale()
    lines = sg.aslinearoperator(gallery.poisson2d(30), "csr", "cpu").explain().splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("format")) + 1
    unknown = ["not known" in line for line in lines[begin : begin + len(sg.formats())]]
    assert unknown == sorted(unknown)
    assert any(unknown)


def test_explain_names_the_gain_of_what_is_not_considered(scale):
    A = gallery.poisson2d(30)
    scale(tsmv=1e-3, ellr_t=1e-3, sell=10.0, stencil=10.0)
    op, full = (sg.aslinearoperator(A, device="cpu", tune=tune) for tune in ("off", "full"))
    text = explained(op)
    assert re.search(r"tsmv is predicted to be \d+(\.\d+)? times as fast as csr", text)
    assert "it needs symmetric=True or tune='full'" in text
    assert "only format='ellr_t' gives it" in text
    assert "tsmv is predicted" not in explained(full)  # which has tried it


def test_explain_names_no_gain_where_there_is_none(scale):
    scale(csr=1e-3)
    assert "times as fast" not in explained(sg.aslinearoperator(gallery.poisson2d(30), device="cpu"))


def test_of_a_matrix_in_pieces_every_variant_in_use_is_marked():
    entries = [Prediction("csr", {"tile": tile}) for tile in (256, 512, 1024)]
    predictions = Predictions(entries, 1, "cpu", "roofline", "a CPU")
    options = {"parts": [{"format": "csr", "tile": tile, "kernel": "balanced"} for tile in (256, 1024)]}
    marks = ["in use" in line for line in predictions.table("csr", options).splitlines()[1:]]
    assert marks == [True, True, False]  # the two in use come first
