"""The ranks' connections: groups of our own, which torch.distributed does not list, made when first needed.

So the script's libraries, which look whether torch.distributed is initialised, go on believing what they see.
"""

from __future__ import annotations

import os

from .torch_module import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MINUTES = 30
_VALUE_MINUTES = 5
"""Ranks that disagree on whether a value is asked for wait for each other in vain."""

_LAST_SECONDS = 60.0


class Communicator:
    def __init__(self, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size
        self._groups: dict[str, Any] = {}
        self._store: Any = None

    @property
    def store(self) -> Any:
        if self._store is None:
            from datetime import timedelta

            self._store = torch.distributed.TCPStore(
                os.environ["MASTER_ADDR"],
                int(os.environ["MASTER_PORT"]),
                self.size,
                self.rank == 0,
                timedelta(minutes=_MINUTES),
                wait_for_workers=False,
            )
        return self._store

    def group(self, kind: str) -> Any:
        """ "cpu", "cuda": for tensors that lie there; "values": for numbers that the script prints; "norm-cpu", …."""
        if kind not in self._groups:
            self._groups[kind] = self._nccl(kind) if kind.endswith("cuda") else self._gloo(kind)
        return self._groups[kind]

    def group_of(self, device: Any) -> Any:
        return self.group("cuda" if device.type == "cuda" else "cpu")

    def _gloo(self, kind: str) -> Any:
        from datetime import timedelta

        minutes = _VALUE_MINUTES if kind == "values" else _MINUTES
        store = torch.distributed.PrefixStore(f"worldsize/{kind}", self.store)
        return torch.distributed.ProcessGroupGloo(store, self.rank, self.size, timedelta(minutes=minutes))

    def _nccl(self, kind: str) -> Any:
        """NCCL, or gloo where ranks share a GPU, which NCCL refuses, or there is none (a rehearsal)."""
        if (
            os.environ.get("WORLDSIZE_VIRTUAL_GPUS")
            or not self._has_own_devices()
            or not torch.distributed.is_nccl_available()
        ):
            return self._gloo("shared-" + kind)
        store = torch.distributed.PrefixStore(f"worldsize/{kind}", self.store)
        return torch.distributed.ProcessGroupNCCL(
            store, self.rank, self.size, torch.distributed.ProcessGroupNCCL.Options()
        )

    def _has_own_devices(self) -> bool:
        import socket

        device = torch.cuda.get_device_properties(torch.cuda.current_device())
        mine = f"{socket.gethostname()} {getattr(device, 'uuid', torch.cuda.current_device())}"
        self.store.set(f"worldsize/device/{self.rank}", mine)
        everyone = {self.store.get(f"worldsize/device/{rank}") for rank in range(self.size)}
        return len(everyone) == self.size

    def add_up(self, tensor: Any, kind: str | None = None) -> Any:
        """In place, over all ranks. `kind`: on connections of their own, so that nothing else must be in its order."""
        group = self.group_of(tensor.device) if kind is None else self.group(kind + "-" + tensor.device.type)
        group.allreduce([tensor]).wait()
        return tensor

    def add_values(self, values: list[float]) -> list[float]:
        """Numbers for the script, on connections of their own."""
        tensor = torch.tensor(values, dtype=torch.float64)
        self.group("values").allreduce([tensor]).wait()
        found: list[float] = tensor.tolist()
        return found

    def broadcast_from_first(self, tensor: Any) -> Any:
        """In place, what rank 0 has."""
        options = torch.distributed.BroadcastOptions()
        options.rootRank = 0
        self.group_of(tensor.device).broadcast([tensor], options).wait()
        return tensor

    def wait_for_others(self) -> None:
        """Rank 0, whose end is the store's, waits here for the others: they may still be asking it something."""
        import time

        deadline = time.monotonic() + _LAST_SECONDS
        try:
            left = self.store.add("worldsize/left", 1)
            while self.rank == 0 and left < self.size and time.monotonic() < deadline:
                time.sleep(0.02)
                left = self.store.add("worldsize/left", 0)
        except RuntimeError:
            return

    def close(self) -> None:
        """Threads end here and not at the interpreter's end, where their end is an abort."""
        self._groups.clear()
        self._store = None
