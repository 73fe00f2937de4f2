"""What symmetric.json says: a line per matrix for the console, a table for the README, and the goals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from experiments.records import Row, Times, geometric_mean, ratio
from experiments.speed.symmetric_suite import NARROW

from .summary import Mark, Results, format_mark

FORMAT = "tsmv"
Case = tuple[str, str]

SPEED, MEMORY, MOST_MEMORY, PREPROCESSING = 0.75, 0.65, 1.0, 60
LEAST_NNZ = 2_000_000

HEAD = (
    "matrix", "dtype", "nnz", "best other", "", "csr", "sell", FORMAT, "x", "bytes x", "TB/s", "predicted",
    "poster", "x", "of CSR", "preprocessing, products",
)  # fmt: skip
NOTE = (
    "Times in microseconds per product, for products in a row. *best other* is the fastest algorithm "
    "of cuSPARSE (on the CPU: of SciPy and MKL). *x* is the time over that time, *bytes x* the same "
    f"ratio of the bytes of matrix and vectors. *TB/s* is the bytes of `{FORMAT}` over its time, "
    "*predicted* the time of a copy of as many bytes, *of CSR* the memory of the matrix over CSR, and "
    "*preprocessing* the conversion from CSR."
)


@dataclass(frozen=True)
class Line:
    """One matrix in one precision; on the CPU, on all of its cores."""

    case: Case
    nnz: int
    other: Row | None  # the fastest of another library
    rows: dict[str, Row]  # ours, by variant

    @property
    def tsmv(self) -> Row | None:
        return self.rows.get(FORMAT)

    @property
    def poster(self) -> Row | None:
        """The faster of the poster's variants, which differ in the size of their squares."""
        found = [row for name, row in self.rows.items() if name.startswith(f"{FORMAT}_poster")]
        return min(found, key=lambda row: row["time_us"], default=None)

    @property
    def narrow(self) -> bool:
        return self.case[0] in NARROW and self.nnz >= LEAST_NNZ


def lines(times: Times) -> Iterator[Line]:
    threads = max(times.threads, default=None)
    for case in times.cases():
        found = times.rows(*case, threads=threads)
        others = [row for row in found if row["library"] != "spmvgpu"]
        if threads is not None:
            others += [row for row in times.rows(*case, threads=1) if row["library"] == "scipy"]
        if found:
            yield Line(
                case,
                found[0]["nnz"],
                min(others, key=lambda row: row["time_us"], default=None),
                {row["variant"]: row for row in found if row["library"] == "spmvgpu"},
            )


def rows(results: Results) -> list[tuple[str, ...]]:
    """The table, as `HEAD` names its columns; empty where nothing was measured."""
    content = results.get("symmetric")
    return [_cells(line) for line in lines(Times(content))] if content else []


def _cells(line: Line) -> tuple[str, ...]:
    tsmv, poster, other = line.tsmv, line.poster, line.other
    bytes_ratio = tsmv["bytes"] / other["bytes"] if tsmv and other else None
    return (
        *line.case,
        f"{line.nnz / 1e6:.2f}M",
        _us(other),
        "-" if other is None else f"{other['library']} {other['variant']}",
        _us(line.rows.get("csr")),
        _us(line.rows.get("sell")),
        _us(tsmv),
        _number(ratio(tsmv, other)),
        _number(bytes_ratio),
        _number(tsmv["bytes"] / tsmv["time_us"] / 1e6 if tsmv else None),
        _number(tsmv.get("predicted_us") if tsmv else None, 1),
        _us(poster),
        _number(ratio(poster, other)),
        _number(tsmv["memory_ratio"] if tsmv else None),
        _number(tsmv["preprocess_products"] if tsmv else None, 0),
    )


def summary(results: Results) -> str:
    """A line per matrix and dtype, what was skipped of the format, and the goals."""
    if "symmetric" not in results:
        return "nothing measured"
    body = [HEAD, *rows(results)]
    widths = [max(len(row[column]) for row in body) for column in range(len(HEAD))]
    text = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in body]
    reasons = Counter(
        f"{row['variant']}: {row['reason'][:150]}"
        for row in results["symmetric"]["skipped"]
        if row.get("variant", "").startswith(FORMAT)
    )
    text += [f"skipped {count} times: {reason}" for reason, count in reasons.items()]
    return "\n".join(text + [format_mark(mark) for mark in marks(results)])


def marks(results: Results) -> list[Mark]:
    """The goals beside what was measured; none where nothing was."""
    if "symmetric" not in results:
        return []
    content = results["symmetric"]
    found = [line for line in lines(Times(content)) if line.tsmv is not None]
    narrow = [line for line in found if line.narrow]
    wanted = [
        (f"memory of {FORMAT} over CSR, narrow bands", narrow, MEMORY, _field("memory_ratio")),
        (f"memory of {FORMAT} over CSR, everywhere", found, MOST_MEMORY, _field("memory_ratio")),
        (f"preprocessing of {FORMAT}, in products", narrow, PREPROCESSING, _field("preprocess_products")),
    ]
    if content["environment"]["cuda"] is not None:
        name = f"{FORMAT} over the best of cuSPARSE, narrow bands"
        wanted.insert(0, (name, narrow, SPEED, lambda line: ratio(line.tsmv, line.other)))
    return [_mark(*one) for one in wanted if one[1]]


def _mark(name: str, part: list[Line], limit: float, value: Callable[[Line], float | None]) -> Mark:
    values = {" ".join(line.case): value(line) for line in part}
    known = {case: number for case, number in values.items() if number is not None}
    if not known:
        return Mark(name, f"<= {limit:g}", "-", None)
    case = max(known, key=lambda case: known[case])
    text = f"geometric mean {geometric_mean(known.values()):.2f}, worst {known[case]:.2f} at {case}"
    text += f", {sum(number <= limit for number in known.values())} of {len(known)} within"
    return Mark(name, f"<= {limit:g}", text, known[case] <= limit)


def _field(name: str) -> Callable[[Line], float | None]:
    return lambda line: line.tsmv.get(name) if line.tsmv else None


def _us(row: Row | None) -> str:
    return "-" if row is None else _number(row["time_us"], 2 if row["time_us"] < 10 else 1)


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
