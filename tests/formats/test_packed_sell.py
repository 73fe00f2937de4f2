"""The packed_sell format: slices whose indices and values are stored in as few bytes as lose nothing."""

from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import spmvgpu as sg
from battery import COMPLEX_TYPES, TYPES, from_lengths, matrix, vector
from internals import CPU, plan
from reference import assert_product
from support import assert_same_entries, each_type, explained, poisoned

FORMAT = "packed_sell"
SLICE, GRANULE, GROUP_SLOTS, BATCH = 32, 32, 32, 4
EVERY_TYPE = [*TYPES, *COMPLEX_TYPES]

INDEX = ["shared", "masks", "8", "16", "32"]
VALUES = ["constant", "full", "dictionary"]


class Head(NamedTuple):
    shared: int
    constant: int
    position: int
    slots: int
    index: str
    values: str
    more: bool


def head_of(masks, rest):
    masks, rest = int(masks), int(rest)
    modes = rest >> 48
    return Head(
        masks & 0xFFFFFFFF, masks >> 32, rest & (1 << 48) - 1, modes & 63,
        INDEX[modes >> 6 & 7], VALUES[modes >> 9 & 7], bool(modes >> 12),
    )  # fmt: skip


def heads_of(arrays):
    """The groups of each slice, those in the stream too, with their places in it."""
    stream = arrays["stream"]
    for words in arrays["heads"].reshape(-1, 2):
        group = head_of(*words)
        first = group.position
        groups = [group]
        while group.more:
            words = stream[group.position * GRANULE :][:16].view(np.uint64)
            group = head_of(*words)
            group = group._replace(position=first + group.position)
            groups.append(group)
        yield groups


def csr(rows, cols, entries, dtype):
    """A matrix from its entries (row, column, value)."""
    row, col, values = zip(*entries, strict=True)
    return sp.csr_array((np.array(values, dtype), (row, col)), shape=(rows, cols))


def plan_of(A):
    return plan(A, FORMAT, CPU)


def counts(A):
    """The modes of the slots of a matrix, those that occur."""
    return {name: count for name, count in plan_of(A).counts.items() if count}


# The matrix that the format's header draws, in one slice.
DRAWN = [(0, 0, 2), (0, 1, 7), (1, 1, 2), (1, 2, 8), (2, 2, 2), (2, 3, 5), (3, 0, 1), (3, 4, 9), (4, 2, 3)]


