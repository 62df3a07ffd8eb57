"""Recognise handwritten digits with the tasks that Azure ML starts: workers and parameter servers, and no chief.

    python main.py --epochs 1 --model-dir outputs/keras-model

TensorFlow's ParameterServerStrategy wants a chief, so worker 0 becomes it: it trains, while the other workers and the
parameter servers serve for ever. A gradient may be of a model some steps old, which the falling learning rate makes up
for.
"""

from __future__ import annotations

import argparse
import json
import os

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

SEED = 1
HELD_BACK = 360
BATCH = 16
RATE = 0.5


def with_a_chief(config: dict) -> dict:
    """The same tasks, with worker 0 as the chief and the other workers one number less."""
    first, *workers = config["cluster"]["worker"]
    kind, index = config["task"]["type"], config["task"]["index"]
    if kind == "worker":
        kind, index = ("worker", index - 1) if index else ("chief", 0)
    cluster = {**config["cluster"], "chief": [first], "worker": workers}
    return {**config, "cluster": cluster, "task": {"type": kind, "index": index}}


def train(resolver: tf.distribute.cluster_resolver.TFConfigClusterResolver, epochs: int, directory: str) -> None:
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    digits = load_digits()
    order = np.random.default_rng(SEED).permutation(len(digits.target))
    images, labels = (digits.data[order] / 16).astype("float32"), digits.target[order].astype("int64")
    count = len(labels) - HELD_BACK
    with strategy.scope():
        weights, bias = tf.Variable(tf.zeros((images.shape[1], 10))), tf.Variable(tf.zeros(10))

    @tf.function
    def step(iterator: tf.data.Iterator, rate: tf.Tensor) -> None:
        def replica(images: tf.Tensor, labels: tf.Tensor) -> None:
            with tf.GradientTape() as tape:
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, images @ weights + bias)
                loss = tf.reduce_mean(losses)
            for variable, gradient in zip((weights, bias), tape.gradient(loss, (weights, bias))):
                variable.assign_sub(rate * gradient)

        strategy.run(replica, args=next(iterator))

    def batches() -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices((images[:count], labels[:count])).shuffle(count).repeat().batch(BATCH)

    iterator = iter(coordinator.create_per_worker_dataset(batches))
    steps = epochs * (count // BATCH)
    for number in range(steps):
        coordinator.schedule(step, args=(iterator, tf.constant(RATE * (1 - number / steps))))
    coordinator.join()
    answers = (images[count:] @ weights.numpy() + bias.numpy()).argmax(axis=1)
    os.makedirs(directory, exist_ok=True)
    np.savez(os.path.join(directory, "model.npz"), weights=weights.numpy(), bias=bias.numpy())
    print("accuracy=%.4f" % (answers == labels[count:]).mean(), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--model-dir", default="outputs/keras-model")
    arguments = parser.parse_args()
    os.environ["TF_CONFIG"] = json.dumps(with_a_chief(json.loads(os.environ["TF_CONFIG"])))
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type == "chief":
        train(resolver, arguments.epochs, arguments.model_dir)
    else:
        kind, index = resolver.task_type, resolver.task_id
        tf.distribute.Server(resolver.cluster_spec(), job_name=kind, task_index=index, protocol="grpc").join()


if __name__ == "__main__":
    main()
