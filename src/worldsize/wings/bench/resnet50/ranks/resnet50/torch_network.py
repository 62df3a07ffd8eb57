"""ResNet-50 in plain PyTorch: the residual network of 50 layers (He et al., 2015) with the stride in the 3 × 3
convolution ("v1.5"), as torchvision and NVIDIA's examples train it."""

from __future__ import annotations

import torch
from torch import nn

PARAMETERS = 25557032
"""The number of parameters of the standard network: 64 channels in the first layer, 1,000 classes."""

EXPANSION = 4
BLOCKS = (3, 4, 6, 3)


def convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)


class Bottleneck(nn.Module):  # type: ignore[misc]
    """A residual block of 1 × 1, 3 × 3 and 1 × 1 convolutions, whose input is added to their output."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * EXPANSION
        self.residual = nn.Sequential(
            convolution(inputs, width, 1), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            convolution(width, width, 3, stride), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            convolution(width, outputs, 1), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))
        self.last = nn.ReLU(inplace=True)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        added: torch.Tensor = self.last(self.residual(images) + self.shortcut(images))
        return added


def stage(inputs: int, width: int, count: int, stride: int) -> nn.Sequential:
    first = Bottleneck(inputs, width, stride)
    return nn.Sequential(first, *(Bottleneck(width * EXPANSION, width, 1) for _ in range(count - 1)))


def build_network(classes: int = 1000, width: int = 64) -> nn.Sequential:
    """Return a new ResNet-50 with `classes` outputs, with He's initial weights and residuals that begin as zero, so
    that its first steps converge in any precision. `width`, the channels of the first layer, is 64; a smaller one is
    for tests."""
    layers: list[nn.Module] = [
        convolution(3, width, 7, 2), nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, padding=1)
    ]  # fmt: skip
    inputs = width
    for place, count in enumerate(BLOCKS):
        of_stage = width * 2**place
        layers.append(stage(inputs, of_stage, count, stride=1 if place == 0 else 2))
        inputs = of_stage * EXPANSION
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes)]
    network = nn.Sequential(*layers)
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        if isinstance(module, Bottleneck):
            nn.init.zeros_(module.residual[-1].weight)
    return network


def count_parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad)
