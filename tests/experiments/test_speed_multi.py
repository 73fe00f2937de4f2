"""The benchmark of several devices runs and writes what it promises; nothing here looks at a time."""

import json

import numpy as np
import pytest

from experiments.records import SPMV_FIELDS
from experiments.report import multi as report
from experiments.speed import multi


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


def test_results(tmp_path):
    assert multi.main(["--out", str(tmp_path), "--rows", "8000", "--counts", "1,2"]) == 0
    contents = [json.loads(next(tmp_path.glob(f"*/{name}")).read_text()) for name in multi.FILES.values()]
    assert all(content["environment"]["device"] for content in contents)
    lists = multi.device_lists([1, 2])
    for dtype in ("f64", "f32"):
        rows = [row for content in contents for row in content["rows"] if row["dtype"] == dtype]
        wanted = [("graph", lists[0][:1])]
        for devices in lists:
            wanted += [("distributed", devices), ("numpy", devices)]
        wanted += [("cg", devices) for devices in lists if multi.is_of_one_kind(devices)]
        assert [(row["variant"], row["devices"]) for row in rows] == wanted
        nnz = multi.stencil(8000, np.float32).nnz
        for row in rows:
            assert set(SPMV_FIELDS) <= set(row)
            assert sum(row["nnz_per_device"]) == row["nnz"] == nnz
            assert row["variant"] != "cg" or row["pieces"] == len(row["devices"])


def test_cg_alone(tmp_path):
    multi.main(
        ["--out", str(tmp_path), "--rows", "8000", "--counts", "1,2", "--dtype", "f64", "--variants", "cg"]
    )
    content = json.loads(next(tmp_path.glob("*/multi_cg.json")).read_text())
    assert not list(tmp_path.glob("*/multi.json"))
    assert {row["variant"] for row in content["rows"]} == {"cg"}
    table = report.rows({"multi_cg": content})
    assert len(table) == len(content["rows"])
    assert all(len(row) == len(report.HEAD) for row in table)
    with pytest.raises(SystemExit):
        multi.main(["--out", str(tmp_path), "--variants", "cg,qr"])


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
    run.iterate = run.x
    with pytest.raises(SystemExit, match="cg over"):
        run.over(["cpu"], "csr", ["cg"])
