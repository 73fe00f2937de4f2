"""Every declared experiment runs and stores its rows, and the report reads them; no test of time."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from pathlib import Path

import pytest

pytest.importorskip("threadpoolctl", reason="the extra [bench] is not installed")

import experiments
from experiments import report
from experiments.__main__ import EXPERIMENTS, main, usage
from experiments.records import Recorder

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
COMMANDS = {e.command for e in EXPERIMENTS} - {"scaling"}  # which needs ranks
FILES = {e.file for e in EXPERIMENTS if e.command in COMMANDS}
MODULES = [
    importlib.import_module(info.name)
    for info in pkgutil.walk_packages(experiments.__path__, "experiments.")
    if not info.name.endswith("__main__")
]
SHORT = {"SECONDS": 0.001, "WALL_SECONDS": 0.001, "LONGEST": 0.02, "REPEATS": 1, "ROUNDS": 1}


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    """What short runs of all commands wrote, by file."""
    out = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch)
        for command in COMMANDS:
            assert main([command, "--quick", "--device", "cpu", "--out", str(out)]) == 0
    return {path.stem: json.loads(path.read_text()) for path in out.rglob("*.json")}


def shorten(patch: pytest.MonkeyPatch) -> None:
    for module in MODULES:
        for name in SHORT.keys() & vars(module).keys():
            patch.setattr(module, name, SHORT[name])
    patch.setattr("experiments.jobs.initial_environment", dict)  # whatever the tests are run with
    patch.delenv("SPMVGPU_MATRICES", raising=False)


def test_commands_are_listed() -> None:
    assert all(experiment.about in usage() for experiment in EXPERIMENTS)


@pytest.mark.parametrize("file", sorted(FILES))
def test_a_quick_run_on_the_cpu_is_stored(file: str, quick: dict[str, dict]) -> None:
    content = quick[file]
    assert {"device", "driver", "cuda", "commit", "date", "versions"} <= content["environment"].keys()
    assert all(entry["reason"] for entry in content["skipped"])
    assert content["rows"]
    for row in content["rows"]:
        assert row["nnz"] < 1_000_000
        assert row.get("time_us", 1) > 0


def test_the_report_renders_a_quick_run(quick: dict[str, dict]) -> None:
    page = report.page({name: content for name, content in quick.items() if name != "halos"})
    _check_tables(page)
    for name in quick.keys() & report.SECTIONS.keys():
        assert f"## {report.SECTIONS[name].title}\n" in page


def test_the_docs_have_tables_and_pages_of_the_committed_results() -> None:
    for text in report.tables(RESULTS).values():
        assert text.count("\n") > 2
        _check_tables(text)
    for results in report.devices_in(RESULTS).values():
        _check_tables(report.page(results))


def _check_tables(text: str) -> None:
    """Every row of a Markdown table has as many cells as its head."""
    for block in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        assert len({line.count(" | ") for line in block.strip().splitlines()}) == 1, block[:300]


def test_the_report_of_committed_results_changes_nothing(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra [plot] is not installed")
    readme, pictures = tmp_path / "README.md", tmp_path / "plots"
    readme.write_text((ROOT / "README.md").read_text())
    arguments = ["--results", str(RESULTS), "--readme", str(readme), "--pictures", str(pictures)]
    assert main(["report", *arguments]) == 0
    assert readme.read_text() == (ROOT / "README.md").read_text()
    assert {path.name for path in pictures.iterdir()} == {"solutions.png", "products.png"}


def test_the_report_needs_results_and_marker_lines(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(["report", "--results", str(tmp_path)])
    (tmp_path / "README.md").write_text("no markers")
    with pytest.raises(SystemExit, match="lacks the lines"):
        report.write_between(tmp_path / "README.md", "facts", "")


def test_what_is_faster_here_is_no_reason_against() -> None:
    def row(library: str, us: float) -> dict:
        return {"job": "matrix to solution", "matrix": "a", "rows": 10, "library": library, "device": "cpu",
                "variant": "", "time_us": us}  # fmt: skip

    def reasons(ours: float) -> list[str]:
        return list(report.against({"jobs": {"rows": [row("spmvgpu", ours), row("scipy", 4000.0)]}}))

    assert reasons(3000.0) == []
    assert "10 rows takes 5.00 ms to solve, and 4.00 ms with SciPy" in reasons(5000.0)[0]


# -- options -------------------------------------------------------------------------------------------------


def test_a_spent_budget_is_said_and_a_merge_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch)
    common = ["setup", "--quick", "--device", "cpu", "--out", str(tmp_path)]
    assert main([*common, "--budget-seconds", "0"]) == 0
    (path,) = tmp_path.glob("*/setup.json")
    content = json.loads(path.read_text())
    assert content["rows"] == []
    assert "the time budget was spent" in {row["reason"] for row in content["skipped"]}
    assert main([*common, "--merge", "--only", "elast"]) == 0
    content = json.loads(path.read_text())
    assert {row["matrix"] for row in content["rows"]} == {"elast3d_1k"}
    assert any(row.get("matrix") == "poisson2d_60" for row in content["skipped"])


def test_merge_keeps_other_matrices_of_the_same_device_only(tmp_path: Path) -> None:
    environment = {"device": "D", "driver": "1", "cuda": "13.0", "commit": "a"}
    first = Recorder(tmp_path / "spmv.json", environment)
    first.rows += [{"matrix": name, "time_us": 1.0} for name in ("kept", "again")]
    first.write()
    second = Recorder(tmp_path / "spmv.json", environment)
    second.keep_other_matrices(["again"])
    assert [row["matrix"] for row in second.rows] == ["kept"]
    with pytest.raises(SystemExit, match="commit"):
        Recorder(tmp_path / "spmv.json", {**environment, "commit": "b"}).keep_other_matrices([])


@pytest.mark.parametrize(
    "arguments",
    [
        ["speed", "--dtype", "f16"],
        ["jobs", "--merge"],
        ["multi", "--experiments", "cg,qr"],
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
    assert main(["setup", "--only", "no such matrix", "--out", str(tmp_path)]) == 2
    assert "no matrix matches" in capsys.readouterr().err
