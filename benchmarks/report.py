"""Turn results into tables and plots: ``python -m benchmarks.report``; the goals alone: ``--check``.

The README gets a summary of each device, a page in `docs/results` every matrix.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from . import model_report, multi_report, symmetric_report
from .records import Row, Times, geometric_mean, ratio, read
from .summary import BEST_CSR, Mark, Results, format_mark, marks

BEGIN, END = "<!-- benchmarks:begin -->", "<!-- benchmarks:end -->"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--readme", type=Path, default=Path("README.md"))
    parser.add_argument("--pages", type=Path, help="folder of a page per device (default: docs/results)")
    parser.add_argument("--plots", type=Path, default=Path("docs/plots"), help="folder of the pictures")
    parser.add_argument(
        "--check", action="store_true", help="print the goals beside what was measured, write nothing"
    )
    options = parser.parse_args(arguments)
    devices = devices_in(options.results)
    if not devices:
        print(f"no results in {options.results}; run python -m benchmarks.run first", file=sys.stderr)
        return 2
    if options.check:
        for slug, results in devices.items():
            print(f"{slug}:")
            print("\n".join(map(format_mark, all_marks(results))))
        return 0
    pages = options.pages or options.readme.parent / "docs" / "results"
    pages.mkdir(parents=True, exist_ok=True)
    sections = []
    for slug, results in devices.items():
        page = pages / f"{slug}.md"
        pictures = _draw(slug, results, options.plots)
        page.write_text(f"{section(results, _linked(pictures, pages))}\n", encoding="utf-8")
        readme = options.readme.parent
        sections.append(brief(results, _linked(pictures, readme), _linked([page], readme)[0]))
    write_between(options.readme, "\n\n".join(sections))
    print(f"{options.readme}: {len(sections)} devices")
    return 0


def _linked(paths: Iterable[Path], folder: Path) -> list[str]:
    """As a page in that folder names them."""
    return [Path(os.path.relpath(path, folder)).as_posix() for path in paths]


def devices_in(folder: Path) -> dict[str, Results]:
    """Results by device; GPUs first."""
    found = {path.name: read(path) for path in sorted(folder.glob("*")) if path.is_dir()}
    found = {slug: results for slug, results in found.items() if results}
    return dict(sorted(found.items(), key=lambda pair: _environment(pair[1])["cuda"] is None))


def _environment(results: Results) -> dict[str, Any]:
    environment: dict[str, Any] = next(iter(results.values()))["environment"]
    return environment


def _draw(slug: str, results: Results, folder: Path) -> list[Path]:
    try:
        from .plots import draw
    except ImportError:
        print("no plots: matplotlib is not installed", file=sys.stderr)
        return []
    return draw(slug, results, folder)


def write_between(readme: Path, text: str) -> None:
    """Replace what stands between the two marker lines."""
    content = readme.read_text(encoding="utf-8")
    before, begin, rest = content.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{readme} lacks the lines {BEGIN} and {END}, between which the tables go")
    readme.write_text(f"{before}{BEGIN}\n{text.strip()}\n{END}{after}", encoding="utf-8")


def brief(results: Results, pictures: Sequence[str], page: str) -> str:
    """What the README says about one device: the generated matrices, the goals, and where the rest is."""
    parts = [_heading(results)]
    parts += _product_parts(results, everything=False)
    parts += [f"![{Path(picture).stem}]({picture})" for picture in pictures]
    parts += _multi_part(results)
    goals = all_marks({name: content for name, content in results.items() if name != "memory"})
    if goals:
        parts += ["What was aimed at, and what was measured:", _mark_table(goals)]
    parts += _skipped_part(results)
    parts.append(f"Every matrix, calls from Python and memory: [{page}]({page}).")
    return "\n\n".join(parts)


def section(results: Results, pictures: Sequence[str] = ()) -> str:
    """All that is said about one device."""
    parts = [_heading(results), *_product_parts(results)]
    parts += [f"![{Path(picture).stem}]({picture})" for picture in pictures]
    parts += _symmetric_part(results) + _multi_part(results) + _model_part(results)
    parts += (
        _overhead_part(results) + _roundtrip_part(results) + _memory_part(results) + _skipped_part(results)
    )
    return "\n\n".join(part for part in parts if part)


def all_marks(results: Results) -> list[Mark]:
    """The goals of all experiments beside what was measured."""
    others = (symmetric_report, multi_report, model_report)
    return [*marks(results), *(mark for other in others for mark in other.marks(results))]


def _mark_table(goals: Iterable[Mark]) -> str:
    verdicts = {True: "reached", False: "missed", None: "not measured"}
    head = ("what", "goal", "measured", "")
    rows = [(mark.name, mark.goal, mark.measured, verdicts[mark.reached]) for mark in goals]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, ("---",) * len(head), *rows))


def _product_parts(results: Results, everything: bool = True) -> list[str]:
    if "spmv" not in results:
        return []
    times = Times(results["spmv"])
    return _cpu_parts(times) if times.threads else _device_parts(times, everything)


def _heading(results: Results) -> str:
    environment = _environment(results)
    facts = [f"commit `{environment['commit'][:12]}`", environment["date"][:10]]
    if environment["cuda"] is not None:
        facts += [f"driver {environment['driver']}", f"CUDA {environment['cuda']}"]
    elif "cores" in environment:
        facts.append(f"{environment['cores']} cores")
    facts += [f"{name} {version}" for name, version in environment["versions"].items() if name != "spmvgpu"]
    bandwidth = environment.get("copy_bandwidth")
    if isinstance(bandwidth, dict):
        speeds = [f"{value / 1e9:.1f} GB/s on {count} threads" for count, value in bandwidth.items()]
        facts.append("copy bandwidth " + ", ".join(speeds))
    elif bandwidth is not None:
        facts.append(f"device-to-device memcpy {bandwidth / 1e12:.2f} TB/s")
    if "copy_kernel_bandwidth" in environment:
        facts.append(f"copy kernel {environment['copy_kernel_bandwidth'] / 1e12:.2f} TB/s")
    text = f"### {environment['device']}\n\n" + ", ".join(facts) + "."
    later: dict[str, list[str]] = {}
    for name, content in results.items():
        commit = content["environment"]["commit"][:12]
        if commit != environment["commit"][:12]:
            later.setdefault(commit, []).append(f"{name}.json")
    others = (f"{', '.join(names)} at commit `{commit}`" for commit, names in later.items())
    return f"{text} Measured apart: {'; '.join(others)}." if later else text


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table: the first two columns are text, the others numbers."""
    rule = ["---" if column < 2 else "--:" for column in range(len(head))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *rows))


