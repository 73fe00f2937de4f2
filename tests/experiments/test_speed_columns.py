"""The benchmark of products with columns runs, and its report says what was measured; no test of time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("threadpoolctl", reason="the extra [bench] is not installed")

from experiments.records import SPMV_FIELDS
from experiments.report import columns as report
from experiments.report.pages import section
from experiments.speed import columns


def test_a_run_on_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "NUMPY_SECONDS", 0.001)
    monkeypatch.setattr("experiments.environment.cpu_copy_bandwidth", lambda threads: 1e9 * threads)
    assert columns.main(["--quick", "--device", "cpu", "--out", str(tmp_path)]) == 0
    content = json.loads(next(tmp_path.rglob("matmat.json")).read_text())
    assert not any("matrix" in entry for entry in content["skipped"])
    found = {(r["matrix"], r["library"], r["columns"], r["order"]) for r in content["rows"]}
    assert len(found) == len(columns.QUICK) * 2 * len(columns.COLUMNS) * len(columns.ORDERS)
    for row in content["rows"]:
        assert set(SPMV_FIELDS) <= set(row)
        assert row["time_us"] > 0
        assert row["bytes"] > 8 * row["columns"] * (row["rows"] + row["cols"])
    assert len(report.rows({"matmat": content})) == len(found) / 2
    assert report.marks({"matmat": content}) == []  # the goals are those of a GPU


def test_goals_of_a_gpu() -> None:
    """Each is judged by the worst of what it is about."""
    facts = {"cuda": "13.0", "device": "a GPU", "commit": "c" * 40, "date": "2026-01-01", "driver": "1"}
    shared = {"rows": 9, "cols": 9, "nnz": 9, "dtype": "f64", "columns": 32, "order": "C", "copy_us": 10.0}

    def row(matrix: str, library: str, variant: str, time_us: float, how: str) -> dict[str, object]:
        own = {"matrix": matrix, "library": library, "variant": variant, "time_us": time_us, "how": how}
        return {**shared, **own}

    rows = [
        row("grid", "cupy", "csr", 100.0, "call"),
        row("grid", "torch", "csr", 80.0, "call"),
        row("grid", "spmvgpu", "auto_called", 30.0, "call"),
        row("grid", "spmvgpu", "auto", 25.0, "graph"),
        row("grid", "cupy", "numpy", 1000.0, "call"),
        row("grid", "spmvgpu", "numpy", 500.0, "call"),
        row("powerlaw", "cupy", "csr", 100.0, "call"),
        row("powerlaw", "spmvgpu", "auto_called", 90.0, "call"),
        row("powerlaw", "spmvgpu", "auto", 85.0, "graph"),
    ]
    results = {"matmat": {"environment": {**facts, "versions": {}}, "rows": rows, "skipped": []}}
    speed, numpy_speed, copies = report.marks(results)
    assert (speed.reached, numpy_speed.reached, copies.reached) == (False, False, True)
    assert "worst 0.90 at powerlaw" in speed.measured
    assert "1 of 2 within" in speed.measured
    assert "worst 0.50" in numpy_speed.measured
    assert "worst 2.50 at grid" in copies.measured  # a copy says nothing of an irregular one
    assert "| grid | f64 | C | 32 | 100 | 80.0 | - |" in section(results)
    assert "MISSED" in report.summary(results)
