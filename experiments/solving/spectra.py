"""Spectra, least squares and exponentials beside SciPy and CuPy, from the SciPy matrix on."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.fft
import scipy.sparse as sp
import scipy.sparse.linalg as sla

import spmvgpu as sg
from experiments.clock import timed
from experiments.engine import Run
from experiments.peers.problem import Problem, WrongResultError
from experiments.records import Row
from spmvgpu import gallery, linalg

from . import libraries, systems
from .systems import Array, System

EIGENVALUES, VIBRATIONS = "eigenvalues", "vibrations"
LEAST_SQUARES, EXPONENTIAL = "least squares", "exponential"
COUNT, MODES = 6, 10
TIME = 10.0  # of the heat equation, in squares of the distance between points
TOL = 1e-8  # of eigenvalues and of least squares
ACCURACY = 1e-5  # of what is returned: the residual over the norm of the matrix
LONGEST = 30.0  # seconds of another library's loop
MOST_ITERATIONS = 5000  # of least squares
SOLID_DIRECT = 50_000  # rows of a 3-D grid up to which SciPy's factors are made
FACTORS_OF_SOLID = 300.0  # seconds that SciPy takes at least for 100,000 rows of a 3-D grid
REPEATS = 3
SECONDS = 3.0


class Way(NamedTuple):
    """How a library does it.

    Attributes
    ----------
    library, variant, device : str
    call : callable
        From a largest number of iterations, or of restarts, to a result.
    check : callable
        From a result to its error; it raises if that is too large.
    pace : int
        Limit for a first, short call, so that `LONGEST` bounds the time. 0: it needs no bound.
    seconds : float or str
        Least time that it needs, or the reason why it is left out.
    """

    library: str
    variant: str
    device: str
    call: Callable[[int], Any]
    check: Callable[[Any], float]
    pace: int = 0
    seconds: float | str = 0.0


def eigenvalues(run: Run, problem: Problem) -> Iterator[Row]:
    """The largest eigenvalues, and by shift the smallest."""
    system = systems.system_of(problem, systems.EIGENVALUES, run.options.seed)
    check = partial(_check_pairs, system.A)
    own = "gpu" if run.on_gpu else "cpu"
    shift = {"sigma": 0.0, "inner": "cg", "preconditioner": "amg"}
    rows, dim = system.A.shape[0], system.kind.dim
    factors: float | str = 40.0 * float(rows / 1e6) ** 1.5
    if dim == 3 and rows > SOLID_DIRECT:
        factors = f"left out beyond {SOLID_DIRECT:,} rows of a 3-D grid: SciPy's factors are large"
    ways = [
        Way("spmvgpu", "largest", own, lambda most: _ours(run, system.A, which="LA"), check),
        Way("spmvgpu", "smallest", own, lambda most: _ours(run, system.A, **shift), check),
        Way("scipy", "largest", "cpu", lambda most: _arpack(system.A, most, which="LA"), check, 2),
        Way("scipy", "smallest", "cpu", lambda most: _arpack(system.A, most, sigma=0.0), check,
            seconds=factors),
        Way("pyamg", "smallest", "cpu", lambda most: _arpack_with_pyamg(system.A), check,
            seconds=2e-4 * rows),
        Way("cupy", "largest", "gpu", lambda most: _cupy_eigsh(system.A, most, "LA"), check, 40),
        Way("cupy", "smallest", "gpu", lambda most: _cupy_eigsh(system.A, most, "SA"), check, 40),
    ]  # fmt: skip
    yield from _rows(run, system, EIGENVALUES, ways)


def vibrations(run: Run, problem: Problem) -> Iterator[Row]:
    """The lowest modes of an elastic block with its consistent mass matrix."""
    system = systems.system_of(problem, systems.VIBRATIONS, run.options.seed)
    A, rows = system.A, system.A.shape[0]
    M = gallery.elasticity3d_mass(round((rows / 3) ** (1 / 3)))
    check, own = partial(_check_modes, A, M), "gpu" if run.on_gpu else "cpu"
    options: dict[str, Any] = {"k": MODES, "sigma": 0.0}

    def ours(most: int, **how: Any) -> tuple[Array, Array]:
        w, v = linalg.eigsh(sg.aslinearoperator(A, device=run.device), M=M, tol=TOL, **options, **how)
        return w, v

    def scipys(most: int) -> tuple[Array, Array]:
        v0 = np.random.default_rng(0).standard_normal(rows)
        w, v = sla.eigsh(sp.csc_array(A), M=sp.csc_array(M), tol=TOL, v0=v0, **options)
        return w, v

    factors: float | str = 0.0
    if run.on_gpu and "cudss" in libraries.missing(True):
        factors = "left out without cuDSS, as the factors are SciPy's then"
    ways = [
        Way("spmvgpu", "direct", own, partial(ours, inner="direct"), check, seconds=factors),
        Way("spmvgpu", "multigrid", own, partial(ours, inner="cg", preconditioner="amg"), check),
        Way("scipy", "direct", "cpu", scipys, check, seconds=FACTORS_OF_SOLID * (rows / 1e5) ** 2),
    ]
    yield from _rows(run, system, VIBRATIONS, ways)


def least_squares(run: Run, problem: Problem) -> Iterator[Row]:
    """The solvers of least squares, and singular values of the same matrix."""
    system = systems.system_of(problem, systems.LEAST_SQUARES, run.options.seed)
    A, b = system.A, system.b
    check, own = partial(_check_least_squares, A, b), "gpu" if run.on_gpu else "cpu"
    tolerances = {"atol": TOL, "btol": TOL, "conlim": 0.0}

    def ours(name: str, most: int) -> tuple[Array, int | None]:
        op = sg.aslinearoperator(A, device=run.device)
        if name == "cgls":
            return linalg.cgls(op, b, rtol=TOL, maxiter=MOST_ITERATIONS)[0], None
        limit = {"iter_lim" if name == "lsqr" else "maxiter": MOST_ITERATIONS}
        x, _, iterations, *_ = getattr(linalg, name)(op, b, **tolerances, **limit)
        return x, iterations

    def scipys(name: str, most: int) -> tuple[Array, int]:
        limit = {"iter_lim" if name == "lsqr" else "maxiter": most or MOST_ITERATIONS}
        x, _, iterations, *_ = getattr(sla, name)(A, b, **tolerances, **limit)
        return x, iterations

    def cupys(name: str, most: int) -> tuple[Array, int]:
        import cupy
        from cupyx.scipy.sparse import csr_matrix
        from cupyx.scipy.sparse.linalg import lsmr

        G = csr_matrix(sp.csr_matrix(A))
        x, _, iterations, *_ = lsmr(
            G, cupy.asarray(b), maxiter=most or MOST_ITERATIONS, **{**tolerances, "conlim": 1e300}
        )
        return cupy.asnumpy(x), int(iterations)

    ways = [Way("spmvgpu", name, own, partial(ours, name), check) for name in ("lsmr", "lsqr", "cgls")]
    ways += [Way("scipy", name, "cpu", partial(scipys, name), check, 10) for name in ("lsmr", "lsqr")]
    ways += [Way("cupy", "lsmr", "gpu", partial(cupys, "lsmr"), check, 10)]
    values = partial(_check_values, A)
    ways += [
        Way("spmvgpu", "svds", own, lambda most: _our_svds(run, A), values),
        Way("scipy", "svds", "cpu", lambda most: _svds(A, most), values, 2),
        Way("cupy", "svds", "gpu", lambda most: _cupy_svds(A, most), values, 40),
    ]
    yield from _rows(run, system, LEAST_SQUARES, ways)


def exponential(run: Run, problem: Problem) -> Iterator[Row]:
    """The heat equation until a time."""
    system = systems.system_of(problem, systems.HEAT, run.options.seed)
    A, b = -TIME * system.A, system.b
    check, own, least = partial(_check_heat, b), "gpu" if run.on_gpu else "cpu", 2e-6 * A.shape[0]

    def ours(most: int) -> Array:
        found: Array = linalg.expm_multiply(sg.aslinearoperator(A, device=run.device), b)
        return found

    ways = [
        Way("spmvgpu", "expm_multiply", own, ours, check),
        Way("scipy", "expm_multiply", "cpu", lambda most: sla.expm_multiply(A, b), check, seconds=least),
    ]
    yield from _rows(run, system, EXPONENTIAL, ways)


def _rows(run: Run, system: System, part: str, ways: list[Way]) -> Iterator[Row]:
    missing = libraries.missing(run.on_gpu)
    for way in ways:
        what = {"part": part, "matrix": system.name, "library": way.library, "variant": way.variant}
        if way.library in missing:
            continue  # which the record says once for all
        if isinstance(way.seconds, str):
            run.record.skip(way.seconds, **what)
        elif run.fits(way.seconds, **what):
            with run.noted(**what), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of loops that end early, to see how fast they are
                yield {**_timed(way), "part": part, **system.case, "device": way.device, **what}


def _timed(way: Way) -> Row:
    """Times of a way; fewer samples where one takes long."""
    most = 0
    if way.pace:
        least, _ = timed(partial(_quietly, way.call, 1))
        seconds, _ = timed(partial(_quietly, way.call, 1 + way.pace))
        most = max(10, int(LONGEST * way.pace / max(seconds - least, 1e-6)))
    samples: list[float] = []
    while not samples or (len(samples) < REPEATS and sum(samples) < SECONDS):
        with sg.cache.empty():
            try:
                seconds, result = timed(partial(way.call, most))
            except sla.ArpackNoConvergence as slow:
                raise WrongResultError(f"no result within {LONGEST:.0f} s") from slow
        samples.append(seconds)
    try:
        error = way.check(result)
    except WrongResultError as wrong:
        if not way.pace:
            raise
        raise WrongResultError(f"no result within {LONGEST:.0f} s: {wrong}") from wrong
    found = {"iterations": result[1]} if isinstance(result[1], int) else {}
    return {"time_us": round(1e6 * min(samples), 1), "samples": len(samples), "error": error, **found}


def _quietly(call: Callable[[int], Any], most: int) -> None:
    """A call that is to end before it has a result."""
    try:
        call(most)
    except sla.ArpackNoConvergence:
        return


# -- calls ---------------------------------------------------------------------------------------------------


def _ours(run: Run, A: sp.csr_array, **options: Any) -> tuple[Array, Array]:
    op = sg.aslinearoperator(A, device=run.device)
    w, v = linalg.eigsh(op, k=COUNT, tol=TOL, **options)
    return w, v


def _arpack(A: sp.csr_array, most: int, **options: Any) -> tuple[Array, Array]:
    # ARPACK's start vector is random otherwise.
    v0 = np.random.default_rng(0).standard_normal(A.shape[0])
    if most:
        options["maxiter"] = most
    w, v = sla.eigsh(sp.csc_array(A) if "sigma" in options else A, k=COUNT, tol=TOL, v0=v0, **options)
    return w, v


def _arpack_with_pyamg(A: sp.csr_array) -> tuple[Array, Array]:
    """Inner solves by cg with pyamg's hierarchy, as one does where factors do not fit."""
    import pyamg

    ml = pyamg.smoothed_aggregation_solver(sp.csr_matrix(A))
    inverse = sla.LinearOperator(
        A.shape, lambda b: ml.solve(b, tol=TOL / 10, accel="cg", maxiter=200), dtype=A.dtype
    )
    return _arpack(A, 0, sigma=0.0, OPinv=inverse)


