"""Seconds of one core that a host takes to make a training example: the usual decoders, or one of the user's own.

Content is made from a seed: pictures of the sizes and file lengths of the data sets (a smooth picture with noise, of
the quality that gives the length), and what the programs of the TPUPoint study make of them. The figures of
`slipstick.workloads.networks.tpu_programs.feeds` were taken with these.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import IntArray
from slipstick.common.trusted_code import code_refused, found_here
from slipstick.experiments.measure.clocks.timing import Protocol, measure

Floats = npt.NDArray[np.float32]
NAMES = ("imagenet", "coco", "cifar10", "word-vectors")


@dataclass(frozen=True)
class Decoder:
    """Something that makes `examples` of `example_bytes` each at a call."""

    name: str
    make: Callable[[], object]
    example_bytes: float
    examples: int = 1


def timed(decoders: list[Decoder], repeats: int = 15) -> list[dict[str, Any]]:
    """Seconds of thread CPU time an example and its spread, a row a decoder."""
    timings = measure({each.name: each.make for each in decoders}, Protocol(repeats=repeats))
    return [
        {
            "decoder": each.name,
            "host_seconds": timings[each.name].value / each.examples,
            "spread": timings[each.name].spread,
            "example_bytes": each.example_bytes,
            "flags": "; ".join(timings[each.name].flags),
        }
        for each in decoders
    ]


def usual() -> list[Decoder]:
    """The decoders of `NAMES`."""
    random = np.random.default_rng(1)
    held = random.standard_normal((1024, 32 * 32 * 3), dtype=np.float32)
    table = random.standard_normal((90_000, 300), dtype=np.float32)
    return [
        Decoder("imagenet", _crop(_picture(500, 375, 110_000), random), 224 * 224 * 3 * 2),
        Decoder("coco", _detection(_picture(640, 480, 160_000), random), 640 * 640 * 3 * 2 + 76_725 * 20),
        Decoder(
            "cifar10",
            lambda: (held.copy(), random.standard_normal((1024, 64), dtype=np.float32)),
            32 * 32 * 3 * 4 + 64 * 4,
            1024,
        ),
        Decoder("word-vectors", lambda: _vectors(table, random), 2 * 256 * 300 * 4),
    ]


def own_decoder(target: str) -> Decoder:
    """The decoder MODULE:FUNCTION: a function without arguments that makes an example, or gives examples one by one.

    Raises InputError where there is no such function, or it fails.
    """
    with code_refused(f"decoder {target!r}: want MODULE:FUNCTION"):
        make = found_here(target)
        first = make()
        if isinstance(first, Iterator):
            make = _one_by_one(make)
            first = make()
    return Decoder(target, make, float(_bytes(first)))


def _one_by_one(function: Callable[[], Iterator[Any]]) -> Callable[[], object]:
    held = [function()]

    def make() -> object:
        try:
            return next(held[0])
        except StopIteration:
            held[0] = function()
            return next(held[0])

    return make


def _bytes(example: Any) -> int:
    if isinstance(example, dict):
        return sum(map(_bytes, example.values()))
    if isinstance(example, (tuple, list)):
        return sum(map(_bytes, example))
    return int(getattr(example, "nbytes", 8))


def _picture(width: int, height: int, length: int) -> bytes:
    """A JPEG of that many pixels and about that many bytes."""
    from PIL import Image

    random = np.random.default_rng(0)
    small = random.uniform(0, 255, (height // 16 + 1, width // 16 + 1, 3)).astype(np.uint8)
    smooth = np.asarray(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC), dtype=np.float64)
    pixels = np.clip(smooth + random.normal(0, 14, smooth.shape), 0, 255).astype(np.uint8)
    packed = b""
    for quality in range(30, 99, 2):
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, "JPEG", quality=quality)
        packed = stream.getvalue()
        if len(packed) >= length:
            break
    return packed


def _crop(packed: bytes, random: np.random.Generator) -> Callable[[], object]:
    """Decoded, cropped at random, scaled to 224, flipped half of the time, made numbers."""
    from PIL import Image

    def make() -> object:
        picture = Image.open(io.BytesIO(packed)).convert("RGB")
        area = random.uniform(0.08, 1) * 500 * 375
        ratio = np.exp(random.uniform(np.log(3 / 4), np.log(4 / 3)))
        width, height = min(500, int((area * ratio) ** 0.5)), min(375, int((area / ratio) ** 0.5))
        x, y = int(random.integers(0, 500 - width + 1)), int(random.integers(0, 375 - height + 1))
        scaled = picture.resize((224, 224), Image.Resampling.BICUBIC, box=(x, y, x + width, y + height))
        pixels = np.asarray(scaled, dtype=np.float32)
        return (((pixels[:, ::-1] if random.random() < 0.5 else pixels) - 118.0) / 58.0).astype(np.float16)

    return make


def _detection(packed: bytes, random: np.random.Generator) -> Callable[[], object]:
    """Decoded, scaled, padded to 640, and 76,725 anchors matched with seven boxes."""
    from PIL import Image

    places = [
        np.stack(np.meshgrid(*2 * [np.arange(640 // step) * step]), -1).reshape(-1, 1, 2).repeat(9, 1).reshape(-1, 2)
        for step in (8, 16, 32, 64, 128)
    ]
    corners = np.concatenate(places).astype(np.float32)
    anchors = np.concatenate([corners, corners + 64], 1)
    begin = random.uniform(0, 300, (7, 2)).astype(np.float32)
    boxes = np.concatenate([begin, begin + 150], 1)

    def make() -> object:
        picture = Image.open(io.BytesIO(packed)).convert("RGB")
        scale = random.uniform(0.8, 1.2)
        scaled = picture.resize((int(640 * scale), int(480 * scale)), Image.Resampling.BILINEAR)
        source = np.asarray(scaled, dtype=np.float32)[:640, :640]
        padded = np.zeros((640, 640, 3), np.float32)
        padded[: source.shape[0], : source.shape[1]] = source
        return ((padded - 118.0) / 58.0).astype(np.float16), *_matched(anchors, boxes)

    return make


def _matched(anchors: Floats, boxes: Floats) -> tuple[Floats, IntArray]:
    """Targets and box of every anchor: the one with the largest intersection over union."""
    low = np.maximum(anchors[:, None, :2], boxes[None, :, :2])
    high = np.minimum(anchors[:, None, 2:], boxes[None, :, 2:])
    inside = np.clip(high - low, 0, None).prod(-1)
    areas = [(each[:, 2] - each[:, 0]) * (each[:, 3] - each[:, 1]) for each in (anchors, boxes)]
    best = (inside / (areas[0][:, None] + areas[1][None] - inside)).argmax(1)
    target = boxes[best]
    shift = (target[:, :2] - anchors[:, :2]) / 64
    return np.concatenate([shift, np.log((target[:, 2:] - target[:, :2]) / 64)], 1), best


def _vectors(table: Floats, random: np.random.Generator) -> tuple[Floats, Floats]:
    """The word vectors of a text of 256 words and of a question of 20, padded to 256."""
    padded = np.zeros((256, 300), np.float32)
    padded[:20] = table[random.integers(0, len(table), 20)]
    return table[random.integers(0, len(table), 256)], padded
