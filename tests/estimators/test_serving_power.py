"""Power while serving: laws, published ranges, and the constants against the runs that they were fitted to."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.fitted_file import digest, load_fitted
from slipstick.estimators.power.energy import PowerModel, pooled_power
from slipstick.estimators.power.serving_power import MOST, ServingPower, ServingWork
from slipstick.estimators.power.serving_power_law import (
    COLUMNS,
    FACTORS_LAW,
    POWER_LAW,
    power_fit,
    power_groups,
)
from slipstick.experiments.calibrate.public_data import training_file, why_missing
from slipstick.experiments.cli.cli import run
from slipstick.hwmodels.catalog import machine

SHARE = st.floats(0.0, 1.0)
LAW = ServingPower.of(machine("h100-sxm"))


@given(SHARE, SHARE, SHARE, st.floats(1.0, 4096.0))
def test_more_bytes_or_flop_never_draw_less_and_the_cap_holds(a: float, b: float, other: float, n: float) -> None:
    low, high = sorted((a, b))
    for work in (ServingWork([low, high], other, 8, n), ServingWork(other, [low, high], 8, n)):
        less, more = LAW.share(work)
        assert 0 < less <= more <= MOST


def test_an_idle_device_draws_its_idle_power() -> None:
    h100 = machine("h100-sxm")
    work = ServingWork(0.6, 0.1)
    assert LAW.watts(h100, work, busy=0.0) == pytest.approx(h100.power.idle)
    assert LAW.watts(h100, work, busy=0.5) < LAW.watts(h100, work)


def test_amounts_that_cannot_be_are_refused() -> None:
    with pytest.raises(InputError, match="read = -1"):
        LAW.share(ServingWork(-1.0, 0.0))
    with pytest.raises(InputError, match="flop = nan"):
        LAW.share(ServingWork(0.0, float("nan")))
    with pytest.raises(InputError, match="states no power.cap"):
        LAW.watts(machine("tpu-v5e"), ServingWork(0.5, 0.1))


def test_eight_h100_draw_what_was_metered(capsys: pytest.CaptureFixture[str]) -> None:
    """ML.ENERGY: eight H100 under vLLM draw 1.8 to 4.9 kW, not eight times their cap of 700 W."""
    words = "serve llama-3.1-70b --on h100-sxm --devices 8 --concurrency 32 --input-tokens 150 "
    words += "--output-tokens 300 --num-requests 64"
    assert run([*words.split(), "--format", "json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert 1800 < answer["power_W"] < 4900 < answer["devices"] * 700
    assert answer["low_power_W"] < answer["power_W"] < answer["high_power_W"] <= 5600
    joules = answer["power_W"] / answer["output_tokens_per_s"]
    assert answer["energy_J_per_token"] == pytest.approx(joules)
    assert answer["low_energy_J_per_token"] < joules < answer["high_energy_J_per_token"]


def test_no_band_of_energy_passes_the_cap(capsys: pytest.CaptureFixture[str]) -> None:
    """The cap of 700 W over the low end of tokens/s bounds what a token takes, in the band and in words."""
    words = "serve llama-3.1-8b --on h100-sxm --concurrency 32 --num-requests 64"
    assert run([*words.split(), "--format", "json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    most = 700 / answer["low_tokens_per_s"]
    assert answer["high_energy_J_per_token"] <= most * (1 + 1e-12)
    assert answer["energy_J_per_million_tokens_at_most"] == pytest.approx(most * 1e6)


def test_an_estimate_shows_joules_with_their_band(capsys: pytest.CaptureFixture[str]) -> None:
    words = "estimate decode:llama-3.1-8b --on h100-sxm --set workload.decodes=8"
    assert run([*words.split(), "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["low_energy_J"] < row["energy_J"] < row["high_energy_J"]
    assert 400 < row["energy_J"] / row["time_s"] < 700  # metered at 8 sequences: 0.6 to 0.8 of the cap of 700 W
    assert run(words.split()) == 0
    assert "factors from metered GPUs" in capsys.readouterr().out


def test_a_gpu_that_nobody_metered_has_factors_of_others_in_a_wider_band(capsys: pytest.CaptureFixture[str]) -> None:
    metered, other = (pooled_power(machine(name))[1] for name in ("h100-sxm", "rtx-4090"))
    assert metered and other and metered < other < 1
    assert run(["estimate", "decode:llama-3.1-8b", "--on", "rtx-4090", "--dtype", "int4"]) == 0
    assert "factors from other metered GPUs" in capsys.readouterr().out
    assert pooled_power(machine("tpu-v5e")) == (PowerModel(), None)
    training = pooled_power(machine("h100-sxm"), "training")[0]
    assert training.active < pooled_power(machine("h100-sxm"))[0].active  # a server's GPU draws more beside its work


def test_what_ships_is_what_the_metered_runs_give() -> None:
    from slipstick.experiments.scoreboards.energy.energy_board import (
        FILE,
        factor_rows,
        metered_training,
        newer,
        power_rows,
        training_rows,
    )
    from slipstick.experiments.scoreboards.energy.metered_runs import FILES, metered_runs

    paths = {name: path for name in (*FILES, FILE) if (path := training_file(name))}
    if len(paths) < len(FILES) + 1:
        pytest.skip(why_missing(FILES[0]))
    runs, left_out = metered_runs([paths[name] for name in FILES])
    assert len(runs) == 931 and left_out == {"marked as doubtful": 20}
    shipped = load_fitted("serving-power")
    assert {name: digest(path) for name, path in paths.items()} == shipped.rows
    late = newer(runs)
    factors = factor_rows(late, late.step_s.to_numpy()) + training_rows(metered_training(paths[FILE]))
    for law, rows in ((POWER_LAW, power_rows(runs, runs.step_s.to_numpy())), (FACTORS_LAW, factors)):
        made = fit(law, rows)
        assert shipped.fit(law.name).logs == pytest.approx(made.logs, abs=2e-3)
    eight = runs[(runs.gpu == "H100") & (runs.gpus == 8) & (runs.older == 0)].mean_power_w
    assert round(float(eight.min()), -2) == 1800 and float(eight.median()) == pytest.approx(3450, rel=0.03)
    assert np.all(eight < 4950)


def test_a_maker_that_was_not_metered_has_a_wider_band() -> None:
    columns = dict(zip(COLUMNS, ServingWork(0.4, 0.1).columns(), strict=True))
    widths = [power_fit().half_width(columns, power_groups(machine(name))) for name in ("h100-sxm", "mi300x")]
    assert widths[1] > 1.2 * widths[0]
