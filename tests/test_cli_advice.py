"""Which solvers suit a matrix, and what the command line suggests where they fail: tables of rules."""

import pytest

from spmvgpu.cli.advice import Outcome, suggestions
from spmvgpu.linalg.problem import Approach, choose

OUTCOME = Outcome(
    solver="cg",
    preconditioner="jacobi",
    dtype="float64",
    residual=1e-4,
    rtol=1e-8,
    iterations=100,
    rows=1000,
    exhausted=True,
)


@pytest.mark.parametrize(
    ("hermitian", "positive", "preconditioner", "expected"),
    [
        (True, True, "jacobi", ["cg", "minres"]),
        (True, True, "ic0", ["cg", "minres"]),
        (True, False, "none", ["minres"]),
        (True, True, "ilu0", ["bicgstab", "gmres"]),
        (True, False, "ilu0", ["bicgstab", "gmres"]),
        (False, True, "jacobi", ["bicgstab", "gmres"]),
        (False, False, "none", ["bicgstab", "gmres"]),
    ],
)
def test_choice(hermitian, positive, preconditioner, expected):
    found, reason = choose(hermitian, positive, preconditioner, "symmetric")
    assert found == [Approach(solver, preconditioner) for solver in expected]
    assert reason


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, "cg jacobi, cg ic0, minres jacobi, gmres ilu0, gmres jacobi"),
        ({"divides": False}, "cg none, cg ic0, minres none, gmres none"),
        ({"positive_diagonal": False}, "minres jacobi, gmres ilu0, gmres jacobi"),
        ({"indefinite": True}, "minres jacobi, gmres ilu0, gmres jacobi"),
        ({"hermitian": False}, "bicgstab jacobi, gmres jacobi, bicgstab ilu0, gmres ilu0"),
        ({"hermitian": False, "dominance": 1.0}, "bicgstab ilu0, gmres ilu0, bicgstab jacobi, gmres jacobi"),
        (
            {"hermitian": False, "dominance": 1.0, "on_gpu": True},
            "bicgstab jacobi, gmres jacobi, bicgstab ilu0, gmres ilu0",
        ),
        ({"hermitian": False, "dominance": 2.0}, "bicgstab jacobi, gmres jacobi, bicgstab ilu0, gmres ilu0"),
        ({"hermitian": False, "divides": False}, "bicgstab none, gmres none"),
    ],
)
def test_choice_with_preconditioners(facts, expected):
    given = {"hermitian": True, "positive_diagonal": True, **facts}
    found, _ = choose(preconditioner="auto", kind="symmetric", **given)
    assert ", ".join(" ".join(one) for one in found if one.preconditioner != "amg") == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "--preconditioner ic0, --preconditioner amg, --maxiter 220"),
        ({"preconditioner": "ic0"}, "--preconditioner amg, --maxiter 220"),
        ({"preconditioner": "ic0", "scattered": True}, "--reorder, --preconditioner amg, --maxiter 220"),
        ({"preconditioner": "amg"}, "--preconditioner ic0, --maxiter 220"),
        ({"residual": 3.0}, "--preconditioner ic0, --preconditioner amg, --maxiter 1000"),
        ({"residual": 3.0, "rows": 10}, "--preconditioner ic0, --preconditioner amg"),
        ({"residual": float("nan"), "rows": 10}, "--preconditioner ic0, --preconditioner amg"),
        ({"residual": float("inf"), "rows": 10}, "--preconditioner ic0, --preconditioner amg"),
        ({"exhausted": False}, "--preconditioner ic0, --preconditioner amg"),
        ({"exhausted": False, "residual": 1.5e-14}, "--rtol 2e-14"),
        (
            {"exhausted": False, "dtype": "float32"},
            "--dtype float64, --preconditioner ic0, --preconditioner amg",
        ),
        (
            {"exhausted": False, "dtype": "complex64"},
            "--dtype complex128, --preconditioner ic0, --preconditioner amg",
        ),
        ({"solver": "minres"}, "--maxiter 220, --solver gmres"),
        (
            {"solver": "gmres"},
            "--preconditioner ilu0, --solver gmres --restart 200, --maxiter 220, --solver bicgstab",
        ),
        (
            {"solver": "gmres", "restart": 400, "broken": ("bicgstab",), "preconditioner": "ilu0"},
            "--solver gmres --restart 1000, --maxiter 220",
        ),
        ({"solver": "bicgstab"}, "--preconditioner ilu0, --maxiter 220, --solver gmres"),
        ({"solver": "gmres", "preconditioner": "ilu0", "restart": 1000}, "--maxiter 220, --solver bicgstab"),
        ({"solver": "gmres", "zero_diagonal": True, "restart": 1000}, "--maxiter 220, --solver bicgstab"),
        (
            {"solver": "gmres", "broken": ("bicgstab",), "restart": 1000},
            "--preconditioner ilu0, --maxiter 220",
        ),
        ({"iterations": 900_000_000, "preconditioner": "amg"}, "--preconditioner ic0"),
    ],
)
def test_suggestions(changes, expected):
    found = suggestions(OUTCOME._replace(**changes))
    assert ", ".join(suggestion.options for suggestion in found) == expected
    assert all(suggestion.reason for suggestion in found)
