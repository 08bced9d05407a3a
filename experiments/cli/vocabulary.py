"""The words of the command line: what each option means, said once for every command that has it.

A command takes an option as ``Annotated[TYPE, option(WORD, ABOUT)]``: the help is the meaning of the word, then what is
particular to the command. Python's functions use the same words for their arguments. A word that
several commands use with one type has that type here. Older words are still taken (`renamed_arguments.RENAMED`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any

import typer

from slipstick.common.trusted_code import TrustedName

SECTIONS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "Question": {
            "on": "a machine, by name or YAML file (slipstick machines list)",
            "against": "other machines",
            "recorded_on": "the machine on which a trace was recorded",
            "model": "a language model",
            "workload": "the workload of your own that you want to know more of",
            "trainer": "what trains, with a release if need be: megatron | fsdp (weights sharded) | automodel | ...",
            "engine": "software that runs the model, with a version if need be ('vllm 0.19.0')",
            "estimator": "the estimator, by name or your own MODULE:ATTRIBUTE",
            "input": "shapes of the inputs of your FUNCTION",
            "work": "what is done of a model whose name the workload is: train | forward | prefill | decode",
            "train": "as a training step, with this optimizer",
            "dtype": "data type of weights and products",
            "cache_dtype": "data type of cached keys and values",
            "mode": "how the runtime runs operations",
            "attention": "how attention is computed",
            "quantity": "what is wanted of an answer with several quantities",
            "allow_code": "your own code that a file names, which is imported and run",
            "set": "a number that is not the default, NAME=VALUE",
            "vary": "numbers that vary, NAME=VALUES",
            "where": "a condition that points must meet",
            "trace": "a recorded trace",
            "network": "the network that is trained",
            "kernel": "the code that computes a product",
            "caches": "the state of the caches before a product",
            "cache_state": "which times of blocks: streaming (sweeps) or hot (first cache)",
        },
        "Sizes and counts": {
            "devices": "how many accelerators",
            "concurrency": "users of a closed loop, each with one request at a time",
            "input_tokens": "tokens of a prompt",
            "output_tokens": "tokens that are generated for a request",
            "seq_len": "tokens of a training sequence",
            "batch": "examples of one step",
            "threads": "how many threads",
            "workers": "how many workers at a time",
            "images": "images of each worker",
            "iterations": "iterations of a synthetic epoch",
            "lengths": "sequence lengths of the iterations",
            "order": "order of a synthetic epoch's lengths",
            "steps": "training steps of a stretch",
            "size": "sizes of a program, NAME=100,200,400",
            "granularity": "layers of a brick",
            "tp": "tensor-parallel ranks",
            "pp": "pipeline stages",
            "dp": "data-parallel groups with attention of their own",
            "ep": "expert-parallel ranks",
            "replicas": "copies of the server behind a router",
            "prefill_workers": "workers that only read prompts, for copies that only decode",
            "prefill_tp": "tensor ranks of each worker that reads prompts",
            "link_bandwidth": "how fast a device sends cached keys to another worker",
            "clock": "clock of a core",
            "cores_per_node": "cores of a node, for core-hours",
        },
        "Requests of a server": {
            "rate": "requests/s of a stream",
            "requests": "recorded requests",
            "burstiness": "of a stream: 1 is Poisson, 0 regular",
            "length_range": "lengths are drawn from (1 - this) to 1 times the given",
            "prefix_hit_rate": "share of each prompt that is in the cache already",
            "num_requests": "how many requests are simulated",
            "max_batched_tokens": "most tokens of one step of the server (of each data-parallel rank)",
            "max_num_seqs": "most requests that the server runs together (on each data-parallel rank)",
            "memory_share": "of each device's memory that the server takes (vLLM: --gpu-memory-utilization)",
            "draft_tokens": "tokens that speculative decoding guesses in a step",
            "acceptance": "chance that a guessed token is kept",
            "draft_cost": "time of guessing a token over that of a plain step",
            "chunked_prefill": "whether chunks of prompts share steps with decoding",
            "preemption": "what becomes of a request that loses its cache",
            "tokens": "tokens of the whole training run",
            "input_rate": "sequences/s that storage and hosts hand to the job",
        },
        "Money, power and limits": {
            "limit": "longest times allowed",
            "price": "dollars an hour of a device",
            "cost": "what doubling a quantity costs, NAME=COST",
            "budget": "share of all combinations that may be tried",
            "slowdown": "how much longer a run may take: 0.03 is 3 %",
            "power": "mean power of a run",
            "rated": "rated power of the board",
            "time": "time of a run",
            "host_power": "power of the host for each device",
            "pue": "power of the building over that of its computers",
            "grid_intensity": "CO2-equivalent of the grid, grams a kWh: JSON has carbon_kg_per_h",
            "target": "ratio to today's time that a change should reach, or a time (10ms)",
            "objective": "Pareto front over time, energy, cost, NAME=FORMULA of columns and the machine's numbers, or "
            "NAME=FILE.py:FUNCTION of machine, workload and answer (run)",
            "error": "largest error allowed",
        },
        "Measurements": {
            "measured": "measured rows that the answer is held to",
            "fit": "parameters that are fitted",
            "calibration": "a file of what was fitted before",
            "data": "folder of public measurements",
            "store": "measured bricks",
            "largest": "most non-zeros of a matrix that is used",
            "check": "a time that was measured at the last target: exit code 1 where it leaves the band",
            "column": "the column or metric that is predicted",
            "parameter": "the column that varies",
            "statistic": "what stands for repeated runs of a point",
            "region": "the only region of the program to look at",
            "step_pattern": "pattern of the ranges that are steps",
            "step": "number of the one step to read",
            "target_log": "a log from another machine, of the chosen iterations at least",
            "benchmark": "whose measured curve becomes the memory bandwidth",
        },
        "Method": {
            "method": "the method, by name",
            "kind": "how work grows with the parameter",
            "family": "one family of curves, by name",
            "to": "where the time is wanted",
            "level": "probability of intervals",
            "intervals": "how intervals are found",
            "simulate": "by event simulation",
            "runs": "how many simulated runs",
            "seed": "seed of what is drawn at random",
            "schedule": "how bricks share the machine's time",
            "concurrency_rule": "patterns of bricks that may run at the same time",
            "policy": "rules of the tuner",
            "tune_from": "when tuning begins",
            "exhaustive": "try all combinations as well, and compare",
            "resume_steps": "steps to go on from the checkpoint with the best settings",
            "step_time": "time that an accelerator works on a batch",
            "threshold": "similarity from which steps are alike",
            "clusters": "number of clusters",
            "minimum": "samples that make a cluster",
            "representatives": "how many iterations are chosen",
            "warm_up": "iterations that are slow for being first: leave-out | keep",
            "epochs": "epochs of training a network",
            "executor": "what computes the points",
            "scheduler": "address of a dask scheduler",
            "share": "I/N, one of N shares of the work, for array jobs",
        },
        "Measuring here": {
            "device": "where torch runs: cpu | cuda | rocm | mps",
            "name": "name of this machine",
            "repeats": "how often each timing is repeated",
            "seconds": "seconds to spend on each timing",
            "budget_seconds": "seconds to spend in all",
            "timeout": "seconds after which a run is given up",
            "most_seconds": "longest operation to measure, in predicted seconds",
            "protocol": "how timings are taken",
            "configurations": "changes that stand for hardware, by name",
            "scale": "factor on the lengths of the schedule",
        },
        "Output": {
            "format": "form of the answer",
            "verbose": "more of the answer",
            "skill": "print what an agent should know before it asks, and leave",
            "rows": "most rows of a table",
            "top": "how many operations to list, slowest first",
            "routes": "the table by which a question is answered that names no estimator",
            "counters": "flop, bytes by level and cycles of a GPU",
            "next": "how many measurements to propose, best first",
            "report": "write a page, FILE.html",
            "plot": "write a picture, FILE.png or .svg",
            "timeline": "write what was simulated as a Chrome trace, FILE.json",
            "out": "write the result to a file or folder",
            "save": "write the question as a study, STUDY.toml",
            "folder": "folder of results; what is kept there is not computed again",
            "graph": "write the graph of operations, FILE.json or .json.gz",
            "export": "write every unique brick as an exported program into a folder",
            "bricks_file": "write all unique bricks, shapes only and mixed, FILE.json",
        },
    }
)
"""By section of a help page: an argument's name in Python, and its meaning; the option is ``--name`` with hyphens."""
WORDS: Mapping[str, str] = MappingProxyType({word: text for words in SECTIONS.values() for word, text in words.items()})
"""All words, without their sections."""


