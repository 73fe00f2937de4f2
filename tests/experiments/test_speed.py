"""The benchmarks run, write what they promise and turn it into tables; nothing here looks at a time."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("threadpoolctl", reason="the extra [bench] is not installed")

from experiments import clock
from experiments.peers import layouts, mkl, usable
from experiments.peers.base import NotApplicableError
from experiments.peers.problem import Problem, WrongResultError
from experiments.records import SPMV_FIELDS, Recorder, Times, geometric_mean, ratio
from experiments.report import pages as report
from experiments.report.summary import marks, summary
from experiments.speed import run, suite
from experiments.speed.store import load, save
from spmvgpu import gallery

# -- suite and checks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("item", suite.suite(quick=True)[0], ids=lambda item: item.name)
def test_quick_suite_builds_canonical_matrices(item: suite.Item) -> None:
    matrix = item.build()
    assert matrix.dtype == np.float64
    assert matrix.indices.dtype == np.int32
    assert matrix.has_canonical_format
    assert len(np.unique(matrix.data)) > 1  # values vary: no format may profit from equal ones by chance


def test_full_suite_has_the_generated_matrices_and_names_what_is_left_out() -> None:
    items, left_out = suite.suite()
    names = [item.name for item in items]
    assert len(set(names)) == len(names)
    assert {"poisson3d27_128", "powerlaw_2M", "lp_wide"} <= set(names)
    assert all(left_out.values())


def test_real_matrices_are_mirrored_and_get_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lower = sp.csr_array(np.array([[True, False], [True, True]]))
    sp.save_npz(tmp_path / "tiny.npz", sp.csr_matrix(lower))
    entries = [
        {"name": "tiny", "nnz": 4, "stored": "lower", "dtype": "bool"},
        {"name": "waves", "nnz": 1, "stored": "full", "dtype": "complex128"},
    ]
    (tmp_path / "index.json").write_text(json.dumps(entries))
    monkeypatch.setenv(suite.FOLDER_VARIABLE, str(tmp_path))

    items, left_out = suite.suite()
    matrix = next(item for item in items if item.name == "tiny").build().toarray()

    assert np.count_nonzero(matrix) == 4
    assert (matrix == matrix.T).all()
    assert "complex128" in left_out["waves"]


def random_csr(rows: int, cols: int, density: float, seed: int) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    return sp.csr_array(rng.uniform(-1, 1, (rows, cols)) * (rng.random((rows, cols)) < density))


@pytest.fixture
def problem() -> Problem:
    matrix = random_csr(50, 40, density=0.2, seed=1)
    return Problem.make(matrix, np.float32, "tiny", "generated")


def test_check_takes_a_right_product_and_no_other(problem: Problem) -> None:
    y = problem.matrix @ problem.x
    problem.check(y)

    row = int(np.argmax(problem.scale))
    for wrong in (np.nan, y[row] * 1.01 + 1e-3):
        spoilt = y.copy()
        spoilt[row] = wrong
        with pytest.raises(WrongResultError, match=f"row {row}"):
            problem.check(spoilt)
    with pytest.raises(WrongResultError, match="float64"):
        problem.check(y.astype(np.float64))


def test_problem_survives_being_stored(problem: Problem, tmp_path: Path) -> None:
    save(tmp_path / "p", problem.matrix, {"f32": problem})
    again = load(tmp_path / "p", "tiny", "generated", "f32")
    assert (again.matrix != problem.matrix).nnz == 0
    again.check(problem.matrix @ problem.x)


# -- layouts handed to cuSPARSE ------------------------------------------------------------------------------


def test_sliced_ell_holds_every_entry_once() -> None:
    matrix = random_csr(70, 30, density=0.3, seed=2)
    offsets, columns, values = layouts.sliced_ell(np, matrix.indptr, matrix.indices, matrix.data)

    assert len(columns) == len(values) == offsets[-1]
    dense = np.zeros(matrix.shape)
    for slice_, start in enumerate(offsets[:-1]):
        for slot in range(start, offsets[slice_ + 1]):
            if columns[slot] >= 0:
                dense[32 * slice_ + (slot - start) % 32, columns[slot]] += values[slot]
    np.testing.assert_array_equal(dense, matrix.toarray())


def test_sliced_ell_refuses_excessive_padding() -> None:
    matrix = sp.csr_array(sp.vstack([np.ones((1, 500)), sp.csr_array((31, 500))]))
    with pytest.raises(NotApplicableError, match=r"padding is 32\.0x"):
        layouts.sliced_ell(np, matrix.indptr, matrix.indices, matrix.data)


@pytest.mark.parametrize("side", [2, 3, 6])
def test_blocks_are_found_and_laid_out_row_by_row(side: int) -> None:
    pattern = sp.csr_array(np.eye(20, 25)) + random_csr(20, 25, density=0.1, seed=3)
    matrix = sp.csr_array(sp.kron(pattern, np.arange(1.0, side * side + 1).reshape(side, side)))
    matrix.sum_duplicates()

    found = layouts.dense_block_size(np, matrix.indptr, matrix.indices, matrix.shape)
    offsets, columns, values = layouts.block_csr(
        np, matrix.indptr, matrix.indices, matrix.data, matrix.shape[1], side
    )

    assert found == side
    blocks = sp.bsr_array((values.reshape(-1, side, side), columns, offsets), shape=matrix.shape)
    assert abs(blocks - matrix).max() == 0


def test_a_matrix_without_blocks_is_not_given_any() -> None:
    matrix = sp.csr_array(np.eye(60) + np.eye(60, k=1))
    with pytest.raises(NotApplicableError, match="best fill"):
        layouts.dense_block_size(np, matrix.indptr, matrix.indices, matrix.shape)


# -- a run on the CPU ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the results of a short run; the full length of every timing is not needed here."""
    out = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("experiments.speed.products.WALL_SECONDS", 0.003)
        patch.setattr("experiments.speed.memory.CYCLES", 20)
        patch.setattr("experiments.environment.cpu_copy_bandwidth", lambda threads: 1e9 * threads)
        patch.delenv(suite.FOLDER_VARIABLE, raising=False)
        assert run.main(["--quick", "--device", "cpu", "--out", str(out)]) == 0
    (folder,) = out.iterdir()
    return folder


