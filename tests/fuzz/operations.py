"""The steps of the state machine: what one does with operators, and what it must give."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

import spmvgpu as sg
from spmvgpu import linalg
from support import explained, poisoned

from .cases import REFUSED
from .draw import CONTAINERS, LAYOUTS, Triplets, contained, format_choice, laid_out, maybe, pick, triplets
from .machine import Entry, Machine, NotThereError, small_numbers
from .model import Model

#: The operations, and how often each is drawn, relative to the others.
OPERATIONS: dict[Callable[[Machine], None], float] = {}

TYPES = ["f4", "f8", "F", "D"]
WIDTHS = [0, 1, 2, 3, 8, 33]
LARGEST_DENSE = 100  # rows of matrices whose preconditioners are found column by column


def operation(weight: float) -> Callable[[Callable[[Machine], None]], Callable[[Machine], None]]:
    """Enter the function as a step."""

    def enter(function: Callable[[Machine], None]) -> Callable[[Machine], None]:
        OPERATIONS[function] = weight
        return function

    return enter


def is_operator(entry: Entry) -> bool:
    return entry.is_operator


def is_spread(entry: Entry) -> bool:
    return isinstance(entry.op, sg.MultiDeviceOperator)


def is_square(entry: Entry) -> bool:
    return entry.model.shape[0] == entry.model.shape[1]


def is_solvable(entry: Entry) -> bool:
    """Whether solvers take it, and converge fast."""
    if not (entry.is_operator and entry.model.is_dominated):
        return False
    return entry.op.device == "cpu" or entry.op.options.get("gather") != "host"


# Matrices


def mirrored(rng: np.random.Generator, A: sp.csr_array, by: str) -> np.ndarray:
    """Values for the entries of a matrix: any, or symmetric or Hermitian ones, as `by` says."""
    row, col = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr)), A.indices
    if by == "general":
        return small_numbers(rng, A.nnz, A.dtype)
    pool = small_numbers(rng, 97, A.dtype)
    drawn = pool[(np.minimum(row, col) * 31 + np.maximum(row, col)) % pool.size]
    if by == "hermitian" and A.dtype.kind == "c":
        drawn = drawn.real + 1j * np.sign(col - row) * drawn.imag
    return drawn.astype(A.dtype)


def drawn_matrix(rng: np.random.Generator) -> tuple[sp.csr_array, str]:
    """A canonical matrix, and what it is: general, symmetric or Hermitian."""
    by = pick(rng, ["general", "symmetric", "hermitian"])
    shape = pick(rng, [*[None] * 8, (0, 0), (1, 1), (1, 9), (9, 1), (0, 7), (7, 0), (40, 40)])
    dtype = np.dtype(pick(rng, TYPES))
    if shape is not None and (by == "general" or shape[0] == shape[1]):
        A = sp.csr_array(shape, dtype=dtype)
        if shape[0] * shape[1] and maybe(rng, 0.5):
            A = sp.csr_array(np.ones(shape, dtype))
    else:
        entries = triplets(rng, by != "general", dtype)
        A = sp.coo_array((entries.data, (entries.row, entries.col)), shape=entries.shape).tocsr()
    A.sum_duplicates()
    A.data = mirrored(rng, A, by)
    if A.shape[0] == A.shape[1] and maybe(rng, 0.5):
        A = sp.csr_array(A - sp.diags_array(A.diagonal()))
        around = np.maximum(*(np.asarray(abs(A).sum(axis=axis)) for axis in (0, 1)))
        A = sp.csr_array(A + sp.diags_array(np.ceil(2 * around) + 1), dtype=dtype)
        A.sum_duplicates()
    return A, by


def drawn_device(machine: Machine) -> dict[str, Any]:
    """One device or several; two parts at least may lie on one of them."""
    rng, device = machine.rng, machine.device
    if maybe(rng, 0.6):
        return {"device": device if maybe(rng, 0.8) else "cpu"}
    several = [device, "cpu", device][: int(rng.integers(1, 4))] if maybe(rng, 0.5) else [device] * 2
    given = {"device": several, "powers": rng.integers(1, 4, len(several)).tolist()}
    return {**given, "partition": pick(rng, ["nnz", "rows", "pmf"])}


def declared_as(rng: np.random.Generator, A: sp.csr_array, by: str) -> Any:
    """What may be said of a matrix."""
    if by == "general" or A.shape[0] != A.shape[1]:
        return pick(rng, [None, False])
    real = A.dtype.kind != "c"
    is_both = [True] * (by == "symmetric" or real) + ["hermitian"] * (by == "hermitian" or real)
    return pick(rng, [None, False, *is_both])


@operation(6)
def build(machine: Machine) -> None:
    rng = machine.rng
    A, by = drawn_matrix(rng)
    declared = declared_as(rng, A, by)
    given: dict[str, Any] = {**drawn_device(machine), "symmetric": declared, "tune": "off"}
    way = pick(rng, ["auto", "partitioned", "named", "named", "named"])
    if way == "named":
        given |= format_choice(rng)
    elif way == "partitioned":
        given["format"] = way
    is_free = isinstance(given["device"], str) and way != "partitioned"
    if A.shape[0] == A.shape[1] and is_free and maybe(rng, 0.4):
        given["reorder"] = pick(rng, ["rcm", "clusters", "columns", "auto", False])
    handed: Any = A
    if declared is True and maybe(rng, 0.4):
        given["symmetric"] = side = pick(rng, ["lower", "upper"])
        handed = sp.csr_array(sp.tril(A) if side == "lower" else sp.triu(A))
    elif maybe(rng, 0.3):  # every entry twice, as two halves
        handed = sp.vstack([A, A]).tocoo()
        handed = sp.coo_array((handed.data / 2, (handed.row % max(A.shape[0], 1), handed.col)), shape=A.shape)
    elif maybe(rng, 0.4):
        whole = A.tocoo()
        entries = Triplets(whole.row, whole.col, whole.data, A.shape)
        handed, shape = contained(rng, entries, pick(rng, CONTAINERS))
        given |= {"dtype": A.dtype, **shape}
    machine.say(f"{A.shape} of {A.nnz} entries, {by}, {given}")
    op = machine.attempt(sg.aslinearoperator, handed, errors=sg.FormatError, **given)
    if op is not REFUSED:
        machine.add(op, Model.of(A), declared)


# Of one operator


@operation(5)
def turn(machine: Machine) -> None:
    """Transposed, conjugated, or both."""
    entry = machine.pick()
    name = pick(machine.rng, ["T", "H", "transpose", "adjoint"] + ["conj"] * entry.is_operator)
    machine.say(name)
    try:
        made = getattr(entry.op, name)
        made = made() if callable(made) and not isinstance(made, sp.linalg.LinearOperator) else made
        made.matvec(np.zeros(made.shape[1], made.dtype))
    except NotImplementedError:
        assert not entry.is_operator
        return
    conjugated = name in ("H", "adjoint", "conj")
    model = entry.model.conjugated() if name == "conj" else entry.model.transposed(conjugated)
    machine.add(made, model, entry.declared)


def drawn_factor(rng: np.random.Generator) -> Any:
    number = pick(rng, [2, -1, 0.5, -3.0, 1, 0, 1j, -2j, 1 + 1j, 2 + 0j])
    kinds = [complex, np.complex64, np.complex128]
    if not isinstance(number, complex):
        kinds = [float, np.float32, np.float64] + [int, np.int64] * (number != 0.5)
    return pick(rng, kinds)(number)


@operation(5)
def multiply_by_number(machine: Machine) -> None:
    entry, factor = machine.pick(), drawn_factor(machine.rng)
    way = pick(machine.rng, ["left", "right", "minus", "over"])
    machine.say(f"{way} {factor!r}")
    if way == "minus":
        return machine.add(-entry.op, entry.model.times(-1), entry.declared)
    if way == "over":
        if factor == 0 or not entry.is_operator or (np.iscomplexobj(factor) and entry.op.dtype.kind != "c"):
            raise NotThereError
        inverse = np.clongdouble(1) / np.clongdouble(factor)
        inverse = inverse if np.iscomplexobj(factor) else inverse.real
        return machine.add(entry.op / factor, entry.model.times(inverse), entry.declared)
    made = entry.op * factor if way == "right" else factor * entry.op
    return machine.add(made, entry.model.times(factor), entry.declared)


@operation(4)
def take_part(machine: Machine) -> None:
    entry, rng = machine.pick(is_operator), machine.rng

    def key(length: int) -> Any:
        first, end = sorted(rng.integers(0, length + 1, 2).tolist())
        some = rng.integers(0, length, int(rng.integers(0, 6))) if length else np.empty(0, int)
        chosen = rng.random(length) < 0.5
        return pick(rng, [slice(first, end), slice(None, None, 2), slice(None), some, chosen])

    rows, cols = key(entry.model.shape[0]), key(entry.model.shape[1])
    if not isinstance(rows, slice) and not isinstance(cols, slice):
        cols = slice(None)
    machine.say(f"[{rows!r}, {cols!r}]")
    machine.add(entry.op[rows, cols], entry.model.part(rows, cols))


@operation(4)
def copy_it(machine: Machine) -> None:
    """Copies of every sort, on other devices, and in other formats."""
    entry, rng = machine.pick(is_operator), machine.rng
    op = entry.op
    ways: dict[str, Callable[[], Any]] = {
        "copy": op.copy,
        "copy.copy": lambda: copy.copy(op),
        "deepcopy": lambda: copy.deepcopy(op),
        "pickle": lambda: pickle.loads(pickle.dumps(op, int(rng.integers(2, 6)))),
        "to": lambda: op.to(drawn_device(machine)["device"]),
        "again": lambda: sg.aslinearoperator(op, **format_choice(rng), device=machine.device, tune="off"),
        "as it is": lambda: sg.aslinearoperator(op),
    }
    way = pick(rng, list(ways))
    machine.say(way)
    made = machine.attempt(ways[way], errors=sg.FormatError)
    if made is not REFUSED:
        machine.add(made, entry.model, entry.declared)


@operation(3)
def change_type(machine: Machine) -> None:
    entry, dtype = machine.pick(is_operator), np.dtype(pick(machine.rng, TYPES))
    machine.say(dtype.name)
    errors = TypeError if entry.op.dtype.kind == "c" and dtype.kind != "c" else ()
    made = machine.attempt(entry.op.astype, dtype, maybe(machine.rng, 0.5), errors=errors)
    assert (made is REFUSED) == bool(errors)
    if made is not REFUSED:
        assert made.dtype == dtype
        machine.add(made, entry.model.in_type(dtype), entry.declared)


@operation(4)
def update(machine: Machine) -> None:
    """New values of one operator, and of no other."""
    refusing = maybe(machine.rng, 0.1)

    def takes_own_values(entry: Entry) -> bool:
        """Block Jacobi takes those of the matrix that it was made of."""
        return is_operator(entry) and not isinstance(entry.op, linalg.BlockJacobiOperator)

    entry = machine.pick(lambda entry: takes_own_values(entry) and is_spread(entry) == refusing)
    rng = machine.rng
    op, now = entry.op, entry.model.exact
    stored = op.tocsr()
    ways = ["scaled"]
    if entry.declared in (None, False):
        ways += ["general", "symmetric", "hermitian"]
    elif entry.model.is_hermitian and entry.declared == "hermitian":
        ways += ["hermitian", "wrong"]
    elif now.shape[0] == now.shape[1] and abs(now - now.T).sum() == 0:
        ways += ["symmetric"]
    way = pick(rng, ways)
    by = "general" if way == "wrong" else way
    values = stored.data * pick(rng, [2, 0.5, -1, 1]) if way == "scaled" else mirrored(rng, stored, by)
    new = sp.csr_array((values.astype(op.dtype), stored.indices, stored.indptr), shape=stored.shape)
    machine.say(way)
    errors: tuple[Any, ...] = (TypeError,) * refusing
    if way == "wrong":
        errors += (ValueError,)
    elif way != "scaled":  # a format for symmetric matrices, or for rows that repeat
        errors += (sg.FormatError,)
    if way != "scaled" and op.format in ("partitioned", "parts"):
        errors += (TypeError,)
    given = laid_out(new.data, pick(rng, ["C", "strided", "read-only"]))
    done = machine.attempt(op.update_values, given, errors=errors)
    if done is not REFUSED:
        entry.model = Model.of(new)
        machine.check_all()


@operation(1)
def declare_x(machine: Machine) -> None:
    """Of csr_m, x that is gathered once."""
    refusing = maybe(machine.rng, 0.1)
    entry = machine.pick(lambda entry: is_operator(entry) and (entry.op.format != "csr_m") == refusing)
    x = small_numbers(machine.rng, entry.model.shape[1], entry.op.dtype)
    if machine.attempt(entry.op.set_x, x, errors=TypeError) is not REFUSED:
        for _ in range(2):
            entry.model.check_product(entry.op @ x, x)
        entry.check(machine.rng)
        entry.op.set_x(None)


# Of two


def like(entry: Entry, rows: int, cols: int) -> bool:
    return entry.model.shape == (rows, cols)


@operation(4)
def add_up(machine: Machine) -> None:
    a = machine.pick()
    b = machine.pick(lambda entry: like(entry, *a.model.shape))
    sign = pick(machine.rng, [1, -1])
    machine.say("+" if sign > 0 else "-")
    made = a.op + b.op if sign > 0 else a.op - b.op
    machine.add(made, a.model.plus(b.model, sign), "composed")


@operation(4)
def multiply(machine: Machine) -> None:
    a = machine.pick()
    b = machine.pick(lambda entry: entry.model.shape[0] == a.model.shape[1])
    machine.add(pick(machine.rng, [a.op @ b.op, a.op.dot(b.op)]), a.model.after(b.model), "composed")


@operation(2)
def raise_to_power(machine: Machine) -> None:
    entry, exponent = machine.pick(is_square), int(machine.rng.integers(1, 4))
    machine.say(f"** {exponent}")
    model = entry.model
    for _ in range(exponent - 1):
        model = model.after(entry.model)
    machine.add(entry.op**exponent, model, "composed")


@operation(2)
def multiply_sparse(machine: Machine) -> None:
    entry, rng = machine.pick(is_operator), machine.rng
    inner = entry.model.shape[pick(rng, [0, 1])]
    B = np.where(rng.random((inner, 5)) < 0.3, small_numbers(rng, 5 * inner, "f8").reshape(inner, 5), 0)
    B = sp.csr_array(B)
    other = Model.of(B)
    if entry.model.shape[1] == inner:
        entry.model.after(other).check_entries(entry.op @ B)
    if entry.model.shape[0] == inner:
        other.transposed().after(entry.model).check_entries(sp.csr_array(B.T) @ entry.op)


# Products


@operation(10)
def product(machine: Machine) -> None:
    """With operands of many types and layouts, by every name."""
    entry, rng = machine.pick(), machine.rng
    op, model = entry.op, entry.model
    rows, cols = model.shape
    adjoint = maybe(rng, 0.4)
    length, columns = rows if adjoint else cols, None
    if maybe(rng, 0.5):
        columns = pick(rng, WIDTHS[not entry.is_operator :])  # of SciPy's operators not none
    dtype = pick(rng, [op.dtype, op.dtype, "i4", "f4", "f8", "D"] if entry.is_operator else [op.dtype])
    x = small_numbers(rng, length * (1 if columns is None else columns), dtype)
    x = laid_out(x if columns is None else x.reshape(length, columns), pick(rng, LAYOUTS))
    if entry.is_operator and columns is None and length and not adjoint and maybe(rng, 0.1):
        machine.say("a list")
        return model.check_product(np.asarray(op @ x.tolist()), x)
    ways: dict[str, Callable[[], Any]]
    if adjoint:
        ways = {"H": lambda: op.H @ x, "T": lambda: op.T @ x, "x @": lambda: x.T @ op}
        ways["rmatvec"] = lambda: op.rmatvec(x) if columns is None else op.rmatmat(x)
    else:
        ways = {"@": lambda: op @ x, "dot": lambda: op.dot(x), "*": lambda: op * x}
        ways["matvec"] = lambda: op.matvec(x) if columns is None else op.matmat(x)
    way = pick(rng, list(ways))
    machine.say(f"{way} with {x.dtype} {x.shape}")
    try:
        y = ways[way]()
    except NotImplementedError:
        assert adjoint
        assert not entry.is_operator
        return
    if way == "x @":
        y = y.T
    turned = model if not adjoint else model.transposed(conjugated=way in ("rmatvec", "H"))
    if entry.is_operator:
        assert y.dtype == np.result_type(op.dtype, x.dtype.newbyteorder("="))
    turned.check_product(y, x)


@operation(5)
def scaled_product(machine: Machine) -> None:
    entry, rng = machine.pick(is_operator), machine.rng
    rows, cols = entry.model.shape
    columns = pick(rng, WIDTHS) if maybe(rng, 0.4) else None
    factors = [0.0, 1.0, -1.0, 0.5] + [1j, 2 - 1j] * (entry.op.dtype.kind == "c")
    alpha, beta = pick(rng, factors), pick(rng, factors)

    def array(length: int) -> np.ndarray:
        if columns is None:
            return small_numbers(rng, length, entry.op.dtype)
        numbers = small_numbers(rng, length * columns, entry.op.dtype).reshape(length, columns)
        return np.array(numbers, order=pick(rng, "CF"))

    x, start = array(cols), array(rows)
    out = start.copy(order="K") if beta else np.full_like(start, poisoned(1, entry.op.dtype)[0])
    machine.say(f"alpha={alpha}, beta={beta}, {x.shape}")
    assert entry.op.spmv(x, out=out, alpha=alpha, beta=beta) is out
    entry.model.check_product(out, x, alpha, beta, start)


@operation(1)
def distributed_product(machine: Machine) -> None:
    entry = machine.pick(lambda entry: is_spread(entry) and is_square(entry))
    x = small_numbers(machine.rng, entry.model.shape[1], entry.op.dtype)
    here = machine.attempt(entry.op.vector, x, errors=ValueError)
    if here is not REFUSED:
        entry.model.check_product((entry.op @ here).collect(), x)


# Questions


@operation(4)
def ask(machine: Machine) -> None:
    entry, rng = machine.pick(is_operator), machine.rng
    op, model = entry.op, entry.model
    entry.check_entries()
    assert op.nnz == entry.pattern.nnz
    assert " ".join(sg.SparseOperator.__repr__(op).split()) in explained(op)  # of block_jacobi too
    assert op.nbytes > 0 or not op.nnz  # a dense array gives no zeros
    model.check_entries(sp.csr_array(op.toarray()))
    k = int(rng.integers(-3, 4))
    ones = np.ones(model.shape[1], op.dtype)
    if min(model.shape) > abs(k):
        close(op.diagonal(k), model.exact.diagonal(k), model)
        close(op.trace(k), model.exact.diagonal(k).sum(), model)
    model.check_product(op.sum(axis=1), ones)
    close(op.sum(axis=0), np.asarray(model.exact.sum(axis=0)), model)
    close(op.sum(), model.exact.sum(), model)


def close(found: Any, expected: Any, model: Model) -> None:
    """Fail unless these are the same but for the roundings of sums of the whole matrix."""
    allowed = 100 * model.roundings * np.finfo(model.coarsest).eps * model.size.sum()
    assert np.shape(found) == np.shape(expected)
    assert (np.abs(found - expected) <= allowed).all(), f"{found} in place of {expected}"


# Solvers


@operation(6)
def precondition(machine: Machine) -> None:
    """A preconditioner, which is a linear map: what its columns are, it stays."""
    entry = machine.pick(lambda entry: is_solvable(entry) and entry.model.shape[0] <= LARGEST_DENSE)
    of_hermitian = ["jacobi", "chebyshev", "ic0"] if entry.model.is_hermitian else []
    name = pick(machine.rng, ["block_jacobi", "ilu0", *of_hermitian])
    machine.say(name)
    M = machine.attempt(getattr(linalg, name), entry.op)
    if M is REFUSED:
        return
    columns = np.column_stack([M @ column for column in np.eye(M.shape[1], dtype=M.dtype)])
    if isinstance(M, sg.SparseOperator):  # with entries that can be changed
        return machine.add(M, Model.of(M.tocsr()))
    return machine.add(M, Model.of_dense(columns.astype(M.dtype), 30))


def is_preconditioner(entry: Entry, of: Entry, definite: bool) -> bool:
    """Whether a solver gets better with it, or at least no worse than it has to bear."""
    fits = entry.model.shape == of.model.shape and entry.op.dtype == of.op.dtype
    if not fits or entry.model.shape[0] > LARGEST_DENSE or is_spread(entry):
        return False
    P = entry.model.dense()
    if definite:
        if not np.allclose(P, P.conj().T, atol=1e-4 * np.abs(P).max()):
            return False
        # The preconditioned matrix has to be one that the precision allows to solve with.
        most = min(1e3, 1e-2 / np.finfo(of.op.dtype).eps / np.linalg.cond(of.model.dense()))
        values = np.linalg.eigvalsh(P)
        return bool(values[0] > 0 and values[-1] < most * values[0])
    product, near = P @ of.model.dense(), np.eye(len(P), dtype=P.dtype)
    near *= np.trace(product) / len(product)
    return bool(np.linalg.norm(product - near, 2) < 0.9 * np.abs(near[0, 0]))


@operation(9)
def solve(machine: Machine) -> None:
    """Systems that are easy: what a solver says that it solved is solved, and it solves them."""
    entry, rng = machine.pick(is_solvable), machine.rng
    op, definite = entry.op, entry.model.is_hermitian
    name = pick(rng, ["gmres", "bicgstab", *["cg", "minres"] * definite])
    M = None
    if maybe(rng, 0.5):
        found = [other for other in machine.entries if is_preconditioner(other, entry, definite)]
        M = pick(rng, found) if found else None
    b = small_numbers(rng, op.shape[0], op.dtype)
    single = np.finfo(op.dtype).eps > 1e-10
    rtol = pick(rng, [1e-2, 1e-4] if single else [1e-3, 1e-9])
    machine.say(f"{name} to {rtol}, M = {M and f'#{M.number}'}")
    arguments = {"rtol": rtol, "M": M and M.op}
    errors = () if M is None else (TypeError, ValueError)
    result = machine.attempt(getattr(linalg, name), op, b, errors=errors, **arguments)
    if result is REFUSED:
        return
    x, info = result
    assert x.dtype == op.dtype
    assert info == 0 or name == "bicgstab", f"info {info}"
    if info == 0:
        wide = entry.model.exact @ x.astype(np.clongdouble)
        rounding = 100 * np.finfo(op.dtype).eps * (entry.model.size @ np.abs(x))
        residual = np.sqrt((np.abs(b - wide) ** 2).sum())
        assert residual <= 2 * rtol * np.linalg.norm(b) + np.sqrt((rounding**2).sum()), f"residual {residual}"
    machine.check_all()
