"""A calibration: the efficiency of a machine's main memory, fitted to three measured additions."""

import slipstick as ss

machine = ss.machine("v100-sxm")
model = ss.estimator("roofline")
adds = [
    ss.Workload("add", (ss.operations.elementwise("add", elements, inputs=2),)) for elements in (10**7, 10**8, 10**9)
]
measured = [
    ss.Measurement(add, machine, seconds) for add, seconds in zip(adds, (1.52e-4, 1.49e-3, 1.50e-2), strict=True)
]

fitted = ss.calibrate(model, measured, ["operation.memory_efficiency"], source="three additions")
for name, value in fitted.values.items():
    print(f"{name} = {value:.3f} +- {fitted.standard_errors()[name]:.3f}")

larger = ss.Workload("add", (ss.operations.elementwise("add", 3 * 10**8, inputs=2),))
estimate = fitted.estimate(larger, machine)
low, high = estimate.interval(0.8)
print(f"3e8 elements: {estimate.time * 1e3:.2f} ms, 80 % between {low * 1e3:.2f} and {high * 1e3:.2f} ms")
