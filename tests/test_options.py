"""Every option of every format, at every value it allows."""

import pytest

import spmvgpu as sg
from battery import matrix, vector
from reference import assert_product
from support import allowed_values, build, poisoned

OPTIONS = [
    pytest.param(name, option["name"], value, id=f"{name}-{option['name']}-{value}")
    for name in sg.formats()
    for option in sg.format_options(name)
    for value in allowed_values(option)
]
NAMES = sorted({(name, option["name"]) for name in sg.formats() for option in sg.format_options(name)})
AUTOMATIC = (0, "auto")  # op.options then says what was chosen
SOME_CASES = [
    "uniform",
    "power_law_rows",
    "long_row_middle",
    "warp_lengths",
    "empty_rows_first",
    "no_entries",
]


@pytest.mark.parametrize("case", SOME_CASES)
@pytest.mark.parametrize(("name", "option", "value"), OPTIONS)
def test_product(name, option, value, case, dtype, device):
    A = matrix(case, dtype)
    op = build(A, name, device, **{option: value})
    assert value in AUTOMATIC or op.options[option] == value
    x = vector(A.shape[1], dtype)
    assert_product(op.spmv(x, out=poisoned(A.shape[0], dtype)), A, x)


@pytest.mark.parametrize(("name", "option"), NAMES)
def test_default_is_used_and_allowed(name, option):
    described = next(entry for entry in sg.format_options(name) if entry["name"] == option)
    A = matrix("uniform", "float64")
    assert option in build(A, name).options
    build(A, name, **{option: described["default"]})


@pytest.mark.parametrize("value", ["nonsense", -7, None, float("nan"), [1]])
@pytest.mark.parametrize(("name", "option"), NAMES)
def test_bad_value(name, option, value):
    described = next(entry for entry in sg.format_options(name) if entry["name"] == option)
    if value == described["default"]:
        pytest.skip(f"{value!r} is the default of {option}")
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


def test_full_tuning_keeps_the_product(fmt, device, dtype):
    A = matrix("power_law_rows", dtype)
    op = build(A, fmt, device, tune="full")
    x = vector(A.shape[1], dtype)
    assert_product(op @ x, A, x)
