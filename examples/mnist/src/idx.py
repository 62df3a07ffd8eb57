"""MNIST's own file format, IDX: a header of big-endian sizes, then one unsigned byte per value. Plain or gzipped."""

from __future__ import annotations

import gzip
import os

import numpy as np

UNSIGNED_BYTE = 8
FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}


def read_idx(path: str) -> np.ndarray:
    """The array in `path`, or in `path`.gz; raises ValueError for a file of another kind or a cut one."""
    opener = open
    if not os.path.exists(path):
        path, opener = path + ".gz", gzip.open
    with opener(path, "rb") as file:
        content = file.read()
    if len(content) < 4 or content[:3] != bytes((0, 0, UNSIGNED_BYTE)):
        raise ValueError("%s is not an IDX file of bytes" % path)
    dimensions = content[3]
    start = 4 + 4 * dimensions
    shape = tuple(int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4))
    if len(content) - start != int(np.prod(shape)):
        raise ValueError("%s is cut short: %s needs %d bytes after its header" % (path, shape, np.prod(shape)))
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def write_idx(path: str, array: np.ndarray) -> None:
    header = bytes((0, 0, UNSIGNED_BYTE, array.ndim)) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    with open(path, "wb") as file:
        file.write(header + array.astype(np.uint8).tobytes())


def read_split(folder: str, split: str) -> tuple[np.ndarray, np.ndarray]:
    """(images N × 28 × 28, labels N) of "train" or "test"."""
    images, labels = (read_idx(os.path.join(folder, name)) for name in FILES[split])
    if len(images) != len(labels):
        raise ValueError("%s: %d images but %d labels" % (folder, len(images), len(labels)))
    return images, labels
