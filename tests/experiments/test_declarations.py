"""Every declared experiment runs, stores what its report reads, and is in the report; no test of time."""

from __future__ import annotations

import json
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules

import pytest

pytest.importorskip("threadpoolctl", reason="the extra [bench] is not installed")

from experiments import pages, speed
from experiments.__main__ import main, usage
from experiments.engine import Experiment, Report, load_experiments, read
from experiments.goals import at_least, at_most
from experiments.papers import PAPERS
from experiments.records import Content, Recorder

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
EXPERIMENTS = load_experiments()
BY_FILE = {experiment.file: experiment for experiment in EXPERIMENTS}
COMMITTED = pages.devices_in(RESULTS)
# Those that cannot run here: without ranks, and on another command's results.
RUN = {name: e for name, e in BY_FILE.items() if e.measure is not None and e.command != "scaling"}
WITHOUT_ROWS = {"overhead", "roundtrip"}  # on the CPU
if not any(find_spec(name) for name in ("jax", "torch")):
    WITHOUT_ROWS.add("gradients")
MODULES = [
    import_module(info.name)
    for folder in ("speed", "jobs", "solving")
    for info in iter_modules([str(ROOT / "experiments" / folder)], f"experiments.{folder}.")
]
SHORT = {
    "SECONDS": 0.001, "WALL_SECONDS": 0.001, "NUMPY_SECONDS": 0.001, "LONGEST": 0.02, "REPEATS": 1,
    "ROUNDS": 1, "CYCLES": 20, "WARM_UP_CYCLES": 5,
}  # fmt: skip


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Content]:
    """What short runs of all commands wrote, by file."""
    out = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch)
        for command in dict.fromkeys(experiment.command for experiment in RUN.values()):
            assert main([command, "--quick", "--device", "cpu", "--out", str(out)]) == 0
    (device,) = (path for path in out.iterdir() if path.is_dir())
    return {**read(device), **read(out)}


def shorten(patch: pytest.MonkeyPatch) -> None:
    for module in MODULES:
        for name in SHORT.keys() & vars(module).keys():
            patch.setattr(module, name, SHORT[name])
    patch.setattr("experiments.environment.cpu_copy_bandwidth", lambda threads: 1e9 * threads)
    patch.setattr("experiments.speed.jobs.initial_environment", dict)  # whatever the tests are run with
    patch.delenv("SPMVGPU_MATRICES", raising=False)


# -- declarations --------------------------------------------------------------------------------------------


def test_a_file_is_all_that_an_experiment_needs() -> None:
    declared = [e for info in iter_modules(speed.__path__) for e in _declared_in(info.name)]
    assert {id(e) for e in declared} == {id(e) for e in EXPERIMENTS}
    assert [e.report.place for e in EXPERIMENTS] == sorted(e.report.place for e in EXPERIMENTS)


def _declared_in(name: str) -> list[Experiment]:
    return getattr(import_module(f"experiments.speed.{name}"), "EXPERIMENTS", [])


@pytest.mark.parametrize("file", BY_FILE)
def test_it_declares_what_it_must(file: str) -> None:
    experiment, report = BY_FILE[file], BY_FILE[file].report
    assert (experiment.measure is None) == (experiment.command in PAPERS)
    assert experiment.command in PAPERS or experiment.about in usage()
    others = [e.report.place for name, e in BY_FILE.items() if name != file]
    assert report.place not in others  # else the order would be that of the files
    assert bool(report.note) == bool(report.title and report.head)
    same = [e for e in EXPERIMENTS if e.file == file]
    assert len({e.called for e in same}) == len(same)
    assert all(e.report is report for e in same)
    later = [e for e in EXPERIMENTS if e.command == experiment.command][1:]
    assert sum(e.reserve for e in later) < 1  # the first has time, too


