"""What devices draw beside their hosts, and what the building adds: apart, since they come from other meters."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import date

from slipstick.common.errors import InputError
from slipstick.hwmodels.machine import Machine


@dataclass(frozen=True)
class Facility:
    """Hosts and the building around devices.

    `host`: watts of the host (processors, fans, network) for each device; 0: not counted. A DGX H100 is rated 10.2 kW
        with eight devices of 700 W, so 575 W a device at most (NVIDIA DGX H100 data sheet).
    `pue`: power usage effectiveness: what the building draws over what its computers draw; 1: not counted.
    `grid`: grams of CO2-equivalent that the grid emits for a kilowatt-hour (its average or marginal intensity); 0: not
        counted.

    Raises
    ------
    InputError
        Where the host's power is negative, the effectiveness below 1, or the intensity no number from 0 to 3,000
        (plants that burn coal emit up to 910: IPCC AR5 WG3, annex III, table A.III.2).
    """

    host: float = 0.0
    pue: float = 1.0
    grid: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.host < math.inf:
            raise InputError(f"host power = {self.host:g} W: want a finite power, at least 0")
        if not 1 <= self.pue <= 10:
            raise InputError(f"PUE = {self.pue:g}: want 1 to 10")
        if not 0 <= self.grid <= 3000:
            raise InputError(f"grid intensity = {self.grid:g} g/kWh: want 0 to 3,000 grams of CO2-equivalent")

    @property
    def counted(self) -> int:
        """1 where hosts, the building or the grid are counted."""
        return int(self.host > 0 or self.pue > 1 or self.grid > 0)

    def watts(self, devices_watts: float, devices: int) -> float:
        """Watts at the building's meter, from those of all devices."""
        return (devices_watts + self.host * devices) * self.pue

    def carbon(self, watts: float | None) -> float | None:
        """Kilograms of CO2-equivalent that the grid emits in an hour of so many watts; None where it is not counted."""
        return watts * self.grid / 1e6 if self.grid and watts is not None else None

    def text(self, devices_watts: float, devices: int) -> str:
        """One line: devices, hosts, building, apart."""
        hosts = self.host * devices
        total = self.watts(devices_watts, devices)
        carbon = self.carbon(total)
        return (
            f"at the meter: {total:,.0f} W = {devices_watts:,.0f} W of devices + {hosts:,.0f} W of hosts "
            f"({self.host:g} W a device), x PUE {self.pue:g}"
            + (f"; {carbon:,.3g} kg CO2e an hour at {self.grid:g} g/kWh" if carbon else "")
        )


MONTH = re.compile(r"\b(20\d\d)-(0[1-9]|1[0-2])\b")
RECENT = 6
"""Months after which the age of a price is said."""


def price_text(machine: Machine, today: date | None = None) -> str:
    """The price of a device's hour, with where and when it held, and how long ago; "" where there is none."""
    if machine.price is None:
        return ""
    source = machine.sources.get("price", "")
    if not source or source.startswith("what-if"):
        source = "as given; its date is not stated"
    return f"{machine.price:g} $/h a device ({source}{_age(source, today or date.today())})"


def _age(source: str, today: date) -> str:
    """``, 29 months ago``; "" where the source states no month, or a recent one."""
    stated = MONTH.search(source)
    if stated is None:
        return ""
    months = 12 * (today.year - int(stated[1])) + today.month - int(stated[2])
    return f", {months} months ago: prices change, a newer one by --set machine.price" if months > RECENT else ""
