"""JAX on several processes: a psum over all of them, then a linear fit whose data are sharded over all devices.

    worldsize run examples/jax-psum/job.yml -w 2x2

`jax.distributed.initialize()` finds everything by itself. Process 0 prints `allreduce=ok` once the sum is right, and
the fit's `accuracy=…`: the share of points that the fitted plane puts on their side.
"""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

POINTS = 1024


def all_reduce(mesh: Mesh) -> None:
    """Every device brings its number; the sum must be right on every process."""
    count = mesh.devices.size
    sharding = NamedSharding(mesh, PartitionSpec("all"))
    numbers = jax.make_array_from_callback((count,), sharding, lambda index: np.arange(count, dtype=np.float32)[index])
    total = jax.jit(
        jax.shard_map(
            lambda part: jax.lax.psum(part.sum(), "all"),
            mesh=mesh,
            in_specs=PartitionSpec("all"),
            out_specs=PartitionSpec(),
        )
    )(numbers)
    expected = count * (count - 1) / 2
    if float(total) != expected:
        raise ValueError("process %d: the sum is %g, not %g" % (jax.process_index(), float(total), expected))


def fit(mesh: Mesh, steps: int) -> float:
    """Logistic regression; XLA puts the all-reduce of the gradients in by itself, since the points are sharded."""
    random = np.random.default_rng(1)
    points = random.normal(size=(POINTS, 4)).astype(np.float32)
    sides = (points @ np.array([1, -2, 3, 0.5], np.float32) > 0.3).astype(np.float32)
    sharded = NamedSharding(mesh, PartitionSpec("all"))
    x = jax.make_array_from_callback(points.shape, sharded, lambda index: points[index])
    y = jax.make_array_from_callback(sides.shape, sharded, lambda index: sides[index])

    def loss(weights: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        scores = x @ weights[:-1] + weights[-1]
        return jnp.mean(jnp.logaddexp(0, scores) - y * scores)

    @jax.jit
    def step(weights: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        return weights - 2.0 * jax.grad(loss)(weights, x, y)

    weights = jax.device_put(jnp.zeros(5), NamedSharding(mesh, PartitionSpec()))
    for _ in range(steps):
        weights = step(weights, x, y)
    right = jax.jit(lambda w, x, y: jnp.mean((x @ w[:-1] + w[-1] > 0) == (y > 0.5)))(weights, x, y)
    return float(right)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    arguments = parser.parse_args()
    jax.distributed.initialize()
    mesh = Mesh(np.array(jax.devices()), ("all",))
    all_reduce(mesh)
    accuracy = fit(mesh, arguments.steps)
    if jax.process_index() == 0:
        print("processes=%d devices=%d" % (jax.process_count(), jax.device_count()))
        print("allreduce=ok")
        print("accuracy=%.4f" % accuracy, flush=True)


if __name__ == "__main__":
    main()
