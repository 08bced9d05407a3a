"""Records that hold the name of the quantity with which their answers begin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self, cast

from slipstick.estimators.base.estimator_base import EstimatorBase


class PrimaryQuantity(EstimatorBase):
    """The contract of a record whose field `quantity` names the quantity with which its answers begin."""

    quantity: str

    @property
    def wanted(self) -> str:
        """The quantity with which its answers begin."""
        return self.quantity

    def about(self, quantity: str) -> Self:
        """The same estimator whose answers begin with a quantity, in its unit."""
        return cast(Self, replace(cast(Any, self), quantity=quantity))
