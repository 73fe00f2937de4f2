"""Ranks are measured as promised, and the model says again what it was made of."""

import json

import pytest

from experiments.report import scaling as report
from mpiexec import need_ranks, run_ranks

SIZES = [("strong", 8_000_000, 1), ("weak", 2_000_000, 1), ("strong", 8_000_000, 2), ("weak", 4_000_000, 2)]
MODEL = report.Model((2.0, 5e-5), (40.0, 7e-5), 3.0, 6.0)


@pytest.fixture
def content():
    """Times as the model has them."""
    rows = [
        {"scaling": kind, "rows": rows, "ranks": ranks, "variant": variant, "dtype": "f64",
         "transport": "NCCL 2.28.9" if ranks > 1 else "none", "time_us": MODEL.time(variant, rows, ranks)}
        for kind, rows, ranks in SIZES
        for variant in ("product", "cg")
    ]  # fmt: skip
    return {"rows": rows}


def test_the_model_is_found_again(content):
    found = report.fitted(content["rows"])
    assert found.product == pytest.approx(MODEL.product)
    assert found.cg == pytest.approx(MODEL.cg)
    assert (found.exchange, found.total) == pytest.approx((MODEL.exchange, MODEL.total))


def test_tables(content):
    measured = report.measured(content)
    assert [row[:4] for row in measured[:2]] == [
        ("strong", "8,000,000", "1", "-"),
        ("weak", "2,000,000", "1", "-"),
    ]
    assert all(cell.endswith(" %)") and "0 %" in cell for row in measured for cell in row[-2:])
    ahead = report.ahead(content)
    assert all(len(row) == len(report.AHEAD) for row in ahead)
    assert report.ahead({"rows": content["rows"][:4]}) == []


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
