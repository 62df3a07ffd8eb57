"""Recognise handwritten digits: ParameterServerStrategy with a ClusterCoordinator, on scikit-learn's images.

    worldsize run examples/tensorflow-ps/job.yml

The chief holds the program: it gives steps to the workers, which read and change the model on the parameter server,
each at its own pace: a gradient may be of a model some steps old, which the falling learning rate makes up for. Workers
and parameter servers serve for ever; worldsize ends them when the chief has ended. The chief prints a line per epoch
and `accuracy=…` on the images held back.
"""

from __future__ import annotations

import argparse

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
    """Two layers. Variables are created under the strategy's scope, so that they live on the parameter servers."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        random = np.random.default_rng(SEED)
        self.first = tf.Variable(random.normal(0, (2 / inputs) ** 0.5, (inputs, hidden)).astype("float32"))
        self.first_bias = tf.Variable(tf.zeros(hidden))
        self.second = tf.Variable(random.normal(0, (1 / hidden) ** 0.5, (hidden, outputs)).astype("float32"))
        self.second_bias = tf.Variable(tf.zeros(outputs))

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        return tf.nn.relu(images @ self.first + self.first_bias) @ self.second + self.second_bias


def serve(resolver: tf.distribute.cluster_resolver.TFConfigClusterResolver) -> None:
    tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol=resolver.rpc_layer or "grpc",
        start=True,
    ).join()


def train(resolver: tf.distribute.cluster_resolver.TFConfigClusterResolver, arguments: argparse.Namespace) -> None:
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    images, digits = load()
    count = len(digits) - HELD_BACK
    with strategy.scope():
        model = Model(images.shape[1], 64, 10)

    def batches() -> tf.data.Dataset:
        data = tf.data.Dataset.from_tensor_slices((images[:count], digits[:count])).shuffle(count).repeat()
        return data.batch(arguments.batch_size)

    @tf.function
    def step(iterator: tf.data.Iterator, rate: tf.Tensor) -> tf.Tensor:
        def replica(images: tf.Tensor, digits: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(digits, model(images)))
            for variable, gradient in zip(model.trainable_variables, tape.gradient(loss, model.trainable_variables)):
                variable.assign_sub(rate * gradient)
            return loss

        return strategy.run(replica, args=next(iterator))

    iterator = iter(coordinator.create_per_worker_dataset(batches))
    for epoch in range(1, arguments.epochs + 1):
        rate = tf.constant(arguments.lr * (1 - (epoch - 1) / arguments.epochs))
        losses = [coordinator.schedule(step, args=(iterator, rate)) for _ in range(count // arguments.batch_size)]
        coordinator.join()
        mean = np.mean([loss.fetch() for loss in losses])
        print("epoch %2d/%d  loss=%.4f" % (epoch, arguments.epochs, mean), flush=True)
    answers = tf.argmax(model(tf.constant(images[count:])), axis=1).numpy()
    print("workers=%d" % len(resolver.cluster_spec().as_dict()["worker"]))
    print("accuracy=%.4f" % float((answers == digits[count:]).mean()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--lr", type=float, default=0.2, help="of the first epoch; it falls linearly to 0")
    parser.add_argument("--batch-size", type=int, default=32, help="images per step of one worker")
    arguments = parser.parse_args()
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        serve(resolver)
    else:
        train(resolver, arguments)


if __name__ == "__main__":
    main()
