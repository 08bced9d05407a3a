# ruff: noqa: E501 - lines as the tools write them
"""Runs as the tools that served or trained report them: vLLM, llama-bench, Megatron, the transformers trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slipstick.workloads.runs.iterations import Iterations

SERVED = {
    "date": "20260101-000000",
    "backend": "vllm",
    "model_id": "meta-llama/Llama-3.1-8B-Instruct",
    "num_prompts": 400,
    "request_rate": "inf",
    "burstiness": 1.0,
    "max_concurrency": 16,
    "duration": 70.0,
    "completed": 400,
    "total_input_tokens": 409_600,
    "total_output_tokens": 51_200,
    "request_throughput": 5.714,
    "output_throughput": 731.4,
    "mean_ttft_ms": 180.0,
    "median_ttft_ms": 150.0,
    "p99_ttft_ms": 700.0,
    "mean_tpot_ms": 20.0,
    "median_tpot_ms": 19.8,
    "p99_tpot_ms": 25.0,
}


def llama_tests() -> list[dict[str, Any]]:
    """Prompts of three lengths and a generation of a 7B model."""
    common = {
        "build_commit": "0000000", "cpu_info": "A CPU", "gpu_info": "NVIDIA GeForce RTX 4090", "backends": "CUDA",
        "model_type": "qwen2 7B Q4_K - Medium", "model_size": 4_677_120_000, "model_n_params": 7_615_616_512,
        "n_batch": 2048, "n_threads": 8, "n_depth": 0,
    }  # fmt: skip
    made = [(512, 0, 0.05), (1024, 0, 0.101), (2048, 0, 0.21), (4096, 0, 0.43), (0, 128, 0.9)]
    return [
        common | {"n_prompt": p, "n_gen": g, "avg_ns": int(s * 1e9), "stddev_ns": 100_000, "avg_ts": (p + g) / s}
        for p, g, s in made
    ]


LLAMA_TABLE = """| model                  |     size | params | backend | ngl | threads |         test |              t/s |
| ---------------------- | -------: | -----: | ------- | --: | ------: | -----------: | ---------------: |
| qwen2 7B Q4_K - Medium | 4.36 GiB | 7.62 B | CUDA    |  99 |       8 |        pp512 | 10240.00 ± 20.48 |
| qwen2 7B Q4_K - Medium | 4.36 GiB | 7.62 B | CUDA    |  99 |       8 | tg128 @ d512 |    142.22 ± 0.30 |

build: 0000000 (1)
"""
"""As llama-bench prints where nobody asks for another form (tools/llama-bench/README.md of ggml-org/llama.cpp)."""
MEGATRON_LOG = """------------------------ arguments ------------------------
  bf16 ............................................ True
  context_parallel_size ........................... 1
  fp8 ............................................. None
  global_batch_size ............................... 512
  micro_batch_size ................................ 1
  pipeline_model_parallel_size .................... 2
  recompute_granularity ........................... selective
  seq_length ...................................... 4096
  tensor_model_parallel_size ...................... 4
  virtual_pipeline_model_parallel_size ............ None
  world_size ...................................... 64
-------------------- end of arguments ---------------------
 [2024-05-01 12:00:00] iteration       10/  500000 | consumed samples:         5120 | elapsed time per iteration (ms): 31000.0 | throughput per GPU (TFLOP/s/GPU): 100.1 | learning rate: 1.5E-05 | global batch size:   512 | lm loss: 1.0E+01 |
 [2024-05-01 12:05:00] iteration       20/  500000 | consumed samples:        10240 | elapsed time per iteration (ms): 9000.0 | learning rate: 1.5E-05 | global batch size:   512 |
 [2024-05-01 12:10:00] iteration       30/  500000 | consumed samples:        15360 | elapsed time per iteration (ms): 9200.0 | learning rate: 1.5E-05 | global batch size:   512 |
"""
TRAINER_STATE: dict[str, Any] = {
    "best_metric": None,
    "epoch": 1.0,
    "global_step": 500,
    "log_history": [
        {"epoch": 0.5, "learning_rate": 5e-5, "loss": 2.1, "step": 250},
        {"epoch": 0.5, "eval_loss": 2.0, "eval_runtime": 10.0, "eval_samples_per_second": 50.0, "step": 250},
        {
            "epoch": 1.0,
            "step": 500,
            "train_loss": 1.9,
            "train_runtime": 110.0,
            "train_samples_per_second": 36.4,
            "train_steps_per_second": 4.545,
        },
    ],
    "max_steps": 500,
    "train_batch_size": 8,
}


def write_log(path: Path, iterations: Iterations) -> None:
    """A CSV that `read_log` reads back: iteration, seq_len (or the proxy's name) and time_s where known."""
    name = "seq_len" if iterations.proxy == "length" else iterations.proxy
    with path.open("w") as stream:
        times = iterations.times
        stream.write(f"iteration,{name}" + ("" if times is None else ",time_s") + "\n")
        for index, value in enumerate(iterations.lengths):
            stream.write(f"{index},{value:g}" + ("" if times is None else f",{float(times[index])!r}") + "\n")
