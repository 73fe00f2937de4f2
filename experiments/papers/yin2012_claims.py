"""Conclusions of Yin et al. 2012 (section 6.3 and before), judged by the rows that `yin2012` measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from experiments.papers.claims import FAILS, HOLDS, OPEN, PARTLY, Claim, judge, quotients, spread
from experiments.papers.matrices import Sample
from experiments.papers.run import Run, Table
from experiments.records import geometric_mean

WARP = 32

# What a measurement says of x: what the kernel reads of it was there before the clock started; it was
# gathered on the device in every product; it came from another NumPy array every time.
KEPT, NEW, NUMPY = "there", "gathered", "from NumPy"


def all_claims(run: Run, samples: list[Sample]) -> list[Claim]:
    times = run.values("time_us", x=KEPT)
    return [
        *_half_warp(run, times, samples),
        *_csr_m(run, times, samples),
        *_changing_x(run, times, samples),
        *_csr_b(times, samples),
        *_ellpack(run, times, samples),
    ]


def _gains(times: Table, label: str, over: str) -> dict[str, float]:
    """Matrix -> speed of one kernel over another, where both were measured."""
    return quotients(times.get(over, {}), times.get(label, {}))


def _mean_lengths(samples: list[Sample]) -> dict[str, float]:
    return {sample.name: sample.matrix.nnz / sample.matrix.shape[0] for sample in samples}


def _of(gains: Mapping[str, float], beginnings: Iterable[str]) -> dict[str, float]:
    """The gains on the matrices whose names begin so; a quick run's names go on."""
    return {name: gain for name, gain in gains.items() if name.startswith(tuple(beginnings))}


def _half_warp(run: Run, times: Table, samples: list[Sample]) -> list[Claim]:
    mean = _mean_lengths(samples)
    gains = _gains(times, "CSR-O", "CSR-R")
    on_short = [gains[name] for name in gains if mean[name] < WARP]
    on_long = [gains[name] for name in gains if mean[name] >= WARP]
    short = ", ".join(name for name in gains if mean[name] < WARP)
    why = ""
    if on_short and on_long:
        why = (
            f"half warps gain {geometric_mean(on_short):.2f}x where a row holds fewer than {WARP} entries on"
            f" average ({short}): a warp leaves lanes idle there. On the longer rows, which fill a warp, they"
            f" gain {geometric_mean(on_long):.2f}x"
        )
    rates = run.values("gflops", x=KEPT).get("CSR-R", {})
    low = [rates[name] for name in rates if mean[name] < WARP]
    high = [rates[name] for name in rates if mean[name] >= WARP]
    drop = {"all": geometric_mean(high) / geometric_mean(low)} if low and high else {}
    idle = (f"{name} {min(mean[name] / WARP, 1):.0%}" for name in rates if mean[name] < WARP)
    return [
        judge("6.3", "CSR-O is faster than CSR-R on every matrix", gains, "speed of CSR-O over CSR-R", why),
        judge(
            "5.1",
            "a warp per row loses performance where rows hold fewer than 32 non-zeros",
            drop,
            "GFLOPS of CSR-R on long rows over those on short rows",
            f"lanes that find an entry in a row of mean length: {', '.join(idle)}",
        ),
    ]