def _cupy_eigsh(A: sp.csr_array, most: int, which: str) -> tuple[Array, Array]:
    import cupy
    from cupyx.scipy.sparse import csr_matrix
    from cupyx.scipy.sparse.linalg import eigsh

    w, v = eigsh(csr_matrix(sp.csr_matrix(A)), k=COUNT, which=which, tol=TOL, maxiter=most)
    return cupy.asnumpy(w), cupy.asnumpy(v)


def _our_svds(run: Run, A: sp.csr_array) -> tuple[Array, Array, Array]:
    op = sg.aslinearoperator(A, device=run.device)
    u, s, vh = linalg.svds(op, k=COUNT, tol=TOL)
    return u, s, vh


def _svds(A: sp.csr_array, most: int) -> tuple[Array, Array, Array]:
    v0 = np.random.default_rng(0).standard_normal(min(A.shape))
    u, s, vh = sla.svds(A, k=COUNT, tol=TOL, v0=v0, maxiter=most or None)
    return u, s, vh


def _cupy_svds(A: sp.csr_array, most: int) -> tuple[Array, Array, Array]:
    import cupy
    from cupyx.scipy.sparse import csr_matrix
    from cupyx.scipy.sparse.linalg import svds

    u, s, vh = map(cupy.asnumpy, svds(csr_matrix(sp.csr_matrix(A)), k=COUNT, tol=TOL, maxiter=most))
    return u, s, vh


