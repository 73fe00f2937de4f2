"""Rows of a device that need nothing of other devices: which they are, and products that begin with them."""

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import TYPES, banded, vector
from reference import assert_product
from spmvgpu import _core, gallery, linalg
from spmvgpu._core import MultiDeviceMatrix, PartedMatrix
from spmvgpu.devices import CPU
from spmvgpu.inputs.csr import CanonicalCsr
from spmvgpu.multi_device import division
from test_multi import gpu_names  # noqa: F401  (a fixture)

FORMATS = ["auto", "csr", "sell", "dia", "sdia", "bsell", "packed_sell"]


@pytest.fixture(autouse=True)
def _however_small(monkeypatch):
    """Matrices of a test are far smaller than those that are worth it."""
    monkeypatch.setattr(division, "_LEAST_INTERIOR", 1)


def rows_of(A, rows, ordinal=0, **how):
    """Some rows of a matrix, what says that they go to a device, and the columns that they reach."""
    own = CanonicalCsr.of(A).rows(rows)
    return own, division.DevicePart(rows, ordinal, **how), reach_of(own)


def reach_of(own):
    return _core.column_reach(own.indptr, own.indices)


def read_by(A, rows, fmt):
    """The elements of x that some rows read in a format."""
    own = CanonicalCsr.of(A).rows(rows)
    return range(*division._window(own, reach_of(own), own.build(fmt, {}, CPU)))


def test_the_interior_of_a_grid():
    """Of a grid of planes, all but the first and the last plane of a device; at its ends there is nobody."""
    A = sp.csr_array(gallery.poisson3d(10))
    for rows, expected in (
        (range(300), range(200)),
        (range(300, 800), range(100, 400)),
        (range(700, 1000), range(100, 300)),
    ):
        assert division._interior(*rows_of(A, rows)) == expected


@pytest.mark.parametrize("fmt", ["csr", "dia", "sdia"])
@pytest.mark.parametrize("offsets", [[-7, -1, 0, 1, 7], [-30, 0, 2, 30], [0, 11], [-11, -3], [5]])
def test_no_format_reads_the_halo_for_an_interior(fmt, offsets):
    A = sp.csr_array(banded(400, offsets))
    A.data[A.indptr[200] : A.indptr[201]] = 0  # an empty row
    A.eliminate_zeros()
    if fmt == "sdia":
        A = A + A.T
    for own in (range(150), range(150, 290), range(290, 400)):
        inside = division._interior(*rows_of(A, own))
        assert inside or own.start != 150
        read = read_by(A, range(own.start + inside.start, own.start + inside.stop), fmt)
        assert not inside or own.start <= read.start < read.stop <= own.stop


def test_rows_without_an_interior(monkeypatch):
    A = sp.csr_array(gallery.poisson3d(10))
    rows = range(300, 700)
    assert division._interior(*rows_of(A, rows))
    assert not division._interior(*rows_of(A, rows, CPU))
    assert not division._interior(*rows_of(A, rows, resident=200))
    assert not division._interior(*rows_of(A, rows, is_full=True))
    assert not division._interior(*rows_of(A, np.arange(300, 700, 2, dtype=np.int32)))
    assert not division._interior(*rows_of(A, range(300, 480)))  # 80 of 180 rows
    assert not division._interior(*rows_of(sp.csr_array((1000, 1000)), rows))
    diagonal = sp.csr_array(sp.diags_array(np.ones(1000)))
    assert not division._interior(*rows_of(diagonal, rows))  # no halo
    scattered = sp.random_array((1000, 1000), density=0.05, format="csr", random_state=1)
    assert not division._interior(*rows_of(scattered, rows))
    monkeypatch.setattr(division, "_LEAST_INTERIOR", 1_000_000)
    assert not division._interior(*rows_of(A, rows))


def test_an_interior_is_made_of_parts():
    """Nobody says that rows are an interior that no part has."""
    A = sp.csr_array(gallery.poisson1d(10))
    own = CanonicalCsr.of(A).build("csr", {}, CPU)
    with pytest.raises(ValueError, match="interior"):
        MultiDeviceMatrix(10, 10, [(own, 0, 0, 10, 1)])


def with_interiors(A, names, **options):
    """An operator of which every part on a GPU has an interior, if there are several parts."""
    op = sg.aslinearoperator(A, device=names, **options)
    for (matrix, *_, interior_parts), name in zip(op._matrix.parts, names, strict=True):
        has_interior = name != "cpu" and len(names) > 1
        assert interior_parts == (1 if has_interior else 0)
        assert isinstance(matrix, PartedMatrix) == has_interior
    return op


@pytest.mark.gpu
@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("dtype", TYPES)
def test_products_begin_with_interiors(fmt, gpu_names, dtype):  # noqa: F811
    """Chains of them; a vector filled anew; whole vectors; and the entries are those of the matrix."""
    A = sp.csr_array(gallery.poisson3d(30), dtype=dtype)
    A.data /= 12
    op = with_interiors(A, gpu_names, format=fmt, powers=[1.0] * len(gpu_names))
    x = vector(A.shape[0], dtype)
    ours, other, expected = op.vector(x), op.vector(), x
    for _ in range(5):
        op.spmv(ours, out=other)
        assert_product(other.collect(), A, expected)
        ours, other = other, ours
        expected = ours.collect()
    for _ in range(3):
        ours.assign(x)
        op.spmv(ours, out=other, alpha=2.0)
        ours.assign(np.full_like(x, np.nan))
        assert_product(other.collect(), A, x, alpha=2.0)
    assert_product(op @ x, A, x)
    assert abs(op.tocsr() - A).sum() == 0


@pytest.mark.gpu
@pytest.mark.parametrize("solver", ["cg", "minres", "bicgstab", "gmres"])
@pytest.mark.parametrize("preconditioned", [False, True])
def test_solvers_over_interiors(solver, preconditioned, gpu_names):  # noqa: F811
    A = sp.csr_array(gallery.poisson3d(30))
    b = A @ vector(A.shape[0], A.dtype)
    one = sg.aslinearoperator(A, device=next(name for name in gpu_names if name != "cpu"), format="csr")
    op = with_interiors(A, gpu_names, format="csr", powers=[1.0] * len(gpu_names))
    M = [linalg.chebyshev(made) if preconditioned else None for made in (op, one)]
    residuals: list[float] = []
    x, info = getattr(linalg, solver)(op, b, M=M[0], rtol=1e-9, maxiter=2000, residuals=residuals)
    expected, _ = getattr(linalg, solver)(one, b, M=M[1], rtol=1e-9, maxiter=2000)
    assert info == 0
    assert op.solve_info.pieces == (1 if "cpu" in gpu_names else len(gpu_names))
    assert np.linalg.norm(x - expected) <= 1e-6 * np.linalg.norm(expected)
    slack = 0.25 if solver == "bicgstab" else 0.02
    assert abs(op.solve_info.iterations - one.solve_info.iterations) <= 1 + slack * one.solve_info.iterations
