"""The jobs run, check what they time, and become tables; nothing here looks at a time that was measured."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as sla

pytest.importorskip("threadpoolctl", reason="the extra [bench] is not installed")

from experiments.clock import in_turns
from experiments.jobs import imports, libraries, loops, products, solve, start, systems
from experiments.jobs import measure as jobs
from experiments.jobs.run import Run, check_product
from experiments.peers.problem import WrongResultError
from experiments.records import Recorder
from experiments.report import jobs as jobs_report
from experiments.report import overview
from experiments.report import pages as report
from experiments.report.markdown import machine, short_name

FIELDS = {"job", "matrix", "rows", "nnz", "dtype", "library", "time_us"}
ENVIRONMENT = {
    "device": "Made-up GPU", "driver": "1.0", "cuda": "13.0", "commit": "0" * 40, "date": "2000-01-01",
    "versions": {"numpy": "2.0"}, "cpu": "Made-up CPU", "cores": 4,
}  # fmt: skip


# -- a run on the CPU ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the results of a short run; the full length of every timing is not needed here."""
    out = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        for module in (solve, loops, products):
            patch.setattr(module, "SECONDS", 0.001)
        patch.setattr(products, "LONGEST", 0.05)
        patch.setattr(jobs, "initial_environment", dict)  # whatever the tests are run with
        assert jobs.main(["--quick", "--device", "cpu", "--out", str(out)]) == 0
    (folder,) = out.iterdir()
    return folder


def test_run_writes_every_job_of_every_library(quick_run: Path) -> None:
    content = json.loads((quick_run / "jobs.json").read_text())

    assert {"device", "driver", "cuda", "commit", "date", "versions"} <= set(content["environment"])
    failed = [row for row in content["skipped"] if "matrix" in row]
    assert not failed
    for row in content["rows"]:
        assert set(row) >= FIELDS
        assert row["device"] == "cpu"
    both = {"spmvgpu", "scipy"}
    expected = {
        solve.JOB: both,
        loops.DEVICE_CG: both,
        **{loops.LOOP.format(solver): both for solver in loops.LOOPS},
        start.JOB: both,
        products.THOUSAND: both,
        **{products.COLUMNS.format(count, "NumPy"): both for count in products.COUNTS},
    }
    for job, some in expected.items():
        for matrix in systems.QUICK:
            found = {r["library"] for r in content["rows"] if (r["job"], r["matrix"]) == (job, matrix)}
            assert found - {"torch"} == some


def test_imports_are_measured_beyond_scipy(quick_run: Path, tmp_path: Path) -> None:
    content = json.loads((quick_run / imports.FILE).read_text())
    measured = {row["library"]: row for row in content["rows"]}
    left_out = {row["library"] for row in content["skipped"]}
    assert measured.keys() | left_out == imports.STATEMENTS.keys()
    assert measured["spmvgpu"].keys() >= {"time_us", "bytes", "scipy_us", "scipy_bytes", "samples"}
    for row in measured.values():  # a whole Python is there before SciPy
        assert row["resident_bytes"] > row["bytes"] + row["scipy_bytes"]

    readme = tmp_path / "README.md"
    readme.write_text("\n".join((*report.PICTURE, *report.AGAINST, "")))
    assert report.main(["--results", str(quick_run.parent), "--readme", str(readme)]) == 0
    page = (tmp_path / "docs" / "results" / f"{quick_run.name}.md").read_text()
    assert f"| spmvgpu | `{imports.STATEMENTS['spmvgpu']}` |" in page
    assert page.count("| import beyond SciPy's | <= 250 ms |") == 1
    assert page.count("| `python -m spmvgpu info` | <= 600 ms |") == 1


def test_what_cannot_be_imported_says_why() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)no_such_library.* ended with 1: .*ModuleNotFoundError"):
        imports.measure("import no_such_library")


def test_memory_of_an_import_is_that_of_the_process() -> None:
    scipy_us, scipy_bytes, time_us, taken, resident = imports.measure("kept = bytearray(b'x' * (50 << 20))")
    assert 50 << 20 <= taken < resident
    assert scipy_bytes > 10 << 20
    assert min(scipy_us, time_us) > 0


