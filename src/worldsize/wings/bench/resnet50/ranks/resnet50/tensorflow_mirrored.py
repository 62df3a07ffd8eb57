"""Measurement of the ResNet-50 of Keras with TensorFlow's MultiWorkerMirroredStrategy, a worker for each rank.

    python -m resnet50.tensorflow_mirrored --batch 64

The communication share of a step is not measured, because the strategy has no steps without communication.
"""

from __future__ import annotations

import argparse
import json
import os
import sys

from .arguments import CLASSES, STANDARD_SIZE, explain_missing, fill_in, parse_arguments, stop, threads_of_share
from .blocks import block_sizes, time_blocks
from .images import make_images, remove_images
from .report import check_loss, write_report

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

try:
    import tensorflow as tf
except ModuleNotFoundError as error:
    raise explain_missing(error) from None

from .tensorflow_images import encode_jpeg, image_batches, synthetic_batch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PARAMETERS = 25636712
"""The number of parameters of keras.applications.ResNet50. It is that of PyTorch's network, plus biases in the
convolutions, and with the statistics of batch normalisation counted as parameters."""

LEARNING_RATE = 0.0001
"""The learning rate. It is small enough that the loss does not overflow on batches of a few images with random
labels."""

_POLICIES = {"bf16": "mixed_bfloat16", "fp16": "mixed_float16"}


def choose_device(local_rank: int) -> bool:
    """Make only this rank's GPU visible to it, and return whether there is one. Stop this rank if the node has fewer
    GPUs than ranks."""
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return False
    assigned = len(gpus) == 1 and "CUDA_VISIBLE_DEVICES" in os.environ  # each rank sees only its own, as Slurm may set
    if local_rank >= len(gpus) and not assigned:
        stop(f"more ranks on a node than TensorFlow sees GPUs: -w with at most {len(gpus)} of them")
    mine = gpus[local_rank if local_rank < len(gpus) else 0]
    tf.config.set_visible_devices(mine, "GPU")
    tf.config.experimental.set_memory_growth(mine, True)
    return True


def make_network(arguments: argparse.Namespace) -> Any:
    """Create Keras's ResNet-50, in the scope of the strategy, and return it. Stop this rank if, at the standard image
    size, the network does not have the standard number of parameters."""
    shape = (arguments.image_size, arguments.image_size, 3)
    network = tf.keras.applications.ResNet50(
        weights=None, input_shape=shape, classes=CLASSES, classifier_activation=None
    )
    if arguments.image_size == STANDARD_SIZE and network.count_params() != PARAMETERS:
        stop(f"the network has {network.count_params()} parameters, and Keras's ResNet-50 has {PARAMETERS}")
    return network


class Trainer:
    """The training steps of one rank. No operation inside a step waits for the device."""

    def __init__(self, strategy: Any, arguments: argparse.Namespace, batches: Any, ranks: int) -> None:
        self.strategy = strategy
        self.ranks = ranks
        self.batches = batches
        self.batch = None if batches is not None else synthetic_batch(arguments.batch, arguments.image_size)
        with strategy.scope():
            self.network = make_network(arguments)
            optimizer = tf.keras.optimizers.SGD(LEARNING_RATE, momentum=0.9)
            if arguments.precision == "fp16":
                optimizer = tf.keras.mixed_precision.LossScaleOptimizer(optimizer)
            self.optimizer = optimizer
        self.loss: Any = None
        self._train = tf.function(self._run)

    def step(self) -> None:
        self.loss = self._train(*(self.batch or next(self.batches)))

    def synchronize(self) -> None:
        if self.loss is not None:
            float(self.loss)

    def _run(self, images: Any, labels: Any) -> Any:
        return self.strategy.reduce(
            tf.distribute.ReduceOp.SUM, self.strategy.run(self._train_replica, (images, labels)), None
        )

    def _train_replica(self, images: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            answers = tf.cast(self.network(images, training=True), tf.float32)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, answers)
            loss = tf.reduce_mean(losses) / self.ranks
            scaled = self._scaled(loss)
        weights = self.network.trainable_variables
        gradients = tape.gradient(scaled, weights)
        if hasattr(self.optimizer, "get_unscaled_gradients"):  # Keras 2; Keras 3 does it in its step
            gradients = self.optimizer.get_unscaled_gradients(gradients)
        self.optimizer.apply_gradients(zip(gradients, weights))
        return loss

    def _scaled(self, loss: Any) -> Any:
        if hasattr(self.optimizer, "get_scaled_loss"):
            return self.optimizer.get_scaled_loss(loss)
        return self.optimizer.scale_loss(loss) if hasattr(self.optimizer, "scale_loss") else loss


