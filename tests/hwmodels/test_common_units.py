"""The units in use are converted without pint, to pint's own factor; all others still by pint."""

import math
import subprocess
import sys

import pytest

from slipstick.common.errors import InputError
from slipstick.common.units import _registry, _spelling, common_factor, parse_quantity

WRITTEN = {
    "Hz": ("Hz", "kHz", "MHz", "GHz", "THz"),
    "byte": ("B", "byte", "kB", "KiB", "MB", "MiB", "GB", "GiB", "TB", "TiB"),
    "byte/s": ("B/s", "MB/s", "GB/s", "GiB/s", "TB/s", "byte/s"),
    "s": ("s", "ms", "us", "µs", "ns", "min", "h"),
    "J": ("J", "mJ", "nJ", "pJ", "kJ"),
    "W": ("W", "kW", "mW"),
    "J/flop": ("J/flop", "pJ/flop"),
    "J/byte": ("J/byte", "pJ/B"),
    "dollar/hour": ("$/h", "dollar/hour", "$/hour"),
    "1": ("%",),
}


@pytest.mark.parametrize(("unit", "written"), [(unit, one) for unit, many in WRITTEN.items() for one in many])
def test_common_units_have_pints_factor(unit: str, written: str) -> None:
    ours = common_factor(written, unit)
    registry = _registry()
    base = registry.Unit("dimensionless" if unit == "1" else _spelling(unit))
    theirs = float(registry.Quantity(1.0, registry.Unit(_spelling(written))).to(base).magnitude)
    assert ours is not None and math.isclose(ours, theirs, rel_tol=4e-16)


@pytest.mark.parametrize("written", ["GHz", "GB/s", "furlong", "byte/hour/s", "s", "MHz*byte"])
def test_what_does_not_convert_is_left_to_pint(written: str) -> None:
    assert common_factor(written, "byte") is None


def test_rare_units_still_convert_and_wrong_ones_are_refused() -> None:
    assert math.isclose(parse_quantity("1 day", "s"), 86_400)
    with pytest.raises(InputError, match="does not convert"):
        parse_quantity("3 GHz", "byte")


def test_a_shipped_machine_needs_no_pint() -> None:
    code = "import sys, slipstick as ss\n"
    code += "ss.machine('xeon-phi-7120p'), ss.machine('h100-sxm')\nprint('pint' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


@pytest.mark.parametrize(
    ("written", "unit"), [("60 GHz", "byte/s"), ("60 GB/s", "Hz"), ("25 MB", "1"), ("10 percent", "byte")]
)
def test_bytes_are_no_plain_numbers(written: str, unit: str) -> None:
    """pint's byte is eight of nothing: a clock in GB/s became 480 GHz."""
    with pytest.raises(InputError, match="does not convert"):
        parse_quantity(written, unit)


@pytest.mark.parametrize(
    ("written", "value"), [("60 Gbit/s", 7.5e9), ("60 Gbps", 7.5e9), ("3 megabytes/s", 3e6), ("8 Gibit/s", 2.0**30)]
)
def test_bits_are_eighths_of_bytes(written: str, value: float) -> None:
    assert parse_quantity(written, "byte/s") == pytest.approx(value, rel=1e-12)
