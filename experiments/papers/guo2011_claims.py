"""Claims of Guo et al. 2011 about tuning and partitioning (sections 6 and 7), judged by measurements."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from experiments.papers.claims import EQUAL, FAILS, HOLDS, OPEN, PARTLY, Claim, judge, judge_average, spread
from experiments.papers.run import Run
from experiments.records import Row, geometric_mean

CSR, ELL, HYB, COO = "CSR", "ELL", "HYB", "COO"
APPROACH = "the approach"
CUT = "partitioned"  # what the model decides where it takes no format alone
BEST_CUT = "CSR + ELL"  # cut where the model says it is best to, decided or not

# Section 7: average gains of the approach over the three kernels, in per cent; section 6: of tuning.
OVER = {CSR: 222.0, ELL: 197.0, HYB: 33.0}
TUNING = {CSR: 33.0, HYB: 9.0, COO: 16.0}

NO_ELL = ("Webbase", "LP")  # beyond the memory of the paper's GPU
HYB_IS_BEST = ("FEM/Spheres", "Economics", "Epidemiology", "FEM/Accelerator", "Circuit", "LP")


def tuned(label: str) -> str:
    """The label of a kernel after tuning."""
    return f"{label}, tuned"


def percent(gains: Mapping[str, float]) -> dict[str, float]:
    """Gains in per cent, where 1 is no gain."""
    return {name: 100 * (gain - 1) for name, gain in gains.items()}


def named(name: str, beginnings: tuple[str, ...]) -> bool:
    """Whether a matrix is one of these; a quick run's names go on."""
    return name.startswith(beginnings)


def approach_claims(run: Run) -> list[Claim]:
    """Section 7 and figure 10."""
    averages = [_average(run, label) for label in OVER]
    return [*averages, _cut_gains(run), _hyb_is_best(run), _parts(run), _no_ell(run)]


def tuning_claims(run: Run) -> list[Claim]:
    """Section 6 and figures 7 to 9."""
    return [*(_tuning(run, label) for label in TUNING), _ell_needs_none(run)]


def _average(run: Run, label: str) -> Claim:
    gains = run.gains(APPROACH, label)
    paper = f"the approach gains {OVER[label]:.0f} % on average over the {label} kernel"
    left_out = [name for name in gains if named(name, NO_ELL)] if label == ELL else []
    judged = {name: gain for name, gain in gains.items() if name not in left_out}
    why = f"geometric mean of the speeds: {geometric_mean(judged.values()):.2f}x" if judged else ""
    if left_out:
        more = ", ".join(f"{name} {100 * (gains[name] - 1):+.0f} %" for name in left_out)
        why += f"; not averaged, because the paper's GPU could not hold them: {more}"
    if label == CSR and judged:
        shuffles = run.gains(APPROACH, "CSR, shuffles")
        if shuffles:
            mean = fmean(percent(shuffles).values())
            why += f"; over the same kernel with shuffles in place of shared memory: {mean:+.1f} %"
    return judge_average("7", paper, percent(judged), OVER[label], why)


def _cut_gains(run: Run) -> Claim:
    """The approach consists of this, apart from tuning."""
    paper = "a partition into CSR and ELL is usually faster than one format"
    times = run.values("time_us")
    wholes = [times[tuned(label)] for label in (CSR, ELL, HYB) if tuned(label) in times]
    gains = {
        name: min(whole[name] for whole in wholes if name in whole) / time_us
        for name, time_us in times.get(BEST_CUT, {}).items()
    }
    why = ""
    if gains:
        entries = run.records["partitions"]
        decided = sum(entry["chosen"] == CUT for entry in entries)
        predicted = {entry["matrix"]: entry["cut_us"] for entry in entries if "cut_us" in entry}
        off = spread(predicted[name] / times[BEST_CUT][name] for name in gains)
        why = (
            f"the model decides on a cut for {decided} of {len(entries)} matrices; what it predicts for its"
            f" best cuts is {off} the time that they take"
        )
    return judge("7", paper, gains, "speed of the model's best cut over the best of CSR, ELL and HYB", why)


