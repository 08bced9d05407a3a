"""QANet as the Cloud TPU program trains it: its word vectors come from the host.

Source: Yu et al., "QANet", ICLR 2018; sizes as in github.com/tensorflow/tpu, models/experimental/qanet (commit 8251163,
the last that has it): width 128, four heads, kernels of 7, an embedding block for text and question, four model blocks.
"""

from __future__ import annotations

from slipstick.common.expressions import symbol
from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.tape import NetworkTape, Value

WIDTH, HEADS, KERNEL, VECTOR = 128, 4, 7, 300


def qanet(dtype: str = "float32") -> Workload:
    """One training step. Symbols: `batch`, `seq_len` (of text and of question, both padded to it)."""
    batch, length = symbol("batch"), symbol("seq_len")
    tape = NetworkTape("qanet", dtype)
    text, question = (_block(tape, name, tape.input(batch, length, VECTOR), 4) for name in ("text", "question"))
    square = (batch, length, length)
    scores = tape.batched_product("match.scores", text, question, length, WIDTH, length, square)
    of_text = tape.batched_product(
        "match.text", tape.softmax("match.softmax", scores), question, length, length, WIDTH, text.shape
    )
    other = tape.softmax("match.softmax_question", scores)
    of_question = tape.batched_product("match.question", other, text, length, length, WIDTH, text.shape)
    products = [tape.elementwise(f"match.mul{i}", "mul", text, each) for i, each in enumerate((of_text, of_question))]
    x = tape.concatenate("match.all", text, of_text, *products)
    made = []
    for index in range(4):
        x = _block(tape, f"model{index}", x, 2)
        made.append(x)
    ends = [
        tape.dense(f"answer.{name}", tape.concatenate(f"answer.{name}.both", made[1], made[i]), 1)
        for name, i in (("begin", 2), ("end", 3))
    ]
    tape.loss("loss", tape.view("answer.reshape", tape.elementwise("answer.add", "add", *ends), batch, length))
    return tape.training("adam", batch=32, seq_len=256)


def _block(tape: NetworkTape, name: str, x: Value, convolutions: int) -> Value:
    """Separable convolutions, self-attention and feed forward, each behind a norm and beside a shortcut."""
    batch, length, width = x.shape
    if width != WIDTH:
        x = tape.dense(f"{name}.project", x, WIDTH)
    for index in range(convolutions):
        part = f"{name}.convolution{index}"
        y = tape.norm(f"{part}.norm", x, "layer")
        y = tape.view(f"{part}.image", y, batch, WIDTH, length, 1)
        y = tape.convolution(f"{part}.each", y, WIDTH, (KERNEL, 1), 1, (KERNEL // 2, 0), WIDTH, bias=False)
        y = tape.convolution(f"{part}.across", y, WIDTH, (1, 1))
        y = tape.elementwise(f"{part}.relu", "relu", tape.view(f"{part}.sequence", y, batch, length, WIDTH))
        x = tape.elementwise(f"{part}.add", "add", y, x)
    y = _attention(tape, f"{name}.attention", tape.norm(f"{name}.attention.norm", x, "layer"), batch, length)
    x = tape.elementwise(f"{name}.attention.add", "add", y, x)
    y = tape.norm(f"{name}.feed_forward.norm", x, "layer")
    y = tape.elementwise(f"{name}.feed_forward.relu", "relu", tape.dense(f"{name}.feed_forward.up", y, 2 * WIDTH))
    x = tape.elementwise(f"{name}.feed_forward.add", "add", tape.dense(f"{name}.feed_forward.down", y, WIDTH), x)
    return tape.norm(f"{name}.norm", x, "layer")


def _attention(tape: NetworkTape, name: str, x: Value, batch: Amount, length: Amount) -> Value:
    size, square = WIDTH // HEADS, (batch * HEADS, length, length)
    query, key, value = (
        tape.view(
            f"{name}.{part}.heads", tape.dense(f"{name}.{part}", x, WIDTH, bias=False), batch * HEADS, length, size
        )
        for part in ("query", "key", "value")
    )
    scores = tape.batched_product(f"{name}.scores", query, key, length, size, length, square)
    weights = tape.softmax(f"{name}.softmax", tape.elementwise(f"{name}.mask", "add", scores))
    mixed = tape.batched_product(f"{name}.mix", weights, value, length, length, size, (batch * HEADS, length, size))
    return tape.dense(f"{name}.output", tape.view(f"{name}.merge", mixed, batch, length, WIDTH), WIDTH, bias=False)