# -- runs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", [name for name in RUN if name != "packed_sell"])
def test_a_quick_run_on_the_cpu_is_stored(file: str, quick: dict[str, Content]) -> None:
    experiment, content = RUN[file], quick[file]
    assert {"device", "driver", "cuda", "commit", "date", "versions"} <= content.environment.keys()
    assert bool(content.rows) != (file in WITHOUT_ROWS)
    assert all(entry["reason"] for entry in content.skipped)
    measured = [row for row in content.rows if "time_us" in row]
    assert all(row["time_us"] > 0 and row["library"] for row in measured)
    if experiment.items is not None and content.rows:
        done = {row.get("matrix", row.get("system")) for row in content.rows}
        assert done  # each is a quick one
        assert all(row["nnz"] < 1_000_000 for row in content.rows)


@pytest.mark.parametrize("file", [name for name in RUN if name != "packed_sell"])
def test_the_report_renders_a_quick_run(file: str, quick: dict[str, Content]) -> None:
    report = RUN[file].report
    _check_tables("\n\n".join(report.section(quick[file])))
    assert all(mark.name and mark.goal for mark in report.marks(quick[file]))
    page = pages.page({file: quick[file]})
    assert page.startswith("# ")
    assert (f"## {report.title}" in page) or not report.section(quick[file]) or not report.title


@pytest.mark.parametrize("slug", COMMITTED)
def test_the_committed_pages_are_those_of_the_committed_results(slug: str, tmp_path: Path) -> None:
    page = pages.page(COMMITTED[slug])
    _check_tables(page)
    committed = (ROOT / "docs" / "results" / f"{slug}.md").read_text()
    assert f"{page}\n" == re.sub(r"!\[.*\]\(\.\./plots/.*\)\n\n", "", committed)


@pytest.mark.parametrize("file", [name for name, e in BY_FILE.items() if e.report.goals != Report(0).goals])
def test_goals_are_judged_by_the_committed_results(file: str) -> None:
    """A goal that no results are judged by would never be missed."""
    contents = [results[file] for results in COMMITTED.values() if file in results]
    if not contents:
        pytest.skip("there are no committed results")
    assert any(BY_FILE[file].report.marks(content) for content in contents)


def _check_tables(text: str) -> None:
    """Every row of a Markdown table has as many cells as its head."""
    for block in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        assert len({line.count(" | ") for line in block.strip().splitlines()}) == 1, block[:300]


def test_planned_bytes_need_no_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bytes", "--quick", "--only", "poisson", "--out", str(tmp_path)]) == 0
    assert not list(tmp_path.iterdir())  # nothing was timed
    assert "| poisson2d_60 | float64 |" in capsys.readouterr().out
    assert main(["bytes", "--quick", "--only", "poisson", "--device", "cpu", "--out", str(tmp_path)]) == 0
    (path,) = tmp_path.glob("*/packed_sell.json")
    assert all(row["time_us"] > 0 for row in json.loads(path.read_text())["rows"])


# -- options -------------------------------------------------------------------------------------------------


def test_a_spent_budget_is_said_and_a_merge_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch)
    common = ["updates", "--quick", "--device", "cpu", "--out", str(tmp_path)]
    assert main([*common, "--budget-seconds", "0"]) == 0
    (path,) = tmp_path.glob("*/updates.json")
    content = json.loads(path.read_text())
    assert content["rows"] == []
    assert {row["reason"] for row in content["skipped"]} == {"the time budget was spent"}
    assert main([*common, "--merge", "--only", "elast"]) == 0
    content = json.loads(path.read_text())
    assert {row["matrix"] for row in content["rows"]} == {"elast_1k"}
    assert any(row["matrix"] == "poisson2d_30" for row in content["skipped"])


def test_merge_keeps_other_matrices_of_the_same_device_only(tmp_path: Path) -> None:
    environment = {"device": "D", "driver": "1", "cuda": "13.0", "commit": "a"}
    first = Recorder(tmp_path / "spmv.json", environment)
    for name in ("kept", "again"):
        first.add(matrix=name, time_us=1.0)
    first.write()
    second = Recorder(tmp_path / "spmv.json", environment)
    second.keep_other_matrices(["again"])
    assert [row["matrix"] for row in second.rows] == ["kept"]
    with pytest.raises(SystemExit, match="commit"):
        Recorder(tmp_path / "spmv.json", {**environment, "commit": "b"}).keep_other_matrices([])


