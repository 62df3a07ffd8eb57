"""Make a small data set in CIFAR-10's format, whose ten classes a small network tells apart; downloads nothing.

    python examples/azure-cifar/make_small_cifar.py FOLDER [IMAGES PER BATCH, default 200]

Each class is one coarse pattern of colours under noise. FOLDER/cifar-10-batches-py gets five batches to train and one
to test.
"""

from __future__ import annotations

import os
import pickle
import sys

import numpy as np

FILES = (*("data_batch_%d" % number for number in range(1, 6)), "test_batch")


def main() -> None:
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: make_small_cifar.py FOLDER [IMAGES PER BATCH]")
    folder = os.path.join(sys.argv[1], "cifar-10-batches-py")
    count = int(sys.argv[2]) if len(sys.argv) == 3 else 200
    os.makedirs(folder, exist_ok=True)
    random = np.random.default_rng(0)
    patterns = random.integers(60, 196, size=(10, 3, 4, 4)).repeat(8, axis=2).repeat(8, axis=3)
    for name in FILES:
        labels = random.integers(0, 10, size=count)
        noise = random.normal(0, 40, size=(count, 3, 32, 32))
        pixels = (patterns[labels] + noise).clip(0, 255).astype(np.uint8).reshape(count, 3 * 32 * 32)
        with open(os.path.join(folder, name), "wb") as file:
            pickle.dump({b"data": pixels, b"labels": labels.tolist()}, file, protocol=2)
    print("%d images in %s" % (count * len(FILES), folder))


if __name__ == "__main__":
    main()
