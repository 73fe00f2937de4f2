"""How well the models predict times and choose formats, on matrices that they were not calibrated with.

Works on three kinds of records of a run, all of them with "matrix" and "nnz":

predictions
    "model", "format", "predicted_us" and the measured "time_us".
choices
    "model", its "choice" and that one's "time_us", the "best" of the formats it chose from and "best_us".
auto
    What ``format="auto"`` took, likewise, and the "products" that it spent on trials.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from experiments.papers.claims import FAILS, HOLDS, OPEN, PARTLY, Claim, judge
from experiments.papers.guo2011_figures import Points
from experiments.papers.run import Run
from experiments.records import Row, geometric_mean

PAPER, OWN = "guo2011", "roofline"  # the models
ALL = "all formats"

# What the library aims at; "beyond the paper", which gives no errors.
ERROR = 0.15  # mean absolute error of the predicted times
MEAN_LOSS, WORST_LOSS = 1.05, 1.25  # time of a choice over the best format's
PRODUCTS, LARGE = 40, 1_000_000  # spent by format="auto" on matrices with more non-zeros than that
SECONDS = 120.0  # of a calibration

BEYOND = "beyond the paper"


def choose(label_times: Mapping[str, float], predicted: Mapping[str, float]) -> Row | None:
    """What a model chooses among the formats that were both predicted and measured, and the best of them.

    Parameters
    ----------
    label_times, predicted : mapping
        Format to microseconds.
    """
    both = [format for format in predicted if format in label_times]
    if not both:
        return None
    choice = min(both, key=predicted.__getitem__)
    best = min(both, key=label_times.__getitem__)
    return {
        "choice": choice,
        "time_us": label_times[choice],
        "best": best,
        "best_us": label_times[best],
    }


def errors(run: Run, model: str) -> dict[str, list[float]]:
    """Relative errors of a model's predictions, by format and over all of them."""
    found: dict[str, list[float]] = {}
    for entry in run.records["predictions"]:
        if entry["model"] == model:
            error = entry["predicted_us"] / entry["time_us"] - 1
            found.setdefault(entry["format"], []).append(error)
    everything = [error for values in found.values() for error in values]
    return found | {ALL: everything} if everything else found


def mean_errors(run: Run, model: str) -> dict[str, float]:
    """Mean absolute error in per cent, by format and over all of them."""
    return {format: 100 * fmean(map(abs, values)) for format, values in errors(run, model).items()}


def points(run: Run, model: str) -> dict[str, Points]:
    """Measured and predicted microseconds, by format."""
    found: dict[str, list[tuple[float, float]]] = {}
    for entry in run.records["predictions"]:
        if entry["model"] == model:
            found.setdefault(entry["format"], []).append((entry["time_us"], entry["predicted_us"]))
    return dict(found)


def losses(records: list[Row]) -> dict[str, float]:
    """Matrix to time of the choice over that of the best format."""
    return {entry["matrix"]: entry["time_us"] / entry["best_us"] for entry in records}


def prediction_claims(run: Run) -> list[Claim]:
    return [
        _paper_error(run),
        _own_error(run),
        *(_choice(run, model) for model in (PAPER, OWN)),
        _auto(run),
        _trials(run),
        _calibration(run),
    ]


def _error_text(run: Run, model: str) -> str:
    means = mean_errors(run, model)
    matrices = {entry["matrix"] for entry in run.records["predictions"] if entry["model"] == model}
    by_format = ", ".join(f"{name} {mean:.0f} %" for name, mean in means.items() if name != ALL)
    signed = 100 * fmean(errors(run, model)[ALL])
    return (
        f"mean absolute error on {len(matrices)} matrices {means[ALL]:.1f} % (mean of the errors with their"
        f" signs {signed:+.1f} %); {by_format}"
    )


def _paper_error(run: Run) -> Claim:
    paper = "the model predicts the times of the CSR, ELL, COO and HYB kernels"
    if not errors(run, PAPER):
        return Claim("4", paper, "not measured", OPEN)
    large = [
        abs(entry["predicted_us"] / entry["time_us"] - 1)
        for entry in run.records["predictions"]
        if entry["model"] == PAPER and entry["nnz"] > LARGE
    ]
    why = "the paper gives no errors"
    if large:
        why += f"; on the matrices of more than {LARGE:,} non-zeros it is {100 * fmean(large):.1f} %"
    return Claim("4", paper, _error_text(run, PAPER), OPEN, why)


def _own_error(run: Run) -> Claim:
    aim = f"the library's own model has a mean absolute error of at most {ERROR:.0%}"
    if not errors(run, OWN):
        return Claim(BEYOND, aim, "not measured", OPEN)
    means = mean_errors(run, OWN)
    worst = max(run.records["predictions"], key=_own_miss)
    why = (
        f"the worst: {worst['format']} on {worst['matrix']}, predicted {worst['predicted_us']:.1f} and"
        f" measured {worst['time_us']:.1f} microseconds"
    )
    verdict = HOLDS if means[ALL] <= 100 * ERROR else FAILS
    return Claim(BEYOND, aim, _error_text(run, OWN), verdict, why)


def _own_miss(entry: Row) -> float:
    return abs(entry["predicted_us"] / entry["time_us"] - 1) if entry["model"] == OWN else -1.0


def _choice(run: Run, model: str) -> Claim:
    records = [entry for entry in run.records["choices"] if entry["model"] == model]
    whose = "paper's model" if model == PAPER else "library's own model"
    return _loss(f"the format that the {whose} predicts to be the fastest", records)


def _auto(run: Run) -> Claim:
    return _loss('what format="auto" takes, after its trials,', run.records["auto"])


def _loss(what: str, records: list[Row]) -> Claim:
    """Whether choices lose little against the best format, on average and on any matrix."""
    aim = (
        f"{what} takes at most {MEAN_LOSS:.2f}x the time of the best format (geometric mean), and"
        f" {WORST_LOSS:.2f}x on any matrix"
    )
    found = losses(records)
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


def _trials(run: Run) -> Claim:
    aim = f'format="auto" costs at most {PRODUCTS} products above {LARGE:,} non-zeros'
    spent = {e["matrix"]: e["products"] for e in run.records["auto"] if e["nnz"] > LARGE}
    if not spent:
        return Claim(BEYOND, aim, "no such matrix was measured", OPEN)
    most = max(spent, key=spent.__getitem__)
    here = (
        f"{fmean(spent.values()):.0f} on average on {len(spent)} matrices, at most {spent[most]:.0f} ({most})"
    )
    return Claim(BEYOND, aim, here, HOLDS if spent[most] <= PRODUCTS else FAILS)


def _calibration(run: Run) -> Claim:
    aim = f"calibration takes less than {SECONDS:.0f} seconds"
    seconds = run.environment.get("calibration_seconds")
    if seconds is None:
        return Claim(BEYOND, aim, "not measured: a profile was given", OPEN)
    return Claim(BEYOND, aim, f"{seconds:.0f} seconds", HOLDS if seconds < SECONDS else FAILS)
