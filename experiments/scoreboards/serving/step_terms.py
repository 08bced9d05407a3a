"""Which groups move the kernels of routed experts: ``python -m ...scoreboards.serving.step_terms`` (7 minutes of CPU).

Every outer fold (a model, or Blackwell, left out) takes the choice that errs least on the models that are left out
within it; the outer figures are those of the choices. What ships is the choice of all rows, printed first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from slipstick.estimators.engine_steps.step_law import STEP_LAW
from slipstick.estimators.fitting.fitted_model import FormulaLaw, LawFit, LawRows
from slipstick.estimators.fitting.prediction_bands import Fold, calibrated, folds
from slipstick.experiments.scoreboards.serving.serving_refit import GENERATION, LABELS, label, level_of, public_cases
from slipstick.experiments.scoreboards.serving.serving_rows import SiliconCase
from slipstick.experiments.scoreboards.serving.step_fit import step_rows

ONE, THREE = ("routed",), ("experts", "expert_products", "expert_layer")
CHOICES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "none": {},
    "engine": dict.fromkeys(ONE, ("engine",)),
    "version": dict.fromkeys(ONE, ("version",)),
    "engine and version": dict.fromkeys(ONE, ("engine", "version")),
    "weights": dict.fromkeys(ONE, ("weights",)),
    "engine, version, weights": dict.fromkeys(ONE, ("engine", "version", "weights")),
    "version, each of three": dict.fromkeys(THREE, ("version",)),
    "engine and version, each of three": dict.fromkeys(THREE, ("engine", "version")),
}
"""Levels of the parameters of experts' kernels: of one factor on all of them, or of bytes, products and fixed times."""
HELD = ("model unseen", GENERATION)


def law_of(choice: str) -> FormulaLaw:
    """The law of a step under one of `CHOICES`."""
    levels: dict[str, tuple[str, ...]] = {**dict.fromkeys(ONE, ()), **CHOICES[choice]}
    changed = (replace(one, levels=levels.get(one.name, one.levels)) for one in STEP_LAW.parameters)
    return replace(STEP_LAW, parameters=tuple(changed))


def outer_folds(cases: list[SiliconCase], rows: LawRows, held: str) -> tuple[Fold, ...]:
    """Each model left out, or Blackwell."""
    scored = {at for at, case in enumerate(cases) if held != GENERATION or "blackwell" in case.machine.family}
    return folds(rows.groups[level_of(held)], scored=scored)


def chosen(rows: LawRows, words: str) -> tuple[FormulaLaw, LawFit]:
    """The choice that errs least on models left out of rows, and its fit; prints what all err by."""
    fits = {name: calibrated(law_of(name), rows, rows.groups["model"]) for name in CHOICES}
    inner = {name: made.inner or np.inf for name, made in fits.items()}
    best = min(inner, key=lambda name: inner[name])
    print(f"{words}: {best} ({', '.join(f'{name} {error:.4f}' for name, error in inner.items())})", flush=True)
    return law_of(best), fits[best]


def main() -> None:
    """Print inner errors of every choice, the choice of all rows and of each fold, and outer figures of the choices."""
    cases = public_cases()
    rows = step_rows(cases)
    kinds = np.array([label(case) for case in cases])
    chosen(rows, "all rows")
    for held in HELD:
        seconds, half = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
        for fold in outer_folds(cases, rows, held):
            law, made = chosen(rows.take(fold.known), f"{held}: {fold.held_out}")
            scored = rows.take(fold.scored)
            seconds[fold.scored] = made.seconds(law, scored.columns, scored.groups)
            half[fold.scored] = made.half_width(law, scored.columns, scored.groups)
        for kind in LABELS:
            there = (kinds == kind) & np.isfinite(seconds)
            ratio, band = seconds[there] / rows.seconds[there], half[there]
            median, most = np.quantile(np.abs(ratio - 1), [0.5, 0.9])
            inside = np.mean(np.abs(np.log(ratio)) <= band)
            width = np.exp(2 * np.median(band))
            print(f"{held}, {kind}: {median:.1%} / {most:.1%}, {inside:.2f} in x{width:.2f}", flush=True)


if __name__ == "__main__":
    main()