def _csr_m(run: Run, times: Table, samples: list[Sample]) -> list[Claim]:
    gains = _gains(times, "CSR-M", "CSR-O")
    rates = run.values("formula_gb_per_s", x=KEPT)
    best = ("FEM/Spheres", "Economics", "FEM/Cantilever", "FEM/Accelerator")
    why = ""
    if gains:
        megabytes = spread((4e-6 * sample.matrix.shape[1] for sample in samples), ".2f", " MB")
        saved = spread((1 - 1 / gain for gain in gains.values()), ".0%", "")
        why = (
            "both kernels read 8 bytes a non-zero in order; CSR-O looks up x besides. On the paper's GPU,"
            " which"
            " has no cache for global memory, a look-up is a memory access; here x, of"
            f" {megabytes}, stays in a cache, and doing without the look-ups saves {saved} of CSR-O's time"
        )
    return [
        judge("6.3", "CSR-M is faster than CSR-O", gains, "speed of the CSR-M kernel over CSR-O", why),
        judge(
            "6.3",
            f"CSR-M is faster than CSR-O especially on {', '.join(best)}",
            _of(gains, best),
            "speed of the CSR-M kernel over CSR-O there",
        ),
        judge(
            "6.3",
            "CSR-M has a lower memory bandwidth than CSR-O",
            quotients(rates.get("CSR-O", {}), rates.get("CSR-M", {})),
            "bandwidth of CSR-O by formula (2) over that of CSR-M by formula (3)",
            "formula (2) counts 12 bytes a non-zero and formula (3) counts 8: of two kernels that take the"
            " same"
            " time, CSR-O has up to 1.5 times the bandwidth by definition",
        ),
        judge(
            "6.3",
            "CSR-M is faster than CSR-R",
            _gains(times, "CSR-M", "CSR-R"),
            "speed of the CSR-M kernel over CSR-R",
        ),
    ]


def _changing_x(run: Run, times: Table, samples: list[Sample]) -> list[Claim]:
    """Cost of CSR-M once x is new in every product, as it is in every iterative method."""
    gathered = run.values("time_us", x=NEW).get("CSR-M, device gather", {})
    kernel = times.get("CSR-M", {})
    why = ""
    if gathered and kernel:
        share = spread((1 - kernel[name] / gathered[name] for name in gathered), ".0%", "")
        slower = spread(quotients(gathered, times.get("CSR-O", {})).values())
        why = (
            "x changes in every product of a solver, and the gather then belongs to the product: it reads an"
            " index and writes a value for each non-zero, and the kernel reads that value again with the"
            f" matrix's: 16 bytes a non-zero, where CSR reads 8. The gather takes {share} of the product,"
            f" which"
            f" takes {slower} the time of CSR-O's"
        )
    gathering = judge(
        "3.1",
        "CSR-M improves the product; here with its gather, on the device, counted in",
        quotients(times.get("CSR-O", {}), gathered),
        "speed of gather and CSR-M kernel over CSR-O",
        why,
    )
    return [gathering, _transfers(run, samples)]


def _transfers(run: Run, samples: list[Sample]) -> Claim:
    paper = "CSR-M reduces the transfer from CPU to GPU: it sends Col_x, and neither x nor column indices"
    calls = run.values("time_us", x=NUMPY)
    cost = quotients(calls.get("CSR-M", {}), calls.get("CSR-O", {}))
    if not cost:
        return judge("3.1", paper, {}, "bytes sent")
    measured = [sample.matrix for sample in samples if sample.name in cost]
    ratios = [matrix.nnz / matrix.shape[1] for matrix in measured]
    less = spread((4e-6 * matrix.shape[1] for matrix in measured), ".2f", " MB")
    here = (
        f"for one product, {less} less is sent; each further one with another x sends"
        f" {spread(ratios, '.1f')} what"
        f" CSR sends, and takes {spread(cost.values(), '.1f')} the time of CSR-O, called with a NumPy array"
    )
    why = (
        "CSR sends its indices once and x, a value for each column, every time; CSR-M sends a value for each"
        " non-zero every time. What the first product saves, the second one loses"
    )
    verdict = HOLDS if max(ratios) <= 1 else PARTLY
    return Claim("3.1", paper, here, verdict, why, {name: 1 / ratio for name, ratio in cost.items()})


