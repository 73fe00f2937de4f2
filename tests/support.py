"""Small helpers of the tests: combinations, building operators, checking refusals, a fresh Python process."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import re
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest

import spmvgpu as sg
from battery import TYPES, matrix, vector
from reference import assert_product


def asked_by_nobody(op):
    """The operator as if format="auto" had found its format."""
    stored = op._stored
    request = dataclasses.replace(stored.description.request, format="auto")
    description = dataclasses.replace(stored.description, request=request)
    return sg.SparseOperator(type(stored)(stored.canonical(), stored.matrix, description))


def least_bytes(A, fmt):
    """What a format takes at least: a symmetric matrix may be stored by half, values that recur but once."""
    return 0 if fmt in ("packed_sell", "stencil") else A.nnz * A.dtype.itemsize / 2


@contextlib.contextmanager
def ignoring(category=Warning):
    """Ignore warnings, as ``catch_warnings(action="ignore")`` does from Python 3.11 on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category)
        yield


@contextlib.contextmanager
def naming(**values):
    """A failure says with which values it happened."""
    try:
        yield
    except (Exception, pytest.fail.Exception) as error:
        given = ", ".join(f"{name}={str(value)[:60]}" for name, value in values.items())
        raise AssertionError(f"with {given}: {type(error).__name__}: {error}") from error


def in_turn(*lists):
    """Tuples with every entry of every list, in which the shorter ones start over: not all combinations."""
    return [tuple(items[i % len(items)] for items in lists) for i in range(max(map(len, lists)))]


def nightly(values):
    """Values of one parameter with which a test runs only where ``-m nightly`` asks for it."""
    return [pytest.param(value, marks=pytest.mark.nightly) for value in values]


def every_third(values, start=0):
    """Every third of the values of one parameter, from a place on; nightly the others as well.

    For tests that take long with each. Those of one file start in different places, so that the suite has
    every value in one of them.
    """
    return [value if i % 3 == start else nightly([value])[0] for i, value in enumerate(values)]


def some_formats(start=0, only=None):
    """In place of the fixture `fmt`, or of `only` these formats: every third, as `every_third` has it."""
    return pytest.mark.parametrize("fmt", every_third(only or sg.formats(), start))


def type_fixture():
    """The fixture `dtype` of a module that tests no kernels: the types take turns among the formats."""

    @pytest.fixture(name="dtype")
    def type_of_the_format(fmt):
        return TYPES[sg.formats().index(fmt) % len(TYPES)]

    return type_of_the_format


# In place of the fixtures `fmt` and `dtype` where a matrix takes long to make. Those live for the session and
# pytest groups tests by what lives longest: it would make every matrix anew for each format and type.
each_format = pytest.mark.parametrize("fmt", sg.formats())
each_type = pytest.mark.parametrize("dtype", TYPES, ids=str)


def formats_of(A, only=None, **options):
    """The formats, or `only` one, that hold a matrix, given as such or as the name of a case.

    Tests are parametrised over these: a format that refuses has nothing to be tested with a product. That it
    refuses what it should, and says why, is what test_refusals.py and the tests of the formats are for.
    """
    asked = [only] if only else sg.formats()
    if not isinstance(A, str):
        return [fmt for fmt in asked if _holds(A, fmt, options)]
    if options:
        return formats_of(matrix(A, np.dtype("float64")), only, **options)
    return [fmt for fmt in asked if fmt in _formats_of_case(A)]


@functools.cache
def _formats_of_case(case):
    """Once for all modules: some formats take their time to say what they would cost."""
    return formats_of(matrix(case, np.dtype("float64")))


def _holds(A, fmt, options):
    try:
        sg.estimate(A, fmt, **options)
    except sg.FormatError:
        return False
    return True


def each_format_of(A, **options):
    """In place of the fixture `fmt`: the formats that hold `A`."""
    return pytest.mark.parametrize("fmt", formats_of(A, **options))


def format_fixture(A):
    """The fixture `fmt` of a module whose tests share a matrix: the formats that hold it."""

    @pytest.fixture(scope="session", params=formats_of(A))
    def fmt(request):
        return request.param

    return fmt


def pairs(cases):
    """Every case with each of the formats that hold it."""
    return [(case, fmt) for case in cases for fmt in formats_of(case)]


def each_pair(cases):
    """In place of a parameter `case` and the fixture `fmt`: every case with the formats that hold it."""
    return pytest.mark.parametrize(("case", "fmt"), pairs(cases))


