"""How an operator presents itself: what `explain` says, and the table that notebooks show."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from . import _core
from .tune import estimate_csr, formats

if TYPE_CHECKING:
    from .operator import SparseOperator


def explanation(op: SparseOperator, reason: str) -> str:
    """Why the operator's format is in use, and what the others would store."""
    lines = [repr(op), f"chosen because {reason}", "", "format      bytes/non-zero   padding"]
    csr = op.tocsr()
    for name in formats():
        try:
            cost = estimate_csr(csr, name)
            row = f"{cost['bytes'] / max(op.nnz, 1):14.2f} {cost['padding']:9.2f}"
        except _core.FormatError as refused:
            row = f"  {refused}"
        lines.append(f"{name:10s} {row}" + ("   <- in use" if name == op.format else ""))
    return "\n".join(lines)


def html_table(op: SparseOperator) -> str:
    """The operator's facts as an HTML table."""
    facts = {
        "shape": f"{op.shape[0]} x {op.shape[1]}",
        "dtype": op.dtype,
        "non-zeros": f"{op.nnz:,}",
        "format": op.format,
        "device": op.device,
        "bytes": f"{op.nbytes:,}",
        "options": ", ".join(f"{name}={value}" for name, value in op.options.items()),
    }
    left = "style='text-align:left'"
    rows = "".join(
        f"<tr><th {left}>{name}</th><td {left}>{html.escape(str(value))}</td></tr>"
        for name, value in facts.items()
    )
    return f"<table><caption>SparseOperator</caption>{rows}</table>"
