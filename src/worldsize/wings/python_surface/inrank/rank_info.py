"""Functions for scripts: this rank's position in the world, and work that one rank per node does for all ranks of the
node.

Only environment variables are read: those set by worldsize, torchrun, srun or mpirun. Without any, the process is the
only rank. Standard library only.
"""

from __future__ import annotations

import functools
import os
import time
from typing import TYPE_CHECKING, Callable, Mapping, NamedTuple

if TYPE_CHECKING:
    from typing import Optional, ParamSpec, TypeVar

    Parameters = ParamSpec("Parameters")
    Result = TypeVar("Result")

_NAMES = {
    "rank": ("WORLDSIZE_RANK", "RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"),
    "world_size": ("WORLDSIZE_WORLD_SIZE", "WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE"),
    "local_rank": ("WORLDSIZE_LOCAL_RANK", "LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"),
    "local_world_size": ("WORLDSIZE_LOCAL_WORLD_SIZE", "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    "node_rank": ("WORLDSIZE_NODE_RANK", "NODE_RANK", "GROUP_RANK", "SLURM_NODEID"),
    "node_count": ("WORLDSIZE_NODE_COUNT", "GROUP_WORLD_SIZE", "SLURM_NNODES"),
}
_DEFAULTS = {"world_size": 1, "local_world_size": 1, "node_count": 1}
_PAUSE = 0.05


class RankInfo(NamedTuple):
    """The position of a rank. `rank` is its number among `world_size` ranks, `local_rank` its number among the
    `local_world_size` ranks of its node, `node_rank` its node's number among `node_count` nodes. All numbers start at
    0."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    node_rank: int
    node_count: int


def rank_info(environ: Mapping[str, str] | None = None) -> RankInfo:
    """Return the RankInfo of this process (rank, world size, local rank, node rank, …), from the environment variables
    of worldsize, torchrun, srun or mpirun; without any, that of the only rank. Raise ValueError, which names the
    variable, if one is not a number."""
    environ = os.environ if environ is None else environ
    return RankInfo(
        **{field: _first_number(environ, names, _DEFAULTS.get(field, 0)) for field, names in _NAMES.items()}
    )


def _first_number(environ: Mapping[str, str], names: tuple[str, ...], default: int) -> int:
    for name in names:
        if environ.get(name):
            try:
                return int(environ[name])
            except ValueError:
                raise ValueError(f"{name} is not a number: {environ[name][:60]!r}") from None
    return default


class OncePerNode:
    """A piece of work that local rank 0 does while the other ranks of the node wait.

    Its truth value is true on local rank 0, and testing it does not wait. As a context manager it returns the same
    value, and the other ranks wait at the end of the block. As a decorator it calls the function on local rank 0, and
    returns None on the other ranks, after the call has ended. A failure on local rank 0 is a failure on the other ranks
    too (RuntimeError). Ranks wait for a file in the run directory, which all ranks of a node see. Outside of a run no
    rank waits.
    """

    _count = 0

    def __init__(self) -> None:
        self.info = rank_info()
        self._mine = self.info.local_rank == 0
        self._mark = self._next_mark()

    def _next_mark(self) -> str | None:
        run_dir = os.environ.get("WORLDSIZE_RUN_DIR")
        if run_dir is None:
            return None
        attempt = os.environ.get("WORLDSIZE_ATTEMPT", "0")
        number = OncePerNode._count
        OncePerNode._count += 1
        return os.path.join(run_dir, "attempt-" + attempt, f"once-{self.info.node_rank:04d}-{number}")

    def __bool__(self) -> bool:
        return self._mine

    def __enter__(self) -> bool:
        return self._mine

    def __exit__(self, kind: object, *_: object) -> None:
        if self._mark is None:
            return
        if self._mine:
            mode = os.stat(os.path.dirname(self._mark)).st_mode & 0o666  # independent of the rank's umask
            with open(os.open(self._mark + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as file:
                file.write("done" if kind is None else "failed")
            os.replace(self._mark + ".tmp", self._mark)
        elif kind is None:
            self._wait(self._mark)

    def _wait(self, mark: str) -> None:
        while not os.path.exists(mark):
            time.sleep(_PAUSE)
        with open(mark) as file:
            if file.read() != "done":
                raise RuntimeError("local rank 0 failed in its work for this node")

    def __call__(self, function: Callable[Parameters, Result]) -> Callable[Parameters, Optional[Result]]:
        @functools.wraps(function)
        def once(*args: Parameters.args, **keywords: Parameters.kwargs) -> Optional[Result]:
            with OncePerNode() as mine:
                return function(*args, **keywords) if mine else None

        return once


def once_per_node() -> OncePerNode:
    """Return a context manager and decorator for work that local rank 0 does while the other ranks of its node wait.

        with once_per_node() as first:          true on local rank 0; the other ranks wait at the block's end
            if first:
                unpack_data()

        @once_per_node()                        None on the other ranks, once it has ended on local rank 0
        def unpack_data(): …

    In `if once_per_node():` no rank waits. A failure on local rank 0 is a failure on the other ranks too, with
    RuntimeError.
    """
    return OncePerNode()
