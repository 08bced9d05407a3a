"""The help page of a command: its options by section, and examples of what is typed."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import wrap
from types import MappingProxyType
from typing import Any

import typer
from typer.core import TyperCommand

from slipstick.experiments.cli.vocabulary import SECTIONS

OTHER = "Other options"
WIDTH = 76
"""Columns of an example; longer ones go on in a second line, as a shell reads them."""
EXAMPLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "estimate": ("gpt2 --on h100-sxm,mi300x --dtype bf16", "my_models.py:network --on h100-sxm --input batch,64"),
        "whatif": (
            "gpt2 --on h100-sxm --vary machine.clock=1GHz,1.9GHz",
            "gnmt --on v100-sxm --vary machine.clock=1GHz,1.5GHz --save study.toml",
        ),
        "explain": ("gpt2 --on h100-sxm", "gemm --on tpu-v5e --m 4096 --target 0.5"),
        "extrapolate": ("runs.csv --to threads=64", "runs.csv --to threads=64,128 --format json"),
        "serve": (
            "llama-3.1-8b --on h100-sxm --concurrency 4 --output-tokens 32",
            "llama-3.1-8b --on h100-sxm --rate 4 --input-tokens 512 --output-tokens 32 --num-requests 50",
        ),
        "plan serving": (
            "llama-3.1-8b --on h100-sxm,l40s --devices 1 --limit tpot=20ms",
            "llama-3.1-8b --on h100-sxm --limit ttft=1s,tpot=30ms",
        ),
        "plan training": (
            "llama-3.1-8b --on h100-dgx --devices 64 --batch 128 --seq-len 8192",
            "llama-3.1-8b --on h100-dgx --devices 8 --batch 32 --trainer fsdp",
        ),
        "plan power-limit": (
            "--time 240s --power 220W --rated 250W",
            "--time 2h --power 600W --rated 700W --slowdown 0.1",
        ),
        "read": ("runs.csv", "profile.sqlite --on h100-sxm"),
        "mcp": ("--skill", "--allow-code my_models.py:network"),
        "calibrate": ("fit.toml", "job.yaml --measured steps.csv --fit job.decode.service"),
        "measure host": ("--out my-host.yaml --name my-host", "--repeats 5 --clock 2.6GHz"),
        "measure decoders": ("--repeats 3", "my_input.py:decode"),
        "measure bricks": ("zoo:resnet18 --store bricks.sqlite", "my_models.py:network -g 2 --name my-host"),
        "measure pipeline": ("--out steps.jsonl", "--workers 2 --scale 0.5"),
        "measure spmv": ("matrix.mtx --out blocks", "matrix.mtx --kernel scipy --on my-host.yaml"),
        "measure training": ("--network gru --lengths 10,20,40", "--out steps.csv"),
        "measure steps": ("--out steps.csv", "mlp --format json"),
        "measure contention": (
            "my_models.py:network --threads 1..2",
            "my_models.py:network --out threads.json --on my-host.yaml",
        ),
        "measure scaling": (
            "'./program {threads}' --threads 1..8 --out runs.csv",
            "my_models.py:work --threads 1,2 --size n=1000,2000",
        ),
        "measure anchors": (
            "--on rtx-4090 --next 3",
            "--on rtx-4090 --workload decode:llama-3.1-8b --next 2 --out steps.csv",
        ),
        "probe": ("--out my-host", "--device cuda --budget-seconds 30"),
        "replay": (
            "profile.sqlite --on h100-sxm",
            r"profile.sqlite --on h100-sxm --step-pattern 'iteration (\d+)'",
        ),
        "study list": ("", "--format json"),
        "study run": ("study.toml --share 1/2 --folder part-1", "study.toml --share 2/2 --folder part-2"),
        "study resume": ("study.toml --folder results", "study.toml --executor threads"),
        "study merge": ("study.toml part-1 part-2", "study.toml part-1 part-2 --folder results"),
        "study report": ("study.toml --folder results", "study.toml --folder results --format json"),
        "machines list": ("", "--format json"),
        "machines show": ("h100-sxm", "my-host.yaml --format json"),
        "machines check": ("my-host.yaml", "xeon-phi-7120p"),
        "machines compare": ("l40s rtx-4090 mi300x", "h100-sxm my-host.yaml --format csv"),
        "machines fields": ("", "--format json"),
        "machines import": ("cpuinfo.txt --out this-host.yaml", "kerncraft.yml --benchmark triad"),
        "machines detect": ("", "--out my-host.yaml --clock 2.6GHz"),
        "workloads list": ("", "--format json"),
        "workloads show": ("gpt2", "gpt2 --on h100-sxm --plot gpt2.svg"),
        "workloads import": ("step.mlir --out step.json", "my_models.py:network --input batch,64 --out network.json"),
        "workloads diff": ("gpt2 gpt2-inference", "network.json gpt2"),
        "workloads draw": ("gemm --out gemm.html", "gemm --out gemm.dot"),
        "estimators list": ("", "--routes"),
        "estimators show": ("roofline", "phi-a --format json"),
        "data list": ("", "--format json"),
        "data get": ("nist", "nist --data my-data"),
        "reproduce": ("xeon-phi", "spmv-cnn --format json"),
        "validate": ("physics", "scaling --save rows"),
        "seqpoint": ("log.csv --error 1%", "gnmt --on v100-sxm --lengths log.csv"),
        "phases": ("run.csv --top 1", "run.csv --method published"),
        "bricks split": ("vgg16-inference", "zoo:resnet18 my_models.py:network -g 2"),
        "bricks similarity": ("vgg16-inference alexnet-inference", "zoo:resnet18 zoo:resnet34"),
        "bricks compose": ("zoo:resnet18 --store bricks.sqlite", "zoo:resnet18 --store bricks.sqlite -g 2"),
        "bricks advise": ("zoo:resnet18 zoo:vgg11 --store bricks.sqlite", "zoo:resnet18 --store bricks.sqlite"),
        "bricks score": ("--store bricks.sqlite", "--format json"),
        "bricks merge": ("all.sqlite bricks.sqlite", "all.sqlite here.sqlite there.sqlite"),
        "spmv predict": ("matrix.mtx", "matrix.mtx --on a100-pcie-40gb"),
        "spmv calibrate": ("my-host.yaml --threads 2", "my-host.yaml matrix.mtx --kernel scipy"),
        "spmv train": ("mine.spmv.json", "mine.spmv.json --measured blocks --cache-state hot"),
        "spmv validate": ("--folder results", "--cache-state hot"),
        "tune": ("simulated-1", "my_input.py:batches --steps 24 --step-time 10ms"),
        "demo": ("", "--format json"),
    }
)
"""By the name of a command, as typed behind ``slipstick``: what may follow it."""


class HelpPage(TyperCommand):
    """A command whose help lists the options by section of the vocabulary, then examples."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """See click: arguments, options by section, examples."""
        rows: dict[str, list[tuple[str, str]]] = {"Arguments": [], **{title: [] for title in SECTIONS}, OTHER: []}
        for one in self.get_params(ctx):
            if record := one.get_help_record(ctx):
                argument = one.param_type_name == "argument"
                rows["Arguments" if argument else getattr(one, "rich_help_panel", None) or OTHER].append(record)
        for title, records in rows.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
        words: list[str] = []
        while ctx.parent is not None:
            words, ctx = [ctx.info_name, *words], ctx.parent
        if examples := EXAMPLES.get(" ".join(words)):
            with formatter.section("Examples"):
                for example in examples:
                    typed = " ".join(["slipstick", *words, example]).strip()
                    lines = wrap(typed, WIDTH - 4, break_on_hyphens=False, break_long_words=False)
                    formatter.write("  " + " \\\n      ".join(lines) + "\n")


def with_help_pages(app: typer.Typer) -> typer.Typer:
    """The application, with `HelpPage` for each command, those of its groups included, that has no class of its own."""
    for command in app.registered_commands:
        command.cls = command.cls if issubclass(command.cls or TyperCommand, HelpPage) else HelpPage
    for group in app.registered_groups:
        if group.typer_instance is not None:
            with_help_pages(group.typer_instance)
    return app