def test_run_writes_the_promised_fields(quick_run: Path) -> None:
    content = json.loads((quick_run / "spmv.json").read_text())

    assert {"device", "driver", "cuda", "commit", "date", "versions"} <= set(content["environment"])
    assert content["rows"]
    for row in content["rows"]:
        assert set(SPMV_FIELDS) <= set(row)
        assert row["bytes"] >= 2 * row["nnz"]  # the values alone, of a symmetric format's half
    libraries = {row["library"] for row in content["rows"]}
    assert {"spmvgpu", "scipy"} <= libraries <= {"spmvgpu", "scipy", "mkl"}
    assert {row["matrix"] for row in content["rows"]} == set(suite.QUICK)


def test_every_format_is_measured_or_named(quick_run: Path) -> None:
    import spmvgpu as sg

    content = json.loads((quick_run / "spmv.json").read_text())
    for format in sg.formats():
        measured = {(r["matrix"], r["dtype"]) for r in content["rows"] if r["variant"] == format}
        named = {(r.get("matrix"), r.get("dtype")) for r in content["skipped"] if r.get("variant") == format}
        assert {(name, dtype) for name in suite.QUICK for dtype in ("f64", "f32")} <= measured | named


def test_missing_peers_and_matrices_are_named_with_a_reason(quick_run: Path) -> None:
    skipped = json.loads((quick_run / "spmv.json").read_text())["skipped"]
    missing = usable("cpu")[1]
    named = {row.get("library") or row.get("matrix"): row["reason"] for row in skipped}
    assert named["real matrices"].count(suite.FOLDER_VARIABLE) == 1
    for peer, reason in missing.items():
        assert named[peer] == reason


def test_other_experiments_are_written_too(quick_run: Path) -> None:
    contents = {path.stem: json.loads(path.read_text()) for path in quick_run.glob("*.json")}
    assert set(contents) == {"spmv", "overhead", "roundtrip", "memory"}
    assert contents["overhead"]["rows"]
    assert any(row["measure"] == "cycles" for row in contents["memory"]["rows"])
    assert contents["roundtrip"]["skipped"][-1]["reason"] == "a round trip needs a GPU"


def test_a_spent_budget_is_said(tmp_path: Path) -> None:
    arguments = ["--quick", "--device", "cpu", "--experiments", "spmv", "--budget-seconds", "0"]
    assert run.main([*arguments, "--out", str(tmp_path)]) == 0
    (path,) = tmp_path.glob("*/spmv.json")
    content = json.loads(path.read_text())
    assert content["rows"] == []
    assert {row["matrix"] for row in content["skipped"] if "dtype" in row} >= set(suite.QUICK)


