"""A few rows measured on a new machine: which, what they say of its parameters, and whether to believe them."""

from slipstick.estimators.across_devices.anchors.rows import Anchor as Anchor
from slipstick.estimators.across_devices.anchors.rows import taken as taken
