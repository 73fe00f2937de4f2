"""The table of bytes that ``python -m experiments bytes`` prints."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from experiments.matrices import canonical
from experiments.speed import byte_model
from experiments.speed.suite import Item
from spmvgpu import gallery


def test_a_line_says_what_the_plans_say():
    A = gallery.poisson2d(60)
    lines = list(byte_model.rows_of(Item("grid", "generated", lambda: A), 1e9, 2.0))
    assert [line[:3] for line in lines] == [["grid", name, f"{A.nnz / 1e6:.2f} M"] for name in ("f32", "f64")]
    double = lines[1]
    stored = {name: sg.estimate(A, name, "cpu")["bytes"] for name in byte_model.FORMATS}
    vectors = 8 * sum(A.shape)
    assert double[3:6] == [f"{count / A.nnz:.2f}" for count in stored.values()]
    assert float(double[6]) == pytest.approx(
        (stored["csr"] + vectors) / (stored["packed_sell"] + vectors), abs=0.01
    )
    assert double[7] == f"{(stored['packed_sell'] + vectors) / 2e6:.1f}"
    assert double[8].startswith("values_constant 100%, index_shared ")
    assert "slices" not in double[8]


def test_a_matrix_that_a_format_refuses_has_no_bytes_in_it():
    long_row = sp.csr_array(sp.vstack([np.ones((1, 100_000)), sp.eye_array(31, 100_000)], format="csr"))
    (line, _) = byte_model.rows_of(Item("long_row", "generated", lambda: canonical(long_row)), 1e9, 4.2)
    assert line[3] != "-"
    assert line[5:] == ["-", "-", "-", "refused"]


def test_large_ones_are_left_out():
    assert not list(byte_model.rows_of(Item("grid", "generated", lambda: gallery.poisson2d(60)), 100, 4.2))


def test_products_are_timed_where_that_is_asked_for(tmp_path, monkeypatch, capsys):
    grid = Item("grid", "generated", lambda: gallery.poisson2d(30))
    monkeypatch.setattr(byte_model, "items", lambda: [grid])
    assert byte_model.main(["--device", "cpu", "--out", str(tmp_path)]) == 0
    head, _, *lines = capsys.readouterr().out.strip().splitlines()
    assert head.count(", us |") == 1 + len(byte_model.TIMED)
    (path,) = tmp_path.glob("*/packed_sell.json")
    rows = json.loads(path.read_text())["rows"]
    assert [row["variant"] for row in rows] == 2 * list(byte_model.TIMED)
    for line, of_line in zip(lines, (rows[:4], rows[4:]), strict=True):
        # Rounded twice, to what the file keeps and to what the table shows.
        shown = [float(cell) for cell in line.split("|")[-5:-1]]
        assert shown == pytest.approx([row["time_us"] for row in of_line], abs=0.06)
