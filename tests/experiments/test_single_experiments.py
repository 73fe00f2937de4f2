"""What single experiments promise beside being declared: stencils, halos, the model of ranks, goals."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("threadpoolctl", reason="the extra [bench] is not installed")

from experiments.peers.problem import Problem
from experiments.records import Content
from experiments.speed import automatic, halos, jobs, multi, scaling, symmetric
from mpiexec import need_ranks, run_ranks
from spmvgpu import gallery

# -- several devices -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1000, 27_001])
def test_stencil(rows, dtype):
    A = multi.stencil(rows, dtype)
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
        multi.stencil(8, dtype)


def test_a_wrong_result_stops_it():
    case = multi.Over(Problem.make(multi.stencil(8000, np.float64), np.float64))
    case.check("right", case.matrix @ case.x)
    with pytest.raises(SystemExit, match="wrong: off by"):
        case.check("wrong", case.matrix @ case.x + 1e-9)


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


# -- ranks ---------------------------------------------------------------------------------------------------

SIZES = [("strong", 8_000_000, 1), ("weak", 2_000_000, 1), ("strong", 8_000_000, 2), ("weak", 4_000_000, 2)]
MODEL = scaling.Model((2.0, 5e-5), (40.0, 7e-5), 3.0, 6.0)


@pytest.fixture
def content():
    """Times as the model has them."""
    rows = [
        {"scaling": kind, "rows": rows, "ranks": ranks, "variant": variant, "dtype": "f64",
         "transport": "NCCL 2.28.9" if ranks > 1 else "none", "time_us": MODEL.time(variant, rows, ranks)}
        for kind, rows, ranks in SIZES
        for variant in ("product", "cg")
    ]  # fmt: skip
    return Content({}, rows)


def test_the_model_is_found_again(content):
    found = scaling.fitted(content.rows)
    assert found.product == pytest.approx(MODEL.product)
    assert found.cg == pytest.approx(MODEL.cg)
    assert (found.exchange, found.total) == pytest.approx((MODEL.exchange, MODEL.total))


def test_tables(content):
    measured = list(scaling.measured(content))
    assert [tuple(row[:4]) for row in measured[:2]] == [
        ("strong", "8,000,000", "1", "-"),
        ("weak", "2,000,000", "1", "-"),
    ]
    assert all(cell.endswith(" %)") and "0 %" in cell for row in measured for cell in row[-2:])
    assert all(len(row) == len(scaling.AHEAD) for row in scaling.ahead(content))
    assert list(scaling.ahead(Content({}, content.rows[:4]))) == []


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


# -- goals that no committed results are judged by, and rows that are worked out -----------------------------


def test_the_goals_of_the_default_format_on_a_cpu():
    def row(matrix, library, variant, time_us, size=4_000_000):
        return {"matrix": matrix, "dtype": "f64", "cache": "hot", "how": "call", "library": library,
                "variant": variant, "time_us": time_us, "bytes": size, "threads": 2}  # fmt: skip

    rows = [
        row("grid", "mkl", "csr", 20.0), row("grid", "spmvgpu", "auto", 10.0),
        row("small", "mkl", "csr", 1.0, 10), row("small", "spmvgpu", "auto", 9.0),
    ]  # fmt: skip
    mean, least = automatic.goals(Content({"cuda": None, "cache_bytes": 1000}, rows))
    assert mean.name == "auto over MKL, matrices beyond the cache, 2 threads"
    assert mean.measured == "2.00 at grid f64"
    assert (mean.reached, least.reached, least.goal) == (True, True, "each >= 0.95")


def test_rows_of_the_symmetric_format_say_what_storing_costs():
    row = {"dtype": "f64", "nnz": 1000, "rows": 100, "cols": 100, "bytes": 8000, "time_us": 2.0,
           "setup_seconds": {"transfer": 1.0, "convert": 1e-5}}  # fmt: skip
    found = symmetric.completed({"copy_kernel_bandwidth": 4e9}, row)
    assert found["memory_ratio"] == round((8000 - 1600) / 12404, 4)
    assert (found["predicted_us"], found["preprocess_products"]) == (2.0, 5.0)


def test_what_is_faster_here_is_no_reason_against():
    def row(library, us):
        return {"job": "matrix to solution", "matrix": "a", "rows": 10, "library": library, "device": "cpu",
                "time_us": us}  # fmt: skip

    def reasons(ours):
        return list(jobs.against({"jobs": Content({}, [row("spmvgpu", ours), row("scipy", 4000.0)])}))

    assert reasons(3000.0) == []
    assert "10 rows takes 5.00 ms to solve, and 4.00 ms with SciPy" in reasons(5000.0)[0]
