"""The training of one rank, for the measurements with PyTorch's own data parallelism and with Horovod."""

from __future__ import annotations

import os
from contextlib import nullcontext

import torch
from torch import nn

from .arguments import CLASSES, is_standard, stop, threads_of_share
from .images import make_images
from .torch_images import encode_jpeg, image_batches, import_pillow, synthetic_batches
from .torch_network import PARAMETERS, build_network, count_parameters

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from typing import Any

LEARNING_RATE = 0.01
MOMENTUM = 0.9
_TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def choose_device(local_rank: int, local_ranks: int) -> torch.device:
    """Return this rank's GPU, or the CPU if PyTorch sees no GPU. Stop this rank if it has no GPU of its own and other
    ranks of its node have one."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    count = torch.cuda.device_count()
    assigned = count == 1 and "CUDA_VISIBLE_DEVICES" in os.environ  # each rank sees only its own, as Slurm may set
    if local_rank >= count and not assigned:
        stop(f"{local_ranks} ranks on a node where PyTorch sees {count} GPUs: -w with at most {count} ranks per node")
    device = torch.device("cuda", local_rank if local_rank < count else 0)
    torch.cuda.set_device(device)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = True  # PyTorch's default; reported with the figures
    return device


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished the work that was requested of it. Does nothing for a CPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def prepare_device(arguments: argparse.Namespace, device: torch.device) -> None:
    """Set the number of PyTorch's threads if the device is a CPU. Stop this rank if the device does not support the
    precision or the sizes that `arguments` request."""
    threads = threads_of_share(arguments.share) if device.type == "cpu" else None
    if threads is not None:
        torch.set_num_threads(threads)
    if arguments.precision == "fp16" and device.type == "cpu":
        stop("--precision fp16 is for GPUs, and PyTorch sees none here: --precision bf16 or fp32")
    if arguments.precision == "bf16" and device.type == "cuda" and not torch.cuda.is_bf16_supported():
        stop(f"--precision bf16: {torch.cuda.get_device_name(device)} has no bf16: --precision fp16 or fp32")
    if arguments.image_size <= 32 and arguments.batch == 1:
        stop("images of 32 × 32 leave one pixel, which cannot be normalised over a batch of 1: --batch 2")


def make_network(arguments: argparse.Namespace, device: torch.device) -> nn.Module:
    """Create ResNet-50 on the device and return it. Stop this rank if, with standard arguments, the network does not
    have the standard number of parameters."""
    torch.manual_seed(1)
    network = build_network(CLASSES, arguments.width)
    found = count_parameters(network)
    if is_standard(arguments) and found != PARAMETERS:
        stop(f"the network has {found} parameters, and ResNet-50 has {PARAMETERS}")
    return network.to(device=device, memory_format=memory_layout(device))


def memory_layout(device: torch.device) -> torch.memory_format:
    """Return the memory layout of images and weights on the device: channels last on GPUs, which tensor cores need,
    otherwise contiguous."""
    return torch.channels_last if device.type == "cuda" else torch.contiguous_format


def make_optimizer(network: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(network.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)


def make_batches(
    arguments: argparse.Namespace, device: torch.device, world: tuple[int, int], local_rank: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Return an iterator over the batches of images and labels of this rank. `world` is the rank and the number of
    ranks. Every rank has different images, from different random numbers."""
    torch.manual_seed(1 + world[0])
    layout = memory_layout(device)
    if arguments.data == "synthetic":
        return synthetic_batches(arguments, device, layout)
    import_pillow()
    directory = make_images(encode_jpeg, local_rank) if arguments.data == "generated" else arguments.data
    return image_batches(arguments, directory, world, device, layout)


class Trainer:
    """The training steps of one rank: forward, backward, update. No operation inside a step waits for the device."""

    def __init__(
        self,
        network: nn.Module,
        optimizer: Any,
        batches: Iterator[tuple[torch.Tensor, torch.Tensor]],
        device: torch.device,
        precision: str,
    ) -> None:
        self.network = network.train()
        self.optimizer = optimizer
        self.batches = batches
        self.device = device
        self.precision = precision
        self.scaler = _make_scaler() if precision == "fp16" else None
        self.loss = torch.zeros((), device=device)

    def step(self) -> None:
        images, labels = next(self.batches)
        self.optimizer.zero_grad()
        with self._autocast():
            loss = nn.functional.cross_entropy(self.network(images), labels)
        if self.scaler is None:
            loss.backward()
            self.optimizer.step()
        else:
            self._scaled_step(self.scaler, loss)
        self.loss = loss.detach()

    def _autocast(self) -> Any:
        kind = _TYPES.get(self.precision)
        return nullcontext() if kind is None else torch.autocast(self.device.type, kind)

    def _scaled_step(self, scaler: Any, loss: torch.Tensor) -> None:
        scaler.scale(loss).backward()
        if hasattr(self.optimizer, "skip_synchronize"):  # Horovod: average first, and not again in the step
            self.optimizer.synchronize()
            with self.optimizer.skip_synchronize():
                scaler.step(self.optimizer)
        else:
            scaler.step(self.optimizer)
        scaler.update()

    def synchronize(self) -> None:
        synchronize(self.device)

    def warm_up(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
        self.synchronize()

    def close(self) -> None:
        """Stop the loader processes that decode images for this rank."""
        close = getattr(self.batches, "close", None)
        if close is not None:
            close()


def _make_scaler() -> Any:
    """Create a gradient scaler for fp16 on GPUs, by the name that this version of PyTorch has for it."""
    scaler = getattr(torch.amp, "GradScaler", None)
    return scaler("cuda") if scaler is not None else torch.cuda.amp.GradScaler()


def device_facts(device: torch.device, ranks: int) -> dict[str, Any]:
    gpu = device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if gpu else "CPU",
        "gpus": ranks if gpu else 0,
        "threads": torch.get_num_threads(),
        "tf32": "on" if gpu and _has_tf32(device) and torch.backends.cudnn.allow_tf32 else "off",
    }


def _has_tf32(device: torch.device) -> bool:
    """Return whether the GPU supports TF32, as NVIDIA's GPUs do since Ampere, and the user has not disabled it."""
    forbidden = os.environ.get("NVIDIA_TF32_OVERRIDE") == "0"
    return bool(torch.version.cuda) and not forbidden and torch.cuda.get_device_capability(device)[0] >= 8


def software(backend: str) -> dict[str, str]:
    """Return the versions of PyTorch and of its libraries, and the name of the `backend`, by the rows of the table of
    software. Components that this PyTorch does not have are left out."""
    found = {"framework": "PyTorch " + torch.__version__, "collectives": backend}
    if torch.version.cuda:
        found["CUDA"] = torch.version.cuda
    elif getattr(torch.version, "hip", None):
        found["ROCm"] = torch.version.hip
    if torch.cuda.is_available():
        cudnn = torch.backends.cudnn.version()
        found.update({"cuDNN": cudnn_text(cudnn)} if cudnn else {})
        if backend == "nccl":
            found["NCCL"] = ".".join(map(str, torch.cuda.nccl.version()))
    return found


def cudnn_text(number: int) -> str:
    """Format cuDNN's version `number`: "9.1.0" for 90100, and "8.9.2" for 8902. The factor of the major version changed
    from 1000 to 10000 with version 9."""
    thousands, hundreds = (10000, 100) if number >= 90000 else (1000, 100)
    return f"{number // thousands}.{number % thousands // hundreds}.{number % hundreds}"
