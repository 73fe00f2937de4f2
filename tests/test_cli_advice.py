"""Which solver the command line takes, and what it suggests where one fails: tables of rules."""

import pytest

from spmvgpu.cli.advice import Outcome, suggestions
from spmvgpu.cli.output import Report
from spmvgpu.cli.solution import Solution, first_that_works
from spmvgpu.linalg.choice import Choice, choose

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
    found = choose(hermitian, positive, preconditioner, "symmetric")
    assert list(found.solvers) == expected
    assert found.reason


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
        ({"ranks": 4}, "--maxiter 220"),
        ({"ranks": 4, "preconditioner": "none"}, "--preconditioner jacobi, --maxiter 220"),
        ({"iterations": 900_000_000, "ranks": 4}, ""),
    ],
)
def test_suggestions(changes, expected):
    found = suggestions(OUTCOME._replace(**changes))
    assert ", ".join(suggestion.options for suggestion in found) == expected
    assert all(suggestion.reason for suggestion in found)


@pytest.mark.parametrize(
    ("residuals", "expected"),
    [
        ({"bicgstab": 1e-9}, "bicgstab"),
        ({"bicgstab": 0.9}, "bicgstab"),  # zero is a worse solution
        ({"bicgstab": 3.0, "gmres": 0.9}, "gmres"),
        ({"bicgstab": float("nan"), "gmres": 1e-9}, "gmres"),
        ({"bicgstab": 1e30, "gmres": 6.0}, "gmres"),
    ],
)
def test_next_solver_where_one_diverged(residuals, expected):
    report = Report(as_json=True)
    found, solution = first_that_works(
        Choice(tuple(residuals), "the matrix is not symmetric"),
        lambda solver: Solution(None, residuals[solver], 10, True, 1, 0.0, 0.0),
        report,
    )
    assert found == report.values["solver"] == expected
    assert solution.residual == residuals[expected]
    if len(residuals) > 1:
        assert "bicgstab diverged" in report.values["solver_reason"]
