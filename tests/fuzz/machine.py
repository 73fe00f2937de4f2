"""A state machine: operators, and what is made of them, beside matrices that say what they should be.

A case is a machine of some steps, each an operation that is drawn from `operations`. What was made of an
operator keeps the values that it was made with, new values change the one operator that gets them, and an
error changes nothing: that is checked of everything that is there, after whatever could have changed more.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

import spmvgpu as sg

from .cases import DOCUMENTED, REFUSED, attempt, kind
from .model import Model

STEPS = 25  # of a machine
BUILDS = 3  # steps that it begins with
MOST = 8  # operators that it keeps


class NotThereError(Exception):
    """What a step is about is not there."""


@dataclass(eq=False)
class Entry:
    """An operator, or what else multiplies, and what it should be.

    Attributes
    ----------
    number : int
        The step that made it.
    op : LinearOperator
    model : Model
    declared : bool, "hermitian" or None
        What it, or what it was made of, is said to be.
    pattern : csr_array or None
        What an operator of the package stores, but for the values.
    """

    number: int
    op: Any
    model: Model
    declared: Any = None
    pattern: sp.csr_array | None = None

    @property
    def is_operator(self) -> bool:
        return isinstance(self.op, sg.SparseOperator)

    def check(self, rng: np.random.Generator) -> None:
        """A product, and the adjoint one or the entries in turn."""
        x = small_numbers(rng, self.model.shape[1], self.op.dtype)
        self.model.check_product(self.op @ x, x)
        if self.is_operator and rng.random() < 0.5:
            self.check_entries()
        elif rng.random() < 0.5:
            self.check_adjoint(rng)

    def check_entries(self) -> None:
        found = self.op.tocsr()
        assert found.dtype == self.op.dtype
        self.model.check_entries(found)
        assert self.pattern is not None
        assert self.op.nnz == found.nnz
        np.testing.assert_array_equal(found.indptr, self.pattern.indptr)
        np.testing.assert_array_equal(found.indices, self.pattern.indices)

    def check_adjoint(self, rng: np.random.Generator) -> None:
        x = small_numbers(rng, self.model.shape[0], self.op.dtype)
        try:
            y = self.op.rmatvec(x)
        except NotImplementedError:
            assert not self.is_operator
            return
        self.model.transposed(conjugated=True).check_product(y, x)


class Machine:
    """A case, by its seed; of a device, with which steps it is run."""

    def __init__(self, seed: int, device: str) -> None:
        self.seed, self.device = seed, device
        self.entries: list[Entry] = []
        self.said: list[str] = []
        self._begin(0)

    def _begin(self, step: int) -> None:
        self.step, self.rng = step, np.random.default_rng([self.seed, step])

    def run(self, steps: list[int]) -> None:
        """Some of the steps; each draws the same whether others are run or not."""
        from .operations import OPERATIONS, build  # which are written for a machine

        operations = list(OPERATIONS)
        weights = np.array([OPERATIONS[operation] for operation in operations], dtype=float)
        for step in steps:
            self._begin(step)
            operation = operations[int(self.rng.choice(len(operations), p=weights / weights.sum()))]
            if step < BUILDS:
                operation = build
            self.said.append(f"step {step}: {operation.__name__}")
            try:
                operation(self)
            except NotThereError:
                self.said.pop()

    def say(self, what: str) -> None:
        """What a step does, for whoever reads a finding."""
        self.said[-1] += f", {what}"

    def pick(self, suits: Callable[[Entry], bool] = lambda entry: True) -> Entry:
        """One of the entries, the same one if others than that are not there."""
        there = [entry for entry in self.entries if suits(entry)]
        if not there:
            raise NotThereError
        drawn = int(self.rng.integers(2**31))
        found = min(there, key=lambda entry: zlib.crc32(f"{drawn} {entry.number}".encode()))
        self.say(f"#{found.number} = {described(found.op)}")
        return found

    def add(self, op: Any, model: Model, declared: Any = None) -> None:
        """Take in what was made, unless it is something that was there before."""
        assert op.shape == model.shape, f"{op.shape}, and not {model.shape}"
        for entry in self.entries:
            if entry.op is op:
                self.say(f"made what #{entry.number} is")
                entry.check(self.rng)
                model.check_entries(entry.model.exact)
                return
        entry = Entry(self.step, op, model, declared)
        if entry.is_operator:
            entry.pattern = op.tocsr()
        self.say(f"made #{entry.number} = {described(op)}")
        entry.check(self.rng)
        if entry.is_operator:
            entry.check_entries()
        if model.is_small:
            self.entries = [other for other in self.entries if other.number != self.step]
            self.entries = [*self.entries, entry][-MOST:]

    def attempt(self, call: Callable[..., Any], *args: Any, errors: Any = DOCUMENTED, **kwargs: Any) -> Any:
        """What the call gives; REFUSED where it raises one of these errors, which has changed nothing."""
        result = attempt(call, *args, errors=errors, **kwargs)
        if result is REFUSED:
            self.say("refused")
            self.check_all()
        return result

    def check_all(self) -> None:
        """Everything is what it was."""
        for entry in self.entries:
            try:
                entry.check(self.rng)
            except Exception as error:
                raise AssertionError(f"#{entry.number} is not what it was: {error}") from error


def described(op: Any) -> str:
    """A short name of an operator."""
    if not isinstance(op, sg.SparseOperator):
        return f"{type(op).__name__} {op.shape} {op.dtype}"
    return f"{op.format} {op.shape} {op.dtype} on {op.device}"


def small_numbers(rng: np.random.Generator, count: int, dtype: Any) -> np.ndarray:
    """Whole numbers that every type holds, zeros among them."""
    dtype = np.dtype(dtype)
    drawn = rng.integers(-4, 5, count)
    return (drawn + 1j * rng.integers(-4, 5, count) if dtype.kind == "c" else drawn).astype(dtype)


@kind(weight=8, batch=400)
def operations(rng: np.random.Generator, device: str) -> None:
    """Operators and all that is made of them, step by step, beside matrices."""
    machine = Machine(int(rng.integers(2**63)), device)
    try:
        machine.run(list(range(STEPS)))
    except Exception as error:
        said = "\n  ".join(machine.said)
        raise AssertionError(f"{type(error).__name__}: {error}\n  {said}") from error
