"""What finding a format took."""

from __future__ import annotations

from dataclasses import dataclass, field

from .._util.show import Brief, fit, html_table
from .._util.steps import Step, in_words
from .._util.types import Format, Options
from ..formats import variant_name
from .reordering import Reorder

_MOST_TRIALS = 3  # that `repr` shows

#: By how much times vary from one short series to the next. What is predicted to be slower must win by more.
NOISE = 1.05


@dataclass(frozen=True, repr=False)
class Trial(Brief):
    """A format with its options, and how long a product took.

    Attributes
    ----------
    format : str
    options : dict
        Options of the format.
    time_us : float
        Microseconds of a product.
    reorder : {False, "columns", "clusters", "rcm"}
        The order of rows and columns, as `aslinearoperator` takes it.

    Examples
    --------
    >>> import spmvgpu as sg
    >>> with sg.cache.ignored():
    ...     op = sg.aslinearoperator(sg.gallery.poisson2d(30), "csr", "cpu", tune="full")
    >>> fastest = min(op.tuning.trials, key=lambda trial: trial.time_us)
    >>> fastest.format
    'csr'
    """

    format: Format
    options: Options
    time_us: float
    reorder: Reorder = False

    @property
    def name(self) -> str:
        """The format, with its options, and the order if it is not the given one."""
        name = variant_name(self.format, self.options)
        return f"{name} reorder={self.reorder}" if self.reorder else name


@dataclass(repr=False)
class Tuning:
    """What `SparseOperator.tuning` says: the formats that were timed, and where the time went.

    Attributes
    ----------
    mode : {"off", "cached", "full"}
        The argument `tune` of `aslinearoperator`.
    trials : list of Trial
        The formats that were timed.
    products : int
        Products of all trials together.
    seconds : float
        Seconds that choosing took, with the trials and their conversions.
    cached : bool
        Whether the result of an earlier tuning was used.
    out_of_time : bool
        Whether the time limit ended the trials early.
    steps : list of Step
        Where the time went, from the matrix to the operator. Their seconds add up to the whole.

    Examples
    --------
    >>> import spmvgpu as sg
    >>> op = sg.aslinearoperator(sg.gallery.poisson2d(30), device="cpu", tune="off")
    >>> op.tuning.mode, op.tuning.trials
    ('off', [])
    """

    mode: str
    trials: list[Trial] = field(default_factory=list)
    products: int = 0
    seconds: float = 0.0
    cached: bool = False
    out_of_time: bool = False
    steps: list[Step] = field(default_factory=list)

    def __repr__(self) -> str:
        facts = [f"mode {self.mode!r}", f"{self.products} products", f"{self.seconds:.3g} s"]
        facts += ["an earlier result was used"] if self.cached else []
        facts += ["the budget ended"] if self.out_of_time else []
        timed = sorted(self.trials, key=lambda trial: trial.time_us)
        shown = [f"{trial.name} {trial.time_us:.2f} us" for trial in timed[:_MOST_TRIALS]]
        shown += [f"... {len(timed)} trials"] if len(timed) > _MOST_TRIALS else []
        facts += [f"fastest {', '.join(shown)}"] if shown else []
        return fit(f"<Tuning: {'; '.join(facts)}; made in {in_words(self.steps)}>")

    def _repr_html_(self) -> str:
        caption = f"Tuning in mode {self.mode!r}: {self.products} products, {self.seconds:.3g} s"
        trials = [("trial", trial.name, f"{trial.time_us:.2f} us") for trial in self.trials]
        steps = [
            (taken.name, taken.of, f"{1e3 * taken.seconds:.2f} ms")
            for taken in self.steps
            if taken.name != "trial"
        ]
        return html_table(caption, [*steps, *trials], ("step", "format", "time"))


def reason_for(tuning: Tuning, time_us: float) -> str:
    """Why the best of the trials, with this time, is that."""
    quickest = min(tuning.trials, key=lambda trial: trial.time_us)
    if len(tuning.trials) == 1:
        had_no_time = "there was no time to time other formats"
        others = had_no_time if tuning.out_of_time else "no other candidate fits"
        return f"{others}; a product took {time_us:.1f} us"
    if quickest.time_us == time_us or tuning.mode == "full":
        return f"it was the fastest of {len(tuning.trials)} timed variants, at {time_us:.1f} us per product"
    return (
        f"a product took {time_us:.1f} us; {quickest.name} took {quickest.time_us:.1f} us, a difference "
        "within the noise, and is predicted to be slower"
    )