def test_loops_say_what_the_free_operator_and_the_product_take(quick_run: Path) -> None:
    rows = json.loads((quick_run / "jobs.json").read_text())["rows"]
    of_loops = [row for row in rows if row["job"].startswith("SciPy's")]
    assert len(of_loops) == 2 * len(loops.LOOPS) * len(systems.QUICK)
    for row in of_loops:
        assert row["products"] >= 10
        assert {"free_us", "product_us"} <= set(row)


def test_results_become_tables_of_pages(quick_run: Path, tmp_path: Path) -> None:
    readme, docs = tmp_path / "README.md", tmp_path / "docs"
    readme.write_text("\n".join((*report.PICTURE, *report.AGAINST, "")))
    docs.mkdir()
    performance, solvers = docs / "performance.md", docs / "solvers.md"
    performance.write_text("\n".join(("begin", *report.TABLES, "end", "")))
    solvers.write_text("\n".join(("begin", *report.SOLVERS, "end", "")))
    assert report.main(["--results", str(quick_run.parent), "--readme", str(readme)]) == 0
    text = performance.read_text()
    assert report.OVERVIEW_NOTE in text
    assert f"| from SciPy matrix to solution | {len(systems.QUICK)} |" in text
    page = (tmp_path / "docs" / "results" / f"{quick_run.name}.md").read_text()
    assert jobs_report.NOTE in page
    assert all(f"| {solve.JOB} | {matrix} |" in page for matrix in systems.QUICK)
    assert "of which" in solvers.read_text()
    assert page.count("| SciPy's gmres loop | elast_1k |") == 3  # once among all jobs, once for each library


def test_what_does_not_fit_the_time_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "initial_environment", dict)
    arguments = ["--quick", "--device", "cpu", "--seconds", "1e-9", "--out", str(tmp_path)]
    assert jobs.main(arguments) == 0
    (path,) = tmp_path.glob("*/jobs.json")
    content = json.loads(path.read_text())
    assert content["rows"] == []
    reasons = {row["reason"] for row in content["skipped"] if "matrix" in row}
    assert reasons == {"the time budget was spent"}
    assert {row["job"] for row in content["skipped"] if "job" in row} >= {solve.JOB, start.JOB}


def test_settings_of_threads_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(jobs, "initial_environment", lambda: {"OMP_NUM_THREADS": "4", "HOME": "/"})
    assert jobs.main(["--quick", "--out", str(tmp_path)]) == 2
    assert "env -u OMP_NUM_THREADS python" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", [["--seconds", "0"], ["--jobs", "solve,dance"]], ids=" ".join)
def test_bad_arguments_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        jobs.parse(arguments)


# -- parts ---------------------------------------------------------------------------------------------------


def test_initial_environment_is_that_of_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/proc/self/environ").is_file():
        pytest.skip("this system does not say what a process was started with")
    monkeypatch.setenv("OMP_SET_LATER", "1")
    assert "OMP_SET_LATER" not in jobs.initial_environment()
    assert jobs.thread_settings({"OMP_SET_LATER": "1"}) == ["OMP_SET_LATER"]


@pytest.mark.parametrize("name", systems.QUICK)
def test_systems_are_symmetric_positive_definite(name: str) -> None:
    A = systems.matrix(name)
    assert abs(A - A.T).max() <= 1e-12 * abs(A).max()
    assert np.linalg.eigvalsh(A.toarray())[0] > 0
    assert systems.matrix(name) is not A


@pytest.mark.parametrize("solver", loops.LOOPS)
def test_a_free_operator_repeats_the_loop(solver: str) -> None:
    A = systems.matrix("poisson2d_20")
    b = systems.right_hand_side(A)
    recording = loops.Recording(A)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *arguments, **more: None)
        loops.LOOPS[solver](recording, b, 40)
        free = loops.Free(recording)
        for _ in range(2):  # the second time too, although gmres writes to what it was given
            free.rewind()
            calls: list[np.ndarray] = []
            loops.LOOPS[solver](_Listening(free, calls), b, 40)
            assert len(calls) == len(recording.results)
            for returned, result in zip(calls, recording.results, strict=True):
                np.testing.assert_array_equal(returned, result)


