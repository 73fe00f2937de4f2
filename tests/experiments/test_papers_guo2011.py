"""The experiment of Guo et al. 2011: claims judged by made-up measurements, and a quick run on the CPU."""

from __future__ import annotations

import contextlib
import io
import json
import os
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from experiments.__main__ import main
from experiments.papers import claims, guo2011, guo2011_claims, guo2011_fits, guo2011_predictions
from experiments.papers.guo2011_claims import APPROACH, COO, CSR, CUT, ELL, HYB, tuned
from experiments.papers.guo2011_matrices import GUO2011, further_matrices, load_paper_matrix
from experiments.papers.run import Run
from spmvgpu import cli
from support import nightly

HOLDS, PARTLY, FAILS, OPEN = claims.HOLDS, claims.PARTLY, claims.FAILS, claims.OPEN


@pytest.fixture
def run(tmp_path):
    made = Run("guo2011", "cpu", tmp_path, quick=True)
    made.records["partitions"] = []
    return made


def measured(run, times):
    """Rows of made-up times: label -> matrix -> microseconds."""
    for label, by_matrix in times.items():
        for matrix, time_us in by_matrix.items():
            run.rows.append({"label": label, "matrix": matrix, "time_us": time_us, "bytes": 10**9})


# -- matrices ------------------------------------------------------------------------------------------------


def test_the_fourteen_matrices():
    assert len(GUO2011) == 14
    # Of the numbers in Bell and Garland 2009, table 2.
    assert sum(wanted.nnz for wanted in GUO2011) == 63_443_550
    for wanted in GUO2011:
        sample = load_paper_matrix(wanted, quick=True)
        assert sample.name == f"{wanted.name} 1/16"
        assert sample.matrix.nnz == pytest.approx(wanted.nnz / 16, rel=0.01)


def test_a_mesh_at_hand_takes_the_place_of_a_stand_in(tmp_path, monkeypatch):
    wind_tunnel = next(wanted for wanted in GUO2011 if wanted.file == "pwtk")
    monkeypatch.setenv("SPMVGPU_MATRICES", str(tmp_path))
    mesh = sp.csr_array(np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]], dtype=bool))
    sp.save_npz(tmp_path / "fe_pwt.npz", mesh)
    sample = load_paper_matrix(wind_tunnel)
    assert (sample.origin, sample.source) == ("recipe", "the mesh fe_pwt.npz with 6 unknowns at a node")
    assert sample.matrix.shape == (18, 18)
    assert sample.matrix.nnz == 36 * mesh.nnz
    again = sp.csr_array((sample.matrix.data, sample.matrix.indices, sample.matrix.indptr))
    assert again.has_canonical_format
    sp.save_npz(tmp_path / "pwtk.npz", mesh)
    assert load_paper_matrix(wind_tunnel).origin == "real"


def test_further_matrices_are_the_real_ones_of_the_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("SPMVGPU_MATRICES", raising=False)
    assert list(further_matrices()) == []
    monkeypatch.setenv("SPMVGPU_MATRICES", str(tmp_path))
    assert list(further_matrices()) == []  # no index
    sp.save_npz(tmp_path / "b.npz", sp.eye_array(3, format="csr"))
    sp.save_npz(tmp_path / "c.npz", sp.eye_array(4, format="csr", dtype=complex))
    entries = [
        {"name": "c", "nnz": 4, "dtype": "complex128"},
        {"name": "b", "nnz": 3, "dtype": "float64"},
        {"name": "absent", "nnz": 1, "dtype": "float64"},
    ]
    (tmp_path / "index.json").write_text(json.dumps(entries))
    assert [sample.name for sample in further_matrices()] == ["b"]
    assert list(further_matrices(quick=True)) == []


# -- tuning and partitions -----------------------------------------------------------------------------------


def approach(run):
    return {claim.paper: claim for claim in guo2011_claims.approach_claims(run)}


def test_what_is_measured_is_judged(run):
    """Whatever the verdicts are: they would be those on made-up times."""
    kernels = (CSR, COO, ELL, HYB)
    labels = [APPROACH, CUT, *kernels, *map(tuned, kernels), "CSR, shuffles", "csr, tuned"]
    measured(run, {label: {"Economics": 1.0 + i, "LP 1/16": 2.0} for i, label in enumerate(labels)})
    run.records["partitions"] = [{"matrix": "Economics", "chosen": "hyb"}]
    samples(run)
    predicted(run)
    found = {
        "approach": guo2011_claims.approach_claims(run),
        "tuning": guo2011_claims.tuning_claims(run),
        "fits": guo2011_fits.fit_claims(run, MODEL),
        "predictions": guo2011_predictions.prediction_claims(run),
    }
    judged = {name: sum(claim.verdict != OPEN for claim in made) for name, made in found.items()}
    assert judged == {"approach": 5, "tuning": 4, "fits": 3, "predictions": 1}


def test_nothing_measured_is_nothing_judged(run):
    for claim in (*guo2011_claims.approach_claims(run), *guo2011_claims.tuning_claims(run)):
        assert claim.verdict == OPEN