def each_pair_in_turn(cases):
    """As `each_pair`, with a parameter `dtype` as well: the types take turns."""
    found = pairs(cases)
    turns = [(*pair, TYPES[number % len(TYPES)]) for number, pair in enumerate(found)]
    return pytest.mark.parametrize(("case", "fmt", "dtype"), turns, ids=str)


# What no message may hold, the vocabulary of the machinery beneath: signatures of the compiled core,
# complaints of NumPy about arrays in conditions, or of Python about operators between types.
MACHINERY = re.compile(
    "incompatible function arguments|truth value|unhashable|positional argument|has no attribute|"
    "JSON serializable|not supported between|unpack|broadcast|invalid literal|unsupported operand|"
    "int too large|too big to convert|Exceeds the limit|' object is not|must be real number|"
    "cannot convert float|argument must be|ufunc|bad argument type"
)

BYTES = re.compile(r"\d[\d,._]*(\.\d+)?\s*([KMGT]i?B|bytes|B)\b")


def check_refusal(A, fmt, message, **shape):
    """A FormatError must name what the matrix would cost and a format that does hold it."""
    assert BYTES.search(message), f"no cost in bytes in: {message}"
    others = [name for name in sg.formats() if name != fmt and re.search(rf"\b{name}\b", message)]
    assert others, f"no other format in: {message}"
    for name in others:
        sg.aslinearoperator(A, format=name, device="cpu", **shape)


def build(A, fmt, device="cpu", **options):
    """The operator of `A` in a format, which must hold it: see `formats_of`."""
    return sg.aslinearoperator(A, format=fmt, device=device, **options)


def assert_multiplies(op, A):
    """`op` multiplies as `A` does, overwrites whatever was in the result, and gives the same bits again."""
    x = vector(A.shape[1], A.dtype)
    y = op.spmv(x, out=poisoned(A.shape[0], A.dtype))
    assert_product(y, A, x)
    np.testing.assert_array_equal(op.spmv(x, out=poisoned(A.shape[0], A.dtype)), y)


def assert_same_entries(B, A):
    """`B` stores what the canonical matrix `A` stores, to the bit, in the same order."""
    assert B.shape == A.shape
    np.testing.assert_array_equal(B.indptr, A.indptr)
    np.testing.assert_array_equal(B.indices, A.indices)
    np.testing.assert_array_equal(B.data, A.data)
    assert B.data.tobytes() == A.data.astype(B.dtype).tobytes()  # signs of zeros and payloads of NaN too


def poisoned(shape, dtype):
    """An output array full of NaN: whatever is not overwritten shows."""
    return np.full(shape, np.nan, dtype=dtype)


def allowed_values(option):
    """The allowed values of one entry of sg.format_options() that can be tried one by one."""
    allowed = option["allowed"]
    return list(allowed) if isinstance(allowed, (list, tuple, range)) else [option["default"]]


# As in pyproject.toml, for a fresh interpreter: warnings of the package and of the code itself are errors.
STRICT_WARNINGS = r"""import warnings
warnings.filterwarnings("error", module=r"(__main__|spmvgpu)(\.|$)")
for announcement in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
    warnings.simplefilter("default", announcement)
warnings.filterwarnings("default", message="there is no profile of")  # of most GPUs
"""


def run_python(code, *, check=True, **environment):
    """Run code in a fresh interpreter with STRICT_WARNINGS; a variable set to None is removed.

    Returns
    -------
    subprocess.CompletedProcess
        With `stdout` and `stderr` as text.
    """
    variables = {**os.environ, **{name: value for name, value in environment.items() if value is not None}}
    for name in (name for name, value in environment.items() if value is None):
        variables.pop(name, None)
    command = [sys.executable, "-c", STRICT_WARNINGS + textwrap.dedent(code)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300, check=False)
    if check and done.returncode != 0:
        raise AssertionError(f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def resident_bytes():
    """Resident memory of this process; skips where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        pytest.skip("needs /proc/self/statm")


def free_device_bytes(device):
    """Free memory of a device, as the product reports it."""
    return next(info.memory_free for info in sg.devices() if info.name == device)


def explained(op):
    """What an operator explains of itself, with lines joined that were wrapped."""
    return re.sub(r"\n {2,}", " ", op.explain())


def shipped_profile(name):
    """The content of a profile of the package."""
    return json.loads((Path(sg.__file__).parent / "profiles" / name).read_text())


def write_profile(path, shipped="generic-cpu.json", **changes):
    """A shipped profile with changes as a file, by default for this CPU; gives the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(shipped_profile(shipped) | {"device": sg.devices()[0].model} | changes))
    return path