class _Listening(sla.LinearOperator):
    def __init__(self, operator: Any, calls: list[np.ndarray]) -> None:
        super().__init__(operator.dtype, operator.shape)
        self._operator, self._calls = operator, calls

    def _matvec(self, x: np.ndarray) -> np.ndarray:
        y = self._operator._matvec(x)
        self._calls.append(y.copy())
        return y

    _matmat = _matvec


def test_wrong_results_are_not_timed() -> None:
    A = systems.matrix("poisson2d_20")
    X = np.random.default_rng(0).standard_normal((A.shape[1], 3))
    check_product(A, X, A @ X)
    check_product(A, X[:, 0], A @ X[:, 0])
    for wrong in (A @ X * (1 + 1e-12), A @ X + np.nan, (A @ X)[:, :2]):
        with pytest.raises(WrongResultError):
            check_product(A, X, wrong)
    b = systems.right_hand_side(A)
    with pytest.raises(WrongResultError, match="residual"):
        solve._check(A, np.zeros_like(b), b)


def test_a_failure_costs_only_its_own_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = libraries.Library("broken", "cpu", lambda A: A, lambda A, x: 2 * (A @ x))
    monkeypatch.setattr(libraries, "all_libraries", lambda gpu: [broken, libraries.scipy()])
    monkeypatch.setattr(products, "LONGEST", 0.01)
    record = Recorder(tmp_path / "jobs.json", {})
    products.thousand(Run(False, True, record, time.perf_counter()))
    assert {row["library"] for row in record.rows} == {"scipy"}
    assert {row["library"] for row in record.skipped} == {"broken"}
    assert all("WrongResultError" in row["reason"] for row in record.skipped)


def test_turns_are_taken_by_all_alike() -> None:
    order: list[str] = []
    calls = {name: (lambda name=name: order.append(name)) for name in ("first", "second")}
    samples = in_turns(calls, 0.0, least=3, before=lambda: order.append("before"))
    assert [len(values) for values in samples.values()] == [3, 3]
    assert order == ["before", "first", "before", "second"] * 4


# -- report --------------------------------------------------------------------------------------------------


def made_up(job: str, matrix: str, library: str, device: str, time_us: float, **more: Any) -> dict[str, Any]:
    return {
        "job": job, "matrix": matrix, "rows": 1_000_000, "nnz": 5_000_000, "dtype": "f64", "library": library,
        "device": device, "variant": "", "time_us": time_us, **more,
    }  # fmt: skip


@pytest.fixture
def results() -> dict[str, dict[str, Any]]:
    """Numbers that no machine measured."""
    cg, columns = jobs_report.CG_LOOP, "op @ X, 8 columns, NumPy arrays"
    rows = [
        made_up(solve.JOB, "first", "spmvgpu", "gpu", 30_000.0, variant="first"),
        made_up(solve.JOB, "first", "spmvgpu", "gpu", 10_000.0, variant="again"),
        made_up(solve.JOB, "first", "cupy", "gpu", 20_000.0),
        made_up(solve.JOB, "first", "spmvgpu", "cpu", 90_000.0, variant="first"),
        made_up(solve.JOB, "first", "scipy", "cpu", 180_000.0),
        made_up(cg, "first", "spmvgpu", "gpu", 120.0, free_us=90.0, product_us=10.0),
        made_up(cg, "first", "cupy", "gpu", 140.0, free_us=90.0, product_us=60.0),
        made_up(cg, "first", "spmvgpu", "cpu", 200.0, free_us=90.0, product_us=90.0),
        made_up(cg, "first", "scipy", "cpu", 400.0, free_us=90.0, product_us=310.0),
        made_up(jobs_report.OWN_CG, "first", "spmvgpu", "gpu", 15.0),
        made_up(columns, "wins", "spmvgpu", "gpu", 1.0),
        made_up(columns, "wins", "cupy", "gpu", 2.0),
        made_up(columns, "loses", "spmvgpu", "gpu", 3.0),
        made_up(columns, "loses", "cupy", "gpu", 2.0),
    ]
    return {"jobs": {"environment": ENVIRONMENT, "rows": rows, "skipped": []}}


