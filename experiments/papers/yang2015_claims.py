"""Conclusions of Yang et al. 2015, judged by the partitions and the times that `yang2015` measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

import spmvgpu as sg
from experiments.papers.claims import FAILS, HOLDS, OPEN, PARTLY, Claim, judge, judge_average, spread
from experiments.papers.run import Run, Table
from experiments.papers.yang2015_matrices import grid_lengths
from experiments.peers.problem import DTYPES
from experiments.records import geometric_mean
from spmvgpu import partition

ALGORITHMS = ("Algorithm 1", "Algorithm 2", "Algorithm 3")
BLOCKS = "Algorithm 4"
CPU_ALONE, GPU_ALONE = "CPU alone", "GPU alone"

# Section 7.2 prints seven of each; table 1 and two processors with four cores each say eight.
PAPER_THREADS = 8
PAPER_POWERS = (75, 75, 1, 1, 1, 1, 1, 1)

# Averages of tables 1 and 2 (%) and of figure 10 (%), and by how much less time Algorithm 3 takes (%).
TABLES = {"test 1": (5.3580, 0.0138, 0.0096), "test 2": (38.1100, 0.0091, 0.0093)}
DENSITIES = (10, 41, 55)
LESS_TIME = {
    ("test 1", "f32"): (16.60, 0.61, 20.31),
    ("test 1", "f64"): (18.39, 0.47, 20.23),
    ("test 2", "f32"): (34.31, 13.95, 37.94),
    ("test 2", "f64"): (50.00, 13.10, 49.79),
}
# Table 1 of nlpkkt120, whose row lengths follow from its grid.
NLPKKT = 11.2423
OTHERS = ("Algorithm 1", "Algorithm 2", BLOCKS)


def cpu_threads() -> int:
    """Threads of the CPU backend, which a core each is assumed to run."""
    return next(info.multiprocessors for info in sg.devices() if info.name == "cpu")


def all_claims(run: Run) -> list[Claim]:
    return [
        *(_balance(run, test, number) for number, test in enumerate(TABLES, 1)),
        _what_the_tables_hold(),
        _theorem_1(),
        *_density(run),
        *(_less_time(run, test, dtype, other) for test, dtype in LESS_TIME for other in range(3)),
        _power(run),
        *_together(run),
    ]


def of_partitions(run: Run, name: str, test: str) -> Table:
    """One field of the partitions of a test: label -> matrix -> value."""
    found: Table = {}
    for entry in run.records["partitions"]:
        if entry["test"] == test:
            found.setdefault(entry["label"], {})[entry["matrix"]] = entry[name]
    return found


def _balance(run: Run, test: str, number: int) -> Claim:
    found = of_partitions(run, "difference_of_all", test)
    by_formula = of_partitions(run, "relative_difference", test)
    means, summed = ([_mean(values[label]) for label in ALGORITHMS] for values in (found, by_formula))
    paper = "Algorithms 2 and 3 match the powers, Algorithm 1 does not:"
    here = (
        f"{_percentages(means)} relative to all non-zeros and averaged over the parts; by the printed formula"
        f" {_percentages(summed)}"
    )
    worst = max(found["Algorithm 1"], key=found["Algorithm 1"].__getitem__)
    why = (
        f"long and short rows lie furthest apart on {worst}, where Algorithm 1 is off by"
        f" {found['Algorithm 1'][worst]:.2f} %; generated rows in any order hide it on others"
    )
    return Claim(
        "7.2",
        f"{paper} {_percentages(TABLES[test])} on average (table {number})",
        here,
        HOLDS if max(means[1:]) < 0.1 < means[0] else FAILS,
        why,
        of_gpu=False,
    )


def _mean(values: Mapping[str, float]) -> float:
    return float(np.mean(list(values.values())))


def _percentages(values: Iterable[float]) -> str:
    return ", ".join(f"{value:.4f}" for value in values) + " %"


def _what_the_tables_hold() -> Claim:
    """The formula of section 7.2.1, tried on the one matrix whose row lengths follow from a rule."""
    lengths = grid_lengths(120)
    parts = partition.by_rows(lengths, [1] * PAPER_THREADS)
    deviation = np.abs(parts.nnz - parts.nnz.sum() / PAPER_THREADS)
    of_all = 100 * float(deviation.mean() / parts.nnz.sum())
    here = (
        f"for nlpkkt120 and Algorithm 1 the formula gives {parts.relative_difference:.1f} %, and table 1 has"
        f" {NLPKKT}; deviations relative to all non-zeros, averaged over {PAPER_THREADS} parts, give"
        f" {of_all:.2f} %"
    )
    why = (
        "without absolute values, which are not printed, deviations of equal parts would cancel; and only the"
        " stored triangle taken for the matrix is so unbalanced: the whole one has rows of 28 nearly"
        " throughout"
    )
    what = "tables 1 and 2 hold the sum of relative differences"
    return Claim("7.2.1", what, here, FAILS, why, of_gpu=False)


def _theorem_1() -> Claim:
    lengths = [1] * 10 + [2] * 20 + [10]
    ours = partition.by_pmf(lengths, [1, 5])
    other = partition.Partition.from_sets([[30], range(30)], lengths, [1, 5])
    same = bool((ours.nnz == other.nnz).all())
    fewer = int(other.elements.sum()) < int(ours.elements.sum())
    here = (
        f"10 rows of length 1, 20 of 2 and one of 10, powers 1 and 5: Algorithm 3 makes {ours.elements.sum()}"
        f" elements; the longest row alone in the first part makes {other.elements.sum()}, with"
        f" {ours.nnz.tolist()} non-zeros in either case"
    )
    why = (
        "the proof takes for granted that the last part holds the longest row. It holds against partitions"
        " whose parts are in the order of their widths, and against all if parts have equally many non-zeros"
    )
    return Claim(
        "5.1",
        "Theorem 1: no partition with the same non-zeros in each part has fewer elements than Algorithm 3's",
        here,
        PARTLY if same and fewer else HOLDS,
        why,
        of_gpu=False,
    )


def _density(run: Run) -> list[Claim]:
    density = of_partitions(run, "mean_density", "test 2")
    means = [100 * _mean(density[label]) for label in ALGORITHMS]
    claims = []
    for index in (0, 1):
        label = ALGORITHMS[index]
        gains = {name: density["Algorithm 3"][name] / density[label][name] for name in density[label]}
        paper = f"Algorithm 3 is denser than {label}: {DENSITIES[2]} to {DENSITIES[index]} % (figure 10)"
        what = f"density over that of {label} (averages: {means[2]:.0f} to {means[index]:.0f} %)"
        why = ""
        if min(gains.values()) < 1:
            why = (
                "Theorem 1 does not cover them: the first GPU gets all short rows and some long ones,"
                " to whose"
                " length all are padded, where the order of the rows keeps long and short ones apart"
            )
        claims.append(replace(judge("7.2.2", paper, gains, what, why), of_gpu=False))
    return claims


def _less_time(run: Run, test: str, dtype: str, other: int) -> Claim:
    label, claimed = OTHERS[other], LESS_TIME[test, dtype][other]
    times = run.values("time_us", test=test, dtype=dtype)
    mine, theirs = times.get("Algorithm 3", {}), times.get(label, {})
    saved = {name: 100 * (1 - mine[name] / theirs[name]) for name in mine if name in theirs}
    paper = f"Algorithm 3 takes {claimed} % less time than {label} in {test}, {dtype}"
    why = _reason(run, test, other, saved) if saved else ""
    return replace(judge_average("7.2", paper, saved, claimed, why), of_gpu=test == "test 2")


def _reason(run: Run, test: str, other: int, saved: Mapping[str, float]) -> str:
    if OTHERS[other] == BLOCKS:
        blocks = [row for row in run.rows if row.get("test") == test and row["label"] == BLOCKS]
        filled = spread((100 * row["mean_density"] for row in blocks), ".1f", " %")
        return f"the blocks, stored by diagonals, and the rest have {filled} of their slots filled"
    off = of_partitions(run, "difference_of_all", "test 1" if test == "test 1" else "test 2, here")
    most, least = (pick(saved, key=saved.__getitem__) for pick in (max, min))
    worst = max(max(off[OTHERS[other]].values()), max(off["Algorithm 3"].values()))
    if worst < 0.1:
        return (
            f"both match the shares to {worst:.2g} % of the non-zeros; they differ in which rows a part has:"
            " next to each other, or of similar length and from all over the matrix"
        )
    return (
        f"parts of {OTHERS[other]} are off their shares by {off[OTHERS[other]][most]:.2g} % of the"
        f" non-zeros on"
        f" {most}, where Algorithm 3 saves most, and by {off[OTHERS[other]][least]:.2g} % on {least},"
        f" where it"
        " saves least"
    )


def _power(run: Run) -> Claim:
    paper = "the GPU has 75 times the power of a core, whatever the matrix"
    ratios = []
    for dtype in DTYPES:
        cpu = run.values("time_us", test="alone", dtype=dtype).get(CPU_ALONE, {})
        kernels = run.values("kernel_us", test="alone", dtype=dtype).get(GPU_ALONE, {})
        ratios += [cpu_threads() * cpu[name] / kernels[name] for name in kernels if name in cpu]
    if not ratios:
        return Claim("5.3", paper, "ratio: not measured", OPEN, "it needs a GPU")
    here = (
        f"a product on the GPU, vectors in place, has {geometric_mean(ratios):.0f} times the power of one of"
        f" the {cpu_threads()} cores at work ({spread(ratios, '.0f', '')})"
    )
    why = "a matrix that fits a cache of either, and how x is read, change the ratio"
    return Claim("5.3", paper, here, HOLDS if max(ratios) < 1.5 * min(ratios) else FAILS, why)


def _together(run: Run) -> list[Claim]:
    """Whether the CPU is worth adding; the paper never shows its GPUs alone."""
    where, claims = "beyond the paper", []
    for dtype in DTYPES:
        alone = run.values("time_us", test="alone", dtype=dtype).get(GPU_ALONE, {})
        together = run.values("time_us", test="test 2", dtype=dtype).get("Algorithm 3", {})
        gains = {name: alone[name] / together[name] for name in together if name in alone}
        what = f"GPU and CPU with Algorithm 3 are faster than the GPU alone, {dtype}"
        claims.append(judge(where, what, gains, "speed over the GPU alone, from NumPy array to NumPy array"))
    return claims
