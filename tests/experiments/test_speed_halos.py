"""What ranks send for a product is counted right, and written as promised."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

from experiments.report import halos as report
from experiments.speed import halos
from spmvgpu import gallery


def test_halos_of_a_line():
    pattern = sp.csr_array(gallery.poisson1d(12))
    needed, messages = halos.halos_of(pattern, np.repeat([0, 1, 2], 4), 3)
    assert needed.tolist() == messages.tolist() == [1, 2, 1]


def test_halos_as_operators_over_ranks_have_them():
    """The entries that the columns of each rank's rows name, less its own."""
    pattern = halos._symmetric_pattern(sp.csr_array(np.random.default_rng(1).random((60, 60)) < 0.05))
    part = np.random.default_rng(2).integers(0, 4, 60)
    needed, messages = halos.halos_of(pattern, part, 4)
    for rank in range(4):
        cols = np.unique(pattern[part == rank].indices)
        others = cols[part[cols] != rank]
        assert needed[rank] == len(others)
        assert messages[rank] == len(np.unique(part[others]))


@pytest.mark.parametrize("partition", ["order", "rcm", "metis"])
def test_divisions(partition):
    if partition == "metis":
        pytest.importorskip("pymetis")
    pattern = halos._symmetric_pattern(gallery.poisson2d(20))
    part = halos.DIVISIONS[partition](pattern, 8)
    entries = np.bincount(part, np.diff(pattern.indptr), 8)
    assert entries.sum() == pattern.nnz
    assert entries.max() <= 1.25 * pattern.nnz / 8


def test_results(tmp_path, capsys):
    assert halos.main(["--out", str(tmp_path), "--quick"]) == 0
    content = json.loads((tmp_path / "halos.json").read_text())
    counts = [row["ranks"] for row in content["rows"] if row["partition"] == "order"]
    assert counts == [2, 4, 8, 16, 32]
    for row in content["rows"]:
        assert row["messages"] <= row["halo"]
        assert row["most_messages"] <= row["ranks"] - 1
    (line, *_) = report.rows(content)
    assert line[:3] == ("poisson2d_40", "1,600", "order")
    assert "poisson2d_40" in capsys.readouterr().out
