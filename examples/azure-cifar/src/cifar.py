"""CIFAR-10's Python version: pickled dicts of bytes in a folder `cifar-10-batches-py`."""

from __future__ import annotations

import io
import os
import pickle
from typing import Any

import numpy as np
import torch
from torch.utils.data import TensorDataset

FOLDER = "cifar-10-batches-py"
TRAINING = tuple("data_batch_%d" % number for number in range(1, 6))
TEST = ("test_batch",)
ARRAY_PARTS = {"_reconstruct", "_frombuffer", "ndarray", "dtype", "encode"}


class ArraysOnly(pickle.Unpickler):
    """A pickle may name any function to call; one of numbers needs only those that make an array."""

    def find_class(self, module: str, name: str) -> Any:
        if name in ARRAY_PARTS and module.split(".")[0] in ("numpy", "_codecs"):
            modern = np.lib.NumpyVersion(np.__version__) >= "2.0.0"
            return super().find_class(module.replace("numpy.core", "numpy._core") if modern else module, name)
        raise pickle.UnpicklingError("not a batch of images: it asks for %s.%s" % (module, name))


def read_batch(path: str) -> tuple[np.ndarray, np.ndarray]:
    with open(path, "rb") as file:
        batch = ArraysOnly(io.BytesIO(file.read()), encoding="bytes").load()
    return batch[b"data"], np.asarray(batch[b"labels"])


def load_images(folder: str, names: tuple[str, ...]) -> TensorDataset:
    """(image 3 × 32 × 32 from -1 to 1, class) of the batches in `folder`, or in the `cifar-10-batches-py` inside it."""
    inner = os.path.join(folder, FOLDER)
    batches = [read_batch(os.path.join(inner if os.path.isdir(inner) else folder, name)) for name in names]
    pixels = np.concatenate([pixels for pixels, _ in batches]).reshape(-1, 3, 32, 32)
    labels = np.concatenate([labels for _, labels in batches])
    return TensorDataset(torch.from_numpy(pixels).float() / 127.5 - 1, torch.from_numpy(labels).long())
