"""What `explain` says of an operator, and the table that notebooks show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from .._util.show import html_table, in_bytes, short, wrapped
from .._util.steps import in_words
from ..devices import CPU, resolve_device
from ..formats import traits
from ..inputs import compressed
from ..planning.budget import takes_long_to_plan
from ..planning.predict import predict_csr
from ..planning.profile import load_profile
from ..planning.tuning import Tuning


class Described(Protocol):
    """What is told of an operator."""

    shape: tuple[int, int]
    dtype: Any

    @property
    def nnz(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def format(self) -> str: ...
    @property
    def device(self) -> Any: ...
    @property
    def options(self) -> dict[str, Any]: ...
    @property
    def tuning(self) -> Tuning | None: ...
    def tocsr(self) -> Any: ...
    def _summary(self) -> str: ...


def explanation(op: Described, reason: str, counts: Mapping[str, float], map_bytes: int) -> str:
    """Why the operator's format is in use, what it stores, and what all of them are predicted to cost.

    `counts` is what the format counts of what it stores, `map_bytes` what updates of the values have it keep.
    """
    ordinal = resolve_device(op.device)
    predictions = predict_csr(op.tocsr(), ordinal, "roofline", load_profile(ordinal))
    lines = [op._summary(), f"chosen because {reason}"]
    if op.tuning is not None:
        if op.tuning.trials:
            trials = (f"{trial.name} {trial.time_us:.2f} us" for trial in op.tuning.trials)
            took = f"{op.tuning.products} products and {op.tuning.seconds:.3f} s"
            lines.append(f"tuning took {took}: {', '.join(trials)}")
        if op.tuning.steps:
            lines.append(f"made in {in_words(op.tuning.steps)}")
    if op.nnz > compressed.ENTRY_LIMIT:
        lines.append(f"stored in pieces of some rows each: a format holds {compressed.ENTRY_LIMIT} entries")
    stored = ", ".join(f"{name} {count:.0f}" for name, count in counts.items() if count)
    if stored:
        lines.append(f"stored with: {stored}")
    if map_bytes:
        lines.append(f"update_values keeps {map_bytes} bytes that say where values belong")
    lines += ["", predictions.caption]
    table = predictions.table(op.format, op.options)
    best, kind = predictions.best.format, "cpu" if ordinal == CPU else "cuda"
    notes = []
    known = traits(best)
    if op.format != best and known.only_if_asked:
        notes.append(f"{best} is there for experiments: only format={best!r} gives it")
    elif op.format != best and takes_long_to_plan(best, kind):
        asked = "symmetric=True or tune='full'" if known.needs_symmetry else "tune='full'"
        notes.append(
            f"{best} is considered with {asked} alone: planning it takes as long as tens of products or more"
        )
    elif op.format != best and kind == "cuda" and known.needs_few_values:
        notes.append(f"{best} is considered with tune='full', or for few values on near columns")
    return "\n".join([*map(wrapped, lines), table, *map(wrapped, notes)])


def html_of(op: Described, reason: str) -> str:
    """The operator's facts as an HTML table."""
    facts = {
        "shape": f"{op.shape[0]:,} x {op.shape[1]:,}",
        "dtype": op.dtype,
        "non-zeros": f"{op.nnz:,}",
        "format": op.format,
        "options": ", ".join(f"{name}={short(value)}" for name, value in op.options.items()),
        "chosen because": reason,
        "device": op.device if isinstance(op.device, str) else ", ".join(op.device),
        "memory": in_bytes(op.nbytes),
    }
    return html_table("SparseOperator", [(name, value) for name, value in facts.items() if value])
