"""What single experiments promise beside being declared: stencils, halos, ranks."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("threadpoolctl", reason="the extra [bench] is not installed")

from experiments import halos, multi, report
from experiments.__main__ import main
from experiments.peers.problem import Problem
from generators import families
from mpiexec import need_ranks, run_ranks
from spmvgpu import gallery

# -- several devices -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1000, 27_001])
def test_stencil(rows, dtype):
    A = families.stencil(rows, dtype)
    assert A.has_canonical_format
    assert (A.dtype, A.indices.dtype) == (dtype, np.int32)
    lengths = np.diff(A.indptr)
    assert lengths.max() == np.median(lengths) == 27
    assert 0 <= A.indices.min() <= A.indices.max() < rows
    assert (A != A.T).nnz == 0
    assert abs(A).sum(axis=1).max() < 1
    assert len(np.unique(A.data)) > 1000
    if rows == 1000:
        assert np.linalg.eigvalsh(A.toarray().astype(np.float64)).min() > 0


def test_stencil_that_is_too_small(dtype):
    with pytest.raises(ValueError, match="more rows"):
        families.stencil(8, dtype)


def test_a_wrong_result_stops_it():
    case = multi.Over(Problem.make(families.stencil(8000, np.float64), np.float64))
    case.check("right", case.matrix @ case.x)
    with pytest.raises(SystemExit, match="wrong: off by"):
        case.check("wrong", case.matrix @ case.x + 1e-9)


def test_more_gpus_continue_the_measured_times():
    def files(matrix, counts):
        rows = [
            {"matrix": matrix, "dtype": "f64", "devices": ["gpu"] * k, "time_us": 800 / k + 50}
            for k in counts
        ]
        of_cycles = [row | {"solve_us": 10 * row["time_us"], "iterations": 10} for row in rows]
        environment = {"device": "NVIDIA G7", "cuda": "13.0"}
        return {
            name: {"environment": environment, "rows": of}
            for name, of in (("multi_cg", rows), ("multi_amg", of_cycles))
        }

    *head, of_cg, of_both = report.more_gpus([files("m", (1, 2, 4)), files("two", (1, 2)), {}]).splitlines()
    assert len(head) == 2
    for line, method in ((of_cg, "`cg`"), (of_both, "`cg` with `amg`")):
        times = "850 us | 450 us | 250 us | 50.0 us"
        assert (
            line == f"| G7 | {method} | m | {times} | {850 / 150:.2f} | {850 / 100:.2f} | {850 / 62.5:.2f} |"
        )


# -- halos ---------------------------------------------------------------------------------------------------


def test_halos_of_a_line():
    pattern = sp.csr_array(gallery.poisson1d(12))
    needed, messages = halos.halos_of(pattern, np.repeat([0, 1, 2], 4), 3)
    assert needed.tolist() == messages.tolist() == [1, 2, 1]


def test_halos_as_operators_over_ranks_have_them():
    """The entries that the columns of each rank's rows name, less its own."""
    pattern = halos.symmetric_pattern(sp.csr_array(np.random.default_rng(1).random((60, 60)) < 0.05))
    part = np.random.default_rng(2).integers(0, 4, 60)
    needed, messages = halos.halos_of(pattern, part, 4)
    for rank in range(4):
        cols = np.unique(pattern[part == rank].indices)
        others = cols[part[cols] != rank]
        assert needed[rank] == len(others)
        assert messages[rank] == len(np.unique(part[others]))


@pytest.mark.parametrize("partition", ["order", "rcm", "metis"])
def test_divisions(partition):
    if partition == "metis":
        pytest.importorskip("pymetis")
    pattern = halos.symmetric_pattern(gallery.poisson2d(20))
    part = halos.DIVISIONS[partition](pattern, 8)
    entries = np.bincount(part, np.diff(pattern.indptr), 8)
    assert entries.sum() == pattern.nnz
    assert entries.max() <= 1.25 * pattern.nnz / 8


def test_results_of_all_libraries_have_the_same_entries(tmp_path):
    assert main(["algebra", "--quick", "--device", "cpu", "--out", str(tmp_path)]) == 0
    (written,) = tmp_path.glob("*/algebra.json")
    entries = {}
    for row in json.loads(written.read_text())["rows"]:
        entries.setdefault((row["matrix"], row["variant"]), {})[row["library"]] = row["entries"]
    assert len(entries) == 16
    for (name, _), found in entries.items():
        is_equal = found["spmvgpu"] == found["scipy"]
        assert is_equal or name.startswith("elasticity"), "whose zeros SciPy leaves out"
        assert found["spmvgpu"] >= found["scipy"] > 0


# -- ranks ---------------------------------------------------------------------------------------------------


def test_ranks_are_measured(tmp_path):
    need_ranks()
    arguments = ["--rows", 3000, "--variants", "product", "--out", tmp_path]
    done = run_ranks(2, "-m", "mpi4py", "-m", "experiments", "scaling", *arguments, SPMVGPU_DEVICE="cpu")
    assert done.returncode == 0, done.stderr
    (written,) = tmp_path.glob("*/scaling.json")
    rows = json.loads(written.read_text())["rows"]
    found = {(row["scaling"], row["ranks"], row["rows"]) for row in rows}
    assert found == {("strong", 1, 3000), ("weak", 1, 750), ("strong", 2, 3000), ("weak", 2, 1500)}
    assert all(row["time_us"] > 0 for row in rows)
