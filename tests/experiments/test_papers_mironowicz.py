"""The poster on the symmetric product: what is written of modelled times, and a quick run on the CPU."""

from __future__ import annotations

import contextlib
import io
import json
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from experiments.__main__ import main
from experiments.papers import claims, figures, measure, mironowicz, mironowicz_timing
from experiments.papers.mironowicz_claims import NARROW, POSTER_CHANGE, POSTER_PREPROCESSING, WIDE
from experiments.papers.mironowicz_matrices import MATRICES, load
from experiments.papers.run import Run
from experiments.peers import scipy
from experiments.peers.base import Job
from experiments.peers.base import Variant as Other
from support import every_third, nightly

NAMES = [f"{mesh.name} small" for mesh in MATRICES]
GENERAL = [name for name in sg.formats() if name not in ("tsmv", "dia", "sdia", "stencil")]


def test_the_posters_tables_are_about_its_matrices() -> None:
    names = {mesh.name for mesh in MATRICES}
    assert set(POSTER_PREPROCESSING) == names
    assert all(set(column) == names for column in POSTER_CHANGE.values())
    assert set(NARROW) | set(WIDE) < names


class FakeStopwatch:
    """Has the times that a model of a GPU says, in place of measurements; checks products on the CPU."""

    start_seconds = 100.0

    def __init__(self, run: Run) -> None:
        self.host = scipy
        prepare = lambda problem: [Job("csr_alg1", lambda: self._csr(problem))]  # noqa: E731
        self.cusparse = SimpleNamespace(NAME="cusparse", prepare=prepare, versions=lambda: {"cusparse": "0"})
        self.peers = [self.cusparse, scipy]

    @staticmethod
    def _csr(problem):
        return Other("cusparse", "csr_alg1", problem.csr_bytes, lambda: problem.matrix @ problem.x)

    @staticmethod
    def ours(problem, op, size):
        return mironowicz_timing.Product("spmvgpu", op.format, size, op)

    def time(self, products):
        return {label: 10 * MODEL.get(label, 2.0) for label in products}


MODEL = {"TSMV": 0.5, "TSMV of the poster": 0.95, "cusparse csr_alg1": 1.0, "scipy csr": 50.0}


def run_fake(folder):
    """Run the experiment on modelled times, which a GPU is said to have taken."""
    on_cpu = lambda problem, variant, device: measure.build(problem, variant, "cpu")  # noqa: E731
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as printed:
        patch.setattr(mironowicz_timing, "build", on_cpu)
        patch.setattr(mironowicz, "Stopwatch", FakeStopwatch)
        experiment = Run("mironowicz", "cpu", folder, quick=True)
        experiment.device = "cuda:0"
        mironowicz.experiment(experiment)
    content = json.loads((folder / "mironowicz.json").read_text())
    return content, content["claims"], printed.getvalue()


@pytest.fixture(scope="module")
def fake(tmp_path_factory):
    """A run on modelled times: what was written, its claims, what was printed."""
    return run_fake(tmp_path_factory.mktemp("fake"))


def named(found, beginning):
    (claim,) = (claim for claim in found if claim["paper"].startswith(beginning))
    return claim


def test_memory_is_judged_by_what_is_stored(fake) -> None:
    content, found, _ = fake
    for row in content["rows"]:
        if row["library"] == "cusparse":
            assert row["memory_ratio"] == pytest.approx(1.0)
        if row["label"] == "TSMV":
            assert 0.3 < row["memory_ratio"] < 1.1  # that of the small ones depends on the mesh
    for beginning, names in (("15 to 35 %", NAMES), ("20 to 40 %", [f"{name} small" for name in NARROW])):
        claim = named(found, beginning)
        order = "given" if names is NAMES else "RCM"
        ratios = {
            row["matrix"]: row["memory_ratio"]
            for row in content["rows"]
            if row["label"] == "TSMV of the poster" and row["order"] == order and row["matrix"] in names
        }
        assert claim["gains"] == pytest.approx({name: 100 - 100 * ratio for name, ratio in ratios.items()})
    symmetric = [row["memory_ratio"] for row in content["rows"] if row["label"] == "TSMV"]
    verdict = claims.HOLDS if max(symmetric) <= 1 else claims.FAILS
    assert named(found, "the symmetric format never")["verdict"] == verdict


def test_every_number_is_written(fake) -> None:
    content, _, text = fake
    labels = {"TSMV", "TSMV of the poster", "cusparse csr_alg1", "scipy csr", *GENERAL}
    for order in ("given", "RCM"):
        rows = [row for row in content["rows"] if row["order"] == order]
        assert {row["matrix"] for row in rows} == set(NAMES)
        for name in NAMES:
            assert {row["label"] for row in rows if row["matrix"] == name} == labels
    for row in content["rows"]:
        assert row["gflops"] == pytest.approx(2 * row["nnz"] / row["time_us"] / 1e3)
        assert ("preprocess_seconds" in row) == (row["library"] == "spmvgpu")
    assert [entry["matrix"] for entry in content["orders"]] == NAMES
    assert all(entry["bandwidth"] > 0 for entry in content["orders"])
    assert content["start_of_cusparse"] == [{"library": "cusparse", "seconds": 100.0}]
    assert content["environment"]["versions"]["cusparse"] == "0"
    assert "TSMV of the poster [products]" in text
    if figures.available():
        names = ("preprocessing", "speed", "memory", "rcm")
        assert content["figures"] == [f"mironowicz_{name}.png" for name in names]