# -- checks --------------------------------------------------------------------------------------------------


def _check_pairs(A: sp.csr_array, pairs: tuple[Array, Array]) -> float:
    w, v = pairs
    if len(w) < COUNT:
        raise WrongResultError(f"{len(w)} of {COUNT} eigenvalues")
    size = float(abs(A).sum(axis=1).max())
    return _accurate(float(np.linalg.norm(A @ v - v * w, axis=0).max()) / size)


def _check_modes(A: sp.csr_array, M: sp.csr_array, pairs: tuple[Array, Array]) -> float:
    """The residuals over the norms of both matrices, and of vectors of norm 1."""
    w, v = pairs
    if len(w) < MODES:
        raise WrongResultError(f"{len(w)} of {MODES} modes")
    size = abs(A).sum(axis=1).max() + np.abs(w) * abs(M).sum(axis=1).max()
    residuals = np.linalg.norm(A @ v - M @ v * w, axis=0) / np.linalg.norm(v, axis=0)
    return _accurate(float((residuals / size).max()))


def _check_values(A: sp.csr_array, factors: tuple[Array, Array, Array]) -> float:
    u, s, vh = factors
    if len(s) < COUNT:
        raise WrongResultError(f"{len(s)} of {COUNT} singular values")
    return _accurate(float(np.linalg.norm(A @ vh.T - u * s, axis=0).max() / s.max()))


def _check_least_squares(A: sp.csr_array, b: Array, found: tuple[Array, int]) -> float:
    """The gradient over the norm of the matrix and of the residual."""
    residual = b - A @ found[0]
    return _accurate(
        float(np.linalg.norm(A.T @ residual) / (sla.norm(A) * max(np.linalg.norm(residual), 1e-300)))
    )


def _check_heat(b: Array, found: Array) -> float:
    """Beside the solution by sine transforms."""
    points = round(len(b) ** (1 / 3))
    rates = (2 * np.sin(0.5 * np.pi * np.arange(1, points + 1) / (points + 1))) ** 2
    decay = np.exp(-TIME * rates)
    waves = scipy.fft.dstn(b.reshape(points, points, points), type=1)
    waves *= decay[:, None, None] * decay[:, None] * decay
    exact = scipy.fft.idstn(waves, type=1).ravel()
    return _accurate(float(np.linalg.norm(found - exact) / np.linalg.norm(exact)))


def _accurate(error: float) -> float:
    if not error <= ACCURACY:
        raise WrongResultError(f"the error is {error:.1e}, more than {ACCURACY:.0e}")
    return error