def test_golden_arrays(dtype, device):
    op = sg.aslinearoperator(csr(5, 5, DRAWN, dtype), format=FORMAT, device=device)
    arrays = op.arrays()
    assert arrays["permutation"].size == 0
    assert arrays["dictionary"].size == 0
    ((group,),) = heads_of(arrays)
    assert group == Head(0, 0, 0, 2, "8", "full", more=False)

    def elements(values):
        return np.array(values, dtype).tobytes().ljust(np.dtype(dtype).itemsize * SLICE, b"\0")

    expected = [
        np.array([-3, 1], np.int32).tobytes(),
        bytes([3, 3, 3, 0, 1]).ljust(SLICE, b"\xff"),
        bytes([0, 0, 0, 0]).ljust(SLICE, b"\xff"),
        b"\xff" * SLICE * 2,  # up to a whole batch
        elements([2, 2, 2, 1, 3]),
        elements([7, 8, 5, 9]),
    ]
    stream = b"".join(part.ljust(-(-len(part) // GRANULE) * GRANULE, b"\0") for part in expected)
    assert arrays["stream"].tobytes() == stream


def test_a_stencil_with_constant_coefficients_stores_hardly_anything():
    """Of a slice a head, bases and constants."""
    A = sg.gallery.poisson2d(256)
    plan = plan_of(A)
    slots = plan.slots // SLICE
    found = counts(A)
    assert found.pop("ragged") == found.pop("index_masks") < slots / 5
    assert found.pop("index_shared") > 0.8 * slots
    assert found == {"values_constant": slots}
    of_slice = 16 + GRANULE + 2 * GRANULE  # the head, five bases and five constants
    assert plan.bytes < 1.2 * of_slice * A.shape[0] / SLICE
    arrays = sg.aslinearoperator(A, format=FORMAT, device="cpu").arrays()
    assert {(group.index, group.values) for (group,) in heads_of(arrays)} == {
        ("shared", "constant"),
        ("masks", "constant"),
    }


def test_entries_are_placed_by_diagonal_where_that_shares_columns():
    """The first rows of a band lack entries to the left: side by side they would not share an offset."""
    n = 64
    A = sp.diags_array([np.arange(1.0, n - 3), np.arange(1.0, n + 1)], offsets=[-4, 0], format="csr")
    arrays = sg.aslinearoperator(A, format=FORMAT, device="cpu").arrays()
    (first,), (second,) = heads_of(arrays)
    assert (first.index, first.shared, second.index, second.shared) == ("masks", 0b10, "shared", 0b11)
    for group in (first, second):
        bases = arrays["stream"][group.position * GRANULE :][:8].view(np.int32)
        assert bases.tolist() == [-4, 0]
    assert counts(A)["index_shared"] == 3
    assert counts(A)["ragged"] == 1


def test_diagonals_give_way_where_they_take_more_bytes():
    """One of five bends: a sixth slot takes more values than it saves offsets, but hardly more constants."""
    n = 64
    near = [(row, row + 20 * k + (k == 3) * (row % 2), 1.0 + k) for k in range(5) for row in range(n)]
    A = csr(n, n + 90, near, np.float64)
    arrays = sg.aslinearoperator(A, format=FORMAT, device="cpu").arrays()
    assert {group.slots for (group,) in heads_of(arrays)} == {6}
    A.data = np.random.default_rng(0).standard_normal(A.nnz)
    arrays = sg.aslinearoperator(A, format=FORMAT, device="cpu").arrays()
    assert {(group.slots, group.index) for (group,) in heads_of(arrays)} == {(5, "8")}


def test_offsets_are_left_out_of_whole_batches():
    """One diagonal that bends: the batches of four slots before and behind it need no offsets."""
    n, batches = 64, 3
    slots = range(batches * BATCH + 1)
    A = csr(
        n,
        n + 260,
        [(row, row + 20 * k + (k == 6) * (row % 9), 1.0 + k) for k in slots for row in range(n)],
        float,
    )
    arrays = sg.aslinearoperator(A, format=FORMAT, device="cpu").arrays()
    for (group,) in heads_of(arrays):
        assert (group.index, group.slots, group.shared) == ("8", batches * BATCH + 1, 0b111100001111)
        assert group.constant == 0b1111111111111
    assert_same_entries(sg.aslinearoperator(A, format=FORMAT, device="cpu").tocsr(), A)


def one_slot(values, dtype, offsets=None):
    """A slice of one slot, beneath many others that decide the dictionary."""
    values = np.asarray(values, dtype)
    offsets = np.zeros(SLICE, int) if offsets is None else np.asarray(offsets)
    return sp.csr_array((values, np.arange(SLICE) + offsets, np.arange(SLICE + 1)),
                        shape=(SLICE, SLICE + offsets.max()))  # fmt: skip


RNG = np.random.default_rng(5)
RANDOM = RNG.standard_normal(SLICE)
FLOATS = RANDOM.astype(np.float32).astype(float)

MODES = [
    ("full", np.float64, RANDOM),
    ("full", np.float64, [*FLOATS[:-2], np.inf, -0.0]),
    ("full", np.float64, [*FLOATS[:-1], np.nan]),
    ("full", np.float64, [*FLOATS[:-1], 5e-324]),
    ("full", np.float32, [*2.0 ** np.arange(SLICE - 4), -0.0, np.inf, np.nan, 2.0**-130]),
    ("full", np.complex128, RANDOM + 0.1j),
    ("full", np.complex64, np.arange(SLICE) - 3j),
    ("dictionary", np.float64, [*np.repeat(FLOATS[:8], 3), *np.repeat([np.inf, -0.0, 0.0, 5e-324], 2)]),
    ("dictionary", np.complex64, np.repeat(RANDOM[:16] - 3j, 2)),
    ("full", np.float64, [*np.repeat(FLOATS[:8], 3), *FLOATS[8:16]]),  # some come up once
    ("constant", np.float64, [0.1] * SLICE),
    ("constant", np.complex64, [0.1 - 3j] * SLICE),
]


@pytest.mark.parametrize(("mode", "dtype", "values"), MODES)
def test_mode_of_values(mode, dtype, values, device):
    """The fewest bytes of which the very bits come back; else a value counts as not representable."""
    A = one_slot(values, dtype)
    if mode == "constant":  # one that the dictionary does not have: the slot is one among many others
        rest = sp.csr_array(np.diag(np.arange(1, 400) / 7).astype(dtype))
        A = sp.csr_array(sp.block_diag([A, rest], format="csr"))
    found = counts(A)
    assert found["values_" + mode] == 1 if mode != "constant" else found["values_constant"] >= 1
    op = sg.aslinearoperator(A, format=FORMAT, device=device)
    assert_same_entries(op.tocsr(), A)
    x = vector(A.shape[1], A.dtype)
    with np.errstate(invalid="ignore"):
        if np.isfinite(A.data).all():
            assert_product(op @ x, A, x)


@pytest.mark.parametrize("dtype", EVERY_TYPE, ids=str)
def test_few_values_make_a_dictionary(dtype, device):
    values = vector(256, dtype, seed=3)
    A = sg.gallery.poisson2d(100).astype(dtype)
    A.data = np.random.default_rng(4).choice(values, A.nnz)
    found = counts(A)
    slots = plan_of(A).slots // SLICE
    assert found["values_dictionary"] + found.get("values_constant", 0) == slots
    op = sg.aslinearoperator(A, format=FORMAT, device=device)
    arrays = op.arrays()
    known = arrays["dictionary"].tobytes()
    items = [known[i : i + dtype.itemsize] for i in range(0, len(known), dtype.itemsize)]
    assert sorted(items) == sorted(value.tobytes() for value in values)
    assert_same_entries(op.tocsr(), A)
    x = vector(A.shape[1], dtype)
    assert_product(op @ x, A, x)


def test_a_dictionary_that_no_slot_uses_is_not_stored():
    A = sg.gallery.poisson2d(60)
    A.data = np.random.default_rng(6).standard_normal(A.nnz)
    op = sg.aslinearoperator(A, format=FORMAT, device="cpu")
    assert op.arrays()["dictionary"].size == 0
    assert counts(A)["values_full"] > 0


@pytest.mark.parametrize(
    ("mode", "farthest"),
    [("shared", 0), ("8", 1), ("8", 254), ("16", 255), ("16", 65534), ("32", 65535), ("32", 2**30)],
)
def test_mode_of_columns(mode, farthest, device):
    """By the distance between the lanes, each from the diagonal of its own row."""
    offsets = np.zeros(SLICE, int)
    offsets[7], offsets[9] = farthest, farthest // 2
    A = one_slot(RANDOM, np.float64, offsets)
    assert counts(A)["index_" + mode] == 1
    op = sg.aslinearoperator(A, format=FORMAT, device="cpu")
    ((group,),) = heads_of(op.arrays())
    assert group.index == mode
    assert_same_entries(op.tocsr(), A)
    if A.shape[1] < 2**20:
        x = vector(A.shape[1], A.dtype)
        assert_product(sg.aslinearoperator(A, format=FORMAT, device=device) @ x, A, x)


def test_columns_far_to_the_left(device):
    """The base is negative where columns are, and unsigned sums of both still meet the column."""
    n = 70_000
    A = csr(n, n, [(n - 1 - i, (i * 977) % 40, 1.0 + i) for i in range(40)], np.float64)
    op = sg.aslinearoperator(A, format=FORMAT, device=device, max_padding=1e6)
    assert_same_entries(op.tocsr(), A)
    x = vector(n, A.dtype)
    assert_product(op @ x, A, x)


@pytest.mark.parametrize("width", [GROUP_SLOTS - 1, GROUP_SLOTS, GROUP_SLOTS + 1, 2 * GROUP_SLOTS, 100])
@pytest.mark.parametrize("dtype", EVERY_TYPE)
def test_slices_of_several_groups(width, dtype, device):
    """The head of a further group lies where the group before begins."""
    A = from_lengths([width] * 40, 5000)
    A = sp.csr_array((vector(A.nnz, dtype), A.indices, A.indptr), shape=A.shape)
    A.sort_indices()
    op = sg.aslinearoperator(A, format=FORMAT, device=device)
    for groups in heads_of(op.arrays()):
        assert [group.slots for group in groups[:-1]] == [GROUP_SLOTS] * (-(-width // GROUP_SLOTS) - 1)
        assert sum(group.slots for group in groups) == width
        assert [group.more for group in groups] == [True] * (len(groups) - 1) + [False]
    assert_same_entries(op.tocsr(), A)
    x = vector(A.shape[1], dtype)
    assert_product(op.spmv(x, out=poisoned(40, dtype)), A, x)


def test_a_lane_alone_takes_few_bytes():
    """Of a slot of one long row a base, a mask and one value are stored."""
    A = from_lengths([1000] + [1] * 31, 100_000)
    op = sg.aslinearoperator(A, format=FORMAT, device="cpu")
    assert op.nbytes < 1.2 * 1000 * (4 + 4 + 8) + 3000
    assert sg.estimate(A, FORMAT, "cpu")["padding"] > 30


@pytest.mark.parametrize("factor", [np.inf, np.nan, -np.inf])
@pytest.mark.parametrize("constant", [True, False])
@each_type
def test_missing_entries_meet_no_infinity(constant, factor, dtype, device):
    """Neither one in x, of a column without an entry, nor that of a slot, in lanes without an entry."""
    n = 100
    here = [(row, row + 1, 2.0) for row in range(n) if row % 5]
    here += [(row, row + 4, 3.0 + (not constant) * row % 7) for row in range(n) if row % 7]
    A = csr(n, n + 9, here, dtype)
    x = vector(n + 9, dtype)
    untouched = np.setdiff1d(np.arange(n + 9), A.indices)
    x[untouched] = factor
    assert_product(sg.aslinearoperator(A, format=FORMAT, device=device) @ x, A, x)
    x = vector(n + 9, dtype)
    A.data[A.indices == np.repeat(np.arange(n), np.diff(A.indptr)) + 4] = factor
    y = sg.aslinearoperator(A, format=FORMAT, device=device) @ x
    np.testing.assert_array_equal(np.isfinite(y), np.arange(n) % 7 == 0)


# Every kind of number, by its bits.
def patterns(dtype):
    part = np.dtype(dtype).type(0).real.dtype
    unsigned = np.dtype(f"u{part.itemsize}")
    info = np.finfo(part)
    special = [0.0, -0.0, 1.0, -1.0, 0.1, info.tiny, info.smallest_subnormal, -info.smallest_subnormal,
               info.max, np.inf, -np.inf, np.nan, np.nextafter(part.type(1), part.type(2)), 3.5, 1e-40, 1e-45,
               32767, 32768, -32768, float(np.finfo(np.float32).max)]  # fmt: skip
    bits = [int(np.array(value, part).view(unsigned)) for value in special]
    quiet, signalling = (
        int(np.array(np.nan, part).view(unsigned)),
        int(np.array(np.inf, part).view(unsigned)) + 1,
    )
    bits += [quiet + 5, signalling, signalling | 1 << (8 * part.itemsize - 1)]
    one = st.one_of(st.sampled_from(bits), st.integers(0, 2 ** (8 * part.itemsize) - 1))
    parts = 2 if np.dtype(dtype).kind == "c" else 1
    return st.lists(one, min_size=parts, max_size=12 * parts).map(
        lambda found: np.array(found[: len(found) // parts * parts], unsigned).view(dtype)
    )


@st.composite
def problems(draw, dtype):
    """Matrices of few values each, ragged or not, along diagonals or anywhere."""
    pool = draw(patterns(dtype))
    rows, cols = draw(st.integers(0, 70)), draw(st.integers(1, 90))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if draw(st.booleans()):
        offsets = rng.choice(np.arange(-rows, cols + 1), draw(st.integers(0, 8)))
        pattern = np.zeros((rows, cols), bool)
        for offset in offsets:
            pattern |= np.eye(rows, cols, offset, dtype=bool)
        pattern &= rng.random((rows, cols)) < draw(st.sampled_from([0.3, 0.9, 1.0]))
    else:
        pattern = rng.random((rows, cols)) < draw(st.sampled_from([0.0, 0.02, 0.3, 1.0]))
        pattern &= rng.random((rows, 1)) < draw(st.sampled_from([0.5, 1.0]))
    indptr = np.concatenate([[0], np.cumsum(pattern.sum(1))]).astype(np.int32)
    indices = np.nonzero(pattern)[1].astype(np.int32)
    values = rng.choice(pool, indices.size) if draw(st.booleans()) else np.resize(pool, indices.size)
    return sp.csr_array((values, indices, indptr), shape=(rows, cols)), draw(st.sampled_from([0, 1, 32]))


@pytest.mark.parametrize("dtype", EVERY_TYPE, ids=str)
@settings(max_examples=150)
@given(st.data())
def test_every_bit_comes_back(dtype, data):
    """NaN with whatever payload, subnormal numbers, zeros of both signs, infinities."""
    A, sigma = data.draw(problems(dtype))
    op = sg.aslinearoperator(A, format=FORMAT, device="cpu", sigma=sigma, max_padding=1e6)
    B = op.tocsr()
    np.testing.assert_array_equal(B.indptr, A.indptr)
    np.testing.assert_array_equal(B.indices, A.indices)
    assert B.data.tobytes() == A.data.tobytes()


def sums_in_order(A, x):
    """Every row from left to right, each product and sum rounded: the order that the format promises."""
    sums = np.zeros(A.shape[0], A.dtype)
    with np.errstate(all="ignore"):
        for row in range(A.shape[0]):
            for k in range(A.indptr[row], A.indptr[row + 1]):
                sums[row] += A.data[k] * x[A.indices[k]]
    return sums


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@settings(max_examples=80)
@given(st.data())
def test_products_are_sums_in_the_order_of_the_columns(dtype, data):
    A, sigma = data.draw(problems(dtype))
    x = np.random.default_rng(0).standard_normal(A.shape[1]).astype(dtype)
    op = sg.aslinearoperator(A, format=FORMAT, device="cpu", sigma=sigma, max_padding=1e6)
    np.testing.assert_array_equal(op.spmv(x, out=poisoned(A.shape[0], dtype)), sums_in_order(A, x))


def test_explain_says_where_the_bytes_went():
    op = sg.aslinearoperator(sg.gallery.poisson2d(40), format=FORMAT, device="cpu")
    found = counts(sg.gallery.poisson2d(40))
    line = next(line for line in explained(op).splitlines() if line.startswith("stored with"))
    for name in ("index_shared", "index_masks", "values_constant"):
        assert f"{name} {found[name]:.0f}" in line
    assert "index_8" not in line


def test_plans_of_any_number_of_threads_are_the_same():
    A = matrix("power_law_rows", np.dtype("float64"))
    one = sg.aslinearoperator(A, format=FORMAT, device="cpu", max_threads=1)
    many = sg.aslinearoperator(A, format=FORMAT, device="cpu")
    for name, array in one.arrays().items():
        assert array.tobytes() == many.arrays()[name].tobytes(), name
