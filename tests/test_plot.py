"""Pictures show the matrix they are given; without matplotlib the error names the extra to install."""

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from spmvgpu import gallery, plot
from support import formats_of, run_python


@pytest.mark.parametrize("shape", [(6, 6), (3, 9), (9, 3), (1, 1)], ids=str)
def test_small_matrix_is_drawn_entry_by_entry(pyplot, shape):
    A = sp.csr_array((np.indices(shape).sum(axis=0) % 3 == 0).astype(float))
    ax = plot.spy(A)
    (image,) = ax.images
    np.testing.assert_array_equal(np.ma.getmaskarray(image.get_array()), A.toarray() == 0)
    assert ax.get_title() == f"{shape[0]} x {shape[1]}, {A.nnz} non-zeros"
    ax.figure.canvas.draw()


@pytest.mark.parametrize("pixels", [1, 7, 10])
def test_large_matrix_is_drawn_as_density(pyplot, pixels):
    A = gallery.uniform_random(52, 110, 9)
    ax = plot.spy(A, pixels=pixels)
    density = ax.images[0].get_array().filled(0)
    assert density.shape == (pixels, pixels)
    heights = np.bincount(np.arange(52) * pixels // 52)
    widths = np.bincount(np.arange(110) * pixels // 110)
    np.testing.assert_allclose((density * np.outer(heights, widths)).sum(), A.nnz)
    ax.figure.canvas.draw()


def test_spy_of_an_operator_into_given_axes(pyplot):
    A = gallery.poisson2d(4)
    ax = pyplot.figure().add_subplot()
    assert plot.spy(sg.aslinearoperator(A, device="cpu"), ax=ax, title="grid") is ax
    assert ax.get_title() == "grid"


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (5, 5)], ids=str)
def test_spy_of_nothing(pyplot, shape):
    ax = plot.spy(sp.csr_array(shape))
    assert len(ax.images) == 0
    ax.figure.canvas.draw()


def test_residual_history(pyplot):
    ax = plot.residual_history([1.0, 0.1, 0.01], label="one", rtol=0.05)
    assert plot.residual_history([1.0, 0.5], label="two", ax=ax) is ax
    assert ax.get_yscale() == "log"
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), [[0, 1], [1, 0.1], [2, 0.01]])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["one", "rtol = 0.05", "two"]


def test_residual_history_is_relative(pyplot):
    """The lists of solvers have absolute norms."""
    ax = plot.residual_history([50.0, 5.0])
    assert ax.get_legend() is None
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [1, 0.1])
    plot.residual_history([0.0], ax=ax)  # b is zero
    assert ax.lines[1].get_ydata() == [0]
    plot.residual_history([50.0, 5.0], norm=100.0, ax=ax)  # norm(b), with an initial guess
    np.testing.assert_allclose(ax.lines[2].get_ydata(), [0.5, 0.05])


def test_residual_history_of_several_curves_marks_a_tolerance_once(pyplot):
    curves = {"one": [2.0, 0.2], "two": [4.0, 1.0, 0.4]}
    ax = plot.residual_history(curves, rtol=0.05)
    plot.residual_history([1.0, 0.5], label="three", rtol=0.05, ax=ax)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["one", "two", "rtol = 0.05", "three"]
    np.testing.assert_allclose(ax.lines[1].get_ydata(), [1, 0.25, 0.1])
    with pytest.raises(ValueError, match="keys of residuals"):
        plot.residual_history(curves, label="all")


def test_import_does_not_load_matplotlib():
    run_python("import sys, spmvgpu.plot; assert 'matplotlib' not in sys.modules")


@pytest.mark.parametrize("call", ["spy(spmvgpu.gallery.poisson1d(3))", "residual_history([1.0])"])
def test_without_matplotlib(call):
    code = f"""
        import sys
        sys.modules["matplotlib"] = None
        import spmvgpu.gallery, spmvgpu.plot
        spmvgpu.plot.{call}
    """
    done = run_python(code, check=False)
    assert done.returncode != 0
    assert 'pip install "spmvgpu[plot]"' in done.stderr


@pytest.mark.parametrize("fmt", [*formats_of("0x5"), "sdia"])  # tsmv is drawn in test_plot_tsmv.py
def test_layout_shows_every_entry_and_all_padding(pyplot, fmt):
    A = gallery.poisson2d(5, 8)
    figure = plot.layout(A, fmt)
    panels = [ax for ax in figure.axes if ax.images and ax.get_title(loc="left")]
    slots = padding = 0
    for ax in panels:
        words = ax.get_title(loc="left").replace(",", "").split()
        slots, padding = slots + int(words[2]), padding + int(words[4])
        cells = ax.images[0].get_array()
        is_grey = (cells[..., 0] == cells[..., 1]) & (cells[..., 1] == cells[..., 2]) & (cells[..., 0] < 1)
        assert is_grey.sum() == int(words[4])
        assert cells.shape[0] * cells.shape[1] >= int(words[2])
    assert slots - padding == (sp.triu(A).nnz if fmt == "sdia" else A.nnz)
    figure.canvas.draw()


@pytest.mark.parametrize(
    ("fmt", "options", "expected"),
    [
        ("csr", {}, 32),  # contiguous rows
        ("ellpack", {}, 128),
        ("ellr_t", {"threads_per_row": 2}, 224),
        ("hyb", {"width": 2}, 128),
        ("sell", {}, 32),
    ],
)
def test_lines_of_a_layout_are_its_columns(pyplot, fmt, options, expected):
    figure = plot.layout(gallery.poisson2d(10), fmt, **options)
    assert figure.axes[0].images[0].get_array().shape[1] == expected


def test_layout_with_given_lines_and_of_nothing(pyplot):
    A = gallery.poisson1d(30)
    assert plot.layout(A, "csr", line=11).axes[0].images[0].get_array().shape[:2] == (8, 11)
    plot.layout(sp.csr_array((3, 3)), "csr").canvas.draw()
