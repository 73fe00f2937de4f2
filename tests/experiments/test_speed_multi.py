"""The benchmark of several devices runs and writes what it promises; nothing here looks at a time."""

import json

import numpy as np
import pytest

from experiments.records import SPMV_FIELDS
from experiments.speed import multi


@pytest.mark.parametrize("rows", [1000, 27_001])
def test_stencil(rows, dtype):
    A = multi.stencil(rows, dtype)
    assert A.has_canonical_format
    assert (A.dtype, A.indices.dtype) == (dtype, np.int32)
    assert (np.diff(A.indptr) == 27).all()
    assert 0 <= A.indices.min() <= A.indices.max() < rows
    assert A.sum(axis=1).max() < 1
    assert len(np.unique(A.data)) > 1000


def test_stencil_that_is_too_small(dtype):
    with pytest.raises(ValueError, match="more rows"):
        multi.stencil(8, dtype)


def test_results(tmp_path):
    assert multi.main(["--out", str(tmp_path), "--rows", "8000", "--counts", "1,2"]) == 0
    content = json.loads(next(tmp_path.glob("*/multi.json")).read_text())
    assert content["environment"]["device"]
    lists = multi.device_lists([1, 2])
    for dtype in ("f64", "f32"):
        rows = [row for row in content["rows"] if row["dtype"] == dtype]
        assert [row["variant"] for row in rows] == ["graph"] + ["distributed", "numpy"] * len(lists)
        assert [row["devices"] for row in rows[1::2]] == lists
        for row in rows:
            assert set(SPMV_FIELDS) <= set(row)
            assert sum(row["nnz_per_device"]) == row["nnz"] == 8000 * 27


def test_no_time_left(tmp_path):
    multi.main(["--out", str(tmp_path), "--rows", "8000", "--dtype", "f32", "--budget-seconds", "0"])
    content = json.loads(next(tmp_path.glob("*/multi.json")).read_text())
    assert [row["variant"] for row in content["rows"]] == ["graph"]
    assert {entry["reason"] for entry in content["skipped"]} == {"out of time"}


def test_a_wrong_result_stops_it(tmp_path):
    run = multi.Run(multi.stencil(8000, np.float64), "stencil", "f64", None)
    run.check("right", run.matrix @ run.x)
    with pytest.raises(SystemExit, match="wrong: off by"):
        run.check("wrong", run.matrix @ run.x + 1e-9)
