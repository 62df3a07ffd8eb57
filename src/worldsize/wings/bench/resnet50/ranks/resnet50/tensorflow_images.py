"""Batches for TensorFlow: generated once on the device, or decoded from files with a new crop each time."""

from __future__ import annotations

import argparse

import tensorflow as tf

from .arguments import CLASSES, stop
from .images import list_images

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MEAN = (0.485 * 255, 0.456 * 255, 0.406 * 255)
DEVIATION = (0.229 * 255, 0.224 * 255, 0.225 * 255)


def encode_jpeg(width: int, height: int, seed: bytes) -> bytes:
    """Return the bytes of a JPEG file of `width` × `height` pixels that is about as large as a photograph: large shapes
    of colour from the 48 bytes of `seed`, with noise as fine as a camera's."""
    shapes = tf.reshape(tf.constant(list(seed), tf.float32), (4, 4, 3))
    image = tf.image.resize(shapes, (height, width), method="bicubic") * 0.7 + tf.random.normal((height, width, 3)) * 12
    encoded: bytes = tf.io.encode_jpeg(tf.cast(tf.clip_by_value(image, 0, 255), tf.uint8), quality=90).numpy()
    return encoded


def synthetic_batch(batch: int, size: int) -> tuple[Any, Any]:
    """Return one batch of `batch` random images of `size` × `size` pixels and their labels, which is used for every
    step."""
    labels = tf.random.uniform((batch,), maxval=CLASSES, dtype=tf.int64)
    return tf.random.normal((batch, size, size, 3)), labels


def image_batches(arguments: argparse.Namespace, directory: str, world: tuple[int, int]) -> Any:
    """Return an endless iterator over decoded batches of this rank's share of the images in `directory`. `world` is the
    rank and the number of ranks."""
    files = [each for each in list_images(directory) if each[0].lower().endswith((".jpg", ".jpeg"))]
    if not files:
        stop(f"--data {directory}: no JPEG files in it, and TensorFlow is measured only with those")
    rank, ranks = world
    mine = files[rank % len(files) :: ranks]
    data = tf.data.Dataset.from_tensor_slices(([path for path, _ in mine], [label for _, label in mine]))
    data = data.shuffle(len(mine)).repeat()
    data = data.map(lambda path, label: (load(path, arguments.image_size), label), arguments.workers or None)
    return iter(data.batch(arguments.batch, drop_remainder=True).prefetch(2))


def load(path: Any, size: int) -> Any:
    """Read the image file `path` and cut out a random 8 to 100 % of its area in a shape from 3:4 to 4:3. Return it
    resized to `size` × `size` pixels and normalised, flipped horizontally half of the time."""
    content = tf.io.read_file(path)
    jpeg = tf.io.is_jpeg(content)  # not by its name: one image of ImageNet is a PNG with the name of a JPEG
    shape = tf.cond(jpeg, lambda: tf.io.extract_jpeg_shape(content), lambda: tf.shape(_png(content)))
    everything = tf.zeros((1, 0, 4))
    begin, extent, _ = tf.image.sample_distorted_bounding_box(
        shape, everything, aspect_ratio_range=(3 / 4, 4 / 3), area_range=(0.08, 1.0),
        use_image_if_no_bounding_boxes=True,
    )  # fmt: skip
    top, left, _ = tf.unstack(begin)
    height, width, _ = tf.unstack(extent)
    image = tf.cond(
        jpeg,
        lambda: tf.io.decode_and_crop_jpeg(content, tf.stack([top, left, height, width]), channels=3),
        lambda: _png(content)[top : top + height, left : left + width],
    )
    image = tf.image.random_flip_left_right(tf.image.resize(image, (size, size)))
    return (image - tf.constant(MEAN)) / tf.constant(DEVIATION)


def _png(content: Any) -> Any:
    return tf.io.decode_png(content, channels=3)
