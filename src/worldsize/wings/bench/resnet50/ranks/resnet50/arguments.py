"""The command-line arguments of a rank."""

from __future__ import annotations

import argparse
import os
import sys

STANDARD_SIZE = 224
STANDARD_WIDTH = 64
CLASSES = 1000


def parse_arguments(description: str) -> argparse.Namespace:
    """Parse the command line of a rank of the ResNet-50 benchmark. `batch`, `steps` and `warmup` are None if the device
    decides them in `fill_in`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", default="synthetic", help="synthetic, generated, or a directory CLASS/*.jpg")
    parser.add_argument("--precision", choices=("fp32", "bf16", "fp16"), default="fp32")
    parser.add_argument("--batch", type=int, help="images per step and rank")
    parser.add_argument("--steps", type=int, help="measured steps")
    parser.add_argument("--warmup", type=int, help="warm-up steps before them")
    parser.add_argument("--workers", type=int, default=4, help="processes per rank that load images")
    parser.add_argument("--image-size", type=int, default=STANDARD_SIZE)
    parser.add_argument("--width", type=int, default=STANDARD_WIDTH, help="channels of the first layer")
    parser.add_argument("--share", default="1/1", help="ranks of this machine / those of the largest world")
    return parser.parse_args()


def fill_in(arguments: argparse.Namespace, gpu: bool) -> None:
    """Set the batch size, the number of steps and the warm-up steps in `arguments`, where the user did not give them,
    to the default for a GPU or a CPU. A step takes a tenth of a second on a GPU, and seconds on a core of a CPU."""
    batch, steps, warmup = (64, 100, 20) if gpu else (8, 10, 2)
    arguments.batch = arguments.batch or batch
    arguments.steps = arguments.steps or steps
    if arguments.warmup is None:
        arguments.warmup = warmup


def threads_of_share(share: str) -> int | None:
    """Return the number of threads for this rank, so that it has no more than in the largest world: the number in
    OMP_NUM_THREADS, scaled by `share`, which is the number of ranks here / that of the largest world. None if the
    variable contains no number."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    here, _, most = share.partition("/")
    return max(1, int(given) * int(here) // int(most)) if given.isdigit() else None


def explain_missing(error: ModuleNotFoundError) -> ModuleNotFoundError:
    """Return an error to raise for a framework that this Python does not find, with the Python's path and a hint."""
    return ModuleNotFoundError(f"{error} for {sys.executable}; name a Python that has it: --environment DIR")


def is_standard(arguments: argparse.Namespace) -> bool:
    """Return whether the rank's `arguments` request the published ResNet-50, on images of the published size."""
    return (arguments.image_size, arguments.width) == (STANDARD_SIZE, STANDARD_WIDTH)


def stop(sentence: str) -> None:
    """Exit this rank with `sentence` as its last output, on standard error."""
    sys.stdout.flush()
    sys.exit(sentence)
