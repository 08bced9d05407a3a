"""The DLBricks authors' times of single layers as a table with whole sizes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from slipstick.common.frames import csv_frame

if TYPE_CHECKING:
    import pandas as pd

FILE = "dlbricks/layers_c5.2xlarge.csv.gz"
FOLDS = 5
SIDES = ("input_channel", "input_height", "input_width", "output_channel", "output_height", "output_width")
KINDS = {"convolution": "Convolution", "norm": "BatchNormalization", "elementwise": "Elementwise"}
CONVOLUTION = {
    "groups": "groups",
    "channels_in": "input_channel",
    "channels_out": "output_channel",
    "in_height": "input_height",
    "in_width": "input_width",
    "out_height": "output_height",
    "out_width": "output_width",
    "kernel_height": "kernel_1",
    "kernel_width": "kernel_2",
}


def layer_frame(path: Path) -> pd.DataFrame:
    """Layers with whole sizes, one row a model and topology."""
    import pandas as pd

    frame = csv_frame(path)
    for name in (*SIDES, "mad_flops", "kernel_1", "kernel_2", "stride_1", "mean_time"):
        frame[name] = pd.to_numeric(frame[name], errors="coerce")
    frame = frame.dropna(subset=[*SIDES, "mean_time"])
    frame = frame.drop_duplicates(["model_name", "topology_hash"])
    frame["outputs"] = frame.output_channel * frame.output_height * frame.output_width
    dense = frame.outputs * frame.input_channel * frame.kernel_1 * frame.kernel_2
    frame["groups"] = (dense / frame.mad_flops).round()
    whole = (frame.kind != "Convolution") | ((frame.groups >= 1) & (dense / frame.groups == frame.mad_flops))
    return frame[whole]
