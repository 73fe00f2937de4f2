"""The model of Guo et al. 2011: curve and line, interpolation, HYB's width and the separator."""

import itertools

import numpy as np
import pytest

import spmvgpu as sg
from spmvgpu import gallery
from spmvgpu.papers.guo2011 import Coo, CsrVector, Ell, Guo2011, find_separator, hyb_width

# A full load of 4 rows; shorter rows than 10 cost 5 + 0.1 k^2, longer ones 2 k - 5.
CSR = CsrVector(4, 10, (5.0, 0.0, 0.1), (-5.0, 2.0))
ELL = Ell((4, 16, 64), (1, 4, 16), ((1.0, 2.0, 8.0), (2.0, 3.0, 10.0), (4.0, 7.0, 30.0)))
MODEL = Guo2011(CSR, ELL, Coo((3.0, 0.5)))


def test_short_rows_count_as_long_as_the_curve_says():
    assert CSR.extended(np.array([0, 5, 10, 20])) == pytest.approx([5.0, 6.25, 10, 20])


def test_time_of_a_strip_is_that_of_a_full_load():
    assert CSR.time(np.full(4, 20)) == pytest.approx(2 * 20 - 5)
    assert CSR.time(np.full(4, 5)) == pytest.approx(5 + 0.1 * 25)
    assert CSR.time(np.full(8, 20)) == pytest.approx(2 * (2 * 20 - 5))
    assert CSR.time(np.array([10, 20, 30, 40])) == pytest.approx(2 * 25 - 5)
    assert CSR.time(np.array([], int)) == 0


def test_a_last_strip_takes_no_less_than_a_load_of_nothing():
    assert CSR.time(np.array([1])) == 5.0


def test_fit_finds_curve_line_and_threshold():
    k = np.array([1, 2, 4, 6, 8, 10, 12, 16, 24, 32, 64])
    times = [CSR.conic[0] + 0.1 * v**2 if v < 10 else 2 * v - 5 for v in k]
    found = CsrVector.fit(4, k, times)
    assert found.line == pytest.approx((-5, 2))
    assert found.conic == pytest.approx((5, 0, 0.1), abs=1e-9)
    assert found.threshold in (10, 12)  # the curve goes through the point at 10 as well


@pytest.mark.parametrize("times", [[10.0 - k for k in range(8)], [3.0, 4.0]], ids=["falling", "few"])
def test_times_that_say_nothing_are_taken_in_proportion(times):
    found = CsrVector.fit(4, range(1, len(times) + 1), times)
    assert found.line[0] == 0
    assert found.line[1] > 0
    assert found.time(np.full(4, 100)) == pytest.approx(100 * found.line[1])


@pytest.mark.parametrize("i", range(3))
@pytest.mark.parametrize("j", range(3))
def test_interpolation_is_exact_on_the_samples(i, j):
    assert ELL.time(ELL.rows[i], ELL.widths[j]) == pytest.approx(ELL.times[i][j])


def test_interpolation_is_logarithmic_between_the_samples():
    assert ELL.time(8, 1) == pytest.approx(np.sqrt(1.0 * 2.0))
    assert ELL.time(4, 2) == pytest.approx(np.sqrt(1.0 * 2.0))
    assert ELL.time(256, 1) == pytest.approx(8.0)  # the last slope goes on
    assert ELL.time(0, 3) == ELL.time(3, 0) == 0


def test_a_missing_corner_of_the_grid_goes_on_with_the_slots():
    samples = {(4, 1): 1.0, (4, 4): 2.0, (16, 1): 3.0, (16, 4): 5.0, (64, 1): 9.0}
    assert Ell.fit(samples).times == ((1.0, 2.0), (3.0, 5.0), (9.0, 36.0))


def test_no_grid_is_refused():
    with pytest.raises(ValueError, match="do not form a grid"):
        Ell.fit({(4, 1): 1.0})


def test_coo_is_a_line():
    assert Coo.fit([10, 20, 40], [8.0, 13.0, 23.0]).line == pytest.approx((3.0, 0.5))
    assert MODEL.coo.time(0) == 0


def test_longer_rows_never_take_less():
    times = [MODEL.predict(np.full(64, k)) for k in range(1, 100)]
    for format in ("ellpack", "coo", "csr"):
        assert np.all(np.diff([time[format] for time in times]) >= -1e-9)


@pytest.mark.parametrize("mean", [3, 30])
def test_hyb_is_split_as_the_format_splits(mean):
    A = gallery.powerlaw(20_000, mean)
    op = sg.aslinearoperator(A, format="hyb", device="cpu")
    assert hyb_width(np.diff(A.indptr)) == op.options["width"]
    assert hyb_width(np.full(100, 5)) == 0


def test_hyb_is_its_two_parts():
    lengths = np.concatenate((np.full(6000, 4), np.full(10, 50)))
    expected = ELL.time(6010, 4) + MODEL.coo.time(460)
    assert MODEL.predict(lengths)["hyb"] == pytest.approx(expected)


def brute_force(lengths):
    """Every cut between strips, one by one."""
    ordered = sorted(lengths, reverse=True)
    cuts = [*range(0, len(ordered), CSR.full_load), len(ordered)]

    def time(cut):
        below = ordered[cut:]
        ell = float(ELL.time(len(below), below[0])) if below else 0.0
        return CSR.time(np.array(ordered[:cut])) + ell

    return {cut: time(cut) for cut in cuts}


@pytest.mark.parametrize(
    "lengths",
    [
        [100, 3, 2, 90, 1, 1, 2, 3, 80, 1, 1, 1, 2, 1, 1, 70],
        [60, 50, 40, 30, 20, 10, 5, 4, 3, 2, 1],
        [1] * 30,
        list(itertools.chain([200] * 6, [1] * 58)),
    ],
)
def test_separator_is_the_best_of_all_cuts(lengths):
    found = find_separator(np.array(lengths), MODEL)
    times = brute_force(lengths)
    assert dict(zip(found.positions.tolist(), found.csr_us + found.ell_us, strict=True)) == pytest.approx(
        times
    )
    best = min(times, key=times.get)
    alone = min(MODEL.predict(np.array(lengths)).values())
    if found.format == "partitioned":
        assert found.csr_rows == best
        assert found.time_us == pytest.approx(times[best])
        assert found.time_us < alone
    else:
        assert found.csr_rows == len(lengths)
        assert found.time_us == pytest.approx(alone)
        assert times[best] > 0.9 * alone


def test_a_few_long_rows_are_cut_off():
    found = find_separator(np.array([200] * 4 + [1] * 60), MODEL)
    assert (found.format, found.csr_rows) == ("partitioned", 4)


def test_even_rows_stay_together():
    assert find_separator(np.full(64, 3), MODEL).format != "partitioned"


def test_separator_of_a_matrix():
    found = sg.partition.separator(gallery.powerlaw(30_000, 8), device="cpu")
    assert found.positions[0] == 0
    assert found.positions[-1] == 30_000
    assert set(found.whole_us) == {"csr", "coo", "hyb"}  # ellpack refuses it
    empty = sg.partition.separator(np.zeros((0, 3)), device="cpu")
    assert empty.csr_rows == 0


def test_no_product_takes_less_than_nothing():
    line = Coo.fit([10, 20, 40], [1.0, 12.0, 34.0]).line
    assert line[0] == 0
    assert line[1] > 0