def _hyb_is_best(run: Run) -> Claim:
    paper = f"HYB is the best format for {', '.join(HYB_IS_BEST)}"
    times = run.values("time_us")
    if HYB not in times:
        return judge("7", paper, {}, "speed of HYB")
    gains = {}
    for name, time_us in times[HYB].items():
        others = [times[label][name] for label in (CSR, ELL) if name in times.get(label, {})]
        if named(name, HYB_IS_BEST) and others:
            gains[name] = min(others) / time_us
    said = {entry["matrix"]: entry["chosen"] for entry in run.records["partitions"]}
    why = ", ".join(f"{name} {said[name]}" for name in gains if name in said)
    why = f"what the model picks there: {why}" if why else ""
    return judge("7", paper, gains, "speed of HYB over the faster of CSR and ELL there", why)


def _parts(run: Run) -> Claim:
    paper = "in the partitions, CSR has most non-zeros, and ELL has the rows with few"
    split = [entry for entry in run.records["partitions"] if entry["chosen"] == CUT]
    if not split:
        return Claim("7", paper, "the model partitions no matrix", OPEN)
    shares = {entry["matrix"]: entry["csr_nnz"] / (entry["csr_nnz"] + entry["ell_nnz"]) for entry in split}
    most = [name for name, share in shares.items() if share > 0.5]
    shorter = all(_mean(entry, "ell") < _mean(entry, "csr") for entry in split)
    listed = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    here = f"of the non-zeros, CSR has: {listed}; its rows are {'' if shorter else 'not '}the longer ones"
    verdict = HOLDS if len(most) == len(shares) and shorter else PARTLY if most or shorter else FAILS
    return Claim("7", paper, here, verdict)


def _mean(entry: Row, part: str) -> float:
    return float(entry[f"{part}_nnz"] / max(entry[f"{part}_rows"], 1))


def _no_ell(run: Run) -> Claim:
    paper = f"ELL cannot hold {' and '.join(NO_ELL)}: too much memory"
    sizes = run.values("bytes").get(ELL, {})
    here, held = [], 0
    for matrix in dict.fromkeys(row["matrix"] for row in run.rows if named(row["matrix"], NO_ELL)):
        reasons = [e["reason"] for e in run.skipped if e["matrix"] == matrix and e["label"] == ELL]
        held += matrix in sizes
        here.append(
            f"{matrix}: {sizes[matrix] / 1e9:.2f} GB" if matrix in sizes else f"{matrix}: {reasons[0]}"
        )
    if not here:
        return Claim("7", paper, "not measured", OPEN)
    verdict = HOLDS if held == 0 else PARTLY if held < len(here) else FAILS
    return Claim("7", paper, "; ".join(here), verdict)


def _tuning(run: Run, label: str) -> Claim:
    gains = run.gains(tuned(label), label)
    paper = f"tuning makes the {label} kernel {TUNING[label]:.0f} % faster on average"
    why = ""
    if label == CSR and gains:
        shuffles = percent(run.gains("CSR, shuffles", CSR))
        other = percent(run.gains("csr, tuned", CSR))
        why = (
            f"shuffles in place of shared memory alone gain {fmean(shuffles.values()):+.1f} %, tuning that"
            f" takes in the library's other CSR kernels {fmean(other.values()):+.1f} %"
        )
    return judge_average("6", paper, percent(gains), TUNING[label], why)


def _ell_needs_none(run: Run) -> Claim:
    gains = percent(run.gains(tuned(ELL), ELL))
    paper = "tuning has not much effect on ELL"
    if not gains:
        return judge("6", paper, {}, "gain")
    average = fmean(gains.values())
    here = f"{average:+.1f} % on average ({spread(gains.values(), '+.1f', ' %')})"
    least = min(TUNING.values())
    verdict = HOLDS if average < 100 * EQUAL else PARTLY if average < least else FAILS
    return Claim("6", paper, here, verdict, gains=gains)
