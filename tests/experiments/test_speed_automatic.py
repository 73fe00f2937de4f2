"""The benchmark of the default choice runs, and its report says what was measured; no test of time."""

import json

import pytest

pytest.importorskip("threadpoolctl", reason="the extra [bench] is not installed")

from experiments.report import automatic as report
from experiments.speed import automatic, families


def test_a_run_on_the_cpu(tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.speed.products.WALL_SECONDS", 0.001)
    monkeypatch.setattr("experiments.environment.cpu_copy_bandwidth", lambda threads: 1e9 * threads)
    arguments = ["--quick", "--device", "cpu", "--dtype", "f64", "--skip", "mkl", "--out", str(tmp_path)]
    assert automatic.main(arguments) == 0
    content = json.loads(next(tmp_path.rglob("auto.json")).read_text())
    assert {(row["library"], row["variant"]) for row in content["rows"]} == {
        ("spmvgpu", "csr"),
        ("spmvgpu", "auto"),
        ("scipy", "csr"),
    }
    assert families.CONSTANT_7 in {row["group"] for row in content["rows"]}
    assert report.rows({"auto": content}) == []  # the table is that of a GPU
    assert report.marks({"auto": content}) == []  # and the goal on a CPU is over MKL


@pytest.mark.parametrize("name", ["rmat_17", "circuit_100k", "kkt_60"])
def test_matrices_of_families_are_canonical(name):
    A = families.build(name)
    assert A.shape[0] == A.shape[1]
    assert A.has_canonical_format
    assert A.indices.dtype == "int32"
    assert name in [item.name for item in families.all_items()[0]]


def test_every_goal_has_a_family():
    """A goal of a family that no matrix is of would never be missed."""
    known = {family for family, _ in families.BUILDERS.values()} | set(families.OF_SUITE.values())
    assert set(report.GOALS) <= known


def row(matrix, group, library, variant, time_us, how="graph", nnz=50_000, **more):
    return {"matrix": matrix, "group": group, "dtype": "f64", "cache": "hot", "how": how, "library": library,
            "variant": variant, "time_us": time_us, "nnz": nnz, "bytes": 4_000_000,
            "options": {"format": "stencil"}, **more}  # fmt: skip


def results(rows, **environment):
    return {"auto": {"environment": environment, "rows": rows, "skipped": []}}


def test_the_goals_on_a_gpu():
    grid = ("grid", families.CONSTANT_7)
    rows = [
        row(*grid, "cusparse", "csr_alg1", 12.0), row(*grid, "cusparse", "spmvop_alg1", 10.0),
        row(*grid, "cupy", "csr", 30.0, "call"), row(*grid, "spmvgpu", "auto_called", 10.0, "call"),
        row(*grid, "spmvgpu", "csr", 8.0), row(*grid, "spmvgpu", "auto", 2.0),
        row("net", "circuits", "cusparse", "sell", 3.0), row("net", "circuits", "spmvgpu", "csr", 3.0),
        row("net", "circuits", "spmvgpu", "auto", 4.0, nnz=200_000),
    ]  # fmt: skip
    found = results(
        rows, cuda="13.0", versions={"cusparse": "12.9.4"}, empty_kernel_us=1.2, copy_kernel_bandwidth=4e12
    )
    assert report.rows(found) == [
        (families.CONSTANT_7, "f64", "1", "5.00", "5.00", "grid", "1.25", "`stencil`"),
        ("circuits", "f64", "1", "0.75", "0.75", "net", "1.00", "`stencil`"),
    ]
    assert "cuSPARSE 12.9.4" in report.note(found)
    marks = {mark.name: mark for mark in report.marks(found)}
    assert marks["auto over the best of all cuSPARSE, f64, 2 cases"].reached
    slower = marks["the same, no matrix slower, f64, 2 cases"]
    assert not slower.reached
    assert "least 0.75 at net f64, 1 below 0.98" in slower.measured
    assert marks[f"the same, {families.CONSTANT_7}, f64, 1 cases"].reached
    assert not marks["the same, 0.1 to 1 M non-zeros, 1 cases"].reached
    floor = marks["auto beyond an empty kernel and its bytes, under 100 k non-zeros, 1 cases"]
    assert floor.reached
    assert floor.measured.startswith("mean -0.20 us")
    assert not marks["`op @ x` over CuPy's `A @ x`, both called from Python, 1 cases"].reached


def test_the_goals_on_a_cpu():
    grid = ("grid", families.CONSTANT_7)
    rows = [
        row(*grid, "mkl", "csr", 20.0, "call", threads=2),
        row(*grid, "spmvgpu", "auto", 10.0, "call", threads=2),
        row("small", "x", "mkl", "csr", 1.0, "call", threads=2, bytes=10),
        row("small", "x", "spmvgpu", "auto", 9.0, "call", threads=2),
    ]  # fmt: skip
    mean, least = report.marks(results(rows, cuda=None, cache_bytes=1000))
    assert mean.name == "auto over MKL, matrices beyond the cache, 2 threads, 1 cases"
    assert mean.reached
    assert least.reached
    assert least.goal == "each >= 0.95"
