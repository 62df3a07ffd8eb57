"""Digits by Horovod and TensorFlow, its DistributedGradientTape: scikit-learn's 1,797 images of 8 × 8. Rank 0 prints
`accuracy=…` on those held back."""

from __future__ import annotations

import argparse

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

HELD_BACK = 360
BATCH_SIZE = 64


def main() -> None:
    parser = argparse.ArgumentParser(description="train on scikit-learn's digits with Horovod and TensorFlow")
    parser.add_argument("--epochs", type=int, default=4)
    epochs = parser.parse_args().epochs
    hvd.init()
    tf.random.set_seed(1)
    random = np.random.default_rng(1)
    bunch = load_digits()
    order = random.permutation(len(bunch.target))
    images, digits = (bunch.data / 16).astype(np.float32)[order], bunch.target[order]
    count = len(digits) - HELD_BACK
    layers = [tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(10)]
    model = tf.keras.Sequential([tf.keras.Input((64,)), *layers])
    optimizer = tf.keras.optimizers.Adam(0.01)
    error = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    hvd.broadcast_variables(model.variables, root_rank=0)
    for epoch in range(1, epochs + 1):
        shuffled = random.permutation(count)
        for start in range(0, count - BATCH_SIZE + 1, BATCH_SIZE):
            mine = shuffled[start + hvd.rank() : start + BATCH_SIZE : hvd.size()]
            with tf.GradientTape() as tape:
                loss = error(digits[mine], model(images[mine], training=True))
            tape = hvd.DistributedGradientTape(tape)
            optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        if hvd.rank() == 0:
            print("epoch %d/%d  loss=%.4f" % (epoch, epochs, float(loss)), flush=True)
    right = np.mean(np.argmax(model(images[count:]), axis=1) == digits[count:])
    if hvd.rank() == 0:
        print("ranks=%d\naccuracy=%.4f" % (hvd.size(), right), flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
