"""Hosts, buildings and prices stand apart from the watts and times of devices."""

from __future__ import annotations

import json
from datetime import date

import pytest

from slipstick.common.errors import InputError
from slipstick.estimators.power.facility import Facility, price_text
from slipstick.experiments.cli.cli import run
from slipstick.hwmodels.catalog import machine


def test_hosts_and_buildings_stand_apart() -> None:
    facility = Facility(host=400.0, pue=1.25)
    assert facility.watts(5600.0, 8) == (5600 + 3200) * 1.25
    assert "5,600 W of devices + 3,200 W of hosts" in facility.text(5600.0, 8)
    assert not Facility().counted and Facility().watts(700.0, 1) == 700.0
    with pytest.raises(InputError, match="PUE = 0.5"):
        Facility(pue=0.5)
    with pytest.raises(InputError, match="host power = -1"):
        Facility(host=-1.0)


def test_carbon_is_energy_at_the_meter_times_the_grid() -> None:
    """A kilowatt for an hour at 400 g/kWh is 400 g."""
    assert Facility(grid=400.0).carbon(1000.0) == pytest.approx(0.4)
    assert Facility().carbon(1000.0) is None and Facility(grid=400.0).carbon(None) is None
    assert "0.48 kg CO2e an hour at 400 g/kWh" in Facility(pue=1.2, grid=400.0).text(1000.0, 1)
    with pytest.raises(InputError, match="grid intensity = -1 g/kWh"):
        Facility(grid=-1.0)


def test_a_price_has_its_date() -> None:
    assert price_text(machine("a10g"), date(2024, 12, 31)).endswith("2024-06)")
    assert ", 7 months ago: prices change" in price_text(machine("a10g"), date(2025, 1, 1))
    assert price_text(machine("h100-dgx")) == ""
    assert "its date is not stated" in price_text(machine("h100-sxm").using({"price": 2.5}))


def test_a_server_at_the_meter(capsys: pytest.CaptureFixture[str]) -> None:
    words = "serve llama-3.1-8b --on h100-sxm --concurrency 2 --output-tokens 8"
    words += " --num-requests 4 --host-power 300W --pue 1.2 --grid-intensity 380"
    assert run([*words.split(), "--format", "json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert answer["meter_W"] == pytest.approx((answer["power_W"] + 300) * 1.2)
    assert answer["carbon_kg_per_h"] == pytest.approx(answer["meter_W"] * 380 / 1e6)
    assert run(words.split()) == 0
    assert "at the meter: " in capsys.readouterr().out
