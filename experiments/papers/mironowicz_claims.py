"""Claims of the poster of Mironowicz et al., judged by the rows that `mironowicz` measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from experiments.papers.claims import EQUAL, FAILS, HOLDS, OPEN, PARTLY, Claim, judge, quotients, spread
from experiments.papers.run import Run
from experiments.records import geometric_mean

FORMAT = "tsmv"
TSMV, POSTER = "TSMV", "TSMV of the poster"
BEST_CUSPARSE, BEST_GENERAL = "best cuSPARSE", "our best general"
GIVEN, RCM = "given", "RCM"
START = "start_of_cusparse"  # kind of record

# As the poster has them: seconds of preprocessing (starting cuSPARSE took 1.29 s), and the change of time
# through RCM in per cent.
POSTER_START = 1.29
POSTER_PREPROCESSING = {
    "gsm_v3": 1.56, "gsm_v2": 0.90, "cant": 0.04, "consph": 0.08, "cop20k_A": 0.09, "pdb1HYS": 0.06,
    "pwtk": 0.13, "rma10": 0.04, "shipsec1": 0.04,
}  # fmt: skip
POSTER_CHANGE = {
    "MKL": {
        "gsm_v3": -29, "gsm_v2": -18, "cant": 6, "consph": 3, "cop20k_A": -13, "pdb1HYS": -4, "pwtk": 0,
        "rma10": -3, "shipsec1": -2,
    },
    "cuSPARSE": {
        "gsm_v3": -34, "gsm_v2": -38, "cant": -1, "consph": 3, "cop20k_A": -2, "pdb1HYS": -2, "pwtk": -2,
        "rma10": -1, "shipsec1": 4,
    },
    "TSMV": {
        "gsm_v3": -39, "gsm_v2": -49, "cant": 0, "consph": 0, "cop20k_A": -26, "pdb1HYS": -2, "pwtk": -13,
        "rma10": -3, "shipsec1": 0,
    },
}  # fmt: skip

NARROW = ("cant", "consph", "pwtk", "rma10")
WIDE = ("gsm_v3", "gsm_v2", "cop20k_A", "pdb1HYS")
SIMILAR = 0.9  # of the speed: what a poster that has no numbers calls similar
FEW_UNKNOWNS = 700_000
NO_CHANGE = 3.0  # per cent either way count as none


def by_beginning(values: Mapping[str, float], names: Iterable[str]) -> dict[str, float]:
    """The poster's numbers by the names of this run's matrices, which go on in a quick one."""
    return {name: values[name.split()[0]] for name in names if name.split()[0] in values}


def change(run: Run, label: str) -> dict[str, float]:
    """Matrix -> change of time through RCM, in per cent."""
    given, rcm = (run.values("time_us", order=order).get(label, {}) for order in (GIVEN, RCM))
    return {name: 100 * (quotient - 1) for name, quotient in quotients(rcm, given).items()}


def all_claims(run: Run, host: str) -> list[Claim]:
    """`host` is the label of the product on the CPU."""
    return [
        _saved(run, "2", "15 to 35 % of the memory is saved", 15, POSTER, GIVEN),
        _saved(run, "3", "20 to 40 % is saved where the band is narrow", 20, POSTER, RCM, NARROW),
        _saved(run, "beyond the poster", "35 % is saved where the band is narrow", 35, TSMV, RCM, NARROW),
        _never_more(run),
        *(_as_fast(run, label) for label in (POSTER, TSMV)),
        _faster_than_host(run, host),
        Claim(
            "2",
            "an order of magnitude faster than the symmetric product of cuSPARSE",
            "not measured",
            OPEN,
            "cuSPARSE has none since CUDA 11",
        ),
        _reordering(run, TSMV, "TSMV gains by RCM where the band was wide"),
        _reordering(run, BEST_CUSPARSE, "cuSPARSE gains by RCM where the band was wide"),
        _memory_by_reordering(run),
        _signs(run),
        *_preprocessing(run),
    ]


def _of(values: Mapping[str, float], names: Iterable[str] | None) -> dict[str, float]:
    return {name: value for name, value in values.items() if names is None or name.split()[0] in names}


def _saved(
    run: Run, where: str, paper: str, least: float, label: str, order: str, names: Iterable[str] | None = None
) -> Claim:
    """A claim about per cent of CSR's memory."""
    ratios = _of(run.values("memory_ratio", order=order).get(label, {}), names)
    saved = {name: 100 * (1 - ratio) for name, ratio in ratios.items()}
    if not saved:
        return judge(where, paper, {}, f"memory of {label}")
    enough = [name for name, value in saved.items() if value >= least]
    words = {GIVEN: "as given", RCM: "reordered"}[order]
    here = f"{label}, {words}, saves {spread(saved.values(), '.0f', ' %')}"
    less = ", ".join(name for name in saved if name not in enough)
    verdict = HOLDS if not less else PARTLY if enough else FAILS
    return Claim(
        where, paper, here + (f"; less than {least} % on {less}" if less else ""), verdict, "", saved
    )


def _never_more(run: Run) -> Claim:
    where, paper = "beyond the poster", "the symmetric format never takes more memory than CSR"
    ratios = {
        f"{name}, {order}": value
        for order in (GIVEN, RCM)
        for name, value in run.values("memory_ratio", order=order).get(TSMV, {}).items()
    }
    refused = sorted({entry["matrix"] for entry in run.skipped if entry["label"].startswith(f"{TSMV},")})
    why = f"refused, as it would take more: {', '.join(refused)}" if refused else ""
    if not ratios:
        return judge(where, paper, {}, "memory")
    verdict = HOLDS if max(ratios.values()) <= 1 else FAILS
    return Claim(where, paper, f"{spread(ratios.values())} of CSR", verdict, why, ratios)


