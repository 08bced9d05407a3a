"""What feeds the networks of the catalogue: measured decoders, and the bytes that TPU programs hand to the device.

Seconds are thread CPU time on a core of 2.6 GHz (Xeon of 2023; Pillow 13.0, protobuf 7.36, numpy 2.4; 22 November 2026;
`slipstick measure decoders`, records by protobuf's parser of a tf.train.Example), times 1.3 for the 2.0 GHz host of a
Cloud TPU; bytes are those of the programs in github.com/tensorflow/tpu (commit 7dc921f).
"""

from __future__ import annotations

from slipstick.workloads.runs.feed import Feed

SLOWER = 1.3
"""Clock of the measured core over that of a Cloud TPU's host (machine tpu-host, 2.0 GHz)."""
_MEASURED = "decoder measured on a 2.6 GHz core, times 1.3 for a 2.0 GHz host"

IMAGENET = Feed(
    SLOWER * 3.25e-3, 224 * 224 * 3 * 2 + 4, f"JPEG of 500 x 375, 120 kB, cropped to 224, in bfloat16: {_MEASURED}"
)
COCO = Feed(
    SLOWER * 38.7e-3,
    640 * 640 * 3 * 2 + 76_725 * (4 + 16),
    f"JPEG of 640 x 480, 165 kB, scaled to 640, 76,725 anchors matched with 7 boxes: {_MEASURED}",
)
TOKENS = Feed(SLOWER * 12.1e-6, 3 * 128 * 4 + 4, f"a record of three times 128 numbers parsed: {_MEASURED}")
VECTORS = Feed(
    SLOWER * 75.6e-6, 2 * 256 * 300 * 4, f"256 + 20 word vectors of 300 looked up, padded to 256: {_MEASURED}"
)
CIFAR10 = Feed(
    SLOWER * 1.52e-6, 32 * 32 * 3 * 4 + 64 * 4, f"cached examples and 64 random numbers gathered: {_MEASURED}"
)
MNIST = Feed(SLOWER * 0.4e-6, 28 * 28 * 4 + 64 * 4, f"as CIFAR10, by its bytes: {_MEASURED}")

BY_NETWORK = {"resnet18": IMAGENET, "resnet50": IMAGENET, "vgg16": IMAGENET, "bert-base": TOKENS, "bert-large": TOKENS}
"""Feeds of the catalogue's training networks."""
