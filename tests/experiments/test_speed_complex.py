"""The benchmark of complex products runs, and its report says what was measured; no test of time."""

import json

import numpy as np
import pytest

pytest.importorskip("threadpoolctl", reason="the extra [bench] is not installed")

from experiments.peers.problem import ALL, Problem, WrongResultError
from experiments.report import complex_values as report
from experiments.speed import complex_values
from spmvgpu import gallery


def test_a_run_on_the_cpu(tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.speed.products.WALL_SECONDS", 0.001)
    monkeypatch.setattr("experiments.environment.cpu_copy_bandwidth", lambda threads: 1e9 * threads)
    assert complex_values.main(["--quick", "--device", "cpu", "--out", str(tmp_path)]) == 0
    content = json.loads(next(tmp_path.rglob("complex.json")).read_text())
    assert {(row["library"], row["variant"], row["dtype"]) for row in content["rows"]} == {
        ("spmvgpu", "csr", "c128"),
        ("spmvgpu", "sell", "c128"),
        ("spmvgpu", "auto", "c128"),
        ("scipy", "csr", "c128"),
    }
    assert report.rows({"complex": content}) == []  # the table and the goal are those of a GPU
    assert report.marks({"complex": content}) == []


@pytest.mark.parametrize("name", ALL)
def test_the_check_of_results(name):
    problem = Problem.make(gallery.poisson2d(9), ALL[name])
    y = problem.matrix @ problem.x
    problem.check(y)
    assert np.iscomplexobj(y) == name.startswith("c")
    if np.iscomplexobj(y):  # entries have phases of their own, and the sizes that they had
        np.testing.assert_allclose(abs(problem.matrix).data, abs(gallery.poisson2d(9)).data, rtol=1e-6)
        assert len(np.unique(np.angle(problem.matrix.data))) > problem.matrix.nnz / 2
    assert problem.describe()["dtype"] == name
    y[3] += 1e-3
    with pytest.raises(WrongResultError, match="1 of 81 rows are wrong; row 3"):
        problem.check(y)


def test_the_goal():
    def row(library, variant, time_us, how="graph"):
        return {"matrix": "grid", "dtype": "c128", "cache": "hot", "how": how, "library": library,
                "variant": variant, "time_us": time_us}  # fmt: skip

    rows = [
        row("cusparse", "csr_alg1", 12.0), row("cusparse", "sell", 10.0), row("cupy", "csr", 9.0, "call"),
        row("spmvgpu", "csr", 9.0), row("spmvgpu", "sell", 8.0),
    ]  # fmt: skip
    results = {"complex": {"environment": {"cuda": "13.0"}, "rows": rows, "skipped": []}}
    (mark,) = report.marks(results)
    assert mark.reached
    assert mark.measured.startswith("geometric mean 0.800, worst 0.80")
    (line,) = report.rows(results)
    assert line == ("grid", "c128", "10.0", "sell", "9.00", "9.00", "8.00", "-", "0.80")