def _as_fast(run: Run, label: str) -> Claim:
    """Similar or better: nothing far below, and the bytes say what there was to win."""
    paper = f"similar or significantly higher performance than cuSPARSE's general product; here {label}"
    times, sizes = run.values("time_us", order=RCM), run.values("bytes", order=RCM)
    gains = quotients(times.get(BEST_CUSPARSE, {}), times.get(label, {}))
    if not gains:
        return judge("3", paper, {}, f"speed of {label} over the best of cuSPARSE's")
    slower = [name for name, gain in gains.items() if gain < SIMILAR]
    here = f"speed over the best of all its algorithms, reordered: {geometric_mean(gains.values()):.2f}x"
    here += f" on average ({spread(gains.values())})"
    here += f"; slower on {', '.join(slower)}" if slower else ""
    fewer = quotients(sizes.get(BEST_CUSPARSE, {}), sizes.get(label, {}))
    why = (
        f"reading {geometric_mean(fewer.values()):.2f}x fewer bytes ({spread(fewer.values())})"
        if fewer
        else ""
    )
    verdict = HOLDS if not slower else PARTLY if len(slower) < len(gains) else FAILS
    return Claim("3", paper, here, verdict, why, gains)


def _faster_than_host(run: Run, host: str) -> Claim:
    times = run.values("time_us", order=RCM)
    name = "MKL" if host.startswith("mkl") else "SciPy, on one core, as MKL is not installed,"
    return judge(
        "3",
        "much faster than MKL's general product",
        quotients(times.get(host, {}), times.get(TSMV, {})),
        f"speed of {TSMV} over {name} on the CPU of this machine, reordered",
    )


def _reordering(run: Run, label: str, paper: str) -> Claim:
    given, rcm = (run.values("time_us", order=order).get(label, {}) for order in (GIVEN, RCM))
    gains = _of(quotients(given, rcm), WIDE)
    poster = POSTER_CHANGE["TSMV" if label == TSMV else "cuSPARSE"]
    theirs = ", ".join(f"{name} {poster[name]:+d} %" for name in WIDE)
    return judge(
        "3", paper, gains, f"speed of {label} after RCM over that before", f"on the poster: {theirs}"
    )


def _memory_by_reordering(run: Run) -> Claim:
    given, rcm = (run.values("memory_ratio", order=order).get(TSMV, {}) for order in (GIVEN, RCM))
    gains = _of(quotients(given, rcm), WIDE)
    paper = "RCM allows better memory utilisation where the band was wide"
    refused = [name for name in _of(rcm, WIDE) if name not in given]
    why = f"without RCM the format refuses {', '.join(refused)}" if refused else ""
    return judge("3", paper, gains, f"memory of {TSMV} before RCM over that after", why)


def _signs(run: Run) -> Claim:
    """Whether RCM helps, hurts or does nothing as the poster's table says."""
    paper = "what RCM does to TSMV's time, matrix by matrix"
    here = change(run, TSMV)
    theirs = by_beginning(POSTER_CHANGE["TSMV"], here)
    if not here:
        return judge("3", paper, {}, "change of time")
    agree = [name for name in here if _sign(here[name]) == _sign(theirs[name])]
    text = ", ".join(f"{name} {here[name]:+.0f} % ({theirs[name]:+.0f})" for name in here)
    verdict = HOLDS if len(agree) == len(here) else PARTLY if agree else FAILS
    text = f"the same way on {len(agree)} of {len(here)}; here, and on the poster: {text}"
    why = f"changes below {NO_CHANGE:g} % either way count as none; stand-ins have a bandwidth of their own"
    return Claim("3", paper, text, verdict, why, here)


def _sign(percent: float) -> int:
    return 0 if abs(percent) <= NO_CHANGE else 1 if percent > 0 else -1


def _preprocessing(run: Run) -> list[Claim]:
    seconds = run.values("preprocess_seconds", library="spmvgpu", order=RCM)
    products = run.values("preprocess_products", library="spmvgpu", order=RCM).get(TSMV, {})
    rows = {row["matrix"]: row["rows"] for row in run.rows}
    few = {name: value for name, value in seconds.get(TSMV, {}).items() if rows[name] < FEW_UNKNOWNS}
    paper = "preprocessing takes less time than the start of cuSPARSE below 0.7 million unknowns"
    there = quotients(dict.fromkeys(few, POSTER_START), few)
    measured = [entry["seconds"] for entry in run.records.get(START, [])]
    gains = quotients(dict.fromkeys(few, measured[0]), few) if measured else {}
    why = ""
    if few:
        times = spread(there.values(), ".0f")
        why = f"the poster's {POSTER_START} s are {times} the {spread(few.values(), '.3f', ' s')} here"
    start = judge("3", paper, gains, "start of cuSPARSE here, CUDA being there, over preprocessing", why)
    beyond, goal = "beyond the poster", 60
    text = f"preprocessing takes no longer than {goal} products"
    if not products:
        return [start, judge(beyond, text, {}, "preprocessing")]
    within = [name for name, value in products.items() if value <= goal * (1 + EQUAL)]
    here = f"{spread(products.values(), '.0f', ' products')}, {len(within)} of {len(products)} within"
    verdict = HOLDS if len(within) == len(products) else PARTLY if within else FAILS
    return [start, Claim(beyond, text, here, verdict, "", products)]
