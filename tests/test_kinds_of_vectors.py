"""Whatever stands for a vector is taken wherever one is given: one table of kinds and of places."""

import array
import inspect
import warnings
from collections import deque

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import spmvgpu as sg
from support import over

N = 24
A = sp.csr_array(sg.gallery.poisson1d(N) + 0.5 * sp.eye_array(N))
VALUES = np.arange(1.0, N + 1)  # which every kind holds without loss


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


def of(library, make):
    """A kind that needs a library."""
    return lambda values: make(pytest.importorskip(library), values)


def of_h5py(h5py, values):
    """A dataset of a file in memory, which the dataset keeps open."""
    file = h5py.File("kinds.h5", "w", driver="core", backing_store=False)
    return file.create_dataset("b", data=values)


def of_jax(jax, values):
    jax.config.update("jax_enable_x64", True)
    return jax.device_put(values, jax.devices("cpu")[0])


KINDS = {
    "ndarray": lambda values: values,
    "list": lambda values: values.tolist(),
    "tuple": lambda values: tuple(values.tolist()),
    "range": lambda values: range(1, N + 1),
    "deque": lambda values: deque(values.tolist()),
    "array": lambda values: array.array("d", values),
    "memoryview": lambda values: memoryview(values),
    "convertible": Convertible,
    "interface": Interface,
    "unmasked": lambda values: np.ma.masked_array(values, mask=False),
    "float16": lambda values: values.astype(np.float16),
    "int8": lambda values: values.astype(np.int8),
    "longdouble": lambda values: values.astype(np.longdouble),
    "big_endian": lambda values: values.astype(">f8"),
    "series": of("pandas", lambda pandas, values: pandas.Series(values, index=range(N, 0, -1))),
    "nullable": of("pandas", lambda pandas, values: pandas.Series(values, dtype="Float64")),
    "sparse_series": of("pandas", lambda pandas, values: pandas.Series(pandas.arrays.SparseArray(values))),
    "index": of("pandas", lambda pandas, values: pandas.Index(values)),
    "data_array": of("xarray", lambda xarray, values: xarray.DataArray(values, dims="node")),
    "dataset": of("h5py", of_h5py),
    "jax": of("jax", of_jax),
    "bfloat16": of("jax", lambda jax, values: of_jax(jax, values).astype("bfloat16")),
    "torch": of("torch", lambda torch, values: torch.from_numpy(values.copy())),
}
COLUMNS = {
    "matrix": lambda values: values.view(np.matrix).T,
    "column": lambda values: values[:, None],
    "nested": lambda values: values[:, None].tolist(),
    "frame": of("pandas", lambda pandas, values: pandas.DataFrame({"b": values})),
    "data_array_2d": of("xarray", lambda xarray, values: xarray.DataArray(values[:, None])),
}
MOVE_NOT = ("jax", "bfloat16", "torch")  # with an operator on a GPU they are to be there

SOLVERS = [sg.linalg.cg, sg.linalg.bicgstab, sg.linalg.gmres, sg.linalg.minres]


def solved(op, b, **options):
    outcomes = []
    for solve in SOLVERS:
        x, info = solve(op, b, rtol=1e-10, maxiter=100, **options)
        assert info == 0
        outcomes.append(np.asarray(x))
    return np.concatenate(outcomes)


def updated(op, data):
    op = op.copy()
    op.update_values(data)
    return op.toarray()


def preconditioned(op, x):
    """Products with preconditioners of every class, and with an adjoint."""
    M = [sg.linalg.jacobi(op), sg.linalg.ilu0(op), sg.linalg.chebyshev(op), sg.linalg.amg(op)]
    if op.device == "cpu":
        M += [sg.linalg.splu(op), sg.linalg.splu(op).H]
    return np.concatenate([np.asarray(some @ x).reshape(-1) for some in (*M, 2 * M[0] + M[1])])


PLACES = {
    "op @ x": lambda op, x: op @ x,
    "op.dot(x)": lambda op, x: op.dot(x),
    "op * x": lambda op, x: op * x,
    "op(x)": lambda op, x: op(x),
    "matvec": lambda op, x: op.matvec(x),
    "rmatvec": lambda op, x: op.rmatvec(x),
    "b": lambda op, x: solved(op, x),
    "x0": lambda op, x: solved(op, VALUES, x0=x),
    "M @ x": preconditioned,
    "M": lambda op, x: solved(op, VALUES, M=x),
    "b, x0 and M": lambda op, x: solved(op, x, x0=x, M=x),
    "b of SciPy's matrix": lambda op, x: solved(A, x),
    "b of a foreign operator": lambda op, x: solved(spla.aslinearoperator(A), x),
    "inverse_diagonal": lambda op, x: sg.linalg.Jacobi(x) @ VALUES,
}


