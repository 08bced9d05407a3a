"""An estimator of your own: it only says how to estimate; a record says what it is and where its calibration holds."""

from collections.abc import Mapping
from dataclasses import dataclass

import slipstick as ss


@dataclass(frozen=True)
class PeakFlop(ss.models.EstimatorBase):
    """Every operation at a share of the peak; memory costs nothing."""

    share: float = 0.5

    def estimate(
        self, workload: ss.Workload, machine: ss.Machine, run: Mapping[str, float] | None = None
    ) -> ss.Estimate:
        """Flop over the machine's rate in single precision."""
        bound = workload.bind_known(run or {}).bound()
        flop = sum(float(op.cost.flop) * float(op.times) for op in bound)
        return ss.Estimate(flop / (self.share * machine.peak("vector", "float32")), assumptions=("memory is free",))


def calibrated() -> ss.Calibration:
    """Less of the peak on a V100, within 20 % of what was measured there."""
    return ss.Calibration(PeakFlop(share=0.4), (), residual_std=0.2, source="three runs on a V100")


peak_flop = ss.ShippedEstimator(
    "peak-flop",
    build=PeakFlop,
    purpose="a share of the peak",
    calibrations=((ss.models.Domain(families=("nvidia-volta-gv100",)), calibrated),),
)
# in a module of its own also: slipstick estimate bert-base-inference --on v100-sxm --estimator own_estimator:peak_flop
result = ss.whatif("bert-base-inference", "v100-sxm", {"machine.clock": ["1.2 GHz", "1.53 GHz"]}, estimator=peak_flop)
low, high = result.today.interval() or (0.0, 0.0)
print(f"{result.today.time * 1e3:.1f} ms ({low * 1e3:.1f} .. {high * 1e3:.1f}); {'; '.join(result.today.assumptions)}")
print(result.to_frame()[["machine.clock", "time_ratio"]].round(3).to_string(index=False))
