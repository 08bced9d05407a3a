"""GNMT and DeepSpeech2 as TensorFlow 1.x programs run them: symbol by symbol, a kernel for each function.

The SeqPoint study ran them on TensorFlow: "GRUs, LSTMs usually process one symbol of the sequence at a time, hence have
fixed-size inputs across iterations" (Pati et al., ISPASS 2020, Section IV-B1). Sources: tensorflow/nmt 9ffc354,
gnmt_model.py and standard_hparams/wmt16_gnmt_8_layer.json; tensorflow/models research/deep_speech,
deep_speech_model.py (frames are the first axis: both convolutions halve them).
"""

from __future__ import annotations

from slipstick.common.expressions import symbol
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.stepped_layers import SteppedTape
from slipstick.workloads.layers.tape import Value
from slipstick.workloads.networks.deepspeech2 import CHARACTERS, FREQUENCIES
from slipstick.workloads.networks.gnmt import VOCABULARY, WIDTH

LAYERS = 8


def stepped_gnmt(vocabulary: int = VOCABULARY, width: int = WIDTH) -> Workload:
    """One training step of tensorflow/nmt's GNMT: dropout before each cell, the context for every layer that decodes.

    Symbols: `batch` (sentences), `seq_len` (words of the padded source and target; default 64 and 25).
    """
    batch, length = symbol("batch"), symbol("seq_len")
    tape = SteppedTape("gnmt-stepped", "float32")

    def layer(name: str, x: Value, beside: int = 0, *, bidirectional: bool = False) -> Value:
        dropped = tape.elementwise(f"{name}.dropout", "dropout", x)
        return tape.stepped(name, dropped, width, "lstm", beside, bidirectional=bidirectional)

    source = tape.embedding("embedding", tape.input(batch, length), vocabulary, width)
    x = layer("encoder.0", source, bidirectional=True)
    for index in range(1, LAYERS):
        y = layer(f"encoder.{index}", x)
        x = tape.elementwise(f"encoder.{index}.residual", "add", y, x) if index >= 2 else y
    memory = x
    target = tape.embedding("decoder.embedding", tape.input(batch, length), vocabulary, width)
    x = tape.stepped_attention("attention", layer("decoder.0", target, width), memory, width)
    for index in range(1, LAYERS):
        y = layer(f"decoder.{index}", x, width)
        x = tape.elementwise(f"decoder.{index}.residual", "add", y, x) if index >= 2 else y
    tape.loss("loss", tape.dense("classifier", x, vocabulary, bias=False))
    return tape.training("sgd", batch=64, seq_len=25)


def stepped_deepspeech2(hidden: int = 800) -> Workload:
    """One training step of tensorflow/models' DeepSpeech2; the CTC loss is listed as not counted.

    Symbols: `batch` (utterances), `seq_len` (frames of 10 ms of the padded spectrogram; default 64 and 1,606).
    """
    batch, length = symbol("batch"), symbol("seq_len")
    tape = SteppedTape("deepspeech2-stepped", "float32")
    x = tape.input(batch, 1, length, FREQUENCIES)
    for index, (kernel, stride, padding) in enumerate((((41, 11), (2, 2), (20, 5)), ((21, 11), (2, 1), (10, 5))), 1):
        name = f"convolution.{index}"
        y = tape.convolution(name, x, 32, kernel, stride, padding, bias=False)
        x = tape.norm(f"{name}.norm", tape.elementwise(f"{name}.relu6", "hardtanh", y), "batch", "batch")
    _, channels, frames, frequencies = x.shape
    x = tape.view("sequence", x, batch, frames, channels * frequencies)
    for index in range(5):
        x = tape.norm(f"gru.{index}.norm", x, "batch", "batch") if index else x
        x = tape.stepped(f"gru.{index}", x, hidden, "gru", bidirectional=True)
    tape.dense("classifier", tape.norm("norm", x, "batch", "batch"), CHARACTERS)
    return tape.training("adam", uncounted=("ctc_loss",), batch=64, seq_len=1606)
