"""Threads x size: a program measured on 1 to 8 threads at four sizes, predicted for 32 threads at 4 times the size."""

import slipstick as ss

threads, sizes = (1, 2, 4, 8), (1000, 2000, 4000, 8000)
points = [(p, n) for p in threads for n in sizes]
seconds = [2e-8 * n**2 / p + 1e-5 * n for p, n in points]  # all pairs, and a part that no thread shares

prediction = ss.laws.extrapolate_surface(points, seconds, ["threads", "n"], [(16, 8000), (32, 32000)])
print("; ".join(prediction.assumptions))
for answer in prediction.answers:
    print(f"T = {answer.law.text(answer.point)}")
    between = f"80 % between {answer.low:.3g} and {answer.high:.3g} s"
    print(f"{answer.point}: {answer.time:.3g} s, {between}: {answer.verdict.word}")
