"""Recognise handwritten digits: MultiWorkerMirroredStrategy, with a training loop of its own, on scikit-learn's images.

    worldsize run examples/tensorflow-multiworker/job.yml

The strategy finds the other workers in TF_CONFIG. The batch size counts all workers together. Worker 0 prints a line
per epoch and `accuracy=…` on the images held back.
"""

from __future__ import annotations

import argparse
import json
import os
import sys

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

SEED = 1
HELD_BACK = 360


def load() -> tuple[np.ndarray, np.ndarray]:
    """All images (64 values, 0 to 1) and their digits, in one order everywhere; the last HELD_BACK are the test."""
    digits = load_digits()
    order = np.random.default_rng(SEED).permutation(len(digits.target))
    return (digits.data[order] / 16).astype("float32"), digits.target[order].astype("int64")


class Model(tf.Module):
    """Two layers. Their variables are made under the strategy's scope, so that they are the same on all workers."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        random = tf.random.Generator.from_seed(SEED)
        self.first = tf.Variable(random.normal((inputs, hidden)) * (2 / inputs) ** 0.5)
        self.first_bias = tf.Variable(tf.zeros(hidden))
        self.second = tf.Variable(random.normal((hidden, outputs)) * (1 / hidden) ** 0.5)
        self.second_bias = tf.Variable(tf.zeros(outputs))

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        return tf.nn.relu(images @ self.first + self.first_bias) @ self.second + self.second_bias


def batches(images: np.ndarray, digits: np.ndarray, batch: int, context: tf.distribute.InputContext) -> tf.data.Dataset:
    """This worker's share of every global batch, in an order that all workers agree on."""
    data = tf.data.Dataset.from_tensor_slices((images, digits)).shuffle(len(digits), seed=SEED)
    share = context.get_per_replica_batch_size(batch)
    return data.shard(context.num_input_pipelines, context.input_pipeline_id).batch(share, drop_remainder=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.5)
    parser.add_argument("--batch-size", type=int, default=64, help="images per step, all workers together")
    arguments = parser.parse_args()

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    images, digits = load()
    count = len(digits) - HELD_BACK
    with strategy.scope():
        model = Model(images.shape[1], 64, 10)
    data = strategy.distribute_datasets_from_function(
        lambda context: batches(images[:count], digits[:count], arguments.batch_size, context)
    )

    @tf.function
    def step(images: tf.Tensor, digits: tf.Tensor) -> tf.Tensor:
        def replica(images: tf.Tensor, digits: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(digits, model(images))
                loss = tf.reduce_sum(losses) / arguments.batch_size
            gradients = tape.gradient(loss, model.trainable_variables)
            gradients = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, gradients)
            for variable, gradient in zip(model.trainable_variables, gradients):
                variable.assign_sub(arguments.lr * gradient)
            return loss

        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica, args=(images, digits)), axis=None)

    @tf.function
    def meet() -> tf.Tensor:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(lambda: tf.constant(1)), axis=None)

    first = json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 0
    for epoch in range(1, arguments.epochs + 1):
        losses = [float(step(*batch)) for batch in data]
        if first:
            print("epoch %2d/%d  loss=%.4f" % (epoch, arguments.epochs, sum(losses) / len(losses)), flush=True)
    answers = tf.argmax(model(tf.constant(images[count:])), axis=1).numpy()
    if first:
        print("replicas=%d" % strategy.num_replicas_in_sync)
        print("accuracy=%.4f" % float((answers == digits[count:]).mean()), flush=True)
    # Worker 0 serves the others' heartbeats. Were it gone while another still tidies up, that one would wait for it for
    # more than a minute. So all meet once more, and leave without the interpreter's tear-down.
    try:
        meet()
    except tf.errors.UnavailableError:
        pass  # another has met all, and is gone already
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