def option(word: str, about: str = "", *short: str, **limits: Any) -> Any:
    """The option of a word.

    Parameters
    ----------
    word
        Of `WORDS`.
    about
        What is particular to the command: values, what it applies to.
    short
        Other spellings, ``-g``.
    limits
        See `typer.Option`: min, max, parser, show_default.

    Raises
    ------
    KeyError
        Where the word is not in the vocabulary.
    """
    meaning = WORDS[word]
    return typer.Option(
        f"--{word.replace('_', '-')}",
        *short,
        help=f"{meaning}: {about}" if about else meaning,
        rich_help_panel=next(title for title, words in SECTIONS.items() if word in words),
        **limits,
    )


def verb_of(app: typer.Typer, name: str, about: str, *commands: Callable[..., Any]) -> typer.Typer:
    """A verb with commands of its own, added to the application: each is called as its function."""
    made = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=about)
    app.add_typer(made, name=name)
    for command in commands:
        made.command(command.__name__)(command)
    return made


Format = Annotated[str, option("format", "table | json | csv")]
Report = Annotated[str | None, option("report")]
Plot = Annotated[str | None, option("plot")]
Set = Annotated[list[str] | None, option("set", "run.threads=240, machine.clock=2GHz, ...")]
Input = Annotated[list[str] | None, option("input", "batch,3,224,224 or name=batch,seq_len:int64")]
Train = Annotated[str | None, option("train", "sgd, momentum, adam, adamw")]
Work = Annotated[str | None, option("work")]
Attention = Annotated[str | None, option("attention", "flash, in one kernel")]
Estimator = Annotated[TrustedName | None, option("estimator", parser=TrustedName)]
Calibration = Annotated[str | None, option("calibration", "of slipstick calibrate --out")]
KnownHere = Annotated[
    str | None,
    option(
        "measured",
        "this question's time (23.4ms), a training log, a trace, a server's benchmark, llama-bench's output, or a CSV "
        "of steps or operations (measure anchors --workload writes one)",
    ),
]
Dtype = Annotated[str | None, option("dtype", "bfloat16, int8, fp8, mxfp8, nvfp4, int4 (weights), ...")]
RecordedOn = Annotated[str | None, option("recorded_on", "where it does not say so")]
Quantity = Annotated[str | None, option("quantity", "of a server: output, ttft, tpot, latency, power, ...")]
Objective = Annotated[list[TrustedName] | None, option("objective", parser=TrustedName)]
Runs = Annotated[int | None, option("runs", "each from its own seed", min=1)]
Seed = Annotated[int, option("seed", min=0)]
Number = Annotated[list[str] | None, typer.Option(hidden=True)]
"""``--number NAME=VALUE``: what `WithNumbers` makes of sizes and numbers of the run that are written as options."""
Level = Annotated[float, option("level", min=0.01, max=0.999)]
HostPower = Annotated[str | None, option("host_power", "300W")]
Pue = Annotated[float, option("pue")]
GridIntensity = Annotated[float, option("grid_intensity")]
InputTokens = Annotated[int, option("input_tokens", min=1)]
OutputTokens = Annotated[int, option("output_tokens", min=1)]
StepTokens = Annotated[int, option("max_batched_tokens", min=1)]
CacheDtype = Annotated[str, option("cache_dtype", "bf16, fp8, ...; auto: as the checkpoint and the engine have it")]
Clock = Annotated[str, option("clock", "2.6GHz; found if none is given")]
Trusted = Annotated[list[TrustedName] | None, option("allow_code", parser=TrustedName)]
