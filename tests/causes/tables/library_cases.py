"""Causes in what ranks say to each other by other libraries than torch's: MPI, Horovod, TensorFlow, JAX."""

from __future__ import annotations

from causes.case import Case

_MPI = {"distribution": {"type": "mpi", "process_count_per_instance": 2}}
_HOROVOD = {"distribution": {"type": "horovod", "process_count_per_instance": 2}}

LIBRARY_CASES = (
    Case(
        "collective-mismatch",
        """import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
if world.Get_rank() == 0:
    world.Send(numpy.ones(8), 1)
else:
    world.Recv(numpy.ones(4), 0)
world.Barrier()
""",
        ranks=(1,),
        environment=".venv-mpi",
        keys=_MPI,
        variant="MPI",
    ),
    Case(
        "mpi-abort",
        """import sys
from mpi4py import MPI

world = MPI.COMM_WORLD
if world.Get_rank() == 1:
    print("batch 7 has no labels", file=sys.stderr, flush=True)
    world.Abort(7)
world.Barrier()
""",
        "supported",
        ranks=(1,),
        environment=".venv-mpi",
        keys=_MPI,
    ),
    Case(
        "collective-mismatch",
        """import time

import horovod.torch as hvd
import torch

hvd.init()
time.sleep(hvd.rank())
hvd.allreduce(torch.ones(4 + 4 * hvd.rank()), name="gradients")
""",
        ranks=(0, 1),
        environment=".venv-horovod",
        keys=_HOROVOD,
        variant="Horovod",
        varies=True,
    ),
    Case(
        "horovod-shutdown",
        """import os, time

import horovod.torch as hvd
import torch

hvd.init()
hvd.allreduce(torch.ones(4))
if hvd.rank() == 1:
    hvd.shutdown()
    time.sleep(60)
for step in range(1000):
    hvd.allreduce(torch.ones(4))
""",
        "unknown",
        environment=".venv-horovod",
        keys=_HOROVOD,
    ),
    Case(
        "tensorflow-mirrored-input",
        """import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(loss="mse", optimizer="sgd")
data = tf.data.Dataset.from_tensor_slices((tf.ones((8, 4)), tf.ones((8, 1)))).batch(4)
model.fit(data, verbose=0)
""",
        ranks=None,
        environment=".venv-tensorflow",
        varies=True,
        keys={
            "distribution": {"type": "tensorflow", "worker_count": 2},
            "resources": {"instance_count": 2},
            "environment_variables": {"TF_CPP_MIN_LOG_LEVEL": "2"},
        },
    ),
    Case(
        "collective-timeout",
        """import os, time

import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils

jax.distributed.initialize(initialization_timeout=10)
if jax.process_index() == 1:
    time.sleep(60)
from jax._src import distributed
distributed.global_state.client.wait_at_barrier("step", 3000)
""",
        "supported",
        ranks=(1,),
        environment=".venv-jax",
        keys={"environment_variables": {"JAX_PLATFORMS": "cpu"}},
        variant="JAX",
        varies=True,
    ),
)
