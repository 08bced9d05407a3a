"""Barreda, Dolz, Castano: "Convolutional neural nets for estimating the run time and energy consumption of the sparse
matrix-vector product", Int. J. High Performance Computing Applications, 2020 (doi 10.1177/1094342020953196).

The data set is not public any more, so figures cannot be drawn again; what can be checked are the relations inside
Table 1, the networks' shapes, equations 3 to 8, and what the text says of its own tables.

Table 1 of the SpMV paper: mean times and energies of a block by clock, as printed and as they can have been.

Barreda, Dolz, Castano 2020 (see `spmv_cnn.spmv_cnn_rows`), Section 5.1. Two things do not fit: the times follow
1 / f^2, and the unit of head and caption differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from slipstick.estimators.sparse.product_energy import CLOCKS_GHZ, METRICS, TABLE_1, TABLE_1_RANGES
from slipstick.experiments.methods.spmv.families_left_out import (
    CONSTANT,
    ENERGY_NET,
    NETWORK,
    REUSE,
    TIME_NET,
    overall,
    read_folds,
)
from slipstick.experiments.scoring.annotations import Mark, marked
from slipstick.experiments.scoring.score_rows import ReproductionRow

UNIT_READINGS = {
    "ns a non-zero": "the published code divides cycles by clock and by 250, Fig. 3, the loss (ns^2, nJ^2) agree",
    "us a block of 250": "the caption says 'blocks of size b = 250'; the head of the table prints ms and mJ",
}
STREAM_BANDWIDTH = 4.323e9
HASWELL_ADDITION_CYCLES = 3.0
"""Latency of vaddsd on Haswell (Intel 64 and IA-32 Architectures Optimization Reference Manual, table of latencies)."""


def constant_rate_correction(time: float, clock: float, reference_clock: float) -> float:
    """Seconds got by dividing a constant-rate counter by the set clock (hertz), put right: times clock / reference."""
    return time * clock / reference_clock


def table_1() -> list[ReproductionRow]:
    """Table 1: mean times and energies of a block by clock, as published and corrected."""
    rows = []
    times = dict(zip(CLOCKS_GHZ, (mean for mean, _ in TABLE_1["time"]), strict=True))
    for clock in CLOCKS_GHZ[:-1]:
        rows.append(
            ReproductionRow(
                "Table 1, as published",
                f"mean time at {clock} GHz from 2.4 GHz by 1 / f^2",
                "exact",
                times[clock],
                round(times[2.4] * (2.4 / clock) ** 2, 4),
                "ns a non-zero",
                tolerance_rel=0.01,
                reason="times x f^2 is constant (8.18 to 8.24): no kernel does that, a constant-rate "
                "counter divided by the set clock does",
            )
        )
    for number, clock in enumerate(CLOCKS_GHZ):
        corrected = constant_rate_correction(times[clock], clock, 2.4)
        total, package, dram = (TABLE_1[metric][number][0] for metric in METRICS[1:])
        rows += [
            ReproductionRow(
                "Table 1",
                f"total = package + DRAM energy at {clock} GHz",
                "exact",
                total,
                round(package + dram, 4),
                "nJ a non-zero",
                tolerance_abs=0.025,
                reason="means printed to two digits; means over blocks of slightly different sets",
            ),
            ReproductionRow(
                "Table 1, corrected",
                f"cycles a non-zero at {clock} GHz",
                "model",
                None,
                round(corrected * clock, 3),
                "cycle",
                holds=3.40 <= corrected * clock <= 3.45,
                reason="time x f / 2.4: constant in cycles, so core-bound",
            ),
            ReproductionRow(
                "Table 1, as published",
                f"mean power at {clock} GHz",
                "model",
                None,
                round(total / times[clock], 2),
                "W",
                reason="energy over time as printed",
            ),
            ReproductionRow(
                "Table 1, corrected",
                f"mean power at {clock} GHz",
                "model",
                None,
                round(total / corrected, 2),
                "W",
                reason="energy over corrected time: rises by a quarter from 1.2 to 2.4 GHz, not to 2.5 times",
            ),
            ReproductionRow(
                "Table 1, corrected",
                f"DRAM power at {clock} GHz",
                "model",
                None,
                round(dram / corrected, 3),
                "W",
                holds=1.41 <= dram / corrected <= 1.44,
                reason="constant, as of memory hardly used; as published it rises from 0.71 W",
            ),
            ReproductionRow(
                "Section 5.1",
                f"package share of the energy at {clock} GHz",
                "model",
                0.92,
                round(package / total, 4),
                "1",
                reason="'roughly 92 %' and 8 % off Fig. 3; Table 1 gives 93.7 to 94.8 % and 5.1 to 6.3 %",
            ),
        ]
    for metric in METRICS[1:]:
        shares = [deviation / mean for mean, deviation in TABLE_1[metric]]
        rows.append(
            ReproductionRow(
                "Section 5.3",
                f"variability of {metric} rises with the clock",
                "qualitative",
                "rises",
                " ".join(f"{share:.3f}" for share in shares),
                "1",
                holds=all(low <= high for low, high in pairwise(shares)),
                reason="standard deviation over mean, Table 1",
            )
        )
    for metric in METRICS:
        inside = all(
            low < mean < high for (low, high), (mean, _) in zip(TABLE_1_RANGES[metric], TABLE_1[metric], strict=True)
        )
        rows.append(
            ReproductionRow(
                "Table 1", f"means of {metric} lie in their ranges", "exact", holds=inside, ours=str(inside)
            )
        )
    return rows


def unit() -> list[ReproductionRow]:
    """Which unit the times of Table 1 have: cycles a non-zero under each reading."""
    time = TABLE_1["time"][-1][0]
    stream = 16 / STREAM_BANDWIDTH * 1e9
    a_nonzero, a_block = time, time * 1e3 / 250
    return [
        ReproductionRow(
            "Table 1, unit",
            "cycles a non-zero if printed in ns a non-zero",
            "model",
            None,
            round(a_nonzero * 2.4, 2),
            "cycle",
            holds=HASWELL_ADDITION_CYCLES <= a_nonzero * 2.4 <= 1.2 * HASWELL_ADDITION_CYCLES,
            reason=f"{UNIT_READINGS['ns a non-zero']}; 14 % above the latency of one dependent addition (3 cycles on "
            "Haswell): L1-resident labels, as the code's 10,000 repeats of a block make them. Favoured",
        ),
        ReproductionRow(
            "Table 1, unit",
            "cycles a non-zero if printed in us a block",
            "model",
            None,
            round(a_block * 2.4, 2),
            "cycle",
            reason=f"{UNIT_READINGS['us a block of 250']}; {a_block:.2f} ns, nearer to {stream:.2f} ns of 16 streamed "
            "bytes at the STREAM bandwidth, but memory-bound time would not be constant in cycles over the clocks",
        ),
        ReproductionRow(
            "Table 1, unit",
            "evidence favours ns a non-zero",
            "qualitative",
            None,
            "ns a non-zero",
            holds=all(
                abs(constant_rate_correction(mean, clock, 2.4) * clock / (time * 2.4) - 1) < 0.01
                for clock, (mean, _) in zip(CLOCKS_GHZ, TABLE_1["time"], strict=True)
            ),
            reason="corrected cycles are constant within 1 % over a factor of two in clock: no memory in the label",
        ),
    ]


OWN_FOLDS = Path(__file__).parent / "own_folds.json"
"""Kept by `slipstick spmv validate --folder FOLDER`."""
PUBLISHED = {
    "block_error": "mostly below 0.04",
    "matrix_error": "half below 0.01",
    "worst_matrix_error": "at most 0.10",
}
WORDS = {"block_error": "error of a block", "matrix_error": "error of a matrix", "worst_matrix_error": "worst matrix"}
PEAK_FLOPS = 38.4e9
FIGURE_5_MATRICES = 33
"""Names on the axis of Fig. 5(a)."""
WRE_SPMV, SPMV_SHARES = -0.40, (0.63, 0.85)


MARKS = (
    Mark("Table 2", "parameters .*", "computed", "Table 2"),
    Mark("Table 2", ".*", "echo", "Table 2, typed into the network"),
    Mark("Table 1", "means of .*", "echo", "Table 1 as printed"),
    Mark("Table 1.*", ".*", "computed", "Table 1 as printed"),
    Mark("Section 5.1", "package share .*", "computed", "Table 1 as printed"),
    Mark("Section 5.3", "variability .*", "direction", "Table 1 as printed"),
    Mark("Section 5.3", "own .* labels.*", "computed", "our own labels, the network trained on them"),
    Mark("Section 6.3", "SpMV's WRE .*", "one-sided", "printed shares and errors"),
    Mark("Section (4.1|5.1|5.3|6.3)", ".*(4,000|186|GHz|test matrices).*", "computed", "numbers of the text"),
)


def weighted_errors(estimated: Mapping[str, float], measured: Mapping[str, float]) -> dict[str, float]:
    """Errors over the mean cost of a loop (eqs 6 and 7), as shares, and their mean as "total" (eq. 8)."""
    mean = sum(measured.values()) / len(measured)
    errors = {loop: (estimated[loop] - measured[loop]) / mean for loop in measured}
    return {**errors, "total": sum(errors.values()) / len(errors)}


def run() -> list[ReproductionRow]:
    """Every number the paper states beside ours, or why not."""
    return marked(
        [*table_1(), *unit(), *_networks(), *_claims(), *_own_network(), *_pagerank()],
        MARKS,
    )


def _networks() -> list[ReproductionRow]:
    cells = [
        ("filters, time", "(32, 64)", TIME_NET.filters),
        ("filters, energy", "(32, 64)", ENERGY_NET.filters),
        ("filter sizes, time", "(3, 9)", TIME_NET.kernels),
        ("filter sizes, energy", "(5, 3)", ENERGY_NET.kernels),
        ("pool sizes, time", "(7, 5)", TIME_NET.pools),
        ("pool sizes, energy", "(7, 7)", ENERGY_NET.pools),
        ("neurons, time", "(1000, 1)", (*TIME_NET.neurons, 1)),
        ("neurons, energy", "(100, 1000, 1)", (*ENERGY_NET.neurons, 1)),
        ("dropout, time", "(0.00066,)", TIME_NET.dropout),
        ("dropout, energy", "(0.47, 0.59)", ENERGY_NET.dropout),
    ]
    rows = [
        ReproductionRow("Table 2", cell, "exact", published, str(ours), holds=published == str(ours))
        for cell, published, ours in cells
    ]
    for name, net in (("time", TIME_NET), ("energy", ENERGY_NET)):
        rows.append(
            ReproductionRow(
                "Table 2",
                f"parameters of the {name} network",
                "model",
                None,
                float(net.parameters),
                "1",
                reason="not printed; follows from Table 2 with 'valid' padding, and equals torch's count in the tests",
            )
        )
    return rows


def _claims() -> list[ReproductionRow]:
    lost = "data set (Zenodo 3956057) and machine not at hand"
    elsewhere = (
        "'slipstick validate spmv' scores the same network on our own labels beside baselines and the noise floor"
    )

    def claim(place: str, cell: str, published: float | str, unit: str = "1", reason: str = "") -> ReproductionRow:
        return ReproductionRow(
            place, cell, "not_reproducible", published, unit=unit, reason=reason or f"{lost}; {elsewhere}"
        )

    deviation = TABLE_1["time"][-1][1] / TABLE_1["time"][-1][0]
    return [
        claim("Abstract", "block error, lowest of the maxima and settled", 0.005),
        claim("Abstract", "block error, highest", 0.14),
        claim("Section 5.3", "time: block error mostly below", 0.04),
        claim("Section 5.3", "total and package energy: largest block error", "0.05 to 0.09"),
        claim("Section 5.3", "DRAM energy: largest block error", "0.10 to 0.14"),
        claim("Section 5.3", "matrix error at most", 0.10),
        claim("Section 5.3", "half of the test matrices below", 0.01),
        claim("Section 5.3", "analytic energy model (mean power x network's time) better by less than", 0.002),
        claim("Section 5.1", "time to build the data set", 7.0, "day"),
        claim("Section 5.2", "hyper-parameter search per model", 1.0, "day"),
        claim("Section 5.2", "training", 7.0, "hour"),
        claim("Section 5.2", "epochs needed at most, on average", 50.0),
        ReproductionRow(
            "Section 5.3",
            "what a constant predictor would reach on the time labels",
            "model",
            None,
            round(deviation, 4),
            "1",
            holds=deviation < 0.05,
            reason="standard deviation over mean at 2.4 GHz: 'mostly below 4 %' must be read beside 4.9 % root "
            "mean square of no model at all; the paper has no baseline",
        ),
        ReproductionRow(
            "Section 4.1",
            "one block among 4,000 is discarded",
            "exact",
            4000.0,
            1e6 / TIME_NET.block,
            "block",
            tolerance_abs=0.5,
            reason="the smallest matrix has a million non-zeros",
        ),
        ReproductionRow(
            "Section 5.3",
            "test matrices",
            "model",
            34.0,
            float(FIGURE_5_MATRICES),
            "1",
            reason="34 in the text; Fig. 5 and the published list name 33; 20 % of 186 are 37",
        ),
        ReproductionRow(
            "Section 5.1",
            "test matrices as 20 % of 186",
            "exact",
            37.0,
            float(round(0.2 * 186)),
            "1",
            tolerance_abs=0.5,
            reason="37 by Section 5.1, 34 by Section 5.3, 33 in Fig. 5",
        ),
    ]


def _pagerank() -> list[ReproductionRow]:
    low, high = (WRE_SPMV / (6 * share) for share in reversed(SPMV_SHARES))
    return [
        ReproductionRow(
            "Section 6.3",
            "p = 16 flop a cycle x 2.4 GHz",
            "exact",
            PEAK_FLOPS / 1e9,
            16 * 2.4,
            "GFLOP/s",
            tolerance_abs=0.05,
        ),
        ReproductionRow(
            "Section 6.3",
            "SpMV's WRE of about -40 % against errors of at most 10 %",
            "exact",
            "not larger than 0.10",
            f"{high:.3f} to {low:.3f}",
            "1",
            holds=abs(low) <= 0.10 and abs(high) <= 0.11,
            reason="eqs 5 to 7: WRE = RE x share x 6: a share of 63 to 85 % makes -40 % of -10.6 to -7.8 %",
        ),
        ReproductionRow(
            "Section 6.3",
            "WRE of the total is the mean of six signed errors",
            "qualitative",
            None,
            "cancels",
            "",
            holds=abs(weighted_errors({"a": 2.0, "b": 4.0}, {"a": 3.0, "b": 3.0})["total"]) < 1e-12,
            reason="eq. 8 lets errors of opposite sign cancel; our scoreboard has signed errors by loop and in total",
        ),
        ReproductionRow(
            "Section 6.3",
            "SpMV's share of PageRank",
            "not_reproducible",
            "0.63 to 0.85",
            unit="1",
            reason="six SNAP graphs on the paper's host; ours are in 'slipstick validate spmv'",
        ),
        ReproductionRow(
            "Figure 6",
            "measured and estimated times and energies",
            "not_reproducible",
            reason="bars on a logarithmic axis without numbers",
        ),
    ]


def _own_network() -> list[ReproductionRow]:
    """Three figures of each kind of own labels; no check of the paper's, whose matrices, core and split are others."""
    kept = read_folds(OWN_FOLDS)
    result = []
    for label in dict.fromkeys(one.label for one in kept):
        models = overall(kept, label)
        for key, published in PUBLISHED.items():
            beside = ", ".join(f"{model} {models[model][key]:.3f}" for model in (REUSE, CONSTANT))
            result.append(
                ReproductionRow(
                    "Section 5.3",
                    f"own {label} labels, families left out: {WORDS[key]}",
                    "model",
                    published,
                    round(models[NETWORK][key], 4),
                    "1",
                    reason=f"{beside}; {models[NETWORK]['blocks']} blocks of {models[NETWORK]['matrices']} generated "
                    "matrices of 1 to 10 million non-zeros, another core; the paper leaves out single matrices of 186 "
                    "and trains on all their blocks",
                )
            )
    return result