def number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def microseconds(row: Row | None) -> str:
    if row is None:
        return "-"
    us: float = row["time_us"]
    return f"{us:.2f}" if us < 10 else f"{us:.1f}" if us < 100 else f"{us:.0f}"


def _device_parts(times: Times, everything: bool) -> list[str]:
    groups = {row["matrix"]: row["group"] for case in times.cases() for row in times.rows(*case)[:1]}
    real = [case for case in times.cases() if groups.get(case[0]) == "real"]
    others = [case for case in times.cases() if groups.get(case[0]) != "real"]
    parts = [
        _ratio_table(times),
        "Microseconds per product, matrix re-used (hot), replayed from a CUDA graph. *x* is the time over "
        "that of the fastest cuSPARSE CSR algorithm (for `sell`: over cuSPARSE SELL); below 1 is faster. "
        "*TB/s* is the true bytes of our fastest over its time; more than memory gives comes from the L2. "
        "CuPy and PyTorch: `A @ x` called from Python.",
    ]
    if others:
        parts.append(_product_table(times, others))
    if real and everything:
        parts.append(
            "<details><summary>Real matrices</summary>\n\n" + _product_table(times, real) + "\n\n</details>"
        )
    return parts


def _ratio_table(times: Times) -> str:
    """Geometric mean and worst ratio, over all matrices, per comparison."""
    rows = []
    comparisons = [
        ("csr", "best cuSPARSE CSR", ("cusparse", BEST_CSR)),
        ("csr_tuned", "best cuSPARSE CSR", ("cusparse", BEST_CSR)),
        ("sell", "cuSPARSE SELL", ("cusparse", "sell")),
        ("coo", "best cuSPARSE COO", ("cusparse", "coo")),
        ("auto", "best of all cuSPARSE", ("cusparse", "")),
        ("auto_called", "CuPy `A @ x`, both called from Python", ("cupy", "csr")),
        ("auto_called", "PyTorch `A @ x`, both called from Python", ("torch", "csr")),
    ]
    for variant, against, theirs in comparisons:
        for cache in ("hot", "cold"):
            found = []
            for case in times.cases():
                if variant == "auto_called":
                    other = times.row(*case, *theirs, cache=cache)
                else:
                    other = times.best(*case, *theirs, cache=cache)
                quotient = ratio(times.row(*case, "spmvgpu", variant, cache=cache), other)
                if quotient is not None:
                    found.append(quotient)
            if found:
                numbers = (geometric_mean(found), min(found), max(found))
                rows.append((f"`{variant}`", against, cache, str(len(found)), *map(number, numbers)))
    return table(("spmvgpu", "over", "cache", "cases", "geometric mean", "best", "worst"), rows)


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


