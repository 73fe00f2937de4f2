"""`python -m experiments orders`, and what the report makes of it."""

import itertools
import json

import pytest

pytest.importorskip("threadpoolctl", reason="the extra [bench] is not installed")

from experiments.report import orders as report
from experiments.speed import orders


@pytest.fixture(name="content", scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("orders")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(orders, "SECONDS", 0.0)
        assert orders.main(["--quick", "--device", "cpu", "--out", str(folder)]) == 0
    return json.loads(next(folder.rglob("orders.json")).read_text())


def test_every_order_is_measured(content):
    found = {(row["dtype"], row["variant"], row["order"]) for row in content["rows"]}
    named = set(itertools.product(("float32", "float64"), orders.FORMATS, orders.ORDERS))
    assert named <= found
    assert all(row["time_us"] > 0 and row["setup_us"] > 0 for row in content["rows"])
    assert all((row["order_us"] > 0) == (row["order"] in ("rcm", "clusters")) for row in content["rows"])


def test_the_report_has_a_row_for_every_format(content):
    rows = report.rows({"orders": content})
    assert len(rows) == 2 * len(orders.FORMATS)
    assert all(len(row) == len(report.HEAD) for row in rows)
    assert report.rows({}) == []
    content["rows"] = [row for row in content["rows"] if row["order"] != "clusters"]
    assert report.rows({"orders": content})[0][-1] == "-"