@over("kind", [*KINDS, *COLUMNS])
@pytest.mark.parametrize("place", PLACES)
def test_taken_everywhere(kind, place, device):
    if device != "cpu" and kind in MOVE_NOT:
        pytest.skip("arrays of this kind are to be on the operator's device")
    given = {**KINDS, **COLUMNS}[kind](VALUES)
    use = PLACES[place]
    op = sg.aslinearoperator(A, device=device)
    expected = use(op, VALUES)
    tolerance = 1e-10 if place.startswith("op") or "mat" in place else 1e-6
    result = use(op, given)
    np.testing.assert_allclose(np.asarray(result).reshape(-1), expected, rtol=tolerance)
    if kind not in MOVE_NOT:
        assert type(result) is np.ndarray


@over("kind", KINDS)
def test_taken_for_values(kind, device):
    """As many values as the matrix has entries, of a type that the operator's holds."""
    op = sg.aslinearoperator(np.diag(VALUES) + 0.0, device=device)
    if device != "cpu" and kind in MOVE_NOT:
        pytest.skip("arrays of this kind are to be on the operator's device")
    if kind == "longdouble":
        with pytest.raises(TypeError, match=r"longdouble|float128"):
            op.update_values(KINDS[kind](VALUES))
        return
    op.update_values(KINDS[kind](2 * VALUES if kind != "range" else VALUES))
    np.testing.assert_array_equal(op.diagonal(), VALUES if kind == "range" else 2 * VALUES)


@over("kind", [kind for kind in KINDS if kind not in MOVE_NOT])
def test_taken_for_vectors_in_pieces(kind, device):
    op = sg.aslinearoperator(A, device=[device, "cpu"], powers=[1, 1])
    np.testing.assert_array_equal(op.distribute(KINDS[kind](VALUES)).collect(), VALUES)


MANY = {
    "ndarray": lambda X: X,
    "list": lambda X: X.tolist(),
    "matrix": lambda X: X.view(np.matrix),
    "frame": of("pandas", lambda pandas, X: pandas.DataFrame(X)),
    "data_array": of("xarray", lambda xarray, X: xarray.DataArray(X)),
    "dataset": of("h5py", of_h5py),
    "convertible": Convertible,
}


@over("kind", MANY)
def test_columns(kind, device):
    X = np.random.default_rng(3).uniform(-1, 1, (N, 3))
    op = sg.aslinearoperator(A, device=device)
    for result in (op @ MANY[kind](X), op.matmat(MANY[kind](X)), op.rmatmat(MANY[kind](X))):
        assert type(result) is np.ndarray
        np.testing.assert_allclose(result, A @ X, rtol=1e-12, atol=1e-14)
    Y = np.ones((N, 1))
    expected = eigenvalues(op, X, Y)
    for given in (eigenvalues(op, MANY[kind](X), Y), eigenvalues(op, X, MANY[kind](Y))):
        np.testing.assert_allclose(given, expected)


