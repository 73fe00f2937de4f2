"""The experiment of Yang et al. 2015: its matrices, and what is claimed of measurements that are made up."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp

from experiments.__main__ import main
from experiments.papers import claims, figures, measure, yang2015, yang2015_claims
from experiments.papers.cpu_parts import ThreadParts
from experiments.papers.run import Run
from experiments.papers.yang2015_matrices import YANG2015, boundary_control, grid_lengths, load, shell
from spmvgpu import partition

HOLDS, PARTLY, FAILS, OPEN = claims.HOLDS, claims.PARTLY, claims.FAILS, claims.OPEN


# -- matrices ------------------------------------------------------------------------------------------------


def test_row_lengths_of_nlpkkt():
    lengths = grid_lengths(80)
    assert (len(lengths), lengths.sum()) == (1_062_400, 14_883_536)  # what the collection says of nlpkkt80
    for points in (3, 5):
        full = boundary_control(1.0, points)
        assert abs(full - full.T).sum() == 0
        upper = sp.csr_array(sp.triu(full, format="csr"))
        np.testing.assert_array_equal(np.diff(upper.indptr), grid_lengths(points))
    every = np.diff(boundary_control(1.0, 8).indptr)
    assert (every.min(), every.max()) == (5, 28)


def test_shell_has_seven_nodes_of_five_unknowns():
    lengths = np.diff(shell(1.0, 900, 5).indptr)
    assert (lengths.min(), lengths.max()) == (15, 35)
    assert np.median(lengths) == 35


@pytest.mark.parametrize("wanted", YANG2015, ids=lambda wanted: wanted.name)
def test_quick_matrices(wanted):
    sample = load(wanted, quick=True)
    A = sample.matrix
    assert sample.name == f"{wanted.name} 1/{round(16 / wanted.fraction)}"
    assert sample.origin == "generated"
    assert A.shape[0] == A.shape[1]
    assert A.nnz < 2_000_000
    again = sp.csr_array((A.data, A.indices, A.indptr), shape=A.shape)
    again.check_format(full_check=True)
    assert again.has_canonical_format
    if wanted.triangle:
        assert (sp.coo_array(A).col >= sp.coo_array(A).row).all()


def test_files_at_hand_are_preferred(tmp_path, monkeypatch):
    monkeypatch.setenv("SPMVGPU_MATRICES", str(tmp_path))
    pwtk = next(wanted for wanted in YANG2015 if wanted.name == "pwtk")
    mesh = sp.csr_array(np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]], dtype=bool))
    sp.save_npz(tmp_path / "fe_pwt.npz", mesh)
    sample = load(pwtk)
    assert (sample.name, sample.origin) == ("pwtk", "recipe")
    assert sample.matrix.shape == (18, 18)
    assert sample.matrix.nnz == 3 * 21 + 2 * 36  # the upper triangle
    sp.save_npz(tmp_path / "pwtk.npz", sp.csr_array(np.array([[1.0, 2], [2, 3]])))
    sample = load(pwtk)
    assert (sample.origin, sample.source) == ("real", "pwtk.npz; upper triangle")
    np.testing.assert_array_equal(sample.matrix.toarray(), [[1, 2], [0, 3]])


# -- the experiment ------------------------------------------------------------------------------------------


class FakeOperator:
    """Multiplies on the host, and has the time that a model says."""

    format, options = "csr", {}

    def __init__(self, matrix, label, device):
        self.matrix, self.label, self.device = matrix, label, device
        self.shape, self.dtype, self.nnz = self.matrix.shape, self.matrix.dtype, self.matrix.nnz
        self.nbytes = 12 * self.nnz

    def spmv(self, x, out=None, beta=0.0):
        out = np.zeros(self.shape[0], self.dtype) if out is None else out
        out[:] = self.matrix @ x + (beta * out if beta else 0)
        return out

    def time_products(self, repeats):
        return self.nnz / (1000 if self.device == "cuda:0" else 100)


def experiment(tmp_path, monkeypatch, device, model):
    """Run it on a few matrices; `model` has microseconds per 100 non-zeros for each label."""

    def build(problem, variant, device):
        return FakeOperator(problem.matrix, variant.label, device), 12 * problem.matrix.nnz

    def time_calls(op, vectors, repeats):
        return float(op.nbytes) if isinstance(op, yang2015.Sum) else op.nnz * model[op.label] / 100

    def aslinearoperator(matrix, format, device, **options):
        assert format in ("dia", "csr")
        return FakeOperator(matrix, format, device)

    class Parts:
        """Takes as long as the part with most non-zeros."""

        def __init__(self, matrix, sets):
            self.matrix, self.nbytes = matrix, 12 * matrix.nnz
            self.longest = max(np.diff(matrix.indptr)[rows].sum() for rows in sets)

        def multiply(self, x):
            return self.matrix @ x

        def time_us(self, x, repeats):
            return float(self.longest)

    # How well the rows divide, and with that the verdicts, depends on their number.
    monkeypatch.setattr(yang2015, "cpu_threads", lambda: THREADS)
    monkeypatch.setattr(yang2015_claims, "cpu_threads", lambda: THREADS)
    monkeypatch.setattr(yang2015, "ThreadParts", Parts)
    monkeypatch.setattr(yang2015, "build", build)
    monkeypatch.setattr(yang2015.sg, "aslinearoperator", aslinearoperator)
    monkeypatch.setattr(yang2015, "time_calls", time_calls)
    monkeypatch.setattr(yang2015, "YANG2015", [YANG2015[i] for i in (1, 2, 6)])
    run = Run("yang2015", "cpu", tmp_path, quick=True)
    run.device = device
    yang2015.experiment(run)
    content = json.loads((tmp_path / "yang2015.json").read_text())
    return content, {claim["paper"]: claim for claim in content["claims"]}


THREADS = 4
MODEL = {
    "CPU alone": 1.0,
    "GPU alone": 0.25,
    "Algorithm 1": 1.5,
    "Algorithm 2": 1.2,
    "Algorithm 3": 1.0,
}


def test_on_a_gpu(tmp_path, monkeypatch, capsys):
    content, claim = experiment(tmp_path, monkeypatch, "cuda:0", MODEL)
    text = " ".join(capsys.readouterr().out.split())
    rows = content["rows"]
    assert {row["test"] for row in rows} == {"alone", "test 1", "test 2"}
    for row in rows:
        assert row["gflops"] == pytest.approx(2 * row["nnz"] / row["time_us"] / 1e3)
    # Four algorithms, of three matrices, in two precisions.
    for test in ("test 1", "test 2"):
        assert sum(row["test"] == test for row in rows) == 4 * 3 * 2
    # Two tables and the machine's own powers, three algorithms each.
    assert len(content["partitions"]) == 3 * 3 * 3
    own = [entry["powers"] for entry in content["partitions"] if entry["test"] == "test 2, here"]
    assert own[0] == pytest.approx([4 * THREADS, *[1] * THREADS])
    assert f"by which test 2 is split: {4 * THREADS:.1f} to {THREADS}" in text
    # The balance is what the time of the slowest thread shows.
    less = claim["Algorithm 3 takes 18.39 % less time than Algorithm 1 in test 1, f64"]["gains"]
    assert less["TSOPF_RS_b300_c3 1/16"] == pytest.approx(100 * (1 - 1 / 1.96), abs=1)
    power = claim["the GPU has 75 times the power of a core, whatever the matrix"]
    assert f"{10 * THREADS} times the power" in power["here"]
    assert content["skipped"] == []
    if figures.available():
        assert content["figures"][-1] == "yang2015_figure14.png"
        assert len(content["figures"]) == 9


def test_from_the_command_line(tmp_path, monkeypatch):
    """Nothing made up, but few matrices."""
    pytest.importorskip("threadpoolctl", reason="the bench extra is not installed")
    monkeypatch.setattr(yang2015, "YANG2015", [YANG2015[i] for i in (1, 2, 6)])
    assert main(["yang2015", "--device", "cpu", "--out", str(tmp_path), "--quick"]) == 0
    content = json.loads((tmp_path / "yang2015.json").read_text())
    assert content["skipped"] == []
    assert len(content["rows"]) == 3 * 2 * 5  # the CPU alone and four algorithms
    for row in content["rows"]:
        assert row["gflops"] == pytest.approx(2 * row["nnz"] / row["time_us"] / 1e3)


def test_on_the_cpu_the_gpu_is_not_judged(tmp_path, monkeypatch, capsys):
    content, claim = experiment(tmp_path, monkeypatch, "cpu", MODEL)
    assert "need a GPU; they are left out" in " ".join(capsys.readouterr().out.split())
    assert {row["test"] for row in content["rows"]} == {"alone", "test 1"}
    assert claim["Algorithm 3 takes 16.6 % less time than Algorithm 1 in test 1, f32"]["verdict"] != OPEN
    for paper, entry in claim.items():
        if "test 2" in paper or "GPU" in paper:
            assert entry["verdict"] == OPEN, paper


def test_what_needs_no_timing(tmp_path, monkeypatch):
    _, claim = experiment(tmp_path, monkeypatch, "cpu", MODEL)
    theorem = next(entry for paper, entry in claim.items() if paper.startswith("Theorem 1"))
    assert theorem["verdict"] == PARTLY
    assert "220 elements" in theorem["here"]
    assert "makes 70, with [10, 50] non-zeros" in theorem["here"]
    tables = claim["tables 1 and 2 hold the sum of relative differences"]
    assert tables["verdict"] == FAILS
    assert "averaged over 8 parts, give 11.43 %" in tables["here"]
    balance = [entry for paper, entry in claim.items() if paper.startswith("Algorithms 2 and 3 match")]
    assert [entry["verdict"] for entry in balance] == [HOLDS, HOLDS]
    assert "TSOPF_RS_b300_c3" in balance[0]["why"]


def test_diagonals_without_bound_are_left_out(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(yang2015, "MOST_SLOTS", 1000)
    content, claim = experiment(tmp_path, monkeypatch, "cpu", MODEL)
    assert all("slots of diagonals" in entry["reason"] for entry in content["skipped"])
    assert claim["Algorithm 3 takes 20.31 % less time than Algorithm 4 in test 1, f32"]["verdict"] == OPEN


def test_threads_with_parts_of_their_own():
    A = load(YANG2015[2], quick=True).matrix
    x = np.random.default_rng(0).uniform(-1, 1, A.shape[1])
    for sets in (partition.by_pmf(A, [1, 2, 0, 3]).sets, [np.arange(A.shape[0])]):
        parts = ThreadParts(A, sets)
        np.testing.assert_allclose(parts.multiply(x), A @ x, rtol=1e-12, atol=1e-12)
        parts.time_us(x, 2)
        np.testing.assert_allclose(
            parts.multiply(x), A @ x, rtol=1e-12, atol=1e-12
        )  # timing leaves them in order


def test_two_devices_share_a_matrix(tmp_path, device):
    """The parts of test 2, on a GPU and the CPU, or on the CPU twice."""
    run = Run("yang2015", device, tmp_path, quick=True)
    sample = load(YANG2015[2], quick=True)
    problem = measure.Problem.make(sample.matrix, np.float32)
    yang2015._test_2(run, sample, "f32", problem, [3.0, 1.0])
    assert run.skipped == []
    assert [row["label"] for row in run.rows] == [*yang2015_claims.ALGORITHMS, yang2015_claims.BLOCKS]


@pytest.mark.parametrize("at_once", [False, True])
def test_sum_of_two_products(at_once):
    A = sp.csr_array(np.arange(12.0).reshape(3, 4))
    both = yang2015.Sum(FakeOperator(A, "", "cpu"), FakeOperator(10 * A, "", "cpu"), at_once)
    y = both.spmv(np.ones(4), np.full(3, np.nan))
    both.close()
    np.testing.assert_array_equal(y, 11 * A.sum(axis=1))
