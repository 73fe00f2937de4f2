"""The benchmark of the symmetric format runs, and its report says what was measured; no test of time."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("threadpoolctl", reason="the extra [bench] is not installed")

from experiments.records import SPMV_FIELDS
from experiments.report import pages as report
from experiments.report import symmetric as symmetric_report
from experiments.speed import suite, symmetric
from experiments.speed.symmetric_suite import AS_GIVEN, GIVEN, NARROW, QUICK, REAL, REORDERED, symmetric_suite

# -- matrices ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("item", symmetric_suite(quick=True)[0], ids=lambda item: item.name)
def test_quick_matrices_are_symmetric_and_canonical(item: suite.Item) -> None:
    matrix = item.build()
    assert matrix.dtype == np.float64
    assert matrix.indices.dtype == np.int32
    assert matrix.has_canonical_format
    assert (matrix != matrix.T).nnz == 0
    assert len(np.unique(matrix.data)) > 100


def test_both_orders_hold_the_same_entries() -> None:
    items = {item.name: item for item in symmetric_suite(quick=True)[0]}
    for name in QUICK:
        ordered, given = items[name], items[name + AS_GIVEN]
        assert (ordered.group, given.group) == (REORDERED, GIVEN)
        np.testing.assert_array_equal(np.sort(ordered.build().data), np.sort(given.build().data))


def test_suite_names_what_needs_real_matrices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(suite.FOLDER_VARIABLE, raising=False)
    items, left_out = symmetric_suite()
    assert set(left_out) == set(REAL)
    assert {item.name for item in items if item.group == REORDERED} >= set(NARROW) - set(REAL)

    lower = sp.csr_array(np.array([[True, False], [True, True]]))
    sp.save_npz(tmp_path / "fe_pwt.npz", lower)
    entry = {"name": "fe_pwt", "nnz": 4, "stored": "lower", "dtype": "bool"}
    (tmp_path / "index.json").write_text(json.dumps([entry]))
    monkeypatch.setenv(suite.FOLDER_VARIABLE, str(tmp_path))
    items, left_out = symmetric_suite()
    matrix = next(item for item in items if item.name == "fe_pwt_x6" + AS_GIVEN).build().toarray()
    assert "fe_pwt_x6" not in left_out
    assert np.count_nonzero(matrix) == 12 * 12  # all of four blocks
    np.testing.assert_array_equal(matrix, matrix.T)


# -- a run on the CPU ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("experiments.speed.products.WALL_SECONDS", 0.003)
        patch.setattr("experiments.environment.cpu_copy_bandwidth", lambda threads: 1e9 * threads)
        patch.delenv(suite.FOLDER_VARIABLE, raising=False)
        assert symmetric.main(["--quick", "--device", "cpu", "--out", str(out)]) == 0
    (folder,) = out.iterdir()
    return folder


def test_run_writes_what_storing_and_setting_up_cost(quick_run: Path) -> None:
    content = json.loads((quick_run / "symmetric.json").read_text())
    assert {row["matrix"] for row in content["rows"]} == {
        name + end for name in QUICK for end in ("", AS_GIVEN)
    }
    assert {"tsmv", "tsmv_poster", "tsmv_poster_large", "csr", "sell"} <= {
        row["variant"] for row in content["rows"]
    }
    assert {row["dtype"] for row in content["rows"]} == {"f64", "f32"}
    for row in content["rows"]:
        assert {*SPMV_FIELDS, "memory_ratio"} <= set(row)
        if row["threads"] in (1, 2):
            assert row["predicted_us"] == pytest.approx(row["bytes"] / (1e3 * row["threads"]), abs=1e-3)
        if row["library"] == "spmvgpu":
            assert row["preprocess_products"] == pytest.approx(
                1e6 * row["preprocess_seconds"] / row["time_us"], rel=0.05, abs=0.1
            )
        if row["variant"] == "csr":
            assert row["memory_ratio"] == pytest.approx(1.0, abs=0.02)
        if row["variant"] == "tsmv":
            assert row["memory_ratio"] < 1
    assert not [row for row in content["skipped"] if row.get("variant", "").startswith("tsmv")]


def test_report_of_a_cpu_run(quick_run: Path) -> None:
    results = report.devices_in(quick_run.parent)[quick_run.name]
    text = symmetric_report.summary(results)
    assert all(name in text for name in QUICK)
    assert "cuSPARSE" not in text
    assert "memory of tsmv over CSR, everywhere" in text
    assert "12 of 12 within" in text
    section = report.section(results)
    assert "## Symmetric matrices" in section
    assert symmetric_report.NOTE in section


# -- the report on made-up numbers ---------------------------------------------------------------------------


def made_up_results(times: dict[str, float], memory: float = 0.5) -> dict[str, dict[str, object]]:
    """A run on a GPU that no machine made: times by "library variant", on one narrow matrix."""
    rows = []
    for name, time_us in times.items():
        library, variant = name.split()
        row = {
            "matrix": "shell_x6", "group": "rcm", "rows": 10, "cols": 10, "nnz": 4_000_000, "dtype": "f64",
            "library": library, "variant": variant, "cache": "hot", "how": "graph", "time_us": time_us,
            "bytes": 50_000_000, "options": {}, "setup_seconds": {}, "memory_ratio": 1.0,
        }  # fmt: skip
        if variant.startswith("tsmv"):
            row |= {
                "bytes": 25_000_000,
                "memory_ratio": memory,
                "preprocess_products": 70.0,
                "predicted_us": 6.0,
            }
        rows.append(row)
    environment = {"device": "Made-up GPU", "cuda": "13.0", "cache_bytes": 1 << 20}
    reason = "FormatError: takes more than csr"
    skipped = [
        {"matrix": "wide", "dtype": "f64", "library": "spmvgpu", "variant": "tsmv", "reason": reason}
    ] * 2
    return {"symmetric": {"environment": environment, "rows": rows, "skipped": skipped}}


TIMES = {
    "cusparse csr_alg1": 20.0,
    "cusparse sell": 16.0,
    "spmvgpu csr": 12.0,
    "spmvgpu sell": 11.0,
    "spmvgpu tsmv": 8.0,
    "spmvgpu tsmv_poster": 32.0,
    "spmvgpu tsmv_poster_large": 33.0,
}


def test_table_compares_with_the_best_of_the_others() -> None:
    (row,) = symmetric_report.rows(made_up_results(TIMES))
    cells = dict(zip(symmetric_report.HEAD[:4], row, strict=False))
    assert cells == {"matrix": "shell_x6", "dtype": "f64", "nnz": "4.00M", "best other": "16.0"}
    assert row[4:] == (
        "cusparse sell", "12.0", "11.0", "8.00", "0.50", "0.50", "3.12", "6.0", "32.0", "2.00", "0.50", "70",
    )  # fmt: skip


def test_marks_judge_by_the_stated_goals() -> None:
    reached = {mark.name: mark.reached for mark in symmetric_report.marks(made_up_results(TIMES))}
    assert list(reached.values()) == [True, True, True, False]  # speed, memory twice, 70 products
    slow = symmetric_report.marks(made_up_results({**TIMES, "spmvgpu tsmv": 13.0}, memory=0.7))
    assert [mark.reached for mark in slow] == [False, False, True, False]
    assert "worst 0.81 at shell_x6 f64, 0 of 1 within" in slow[0].measured
    assert symmetric_report.marks({}) == []


def test_summary_counts_what_was_refused() -> None:
    text = symmetric_report.summary(made_up_results(TIMES))
    assert "skipped 2 times: tsmv: FormatError: takes more than csr" in text
    assert "reached  tsmv over the best of cuSPARSE" in text


def test_a_matrix_without_the_format_keeps_its_line() -> None:
    without = {name: time for name, time in TIMES.items() if "tsmv" not in name}
    (row,) = symmetric_report.rows(made_up_results(without))
    assert row[7:] == ("-",) * 9
    assert symmetric_report.summary({}) == "nothing measured"
