"""What a format refuses by default, it refuses on every device, with its cost and with formats that fit."""

import numpy as np
import pytest

import spmvgpu as sg
from battery import CASES, matrix
from internals import CPU, GPU, plan
from support import check_refusal, each_type, formats_of

REFUSED = [(case, fmt) for case in CASES for fmt in sg.formats() if fmt not in formats_of(case)]


def test_only_some_formats_refuse():
    """Those that pad or idle, that store half, or rows that are the same once; no one refuses everything."""
    refusing = {fmt for _, fmt in REFUSED}
    assert (
        " ".join(sorted(refusing)) == "bsell dia ellpack ellpack_r ellr_t packed_sell sdia sell stencil tsmv"
    )
    for fmt in refusing:
        assert sum(fmt == other for _, other in REFUSED) < 0.9 * len(CASES)


@pytest.mark.parametrize(("case", "fmt"), REFUSED)
@each_type
def test_refused(case, fmt, dtype, device):
    A = matrix(case, dtype)
    with pytest.raises(sg.FormatError) as refused:
        sg.aslinearoperator(A, format=fmt, device=device)
    check_refusal(A, fmt, str(refused.value))
    with pytest.raises(sg.FormatError) as estimated:
        sg.estimate(A, fmt)
    assert fmt in str(estimated.value)


@pytest.mark.parametrize(
    ("fmt", "cases"),
    [
        ("dia", ["uniform", "antidiagonal", "arrow", "dense_column_middle"]),
        ("ellpack", ["long_row_first", "power_law_rows", "arrow"]),
        ("sell", ["long_row_first", "long_row_among_empty"]),
        ("sdia", ["uniform", "upper_triangle", "wide", "tall"]),
        ("stencil", ["uniform", "power_law_rows"]),
        ("tsmv", ["uniform", "upper_triangle", "wide", "tall"]),
    ],
)
def test_what_must_be_refused(fmt, cases):
    assert not [case for case in cases if fmt in formats_of(case)]


@pytest.mark.parametrize("fmt", ["coo", "csr", "csr_m", "csr_b", "hyb"])
def test_formats_without_padding_refuse_nothing(fmt):
    assert [case for case in CASES if fmt not in formats_of(case)] == []


@pytest.mark.parametrize("fmt", ["sell", "bsell", "packed_sell"])
def test_rows_are_sorted_where_they_fit_no_other_way(fmt):
    """Rows in order may be predicted to be faster on a GPU; that counts only if they are not refused."""

    def fits(case, device):
        try:
            plan(matrix(case, np.dtype("float64")), fmt, device)
        except sg.FormatError:
            return False
        return True

    on_cpu = [case for case in CASES if fits(case, CPU)]
    assert [case for case in CASES if fits(case, GPU)] == on_cpu
    assert 0 < len(on_cpu) < len(CASES)
