"""Claims of a paper, beside what was measured here."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean, median

from experiments.records import geometric_mean

HOLDS, PARTLY, FAILS, OPEN = "holds", "holds in part", "no longer holds", "not judged"

# Times that differ by less than this fraction count as equal.
EQUAL = 0.02

CPU_NOTE = (
    "CPU figures: the CPU backend multiplies each format with one routine, so that kernels of one format are"
    " not"
    " distinguished; what the paper says about a GPU is not judged by them."
)


@dataclass(frozen=True)
class Claim:
    """A statement of a paper and its fate.

    Attributes
    ----------
    where : str
        Section of the paper.
    paper, here : str
        The statement, and what the measured numbers say about it.
    verdict : str
        "holds", "holds in part", "no longer holds" or "not judged".
    why : str
        The reason, worked out from the measured numbers.
    gains : mapping
        Matrix name to the gain that was judged, where the claim is about one.
    of_gpu : bool
        It is about a GPU, so that a run on the CPU does not judge it.
    """

    where: str
    paper: str
    here: str
    verdict: str
    why: str = ""
    gains: Mapping[str, float] = field(default_factory=dict)
    of_gpu: bool = True


def judge(where: str, paper: str, gains: Mapping[str, float], what: str, why: str = "") -> Claim:
    """A claim that something gains on every matrix, where 1 is no gain.

    Parameters
    ----------
    where, paper : str
        Of the `Claim`.
    gains : mapping
        Matrix name to gain; empty if something was not measured.
    what : str
        What the gains are of, such as "speed of CSR-O over CSR-R".
    why : str
        Reason to add.
    """
    if not gains:
        return Claim(where, paper, f"{what}: not measured", OPEN, "a format it needs was left out, see above")
    more = [name for name, gain in gains.items() if gain > 1 + EQUAL]
    less = [name for name, gain in gains.items() if gain < 1 - EQUAL]
    here = f"{what}: {geometric_mean(gains.values()):.2f}x"
    if len(gains) > 1:
        here += f" on average ({spread(gains.values())}),"
        here += f" more on {len(more)}, less on {len(less)} of {len(gains)}"
    verdict = HOLDS if len(more) == len(gains) else PARTLY if more else FAILS
    if less and verdict == PARTLY:
        here += f"; less on {', '.join(less)}"
    return Claim(where, paper, here, verdict, why, dict(gains))


def judge_average(
    where: str, paper: str, percent: Mapping[str, float], claimed: float, why: str = ""
) -> Claim:
    """A claim of an average gain: a smaller one than the paper's is a part of it.

    Parameters
    ----------
    where, paper, why : str
        Of the `Claim`.
    percent : mapping
        Matrix name to gain in per cent; empty if something was not measured. Averaged arithmetically, as the
        papers do.
    claimed : float
        The paper's average.
    """
    if not percent:
        return judge(where, paper, {}, "gain")
    gains = list(percent.values())
    average = fmean(gains)
    here = f"{average:+.1f} % on average (median {median(gains):+.1f} %, {spread(gains, '+.1f', ' %')})"
    verdict = HOLDS if average >= claimed else PARTLY if average > 100 * EQUAL else FAILS
    return Claim(where, paper, here, verdict, why, dict(percent))


def quotients(above: Mapping[str, float], below: Mapping[str, float]) -> dict[str, float]:
    """By name, where both are known."""
    return {name: above[name] / below[name] for name in below if name in above}


def spread(values: Iterable[float], form: str = ".2f", unit: str = "x") -> str:
    """Lowest and highest value, as text."""
    numbers = sorted(values)
    return f"{numbers[0]:{form}} to {numbers[-1]:{form}}{unit}"


def print_claims(claims: list[Claim], on_cpu: bool) -> None:
    print("\nclaims of the paper, and what this machine says")
    for number, claim in enumerate(claims, 1):
        print()
        print_wrapped(f"{number:>2}. ", f"{claim.paper} ({claim.where})")
        print_wrapped("    here:    ", claim.here)
        print_wrapped("    verdict: ", claim.verdict)
        if claim.why:
            print_wrapped("    why:     ", claim.why)
    if on_cpu:
        print()
        print_wrapped("note: ", CPU_NOTE)


def print_wrapped(label: str, text: str) -> None:
    """Print `text` in lines that a terminal holds, `label` before the first."""
    print(textwrap.fill(text, 110, initial_indent=label, subsequent_indent=" " * len(label)), flush=True)
