"""Every door of the table in doors.py takes, gives and refuses what the table says."""

import inspect
import re
import warnings
from contextlib import nullcontext
from fnmatch import filter as matching
from fnmatch import fnmatchcase
from functools import cache
from importlib.util import find_spec

import numpy as np
import pytest

from doors import (
    BOTH,
    COLUMN,
    DOORS,
    FLAT,
    LEFT_OUT,
    MANY,
    MATRICES,
    NAMES,
    OPERATORS,
    PLAIN,
    VALUES,
    VECTORS,
    WITHOUT_ENTRIES,
    N,
    need,
    of_jax,
    of_torch,
    op,
    place_of,
)
from support import nightly
from test_docstrings import attribute, public

DENSE = PLAIN.toarray()


def numbers(array):
    """As NumPy's; of any library, on any device."""
    if type(array).__module__ == "torch":
        array = array.detach().cpu().resolve_conj().resolve_neg()
    return np.asarray(array.get() if type(array).__module__.startswith("cupy") else array)


def library_of(array):
    root = type(array).__module__.partition(".")[0]
    return {"jaxlib": "jax"}.get(root, root)


def call(door, A, b, on):
    """What comes of a door. JAX puts arrays of NumPy on its default device."""
    library = need(door.library) if door.library else None
    with library.default_device(place_of(on)) if door.library == "jax" else nullcontext():
        return door.call(A, b, on)


def shape_name(array):
    return FLAT if array.ndim == 1 else COLUMN if array.shape[1] == 1 else MANY


def a_matrix(door, on):
    return op(PLAIN, on) if door.A == "an operator" else PLAIN


@cache
def multiple(name, on):
    """The matrix that a door multiplies right-hand sides by."""
    door = DOORS[name]
    if door.means is not None:
        return door.means(DENSE)
    A, basis = a_matrix(door, on), np.eye(N)
    if FLAT in door.shapes:
        return np.stack([numbers(call(door, A, e, on)) for e in basis], axis=1)
    return numbers(call(door, A, basis, on))


def assert_close(found, expected, tolerance=1e-7):
    found, expected = numbers(found), np.asarray(expected)
    scale = np.abs(expected).max(initial=1e-300)
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale)


def check_cells(door, kinds, check):
    """Try kinds one after the other, and tell of all that fail."""
    failed, skipped = [], 0
    for kind in kinds:
        try:
            check(kind)
        except pytest.skip.Exception:
            skipped += 1
        except (Exception, pytest.fail.Exception) as error:
            failed.append(f"{door}: {kind} fails: {type(error).__name__}: {error}"[:600])
    assert not failed, "\n".join(failed)
    if skipped == len(kinds):
        pytest.skip(f"no kind can be tried with {door}")


DRAWN = [name for name, door in DOORS.items() if "plot." in door.of]  # which takes long


@pytest.mark.parametrize(
    "name", [*(name for name, door in DOORS.items() if door.A and name not in DRAWN), *nightly(DRAWN)]
)
def test_matrices(name, device):
    door = DOORS[name]
    vector = VALUES
    if door.library:
        vector = (of_torch(lambda x: x) if door.library == "torch" else of_jax)(VALUES, device)

    def check(kind_name):
        kind = MATRICES[kind_name]
        plain = PLAIN if kind.plain is None else kind.plain
        given = kind.make(plain, device)
        message = door.refuses.get(kind_name)
        if message is None and door.is_real and kind_name.startswith("complex"):
            message = "imaginary|complex"
        is_taken = kind_name in door.takes
        if message is None and door.A != "products" and kind_name in WITHOUT_ENTRIES and not is_taken:
            message = "entries|operator"
        if message is None and kind.error is None and door.A == "an operator":
            message = None if kind_name in OPERATORS or is_taken else "operator|SparseOperator"
        if message is not None or (kind.error is not None and kind_name not in door.takes):
            with pytest.raises(kind.error if message is None else BOTH, match=message or kind.words):
                call(door, given, vector, device)
            return
        result = call(door, given, vector, device)
        if kind.error is None:
            assert_close(result, expected(1 if plain is PLAIN else 2), kind.tolerance)

    @cache
    def expected(multiple_of_plain):
        matrix = multiple_of_plain * PLAIN
        if door.means is not None and door.b in ("operand", "right"):
            return door.means(matrix.toarray()) @ VALUES
        return numbers(call(door, matrix, vector, device))

    check_cells(name, MATRICES, check)


# What messages advise of a vector.
ADVICE = {".toarray()": lambda x: x.toarray(), ".filled(value)": lambda x: x.filled(1.0)}


