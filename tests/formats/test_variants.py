"""Options of formats that choose a kernel or a layout together, each with difficult matrices."""

import itertools
from functools import cache

import numpy as np
import pytest

import spmvgpu as sg
from battery import CASES, SYMMETRIC_CASES, TYPES, from_lengths, matrix, vector
from reference import assert_product
from support import allowed_values, assert_multiplies, assert_same_entries, build, formats_of

NASTIEST = ["long_rows_in_a_row", "warp_lengths", "empty_rows_every_other", "power_law_rows", "hypersparse"]
UNEVEN = ["growing_rows", "power_law_rows", "rows_1025", "empty_rows_first", "Nx1_holes"]
TILED = ["sym_random", "sym_blocks", "sym_mixed_nodes", "sym_hubs"]
SPANNING = {  # rows that are split over many tiles, and others that begin within one
    "two_split": lambda: from_lengths([1, 50_000, 1, 1, 1, 30_000, 1], 50_000),
    "thousands": lambda: from_lengths([2049, 4096, 4097, 0, 3000, 9000, 1], 9001),
}


def values_of(fmt, *options):
    """All values of the options."""
    allowed = {option["name"]: allowed_values(option) for option in sg.format_options(fmt)}
    return {option: allowed[option] for option in options}


KERNELS = {"kernel": ["balanced", "shuffle", "shared", "half_warp"]}
LOOSE = {"max_padding": [1e6]}
ROOMY = {"max_memory": [1e6]}
# The format, values of options in all combinations, matrices, and whether that is for GPUs alone.
VARIANTS = [
    ("coo", {}, ["two_split"], False),
    ("csr", KERNELS, CASES, True),
    ("csr", {**KERNELS, **values_of("csr", "lanes_per_row", "tile")}, NASTIEST, True),
    ("csr", {"kernel": ["balanced", "nodes"], "tile": [512, 2048, 4096]}, ["thousands"], False),
    ("csr", {"kernel": ["nodes"], "lanes_per_row": [8, 16, 32]}, [*CASES, *SPANNING, *TILED], True),
    ("csr_b", {"fragment": [256, 4096]}, CASES, False),
    ("csr_b", values_of("csr_b", "fragment", "lanes_per_row"), NASTIEST, True),
    (
        "ellr_t",
        {"threads_per_row": [1, 2, 4, 8, 16, 32], "block_size": [64, 128, 256, 512], **LOOSE},
        ["warp_lengths", "growing_rows", "rows_1025", "no_entries", "wide"],
        False,
    ),
    ("hyb", {"width": [1, 3, "max"], "max_padding": [100.0]}, CASES, False),
    ("sell", {"sigma": [0, 1, 32, 128, 1024, 16384], **LOOSE}, UNEVEN, False),
    ("packed_sell", {"sigma": [0, 1, 32, 128, 1024, 16384], **LOOSE}, UNEVEN, False),
    ("packed_sell", {"sigma": [1, 32], "warps_per_slice": [1, 2, 4, 8], **LOOSE}, ["growing_rows"], False),
    ("tsmv", {"variant": ["halo", "poster"], **ROOMY}, SYMMETRIC_CASES, False),
    (
        "tsmv",
        {"block": [1, 2, 3], "slices": [1, 2, 8], "threads": [64, 128, 256, 512], **ROOMY},
        TILED,
        False,
    ),
]  # fmt: skip


def variants():
    """The rows with each combination of their options; the types take turns."""
    for fmt, options, cases, is_for_gpus in VARIANTS:
        for i, values in enumerate(itertools.product(*options.values())):
            for k, case in enumerate(cases):
                row = fmt, dict(zip(options, values, strict=True)), case, TYPES[(i + k) % len(TYPES)]
                yield pytest.param(*row, marks=[pytest.mark.gpu] if is_for_gpus else [])


@cache
def given(case, dtype):
    return SPANNING[case]().sorted_indices().astype(dtype) if case in SPANNING else matrix(case, dtype)


@pytest.mark.parametrize(("fmt", "options", "case", "dtype"), list(variants()), ids=str)
def test_variant(fmt, options, case, dtype, device, request):
    if device == "cpu" and request.node.get_closest_marker("gpu"):
        pytest.skip("the CPU has one kernel")
    A = given(case, dtype)
    if not formats_of(A, fmt, **options):
        return
    op = build(A, fmt, device, **options)
    assert all(op.options[name] == value for name, value in options.items() if value not in (0, "max"))
    assert_multiplies(op, A)
    assert_same_entries(op.tocsr(), A)
    x, y = vector(A.shape[1], dtype), vector(A.shape[0], dtype, seed=21)
    assert_product(op.spmv(x, out=y.copy(), alpha=2.0, beta=-0.5), A, x, 2.0, -0.5, y)


def test_what_is_held():
    """All rows have matrices that their formats hold with their options."""
    for fmt, options, cases, _ in VARIANTS:
        first = {name: values[0] for name, values in options.items()}
        held = [case for case in cases if formats_of(given(case, np.dtype("float64")), fmt, **first)]
        assert len(held) > 0.8 * len(cases), fmt