def test_one_experiment_of_a_command_runs_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch)
    common = ["--quick", "--device", "cpu", "--dtype", "f64", "--only", "poisson", "--out", str(tmp_path)]
    assert main(["speed", "--experiments", "memory", *common]) == 0
    (path,) = tmp_path.glob("*/*.json")
    assert path.name == "memory.json"
    assert {row["matrix"] for row in json.loads(path.read_text())["rows"]} == {"poisson2d_60"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["speed", "--dtype", "f16"],
        ["jobs", "--merge"],
        ["speed", "--experiments", "spmv,latency"],
        ["multi", "--variants", "cg,qr"],
        ["jobs", "--jobs", "solve,dance"],
        ["setup", "--seconds", "-1"],
        ["speed", "--device", "tpu"],
    ],
    ids=" ".join,
)
def test_bad_arguments_are_refused(arguments: list[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main([*arguments, "--quick", "--out", str(tmp_path)])
    assert not list(tmp_path.iterdir())


def test_what_matches_nothing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["updates", "--only", "no such matrix", "--out", str(tmp_path)]) == 2
    assert "no matrix matches" in capsys.readouterr().err


# -- goals and the report ------------------------------------------------------------------------------------


def test_goals_are_judged_by_their_mean_and_by_each() -> None:
    (mark,) = at_most("x", {"a": 1.0, "b": 4.0, "c": None}, mean=2.0, each=3.0)
    assert mark.goal == "mean <= 2, each <= 3"
    assert mark.measured == "geometric mean 2.00, worst 4.00 at b, 1 of 2 within 3"
    assert not mark.reached
    assert at_most("x", {"a": 1.0, "b": 4.0}, mean=2.0)[0].reached
    (mark,) = at_least("x", {"a": 1.0, "b": 4.0}, each=1.0)
    assert (mark.reached, mark.measured) == (True, "geometric mean 2.00, worst 1.00 at a, 2 of 2 within 1")
    assert not at_least("x", {"a": 1.0}, mean=1.5)[0].reached
    assert at_least("x", {"a": None}, each=1.0) == []
    assert str(mark).startswith(" reached  x: geometric mean")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A copy of the pages that the report writes into."""
    (tmp_path / "docs" / "results").mkdir(parents=True)
    for name in ("README.md", *(f"docs/{page.name}" for page in ROOT.glob("docs/*.md"))):
        (tmp_path / name).write_text((ROOT / name).read_text())
    return tmp_path


def test_the_report_of_committed_results_changes_nothing(site: Path) -> None:
    """README.md, the pages of devices, and what is between marker lines of other pages."""
    pytest.importorskip("matplotlib", reason="the extra [plot] is not installed")
    arguments = ["--readme", str(site / "README.md"), "--plots", str(site / "docs" / "plots")]
    assert main(["report", "--results", str(RESULTS), *arguments]) == 0
    written = [path.relative_to(site) for path in site.rglob("*.md")]
    assert Path("docs/results/nvidia-h200.md") in written
    for path in written:
        assert (site / path).read_text() == (ROOT / path).read_text(), path
    assert {path.name for path in site.rglob("*.png")} >= {"overview.png", "nvidia-h200.png"}


def test_check_prints_the_goals_and_writes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before = {path: path.stat().st_mtime_ns for path in ROOT.glob("docs/**/*.md")}
    assert main(["report", "--check", "--results", str(RESULTS)]) == 0
    printed = capsys.readouterr().out
    assert all(slug in printed for slug in COMMITTED)
    assert "(goal mean <= 0.85, each <= 1.1)" in printed
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_the_report_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--results", str(tmp_path / "none")]) == 2
    assert "experiments speed" in capsys.readouterr().err
    readme = tmp_path / "plain.md"
    readme.write_text("no markers\n")
    with pytest.raises(SystemExit, match="benchmarks:begin"):
        pages.write_between(readme, "benchmarks", "text")
