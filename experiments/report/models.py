"""What prediction.json and the experiment of Guo et al. 2011 say of the performance models, and the goals."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from experiments.records import Row, geometric_mean

from .summary import Mark, Results

MODELS = ("roofline", "guo2011")
GUO2011 = "reproduce/guo2011"
ERROR, CHOICE, WORST_CHOICE, PRODUCTS, CALIBRATION = 0.15, 1.05, 1.25, 40, 120
AUTO_CHOICE, WORST_OF_AUTO = 1.01, 1.10
LARGE_NNZ = 1_000_000

AUTO = "auto"  # the variant of what format="auto" took

HEAD = ("format", "", "cases", *(f"error of {model}" for model in MODELS))
NOTE = (
    "Mean absolute error of the predicted time of a product, on matrices that no model was fitted to. "
    "`roofline` is the library's model. `guo2011` is the model of Guo et al. 2011, which covers four "
    "formats."
)


def errors(rows: Sequence[Row], model: str, variant: str | None = None) -> list[float]:
    """Absolute relative errors, of one variant or of all that the model knows."""
    return [
        abs(row[f"{model}_us"] / row["time_us"] - 1)
        for row in rows
        if row[f"{model}_us"] is not None and variant in (None, row["variant"])
    ]


def losses(rows: Sequence[Row], model: str) -> dict[str, float]:
    """By matrix: the time of the format predicted to be the fastest over that of the fastest one it knows."""
    cases: dict[str, list[Row]] = {}
    for row in rows:
        if row[f"{model}_us"] is not None:
            cases.setdefault(f"{row['matrix']} {row['dtype']}", []).append(row)
    return {
        case: min(own, key=lambda row: row[f"{model}_us"])["time_us"] / min(row["time_us"] for row in own)
        for case, own in cases.items()
    }


def losses_of_auto(rows: Sequence[Row]) -> dict[str, float]:
    """By matrix: the time of what ``format="auto"`` took over that of the fastest variant, or its own."""
    fastest: dict[str, float] = {}
    taken: dict[str, float] = {}
    for row in rows:
        case = f"{row['matrix']} {row['dtype']}"
        fastest[case] = min(row["time_us"], fastest.get(case, row["time_us"]))
        if row["variant"] == AUTO:
            taken[case] = row["time_us"]
    return {case: time / fastest[case] for case, time in taken.items()}


def rows(results: Results) -> list[tuple[str, ...]]:
    """The table, as `HEAD` names its columns; empty where nothing was measured."""
    measured = results.get("prediction", {}).get("rows", [])
    body: list[tuple[str, ...]] = []
    for variant in dict.fromkeys(row["variant"] for row in measured if row["variant"] != AUTO):
        found = [errors(measured, model, variant) for model in MODELS]
        format, _, options = variant.partition(" ")
        means = (f"{fmean(own):.1%}" if own else "-" for own in found)
        body.append((f"`{format}`", options, str(max(map(len, found))), *means))
    return body


def marks(results: Results) -> list[Mark]:
    """The goals beside what was measured; none where nothing was."""
    found = []
    measured = results.get("prediction", {}).get("rows", [])
    if measured:
        off = errors(measured, "roofline")
        text = f"mean absolute error {fmean(off):.1%} of {len(off)} products"
        found.append(Mark("prediction of roofline", f"<= {ERROR:.0%}", text, fmean(off) <= ERROR))
        found.append(_choice("format that roofline predicts to be the fastest", losses(measured, "roofline")))
        lost = losses_of_auto(measured)
        if lost:
            found.append(_choice('format="auto"', lost, AUTO_CHOICE, WORST_OF_AUTO))
    guo2011 = results.get(GUO2011, {})
    if guo2011.get("auto"):
        taken = {
            f"{row['matrix']} {row['dtype']}": row["time_us"] / row["best_us"] for row in guo2011["auto"]
        }
        found.append(_choice('format="auto", after its trials', taken))
        products = [row["products"] for row in guo2011["auto"] if row["nnz"] > LARGE_NNZ]
        if products:
            text = f"mean {fmean(products):.0f}, most {max(products)} of {len(products)} matrices"
            name = 'products that the trials of format="auto" take'
            found.append(Mark(name, f"<= {PRODUCTS}", text, max(products) <= PRODUCTS))
    seconds = guo2011.get("environment", {}).get("calibration_seconds")
    if seconds is not None:
        found.append(Mark("calibration", f"< {CALIBRATION} s", f"{seconds:.0f} s", seconds < CALIBRATION))
    return found


def _choice(
    name: str, over_the_best: dict[str, float], mean_goal: float = CHOICE, worst_goal: float = WORST_CHOICE
) -> Mark:
    mean = geometric_mean(over_the_best.values())
    worst, where = max((value, case) for case, value in over_the_best.items())
    above = sum(value > worst_goal for value in over_the_best.values())
    text = f"geometric mean {mean:.3f}, worst {worst:.2f} at {where}, {above} of {len(over_the_best)} above"
    text += f" {worst_goal:g}"
    goal = f"mean <= {mean_goal:g}, worst <= {worst_goal:g}"
    name = f"{name}, over the best"
    return Mark(name, goal, text, mean <= mean_goal and worst <= worst_goal)
