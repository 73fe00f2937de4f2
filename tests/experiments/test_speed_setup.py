"""The measurement of setups runs; no test of time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("threadpoolctl", reason="the extra [bench] is not installed")

import spmvgpu as sg
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


def test_what_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        setup.main(["--seconds", "0"])
    assert "positive" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="no device"):
        setup.main(["--device", "tpu"])
