"""Requests to a language model's server: the questions of every workload, and the same figures as `slipstick serve`."""

import slipstick as ss

server = {"run.concurrency": 16}
table = ss.whatif("llama-3-8b", "h100-sxm", {"run.concurrency": [1, 16, 64]}).to_frame()
for point in table.to_dict("records"):
    users, rate = point["run.concurrency"], point["output_tokens_per_s"]
    print(f"{users:2.0f} users: {rate:5,.0f} tokens/s, {point['ttft_s'] * 1e3:3.0f} ms to the first token")

first = ss.estimate("llama-3-8b", "h100-sxm", settings=server, quantity="ttft")
print(first.headline.name, first.headline.text())
print(", ".join(f"{part.name} {part.time / first.time:.0%}" for part in first.parts))

why = ss.explain("llama-3-8b", "h100-sxm", ["run.concurrency", "machine.cores"], settings=server, quantity="ttft")
for row in why.elasticities:
    print(f"{row['quantity']}: a tenth more changes it by {row['elasticity'] * 10:+.0f} %")
