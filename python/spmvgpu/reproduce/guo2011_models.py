"""Products of every format, and what the models say of them: the measurements of `guo2011`."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import numpy as np

import spmvgpu as sg
from spmvgpu.devices import resolve_device
from spmvgpu.model.guo2011 import Guo2011, find_separator
from spmvgpu.model.profile import Profile, load_profile
from spmvgpu.reproduce.guo2011_claims import COO, CSR, ELL, HYB, OURS
from spmvgpu.reproduce.guo2011_predictions import OWN, PAPER, choose
from spmvgpu.reproduce.matrices import Sample
from spmvgpu.reproduce.measure import NotMeasuredError, Problem, Variant, build
from spmvgpu.reproduce.run import Record, Run

# The kernels of Bell and Garland 2009. ELL pads whatever the matrix, as theirs does.
PAD_ALWAYS = {"max_padding": 1000.0}
KERNELS = (
    Variant(CSR, "csr", {"kernel": "shared"}),  # a warp per row, reduced in shared memory: "CSR vector"
    Variant(ELL, "ellpack", PAD_ALWAYS),
    Variant(HYB, "hyb"),
    Variant(COO, "coo"),
)
# A format that is one of these kernels anyway goes under the kernel's label.
LABELS = {variant.format: variant.label for variant in KERNELS}
AS_IT_COMES = LABELS | {"csr": "csr"}


class Models:
    """Both models of one device in one precision, and the run that records what becomes of them.

    Attributes
    ----------
    profile : Profile
    paper : Guo2011
    """

    def __init__(self, run: Run, dtype: str, profile: Profile) -> None:
        self.run = run
        self.dtype = dtype
        self.ordinal = resolve_device(run.device)
        self.profile = profile
        self.paper = Guo2011.from_parameters(profile.guo2011[dtype])

    def time(self, sample: Sample, problem: Problem, variant: Variant) -> Record | None:
        """Time products of one kernel; None, and a record of the reason, where there are none."""
        run = self.run
        try:
            op, size = build(problem, variant, run.device)
        except NotMeasuredError as error:
            run.skip(sample, self.dtype, variant.label, error)
            return None
        time_us = op._time_products(run.repeats)
        return run.add(
            sample,
            self.dtype,
            op.format,
            label=variant.label,
            time_us=time_us,
            bytes=size,
            gflops=2 * op.nnz / (time_us * 1e3),
            options=op.options,
        )

    def compare(self, sample: Sample, problem: Problem) -> None:
        """Time every format as it comes, and record what the models predict, choose, and what "auto" takes."""
        others = (Variant(name, name) for name in sg.formats() if name not in LABELS or name == "csr")
        times = {}
        for variant in (*KERNELS, *others):
            row = self.time(sample, problem, variant)
            if row is not None:
                times[variant.label] = row["time_us"]
        lengths = np.diff(problem.matrix.indptr)
        self._judge(sample, PAPER, self.paper.predict(lengths), LABELS, times)
        own = ...
        self._judge(sample, OWN, own, AS_IT_COMES, times)
        self._auto(sample, problem, {format: times[label] for format, label in own_labels.items() if label in times})

    def _judge(
        self,
        sample: Sample,
        model: str,
        predicted: dict[str, float],
        labels: dict[str, str],
        times: dict[str, float],
    ) -> None:
        """Record predictions of formats that were measured, and the choice among them."""
        measured = {
            format: times[labels.get(format, format)]
            for format in predicted
            if labels.get(format, format) in times
        }
        shared = {"matrix": sample.name, "nnz": int(sample.matrix.nnz), "dtype": self.dtype, "model": model}
        for format, time_us in measured.items():
            self._record(
                "predictions", **shared, format=format, predicted_us=predicted[format], time_us=time_us
            )
        made = choose(measured, predicted)
        if made is not None:
            self._record("choices", **shared, **made)

    def _record(self, kind: str, **entry: object) -> None:
        self.run.records[kind].append(entry)
