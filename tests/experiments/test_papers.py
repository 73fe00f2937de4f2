"""The papers' experiments: formulas, stand-ins, claims, and quick runs on the CPU from the command line."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from experiments.__main__ import main
from experiments.papers import PAPERS, claims, figures, matrices, measure, yin2012
from experiments.papers.matrices import PaperMatrix, Sample
from experiments.papers.run import Run
from experiments.peers.problem import WrongResultError
from generators.stand_ins import stand_in
from support import nightly

ENVIRONMENT = {"device", "driver", "cuda", "commit", "date", "versions"}
ROW = {"matrix", "origin", "rows", "cols", "nnz", "dtype", "library", "variant", "cache", "time_us", "bytes"}
VERDICTS = {claims.HOLDS, claims.PARTLY, claims.FAILS, claims.OPEN}


# -- formulas ------------------------------------------------------------------------------------------------


def test_computing_performance():
    # 2 x 500,000 operations in half a millisecond.
    assert yin2012.gflops(500_000, 0.5) == pytest.approx(2.0)
    assert measure.gflops(500_000, 500) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("label", "size"),
    [
        ("CSR-R", 12_000 + 4 * 301),
        ("CSR-O", 12_000 + 4 * 301),
        ("CSR-B", 12_000 + 4 * 301),
        ("CSR-M", 8_000 + 4 * 301),
        ("CSR-M, device gather", 8_000 + 4 * 301),
        ("ELLPACK", 8_000 + 800),
        ("ELLPACK-R", 8_000 + 1200),
        ("ELLR-T", 8_000 + 1200),
        ("ELLR-4", 8_000 + 1200),
    ],
)
def test_effective_bandwidth(label, size):
    # 1000 non-zeros in 100 rows, in a microsecond: bytes over 1000 are GB/s.
    assert yin2012.bandwidth(label, 1000, 100, 1e-3) == pytest.approx(size / 1000)


# -- stand-ins -----------------------------------------------------------------------------------------------

SHAPES = {
    "even": dict(rows=600, cols=600, nnz=600 * 39, shortest=39, longest=39, spread=0),
    "mesh": dict(rows=2000, cols=2000, nnz=128_000, shortest=1, longest=78, spread=14, window=300),
    "economics": dict(rows=5000, cols=5000, nnz=31_000, shortest=1, longest=44, spread=4.4),
    "graph": dict(rows=20_000, cols=20_000, nnz=62_000, shortest=1, longest=1500, spread=25),
    "wide": dict(rows=100, cols=30_000, nnz=100_000, shortest=1, longest=8000, spread=1800),
    "dense": dict(rows=50, cols=50, nnz=2500, shortest=50, longest=50, spread=0),
    "one row": dict(rows=1, cols=9, nnz=4, shortest=4, longest=4, spread=0),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_stand_in_has_the_lengths_asked_for(shape):
    A = stand_in(**shape)
    lengths = np.diff(A.indptr)
    assert A.shape == (shape["rows"], shape["cols"])
    assert A.nnz == shape["nnz"]
    assert (lengths.min(), lengths.max()) == (shape["shortest"], shape["longest"])
    assert lengths.std() == pytest.approx(shape["spread"], rel=0.35, abs=0.1)
    again = sp.csr_array((A.data, A.indices, A.indptr), shape=A.shape)
    again.check_format(full_check=True)
    assert again.has_canonical_format  # recomputed: the generator only claims it


def test_stand_in_stays_in_its_window_and_repeats():
    A = stand_in(**SHAPES["mesh"])
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    assert np.abs(A.indices - rows).max() <= 300
    np.testing.assert_array_equal(A.indices, stand_in(**SHAPES["mesh"]).indices)
    assert abs(A - stand_in(**SHAPES["mesh"], seed=1)).sum() > 0


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (dict(rows=10, cols=10, nnz=200, longest=10, spread=1), "200 entries do not fit 10 rows"),
        (dict(rows=10, cols=50, nnz=100, longest=20, spread=40), "cannot have a spread of 40"),
        (dict(rows=3, cols=50, nnz=50, shortest=0, longest=20, spread=1), "leave no room for a row of 20"),
    ],
)
def test_stand_in_that_cannot_be(shape, message):
    with pytest.raises(ValueError, match=message):
        stand_in(**shape)


@pytest.mark.parametrize("wanted", [*matrices.YIN2012, *matrices.TAO2015], ids=lambda wanted: wanted.file)
def test_quick_matrices_are_small_and_alike(wanted):
    sample = matrices.load(wanted, quick=True)
    lengths = np.diff(sample.matrix.indptr)
    assert sample.name == f"{wanted.name} 1/16"
    assert sample.origin in ("generated", "exact")
    assert sample.matrix.nnz == pytest.approx(wanted.nnz / 16, rel=0.01)
    if wanted.nnz < wanted.rows * wanted.cols:
        assert lengths.mean() == pytest.approx(wanted.mean, rel=0.01)
        assert lengths.max() == wanted.longest


# -- real matrices -------------------------------------------------------------------------------------------

SMALL = PaperMatrix("Small", "small", 96, 96, 256, 2, 3, 0.4)


@pytest.fixture
def full():
    rng = np.random.default_rng(0)
    lower = sp.csr_array(np.tril(rng.random((6, 6)) * (rng.random((6, 6)) < 0.5), -1) + np.eye(6))
    return sp.csr_array(lower + sp.tril(lower, -1).T)


def test_real_matrix_is_preferred(tmp_path, monkeypatch, full):
    monkeypatch.setenv("SPMVGPU_MATRICES", str(tmp_path))
    assert matrices.load(SMALL).origin == "generated"
    sp.save_npz(tmp_path / "small.npz", full)
    sample = matrices.load(SMALL)
    assert (sample.name, sample.origin, sample.source) == ("Small", "real", "small.npz")
    np.testing.assert_array_equal(sample.matrix.toarray(), full.toarray())
    assert matrices.load(SMALL, quick=True).origin == "generated"


def test_real_matrix_that_stores_a_triangle_or_a_pattern(tmp_path, monkeypatch, full):
    monkeypatch.setenv("SPMVGPU_MATRICES", str(tmp_path))
    sp.save_npz(tmp_path / "small.npz", sp.csr_array(sp.tril(full)).astype(bool))
    (tmp_path / "index.json").write_text(json.dumps([{"name": "small", "stored": "lower"}]))
    A = matrices.load(SMALL).matrix
    np.testing.assert_array_equal(A.toarray() != 0, full.toarray() != 0)
    np.testing.assert_array_equal(A.toarray(), A.toarray().T)
    assert A.dtype == np.float64


def test_papers_that_count_a_triangle_get_a_triangle(tmp_path, monkeypatch, full):
    monkeypatch.setenv("SPMVGPU_MATRICES", str(tmp_path))
    sp.save_npz(tmp_path / "small.npz", full)
    lower = sp.csr_array(sp.tril(full))
    wanted = PaperMatrix("Small", "small", 6, 6, lower.nnz, 1, 6, 1, triangle=True)
    np.testing.assert_array_equal(matrices.load(wanted).matrix.toarray(), lower.toarray())


# -- measuring -----------------------------------------------------------------------------------------------


def test_missing_format_is_not_measured():
    problem = measure.Problem.make(SMALL_MATRIX, np.float32)
    with pytest.raises(measure.NotMeasuredError, match="this build has no format 'nonsense'"):
        measure.build(problem, measure.Variant("X", "nonsense"), "cpu")


def test_wrong_product_is_not_measured():
    problem = measure.Problem.make(SMALL_MATRIX, np.float64)
    y = problem.reference.copy()
    problem.check(y)
    y[2] += 1e-9
    with pytest.raises(WrongResultError, match="1 of 40 rows are wrong; row 2"):
        problem.check(y)
    problem.reference[2] = np.nan
    with pytest.raises(measure.NotMeasuredError, match="WRONG RESULT: 1 of 40 rows"):
        measure.build(problem, measure.Variant("X", "csr"), "cpu")


@pytest.mark.parametrize("fmt", sg.formats())
def test_every_format_can_be_timed(fmt):
    problem = measure.Problem.make(SMALL_MATRIX + SMALL_MATRIX.T, np.float32)  # tsmv takes no other
    op, size = measure.build(problem, measure.Variant("X", fmt), "cpu")
    assert size > problem.matrix.data.nbytes
    assert measure.time_calls(op, [problem.x, -problem.x], 2) > 0


SMALL_MATRIX = stand_in(40, 40, 200, shortest=1, longest=9, spread=2)


# -- claims --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [
        ([1.5, 1.03], claims.HOLDS),
        ([1.5, 1.01], claims.PARTLY),
        ([1.5, 0.5], claims.PARTLY),
        ([1.01, 0.99], claims.FAILS),
        ([], claims.OPEN),
    ],
)
def test_judge(gains, verdict):
    claim = claims.judge("1", "faster", {str(i): gain for i, gain in enumerate(gains)}, "speed")
    assert claim.verdict == verdict
    assert list(claim.gains.values()) == gains


class FakeOperator:
    """Has the time that a model of a GPU says, in place of a kernel."""

    def __init__(self, matrix, variant, model):
        self.format, self.options, self.model = variant.format, dict(variant.options), model
        self.shape, self.nnz, self.dtype = matrix.shape, matrix.nnz, matrix.dtype

    def time_products(self, repeats):
        gather = self.model["gather"] if self.options.get("gather") == "device" else 0
        options = tuple(value for name, value in self.options.items() if name != "max_padding")
        slower = self.model.get((self.format, *options), self.model.get(self.format, 1.0))
        return self.nnz * (slower + gather) / 100


@pytest.fixture
def run_fake(tmp_path, monkeypatch, capsys):
    """Run an experiment on modelled times, which a GPU is said to have taken."""

    def run(paper, model):
        build = lambda problem, variant, device: (  # noqa: E731
            FakeOperator(problem.matrix, variant, model),
            8 * problem.matrix.nnz,
        )
        module = PAPERS[paper]
        for place in (module, measure):
            monkeypatch.setattr(place, "build", build, raising=False)
        monkeypatch.setattr(module, "allowed_values", lambda format, option: [1, 4, 32])
        if hasattr(module, "time_calls"):
            calls = lambda op, vectors, repeats: 50.0 + (op.nnz if op.options.get("gather") == "host" else 0)  # noqa: E731
            monkeypatch.setattr(module, "time_calls", calls)
        experiment = Run(paper, "cpu", tmp_path, quick=True)
        experiment.device = "cuda:0"
        module.experiment(experiment)
        content = json.loads((tmp_path / f"{paper}.json").read_text())
        return content, {claim["paper"]: claim for claim in content["claims"]}, capsys.readouterr().out

    return run


# Microseconds of a product, relative to those of other variants; those of the gather are added.
MODELS = {
    "tao2015": {("csr", "shuffle", 32): 0.9, ("csr", "shuffle", 4): 0.5},
    "yin2012": {("csr", "half_warp"): 0.8, "csr_m": 0.75, "csr_b": 2.0, "ellpack_r": 0.6, "gather": 0.6},
}


@pytest.mark.parametrize("paper", MODELS)
def test_what_a_gpu_has_measured_is_written_and_judged(run_fake, paper):
    """Whatever the verdicts are: they would be those on the model."""
    content, found, text = run_fake(paper, MODELS[paper])
    assert content["skipped"] == []
    assert content["rows"]
    for row in content["rows"]:
        assert row["gflops"] == pytest.approx(2 * row["nnz"] / row["time_us"] / 1e3)
    assert claims.CPU_NOTE not in text
    assert {claim["verdict"] for claim in found.values()} != {claims.OPEN}
    assert all(claim["here"] for claim in found.values())
    if figures.available():
        numbers = {"tao2015": range(0), "yin2012": range(12, 18)}[paper]
        assert content["figures"][: len(numbers)] == [f"{paper}_figure{number}.png" for number in numbers]


# -- stand-ins by name ---------------------------------------------------------------------------------------


def test_stand_ins_do_not_go_by_the_name_alone(tmp_path, capsys):
    run = Run("tao2015", "cpu", tmp_path, quick=True)
    for name, origin in (
        ("cant", "generated"),
        ("cant2", "real"),
        ("rma10 1/16", "recipe"),
        ("dense", "exact"),
    ):
        run.introduce(Sample(name, SMALL_MATRIX, origin, "made for a test"))
    assert run.called("less on cant, cant2, rma10 1/16; dense/cant") == (
        "less on stand-in for cant, cant2, stand-in for rma10 1/16; dense/cant"
    )

    drawn = []

    def picture(path, title, *data):
        drawn.extend((title, *data))
        return path

    if figures.available():
        run.draw("figure1", "times of cant", picture, ["cant", "dense"], {"csr": {"cant": 1.0, "dense": 2.0}})
        assert drawn[0].startswith("times of stand-in for cant\n")
        assert drawn[1:] == [
            ["stand-in for cant", "dense"],
            {"csr": {"stand-in for cant": 1.0, "dense": 2.0}},
        ]

    run.table("times", {"csr": {"cant": 1.0, "dense": 2.0}}, ["cant", "dense"])
    run.claims = [claims.judge("1", "faster on cant", {"cant": 0.5, "dense": 2.0}, "speed")]
    run.finish()
    printed = capsys.readouterr().out
    text = " ".join(printed.split())
    assert "stand-in for cant 40 x 40" in text
    assert "stand-in for cant 1.0 dense 2.0" in text
    assert "less on stand-in for cant" in text
    (claim,) = json.loads((tmp_path / "tao2015.json").read_text())["claims"]
    assert claim["here"].endswith("less on stand-in for cant")
    assert set(claim["gains"]) == {"cant", "dense"}


# -- the command ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["tao2015", *nightly(["yin2012"])])  # others have tests of their own
def quick(request, tmp_path_factory):
    """A quick run on the CPU: name, folder."""
    folder = tmp_path_factory.mktemp(request.param) / "new"
    code = main([request.param, "--device", "cpu", "--out", str(folder), "--quick"])
    assert code == 0
    return request.param, folder


def test_quick_run_writes_every_number(quick):
    paper, folder = quick
    content = json.loads((folder / f"{paper}.json").read_text())
    assert set(content["environment"]) >= ENVIRONMENT
    assert content["environment"]["quick"] is True
    assert content["environment"]["cuda"] is None
    assert content["rows"]
    for row in content["rows"]:
        assert set(row) >= ROW
        assert row["gflops"] == pytest.approx(2 * row["nnz"] / row["time_us"] / 1e3)
        assert row["variant"] in sg.formats()
    wanted = {"yin2012": matrices.YIN2012, "tao2015": matrices.TAO2015}[paper]
    assert {row["matrix"] for row in content["rows"]} == {f"{matrix.name} 1/16" for matrix in wanted}


def test_quick_run_on_the_cpu_judges_nothing(quick):
    paper, folder = quick
    found = json.loads((folder / f"{paper}.json").read_text())["claims"]
    assert len(found) == {"yin2012": 13, "tao2015": 5}[paper]
    assert {claim["verdict"] for claim in found} == {claims.OPEN}
    assert all(claim["paper"] and claim["here"] for claim in found)


def test_quick_run_measures_what_the_build_has(quick):
    paper, folder = quick
    content = json.loads((folder / f"{paper}.json").read_text())
    for entry in content["skipped"]:
        assert entry["reason"].startswith("this build has no format")
    if paper == "yin2012":
        measured = {row["variant"] for row in content["rows"]}
        assert measured == {"csr", "csr_m", "csr_b", "ellpack", "ellpack_r", "ellr_t"} & set(sg.formats())


def test_quick_run_draws_the_figures(quick):
    paper, folder = quick
    pytest.importorskip("matplotlib", reason="the plot extra is not installed")
    names = json.loads((folder / f"{paper}.json").read_text())["figures"]
    assert names
    for name in names:
        assert (folder / name).read_bytes().startswith(b"\x89PNG")


def test_says_what_it_leaves_out(tmp_path, monkeypatch, capsys):
    one = matrices.YIN2012[3:4]
    monkeypatch.setattr(yin2012, "YIN2012", one)
    monkeypatch.setattr(yin2012, "CSR_B", measure.Variant("CSR-B", "absent"))
    monkeypatch.setattr(yin2012, "KERNELS", (yin2012.CSR_R, yin2012.CSR_O, yin2012.CSR_B))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["yin2012", "--device", "cpu", "--out", str(tmp_path), "--quick"]) == 0
    text = capsys.readouterr().out
    assert "CSR-B left out: this build has no format 'absent'" in text
    assert figures.NO_MATPLOTLIB in text
    assert "CPU figures" in text
    assert "1 of 1 matrices are generated" in text
    assert {file.name for file in tmp_path.iterdir()} == {"yin2012.json"}


def test_unknown_paper_and_bad_folder(tmp_path, capsys):
    assert main(["nobody1999"]) == 2
    assert "tao2015" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["tao2015", "--device", "cpu", "--out", str(tmp_path / "file"), "--quick"]) == 2
    assert "error: " in capsys.readouterr().err
