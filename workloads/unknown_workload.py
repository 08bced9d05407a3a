"""The error for a workload that does not ship: names of the same network, else one of its kind, and how to bring it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from slipstick.common.errors import InputError

LISTED = "slipstick workloads list"
OWN = "yours: FILE.py:FUNCTION, which returns a PyTorch model"
SERVED = "language models: slipstick serve NAME or config.json"
PURPOSES = {"-inference": "forward pass", "-decode": "one new token", "-data-parallel": "training on many devices"}
ALIKE = 0.8
"""Least likeness of the letters that two names of one family begin with."""
SHORTEST = 3
"""Letters of a family's name at least."""

EXAMPLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "speech": (
        ("whisper", "wav", "hubert", "conformer", "tacotron", "speech", "rnnt", "parakeet"),
        ("deepspeech2-inference", "deepspeech2"),
    ),
    "images": (
        (
            *("yolo", "vit", "detr", "sam", "unet", "segformer", "clip", "stable", "sd", "sdxl", "flux", "diffusion"),
            *("dit", "nasnet", "googlenet", "inception", "rexnet", "maxvit", "deit", "beit", "dino", "nfnet"),
        ),
        ("resnet50-inference", "imported/vit", "imported/unet_cityscapes"),
    ),
    "language": (
        (
            *("llama", "mistral", "mixtral", "gemma", "phi", "falcon", "deepseek", "qwen", "gpt", "glm", "kimi", "mpt"),
            *("yi", "olmo", "granite", "nemotron", "command", "xlm", "deberta", "longformer", "palm", "gptj", "pythia"),
        ),
        ("llama-3-8b-inference", "gpt2-inference", "bert-base-inference"),
    ),
    "recommendation": (("dlrm", "ncf", "deepfm", "wide"), ("mlp-inference",)),
}
"""Kind of network -> how names of its families begin, and what ships of that kind."""


def unknown_workload(name: str, known: Sequence[str]) -> InputError:
    """The error for a name of no workload."""
    if name.endswith(".py"):
        return InputError(
            f"workload {name[:80]!r}: which function? want {name[:80]}:FUNCTION, which builds a PyTorch model"
        )
    stem = _plain(re.sub("(?i)-?(training|train|step|prefill)$", "", name))
    same = sorted((one for one in known if stem and _plain(one).startswith(stem)), key=len)
    ways = f"{OWN}; {SERVED}" if _kind(name) == "language" else OWN
    if same:
        hint = f"; did you mean {', '.join(f'{one!r} ({purpose(one)})' for one in same[:3])}?"
    elif near := _of_family(name, known):
        hint = f"; did you mean {' or '.join(map(repr, near))}? Else {ways}"
    elif kind := _kind(name):
        hint = f"; of its kind ({kind}) there are {', '.join(EXAMPLES[kind][1])}; {ways}"
    else:
        hint = f"; {ways}"
    return InputError(f"unknown workload {name[:80]!r}{hint} ({len(known)} known: {LISTED})")


def purpose(name: str) -> str:
    """What a shipped workload does, by the end of its name."""
    return next((words for end, words in PURPOSES.items() if name.endswith(end)), "training step")


def _plain(text: str) -> str:
    return re.sub("[^a-z0-9]", "", text.lower())


def _letters(name: str) -> str:
    """What a network's name begins with: ``mobilenetv`` of ``imported/mobilenetv3_large_w1``."""
    match = re.match("[a-z]{1,200}", name.rpartition("/")[2].lower())
    return match[0] if match else ""


def _of_family(name: str, known: Sequence[str]) -> list[str]:
    """Workloads whose names begin as this one does, most alike first."""
    mine = _letters(name)
    family = [one for one in known if mine and _one_family(mine, _letters(one))]
    return sorted(family, key=lambda one: -SequenceMatcher(None, name.lower(), one.rpartition("/")[2]).ratio())[:3]


def _one_family(mine: str, other: str) -> bool:
    if sorted(mine) == sorted(other):
        return True  # letters that changed places
    if min(len(mine), len(other)) < SHORTEST:
        return False
    starts = mine.startswith(other) or other.startswith(mine)
    return starts or SequenceMatcher(None, mine, other).ratio() >= ALIKE


def _kind(name: str) -> str:
    letters = _letters(name)
    return next((kind for kind, (begin, _) in EXAMPLES.items() if letters.startswith(begin)), "")
