"""Requests to a language model's server: the same question to every verb; whatif, explain and estimate in Python."""

import slipstick as ss

table = ss.whatif("llama-3-8b", "h100-sxm", {"run.concurrency": [1, 16, 64]}).to_frame()
for point in table.to_dict("records"):
    users, rate = point["run.concurrency"], point["output_tokens_per_s"]
    print(f"{users:2.0f} users: {rate:5,.0f} tokens/s, {point['ttft_s'] * 1e3:3.0f} ms to the first token")

query = ss.question("llama-3-8b", "h100-sxm", settings={"run.concurrency": 16}, quantity="ttft")
first = query.answer()
print(first.headline.name, first.headline.text())
for part in first.parts:
    print(f"{part.name}: {part.time / first.time:.0%}")
print(*(name for name, one in first.quantities.items() if one.better == "more"))