def test_what_is_refused_is_said(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(mironowicz_timing, "TSMV_VARIANTS", (measure.Variant("TSMV", "absent"),))
    content, found, text = run_fake(tmp_path)
    assert "TSMV, given left out: this build has no format 'absent'" in text
    assert {entry["label"] for entry in content["skipped"]} == {"TSMV, given", "TSMV, RCM"}
    for beginning in ("15 to 35 %", "much faster than MKL", "what RCM does", "preprocessing takes no longer"):
        assert named(found, beginning)["verdict"] == claims.OPEN


# -- the command ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["f64", *nightly(["f32"])])
def quick(request, tmp_path_factory):
    """A quick run on the CPU: precision, what was written."""
    folder = tmp_path_factory.mktemp("mironowicz")
    arguments = ["mironowicz", "--device", "cpu", "--out", str(folder), "--quick"]
    assert main([*arguments, "--dtype", request.param]) == 0
    return request.param, json.loads((folder / "mironowicz.json").read_text())


def test_quick_run_measures_all_there_is(quick) -> None:
    dtype, content = quick
    host = "mkl csr" if "mkl" in content["environment"]["versions"] else "scipy csr"
    for row in content["rows"]:
        assert row["dtype"] == dtype
        assert row["gflops"] == pytest.approx(2 * row["nnz"] / row["time_us"] / 1e3)
    assert {row["label"] for row in content["rows"]} == {"TSMV", "TSMV of the poster", host, *GENERAL}
    assert content["skipped"] == []
    assert {row["matrix"] for row in content["rows"]} == set(NAMES)


def test_quick_run_on_the_cpu_judges_nothing(quick) -> None:
    _, content = quick
    assert len(content["claims"]) == 14
    assert {claim["verdict"] for claim in content["claims"]} == {claims.OPEN}


# -- the poster's matrices -----------------------------------------------------------------------------------

# Rows and non-zeros of the matrices themselves; the poster gives no size for the filter's.
SIZES = {
    "cant": (62_451, 4_007_383),
    "consph": (83_334, 6_010_480),
    "cop20k_A": (121_192, 2_624_331),
    "pdb1HYS": (36_417, 4_344_765),
    "pwtk": (217_918, 11_524_432),
    "rma10": (46_835, 2_374_001),
    "shipsec1": (140_874, 7_813_404),
}


@pytest.mark.parametrize("mesh", every_third(MATRICES), ids=lambda mesh: mesh.name)
def test_stand_ins_have_about_the_size_of_what_they_stand_for(mesh, monkeypatch) -> None:
    monkeypatch.delenv("SPMVGPU_MATRICES", raising=False)
    sample = load(mesh)
    assert (sample.name, sample.origin) == (mesh.name, "generated")
    if mesh.name in SIZES:
        rows, nnz = SIZES[mesh.name]
        assert sample.matrix.shape[0] == pytest.approx(rows, rel=0.05)
        assert sample.matrix.nnz == pytest.approx(nnz, rel=0.08)
    else:
        assert (sample.matrix.shape[0] < 700_000) == (mesh.name == "gsm_v2")
    entries = np.random.default_rng(0).integers(0, sample.matrix.nnz, 200)
    rows = np.searchsorted(sample.matrix.indptr, entries, side="right") - 1
    for i, j, value in zip(rows, sample.matrix.indices[entries], sample.matrix.data[entries], strict=True):
        assert sample.matrix[int(j), int(i)] == value


@pytest.mark.parametrize("mesh", MATRICES, ids=lambda mesh: mesh.name)
def test_quick_stand_ins_are_small_and_exactly_symmetric(mesh) -> None:
    sample = load(mesh, quick=True)
    assert sample.name == f"{mesh.name} small"
    assert 1000 <= sample.matrix.shape[0] <= 4000
    assert sample.matrix.has_canonical_format
    assert (sample.matrix != sample.matrix.T).nnz == 0


def test_a_real_matrix_or_mesh_is_preferred(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("SPMVGPU_MATRICES", str(tmp_path))
    pwtk = next(mesh for mesh in MATRICES if mesh.name == "pwtk")
    graph = sp.csr_array(np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]], dtype=bool))
    sp.save_npz(tmp_path / "fe_pwt.npz", graph)
    sample = load(pwtk)
    assert (sample.origin, sample.source) == ("generated", "fe_pwt.npz with 6 unknowns a node")
    assert sample.matrix.shape == (18, 18)
    assert sample.matrix.nnz == 7 * 36
    sp.save_npz(tmp_path / "pwtk.npz", sp.csr_array(np.eye(4)))
    sample = load(pwtk)
    assert (sample.origin, sample.matrix.shape) == ("real", (4, 4))
    assert load(pwtk, quick=True).origin == "generated"