def _csr_b(times: Table, samples: list[Sample]) -> list[Claim]:
    others = [times[label] for label in ("CSR-R", "CSR-O", "CSR-M") if label in times]
    fragments = times.get("CSR-B", {})
    slower, faster = {}, {}
    for name, time_us in fragments.items():
        rivals = [other[name] for other in others if name in other]
        slower[name], faster[name] = time_us / max(rivals), min(rivals) / time_us
    nnz = {sample.name: sample.matrix.nnz for sample in samples}
    why = ""
    if fragments:
        per_nonzero = {
            label: spread((1e6 * times[label][name] / nnz[name] for name in fragments), ".1f", " ps")
            for label in ("CSR-B", "CSR-O")
        }
        why = (
            f"CSR-B gives every block the same number of non-zeros, one of which takes"
            f" {per_nonzero['CSR-B']};"
            f" CSR-O gives it the same number of rows: {per_nonzero['CSR-O']}"
        )
    return [
        judge(
            "6.3",
            "CSR-B is slower than the other CSR kernels where rows are long (Protein, FEM)",
            _of(slower, ("Protein", "FEM")),
            "time of CSR-B over that of the slowest other",
            why,
        ),
        judge(
            "6.3",
            "CSR-B is faster than the other CSR kernels where rows are short (Economics, Epidemiology)",
            _of(faster, ("Economics", "Epidemiology")),
            "speed of CSR-B over the fastest other",
            why,
        ),
    ]


def _ellpack(run: Run, times: Table, samples: list[Sample]) -> list[Claim]:
    gains = _gains(times, "ELLPACK-R", "ELLPACK")
    sizes = run.values("bytes", x=KEPT).get("ELLPACK", {})
    nnz = {sample.name: sample.matrix.nnz for sample in samples}
    why = ""
    if gains:
        size = {name: sizes[name] / nnz[name] for name in gains}
        least, most = min(size, key=size.__getitem__), max(size, key=size.__getitem__)
        why = (
            "ELLPACK reads every padded slot, ELLPACK-R stops at the end of the row:"
            f" where ELLPACK pads least ({least}, {size[least]:.1f} bytes a non-zero) that gains"
            f" {gains[least]:.2f}x, where it pads most ({most}, {size[most]:.1f}) {gains[most]:.2f}x"
        )
    return [
        judge("6.3", "ELLPACK-R is faster than ELLPACK", gains, "speed of ELLPACK-R over ELLPACK", why),
        _sparser_is_faster(run.values("gflops", x=KEPT).get("ELLPACK-R", {}), _mean_lengths(samples)),
        _best_threads(run, times),
    ]


def _sparser_is_faster(rates: Mapping[str, float], mean: Mapping[str, float]) -> Claim:
    paper = "with ELLPACK kernels, the sparser the matrix, the higher the performance"
    if len(rates) < 2:
        return judge("6.3", paper, {}, "GFLOPS of ELLPACK-R")
    names = sorted(rates, key=mean.__getitem__)
    falls = sum(rates[sparser] > rates[denser] for sparser, denser in pairwise(names))
    ranked = ", ".join(f"{name} {rates[name]:.1f}" for name in names)
    verdict = HOLDS if falls == len(names) - 1 else FAILS if falls == 0 else PARTLY
    why = (
        f"{falls} of {len(names) - 1} steps to a denser matrix lower the performance; the lengths and"
        f" results of the"
        f" rows are read and written for {mean[names[0]]:.1f} non-zeros each on the sparsest matrix,"
        f" for {mean[names[-1]]:.1f} on the densest"
    )
    return Claim("6.3", paper, f"GFLOPS of ELLPACK-R, sparsest matrix first: {ranked}", verdict, why)


def _best_threads(run: Run, times: Table) -> Claim:
    paper = "the best T of ELLR-T differs from matrix to matrix"
    options = run.values("options", x=KEPT).get("ELLR-T", {})
    if not options:
        return Claim("5.3", paper, "best T: not measured", OPEN, "a format it needs was left out, see above")
    best = {name: chosen["threads_per_row"] for name, chosen in options.items()}
    here = ", ".join(f"{name} {threads}" for name, threads in best.items())
    gains = _gains(times, "ELLR-T", "ELLPACK-R")
    why = (
        f"over the one thread a row of ELLPACK-R, the best T gains {spread(gains.values())}" if gains else ""
    )
    verdict = HOLDS if len(set(best.values())) > 1 else FAILS
    return Claim("5.3", paper, f"best T: {here}", verdict, why, gains)
