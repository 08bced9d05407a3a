"""An estimator of your own: it only says how to estimate; what-ifs, the contract and the command line do the rest."""

from collections.abc import Mapping
from dataclasses import dataclass

import slipstick as ss


@dataclass(frozen=True)
class PeakFlop(ss.EstimatorBase):
    """Every operation at a share of the peak; memory costs nothing."""

    share: float = 0.5

    def estimate(
        self, workload: ss.Workload, machine: ss.Machine, run: Mapping[str, float] | None = None
    ) -> ss.Estimate:
        """Flop over the machine's rate in single precision."""
        bound = workload.bind_known(run or {}).bound()
        flop = sum(float(op.cost.flop) * float(op.times) for op in bound)
        return ss.Estimate(flop / (self.share * machine.peak("vector", "float32")), assumptions=("memory is free",))


own = PeakFlop(share=0.4)
result = ss.whatif("bert-base-inference", "v100-sxm", {"machine.clock": ["1.2 GHz", "1.53 GHz"]}, estimator=own)
print(f"{result.today.time * 1e3:.1f} ms; {'; '.join(result.today.assumptions)}")
print(result.to_frame()[["machine.clock", "time_ratio"]].round(3).to_string(index=False))