def _cpu_parts(times: Times) -> list[str]:
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
    return [note, table(("matrix", "dtype", "nnz", "MiB", "SciPy, us", *heads), rows)]


def _cpu_names(times: Times, threads: int) -> list[str]:
    names: dict[str, None] = {}  # a set that keeps its order
    for case in times.cases():
        for row in times.rows(*case, threads=threads):
            if row["library"] != "scipy":
                names["MKL" if row["library"] == "mkl" else row["variant"]] = None
    return list(names)


def _symmetric_part(results: Results) -> list[str]:
    rows = symmetric_report.rows(results)
    if not rows:
        return []
    title = "<details><summary>Symmetric matrices in half the storage</summary>"
    return [f"{title}\n\n{symmetric_report.NOTE}\n\n{table(symmetric_report.HEAD, rows)}\n\n</details>"]


def _multi_part(results: Results) -> list[str]:
    rows = multi_report.rows(results)
    return [multi_report.NOTE, table(multi_report.HEAD, rows)] if rows else []


def _model_part(results: Results) -> list[str]:
    rows = model_report.rows(results)
    if not rows:
        return []
    text = f"{model_report.NOTE}\n\n{table(model_report.HEAD, rows)}"
    return [f"<details><summary>Performance models</summary>\n\n{text}\n\n</details>"]


def _overhead_part(results: Results) -> list[str]:
    rows = results.get("overhead", {}).get("rows", [])
    if not any(row.get("kernel_us") for row in rows):
        return []
    times = ("kernel_us", "time_us", "overhead_us", "issue_us", "latency_us")
    body = []
    for row in rows:
        format, _, call = row["variant"].partition(": ")
        numbers = [number(row[key], 1) for key in times]
        body.append((row["matrix"], f"{row['library']} {format}: `{call}`", row["dtype"], *numbers))
    head = ("matrix", "call", "dtype", "kernel", "per call", "overhead", "host time", "one call and wait")
    return [
        "Calls from Python with a CuPy array, microseconds; *overhead* is the time per call, back to back, "
        "above the kernel's own:",
        table(head, body),
    ]


def _roundtrip_part(results: Results) -> list[str]:
    pairs: dict[tuple[str, str], dict[str, Row]] = {}
    for row in results.get("roundtrip", {}).get("rows", []):
        pairs.setdefault((row["matrix"], row["dtype"]), {})[row["library"]] = row
    body = [
        (
            *case, str(pair["spmvgpu"]["rows"]), microseconds(pair["cupy"]), microseconds(pair["spmvgpu"]),
            number(ratio(pair["spmvgpu"], pair["cupy"])),
        )
        for case, pair in pairs.items()
        if {"spmvgpu", "cupy"} <= set(pair)
    ]  # fmt: skip
    if not body:
        return []
    mean = geometric_mean(float(cells[-1]) for cells in body if float(cells[-1]) > 0)
    return [
        "<details><summary>NumPy in, NumPy out: `op @ x` takes "
        f"{mean:.2f} times as long as `cupy.asnumpy(G @ cupy.asarray(x))` (geometric mean)</summary>\n\n"
        + table(("matrix", "dtype", "rows", "CuPy, us", "spmvgpu, us", "x"), body)
        + "\n\n</details>"
    ]


def _memory_part(results: Results) -> list[str]:
    lines = [f"- {mark.name}: {mark.measured}" for mark in marks({"memory": results.get("memory", {})})]
    return ["Memory:\n\n" + "\n".join(lines)] if lines else []


def _skipped_part(results: Results) -> list[str]:
    """Peers and matrices that were not measured at all."""
    skipped = results.get("spmv", {}).get("skipped", [])
    whole = [row for row in skipped if not ({"library", "matrix"} <= set(row))]
    if not whole:
        return []
    names = [f"{row.get('library') or row.get('matrix')} ({row['reason']})" for row in whole]
    return ["Not measured: " + "; ".join(names) + "."]


if __name__ == "__main__":
    sys.exit(main())
