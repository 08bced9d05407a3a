"""python tools/refit_kernels.py [--save]: the constants of the sparse kernels, chosen anew on the calibration matrices.

Scores values of ``LEARNT_ROWS`` by the mean |log(measured / predicted)| over families of matrices left out; the judged
matrices are not looked at. With --save the costs and bands that ship are fitted again and written, of this project's
host and, from public times, of whole devices in every format. ``slipstick validate spmv`` scores the result on other
generators.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from slipstick.estimators.operation.spmv.kernels.host_kernels import SHIPPED
from slipstick.estimators.operation.spmv.kernels.kernel_costs import LEARNT_ROWS, held_out_logs, term_amounts
from slipstick.estimators.operation.spmv.reuse import CacheSizes
from slipstick.estimators.operation.spmv.spmv_amounts import FORMATS
from slipstick.estimators.operation.spmv.spmv_devices import SHIPPED as DEVICES
from slipstick.experiments.measure.spmv.kernel_labels import shipped_products
from slipstick.experiments.subjects.spmv.device_fits import fit_public
from slipstick.experiments.subjects.spmv.kernel_fits import fit_kernels
from slipstick.hwmodels.files.readers import atomic_write
from slipstick.hwmodels.files.records import Table

VALUES = (500.0, 1000.0, 2000.0, 3000.0, 5000.0, 10_000.0, 20_000.0)


def main() -> None:
    """Print a line a value, then a line a kernel and state."""
    labels = shipped_products()
    source = f"{labels.source}; {len(labels.calibration)} generated matrices"
    host = fit_kernels(labels.calibration, labels.host, labels.software, source, Table())
    caches = CacheSizes.of(labels.host)
    for value in VALUES:
        errors = []
        for costs in (one for one in host.costs if one.state == "warm"):
            chosen = [one for one in labels.calibration if (costs.kernel, costs.state, 1) in one.seconds]
            amounts = np.array([term_amounts(one.counts, caches, "warm", costs.reach, value) for one in chosen])
            seconds = [one.seconds[costs.kernel, costs.state, 1] for one in chosen]
            errors.append(np.abs(held_out_logs(amounts, seconds, [one.family for one in chosen])).mean())
        now = " (now)" if value == LEARNT_ROWS else ""
        print(f"LEARNT_ROWS = {value:g}{now}: {100 * np.mean(errors):.1f} % over families left out")
    for costs in host.costs:
        print(f"{costs.kernel}, {costs.state}: reach {costs.reach:g}, spread {costs.spread:.3f}")
    if "--save" in sys.argv[1:]:
        host.save(Path(SHIPPED))
        print(f"written: {SHIPPED}")
        for stored in FORMATS:
            path = DEVICES / f"spmv-devices-{stored}.json"
            with atomic_write(path) as stream:
                json.dump(fit_public(stored).document(), stream, indent=1)
                stream.write("\n")
            print(f"written: {path}")


if __name__ == "__main__":
    main()
