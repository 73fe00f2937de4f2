"""Products of the paper's kernels, and what the model says of them: the measurements of `guo2011`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

import spmvgpu as sg
from experiments.papers.guo2011_claims import APPROACH, BEST_CUT, COO, CSR, CUT, ELL, HYB
from experiments.papers.guo2011_predictions import choose
from experiments.papers.matrices import Sample
from experiments.papers.measure import NotMeasuredError, Variant, checked, gflops, measure_kernel
from experiments.papers.run import Run
from experiments.peers.problem import DTYPES, Problem
from experiments.records import Row
from spmvgpu import cache
from spmvgpu.devices import resolve_device
from spmvgpu.inputs.canonical import canonical_csr
from spmvgpu.operator.build import build as build_stored
from spmvgpu.operator.description import Description
from spmvgpu.papers.guo2011 import find_separator
from spmvgpu.papers.guo2011_planning import model_of, partitioned
from spmvgpu.planning.profile import Profile, forget_loaded, profile_path

Array = npt.NDArray[Any]

# The kernels of Bell and Garland 2009. ELL pads whatever the matrix, as theirs does.
PAD_ALWAYS = {"max_padding": 1000.0}
KERNELS = {
    "csr": Variant(CSR, "csr", {"kernel": "shared"}),  # a warp per row: "CSR vector"
    "ellpack": Variant(ELL, "ellpack", PAD_ALWAYS),
    "hyb": Variant(HYB, "hyb"),
    "coo": Variant(COO, "coo"),
}  # by the formats of predictions

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
    """The model of one device in one precision; measures, and records what becomes of its predictions.

    Attributes
    ----------
    paper : Guo2011
        The paper's model.
    """

    def __init__(self, run: Run, dtype: str, profile: Profile) -> None:
        self.run = run
        self.dtype = dtype
        self.ordinal = resolve_device(run.device)
        self.paper = model_of(profile, DTYPES[dtype])

    def compare(self, sample: Sample, problem: Problem) -> None:
        """Time the paper's kernels; record what the model predicts and chooses."""
        predicted = self.paper.predict(np.diff(problem.matrix.indptr))
        times = {}
        for format, variant in KERNELS.items():
            row = measure_kernel(self.run, sample, self.dtype, problem, variant)
            if row is not None:
                times[format] = row["time_us"]
                entry = {"format": format, "predicted_us": predicted[format], "time_us": row["time_us"]}
                self._record("predictions", sample, **entry)
        made = choose(times, predicted)
        if made is not None:
            self._record("choices", sample, **made)

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

        def make() -> sg.SparseOperator:
            choices = []
            for rows, variant in ((above, CSR_PART), (below, ELL_PART)):
                part = problem.matrix[rows]
                tuned = sg.aslinearoperator(part, variant.format, self.run.device, **variant.options)
                choices.append(tuned._stored.description.choice)
            choice = partitioned((above, below), choices, "the paper's model cuts the matrix so")
            description = Description(self.run.device, (self.ordinal,), choice=choice)
            return sg.SparseOperator(build_stored(canonical_csr(problem.matrix), description))

        try:
            op, size = checked(problem, make)
        except NotMeasuredError as error:
            self.run.skip(sample, self.dtype, BEST_CUT, error)
            return None
        us = op.time_products(self.run.repeats)
        more = {"time_us": us, "bytes": size, "gflops": gflops(op.nnz, us), "options": op.options}
        return self.run.add(sample, self.dtype, op.format, label=BEST_CUT, **more)

    def _record(self, kind: str, sample: Sample, **entry: Any) -> None:
        shared = {"matrix": sample.name, "nnz": int(sample.matrix.nnz), "dtype": self.dtype}
        self.run.records[kind].append({**shared, **entry})