def eigenvalues(op, X, Y):
    """Rayleigh-Ritz in two steps, beside Y; that it does not converge is no matter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sg.linalg.lobpcg(op, X, Y=Y, maxiter=2)[0]


# What is refused, in the same words everywhere

NO_VECTORS = {
    "text": ("abc", TypeError, "str"),
    "bytes": (b"abc", TypeError, "bytes"),
    "dict": ({"b": 1.0}, TypeError, "dict"),
    "set": ({1.0, 2.0}, TypeError, "set"),
    "generator": ((value for value in VALUES), TypeError, "generator"),
    "operator": (spla.aslinearoperator(A), TypeError, "LinearOperator"),
    "ragged": ([[1.0], [1.0, 2.0]], ValueError, "list, which NumPy cannot convert to an array"),
    "texts": (["a"] * N, TypeError, "dtype <U1"),
    "objects": (VALUES.astype(object), TypeError, "dtype object"),
    "times": (VALUES.astype("m8[s]"), TypeError, "dtype timedelta64"),
    "masked": (np.ma.masked_equal(VALUES, 3.0), TypeError, r"masked array with masked entries.*\.filled"),
    "length": (VALUES[:-1].tolist(), ValueError, rf"shape \({N - 1},\)"),
    "row": (VALUES.view(np.matrix), ValueError, rf"shape \(1, {N}\)"),
}
SPARSE = {
    "vector": sp.coo_array(VALUES),
    "column": sp.csc_matrix(VALUES[:, None]),
}


@over("wrong", NO_VECTORS)
@over("place", ["op @ x", "matvec", "b", "x0", "values"])
def test_refused_everywhere(wrong, place, device):
    given, error, message = NO_VECTORS[wrong]
    if place in ("op @ x", "matvec") and wrong == "operator":
        return  # which is composed, as in SciPy
    op = sg.aslinearoperator(A if place != "values" else np.diag(VALUES), device=device)
    use = {**PLACES, "values": updated}[place]
    if inspect.isgenerator(given):
        given = (value for value in VALUES)
    with pytest.raises(error, match=message):
        use(op, given)


@over("kind", SPARSE)
def test_sparse_vectors_are_no_right_hand_sides(kind, device):
    op = sg.aslinearoperator(A, device=device)
    name = type(SPARSE[kind]).__name__
    for where, use in (
        ("b", lambda b: sg.linalg.cg(op, b)),
        ("x0", lambda x0: sg.linalg.cg(op, VALUES, x0)),
        ("X", lambda X: sg.linalg.lobpcg(op, X)),
        ("x", op.matvec),
        ("data", op.update_values),
        ("inverse_diagonal", sg.linalg.Jacobi),
    ):
        with pytest.raises(TypeError, match=rf"^{where} is a sparse {name}.*{where}\.toarray\(\)"):
            use(SPARSE[kind])


def test_vectors_that_stay_where_they_are(device):
    """`spmv` and `set_x` use memory as it is, and say how to give some."""
    op = sg.aslinearoperator(A, format="csr_m", device=device)
    for use in (op.spmv, op.set_x, lambda out: op.spmv(VALUES, out=out)):
        with pytest.raises(TypeError, match=r"not list; .*such as numpy.asarray\(\w+, 'float64'\)"):
            use(VALUES.tolist())


# What SciPy's functions take as sparse, as a matrix


class Duck:
    """A sparse matrix of another library, which must not be made dense."""

    def __init__(self, matrix, *names):
        self.shape = matrix.shape
        for name in names:
            setattr(self, name, lambda: sp.csc_matrix(matrix))

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("it would be dense")


MATRICES = {
    "tocsr": lambda: Duck(A, "tocsr"),
    "to_scipy_sparse": lambda: Duck(A, "to_scipy_sparse"),
    "both": lambda: Duck(A, "tocsr", "to_scipy_sparse"),
    "sparse_frame": lambda: pytest.importorskip("pandas").DataFrame.sparse.from_spmatrix(A),
    "frame": lambda: pytest.importorskip("pandas").DataFrame(A.toarray()),
    "list": lambda: A.toarray().tolist(),
    "np_matrix": lambda: A.toarray().view(np.matrix),
    "jax": lambda: of_jax(pytest.importorskip("jax"), A.toarray()),
    "torch": lambda: pytest.importorskip("torch").from_numpy(A.toarray()),
    "operator": lambda: sg.aslinearoperator(A, device="cpu"),
}


@over("kind", MATRICES)
def test_kinds_of_matrices(kind, device):
    op = sg.aslinearoperator(MATRICES[kind](), device=device)
    np.testing.assert_array_equal(op.toarray(), A.toarray())
    expected = sg.linalg.cg(A, VALUES, rtol=1e-10)[0]
    for x, info in (
        sg.linalg.cg(MATRICES[kind](), VALUES, rtol=1e-10),
        sg.linalg.cg(op, VALUES, rtol=1e-10, M=Duck(0.4 * sp.eye_array(N), "tocsr")),
        sg.linalg.cg(op, VALUES, rtol=1e-10, M=(0.4 * np.eye(N)).tolist()),
    ):
        assert info == 0
        np.testing.assert_allclose(x, expected, rtol=1e-8)
    X = np.random.default_rng(3).uniform(-1, 1, (N, 2))
    np.testing.assert_allclose(eigenvalues(MATRICES[kind](), X, None), eigenvalues(A, X, None))


def test_complex_lists_are_complex(device):
    x, info = sg.linalg.gmres([[2.0, 1j], [0.0, 4.0]], [2 + 1j, 4.0], rtol=1e-12)
    assert info == 0
    np.testing.assert_allclose(x, [1.0, 1.0])


def test_what_only_says_that_it_is_sparse():
    duck = Duck(A)
    duck.tocsr = lambda: A.toarray()
    with pytest.raises(TypeError, match="Duck converts itself to a ndarray"):
        sg.aslinearoperator(duck, device="cpu")


def test_operands_that_are_sparse_for_others(device):
    op = sg.aslinearoperator(A, device=device)
    for made in (op @ Duck(A, "tocsr"), Duck(A, "to_scipy_sparse") @ op, op.matmat(Duck(A, "tocsr"))):
        assert isinstance(made, sp.csr_array)
        np.testing.assert_allclose(made.toarray(), (A @ A).toarray())
