"""The measurement of setups runs; no test of time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("threadpoolctl", reason="the extra [bench] is not installed")

import spmvgpu as sg
from experiments.report import setup as report
from experiments.speed import setup, suite


def test_a_run_on_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "REPEATS", 1)
    assert setup.main(["--quick", "--device", "cpu", "--out", str(tmp_path)]) == 0
    content = json.loads(next(tmp_path.rglob("setup.json")).read_text())
    rows = [row for row in content["rows"] if row["matrix"] in suite.QUICK]
    assert len(rows) == len(suite.QUICK) * 2 * len(setup.VARIANTS)
    for row in rows:
        assert (row["library"], row["source"]) == ("spmvgpu", "scipy")
        assert min(row["time_us"], row["product_us"], row["nnz"]) > 0
        assert row["format"] in sg.formats()
        assert any(step.startswith("convert") for step in row["steps"])


def test_what_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        setup.main(["--seconds", "0"])
    assert "positive" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="no device"):
        setup.main(["--device", "tpu"])


def test_the_report_has_large_matrices_and_the_goals() -> None:
    def case(matrix: str, nnz: int, cupy: float, auto: float, there: float) -> list[dict[str, object]]:
        what = {"matrix": matrix, "dtype": "float64", "nnz": nnz}
        ours = what | {"library": "spmvgpu", "source": "scipy", "format": "sell", "product_us": 10.0}
        return [
            what | {"library": "cupy", "variant": "csr", "source": "scipy", "time_us": cupy},
            *(ours | {"variant": name, "time_us": auto} for name in setup.VARIANTS),
            ours | {"variant": "auto", "source": "cupy", "time_us": there},
        ]

    found = case("small", 999, 100.0, 900.0, 900.0)
    found += case("good", 10**6, 1000.0, 250.0, 590.0) + case("bad", 2 * 10**6, 1000.0, 1000.0, 700.0)
    results = {"setup": {"environment": {"cuda": "13.0"}, "rows": found}}
    assert [row[0] for row in report.rows(results)] == ["good", "bad"]
    assert report.rows(results)[0][3:] == ("1000", "250", "250", "250", "0.25", "sell", "590", "59")
    ratio, products = report.marks(results)
    assert ratio.reached
    assert "mean 0.50, worst 1.00 at bad float64, 2 within" in ratio.measured
    assert not products.reached
    assert products.measured == "1 within, most 70"
    results["setup"]["environment"]["cuda"] = None
    assert report.rows(results) == report.marks(results) == []
