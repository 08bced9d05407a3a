"""Inputs of the SeqPoint study beside the paper: shapes of products, machine configurations, epochs, kernels."""

from __future__ import annotations

import numpy as np

from slipstick.experiments.papers.seqpoint.seqpoint_published import (
    CLOSE_AND_FAR,
    LENGTH_PAIRS,
    TABLE_I,
    TITLES,
    checked,
    study,
)
from slipstick.experiments.papers.seqpoint.seqpoint_study import (
    BATCH,
    CONFIGURATIONS,
    NETWORKS,
    Network,
    kernels,
    network_of,
    vega,
)
from slipstick.experiments.scoring.score_rows import ReproductionRow


def table_i() -> list[ReproductionRow]:
    """Table I: the matrix products of two sequence lengths, found in our graphs."""
    rows = []
    for (network, name), (m, k, lengths, ns) in TABLE_I.items():
        for label, length, n in zip(("sl-1", "sl-2"), lengths, ns, strict=True):
            bound = network_of(network).bind_known({"batch": BATCH, "seq_len": length})
            sizes = {
                (int(op.dims["batch"] * op.dims["m"]), int(op.dims["k"]), int(op.dims["n"]))
                for op in bound
                if op.kind == "gemm"
            }
            folded = {(a, b, c) for x, b, z in sizes for a, c in ((x, z), (z, x))}
            ours = f"{m} x {k} x {n}" if (m, k, n) in folded else "no such product"
            rows.append(
                ReproductionRow(
                    "I",
                    f"{TITLES[network]} {name}, {label}: M x K x N",
                    "exact",
                    f"{m} x {k} x {n}",
                    ours,
                    tolerance_abs=0.0,
                    reason=f"sequence length {length}, batch {BATCH}",
                )
            )
    return rows


def table_ii() -> list[ReproductionRow]:
    """Table II: clock, compute units and caches of the five configurations."""
    published = {
        "clock": (1.6e9, 852e6, "Hz"),
        "cores": (64, 16, "CUs"),
        "memory.L1.capacity": (16384, 0, "byte"),
        "memory.L2.capacity": (4194304, 0, "byte"),
    }
    rows = []
    for name, changes in CONFIGURATIONS.items():
        for path, (base, changed, unit) in published.items():
            want = float(changed if path in changes else base)
            rows.append(
                ReproductionRow(
                    "II", f"{name}: {path}", "exact", want, float(vega(name).get(path)), unit, tolerance_abs=0.0
                )
            )
    return rows


def epochs() -> list[ReproductionRow]:
    """Unique lengths and iterations of an epoch (Figure 7, section V-A)."""
    rows = []
    for network in NETWORKS:
        one = study(network)
        unique = len(np.unique(one.epoch))
        rows.append(
            ReproductionRow(
                "Figure 7",
                f"{TITLES[network]}: iterations of an epoch",
                "model",
                None,
                float(len(one.epoch)),
                "iterations",
                reason=one.lengths.source + (" (synthetic)" if one.lengths.synthetic else ""),
            )
        )
        rows.append(
            ReproductionRow(
                "Figure 7",
                f"{TITLES[network]}: unique lengths",
                "model",
                None,
                float(unique),
                "lengths",
                reason="the figure shows a histogram without numbers",
            )
        )
    share = len(np.unique(study("deepspeech2").epoch)) / len(study("deepspeech2").epoch)
    rows.append(
        ReproductionRow(
            "V-A",
            "DS2: unique lengths of an epoch, share of its iterations",
            "model",
            50.0,
            100 * share,
            "%",
            reason="up to half; ours counts frames of 10 ms, padded to the longest",
            holds=checked(share <= 0.5),
            relabelled="held: many",
        )
    )
    return rows


def differing_kernels(network: Network) -> list[ReproductionRow]:
    """Kernels that only one of two lengths runs (Figure 5), and the one whose share moves most (Figure 6)."""
    long, short = (kernels(network, length) for length in LENGTH_PAIRS[network])
    every = set(long) | set(short)
    only = 100 * len(every - (set(long) & set(short))) / len(every)
    title = TITLES[network]
    shares = [{name: time / sum(one.values()) for name, time in one.items()} for one in (long, short)]
    moved = max(every, key=lambda name: abs(shares[0].get(name, 0) - shares[1].get(name, 0)))
    return [
        ReproductionRow(
            "Figure 5",
            f"{title}: kernels that only one of two iterations runs",
            "model",
            20.0,
            only,
            "%",
            reason=f"lengths {LENGTH_PAIRS[network]}, {len(every)} kernels of the networks as TensorFlow runs them: "
            "functions, layouts and tiles; the paper's share is a bound ('up to')",
        ),
        ReproductionRow(
            "Figure 6",
            f"{title}: the kernel whose share of the time moves most",
            "model",
            None,
            f"{moved}: {shares[1].get(moved, 0):.1%} at the short, {shares[0].get(moved, 0):.1%} at the long length",
            reason="the figure has no numbers",
        ),
    ]


def profiles_by_length() -> list[ReproductionRow]:
    """Whether similar lengths have more similar shares of kernels (Figure 8)."""

    def apart(pair: tuple[int, int]) -> float:
        one, other = (kernels("gnmt", length) for length in pair)
        return 0.5 * sum(
            abs(one.get(name, 0) / sum(one.values()) - other.get(name, 0) / sum(other.values()))
            for name in set(one) | set(other)
        )

    close, far = (apart(pair) for pair in CLOSE_AND_FAR)
    return [
        ReproductionRow(
            "Figure 8",
            f"GNMT: lengths {CLOSE_AND_FAR[0]} have more similar kernel shares than {CLOSE_AND_FAR[1]}",
            "qualitative",
            "yes",
            "yes" if close < far else "no",
            reason=f"half the sum of differences of shares: {close:.3f} and {far:.3f}",
            holds=close < far,
        ),
    ]
