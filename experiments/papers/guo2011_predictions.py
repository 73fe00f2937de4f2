"""Errors of the paper's model in predicted times and in choices of format, on matrices not used to calibrate.

Records of the kind "predictions" have the "format", "predicted_us" and the measured "time_us", records of the
kind "choices" the model's "choice" and its "time_us", and the "best" of the formats with its "best_us".
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from experiments.papers.claims import FAILS, HOLDS, OPEN, PARTLY, Claim, judge
from experiments.papers.guo2011_figures import Points
from experiments.papers.run import Run
from experiments.records import Row, geometric_mean

ALL = "all formats"
ERROR = 0.15  # that the picture marks
MEAN_LOSS, WORST_LOSS = 1.05, 1.25  # time of a choice over the best format's
LARGE = 1_000_000
BEYOND = "beyond the paper"  # which gives no errors


def choose(label_times: Mapping[str, float], predicted: Mapping[str, float]) -> Row | None:
    """What the model chooses among the formats that were both predicted and measured, and the best of them.

    Both arguments map formats to microseconds.
    """
    both = [format for format in predicted if format in label_times]
    if not both:
        return None
    choice, best = min(both, key=predicted.__getitem__), min(both, key=label_times.__getitem__)
    return {"choice": choice, "time_us": label_times[choice], "best": best, "best_us": label_times[best]}


def errors(run: Run) -> dict[str, list[float]]:
    """Relative errors of predictions, by format and over all of them."""
    found: dict[str, list[float]] = {}
    for format, pairs in points(run).items():
        found[format] = [predicted / time - 1 for time, predicted in pairs]
    everything = [error for values in found.values() for error in values]
    return found | {ALL: everything} if everything else found


def mean_errors(run: Run) -> dict[str, float]:
    """Mean absolute error in per cent, by format and over all of them."""
    return {format: 100 * fmean(map(abs, values)) for format, values in errors(run).items()}


def points(run: Run) -> dict[str, Points]:
    """Measured and predicted microseconds, by format."""
    found: dict[str, list[tuple[float, float]]] = {}
    for entry in run.records["predictions"]:
        found.setdefault(entry["format"], []).append((entry["time_us"], entry["predicted_us"]))
    return dict(found)


def losses(run: Run) -> dict[str, float]:
    """Matrix to time of the choice over that of the best format."""
    return {entry["matrix"]: entry["time_us"] / entry["best_us"] for entry in run.records["choices"]}


def prediction_claims(run: Run) -> list[Claim]:
    return [_error(run), _loss(run)]


def _error(run: Run) -> Claim:
    paper = "the model predicts the times of the CSR, ELL, COO and HYB kernels"
    if not errors(run):
        return Claim("4", paper, "not measured", OPEN)
    means, entries = mean_errors(run), run.records["predictions"]
    by_format = ", ".join(f"{name} {mean:.0f} %" for name, mean in means.items() if name != ALL)
    here = (
        f"mean absolute error on {len({entry['matrix'] for entry in entries})} matrices {means[ALL]:.1f} %"
        f" (mean of the errors with their signs {100 * fmean(errors(run)[ALL]):+.1f} %); {by_format}"
    )
    large = [abs(entry["predicted_us"] / entry["time_us"] - 1) for entry in entries if entry["nnz"] > LARGE]
    why = "the paper gives no errors"
    if large:
        why += f"; on the matrices of more than {LARGE:,} non-zeros it is {100 * fmean(large):.1f} %"
    return Claim("4", paper, here, OPEN, why)


def _loss(run: Run) -> Claim:
    """Whether choices lose little against the best format, on average and on any matrix."""
    aim = (
        "the format that the paper's model predicts to be the fastest takes at most"
        f" {MEAN_LOSS:.2f}x the time of the best format (geometric mean), and {WORST_LOSS:.2f}x on any matrix"
    )
    found, records = losses(run), run.records["choices"]
    if not found:
        return judge(BEYOND, aim, {}, "time over that of the best format")
    mean, worst = geometric_mean(found.values()), max(found, key=found.__getitem__)
    here = f"{mean:.3f}x on {len(found)} matrices; at most {found[worst]:.2f}x ({worst})"
    entry = next(entry for entry in records if entry["matrix"] == worst)
    right = sum(entry["choice"] == entry["best"] for entry in records)
    why = f"the best format itself on {right} of {len(found)}"
    if entry["choice"] != entry["best"]:
        why += f"; on {worst}, {entry['choice']} in place of {entry['best']}"
    within = (mean <= MEAN_LOSS, found[worst] <= WORST_LOSS)
    verdict = HOLDS if all(within) else PARTLY if any(within) else FAILS
    return Claim(BEYOND, aim, here, verdict, why, {name: 1 / loss for name, loss in found.items()})
