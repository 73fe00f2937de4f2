"""The table of doors: what public functions may be given, and what must come of it. test_doors.py tries it.

A new public function that takes a matrix or a vector first enters DOORS, or LEFT_OUT with a reason.
"""

from __future__ import annotations

import array
import contextlib
import io
import uuid
from collections import deque
from collections.abc import Callable
from tempfile import TemporaryDirectory
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import spmvgpu as sg
from libraries import OnlyDlpack
from spmvgpu import cli, linalg, matrix_io, partition, plot
from support import ignoring

N = 24
A = sp.csr_array(sg.gallery.poisson1d(N) + 0.5 * sp.eye_array(N))  # symmetric and positive definite
PLAIN = A
VALUES = np.arange(1.0, N + 1)  # which every kind of vector holds without loss
COLUMNS = np.outer(VALUES, [1.0, 0.0, -2.0]) + np.eye(N)[:, :3]
START = np.random.default_rng(1).standard_normal((N, 3))
PHASE = 1 + 2j
HALVES = {"u": slice(0, N // 2), "p": slice(N // 2, N)}


def need(library):
    return pytest.importorskip(library, reason=f"{library} is not installed")


class Kind(NamedTuple):
    """A kind of matrix or vector, and what comes of it."""

    make: Callable[[Any, str], Any]  # of a plain one, on a device
    plain: Any = None  # VALUES or A, unless it is said
    library: str = "numpy"  # of the result for a vector
    error: Any = None  # in place of a result
    words: str = ""  # of the error
    as_it_is: bool = False  # whether a vector needs no conversion where an operator of float64 is
    tolerance: float = 1e-7


def refused(make, error, words):
    return Kind(make, error=error, words=words)


BOTH = (TypeError, ValueError)


# Matrices ---------------------------------------------------------------------------------------------------


def unsorted_with_duplicates(A, on):
    """The entries of each row from right to left, each in two halves."""
    rows, cols = (np.repeat(coords, 2) for coords in sp.coo_array(A).coords)
    order = np.lexsort((-cols, rows))
    return sp.csr_array(((np.repeat(A.data, 2) / 2)[order], cols[order], 2 * A.indptr), shape=A.shape)


def read_only(array):
    array.flags.writeable = False
    return array


def with_values(change):
    return lambda A, on: sp.csr_array((change(A.data.copy()), A.indices, A.indptr), shape=A.shape)


class Duck:
    """A sparse matrix of another library, which must not be made dense."""

    def __init__(self, A, name):
        self.shape = A.shape
        setattr(self, name, lambda: sp.csc_matrix(A))

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("it would be dense")


def tensor_of(A, on, layout="csr"):
    torch, coo = need("torch"), sp.coo_array(A)
    with ignoring():  # that these tensors are new
        tensor = torch.sparse_coo_tensor(np.stack(coo.coords), coo.data, A.shape).coalesce()
        return getattr(tensor, f"to_sparse_{layout}")().to(on)


def jax_sparse(kind):
    def make(A, on):
        with need("jax").default_device(place_of(on)):
            return getattr(need("jax.experimental.sparse"), kind).from_scipy_sparse(sp.csr_matrix(A))

    return make


def cupy_sparse(kind):
    def make(A, on):
        sparse = need("cupyx.scipy.sparse")
        return getattr(sparse, f"{kind}_matrix")(sparse.csr_matrix(sp.csr_matrix(A)))

    return make


FORMATS = ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")
MATRICES = {
    **{f"{f}_array": Kind(lambda A, on, f=f: getattr(sp, f"{f}_array")(A)) for f in FORMATS},
    **{f"{f}_matrix": Kind(lambda A, on, f=f: getattr(sp, f"{f}_matrix")(A)) for f in FORMATS},
    "int64 indices": Kind(
        lambda A, on: sp.csr_array((A.data, A.indices.astype("i8"), A.indptr.astype("i8")), A.shape)
    ),
    "unsorted with duplicates": Kind(unsorted_with_duplicates),
    "byte-swapped": Kind(with_values(lambda data: data.astype(">f8"))),
    "read-only": Kind(with_values(read_only)),
    "float32": Kind(lambda A, on: A.astype(np.float32), tolerance=1e-4),
    "int": Kind(lambda A, on: A.astype(int), 2 * A),
    "complex": Kind(lambda A, on: A.astype(complex)),
    "complex64": Kind(lambda A, on: A.astype(np.complex64), tolerance=1e-4),
    "dense": Kind(lambda A, on: A.toarray()),
    "Fortran": Kind(lambda A, on: np.asfortranarray(A.toarray())),
    "strided": Kind(lambda A, on: np.repeat(np.repeat(A.toarray(), 2, 0), 2, 1)[::2, ::2]),
    "np.matrix": Kind(lambda A, on: A.toarray().view(np.matrix)),
    "nested list": Kind(lambda A, on: A.toarray().tolist()),
    "DataFrame": Kind(lambda A, on: need("pandas").DataFrame(A.toarray())),
    "sparse DataFrame": Kind(lambda A, on: need("pandas").DataFrame.sparse.from_spmatrix(A)),
    "tocsr()": Kind(lambda A, on: Duck(A, "tocsr")),
    "to_scipy_sparse()": Kind(lambda A, on: Duck(A, "to_scipy_sparse")),
    "dense tensor": Kind(lambda A, on: need("torch").from_numpy(A.toarray()).to(on)),
    **{f"tensor, {f}": Kind(lambda A, on, f=f: tensor_of(A, on, f)) for f in ("coo", "csr", "csc")},
    "jax, dense": Kind(lambda A, on: of_jax(A.toarray(), on)),
    **{f"jax {kind}": Kind(jax_sparse(kind)) for kind in ("BCOO", "BCSR")},
    **{f"cupy {kind}": Kind(cupy_sparse(kind)) for kind in ("csr", "csc", "coo")},
    "SparseOperator": Kind(lambda A, on: op(A, on)),
    "op.T": Kind(lambda A, on: op(A.T, on).T),
    "2 * op": Kind(lambda A, on: 2 * op(A / 2, on)),
    "op of a format": Kind(lambda A, on: op(A, on, format="sell", reorder="rcm")),
    "two parts": Kind(lambda A, on: both(A, on)),
    # operators whose entries are not known
    "LinearOperator": Kind(lambda A, on: spla.aslinearoperator(A)),
    "op + op": Kind(lambda A, on: op(A / 2, on) + op(A / 2, on)),
    # refused
    "no matrix": refused(lambda A, on: None, TypeError, "None"),
    "tocsr() that is dense": refused(
        lambda A, on: SimpleNamespace(shape=A.shape, tocsr=A.toarray),
        TypeError,
        "converts itself|SimpleNamespace",
    ),
    "text": refused(lambda A, on: "A.mtx", TypeError, r"read_matrix|str\b"),
    "number": refused(lambda A, on: 3.0, TypeError, "float"),
    "object()": refused(lambda A, on: object(), TypeError, "object"),
    "arrays of CSR": refused(lambda A, on: (A.data, A.indices, A.indptr), BOTH, "shape=|tuple"),
    "1-D": refused(
        lambda A, on: VALUES.astype(np.float64), BOTH, "1 dimension|ndarray|row lengths|has shape"
    ),
    "3-D": refused(lambda A, on: np.ones((N, N, 1)), BOTH, "3 dimensions|ndarray|has shape"),
    "objects": refused(lambda A, on: A.toarray().astype(object), TypeError, "object|ndarray"),
    "ragged": refused(lambda A, on: [[1.0], [1.0, 2.0]], BOTH, "list"),
    "with gradient": refused(lambda A, on: tensor_of(A, on).requires_grad_(), BOTH, "gradient|Tensor"),
}
WITHOUT_ENTRIES = ("LinearOperator",)
OPERATORS = ("SparseOperator", "op.T", "2 * op", "op of a format", "two parts")


# Vectors ----------------------------------------------------------------------------------------------------


class Convertible:
    """What only NumPy's protocol knows."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype)


class Interface:
    """What only NumPy's older protocol knows."""

    def __init__(self, values):
        self.values = values
        self.__array_interface__ = values.__array_interface__


def unaligned(values):
    memory = np.frombuffer(b"?" + values.tobytes(), np.uint8).copy()
    return memory[1:].view(values.dtype)


class Elsewhere:
    """An array of another kind of device, or one that cannot be exported."""

    def __init__(self, kind, said=None):
        self.kind, self.said = kind, said

    def __dlpack__(self, **options):
        raise BufferError(self.said) if self.said else AssertionError("nobody may read it")

    def __dlpack_device__(self):
        return self.kind, 0


class OnlyConverts(Elsewhere):
    """A read-only array that, as NumPy's before 2.1, cannot cross DLPack, but converts."""

    def __init__(self, values):
        super().__init__(1, "read-only")
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return self.values


def of_h5py(values, on):
    name = f"{uuid.uuid4()}.h5"  # HDF5 keeps names apart, also of files in memory
    file = need("h5py").File(name, "w", driver="core", backing_store=False)
    return file.create_dataset("b", data=values)


def place_of(on):
    """A device in JAX's terms, which then has types of 64 bits."""
    jax = need("jax")
    jax.config.update("jax_enable_x64", True)
    kind, _, number = on.partition(":")
    return jax.devices(kind)[int(number or 0)]


def of_jax(values, on):
    return need("jax").device_put(values, place_of(on))


def of_torch(change):
    return lambda values, on: change(need("torch").from_numpy(values.copy()).to(on))


def of_cupy(values, on):
    with need("cupy").cuda.Device(int(on.partition(":")[2] or 0)):
        return need("cupy").asarray(values)


def in_host_memory(array, on):
    """An array that stays there, unlike those of NumPy, which go to any device."""
    if on != "cpu":
        pytest.skip(f"{type(array).__name__} is in host memory")
    return array


def numpy_kind(make, plain=None, **more):
    return Kind(lambda x, on: make(x), plain, **more)


def tensor(change, plain=None, **more):
    return Kind(of_torch(change), plain, "torch", **more)


VECTORS = {
    "ndarray": numpy_kind(lambda x: x, as_it_is=True),
    "read-only": numpy_kind(lambda x: read_only(x.copy()), as_it_is=True),
    "strided": numpy_kind(lambda x: np.repeat(x, 2)[::2]),
    "backwards": numpy_kind(lambda x: x[::-1].copy()[::-1]),
    "unaligned": numpy_kind(unaligned),
    "byte-swapped": numpy_kind(lambda x: x.astype(">f8")),
    **{
        name: numpy_kind(lambda x, name=name: x.astype(name))
        for name in ("f2", "f4", "longdouble", "i1", "i8")
    },
    "bool": numpy_kind(lambda x: x.astype(bool), VALUES > 5),
    "complex": numpy_kind(lambda x: x, PHASE * VALUES),
    "complex64": numpy_kind(lambda x: x.astype(np.complex64), PHASE * VALUES),
    "list of complex": numpy_kind(lambda x: x.tolist(), PHASE * VALUES),
    "zero": numpy_kind(lambda x: x, 0 * VALUES, as_it_is=True),
    "list": numpy_kind(lambda x: x.tolist()),
    "tuple": numpy_kind(lambda x: tuple(x.tolist())),
    "range": numpy_kind(lambda x: range(1, N + 1)),
    "deque": numpy_kind(lambda x: deque(x.tolist())),
    "array.array": numpy_kind(lambda x: array.array("d", x)),
    "memoryview": numpy_kind(memoryview),
    "__array__": numpy_kind(Convertible),
    "__array_interface__": numpy_kind(Interface),
    "only converts": Kind(lambda x, on: in_host_memory(OnlyConverts(x), on), as_it_is=True),
    "nothing masked": numpy_kind(lambda x: np.ma.masked_array(x, mask=False), as_it_is=True),
    "Series": numpy_kind(lambda x: need("pandas").Series(x, index=range(N, 0, -1))),
    "nullable Series": numpy_kind(lambda x: need("pandas").Series(x, dtype="Float64")),
    "sparse Series": numpy_kind(lambda x: need("pandas").Series(need("pandas").arrays.SparseArray(x))),
    "Index": numpy_kind(lambda x: need("pandas").Index(x)),
    "DataArray": numpy_kind(lambda x: need("xarray").DataArray(x, dims="node")),
    "HDF5": Kind(of_h5py),
    "DLPack": Kind(lambda x, on: in_host_memory(OnlyDlpack(x), on), as_it_is=True),
    "array_api_strict": Kind(
        lambda x, on: in_host_memory(need("array_api_strict").asarray(x), on),
        library="array_api_strict",
        as_it_is=True,
    ),
    "tensor": tensor(lambda x: x, as_it_is=True),
    "tensor of float32": tensor(lambda x: x.float()),
    "tensor of bfloat16": tensor(lambda x: x.bfloat16()),
    "tensor of int32": tensor(lambda x: x.int()),
    "tensor with strides": tensor(lambda x: x.repeat_interleave(2)[::2]),
    "tensor, conjugate": tensor(lambda x: x.conj_physical().conj(), PHASE * VALUES),
    "tensor, negative": tensor(lambda x: (-1j * x).conj().imag, as_it_is=True),
    "jax": Kind(of_jax, library="jax", as_it_is=True),
    "jax of bfloat16": Kind(lambda x, on: of_jax(x, on).astype("bfloat16"), library="jax"),
    "cupy": Kind(of_cupy, library="cupy", as_it_is=True),
    "cupy with strides": Kind(lambda x, on: of_cupy(np.repeat(x, 2), on)[::2], library="cupy"),
    # one column
    "column": numpy_kind(lambda x: x, VALUES[:, None], as_it_is=True),
    "nested list": numpy_kind(lambda x: x.tolist(), VALUES[:, None]),
    "np.matrix": numpy_kind(lambda x: x.view(np.matrix), VALUES[:, None], as_it_is=True),
    "DataFrame of a column": numpy_kind(lambda x: need("pandas").DataFrame(x), VALUES[:, None]),
    # columns
    "columns": numpy_kind(lambda x: x, COLUMNS, as_it_is=True),
    "Fortran": numpy_kind(np.asfortranarray, COLUMNS, as_it_is=True),
    "columns with strides": numpy_kind(lambda x: np.repeat(x, 2, 1)[:, ::2], COLUMNS, as_it_is=True),
    "lists": numpy_kind(lambda x: x.tolist(), COLUMNS),
    "DataFrame": numpy_kind(lambda x: need("pandas").DataFrame(x), COLUMNS),
    "tensor of columns": tensor(lambda x: x, COLUMNS, as_it_is=True),
    "jax, columns": Kind(of_jax, COLUMNS, "jax", as_it_is=True),
    "cupy, columns": Kind(of_cupy, COLUMNS, "cupy", as_it_is=True),
    "no columns": numpy_kind(lambda x: x, COLUMNS[:, :0], as_it_is=True),
    # refused
    "None": refused(lambda x, on: None, TypeError, "NoneType"),
    "number": refused(lambda x, on: 3.0, BOTH, r"float\b|[Ss]calar operands"),
    "text": refused(lambda x, on: "abc", TypeError, "not str"),
    "bytes": refused(lambda x, on: b"abc", TypeError, "not bytes"),
    "dict": refused(lambda x, on: {"b": 1.0}, TypeError, "dict"),
    "set": refused(lambda x, on: {1.0, 2.0}, TypeError, "set"),
    "generator": refused(lambda x, on: (value for value in x), TypeError, "generator"),
    "operator": refused(lambda x, on: spla.aslinearoperator(A), TypeError, "LinearOperator"),
    "ragged": refused(lambda x, on: [[1.0], [1.0, 2.0]], ValueError, "list, which NumPy cannot convert"),
    "texts": refused(lambda x, on: ["a"] * N, TypeError, "dtype <U1"),
    "objects": refused(lambda x, on: x.astype(object), TypeError, "dtype object"),
    "times": refused(lambda x, on: x.astype("m8[s]"), TypeError, "dtype timedelta64"),
    "masked": refused(lambda x, on: np.ma.masked_equal(x, 3.0), TypeError, r"masked entries.*\.filled"),
    **{
        f"on {name}": refused(lambda x, on, kind=kind: Elsewhere(kind), BOTH, name)
        for kind, name in ((8, "Metal"), (10, "ROCm"), (14, "oneAPI"), (99, "99"))
    },
    "no export": refused(lambda x, on: Elsewhere(1, "not today"), TypeError, "Elsewhere.*not today"),
    "too short": refused(lambda x, on: x[:-1], ValueError, rf"shape \({N - 1},\)"),
    "too long": refused(lambda x, on: np.ones(N + 1), ValueError, rf"shape \({N + 1},\)"),
    "empty": refused(lambda x, on: np.ones(0), ValueError, r"shape \(0,\)"),
    "row": refused(lambda x, on: x[None, :], ValueError, rf"shape \(1, {N}\)"),
    "3-D": refused(lambda x, on: x[:, None, None], ValueError, rf"shape \({N}, 1, 1\)"),
    "sparse": refused(lambda x, on: sp.coo_array(x), TypeError, r"sparse coo_array.*\.toarray\(\)"),
    "sparse column": refused(
        lambda x, on: sp.csc_matrix(x[:, None]), TypeError, r"sparse csc_matrix.*\.toarray\(\)"
    ),
    "sparse tensor": refused(of_torch(lambda x: x.to_sparse()), TypeError, "dense"),
    "meta tensor": refused(of_torch(lambda x: x.to("meta")), BOTH, "meta"),
}


# Doors ------------------------------------------------------------------------------------------------------

FLAT, COLUMN, MANY = "(n,)", "(n, 1)", "(n, k)"
ANY = (FLAT, COLUMN, MANY)
PRODUCTS = ("operator", "sparse", "sparse column")  # which `@` composes, or multiplies


class Door(NamedTuple):
    """A public function, called with a matrix and a vector, of which it may ignore one.

    `A` says what it needs of a matrix: "products", "entries" or "an operator"; "" if another door tries that.
    `b` says what a vector is, which decides on the type and the library of what comes out:
    "operand" (the result has the type of NumPy's promotion), "right" (a right-hand side), "guess" (of a
    solution for other right-hand sides), "start" (of eigenvectors) or "values" (of a matrix).
    """

    call: Callable[[Any, Any, str], Any]
    of: str  # the parameters that A and b are given for, with wildcards
    A: str = ""
    b: str = ""
    means: Callable[[Any], Any] | None = None  # the matrix that stands for it: a right-hand side's multiple
    shapes: tuple[str, ...] = ANY  # of vectors
    is_real: bool = False  # so that a complex vector is refused
    as_it_is: bool = False  # whether a vector is used where it lies
    takes: tuple[str, ...] = ()  # kinds that others refuse, and whose results have other tests
    refuses: Any = MappingProxyType({})  # kinds that others take, and what the message says
    library: str = ""  # whose arrays it takes and gives, and no others
    on_host: bool = False  # whether it takes arrays in host memory alone


def op(A, on, **options):
    return sg.aslinearoperator(A, device=on, **options)


def both(A, on):
    return sg.aslinearoperator(A, device=[on, "cpu"], powers=[1, 1])


def itself(A):
    return A


inverse, exponential = np.linalg.inv, scipy.linalg.expm


def direct(function, A, on, *b):
    """A function that takes a device for a matrix; operators have one."""
    if on != "cpu":
        need("nvmath")
    return function(A, *b, **({} if isinstance(A, spla.LinearOperator) else {"device": on}))


def factors(A, on):
    return direct(linalg.splu, A, on)


# What has products: how it is made, of what parameter, and the matrix that it multiplies by if that is known.
MULTIPLIERS = {
    "SparseOperator": (op, "aslinearoperator.A", itself),
    "MultiDeviceOperator": (both, "", itself),
    "op + op": (lambda A, on: op(A, on) + op(A, on), "", lambda A: 2 * A),
    "op @ op": (lambda A, on: op(A, on) @ op(A, on), "", lambda A: A @ A),
    "2 * op": (lambda A, on: 2 * op(A, on), "", lambda A: 2 * A),
    "linalg.Jacobi": (lambda A, on: linalg.jacobi(A), "linalg.jacobi.op", lambda A: inverse(A * np.eye(N))),
    "linalg.Cycle": (lambda A, on: linalg.chebyshev(A), "linalg.chebyshev.op", None),
    "linalg.BlockJacobiOperator": (lambda A, on: linalg.block_jacobi(A, 3), "linalg.block_jacobi.op", None),
    "linalg.IncompleteFactors": (lambda A, on: linalg.ic0(A), "linalg.ic0.op", inverse),
    "ilu0": (lambda A, on: linalg.ilu0(A), "linalg.ilu0.op", inverse),
    "ilu": (lambda A, on: linalg.ilu(A), "linalg.ilu.op", inverse),
    "ic": (lambda A, on: linalg.ic(A, 2), "linalg.ic.op", inverse),
    "linalg.FieldSplit": (
        lambda A, on: linalg.fieldsplit(A, HALVES, kind="full"),
        "linalg.fieldsplit.A",
        None,
    ),
    "linalg.Multigrid": (lambda A, on: linalg.amg(A, max_coarse=12), "linalg.amg.A", None),
    "linalg.DirectFactors": (lambda A, on: factors(A, on), "linalg.splu.A", inverse),
}
CALLS = {
    "@": (lambda M, b: M @ b, ANY, PRODUCTS),
    "dot": (lambda M, b: M.dot(b), ANY, (*PRODUCTS, "number")),
    "matvec": (lambda M, b: M.matvec(b), (FLAT, COLUMN), ("row",)),
    "rmatvec": (lambda M, b: M.rmatvec(b), (FLAT, COLUMN), ("row",)),
    "matmat": (lambda M, b: M.matmat(b), (COLUMN, MANY), ("sparse column",)),
    "rmatmat": (lambda M, b: M.rmatmat(b), (COLUMN, MANY), ("sparse column",)),
}
MATRIX_LIKE = (*list(MULTIPLIERS)[:5], "linalg.BlockJacobiOperator")  # what multiplies sparse matrices, too
_made: dict[Any, Any] = {}


def multiplier(name, B, on):
    """What has products, made once of the plain matrix."""
    make = MULTIPLIERS[name][0]
    if B is not PLAIN:
        return make(B, on)
    if (name, on) not in _made:
        _made[name, on] = make(B if name in MATRIX_LIKE[:2] else op(B, on), on)
    return _made[name, on]


def multiplying(name, call):
    multiply, shapes, takes = CALLS[call]
    _, of, means = MULTIPLIERS[name]
    return Door(
        lambda A, b, on: multiply(multiplier(name, A, on), b),
        of if call == "@" else f"{name}.{call}.[xX]" if name[:6] in ("Sparse", "MultiD", "linalg") else "",
        A="" if call != "@" or not of else "entries",
        b="operand",
        means=means,
        shapes=shapes,
        takes=takes if name in MATRIX_LIKE else tuple(kind for kind in takes if "sparse" not in kind),
    )


def times(b, M):
    """``b @ M``. Python asks pandas and xarray first, which do not ask M."""
    is_theirs = type(b).__module__.partition(".")[0] in ("pandas", "xarray")
    return M.__rmatmul__(b) if is_theirs else b @ M


def from_left(name):
    means = MULTIPLIERS[name][2]
    return Door(
        lambda A, b, on: times(b, multiplier(name, A, on)), "", b="operand", means=means, shapes=(FLAT,),
        takes=("row", "operator", *(("sparse",) if name != "op + op" else ())),
        refuses={"array_api_strict": "Expected Array", "sparse column": "mismatch|sparse|imension"},
    )  # fmt: skip


KRYLOV = ["cg", "bicgstab", "gmres", "minres"]
LEAST_SQUARES = {
    "lsqr": {"atol": 1e-12, "btol": 1e-12},
    "lsmr": {"atol": 1e-12, "btol": 1e-12},
    "cgls": {"rtol": 1e-12},
}
PRECISE = {**{name: {"rtol": 1e-10} for name in KRYLOV}, **LEAST_SQUARES}


def solved(name, A, b, **options):
    return getattr(linalg, name)(A, b, **PRECISE[name], **options)[0]


def of_solver(name):
    """Its doors: a right-hand side, with a matrix and with an operator, and a guess."""
    right = Door(lambda A, b, on: solved(name, A, b), f"linalg.{name}.[Ab]", "products", "right", inverse)
    return {
        f"{name}(A, b)": right,
        f"{name}(op, b)": right._replace(
            call=lambda A, b, on: solved(name, op(A, on), b), A="", is_real=True
        ),
        f"{name}(op, b, x0)": Door(
            lambda A, b, on: solved(name, op(A, on), VALUES, x0=b), f"linalg.{name}.x0", b="guess",
            shapes=(FLAT, COLUMN), is_real=True, takes=("None",),
        ),
    }  # fmt: skip


def after_two_steps(A, X, **options):
    """Eigenvalues of lobpcg, which says that it has not converged."""
    with ignoring(UserWarning):
        return linalg.lobpcg(A, X, maxiter=2, **options)[0]


def after_set_x(op, x):
    op.set_x(x)
    return None if x is None else op.spmv(x)


def assigned(vector, b):
    vector.assign(b)
    return vector


def updated(made, b):
    made.update_values(b)
    return made


def written_and_read(A, b, on):
    with TemporaryDirectory() as folder:
        matrix_io.write_matrix(f"{folder}/A.mtx", A)
        return matrix_io.read_matrix(f"{folder}/A.mtx").toarray()


def command_line(A, b, on):
    """``spmvgpu solve`` with files."""
    with TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        matrix_io.write_matrix(f"{folder}/A.mtx", A)
        np.save(f"{folder}/b.npy", VALUES)
        files = [f"{folder}/A.mtx", "--rhs", f"{folder}/b.npy", "-o", f"{folder}/x.npy"]
        assert cli.main(["solve", *files, "--device", on, "--rtol", "1e-10"]) == 0
        return np.load(f"{folder}/x.npy")


def pattern_of(library, A, on):
    need(library)
    return getattr(sg, library).MatrixPattern(A, device=on)


def drawn(draw):
    """That it can be drawn."""
    need("matplotlib").use("agg")
    draw()
    need("matplotlib.pyplot").close("all")
    return np.zeros(1)


DOORS = {
    **{f"{name} {call}": multiplying(name, call) for name in MULTIPLIERS for call in CALLS},
    **{f"x @ {name}": from_left(name) for name in ("SparseOperator", "MultiDeviceOperator", "op + op")},
    "spmv": Door(
        lambda A, b, on: op(A, on).spmv(b), "*Operator.spmv.x", b="operand", means=itself, as_it_is=True
    ),
    "set_x": Door(
        lambda A, b, on: after_set_x(op(A, on, format="csr_m"), b), "[!M]*Operator.set_x.x", b="operand",
        means=itself, as_it_is=True, shapes=(FLAT,), takes=("None",),
    ),
    "vector": Door(
        lambda A, b, on: both(A, on).vector(b).collect(), "MultiDeviceOperator.vector.x", b="values",
        shapes=(FLAT, COLUMN), is_real=True, takes=("None",), on_host=True,
    ),
    "assign": Door(
        lambda A, b, on: assigned(both(A, on).vector(), b).collect(), "MultiDeviceVector.assign.x",
        b="values", shapes=(FLAT, COLUMN), is_real=True, on_host=True,
    ),
    "cg(LinearOperator, b)": Door(
        lambda A, b, on: solved("cg", spla.aslinearoperator(A), b), "", b="right", means=inverse
    ),
    **{door: made for name in PRECISE for door, made in of_solver(name).items()},
    "cg(A, b, M)": Door(
        lambda A, b, on: solved("cg", op(PLAIN, on), VALUES, M=A), "linalg.*.M", "products",
        takes=("no matrix", "1-D"),
        refuses={
            "text": "M='A.mtx' is not allowed", "3-D": "shape", "complex": "imaginary",
            "complex64": "imaginary",
        },
    ),
    "solve": Door(
        lambda A, b, on: linalg.solve(A, b, rtol=1e-10), "linalg.solve.[Ab]", "products", "right", inverse
    ),
    "solve, x0": Door(
        lambda A, b, on: linalg.solve(A, VALUES, rtol=1e-10, x0=b), "linalg.solve.x0", b="guess",
        shapes=(FLAT, COLUMN), is_real=True, takes=("None",),
    ),
    "spsolve": Door(
        lambda A, b, on: direct(linalg.spsolve, A, on, b), "linalg.spsolve.[Ab]", "entries", "right", inverse,
        takes=("sparse", "sparse column"),
    ),
    "splu(A).solve": Door(
        lambda A, b, on: multiplier("linalg.DirectFactors", A, on).solve(b), "linalg.DirectFactors.solve.b",
        b="right", means=inverse, is_real=True,
    ),
    "expm_multiply": Door(
        lambda A, b, on: linalg.expm_multiply(A, b), "linalg.expm_multiply.[AB]", "products", "right",
        exponential,
    ),
    "expm_multiply(op, B)": Door(
        lambda A, b, on: linalg.expm_multiply(op(A, on), b), "linalg.expm_multiply.B", b="right",
        means=exponential, is_real=True,
    ),
    "eigsh": Door(
        lambda A, b, on: linalg.eigsh(A, k=3, v0=b, return_eigenvectors=False), "linalg.eigsh.[Av]*",
        "products", "start", shapes=(FLAT, COLUMN), takes=("None",), refuses={"zero": "v0 is zero"},
    ),
    "eigsh, M": Door(
        lambda A, b, on: linalg.eigsh(op(PLAIN, on), 3, A, return_eigenvectors=False), "linalg.eigsh.M",
        "products", takes=("no matrix",), refuses=dict.fromkeys(("complex", "complex64"), "imaginary"),
    ),
    "svds": Door(
        lambda A, b, on: linalg.svds(A, k=3, v0=b, return_singular_vectors=False), "linalg.svds.[Av]*",
        "products", "start", shapes=(FLAT, COLUMN), takes=("None",), refuses={"zero": "v0 is zero"},
    ),
    "lobpcg": Door(
        lambda A, b, on: after_two_steps(A, START), "linalg.lobpcg.A", "products"
    ),
    "lobpcg, B": Door(
        lambda A, b, on: after_two_steps(PLAIN, START, B=A), "linalg.lobpcg.B", "products",
        takes=("no matrix",),
    ),
    "lobpcg, M": Door(
        lambda A, b, on: after_two_steps(PLAIN, START, M=A), "linalg.lobpcg.M", "products",
        takes=("no matrix",),
    ),
    "lobpcg, X": Door(
        lambda A, b, on: after_two_steps(op(A, on), b), "linalg.lobpcg.X", b="guess", shapes=(COLUMN, MANY),
        on_host=True, refuses={"no columns": "column"},
    ),
    "lobpcg, Y": Door(
        lambda A, b, on: after_two_steps(op(A, on), START, Y=b), "linalg.lobpcg.Y", b="guess", on_host=True,
        shapes=(COLUMN, MANY), takes=("None", "no columns"),
    ),
    "op.update_values(A)": Door(
        lambda A, b, on: updated(op(3 * PLAIN, on), A).toarray(), "*Operator.update_values.data", "entries",
        is_real=True,
    ),
    "op.update_values": Door(
        lambda A, b, on: updated(op(sp.eye_array(N), on), b).diagonal(), "*Operator.update_values.data",
        b="values", shapes=(FLAT,), is_real=True,
        refuses={"longdouble": "longdouble|float128", "sparse column": "shape"},
    ),
    "splu(A).update_values(A)": Door(
        lambda A, b, on: updated(factors(3 * PLAIN, on), A).solve(VALUES),
        "linalg.DirectFactors.update_values.data", "entries", is_real=True,
    ),
    "splu(A).update_values": Door(
        lambda A, b, on: 1 / updated(factors(sp.eye_array(N), on), b).solve(np.ones(N)),
        "linalg.DirectFactors.update_values.data", b="values", shapes=(FLAT,), is_real=True,
        refuses={
            "longdouble": "longdouble|float128", "zero": "singular", "bool": "singular",
            "sparse column": "shape",
        },
    ),
    "amg(A).update_values": Door(
        lambda A, b, on: updated(linalg.amg(3 * PLAIN, max_coarse=4, device=on), A) @ VALUES,
        "linalg.Multigrid.update_values.data", "entries", is_real=True,
    ),
    "jacobi(A).update_values": Door(
        lambda A, b, on: updated(linalg.jacobi(op(3 * PLAIN, on)), A) @ VALUES,
        "linalg.Jacobi.update_values.data", "entries", is_real=True,
    ),
    "block_jacobi(A).update_values": Door(
        lambda A, b, on: updated(linalg.block_jacobi(op(3 * PLAIN, on)), A) @ VALUES,
        "linalg.BlockJacobiOperator.update_values.data", "entries", is_real=True,
    ),
    "chebyshev(A).update_values": Door(
        lambda A, b, on: updated(linalg.chebyshev(op(3 * PLAIN, on)), A) @ VALUES,
        "linalg.Cycle.update_values.data", "entries", is_real=True,
    ),
    "ic0(A).update_values": Door(
        lambda A, b, on: updated(linalg.ic0(op(3 * PLAIN, on)), A) @ VALUES,
        "linalg.IncompleteFactors.update_values.data", "entries", is_real=True,
    ),
    "fieldsplit(A).update_values": Door(
        lambda A, b, on: updated(linalg.fieldsplit(op(3 * PLAIN, on), HALVES), A) @ VALUES,
        "linalg.FieldSplit.update_values.data", "entries", is_real=True,
    ),
    "Jacobi": Door(
        lambda A, b, on: linalg.Jacobi(b).inverse_diagonal, "linalg.Jacobi.inverse_diagonal", b="values",
        shapes=(FLAT, COLUMN), takes=("too short", "too long", "empty"),
    ),
    "torch.matmul": Door(
        lambda A, b, on: sg.torch.matmul(A, b), "torch.matmul.*", "an operator", "operand", itself,
        library="torch", takes=("op + op",),
    ),
    "torch.solve": Door(
        lambda A, b, on: sg.torch.solve(A, b, rtol=1e-10), "torch.solve.[Ab]", "products", "right", inverse,
        library="torch",
    ),
    "torch.solve of an operator": Door(
        lambda A, b, on: sg.torch.solve(op(A, on), b, rtol=1e-10), "", b="right", means=inverse,
        library="torch", is_real=True,
    ),
    **{
        f"{name}.eigsh": Door(
            lambda A, b, on, name=name: getattr(sg, name).eigsh(A, 3)[0], f"{name}.eigsh.A", "products",
            library=name,
        )
        for name in ("torch", "jax")
    },
    **{
        f"{name}.eigsh, M": Door(
            lambda A, b, on, name=name: getattr(sg, name).eigsh(op(PLAIN, on), 3, A)[0], f"{name}.eigsh.M",
            "products", library=name, takes=("no matrix",),
            refuses=dict.fromkeys(("complex", "complex64"), "imaginary"),
        )
        for name in ("torch", "jax")
    },
    "torch pattern": Door(
        lambda A, b, on: pattern_of("torch", A, on).matmul(pattern_of("torch", A, on).values, b),
        "torch.MatrixPattern.A torch.MatrixPattern.matmul.x", "entries", "operand", itself, library="torch",
    ),
    "torch.solve, x0": Door(
        lambda A, b, on: sg.torch.solve(op(A, on), of_torch(itself)(VALUES, on), "cg", x0=b, rtol=1e-10),
        "torch.solve.x0", b="guess", library="torch", shapes=(FLAT, COLUMN), is_real=True, takes=("None",),
    ),
    "torch pattern, values": Door(
        lambda A, b, on: pattern_of("torch", sp.eye_array(N), on).matmul(b, of_torch(itself)(np.ones(N), on)),
        "torch.MatrixPattern.*.values", b="values", library="torch", shapes=(FLAT,),
        refuses=dict.fromkeys(("tensor of bfloat16", "tensor of int32"), "dtype"),
    ),
    "jax pattern, values": Door(
        lambda A, b, on: pattern_of("jax", sp.eye_array(N), on).matmul(b, of_jax(np.ones(N), on)),
        "jax.MatrixPattern.*.values", b="values", library="jax", shapes=(FLAT,),
        refuses=dict.fromkeys(("jax of bfloat16", "f2", "i1", "i8", "bool"), "dtype"),
    ),
    "jax.solve, x0": Door(
        lambda A, b, on: sg.jax.solve(op(A, on), of_jax(VALUES, on), "cg", x0=b, rtol=1e-10), "jax.solve.x0",
        b="guess", library="jax", shapes=(FLAT, COLUMN), is_real=True, takes=("None",),
    ),
    "jax.solve": Door(
        lambda A, b, on: sg.jax.solve(A, b, rtol=1e-10), "jax.solve.[Ab]", "products", "right", inverse,
        library="jax",
    ),
    "jax.solve of an operator": Door(
        lambda A, b, on: sg.jax.solve(op(A, on), b, rtol=1e-10), "", b="right", means=inverse, library="jax",
        is_real=True,
    ),
    "jax pattern": Door(
        lambda A, b, on: pattern_of("jax", A, on).matmul(pattern_of("jax", A, on).values, b),
        "jax.MatrixPattern.A jax.MatrixPattern.matmul.x", "entries", "operand", itself, library="jax",
    ),
    "torch pattern.values_of": Door(
        lambda A, b, on: pattern_of("torch", PLAIN, on).values_of(A), "torch.MatrixPattern.values_of.A",
        "entries",
    ),
    "jax pattern.values_of": Door(
        lambda A, b, on: pattern_of("jax", PLAIN, on).values_of(A), "jax.MatrixPattern.values_of.A",
        "entries",
    ),
    "estimate": Door(lambda A, b, on: [sg.estimate(A, "csr")["padding"]], "estimate.A", "entries"),
    "predict": Door(lambda A, b, on: [len(sg.predict(A, on))], "predict.A", "entries"),
    **{
        name: Door(
            lambda A, b, on, name=name: getattr(partition, name)(A, [1, 2]).storage(8),
            f"partition.{name}.A", "entries",
        )
        for name in ("by_nnz", "by_rows", "by_pmf", "by_submatrices")
    },
    "pmf": Door(lambda A, b, on: partition.pmf(A), "partition.pmf.A", "entries"),
    "row_lengths": Door(lambda A, b, on: partition.row_lengths(A), "partition.row_lengths.A", "entries"),
    "separator": Door(
        lambda A, b, on: [partition.separator(A, on).positions[1]], "partition.separator.A", "entries"
    ),
    "write_matrix": Door(written_and_read, "matrix_io.write_matrix.A", "entries"),
    "command line": Door(command_line, "", "entries"),
    "spy": Door(lambda A, b, on: drawn(lambda: plot.spy(A)), "plot.spy.A", "entries"),
    "layout": Door(lambda A, b, on: drawn(lambda: plot.layout(A, "csr")), "plot.layout.A", "entries"),
    "plot.row_lengths": Door(
        lambda A, b, on: drawn(lambda: plot.row_lengths(A)), "plot.row_lengths.A", "entries"
    ),
    "partition_rows": Door(
        lambda A, b, on: drawn(lambda: plot.partition_rows(A, {"nnz": partition.by_nnz(PLAIN, [1, 2])})),
        "plot.partition_rows.A", "entries",
    ),
}  # fmt: skip

# Parameters of public functions that stand for a matrix or for vectors, and those that have no door.
NAMES = {"A", "B", "M", "Minv", "OPinv", "X", "Y", "b", "data", "inverse_diagonal", "ml", "new", "op", "out"}
NAMES |= {"v0", "values", "x", "x0", "A_local", "x_local", "b_local"}
LEFT_OUT = {
    "distributed.*": "ranks call these together: tests/distributed/check_doors.py",
    "BatchedOperator.*": "arrays of more dimensions: test_batch.py",
    "aslinearoperator.values": "values of a batch: test_batch.py",
    "*Operator.spmv.out": "memory that is written: test_errors_products.py has what is refused",
    "*Operator.distribute.x": "the old name of vector",
    "MultiDeviceOperator.set_x.x": "always refused: test_multi.py",
    "linalg.amg.B": "vectors of the near null space, from a function that computes them: test_multigrid.py",
    "linalg.aspreconditioner.ml": "hierarchies of pyamg, whose matrices are CSR: test_multigrid.py",
    "linalg.eigsh.*inv": "operators alone: test_eigsh.py",
    "linalg.DirectFactors.op": "made by splu",
    "linalg.fieldsplit.M": "a dict of what solvers take for M: test_fieldsplit.py",
    "linalg.Multigrid.A": "made by amg",
    "plot.*.op": "operators of one format",
    "*.eigsh.*values": "as of the products with a pattern",
    "*.solve.values": "as of the products with a pattern",
    "*.solve.M": "as of the solvers",
}