def test_every_job_and_matrix_has_a_line(results: dict[str, dict[str, Any]]) -> None:
    head, rows = jobs_report.head(results), jobs_report.table_rows(results)
    assert head == ("job", "matrix", "rows", "spmvgpu, GPU", "CuPy", "x", "spmvgpu, CPU", "SciPy", "x")
    assert rows[0] == (
        solve.JOB, "first", "1,000,000",
        "30.0 ms / 10.0 ms", "20.0 ms", "**1.50**", "90.0 ms", "180 ms", "0.50",
    )  # fmt: skip
    assert [row[1] for row in rows if row[0].startswith("op @ X")] == ["wins", "loses"]


def test_the_short_table_has_means_and_extremes_of_every_kind_of_job(
    results: dict[str, dict[str, Any]],
) -> None:
    rows = {row[0]: row[1:] for row in jobs_report.overview_rows(results)}
    solved = rows["from SciPy matrix to solution"]
    assert solved == ("1", "**1.50**", "**1.50**", "**1.50**", "0.50", "0.50", "0.50")
    assert rows["`op @ X`, 8 and 32 columns"] == ("2", "0.87", "0.50", "**1.50**", "-", "-", "-")
    assert len(rows) <= 6


def test_goals(results: dict[str, dict[str, Any]]) -> None:
    marks = {mark.name: mark for mark in jobs_report.marks(results)}
    loop = "SciPy's loops, operator on the "
    assert marks[f"{loop}GPU, over vector work + product alone"].measured.startswith("geometric mean 1.20")
    assert marks[f"{loop}GPU, over vector work + product alone"].reached is False
    assert marks[f"{loop}CPU, over vector work + product alone"].reached is True
    assert marks[f"{loop}GPU, over the same around CuPy"].reached is True
    assert marks[f"{loop}GPU, beyond vector work, over the same around CuPy"].measured.startswith(
        "geometric mean 0.60, worst 0.60"
    )
    solved = f"{solve.JOB}, GPU, over the fastest other library there"
    assert marks[solved].reached is False
    again = (
        f"{solve.JOB}, with what the first time left in the cache, GPU, over the fastest other library there"
    )
    assert marks[again].reached is True


def test_table_of_solvers_has_numbers_only_where_they_were_measured(
    results: dict[str, dict[str, Any]],
) -> None:
    line = ("Made-up GPU", "1,000,000", "120 us", "90.0 us", "15.0 us")
    assert jobs_report.solver_rows([results, {}]) == [line]
    assert jobs_report.solver_rows([results, results]) == [line]  # each machine once


@pytest.mark.parametrize(
    ("us", "text"),
    [(1.234, "1.23 us"), (999.4, "999 us"), (999.6, "1.00 ms"), (123_456.0, "123 ms"), (2.5e6, "2.50 s")],
)
def test_durations_have_three_digits(us: float, text: str) -> None:
    assert jobs_report.duration(us) == text


def test_a_product_of_a_dense_row_is_checked_with_its_own_bound() -> None:
    A = sp.csr_array(np.vstack([np.ones((1, 1000)), np.eye(1000)[:3]]))
    x = np.full(1000, 0.1)
    check_product(A, x, np.array([100.0 + 1e-13, 0.1, 0.1, 0.1]))
    with pytest.raises(WrongResultError):
        check_product(A, x, np.array([100.0, 0.1 + 1e-13, 0.1, 0.1]))


# -- the README ----------------------------------------------------------------------------------------------


