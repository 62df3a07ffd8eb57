"""Make files in MNIST's format from the digits that come with scikit-learn, for when there is no internet.

    python examples/mnist/make_digits.py FOLDER

1,437 images to train and 360 to test, enlarged from 8 × 8 to 28 × 28: enough to see the training work.
"""

from __future__ import annotations

import os
import sys

import torch
from sklearn.datasets import load_digits
from torch.nn.functional import interpolate

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "src"))
from idx import FILES, write_idx

TEST_IMAGES = 360


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: make_digits.py FOLDER")
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(0))
    small = torch.tensor(digits.images, dtype=torch.float32)[order].unsqueeze(1) * (255 / 16)
    images = interpolate(small, size=(28, 28), mode="bilinear").squeeze(1).round().to(torch.uint8).numpy()
    labels = digits.target[order.numpy()]
    for split, part in (("train", slice(TEST_IMAGES, None)), ("test", slice(TEST_IMAGES))):
        image_file, label_file = FILES[split]
        write_idx(os.path.join(folder, image_file), images[part])
        write_idx(os.path.join(folder, label_file), labels[part])
    print("%d images in %s" % (len(labels), folder))


if __name__ == "__main__":
    main()
