"""Times of a network's passes, measured on one thread: strategy (b) of Viebke et al. 2019, for any network."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Annotated

from slipstick.common.errors import InputError
from slipstick.common.expressions import symbol
from slipstick.common.lazy_sympy import sp
from slipstick.estimators.roofline.measured_table import OfOneMachine
from slipstick.estimators.symbolic.formula import Formula
from slipstick.estimators.symbolic.parameters import Parameter, check_parameters
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op

PASSES = {
    "preparation": ("preparation",),
    "image": (),
    "training": ("forward", "backward"),
    "inference": ("forward",),
    "validation": ("forward",),
    "testing": ("forward",),
}
"""Operation of a training run -> the measured passes that it is made of."""


@dataclass(frozen=True)
class PassTimes(OfOneMachine):
    """t = forward, or forward + backward, of one image on a thread that has its core to itself; preparation once.

    `network`: what was measured; another network is refused.
    `fingerprint`: of the machine measured; a changed machine is refused, since the old times say nothing about it.
    `source`: how and by whom they were measured.
    """

    forward: Annotated[float, Parameter("s", "forward propagation of one image on one thread", 1e-12, 1e6)]
    backward: Annotated[float, Parameter("s", "back-propagation and update of one image on one thread", 0.0, 1e6)]
    preparation: Annotated[float, Parameter("s", "before the first image", 0.0, 1e6)] = 0.0
    network: str = ""
    fingerprint: str = ""
    source: str = "Viebke et al. 2019, Table VI"

    def __post_init__(self) -> None:
        check_parameters(self)

    def key(self, op: Op, machine: Machine) -> Hashable:
        """The pass; refuses what was not measured.

        Raises InputError where the machine, the network or the pass is not the measured one.
        """
        if self.fingerprint and machine.fingerprint != self.fingerprint:
            raise InputError(
                f"machine {machine.name!r} is not the one that {self.network}'s passes were measured on (fingerprint "
                f"{machine.fingerprint}, measured {self.fingerprint}); missing: forward, backward and preparation "
                "times there (slipstick measure contention NETWORK --out FILE)"
            )
        network, _, name = str(op.attributes.get("measured_as", "")).rpartition("/")
        if name not in PASSES or (self.network and network != self.network):
            raise InputError(
                f"no measured time of operation {op.name!r} of network {network!r}: measured are the passes of "
                f"{self.network!r}; missing: its forward and backward times (slipstick measure contention)"
            )
        return name

    def formula(self, op: Op, machine: Machine) -> Formula:
        """Symbols: parameter.forward, .backward, .preparation."""
        parts = [symbol(f"parameter.{name}") for name in PASSES[str(self.key(op, machine))]]
        return Formula(sum(parts, start=sp.Integer(0)), "s", self.source)
