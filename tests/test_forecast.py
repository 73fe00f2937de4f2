"""When `solve` leaves cg for multigrid."""

import numpy as np
import pytest
import scipy.sparse as sp

from generators import systems
from spmvgpu import aslinearoperator, gallery
from spmvgpu.linalg import cg, solve
from tests.internals import ones_in_system, patience, refuse


def tried(A, b, device="cpu", **options):
    _, how = solve(sp.csr_array(A), b, device=device, full_output=True, **options)
    return how.tried


def cpu(A):
    return aslinearoperator(A, device="cpu")


def iterations(op, b):
    """Of cg with the diagonal alone."""
    cg(op, b, rtol=1e-8, M="jacobi")
    return op.solve_info.iterations


def right_hand_sides(A):
    """A constant one, whose residual stays until cg comes to the middle of a grid, and a random one."""
    n = A.shape[0]
    return [np.ones(n), np.random.default_rng(0).standard_normal(n)]


MATRICES = {
    "constant": lambda: gallery.poisson2d(30),
    "contrast": lambda: gallery.poisson3d(9, contrast=100, seed=3),
    "blocks": lambda: systems.blocks(16, 6, 1),
    "hermitian": lambda: systems.turned(gallery.poisson2d(20)),
    "scaled": lambda: systems.badly_scaled(20, 1),
}


@pytest.mark.parametrize("devices", [1, 3])
@pytest.mark.parametrize("name", MATRICES)
def test_what_a_matrix_makes_of_ones(name, devices, device):
    A = sp.csr_array(MATRICES[name]())
    ones, diagonal = np.ones(A.shape[0]), A.diagonal().real
    found = ones_in_system(aslinearoperator(A, device=device if devices == 1 else [device] * devices))
    product = (A @ ones).real
    expected = product.sum(), (product / diagonal).sum(), diagonal.sum(), (1 / diagonal).sum()
    largest = abs(A).sum(), (abs(A) @ ones / diagonal).sum(), *expected[2:]
    assert found.rows == A.shape[0]
    for value, exact, size in zip(found[1:], expected, largest, strict=True):
        assert abs(value - exact) <= 1e-12 * size


@pytest.mark.parametrize("diagonal", [-1.0, 0.0])
def test_a_diagonal_that_is_not_positive_suits_no_multigrid(diagonal, device):
    A = sp.csr_array(gallery.poisson2d(9) - sp.diags_array(np.r_[4.0 - diagonal, np.zeros(80)]))
    assert ones_in_system(aslinearoperator(A, device=device)) is None


def test_iterations_are_those_of_grids():
    """Within a factor of two, from the sums alone, whatever the coefficients; unknown without a boundary."""
    for A in (
        gallery.poisson2d(120),
        gallery.poisson3d(30),
        gallery.poisson3d(40, contrast=100, seed=3),
        systems.jumps(3, 1e6, 32, 1),
        systems.blocks(48, 6, 1),
        systems.log_normal(40, 4),
    ):
        op = cpu(A)
        count = iterations(op, right_hand_sides(A)[1])
        assert count / 2 <= ones_in_system(op).iterations <= 2 * count
    assert ones_in_system(cpu(systems.neumann2d(12, 12))).iterations == 0
    assert ones_in_system(cpu(np.ones((3, 3)))).iterations < 10


def test_cg_gives_way_early_where_multigrid_is_faster():
    for b in right_hand_sides(gallery.poisson2d(300)):
        first, *_, last = tried(gallery.poisson2d(300), b)
        assert "was slow, at a relative residual of" in first.outcome
        assert 20 <= first.iterations <= 40
        assert 0 < first.residual < np.inf
        assert str(last) == "cg with amg"


FAST = {
    "step": lambda: systems.time_step(24, 1),
    "cube": lambda: gallery.poisson3d(24),
    "closed": lambda: systems.neumann(16, 1),
}


@pytest.mark.parametrize("name", FAST)
def test_cg_goes_on_where_it_is_faster(name, device):
    A = FAST[name]()
    for b in right_hand_sides(A):
        (attempt,) = tried(A, A @ b, device, nullspace="constant" if name == "closed" else None)
        assert str(attempt) == "cg with jacobi"
        assert attempt.outcome == "converged"


def test_the_next_method_starts_from_what_the_last_one_found(monkeypatch):
    """No time is lost: a method that is taken up again needs fewer iterations than one that goes on alone."""
    A = gallery.poisson2d(300)
    b = right_hand_sides(A)[1]
    refuse(monkeypatch, "amg", "ic0")
    *_, last = tried(A, b)
    assert str(last) == "cg with jacobi"
    assert last.iterations < iterations(cpu(A), b)


# Systems for residuals without a solve: rows, 1^T A 1, 1^T D^-1 A 1, and the sums of D and D^-1.
OF_GRID = 10_000, 400.0, 100.0, 40_000.0, 2_500.0  # 300 iterations
OF_TIME_STEP = 10_000, 40_400.0, 5_000.0, 80_000.0, 1_250.0


def until(ends, residual):
    return next((k for k in range(1, 2000) if ends(k, residual(k), 1.0)), None)


def ones(*sums):
    return lambda: type(ones_in_system(cpu(gallery.poisson2d(3))))(*sums)


def never():
    raise AssertionError("not needed")


def falls(k):
    return max(0.8**k, 1e-9)


def stays(k):
    return 1.0


def test_a_residual_that_falls_fast_goes_on_without_a_look_at_the_matrix():
    ends = patience(100, never)
    assert until(ends, falls) is None
    assert ends.status == ""


@pytest.mark.parametrize(("multigrid", "end"), [(200, 20), (1000, 600)])
def test_a_residual_that_stays_ends_a_solve_early_if_the_matrix_says_so(multigrid, end):
    ends = patience(multigrid, ones(*OF_GRID))
    assert until(ends, stays) == end
    assert ends.status == "slow"
    assert ends.outcome == f"was slow, at a relative residual of 1.0e+00 after {end} iterations"


@pytest.mark.parametrize("unsuitable", [lambda: None, ones(*OF_TIME_STEP)])
def test_multigrid_that_does_not_suit_is_no_rival(unsuitable):
    ends = patience(100, unsuitable, most=900)
    assert until(ends, stays) == 900
    assert ends.status == "stalled"


def test_an_absolute_tolerance_counts():
    assert until(patience(100, ones(*OF_GRID), rtol=0.0, atol=0.5), stays) == 20
    assert until(patience(100, never, rtol=0.0, atol=1.0), stays) is None