@pytest.mark.parametrize(
    ("csr_nnz", "ell_rows", "verdict"), [(900, 50, HOLDS), (400, 500, PARTLY), (400, 2, FAILS)]
)
def test_what_the_parts_hold(run, csr_nnz, ell_rows, verdict):
    entry = {
        "matrix": "A",
        "chosen": CUT,
        "csr_rows": 10,
        "csr_nnz": csr_nnz,
        "ell_rows": ell_rows,
        "ell_nnz": 450,
    }
    run.records["partitions"] = [entry, {"matrix": "B", "chosen": "hyb"}]
    claim = approach(run)["in the partitions, CSR has most non-zeros, and ELL has the rows with few"]
    assert claim.verdict == verdict
    assert f"A {csr_nnz / (csr_nnz + 450):.0%}" in claim.here


def test_nothing_is_partitioned(run):
    run.records["partitions"] = [{"matrix": "B", "chosen": "hyb"}]
    claim = approach(run)["in the partitions, CSR has most non-zeros, and ELL has the rows with few"]
    assert (claim.verdict, claim.here) == (OPEN, "the model partitions no matrix")


def test_ell_that_does_not_fit(run):
    measured(run, {ELL: {"LP": 1.0}, CSR: {"LP": 1.0, "Webbase": 1.0}})
    run.skipped.append({"matrix": "Webbase", "label": ELL, "reason": "37 GB"})
    claim = approach(run)["ELL cannot hold Webbase and LP: too much memory"]
    assert claim.verdict == PARTLY
    assert "LP: 1.00 GB" in claim.here
    assert "Webbase: 37 GB" in claim.here


# -- fits ----------------------------------------------------------------------------------------------------

# A curve of 4 + k^2 / 100 up to 10 entries a row, and a line of 3 + k / 5 from there on.
MODEL = SimpleNamespace(
    csr=SimpleNamespace(full_load=100, threshold=10.0, conic=(4.0, 0.0, 0.01), line=(3.0, 0.2)),
    ell=SimpleNamespace(time=lambda rows, width: 2.0 * rows + width),
    coo=SimpleNamespace(time=lambda nnz: 2.0 + 0.001 * nnz),
)


def samples(run, off=1.0):
    """Samples whose times are what the model says, times `off` beyond the threshold."""
    run.records["samples"] = []
    timed = {"csr": [], "ell": [], "coo": []}
    for key, rows, width in [
        ("csr", 100, 4),
        ("csr", 100, 20),
        ("ell", 100, 10),
        ("ell", 10, 100),
        ("coo", 100, 16),
    ]:
        says = {"csr": 4.16 if width < 10 else 3 + width / 5, "coo": 3.6}
        time = says.get(key, 2 * rows + width) * (off if width >= 10 else 1)
        timed[key].append({"dtype": "f32", "rows": rows, "cols": width, "nnz": rows * width, "time_us": time})
    timed["csr"].append(
        {"dtype": "f32", "rows": 50, "cols": 4, "nnz": 200, "time_us": 9.0}
    )  # of f64's full load
    timed["coo"].append({"dtype": "f64", "rows": 100, "cols": 16, "nnz": 1600, "time_us": 9.0})
    guo2011_fits.record_samples(run, MODEL, timed, "f32")
    assert len(run.records["samples"]) == 5


def test_figures_of_the_fits(run):
    pytest.importorskip("matplotlib", reason="the plot extra is not installed")
    samples(run)
    guo2011_fits.draw(run)
    assert list(run.figures) == [f"guo2011_figure{number}.png" for number in range(3, 7)]
    for name in run.figures:
        assert (run.out / name).read_bytes().startswith(b"\x89PNG")


# -- predictions ---------------------------------------------------------------------------------------------


def test_choice_among_what_was_measured():
    made = guo2011_predictions.choose({"csr": 10.0, "coo": 8.0}, {"csr": 5.0, "coo": 6.0, "dia": 1.0})
    assert made == {"choice": "csr", "time_us": 10.0, "best": "coo", "best_us": 8.0}
    assert guo2011_predictions.choose({"csr": 10.0}, {"dia": 1.0}) is None


def predicted(run):
    """Predictions that are a tenth too long."""
    shared = {"nnz": 2_000_000, "time_us": 10.0}
    run.records["predictions"] = [
        {"format": format, "matrix": "A", "predicted_us": 11.0, **shared} for format in ("csr", "coo")
    ]
    times = {"matrix": "A", "choice": "csr", "best": "coo", "time_us": 10.5, "best_us": 10.0}
    run.records["choices"] = [times]


def test_errors_and_points_of_predictions(run):
    predicted(run)
    errors = guo2011_predictions.mean_errors(run)
    assert errors == pytest.approx({"csr": 10.0, "coo": 10.0, "all formats": 10.0})
    assert guo2011_predictions.points(run) == {"csr": [(10.0, 11.0)], "coo": [(10.0, 11.0)]}


def test_no_predictions(run):
    run.records.update({"predictions": [], "choices": []})
    assert {claim.verdict for claim in guo2011_predictions.prediction_claims(run)} == {OPEN}


