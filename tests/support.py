"""Small helpers of the tests: building operators, checking refusals, running Python in a fresh process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import spmvgpu as sg

BYTES = re.compile(r"\d[\d,._]*(\.\d+)?\s*([KMGT]i?B|bytes|B)\b")


def check_refusal(A, fmt, message):
    """A FormatError must name what the matrix would cost and a format that does hold it."""
    assert BYTES.search(message), f"no cost in bytes in: {message}"
    others = [name for name in sg.formats() if name != fmt and re.search(rf"\b{name}\b", message)]
    assert others, f"no other format in: {message}"
    for name in others:
        sg.aslinearoperator(A, format=name, device="cpu")


def build(A, fmt, device="cpu", **options):
    """The operator of `A` in a format; a visible skip where that format justly refuses the matrix."""
    try:
        return sg.aslinearoperator(A, format=fmt, device=device, **options)
    except sg.FormatError as error:
        check_refusal(A, fmt, str(error))
        pytest.skip(f"{fmt} refuses the matrix")


def transposed(op, A):
    """The transposed operator; a visible skip where the format justly refuses the transposed matrix."""
    try:
        return op.T
    except sg.FormatError as error:
        check_refusal(A.T.tocsr(), op.format, str(error))
        pytest.skip(f"{op.format} refuses the transposed matrix")


def poisoned(shape, dtype):
    """An output array full of NaN: whatever is not overwritten shows."""
    return np.full(shape, np.nan, dtype=dtype)


def allowed_values(option):
    """The allowed values of one entry of sg.format_options() that can be tried one by one."""
    allowed = option["allowed"]
    return list(allowed) if isinstance(allowed, (list, tuple, range)) else [option["default"]]


def run_python(code, *, check=True, **environment):
    """Run code in a fresh interpreter where warnings are errors; a variable set to None is removed.

    Returns
    -------
    subprocess.CompletedProcess
        With `stdout` and `stderr` as text.
    """
    variables = {**os.environ, **{name: value for name, value in environment.items() if value is not None}}
    for name in (name for name, value in environment.items() if value is None):
        variables.pop(name, None)
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300, check=False)
    if check and done.returncode != 0:
        raise AssertionError(f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def resident_bytes():
    """Resident memory of this process; skips where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        pytest.skip("needs /proc/self/statm")


def free_device_bytes(device):
    """Free memory of a device, as the product reports it."""
    return next(info.memory_free for info in sg.devices() if info.name == device)
