"""Products of every format, and what the models say of them: the measurements of `guo2011`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

import spmvgpu as sg
from experiments.papers.guo2011_claims import APPROACH, BEST_CUT, COO, CSR, CUT, ELL, HYB
from experiments.papers.guo2011_predictions import OWN, PAPER, choose
from experiments.papers.matrices import Sample
from experiments.papers.measure import NotMeasuredError, Variant, build, checked
from experiments.papers.run import Run
from experiments.peers.problem import DTYPES, Problem
from experiments.records import Row
from spmvgpu import cache
from spmvgpu.devices import resolve_device
from spmvgpu.formats import variant_name
from spmvgpu.inputs.csr import CanonicalCsr
from spmvgpu.operator.build import build as build_stored
from spmvgpu.operator.description import Description
from spmvgpu.papers.guo2011 import find_separator
from spmvgpu.papers.guo2011_planning import model_of, partitioned
from spmvgpu.planning import parts
from spmvgpu.planning.predict import predict_csr
from spmvgpu.planning.profile import Profile, forget_loaded, profile_path

Array = npt.NDArray[Any]

# The kernels of Bell and Garland 2009. ELL pads whatever the matrix, as theirs does.
PAD_ALWAYS = {"max_padding": 1000.0}
KERNELS = (
    Variant(CSR, "csr", {"kernel": "shared"}),  # a warp per row, reduced in shared memory: "CSR vector"
    Variant(ELL, "ellpack", PAD_ALWAYS),
    Variant(HYB, "hyb"),
    Variant(COO, "coo"),
)
# What these kernels are called in predictions: by the paper's model, and by the library's own.
BY_PAPER = {"csr": CSR, "ellpack": ELL, "hyb": HYB, "coo": COO}
BY_OWN = {"ellpack": ELL, "hyb": HYB, "coo": COO}

# What the library does by itself on a matrix that it never saw.
AUTO = Variant("auto", "auto")

# The parts of a partition, each tuned on its own.
CSR_PART = Variant("CSR part", "csr", {"kernel": "shuffle", "tune": "full"})
ELL_PART = Variant("ELL part", "ellpack", {**PAD_ALWAYS, "tune": "full"})


@contextmanager
def in_force(profile: Profile, ordinal: int) -> Iterator[None]:
    """Let the library use this profile, and remember nothing of earlier tuning, nor of this one."""
    try:
        with cache.empty():
            path = profile_path(ordinal)
            assert path is not None  # an empty cache is in a folder that is known
            profile.save(path)
            forget_loaded()
            yield
    finally:
        forget_loaded()


class Models:
    """Both models of one device in one precision; measures, and records what becomes of their predictions.

    Attributes
    ----------
    paper : Guo2011
        The paper's model.
    """

    def __init__(self, run: Run, dtype: str, profile: Profile) -> None:
        self.run = run
        self.dtype = dtype
        self.ordinal = resolve_device(run.device)
        self.profile = profile
        self.paper = model_of(profile, DTYPES[dtype])

    def time(self, sample: Sample, problem: Problem, variant: Variant) -> Row | None:
        """Time products of one kernel; None, and a record of the reason, where there are none."""
        return self._time(sample, variant.label, lambda: build(problem, variant, self.run.device))

    def _time(
        self, sample: Sample, label: str, make: Callable[[], tuple[sg.SparseOperator, int]]
    ) -> Row | None:
        """`time` of a checked operator and its bytes."""
        try:
            op, size = make()
        except NotMeasuredError as error:
            self.run.skip(sample, self.dtype, label, error)
            return None
        time_us = op.time_products(self.run.repeats)
        return self.run.add(
            sample,
            self.dtype,
            op.format,
            label=label,
            time_us=time_us,
            bytes=size,
            gflops=2 * op.nnz / (time_us * 1e3),
            options=op.options,
        )

    def compare(self, sample: Sample, problem: Problem) -> None:
        """Time every format; record what the models predict and choose, and what "auto" takes."""
        paper = self.paper.predict(np.diff(problem.matrix.indptr))
        entries = predict_csr(CanonicalCsr.of(problem.matrix), self.ordinal, OWN, self.profile)
        own = {entry.name: entry.time_us for entry in entries if entry.time_us is not None}
        others = [
            Variant(entry.name, entry.format, dict(entry.options))
            for entry in entries
            if entry.name in own and entry.name not in BY_OWN
        ]
        times = {}
        for variant in (*KERNELS, *others):
            row = self.time(sample, problem, variant)
            if row is not None:
                times[variant.label] = row["time_us"]
        by_paper = {name: times[label] for name, label in BY_PAPER.items() if label in times}
        by_own = {name: times[BY_OWN.get(name, name)] for name in own if BY_OWN.get(name, name) in times}
        self._judge(sample, PAPER, paper, by_paper)
        self._judge(sample, OWN, own, by_own)
        self._auto(sample, problem, by_own)

    def _judge(
        self, sample: Sample, model: str, predicted: Mapping[str, float], times: Mapping[str, float]
    ) -> None:
        """Row predictions for what was measured, and the choice among it."""
        for name, time_us in times.items():
            entry = {"format": name, "predicted_us": predicted[name], "time_us": time_us}
            self._record("predictions", sample, model=model, **entry)
        made = choose(times, predicted)
        if made is not None:
            self._record("choices", sample, model=model, **made)

    def _auto(self, sample: Sample, problem: Problem, times: Mapping[str, float]) -> None:
        """Row what the library chooses by itself, with the products that it tried."""
        try:
            op, _ = build(problem, AUTO, self.run.device)
        except NotMeasuredError as error:
            self.run.skip(sample, self.dtype, AUTO.label, error)
            return
        best = min(times, key=times.__getitem__)
        self._record(
            "auto",
            sample,
            choice=variant_name(op.format, op._stored.description.choice.options),
            time_us=op.time_products(self.run.repeats),
            best=best,
            best_us=times[best],
            products=op.tuning.products if op.tuning is not None else 0,
            seconds=op.tuning.seconds if op.tuning is not None else 0.0,
        )

    def approach(self, sample: Sample, problem: Problem, whole: Mapping[str, Row | None]) -> None:
        """Time the best cut by the paper's model, and take that or the one format that it says is faster.

        Parameters
        ----------
        sample, problem
            The matrix.
        whole : mapping
            Format to the row of its tuned product.
        """
        lengths = np.diff(problem.matrix.indptr)
        order = np.argsort(-lengths, kind="stable")
        found = find_separator(lengths, self.paper)
        cuts = np.flatnonzero((found.positions > 0) & (found.positions < len(lengths)))
        entry = {"chosen": found.format, "predicted_us": found.time_us, "whole_us": found.whole_us}
        row = whole.get(found.format)
        if len(cuts) > 0:
            predicted = found.csr_us[cuts] + found.ell_us[cuts]
            best = int(np.argmin(predicted))
            above, below = np.split(order, [int(found.positions[cuts[best]])])
            for part, rows in (("csr", above), ("ell", below)):
                entry |= {f"{part}_rows": len(rows), f"{part}_nnz": int(lengths[rows].sum())}
            entry["cut_us"] = float(predicted[best])
            cut = self._time_cut(sample, problem, above, below)
            row = cut if found.format == CUT else row
        self.run.tune(APPROACH, [row] if row is not None else [])
        self._record("partitions", sample, **entry)

    def _time_cut(self, sample: Sample, problem: Problem, above: Array, below: Array) -> Row | None:
        """Time products of a matrix whose rows are in CSR and in ELL, both tuned on their own."""
        csr = problem.matrix

        def make() -> sg.SparseOperator:
            choices = []
            for rows, variant in ((above, CSR_PART), (below, ELL_PART)):
                part = parts.submatrix(csr, rows)
                tuned = sg.aslinearoperator(part, variant.format, self.run.device, **variant.options)
                choices.append(tuned._stored.description.choice)
            choice = partitioned((above, below), choices, "the paper's model cuts the matrix so")
            description = Description(self.run.device, (self.ordinal,), choice=choice)
            return sg.SparseOperator(build_stored(csr, description))

        return self._time(sample, BEST_CUT, lambda: checked(problem, make))

    def _record(self, kind: str, sample: Sample, **entry: Any) -> None:
        shared = {"matrix": sample.name, "nnz": int(sample.matrix.nnz), "dtype": self.dtype}
        self.run.records[kind].append({**shared, **entry})