@pytest.mark.parametrize("name", [name for name, door in DOORS.items() if door.b])
def test_vectors(name, device):
    door = DOORS[name]
    A = a_matrix(door, device)

    def check(kind_name):
        kind = VECTORS[kind_name]
        if device == "cpu" and kind.library == "cupy":
            pytest.skip("arrays of CuPy are on a GPU, and never beside an operator on the CPU")
        plain = VALUES if kind.plain is None else kind.plain
        given = kind.make(plain, device)
        refusal = refused(door, kind_name, plain, given)
        is_on_gpu = device != "cpu" and kind.library in ("torch", "jax", "cupy")
        if is_on_gpu and door.on_host and kind.error is None:
            refusal = BOTH, "GPU|has shape"
        if is_on_gpu and door.as_it_is and kind_name == "tensor, negative":  # without a copy
            refusal = BOTH, "contiguous"
        if refusal is not None:
            error, words = refusal
            with pytest.raises(error, match=words) as caught:
                call(door, A, given, device)
            for advice, follow in ADVICE.items():
                if advice in str(caught.value) and shape_name(followed := follow(given)) in door.shapes:
                    call(door, A, followed, device)
            return
        before = np.array(plain)
        result = call(door, A, given, device)
        if kind.error is None:
            check_result(kind_name, plain, result)
            np.testing.assert_array_equal(plain, before)

    def check_result(kind_name, plain, result):
        kind = VECTORS[kind_name]
        if door.b in ("operand", "right"):
            expected = multiple(name, device) @ plain
            assert result.shape in (plain.shape, plain.shape[: 1 if door.b == "right" else None])
        elif door.b == "values":
            expected = plain
        else:
            reference = {"torch": of_torch(lambda x: x), "jax": of_jax}.get(door.library)
            expected = numbers(call(door, A, reference(VALUES, device) if reference else plain, device))
        assert_close(numbers(result).reshape(np.shape(expected)), expected)
        if door.b != "values":
            assert library_of(result) == (door.library or (kind.library if door.b != "guess" else "numpy"))
            assert numbers(result).dtype == result_type(door, kind_name, plain)

    check_cells(name, VECTORS, check)


def result_type(door, kind_name, plain):
    """Of products that of NumPy's promotion; solutions are of double precision, eigenvalues real."""
    if door.b == "operand":
        return np.result_type(float, plain.dtype, np.longdouble if kind_name == "longdouble" else float)
    return np.dtype(complex if door.b == "right" and plain.dtype.kind == "c" else float)


def refused(door, kind_name, plain, given):
    """The error and the words with which a door refuses a kind of vector, or None."""
    kind = VECTORS[kind_name]
    if kind_name in door.refuses:
        return BOTH, door.refuses[kind_name]
    if kind_name in door.takes:
        return None
    if (
        door.library
        and kind.library != door.library
        and not (door.library == "jax" and is_plain(kind, given))
    ):
        return BOTH, f"(?i){door.library}|tensor|has shape|{kind.words or 'array'}"
    if kind.error is not None:
        if door.as_it_is or FLAT not in door.shapes:  # another reason may come first
            return BOTH, f"{kind.words}|used where it lies|has shape"
        return kind.error, kind.words
    if shape_name(plain) not in door.shapes:
        other = "|contiguous|used where it lies" if door.as_it_is else ""
        return BOTH, re.escape(str(plain.shape)) + other
    if door.as_it_is and not (kind.as_it_is and plain.dtype == float):
        return BOTH, "dtype|contiguous|used where it lies"
    if plain.dtype.kind == "c" and (door.is_real or door.b == "guess"):
        return TypeError, "complex"
    return None


def is_plain(kind, given):
    """Whether this is an array of NumPy's that JAX takes for one of its own."""
    is_array = isinstance(given, np.ndarray) and kind.error is None
    return is_array and given.dtype.isnative and given.dtype != np.longdouble


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("b", ["operand", "right", "guess", "start"])
def test_numbers_that_are_not_finite(b, value, device):
    """They reach the result of a product. Solvers say that they are there, and give no numbers for them."""

    def check(name):
        door, x = DOORS[name], VALUES.copy()
        x[N // 2] = value
        if door.library:
            x = (of_torch(lambda x: x) if door.library == "torch" else of_jax)(x, device)
        if COLUMN in door.shapes and FLAT not in door.shapes:
            x = x[:, None]
        said = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                result = numbers(call(door, a_matrix(door, device), x, device))
            except (ValueError, RuntimeError) as error:  # LinAlgError is a ValueError
                said.append(str(error))
        said += [str(warning.message) for warning in caught]
        assert re.search("NaN|[Ff]inite", " ".join(said)) or not np.isfinite(result).all()

    check_cells(f"{value}", [name for name, door in DOORS.items() if door.b == b], check)


def gradient_of(function, x):
    if library_of(x) == "jax":
        jax = need("jax")
        with jax.default_device(next(iter(x.devices()))):  # where gradients of sums are
            return jax.grad(function)(x)
    function(x.requires_grad_()).backward()
    return x.grad


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_gradients(library, device):
    """Who wants a gradient gets it, or an error; nobody gets a result without one."""
    pytest.importorskip(library)

    def check(name):
        door = DOORS[name]
        A, flat = a_matrix(door, device), FLAT in door.shapes
        x = (of_torch(lambda x: x) if library == "torch" else of_jax)(
            VALUES if flat else VALUES[:, None], device
        )
        try:
            gradient = gradient_of(lambda x: call(door, A, x, device).sum(), x)
        except (TypeError, ValueError) as error:
            said = str(error)
        else:
            assert_close(numbers(gradient).reshape(N), multiple(name, device).sum(axis=0))
            return
        assert re.search(rf"gradient|spmvgpu\.{library}|trace", said), said

    differentiable = [
        name
        for name, door in DOORS.items()
        if (door.b in ("operand", "right") or "update" in name) and door.b and door.library in ("", library)
    ]
    check_cells(f"gradient of {library}", differentiable, check)


def parameters():
    """What public functions take of matrices and vectors, as "function.parameter"."""
    for name in sorted(set(public())):
        try:
            signature = inspect.signature(attribute(name))
        except ValueError:
            continue
        yield from (f"{name}.{parameter}" for parameter in signature.parameters if parameter in NAMES)


def test_every_parameter_has_a_door():
    patterns = [pattern for door in DOORS.values() for pattern in door.of.split()] + list(LEFT_OUT)
    found = list(parameters())
    assert [name for name in found if not any(fnmatchcase(name, p) for p in patterns)] == []
    if find_spec("torch") and find_spec("jax"):  # else some functions are not there
        assert [p for p in LEFT_OUT if not matching(found, p)] == []
