"""Every option of every format, at every value it allows."""

import itertools

import pytest

import spmvgpu as sg
from battery import TYPES, matrix, vector
from reference import assert_product
from support import allowed_values, build, formats_of, naming, poisoned

OPTIONS = [(name, option) for name in sg.formats() for option in sg.format_options(name)]
NAMES = sorted({(name, option["name"]) for name, option in OPTIONS})
AUTOMATIC = (0, "auto")  # op.options then says what was chosen
SOME_CASES = [
    "uniform",
    "power_law_rows",
    "long_row_middle",
    "warp_lengths",
    "empty_rows_first",
    "no_entries",
    "sym_mixed_nodes",
]


VALUES = [
    pytest.param(name, option["name"], value, id=f"{name}-{option['name']}-{value}")
    for name, option in OPTIONS
    for value in allowed_values(option)
]


@pytest.mark.parametrize(("name", "option", "value"), VALUES)
def test_product(name, option, value, device):
    """With each case that the format holds at that value."""
    cases = [case for case in SOME_CASES if name in formats_of(case, only=name, **{option: value})]
    assert cases
    for case, dtype in itertools.product(cases, TYPES):
        with naming(case=case, dtype=dtype):
            A = matrix(case, dtype)
            op = build(A, name, device, **{option: value})
            assert value in AUTOMATIC or op.options[option] == value
            x = vector(A.shape[1], dtype)
            assert_product(op.spmv(x, out=poisoned(A.shape[0], dtype)), A, x)


@pytest.mark.parametrize(("name", "option"), NAMES)
def test_default_is_used_and_allowed(name, option):
    described = next(entry for entry in sg.format_options(name) if entry["name"] == option)
    A = matrix("sym_band", "float64")
    assert option in build(A, name).options
    build(A, name, **{option: described["default"]})


@pytest.mark.parametrize(("name", "option"), NAMES)
@pytest.mark.parametrize("value", ["nonsense", -7, None, float("nan"), [1]])
def test_bad_value(name, option, value):
    if value == next(entry["default"] for entry in sg.format_options(name) if entry["name"] == option):
        return
    with pytest.raises((ValueError, TypeError), match=option) as caught:
        sg.aslinearoperator(matrix("uniform", "float64"), format=name, device="cpu", **{option: value})
    assert str(value) in str(caught.value)


def test_unknown_option_names_the_allowed_ones(fmt):
    with pytest.raises(TypeError, match="nonsense") as caught:
        sg.aslinearoperator(matrix("uniform", "float64"), format=fmt, device="cpu", nonsense=3)
    for option in sg.format_options(fmt):
        assert option["name"] in str(caught.value)


def test_unknown_format_of_options():
    with pytest.raises(ValueError, match="nonsense"):
        sg.format_options("nonsense")
