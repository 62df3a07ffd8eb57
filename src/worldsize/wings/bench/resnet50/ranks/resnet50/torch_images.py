"""Batches for PyTorch: generated once on the device, or decoded from files by loader processes with a new crop each
time."""

from __future__ import annotations

import io
import math
import random

import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from .arguments import CLASSES, stop
from .images import list_images

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from typing import Any

MEAN = (0.485 * 255, 0.456 * 255, 0.406 * 255)
DEVIATION = (0.229 * 255, 0.224 * 255, 0.225 * 255)
_TRIES = 10


def import_pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        stop("real images are decoded by Pillow, which is not installed here: pip install pillow; or --data synthetic")
    return Image


def encode_jpeg(width: int, height: int, seed: bytes) -> bytes:
    """Return the bytes of a JPEG file of `width` × `height` pixels that is about as large as a photograph: large shapes
    of colour from the 48 bytes of `seed`, with noise as fine as a camera's."""
    image = import_pillow()
    shapes = image.frombytes("RGB", (4, 4), seed).resize((width, height), 3)
    noise = image.effect_noise((width, height), 40).convert("RGB")
    file = io.BytesIO()
    image.blend(shapes, noise, 0.3).save(file, "JPEG", quality=90)
    return file.getvalue()


def synthetic_batches(
    arguments: argparse.Namespace, device: torch.device, layout: torch.memory_format
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield the same batch of random images and labels on `device` forever."""
    shape = (arguments.batch, 3, arguments.image_size, arguments.image_size)
    images = torch.randn(shape, device=device).contiguous(memory_format=layout)
    labels = torch.randint(0, CLASSES, (arguments.batch,), device=device)
    while True:
        yield images, labels


class DamagedImage(Exception):
    """An error for a file that cannot be decoded as an image. Its text names the file."""


class ImageFolder(Dataset):  # type: ignore[misc]
    """A data set of images as bytes, channels last, cropped at random to `size` and flipped horizontally half of the
    time."""

    def __init__(self, files: list[tuple[str, int]], size: int) -> None:
        self.files = files
        self.size = size
        self.pillow = import_pillow()

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, place: int) -> tuple[torch.Tensor, int]:
        path, label = self.files[place]
        try:
            with self.pillow.open(path) as image:
                box = random_crop(*image.size)
                cut = image.convert("RGB").resize((self.size, self.size), 2, box=box)
        except Exception as error:  # noqa: BLE001  # Pillow raises many kinds of errors for a damaged file
            raise DamagedImage(f"--data: {path} cannot be decoded: {type(error).__name__}: {error}") from None
        pixels = torch.frombuffer(bytearray(cut.tobytes()), dtype=torch.uint8).view(self.size, self.size, 3)
        return (pixels.flip(1) if random.random() < 0.5 else pixels), label


def random_crop(width: int, height: int) -> tuple[float, float, float, float]:
    """Return a random box (left, top, right, bottom) in an image of `width` × `height` pixels, with 8 to 100 % of its
    area in a shape from 3:4 to 4:3, as networks for ImageNet are trained; the whole image if no box fits."""
    for _ in range(_TRIES):
        area = width * height * random.uniform(0.08, 1.0)
        shape = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        wide, high = math.sqrt(area * shape), math.sqrt(area / shape)
        if wide <= width and high <= height:
            left, top = random.uniform(0, width - wide), random.uniform(0, height - high)
            return left, top, left + wide, top + high
    return 0.0, 0.0, float(width), float(height)


class EndlessShare(Sampler):  # type: ignore[misc]
    """An endless sampler of one rank's images, with a new order in each pass, so that a measurement never ends in the
    middle of a step."""

    def __init__(self, count: int, rank: int, ranks: int) -> None:
        self.count, self.rank, self.ranks = count, rank, ranks

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(1)
        while True:
            yield from torch.randperm(self.count, generator=generator)[self.rank % self.count :: self.ranks].tolist()


def image_batches(
    arguments: argparse.Namespace, directory: str, world: tuple[int, int], device: torch.device, layout: Any
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield batches of this rank's images in `directory` and their labels without end. `--workers` processes of this
    rank decode them, and the device normalises them. `world` is the rank and the number of ranks."""
    dataset = ImageFolder(list_images(directory), arguments.image_size)
    loader = DataLoader(
        dataset,
        arguments.batch,
        sampler=EndlessShare(len(dataset), *world),
        num_workers=arguments.workers,
        pin_memory=device.type == "cuda",
        drop_last=True,
        worker_init_fn=seed_worker,
    )
    mean = torch.tensor(MEAN, device=device).view(1, 3, 1, 1)
    deviation = torch.tensor(DEVIATION, device=device).view(1, 3, 1, 1)
    for pixels, labels in _told_apart(loader):
        images = pixels.to(device, non_blocking=True).permute(0, 3, 1, 2).contiguous(memory_format=layout)
        yield images.float().sub_(mean).div_(deviation), labels.to(device, non_blocking=True)


def _told_apart(loader: DataLoader) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield the batches of images of the `loader`. For an image that cannot be decoded, raise DamagedImage with its own
    text, because a loader process wraps that text into the lines of a traceback."""
    try:
        yield from loader
    except DamagedImage as error:
        raise DamagedImage(str(error).rpartition("DamagedImage: ")[2].strip()) from None


def seed_worker(worker: int) -> None:
    """Seed Python's random numbers in a loader process. Otherwise all forked loaders would draw the same numbers."""
    random.seed(torch.initial_seed())
