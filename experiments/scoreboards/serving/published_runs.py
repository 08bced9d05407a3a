"""How the dashboard's published runs measure a first token: who waits for what because of the benchmark's own scripts.

Scripts of InferenceX (formerly InferenceMAX; SemiAnalysisAI/InferenceX, benchmarks/*.sh at 1fc5d73, 73ef922 and
1e85373): vLLM's client with all users at once, ten requests a user, lengths drawn from .8 to 1.0 of the nominal, no
warm-up, no prefix cache. Where an engine looks for new requests in every so many steps, they wait for half of these.
"""

from __future__ import annotations

from slipstick.experiments.scoreboards.serving.serving_rows import SiliconCase

BURST = 0.1 / 2
"""One request in ten is the first of its user, and waits for half of all prompts at the mean."""
POLLED, POLLED_FEW, FEW = 30, 10, 16
"""SGLang on Blackwell (``--scheduler-recv-interval``): steps between two looks at the queue; below 16 users."""
CONTINUED = 4
"""SGLang on MI300X (``--num-continuous-decode-steps``)."""
BALANCED = 60
"""TensorRT-LLM with data-parallel attention (``timeout_iters``): at most so many until all ranks have a prompt."""
BATCHED, SHORT, NODE = 20, 1025, 8
"""TensorRT-LLM, Llama-70B, 1,024 tokens in and out, below 8 ranks (``batch_wait_timeout_iters``): a whole wait, since
few users never fill the step."""


def held_steps(case: SiliconCase) -> float:
    """Steps for which a new request is held back at the mean, each of the seconds of a further token."""
    load, layout = case.load, case.layout
    if case.engine == "sglang":
        if "blackwell" in case.machine.family:
            return (POLLED if load.users >= FEW else POLLED_FEW) / 2
        return CONTINUED / 2 if case.machine.family.startswith("amd") else 0.0
    if case.engine != "trtllm" or not case.spread:
        return 0.0
    if layout.data > 1:
        return BALANCED / 2
    short = load.input_tokens < SHORT and load.output_tokens < SHORT
    return float(BATCHED) if case.model.name == "llama-3.1-70b" and short and layout.tensor < NODE else 0.0