@pytest.mark.parametrize(
    "arguments",
    [["--dtype", "f16"], ["--experiments", "spmv,latency"], ["--device", "tpu"]],
    ids=lambda arguments: arguments[0],
)
def test_bad_arguments_are_refused(arguments: list[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        run.main(["--quick", "--out", str(tmp_path), *arguments])


def test_merge_keeps_other_matrices_of_the_same_device_only(tmp_path: Path) -> None:
    environment = {"device": "D", "driver": "1", "cuda": "13.0", "commit": "a"}
    first = Recorder(tmp_path / "spmv.json", environment)
    first.add(matrix="kept", time_us=1.0)
    first.add(matrix="again", time_us=2.0)
    first.write()

    second = Recorder(tmp_path / "spmv.json", environment)
    second.keep_other_matrices(["again"])
    assert [row["matrix"] for row in second.rows] == ["kept"]
    with pytest.raises(SystemExit, match="commit"):
        Recorder(tmp_path / "spmv.json", {**environment, "commit": "b"}).keep_other_matrices([])


# -- report --------------------------------------------------------------------------------------------------


def test_geometric_mean() -> None:
    assert geometric_mean([0.5, 2.0, 1.0]) == pytest.approx(1.0)
    assert geometric_mean([4.0]) == pytest.approx(4.0)
    assert math.isnan(geometric_mean([]))


def made_up_row(matrix: str, library: str, variant: str, time_us: float, **more: object) -> dict[str, object]:
    return {
        "matrix": matrix, "group": "generated", "rows": 10, "cols": 10, "nnz": 1_000_000, "dtype": "f64",
        "library": library, "variant": variant, "cache": "hot", "time_us": time_us, "bytes": 12_000_000,
        "options": {}, **more,
    }  # fmt: skip


@pytest.fixture
def made_up_results(tmp_path: Path) -> Path:
    """Numbers that no machine measured, in the shape that a run writes."""
    environment = {
        "device": "Made-up GPU", "driver": "1.0", "cuda": "13.0", "commit": "0" * 40, "date": "2000-01-01",
        "versions": {"numpy": "2.0"}, "copy_bandwidth": 4e12, "cache_bytes": 1 << 20,
    }  # fmt: skip
    rows = []
    for matrix, factor in (("first", 1.0), ("second", 2.0)):
        for library, variant, time_us in (
            ("cusparse", "csr_alg1", 30.0),
            ("cusparse", "csr_alg2_preprocess", 20.0),
            ("cusparse", "coo_alg1", 10.0),
            ("cusparse", "sell", 15.0),
            ("spmvgpu", "csr", 10.0 * factor),
            ("spmvgpu", "csr_tuned", 8.0),
            ("spmvgpu", "sell", 15.0),
            *([("spmvgpu", "auto", 20.0)] if matrix == "first" else []),
        ):
            rows.append(made_up_row(matrix, library, variant, time_us))
    spmv = {
        "environment": environment,
        "rows": rows,
        "skipped": [{"library": "torch", "reason": "not installed"}],
    }
    overhead_row = made_up_row("first", "spmvgpu", "auto: op @ x", 14.0, kernel_us=4.0, overhead_us=10.0)
    overhead = [{**overhead_row, "issue_us": 9.0, "latency_us": 20.0}]
    roundtrip = [made_up_row("first", "spmvgpu", "auto", 30.0), made_up_row("first", "cupy", "csr", 100.0)]
    taken = {"measure": "nbytes", "allocator": "device", "bytes_taken": 12_060_000}
    memory = [made_up_row("first", "spmvgpu", "csr", 0.0, **taken)]
    folder = tmp_path / "results" / "made-up-gpu"
    folder.mkdir(parents=True)
    (folder / "spmv.json").write_text(json.dumps(spmv))
    for name, content in (("overhead", overhead), ("roundtrip", roundtrip), ("memory", memory)):
        (folder / f"{name}.json").write_text(
            json.dumps({"environment": environment, "rows": content, "skipped": []})
        )
    return folder


def test_times_finds_the_best_of_a_library(made_up_results: Path) -> None:
    times = Times(json.loads((made_up_results / "spmv.json").read_text()))
    best = times.best("first", "f64", "cusparse", "csr_alg")
    assert best is not None
    assert best["variant"] == "csr_alg2_preprocess"
    assert ratio(times.row("second", "f64", "spmvgpu", "csr"), best) == pytest.approx(1.0)
    assert times.best("first", "f32", "cusparse") is None


def test_marks_judge_by_the_stated_goals(made_up_results: Path) -> None:
    results = report.devices_in(made_up_results.parent)["made-up-gpu"]
    reached = {mark.name.split(",")[0].split(" over")[0]: mark.reached for mark in marks(results)}
    # csr: ratios 0.5 and 1.0, mean 0.71; tuned 0.4; sell 1.0; overhead 10 us; round trip 0.3; 0.5 % off.
    assert reached["csr"] is True
    assert reached["csr_tuned"] is True
    assert reached["sell"] is True
    assert reached["overhead of op @ cupy_array"] is True
    assert reached["NumPy round trip"] is True
    assert reached["nbytes of csr on first"] is True
    text = summary(results)
    assert "geometric mean 0.707, worst 1.00 at second f64" in text
    assert len(text) < 12_000


def test_report_fills_the_page_on_performance(made_up_results: Path, tmp_path: Path) -> None:
    performance = tmp_path / "docs" / "performance.md"
    performance.parent.mkdir()
    performance.write_text(f"# Title\n{report.TABLES[0]}\nold\n{report.TABLES[1]}\nend\n")
    arguments = [
        "--results",
        str(made_up_results.parent),
        "--readme",
        str(tmp_path / "README.md"),
        "--plots",
        str(tmp_path / "p"),
    ]
    assert report.main(arguments) == 0

    text = performance.read_text()
    assert text.startswith("# Title\n")
    assert text.endswith(f"{report.TABLES[1]}\nend\n")
    assert "old" not in text
    assert "| a product, format chosen, over the best of all cuSPARSE | 1 | **2.00** |" in text
    assert text.count("\n| ") <= 2 + 8
    page = (tmp_path / "docs" / "results" / "made-up-gpu.md").read_text()
    assert page.startswith("# Made-up GPU\n")
    assert "| `csr` | best cuSPARSE CSR | hot | 2 | 0.71 | 0.50 | 1.00 |" in page
    assert "| first | f64 | 1.00M | 20.0 | 10.0 | 0.50 | 8.00 | 0.40 |" in page
    assert "torch (not installed)" in page
    again = text
    assert report.main(arguments) == 0
    assert performance.read_text() == again


def test_report_draws_plots(made_up_results: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra [plot] is not installed")
    readme = tmp_path / "README.md"
    plots = tmp_path / "docs" / "plots"
    report.main(["--results", str(made_up_results.parent), "--readme", str(readme), "--plots", str(plots)])
    assert (plots / "made-up-gpu.png").stat().st_size > 0
    assert "(../plots/made-up-gpu.png)" in (tmp_path / "docs" / "results" / "made-up-gpu.md").read_text()


def test_report_of_a_cpu_run(quick_run: Path, tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    report.main(["--results", str(quick_run.parent), "--readme", str(readme), "--plots", str(tmp_path / "p")])
    page = (tmp_path / "docs" / "results" / f"{quick_run.name}.md").read_text()
    assert "| `csr` | 1 | 6 |" in page
    assert "csr, 1 thr." in page
    assert all(name in page for name in suite.QUICK)


def test_goals_of_a_cpu_count_matrices_that_are_slower_than_scipy() -> None:
    rows = []
    for matrix, ours in (("small", 20.0), ("large", 5.0)):
        rows.append(made_up_row(matrix, "scipy", "csr", 10.0, threads=1))
        rows.append(made_up_row(matrix, "spmvgpu", "csr", ours, threads=1))
    content = {"environment": {"cache_bytes": 0}, "rows": rows, "skipped": []}

    (mark,) = (mark for mark in marks({"spmv": content}) if "all 2 cases" in mark.name)

    assert mark.reached is False
    assert mark.measured == "geometric mean 1.00x, 1 slower, small f64 0.50x"


def test_report_check_prints_the_goals(made_up_results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report.main(["--check", "--results", str(made_up_results.parent)]) == 0
    printed = capsys.readouterr().out
    assert "goal mean <= 0.85, worst <= 1.10" in printed
    assert "goal < 12 us" in printed


def test_report_says_what_is_missing(
    tmp_path: Path, made_up_results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report.main(["--results", str(tmp_path / "none")]) == 2
    assert "experiments speed" in capsys.readouterr().err
    readme = tmp_path / "plain.md"
    readme.write_text("no markers\n")
    with pytest.raises(SystemExit, match="benchmarks:begin"):
        report.write_between(readme, report.TABLES, "text")


def test_after_a_library_whose_threads_go_on_there_is_a_pause(monkeypatch) -> None:
    def spinning() -> None: ...

    spinning.settle_seconds = 0.5
    slept: list[float] = []
    monkeypatch.setattr(clock.time, "sleep", slept.append)
    clock.take_turns({"a": spinning, "b": lambda: None}, 0.0)
    assert slept == [0.5, 0.0] * clock.ROUNDS


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_mkl_multiplies_what_its_inspector_saw(dtype) -> None:
    reason = mkl.available()
    if reason is not None:
        pytest.skip(reason)
    problem = Problem.make(gallery.powerlaw(2000, 8.0), dtype)
    (job,) = mkl.prepare(problem)
    variant = job.build()
    problem.check(variant.result())
    assert variant.call.settle_seconds > 0
    assert set(mkl.versions()) == {"mkl"}