def slowest(strategy: Any, seconds: list[float]) -> list[float]:
    """Return for each block of training steps the seconds of the slowest rank, on every rank. `seconds` are those of
    this rank."""

    @tf.function  # type: ignore[untyped-decorator]
    def gather() -> Any:
        def replica() -> Any:
            times = tf.constant([seconds], tf.float64)
            return tf.distribute.get_replica_context().all_gather(times, axis=0)

        return strategy.experimental_local_results(strategy.run(replica))[0]

    found: list[float] = tf.reduce_max(gather(), axis=0).numpy().tolist()
    return found


def software() -> dict[str, str]:
    built = tf.sysconfig.get_build_info()
    keras = getattr(tf.keras, "__version__", "")  # Keras 2 has none
    found = {"framework": f"TensorFlow {tf.__version__}" + (f", Keras {keras}" if keras else "")}
    found.update({"CUDA": str(built["cuda_version"])} if built.get("cuda_version") else {})
    found.update({"cuDNN": str(built["cudnn_version"])} if built.get("cudnn_version") else {})
    return found


def device_facts(gpu: bool, ranks: int) -> dict[str, Any]:
    details = tf.config.experimental.get_device_details(tf.config.get_visible_devices("GPU")[0]) if gpu else {}
    has_tf32 = details.get("compute_capability", (0, 0))[0] >= 8 and os.environ.get("NVIDIA_TF32_OVERRIDE") != "0"
    threads = tf.config.threading.get_intra_op_parallelism_threads() or threads_of_share("1/1")
    tf32 = has_tf32 and tf.config.experimental.tensor_float_32_execution_enabled()
    return {
        "device": details.get("device_name", "GPU") if gpu else "CPU",
        "gpus": ranks if gpu else 0,
        "threads": threads,
        "tf32": "on" if tf32 else "off",
    }


def main() -> None:
    arguments = parse_arguments(__doc__)
    local_rank = int(os.environ["WORLDSIZE_LOCAL_RANK"])
    rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    gpu = choose_device(local_rank)
    fill_in(arguments, gpu)
    threads = None if gpu else threads_of_share(arguments.share)
    if threads is not None:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
    if arguments.precision == "fp16" and not gpu:
        stop("--precision fp16 is for GPUs, and TensorFlow sees none here: --precision bf16 or fp32")
    if arguments.precision in _POLICIES:
        tf.keras.mixed_precision.set_global_policy(_POLICIES[arguments.precision])
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    ranks = strategy.num_replicas_in_sync
    batches = None
    if arguments.data != "synthetic":
        directory = make_images(encode_jpeg, local_rank) if arguments.data == "generated" else arguments.data
        batches = image_batches(arguments, directory, (rank, ranks))
    trainer = Trainer(strategy, arguments, batches, ranks)
    for _ in range(arguments.warmup):
        trainer.step()
    sizes = block_sizes(arguments.steps)
    seconds = slowest(strategy, time_blocks(trainer.step, trainer.synchronize, sizes))
    loss = float(trainer.loss)
    check_loss(loss)
    if rank == 0:
        found = {**device_facts(gpu, ranks), "software": software()}
        parameters = trainer.network.count_params()
        write_report(
            arguments, "tensorflow", ranks, seconds, sizes,
            loss=loss, parameters=parameters, communication=0.0 if ranks == 1 else None, **found,
        )  # fmt: skip
    try:
        slowest(strategy, [0.0])  # so that no rank exits or removes images while another still works
    except tf.errors.UnavailableError:
        pass  # another rank has passed this point and exited already
    if arguments.data == "generated":
        remove_images(local_rank)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
