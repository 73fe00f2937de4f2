"""What the experiment of solutions promises: its systems, and what it measures of them."""

import argparse
import json

import numpy as np
import pytest

pytest.importorskip("threadpoolctl", reason="the extra [bench] is not installed")

from experiments.__main__ import main
from experiments.peers.problem import Problem, WrongResultError
from experiments.solving import columns, direct, libraries, spectra, systems, which, whole
from generators.systems import jumps

ALL = (
    systems.WHOLE
    | systems.COLUMNS
    | systems.DIRECT
    | systems.EIGENVALUES
    | systems.LEAST_SQUARES
    | systems.WHICH
)


def options(**given):
    return argparse.Namespace(**({"quick": True, "scale": 1.0, "seed": 1} | given))


def system(name, kinds=ALL):
    points = 9 if kinds[name].dim == 2 else 5
    problem = Problem.make(kinds[name].make(points, 1), np.float64, f"{name}_{points}")
    return systems.system_of(problem, kinds, 1)


# -- systems -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, kind in ALL.items() if kind.definite is not None])
def test_definite_systems_are_definite_and_others_are_not(name):
    found = system(name)
    A = found.A.toarray()
    assert abs(A - A.conj().T).max() == 0
    eigenvalues = np.linalg.eigvalsh(A)
    if found.kind.nullspace is not None:
        assert abs(A.sum(axis=1)).max() < 1e-10 * abs(A).max()
        assert abs(found.b.sum()) < 1e-10 * np.linalg.norm(found.b)  # it has a solution
        eigenvalues = eigenvalues[1:]
    assert (eigenvalues[0] > 0) == found.kind.definite


@pytest.mark.parametrize("name", [name for name, kind in systems.WHICH.items() if kind.definite is None])
def test_other_systems_are_not_hermitian(name):
    found = system(name)
    assert abs(found.A - found.A.conj().T).max() > 0
    assert (found.A.diagonal() != 0).all()
    assert found.case["dtype"] == ("c128" if name == "helmholtz" else "f64")


@pytest.mark.parametrize("name", ["jump", "timestep", "scaled", "circuit", "tall"])
def test_seeds_draw_other_systems(name):
    kind = ALL[name]
    first, again, other = (kind.make(9, seed) for seed in (1, 1, 2))
    assert (first != again).nnz == 0
    assert (first != other).nnz > 0


def test_names_say_the_size():
    (full,), (small,) = (
        systems.items({"poisson3d": systems.WHOLE["poisson3d"]}, "", options(quick=False, scale=scale))
        for scale in (1.0, 0.01)
    )
    assert (full.name, small.name) == ("poisson3d_160", "poisson3d_34")


def test_coefficients_jump():
    A = jumps(2, 1e4, 16, 0)
    np.testing.assert_allclose(abs(A.data).max() / abs(A.data).min(), 4e4, rtol=0.01)


# -- what is measured ----------------------------------------------------------------------------------------


def test_a_wrong_solution_is_no_row():
    found = system("grid", systems.WHICH)
    with pytest.raises(WrongResultError, match="true residual"):
        whole.checked(found, np.zeros(found.A.shape[0]))


@pytest.mark.parametrize("library", libraries.others(False), ids=lambda each: f"{each.name} {each.variant}")
def test_other_libraries_solve(library):
    found = system("grid", systems.WHICH)
    solved = library.solve(found)
    assert found.residual(solved.x) <= whole.SLACK * libraries.RTOL
    assert solved.setup >= 0
    assert solved.solve > 0


def test_large_factors_are_left_out_with_a_reason():
    by_scipy = next(
        library for library in libraries.LIBRARIES if library.name == "scipy" and not library.definite
    )
    for name in ("network", "timestep"):
        kind = systems.WHICH[name]
        large = systems.System(name, kind, kind.make(80 if name == "network" else 40, 1), np.ones(1))
        assert "left out beyond" in str(by_scipy.seconds(large))
    assert by_scipy.seconds(system("grid", systems.WHICH)) < 1


def test_a_loop_without_a_result_is_said():
    def never(most):
        return np.zeros(0), np.zeros((4, 0))

    way = spectra.Way("scipy", "largest", "cpu", never, lambda found: spectra._check_pairs(None, found), 1)
    with pytest.raises(WrongResultError, match="no result within 30 s: 0 of 6 eigenvalues"):
        spectra._timed(way)


def test_one_part_is_measured_alone_and_merged(tmp_path, monkeypatch):
    monkeypatch.setattr(whole, "SECONDS", 0.001)
    common = ["solve", "--quick", "--device", "cpu", "--out", str(tmp_path)]
    assert main([*common, "--experiments", "columns", "--only", "grid"]) == 0
    assert main([*common, "--merge", "--experiments", "which", "--only", "dominant"]) == 0
    assert main([*common, "--merge", "--experiments", "direct", "--only", "plane"]) == 0
    (path,) = tmp_path.glob("*/solve.json")
    rows = json.loads(path.read_text())["rows"]
    assert {row["part"] for row in rows} == {columns.PART, direct.PART, which.PART}
    assert {row["columns"] for row in rows if "columns" in row} == set(columns.COUNTS)
