"""Small networks of 0.1 to 7 ms, each with an example."""

import torch
from torch import nn


def mlp(depth, width, inputs=64):
    layers = [nn.Linear(inputs, width), nn.ReLU()]
    for _ in range(depth - 2):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 10)), (torch.rand(1, inputs),)


def mlp3():
    return mlp(3, 256)


def mlp12():
    return mlp(12, 128)


def mlp6wide():
    return mlp(6, 1024, 1024)


def cnn(depth, channels, size):
    layers, inputs = [], 3
    for number in range(depth):
        layers += [nn.Conv2d(inputs, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU()]
        inputs = channels
        if number % 2:
            layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10)), (
        torch.rand(1, 3, size, size),
    )


def cnn2():
    return cnn(2, 16, 32)


def cnn4():
    return cnn(4, 32, 32)


def cnn8():
    return cnn(8, 32, 64)


def cnn6wide():
    return cnn(6, 64, 64)


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a, self.b = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.na, self.nb = nn.BatchNorm2d(width), nn.BatchNorm2d(width)

    def forward(self, x):
        return torch.relu(x + self.nb(self.b(torch.relu(self.na(self.a(x))))))


def residual():
    return nn.Sequential(
        nn.Conv2d(3, 24, 3, padding=1),
        *(Residual(24) for _ in range(5)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(24, 10),
    ), (torch.rand(1, 3, 32, 32),)


class Separable(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.deep, self.point = nn.Conv2d(width, width, 3, padding=1, groups=width), nn.Conv2d(width, width, 1)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x):
        return nn.functional.hardswish(self.norm(self.point(self.deep(x))))


def separable():
    return nn.Sequential(
        nn.Conv2d(3, 48, 3, 2, 1),
        *(Separable(48) for _ in range(6)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(48, 10),
    ), (torch.rand(1, 3, 64, 64),)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        y = self.norm1(x)
        scores = torch.softmax(self.q(y) @ self.k(y).transpose(1, 2) / self.width**0.5, -1)
        x = x + self.o(scores @ self.v(y))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


def transformer():
    return nn.Sequential(*(Block(128) for _ in range(4)), nn.Linear(128, 10)), (torch.rand(1, 32, 128),)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(32, 64, 2, batch_first=True), nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


def recurrent():
    return Recurrent(), (torch.rand(1, 20, 32),)


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.e1, self.e2 = nn.Conv2d(1, 16, 3, 2, 1), nn.Conv2d(16, 32, 3, 2, 1)
        self.d1, self.d2 = nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.ConvTranspose2d(16, 1, 4, 2, 1)

    def forward(self, x):
        return torch.sigmoid(self.d2(torch.relu(self.d1(torch.relu(self.e2(torch.relu(self.e1(x))))))))


def autoencoder():
    return AutoEncoder(), (torch.rand(4, 1, 28, 28),)
