"""The measurement of new values runs, and its report says what was measured; no test of time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("threadpoolctl", reason="the extra [bench] is not installed")

import spmvgpu as sg
from experiments.report import updates as report
from experiments.speed import updates


def test_a_run_on_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updates, "SECONDS", 0.0)
    assert updates.main(["--quick", "--device", "cpu", "--out", str(tmp_path)]) == 0
    content = json.loads(next(tmp_path.rglob("updates.json")).read_text())
    formats = {row["variant"] for row in content["rows"]} | {row["variant"] for row in content["skipped"]}
    assert formats == set(sg.formats())
    kept = {row["variant"]: row["map_bytes"] for row in content["rows"] if row["matrix"] == "poisson2d_30"}
    assert kept["csr"] == 0 < kept["sdia"]
    for row in content["rows"]:
        assert min(row["time_us"], row["product_us"]) > 0
        assert row["source"] == "numpy"
    assert report.rows({"updates": content}) == report.marks({"updates": content}) == []


def test_the_report_counts_products() -> None:
    def case(variant: str, time_us: float) -> list[dict[str, object]]:
        row = {"matrix": "grid", "nnz": 100, "variant": variant, "product_us": 10.0, "map_bytes": 50}
        return [row | {"source": "device", "time_us": time_us}, row | {"source": "numpy", "time_us": 900.0}]

    results = {"updates": {"rows": case("dia", 25.0) + case("sdia", 41.0)}}
    assert report.rows(results)[0] == ("grid", "dia", "10.0", "25", "2.5", "900", "0.50")
    (mark,) = report.marks(results)
    assert (mark.measured, mark.reached) == ("1 of 2 within, most 4.1 at grid sdia", False)
    assert report.marks({}) == []
