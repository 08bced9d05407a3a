"""Training steps of small real networks, timed one at a time: the process that `training.epochs` starts.

A process of its own, because instruction sets are capped by environment variables that torch reads once. It reads
what to run as one JSON line from its standard input, then gets one sequence length a line and answers each with the CPU
seconds of its thread and the wall seconds of that training step.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from slipstick.common.lazy_packages import nn, torch
from slipstick.experiments.measure.training.steps import transformer

BATCH = 4
VOCABULARY = 2000
FREQUENCIES = 40
CHARACTERS = 29


def network(name: str, width: int) -> tuple[Any, Callable[[int], tuple[Any, Any]]]:
    """A torch module, and a function from a sequence length to one padded batch (inputs, targets).

    gru: convolution over a spectrogram, two bidirectional GRU layers, characters (as DeepSpeech2);
    lstm: two LSTM layers encode, one decodes with attention, words (as GNMT);
    attention: two transformer layers, words (as BERT).
    """

    class Gru(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.convolution = nn.Conv2d(1, 8, (11, 11), (2, 2), (5, 5))
            self.recurrent = nn.GRU(8 * FREQUENCIES // 2, width, 2, batch_first=True, bidirectional=True)
            self.classifier = nn.Linear(2 * width, CHARACTERS)

        def forward(self, x: Any) -> Any:
            y = torch.relu(self.convolution(x))
            y = y.permute(0, 3, 1, 2).flatten(2)
            return self.classifier(self.recurrent(y)[0]).flatten(0, 1)

    class Lstm(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(VOCABULARY, width)
            self.encoder = nn.LSTM(width, width, 2, batch_first=True)
            self.decoder = nn.LSTM(width, width, 1, batch_first=True)
            self.classifier = nn.Linear(2 * width, VOCABULARY)

        def forward(self, x: Any) -> Any:
            embedded = self.embedding(x)
            memory = self.encoder(embedded)[0]
            y = self.decoder(embedded)[0]
            shares = torch.softmax(y @ memory.transpose(1, 2), dim=-1)
            return self.classifier(torch.cat([y, shares @ memory], dim=-1)).flatten(0, 1)

    module = (
        transformer(BATCH, 1, width, 2, VOCABULARY)[0] if name == "attention" else {"gru": Gru, "lstm": Lstm}[name]()
    )

    def batch(length: int) -> tuple[Any, Any]:
        if name == "gru":
            return torch.randn(BATCH, 1, FREQUENCIES, length), torch.randint(CHARACTERS, (BATCH, (length + 1) // 2))
        return torch.randint(VOCABULARY, (BATCH, length)), torch.randint(VOCABULARY, (BATCH, length))

    return module, batch


def main() -> None:
    """Read the order and the lengths from standard input, write seconds to standard output."""
    order = json.loads(sys.stdin.readline())
    from torch.nn.functional import cross_entropy

    torch.manual_seed(0)
    torch.set_num_threads(order["threads"])
    dtype = getattr(torch, order["dtype"])
    device = torch.device(order["device"])
    module, batch = network(order["network"], order["width"])
    module = module.to(device, dtype).train()
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-4, momentum=0.9)

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize()

    print(json.dumps({"torch": torch.__version__, "capability": torch.backends.cpu.get_cpu_capability()}), flush=True)
    for line in sys.stdin:
        x, y = batch(int(line))
        x, y = x.to(device), y.to(device)
        x = x.to(dtype) if x.is_floating_point() else x
        wait()
        wall, cpu = time.perf_counter(), time.thread_time()
        optimizer.zero_grad(set_to_none=True)
        scores = module(x)
        cross_entropy(scores.float(), y.flatten()).backward()
        optimizer.step()
        wait()
        print(f"{time.thread_time() - cpu:.9f} {time.perf_counter() - wall:.9f}", flush=True)


if __name__ == "__main__":
    main()
