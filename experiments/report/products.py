"""What spmv.json says: products by themselves, beside those of other libraries."""

from __future__ import annotations

from collections.abc import Iterable

from experiments.records import Times, geometric_mean, ratio

from .markdown import mean_and_extremes, microseconds, number, table
from .summary import BEST_CSR, Results, scipy_speeds

NEWEST = ("auto", "spmv")  # files that have the chosen format beside other libraries


def device_parts(times: Times) -> list[str]:
    groups = {row["matrix"]: row["group"] for case in times.cases() for row in times.rows(*case)[:1]}
    real = [case for case in times.cases() if groups.get(case[0]) == "real"]
    others = [case for case in times.cases() if groups.get(case[0]) != "real"]
    parts = [
        ratio_table(times),
        "Times in microseconds per product, for products in a row, replayed from a CUDA graph. *x* is "
        "the time over the time of the fastest cuSPARSE CSR algorithm (for `sell`: of cuSPARSE SELL). "
        "Below 1 is faster. *TB/s* is the bytes of our fastest product over its time; a matrix that "
        "fits the L2 cache exceeds the bandwidth of the memory. CuPy and PyTorch are `A @ x` called "
        "from Python.",
    ]
    if others:
        parts.append(_product_table(times, others))
    if real:
        parts += ["### Real matrices", _product_table(times, real)]
    return parts


COMPARISONS = (
    ("csr", "best cuSPARSE CSR", ("cusparse", BEST_CSR)),
    ("csr_tuned", "best cuSPARSE CSR", ("cusparse", BEST_CSR)),
    ("sell", "cuSPARSE SELL", ("cusparse", "sell")),
    ("coo", "best cuSPARSE COO", ("cusparse", "coo")),
    ("auto", "best of all cuSPARSE", ("cusparse", "")),
    ("auto_called", "CuPy `A @ x`, both called from Python", ("cupy", "csr")),
    ("auto_called", "PyTorch `A @ x`, both called from Python", ("torch", "csr")),
)
# Those that the short table has, by what it calls them.
OVERVIEW = {
    "a product, format chosen, over the best of all cuSPARSE": COMPARISONS[4],
    "a product called from Python, over CuPy's": COMPARISONS[5],
}


def _quotients(
    times: Times, variant: str, theirs: tuple[str, str], cache: str, dtype: str | None = None
) -> list[float]:
    """Our times over theirs, of all cases that have both."""
    found = []
    for case in times.cases():
        if dtype not in (None, case[1]):
            continue
        other = (
            times.row(*case, *theirs, cache=cache)
            if variant == "auto_called"
            else times.best(*case, *theirs, cache=cache)
        )
        quotient = ratio(times.row(*case, "spmvgpu", variant, cache=cache), other)
        if quotient is not None:
            found.append(quotient)
    return found


# Products on a GPU beside other libraries, for a picture: label, our variant, the other library's.
BESIDE = {
    "cuSPARSE,\nits fastest algorithm": ("auto", ("cusparse", "")),
    "CuPy,\nA @ x in Python": ("auto_called", ("cupy", "csr")),
    "PyTorch,\nA @ x in Python": ("auto_called", ("torch", "csr")),
    "SciPy,\nA @ x on one core": ("auto_called", ("scipy", "csr")),
}


def speeds(results: Results, dtype: str) -> dict[str, list[float]]:
    """How many times as fast a product is as each library's, by matrix, in the newest file that has both."""
    found: dict[str, list[float]] = {}
    for label, (variant, theirs) in BESIDE.items():
        for name in NEWEST:
            if name in results and label not in found:
                quotients = _quotients(Times(results[name]), variant, theirs, "hot", dtype)
                if quotients:
                    found[label] = [1 / quotient for quotient in quotients]
    return found


def ratio_table(times: Times) -> str:
    """Geometric mean and worst ratio, over all matrices, per comparison."""
    rows = []
    for variant, against, theirs in COMPARISONS:
        for cache in ("hot", "cold"):
            found = _quotients(times, variant, theirs, cache)
            if found:
                numbers = (geometric_mean(found), min(found), max(found))
                rows.append((f"`{variant}`", against, cache, str(len(found)), *map(number, numbers)))
    return table(("spmvgpu", "over", "cache", "cases", "geometric mean", "best", "worst"), rows)


