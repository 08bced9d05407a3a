"""DeepSpeech2, the speech recognition network of the SeqPoint study and of MLPerf.

Sources: Amodei et al., "Deep Speech 2", arXiv:1512.02595; MLPerf training reference v0.5 (speech_recognition); sizes as
in Pati et al., "SeqPoint", ISPASS 2020, Table I and Section VI-A.
"""

from __future__ import annotations

from typing import Literal

from slipstick.common.expressions import symbol
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.tape import NetworkTape

FREQUENCIES = 161
CHARACTERS = 29


def deepspeech2(
    purpose: Literal["training", "inference"] = "training",
    layers: int = 5,
    hidden: int = 800,
    optimizer: str = "momentum",
    dtype: str = "float32",
    first_axis: Literal["frequencies", "frames"] = "frequencies",
) -> Workload:
    """Two convolutions over the spectrogram, five bidirectional GRU layers, batch norm, a classifier of characters.

    Symbols: `batch` (utterances), `seq_len` (frames of the padded spectrogram, before the first convolution, which
    leaves floor((seq_len - 1) / 2) + 1 of them; default 64 and 803). The CTC loss is listed as not counted.

    `first_axis`: which axis the convolutions' larger window and larger stride lie along. MLPerf's reference halves the
        frames once; tensorflow/models (research/deep_speech/deep_speech_model.py) has frames first and halves them
        twice.
    """
    batch, length = symbol("batch"), symbol("seq_len")
    tape = NetworkTape("deepspeech2", dtype)
    statistics = "batch" if purpose == "training" else "running"
    spectrogram = (FREQUENCIES, length) if first_axis == "frequencies" else (length, FREQUENCIES)
    x = tape.input(batch, 1, *spectrogram)
    for index, (kernel, stride, padding) in enumerate((((41, 11), (2, 2), (20, 5)), ((21, 11), (2, 1), (10, 5))), 1):
        x = tape.convolution(f"convolution.{index}", x, 32, kernel, stride, padding)
        x = tape.norm(f"convolution.{index}.norm", x, "batch", statistics)
        x = tape.elementwise(f"convolution.{index}.clip", "hardtanh", x)
    _, channels, *places = x.shape
    frequencies, frames = places if first_axis == "frequencies" else reversed(places)
    x = tape.view("sequence", x, batch, frames, channels * frequencies)
    for index in range(layers):
        x = tape.recurrent(f"gru.{index}", x, hidden, "gru", bidirectional=True)
    x = tape.norm("norm", x, "batch", statistics)
    tape.dense("classifier", x, CHARACTERS, bias=False)
    if purpose == "inference":
        return tape.inference(batch=64, seq_len=803)
    return tape.training(optimizer, uncounted=("ctc_loss",), batch=64, seq_len=803)
