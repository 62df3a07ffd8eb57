"""The function `worldsize.shard`, for scripts that create their batches themselves."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Tuple, TypeVar, overload

    One = TypeVar("One")
    Two = TypeVar("Two")

if TYPE_CHECKING:  # a block of its own: otherwise mypy takes the overloads for those of the next definition

    @overload
    def shard(batch: One, /, *, dim: int = 0) -> One: ...
    @overload
    def shard(batch: One, second: Two, /, *, dim: int = 0) -> Tuple[One, Two]: ...
    @overload
    def shard(batch: Any, second: Any, third: Any, /, *others: Any, dim: int = 0) -> Tuple[Any, ...]: ...


def shard(*batch: Any, dim: int = 0) -> Any:
    """Return this rank's samples of a batch that the script creates equally on all ranks: the slice of each argument
    along dimension `dim`.

    One argument gives one value, several give a tuple. A batch is returned whole if the number of ranks does not divide
    it. Everything is returned whole on one rank, without `--data-parallel`, and under `torch.no_grad()`, where no
    training takes place.
    """
    install = sys.modules.get("worldsize_inrank.data_parallel.install")
    if install is not None and install.PARTS is not None:
        batch = install.take_part(batch, dim)
    return batch[0] if len(batch) == 1 else batch