def job(name: str, matrix: str, rows: int, times: dict[tuple[str, str], float]) -> list[dict[str, Any]]:
    """A row for each library and device."""
    common = {"job": name, "matrix": matrix, "rows": rows, "nnz": 5 * rows}
    return [
        {**common, "library": library, "device": device, "time_us": us}
        for (library, device), us in times.items()
    ]


@pytest.fixture
def made_up_jobs() -> dict[str, Any]:
    """Two systems, the small one slower than with SciPy on the CPU, and products slower than with PyTorch."""
    both = ("spmvgpu", "gpu"), ("cupy", "gpu"), ("spmvgpu", "cpu"), ("scipy", "cpu")
    rows = [
        *job(solve.JOB, "poisson2d_100", 10_000, dict(zip(both, (1e3, 2e4, 5e3, 4e3), strict=True))),
        *job(solve.JOB, "elast_59k", 59_049, dict(zip(both, (1e3, 2.5e3, 1e4, 1e5), strict=True))),
        *job(products.THOUSAND, "poisson2d_100", 10_000, {both[0]: 4e4, ("torch", "cpu"): 2e4}),
    ]
    made = [
        {"variant": "auto", "source": "scipy", "nnz": 10**6, "time_us": 2000.0 + k, "product_us": 10.0}
        for k in (0, 1, 5000)
    ]
    return {
        "jobs": {"environment": ENVIRONMENT, "rows": rows, "skipped": []},
        "setup": {"environment": ENVIRONMENT, "rows": made},
    }


def test_the_readme_gets_facts_and_reasons_against(made_up_jobs: dict[str, Any]) -> None:
    text = overview.readme(made_up_jobs)
    assert "2.5 to 20 times as fast as CuPy and 4.0 to 100 times as fast as SciPy" in text
    assert "On 4 CPU cores (Made-up CPU), it is 0.8 to 10 times as fast as SciPy." in text
    assert f"(https://raw.githubusercontent.com/spmvgpu/spmvgpu/main/docs/plots/{overview.OVERVIEW})" in text
    small, vectors, few = overview.reasons_against(made_up_jobs).splitlines()
    assert "10,000 rows takes 5.00 ms to solve, and 4.00 ms with SciPy" in small
    assert "take 40.0 ms, and 20.0 ms with PyTorch on the CPU" in vectors
    assert "as long as 200 products (median of 3 matrices" in few


def test_what_is_faster_here_is_no_reason_against(made_up_jobs: dict[str, Any]) -> None:
    for row in made_up_jobs["jobs"]["rows"]:
        row["time_us"] *= 0.1 if row["library"] == "spmvgpu" else 10
    made_up_jobs["setup"]["rows"] = []
    assert overview.reasons_against(made_up_jobs) == ""


def test_the_overview_is_drawn_where_jobs_and_products_are_there(
    made_up_jobs: dict[str, Any], tmp_path: Path
) -> None:
    plots = pytest.importorskip("experiments.report.plots", reason="the extra [plot] is not installed")
    assert plots.draw_overview(made_up_jobs, tmp_path) is None
    common = {"matrix": "first", "dtype": "f64", "cache": "hot", "how": "graph", "nnz": 10, "bytes": 100}
    rows = [
        {**common, "library": library, "variant": variant, "time_us": us}
        for library, variant, us in (("spmvgpu", "auto", 1.0), ("cusparse", "csr_alg1", 2.0))
    ]
    made_up_jobs["spmv"] = {"environment": ENVIRONMENT, "rows": rows, "skipped": []}
    assert "2.0 times as fast as the best algorithm of cuSPARSE" in overview.facts(made_up_jobs)
    path = plots.draw_overview(made_up_jobs, tmp_path)
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("device", "name"),
    [("NVIDIA H200", "H200"), ("Intel(R) Xeon(R) Processor", "Xeon"), ("AMD EPYC", "EPYC"), ("cpu", "cpu")],
)
def test_machines_have_short_names(device: str, name: str) -> None:
    assert short_name(device) == name
    assert machine({"device": device, "cuda": None, "cores": 2}) == f"{name}, 2 cores"
    assert machine({"device": device, "cuda": "13.0", "cores": 2}) == name
