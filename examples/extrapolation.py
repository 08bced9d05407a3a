"""An extrapolation: run times on 1 to 64 threads, predicted for 128 and 1,024, with a band and a verdict."""

import slipstick as ss

threads = [1, 2, 4, 8, 16, 32, 64]
seconds = [640.0, 322.0, 163.1, 83.6, 44.1, 24.6, 15.2]  # 8 s that no thread shares, the rest divided, 1 % of scatter

prediction = ss.extrapolate(ss.Series.of(threads, seconds, parameter="threads"), [128, 1024])
print(f"T(threads) = {prediction.text}")
for row in prediction.rows():
    print({name: round(value, 1) if isinstance(value, float) else value for name, value in row.items()})