# -- the command ---------------------------------------------------------------------------------------------

FEW = ("Economics", "Webbase", "Dense")


@pytest.fixture(scope="module", params=nightly(["quick"]))
def quick(tmp_path_factory):
    """A quick run on the CPU: what it wrote and printed, and its folder."""
    folder = tmp_path_factory.mktemp("guo2011")
    text = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(text):
        patch.setattr(guo2011, "GUO2011", [wanted for wanted in GUO2011 if wanted.name in FEW])
        patch.setenv("SPMVGPU_CACHE_DIR", str(folder / "cache"))
        arguments = ["--device", "cpu", "--out", str(folder), "--quick", "--dtype", "f64"]
        assert main(["guo2011", *arguments]) == 0
        assert os.environ["SPMVGPU_CACHE_DIR"] == str(folder / "cache")
    assert not (folder / "cache").exists()  # the user's profile and tuning are as they were
    return json.loads((folder / "guo2011.json").read_text()), text.getvalue(), folder


def test_quick_run_measures_every_kernel(quick):
    content, text, _ = quick
    names = {f"{name} 1/16" for name in FEW}
    assert {row["matrix"] for row in content["rows"]} == names
    assert {row["dtype"] for row in content["rows"]} == {"f64"}
    measured = {(row["matrix"], row["label"]) for row in content["rows"]}
    for label in (CSR, HYB, COO, "CSR, shuffles", "csr, tuned", tuned(CSR), tuned(HYB), tuned(COO)):
        assert {(name, label) for name in names} <= measured
    for name in names - {"Webbase 1/16"}:
        assert (name, ELL) in measured
    refused = [entry for entry in content["skipped"] if entry["label"] == ELL]
    assert [entry["matrix"] for entry in refused] == ["Webbase 1/16"]
    for title in (
        *(f"Figure {number}: " for number in range(7, 11)),
        "gain of tuning",
        "mean absolute error",
    ):
        assert title in text


def test_quick_run_predicts_and_chooses(quick):
    content, _, _ = quick
    assert {"csr", "coo", "hyb"} <= {entry["format"] for entry in content["predictions"]}
    assert len(content["choices"]) == len(FEW)
    assert all(entry["time_us"] >= entry["best_us"] > 0 for entry in content["choices"])
    for entry in content["partitions"]:
        assert set(entry["whole_us"]) == {"csr", "ellpack", "hyb", "coo"}


def test_quick_run_on_the_cpu_judges_nothing(quick):
    content, text, _ = quick
    assert len(content["claims"]) == 16
    assert {claim["verdict"] for claim in content["claims"]} == {OPEN}
    assert content["environment"]["calibration_seconds"] > 0
    assert "2 of 3 matrices are generated" in text


def test_quick_run_draws_the_figures(quick):
    pytest.importorskip("matplotlib", reason="the plot extra is not installed")
    content, _, folder = quick
    assert content["figures"] == [
        *(f"guo2011_figure{number}.png" for number in range(3, 11)),
        "guo2011_predictions.png",
    ]
    for name in content["figures"]:
        assert (folder / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.nightly
def test_a_given_profile_and_a_matrix_that_is_cut(tmp_path, monkeypatch, capsys):
    # Full loads of 100 rows in a microsecond and more, slots of ELL in 0.1 ns, non-zeros of COO in one each.
    parameters = {
        "csr": {"full_load": 100, "threshold": 10.0, "conic": [1.0, 0.0, 0.0], "line": [0.9, 0.01]},
        "ell": {"rows": [1, 1_000_000], "widths": [1, 1000], "times": [[1e-4, 1e-1], [1e2, 1e5]]},
        "coo": {"line": [0.0, 1.0]},
    }
    file = tmp_path / "profile.json"
    assert cli.main(["calibrate", "--device", "cpu", "--quick", "--quiet", "--out", str(file)]) == 0
    profile = json.loads(file.read_text())
    file.write_text(json.dumps(profile | {"guo2011": {"f32": parameters, "f64": parameters}}))
    monkeypatch.setattr(guo2011, "GUO2011", [wanted for wanted in GUO2011 if wanted.name == "Webbase"])
    arguments = ["--device", "cpu", "--out", str(tmp_path / "out"), "--quick", "--profile", str(file)]
    assert main(["guo2011", *arguments]) == 0
    content = json.loads((tmp_path / "out" / "guo2011.json").read_text())
    assert content["samples"] == []
    assert "calibration_seconds" not in content["environment"]
    (decision,) = content["partitions"]
    assert decision["chosen"] == CUT
    assert decision["csr_rows"] + decision["ell_rows"] == 62_500
    assert decision["csr_rows"] % 100 == 0
    assert decision["csr_nnz"] + decision["ell_nnz"] == decision["nnz"]
    (row,) = [row for row in content["rows"] if row["variant"] == CUT]
    assert row.get("tuned_as") == APPROACH
    assert [part["format"] for part in row["options"]["parts"]] == ["csr", "ellpack"]
    assert f"{decision['csr_nnz'] / decision['nnz']:.1%}" in capsys.readouterr().out
