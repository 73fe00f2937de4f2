"""`predict`: the table of all formats."""

import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import CASES, matrix
from spmvgpu import gallery
from spmvgpu.inputs import limits
from spmvgpu.inputs.canonical import canonical_csr
from spmvgpu.inputs.csr import CanonicalCsr
from spmvgpu.operator import explain
from spmvgpu.planning import choosing
from spmvgpu.planning import profile as profile_module
from spmvgpu.planning.predict import Prediction, Predictions, predict_considered, predict_csr
from spmvgpu.planning.profile import SHIPPED, Profile
from spmvgpu.planning.request import Request
from spmvgpu.planning.symmetry import Symmetry
from support import explained


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


def test_the_profile_of_a_gpu_predicts_without_the_gpu():
    profile = Profile.read(SHIPPED / "nvidia-h200.json")
    small = predict_csr(CanonicalCsr.of(gallery.poisson2d(50)), 0, "roofline", profile)
    large = predict_csr(CanonicalCsr.of(gallery.poisson2d(700)), 0, "roofline", profile)
    names = {entry.name for entry in small if entry.time_us is not None}
    assert {"csr", "sell"} <= names
    times = {entry.name: entry.time_us for entry in small}
    assert all(entry.time_us > times[entry.name] for entry in large if entry.time_us is not None)


def test_a_format_that_was_never_timed_comes_after_those_that_were():
    profile = replace(Profile.read(SHIPPED / "nvidia-h100-80gb-hbm3.json"), formats={})
    table = predict_csr(CanonicalCsr.of(gallery.poisson2d(700)), 0, "roofline", profile)
    entry = next(entry for entry in table if entry.format == "csr_m")
    assert entry.time_us is entry.error is None
    assert entry.bytes > 0
    assert re.search(r"^csr_m +not known +- +[0-9.]+ +1\.\d\d +\[\d\]", str(table), re.MULTILINE)
    assert "ever timed" in entry.note
    assert all(other.time_us is None for other in table[table.index(entry) :])
    assert all(other.bytes is not None for other in table[: table.index(entry)])


def test_a_format_that_the_profile_has_times_of_is_known():
    without = Profile.read(SHIPPED / "nvidia-h100-80gb-hbm3.json")
    without = replace(
        without, formats={name: f for name, f in without.formats.items() if name not in {"sell", "csr_m"}}
    )
    timed = replace(without, formats={**without.formats, "csr_m": without.formats["csr"]})
    A = CanonicalCsr.of(gallery.poisson2d(700))
    tables = [
        {entry[0]: entry for entry in A.source.predict(0, p.model(A.dtype, True))[0]}
        for p in (without, timed)
    ]
    assert [table["csr_m"][2] is not None for table in tables] == [False, True]
    for table in tables:
        assert table["sell"][2] is not None  # by what it costs on another device
        assert table["sell"][5] is None
        assert table["csr"][5] is not None


def test_of_a_matrix_in_pieces_every_format_is_planned(monkeypatch):
    """Pieces that suit different formats would leave out different ones, whose times cannot be added."""
    band, scattered = gallery.poisson2d(50), gallery.uniform_random(2500, 2500, 5)
    A = canonical_csr(sp.vstack([band, scattered]).tocsr())
    profile = Profile.read(SHIPPED / "nvidia-h200.json")
    monkeypatch.setattr(profile_module, "load_profile", lambda _: profile)
    request = Request(symmetric=Symmetry.NEITHER)
    whole = predict_considered(A, request, 0)
    monkeypatch.setattr(limits, "ENTRY_LIMIT", 5000)
    assert A.is_wide
    pieces = predict_considered(A, request, 0)
    assert {entry.format for entry in pieces} == {entry.format for entry in whole}
    ranked, candidates = choosing.ranked(A, Request(tune="off", budget=0.0), 0, float)
    assert not ranked
    assert candidates[0][0].format in {entry.format for entry in pieces if entry.time_us}


def test_text_and_html():
    table = sg.predict(gallery.poisson2d(50), "cpu")
    for name in sg.formats():
        assert re.search(rf"^{name} ", str(table), re.MULTILINE)
        assert f">{name}<" in table._repr_html_()
    assert [line.split()[0] for line in repr(table).splitlines()[1:4]] == [entry.name for entry in table[:3]]
    assert "cpu" in str(table)
    assert "&lt;" in type(table)([Prediction("csr", note="a < b")], 1, "cpu", "m", "p")._repr_html_()


def test_explain_shows_the_table():
    op = sg.aslinearoperator(gallery.poisson2d(50), format="coo", device="cpu")
    assert re.search(r"^coo .*in use", op.explain(), re.MULTILINE)
    assert "us/product" in op.explain()


def predicted(monkeypatch, **times):
    """Has `explain` show these times, and formats without any."""

    def predict(csr, ordinal, model, profile):
        entries = [Prediction(format, {}, time_us, 1000, 1.0) for format, time_us in times.items()]
        return Predictions(entries, csr.nnz, "cpu", model, profile.device)

    monkeypatch.setattr(explain, "predict_csr", predict)


def test_explain_has_what_is_not_known_in_last_place(monkeypatch):
    predicted(monkeypatch, bsell=None, csr=10.0, coo=20.0)
    lines = sg.aslinearoperator(gallery.poisson2d(30), "csr", "cpu").explain().splitlines()
    assert [line.split()[0] for line in lines[-3:]] == ["csr", "coo", "bsell"]
    assert "not known" in lines[-1]


def test_explain_names_the_gain_of_what_is_not_considered(monkeypatch):
    A = gallery.poisson2d(30)
    op, full = (sg.aslinearoperator(A, device="cpu", tune=tune) for tune in ("off", "full"))
    predicted(monkeypatch, csr=13.0, tsmv=10.0, ellr_t=9.0)
    text = explained(op)
    assert "tsmv is predicted to be 1.30 times as fast as csr" in text
    assert "it needs symmetric=True or tune='full'" in text
    assert "only format='ellr_t' gives it" in text
    predicted(monkeypatch, **{"csr": 13.0, full.format: 13.0, "tsmv": 10.0})
    assert "times as fast" not in explained(full)  # which has tried it
    predicted(monkeypatch, csr=10.0, tsmv=9.9, ellr_t=9.8)
    assert "times as fast" not in explained(op)


def test_of_a_matrix_in_pieces_every_variant_in_use_is_marked():
    entries = [Prediction("csr", {"tile": tile}) for tile in (256, 512, 1024)]
    predictions = Predictions(entries, 1, "cpu", "roofline", "a CPU")
    options = {"parts": [{"format": "csr", "tile": tile, "kernel": "balanced"} for tile in (256, 1024)]}
    marks = ["in use" in line for line in predictions.table("csr", options).splitlines()[1:]]
    assert marks == [True, False, True]
