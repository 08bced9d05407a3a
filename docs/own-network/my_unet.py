"""A small U-Net for images of 64 x 64, with an example to run it on."""

import torch
from torch import nn


def block(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1),
        nn.ReLU(),
    )


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2, self.bottom = block(3, 32), block(32, 64), block(64, 128)
        self.up2, self.up1 = nn.ConvTranspose2d(128, 64, 2, stride=2), nn.ConvTranspose2d(64, 32, 2, stride=2)
        self.join2, self.join1, self.head = block(128, 64), block(64, 32), nn.Conv2d(32, 4, 1)
        self.pool = nn.MaxPool2d(2)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        first = self.down1(image)
        second = self.down2(self.pool(first))
        joined = self.join2(torch.cat([second, self.up2(self.bottom(self.pool(second)))], 1))
        return self.head(self.join1(torch.cat([first, self.up1(joined)], 1)))


def unet() -> tuple[nn.Module, tuple[torch.Tensor]]:
    return UNet(), (torch.rand(1, 3, 64, 64),)
