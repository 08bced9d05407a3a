"""Small stand-ins of published networks, written for torch: what the model collections do not hold.

Sources: DCGAN, Radford et al. 2016; CycleGAN, Zhu et al. 2017; SRCNN, Dong et al. 2014; VDSR, Kim et al. 2016;
RetinaNet, Lin et al. 2017; DeepSpeech2, Amodei et al. 2016; GNMT, Wu et al. 2016; QANet, Yu et al. 2018.
`Entry.build` of the population builds them on the meta device.
"""

from __future__ import annotations

from typing import Any

from slipstick.common.lazy_packages import nn, torch


def mlp() -> Any:
    """Three dense layers for images of 28 x 28."""
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def dcgan_generator() -> Any:
    """Five transposed convolutions from 100 numbers to an image of 64 x 64."""
    layers: list[Any] = []
    for index, (before, after) in enumerate(((100, 512), (512, 256), (256, 128), (128, 64))):
        stride, padding = (1, 0) if index == 0 else (2, 1)
        layers += [
            nn.ConvTranspose2d(before, after, 4, stride, padding, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(inplace=True),
        ]
    return nn.Sequential(*layers, nn.ConvTranspose2d(64, 3, 4, 2, 1, bias=False), nn.Tanh())


def dcgan_discriminator() -> Any:
    """Five strided convolutions from an image of 64 x 64 to one number."""
    layers: list[Any] = [nn.Conv2d(3, 64, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True)]
    for before, after in ((64, 128), (128, 256), (256, 512)):
        layers += [
            nn.Conv2d(before, after, 4, 2, 1, bias=False),
            nn.BatchNorm2d(after),
            nn.LeakyReLU(0.2, inplace=True),
        ]
    return nn.Sequential(*layers, nn.Conv2d(512, 1, 4, 1, 0, bias=False), nn.Sigmoid())


def cyclegan_generator(blocks: int = 6) -> Any:
    """Convolutions down, residual blocks, transposed convolutions up, instance norms between."""

    class Residual(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            half = [nn.ReflectionPad2d(1), nn.Conv2d(256, 256, 3), nn.InstanceNorm2d(256)]
            again = [nn.ReflectionPad2d(1), nn.Conv2d(256, 256, 3), nn.InstanceNorm2d(256)]
            self.body = nn.Sequential(*half, nn.ReLU(inplace=True), *again)

        def forward(self, x: Any) -> Any:
            return x + self.body(x)

    layers: list[Any] = [nn.ReflectionPad2d(3), nn.Conv2d(3, 64, 7), nn.InstanceNorm2d(64), nn.ReLU(inplace=True)]
    for before, after in ((64, 128), (128, 256)):
        layers += [nn.Conv2d(before, after, 3, 2, 1), nn.InstanceNorm2d(after), nn.ReLU(inplace=True)]
    layers += [Residual() for _ in range(blocks)]
    for before, after in ((256, 128), (128, 64)):
        layers += [nn.ConvTranspose2d(before, after, 3, 2, 1, 1), nn.InstanceNorm2d(after), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.ReflectionPad2d(3), nn.Conv2d(64, 3, 7), nn.Tanh())


def srcnn() -> Any:
    """Three convolutions that sharpen an image."""
    return nn.Sequential(
        nn.Conv2d(1, 64, 9, padding=4),
        nn.ReLU(),
        nn.Conv2d(64, 32, 5, padding=2),
        nn.ReLU(),
        nn.Conv2d(32, 1, 5, padding=2),
    )


def vdsr() -> Any:
    """Twenty convolutions that sharpen an image."""
    layers: list[Any] = [nn.Conv2d(1, 64, 3, padding=1, bias=False), nn.ReLU(inplace=True)]
    for _ in range(18):
        layers += [nn.Conv2d(64, 64, 3, padding=1, bias=False), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.Conv2d(64, 1, 3, padding=1, bias=False))


def retinanet(classes: int = 80, anchors: int = 9) -> Any:
    """A pyramid over four levels of a small backbone with shared heads for classes and boxes."""

    def head(outputs: int) -> Any:
        layers: list[Any] = []
        for _ in range(4):
            layers += [nn.Conv2d(256, 256, 3, padding=1), nn.ReLU()]
        return nn.Sequential(*layers, nn.Conv2d(256, outputs, 3, padding=1))

    class RetinaNet(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            widths = (64, 128, 256, 512)
            self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
            self.stages = nn.ModuleList(
                nn.Sequential(nn.Conv2d(before, after, 3, 2, 1), nn.BatchNorm2d(after), nn.ReLU())
                for before, after in zip((64, *widths[:-1]), widths, strict=True)
            )
            self.lateral = nn.ModuleList(nn.Conv2d(width, 256, 1) for width in widths)
            self.smooth = nn.ModuleList(nn.Conv2d(256, 256, 3, padding=1) for _ in widths)
            self.classes, self.boxes = head(anchors * classes), head(anchors * 4)

        def forward(self, x: Any) -> Any:
            x = self.stem(x)
            levels = []
            for stage in self.stages:
                x = stage(x)
                levels.append(x)
            merged = self.lateral[-1](levels[-1])
            outputs = []
            for index in reversed(range(len(levels))):
                if index < len(levels) - 1:
                    up = nn.functional.interpolate(merged, scale_factor=2, mode="nearest")
                    merged = self.lateral[index](levels[index]) + up
                smooth = self.smooth[index](merged)
                outputs += [self.classes(smooth), self.boxes(smooth)]
            return outputs

    return RetinaNet()


def language_model(kind: str, vocabulary: int = 10_000, width: int = 512) -> Any:
    """Two recurrent layers ("LSTM" or "GRU") between an embedding and a classifier."""

    class RecurrentLanguageModel(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(vocabulary, width)
            self.layers = getattr(nn, kind)(width, width, num_layers=2, batch_first=True)
            self.classifier = nn.Linear(width, vocabulary)

        def forward(self, x: Any) -> Any:
            return self.classifier(self.layers(self.words(x))[0])

    return RecurrentLanguageModel()


def deepspeech2(hidden: int = 800, layers: int = 5) -> Any:
    """Two convolutions, bidirectional GRU layers, batch norm, a classifier of 29 characters."""

    class DeepSpeech2(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.convolutions = nn.Sequential(
                nn.Conv2d(1, 32, (41, 11), (2, 2), (20, 5)),
                nn.BatchNorm2d(32),
                nn.Hardtanh(0, 20),
                nn.Conv2d(32, 32, (21, 11), (2, 1), (10, 5)),
                nn.BatchNorm2d(32),
                nn.Hardtanh(0, 20),
            )
            self.layers = nn.GRU(1312, hidden, num_layers=layers, bidirectional=True, batch_first=True)
            self.norm = nn.BatchNorm1d(2 * hidden)
            self.classifier = nn.Linear(2 * hidden, 29, bias=False)

        def forward(self, x: Any) -> Any:
            x = self.convolutions(x)
            batch, channels, frequencies, frames = x.shape
            x = x.permute(0, 3, 1, 2).reshape(batch, frames, channels * frequencies)
            x = self.layers(x)[0]
            return self.classifier(self.norm(x.transpose(1, 2)).transpose(1, 2))

    return DeepSpeech2()


def seq2seq(vocabulary: int = 8_000, width: int = 512) -> Any:
    """An encoder and a decoder of two LSTM layers with dot-product attention between them."""

    class Seq2Seq(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(vocabulary, width)
            self.encoder = nn.LSTM(width, width, num_layers=2, batch_first=True)
            self.decoder = nn.LSTM(width, width, num_layers=2, batch_first=True)
            self.classifier = nn.Linear(2 * width, vocabulary)

        def forward(self, source: Any, target: Any) -> Any:
            memory, _ = self.encoder(self.words(source))
            states, _ = self.decoder(self.words(target))
            shares = torch.softmax(states @ memory.transpose(1, 2), dim=-1)
            return self.classifier(torch.cat((states, shares @ memory), dim=-1))

    return Seq2Seq()


def qanet_block(width: int = 128) -> Any:
    """Depthwise separable convolutions and self-attention over a sequence, residual."""

    class QANetBlock(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.convolutions = nn.ModuleList(
                nn.Sequential(
                    nn.Conv1d(width, width, 7, padding=3, groups=width), nn.Conv1d(width, width, 1), nn.ReLU()
                )
                for _ in range(4)
            )
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(6))
            self.attention = nn.MultiheadAttention(width, 8, batch_first=True)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            for norm, convolution in zip(self.norms, self.convolutions, strict=False):
                x = x + convolution(norm(x).transpose(1, 2)).transpose(1, 2)
            y = self.norms[4](x)
            x = x + self.attention(y, y, y, need_weights=False)[0]
            return x + self.down(torch.relu(self.up(self.norms[5](x))))

    return QANetBlock()
