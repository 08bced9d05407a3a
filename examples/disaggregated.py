"""Should prompts be read by GPUs of their own? Four H100: all alike, or some for prompts and the others for tokens."""

import slipstick as ss

load = {"concurrency": 96, "input_tokens": 4096, "output_tokens": 256, "devices": 4}
for prefill in (0, 1, 2):
    answer = ss.serve("llama-3.1-8b", "h100-sxm", replicas=4 - prefill, prefill_workers=prefill, **load)
    first, further = answer.band("ttft", "mean")[0], answer.band("tpot", "mean")[0]
    rate = answer.served.output_rate
    print(f"{prefill} for prompts: {rate:,.0f} tokens/s, first {first * 1e3:,.0f} ms, further {further * 1e3:.1f} ms")
