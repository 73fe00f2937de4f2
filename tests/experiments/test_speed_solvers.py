"""The benchmark of solvers runs, and its report says what was measured; no test of time."""

import json

import pytest

from experiments.jobs import systems
from experiments.report import solvers as report
from experiments.speed import solvers


@pytest.fixture
def content(tmp_path, monkeypatch):
    monkeypatch.setattr(solvers, "ROUNDS", 1)
    arguments = ["--quick", "--device", "cpu", "--amg-side", "0", "--out", str(tmp_path)]
    assert solvers.main(arguments) == 0
    return json.loads(next(tmp_path.rglob("solvers.json")).read_text())


def test_quick_run_has_every_solver_of_every_library(content):
    ours = [row for row in content["rows"] if row["library"] == "spmvgpu"]
    expected = {(name, solver) for name in systems.QUICK for solver in solvers.SOLVERS}
    assert {(row["system"], row["solver"]) for row in ours} == expected
    assert {row["library"] for row in content["rows"]} >= {"spmvgpu", "scipy"}
    assert {row.get("symmetric") for row in ours} == {None, True}
    for row in content["rows"]:
        assert row["true_residual"] < (1e-2 if row["solver"] == "minres" else 2 * solvers.RTOL)
        assert row["iterations"] > 0
        assert row["devices"] == ["cpu"]
    table = report.rows({"solvers": content})
    assert len(table) == len(ours)
    assert all(len(row) == len(report.HEAD) for row in table)
    assert report.marks({"solvers": content}) == []  # the goals are those of a GPU


def made_up(library, solver="cg", preconditioner="none", **fields):
    shared = {"system": "poisson2d_100", "rows": 10_000, "iteration_us": None, "time_us": 1.0}
    return {**shared, "library": library, "solver": solver, "preconditioner": preconditioner, **fields}


def test_goals():
    rows = [
        made_up("spmvgpu", iteration_us=10.0),
        made_up("spmvgpu", iteration_us=5.0, symmetric=True),
        made_up("cupy", iteration_us=200.0),
        made_up("spmvgpu", "gmres", iteration_us=10.0),
        made_up("cupy", "gmres", iteration_us=29.0),
        made_up("spmvgpu", preconditioner="amg", time_us=1.0),
        made_up("pyamg", preconditioner="amg", time_us=21.0),
    ]
    results = {"solvers": {"environment": {"cuda": "13"}, "rows": rows, "skipped": []}}
    assert [(mark.measured, mark.reached) for mark in report.marks(results)] == [
        ("20.00", False),
        ("40.00", True),
        ("2.90", False),
        ("21.00", True),
    ]
    symmetric = next(row for row in report.rows(results) if row[3] == "symmetric")
    assert symmetric[4:6] == ("5.00", "200")  # beside CuPy's loop, which knows nothing of symmetry