def overview_rows(results: Results) -> list[tuple[str, ...]]:
    """Products on a GPU as rows of the short table, which `jobs.OVERVIEW_HEAD` has the titles of."""
    lines: list[tuple[str, ...]] = []
    times = next((Times(results[name]) for name in NEWEST if name in results), None)
    if times is None:
        return lines
    for name, (variant, _, theirs) in OVERVIEW.items():
        found = _quotients(times, variant, theirs, "hot")
        if found:
            lines.append((name, str(len(found)), *mean_and_extremes(found), "-", "-", "-"))
    return lines


def _product_table(times: Times, cases: Iterable[tuple[str, str]]) -> str:
    head = (
        "matrix", "dtype", "nnz", "best cuSPARSE CSR", "csr", "x", "csr tuned", "x",
        "cuSPARSE SELL", "sell", "x", "our fastest", "", "TB/s", "CuPy", "PyTorch",
    )  # fmt: skip
    rows = []
    for case in cases:
        base = times.best(*case, "cusparse", BEST_CSR)
        csr, tuned, sell = (times.row(*case, "spmvgpu", name) for name in ("csr", "csr_tuned", "sell"))
        their_sell = times.row(*case, "cusparse", "sell")
        fastest = times.best(*case, "spmvgpu")
        some = times.rows(*case)[0]
        speed = None if fastest is None else fastest["bytes"] / fastest["time_us"] / 1e6
        rows.append(
            (
                case[0], case[1], f"{some['nnz'] / 1e6:.2f}M", microseconds(base),
                microseconds(csr), number(ratio(csr, base)), microseconds(tuned), number(ratio(tuned, base)),
                microseconds(their_sell), microseconds(sell), number(ratio(sell, their_sell)),
                "-" if fastest is None else f"`{fastest['variant']}`", microseconds(fastest), number(speed),
                microseconds(times.row(*case, "cupy", "csr")), microseconds(times.row(*case, "torch", "csr")),
            )
        )  # fmt: skip
    return table(head, rows)


def cpu_parts(times: Times) -> list[str]:
    cache = times.environment.get("cache_bytes") or 0
    heads = [f"{name}, {n} thr." for n in times.threads for name in _cpu_names(times, n)]
    rows = []
    for case in times.cases():
        base = times.row(*case, "scipy", "csr", threads=1)
        if base is None:
            continue
        speeds = []
        for threads in times.threads:
            for name in _cpu_names(times, threads):
                library, variant = ("mkl", "csr") if name == "MKL" else ("spmvgpu", name)
                speeds.append(number(ratio(base, times.row(*case, library, variant, threads=threads))))
        size = f"{base['bytes'] / 2**20:.0f}" + ("" if base["bytes"] > cache else " *")
        rows.append((case[0], case[1], f"{base['nnz'] / 1e6:.2f}M", size, microseconds(base), *speeds))
    note = (
        "Speed over SciPy's `A @ x` (on one core) per format and number of threads; above 1 is faster. "
        f"A star marks matrices within the {cache / 2**20:.0f} MiB cache."
    )
    return [
        cpu_ratio_table(times),
        note,
        table(("matrix", "dtype", "nnz", "MiB", "SciPy, us", *heads), rows),
    ]


def cpu_ratio_table(times: Times) -> str:
    """Speed over SciPy of all formats: mean and least of all matrices, and who is slower."""
    rows = []
    for threads in times.threads:
        for name in _cpu_names(times, threads):
            library, variant = ("mkl", "csr") if name == "MKL" else ("spmvgpu", name)
            speeds = scipy_speeds(times, variant, threads, library)
            if speeds:
                least, where = min((speed, case) for case, speed in speeds.items())
                rows.append(
                    (
                        name if name == "MKL" else f"`{name}`",
                        str(threads),
                        str(len(speeds)),
                        number(geometric_mean(speeds.values())),
                        f"{least:.2f}, {where}",
                        str(sum(speed < 1 for speed in speeds.values())),
                    )
                )
    return table(("format", "threads", "cases", "geometric mean", "least", "slower than SciPy"), rows)


def _cpu_names(times: Times, threads: int) -> list[str]:
    names: dict[str, None] = {}  # a set that keeps its order
    for case in times.cases():
        for row in times.rows(*case, threads=threads):
            if row["library"] != "scipy":
                names["MKL" if row["library"] == "mkl" else row["variant"]] = None
    return list(names)
