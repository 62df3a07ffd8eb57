"""`worldsize.shard`: for scripts that make their batches themselves."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Tuple, TypeVar, overload

    One = TypeVar("One")
    Two = TypeVar("Two")

if TYPE_CHECKING:  # of its own: mypy takes overloads for those of what follows where nothing else is in the block

    @overload
    def shard(batch: One, /, *, dim: int = 0) -> One: ...
    @overload
    def shard(batch: One, second: Two, /, *, dim: int = 0) -> Tuple[One, Two]: ...
    @overload
    def shard(batch: Any, second: Any, third: Any, /, *others: Any, dim: int = 0) -> Tuple[Any, ...]: ...


def shard(*batch: Any, dim: int = 0) -> Any:
    """This rank's samples of a batch that all ranks have made alike: each argument's slice along dimension `dim`.

    One argument gives one value, several a tuple. A batch that does not divide by the number of ranks comes back
    whole, as everything does on one rank or without `--data-parallel`, and under `torch.no_grad()`, where nothing is
    trained.
    """
    install = sys.modules.get("worldsize_inrank.data_parallel.install")
    if install is not None and install.PARTS is not None:
        batch = install.take_part(batch, dim)
    return batch[0] if len(batch) == 1 else batch
