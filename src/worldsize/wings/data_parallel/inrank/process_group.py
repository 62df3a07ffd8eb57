"""The ranks' connections: process groups that torch.distributed does not list, made when they are first needed.

So the script's libraries, which look whether torch.distributed is initialised, see what they would see without them.
"""

from __future__ import annotations

import json
import os
import socket
import time
from datetime import timedelta
from typing import Any

import torch

_MINUTES = 30
_VALUE_MINUTES = 5
"""The time-out of values: ranks that disagree on whether a value is asked for would wait for each other in vain."""

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
            self._store = torch.distributed.TCPStore(
                os.environ["MASTER_ADDR"],
                int(os.environ["MASTER_PORT"]),
                self.size,
                self.rank == 0,
                timedelta(minutes=_MINUTES),
                wait_for_workers=False,
            )
        return self._store

    def group(self, device: Any, kind: str = "all") -> Any:
        """Return the group for tensors on a device. `kind` other than "all": a group with connections of its own, so
        that its messages need no common order with others: "values" for numbers that the script prints, "norm"."""
        name = f"{kind}-{device.type}"
        if name not in self._groups:
            nccl = device.type == "cuda" and self._has_nccl()
            self._groups[name] = self._make_nccl(name) if nccl else self._make_gloo(name)
        return self._groups[name]

    def _make_gloo(self, name: str) -> Any:
        minutes = _VALUE_MINUTES if name.startswith("values") else _MINUTES
        store = torch.distributed.PrefixStore(f"worldsize/{name}", self.store)
        return torch.distributed.ProcessGroupGloo(store, self.rank, self.size, timedelta(minutes=minutes))

    def _make_nccl(self, name: str) -> Any:
        store = torch.distributed.PrefixStore(f"worldsize/{name}", self.store)
        options = torch.distributed.ProcessGroupNCCL.Options()
        return torch.distributed.ProcessGroupNCCL(store, self.rank, self.size, options)

    def _has_nccl(self) -> bool:
        """Return whether NCCL can be used: not where there is no GPU (a rehearsal), or where ranks share one, which
        NCCL refuses."""
        if os.environ.get("WORLDSIZE_VIRTUAL_GPUS") or not torch.distributed.is_nccl_available():
            return False
        device = torch.cuda.get_device_properties(torch.cuda.current_device())
        mine = f"{socket.gethostname()} {getattr(device, 'uuid', torch.cuda.current_device())}"
        self.store.set(f"worldsize/device/{self.rank}", mine)
        everyone = {self.store.get(f"worldsize/device/{rank}") for rank in range(self.size)}
        return len(everyone) == self.size

    def add_up(self, tensor: Any, kind: str = "all") -> Any:
        """Add the tensor up in place over all ranks, on connections of that kind."""
        self.group(tensor.device, kind).allreduce([tensor]).wait()
        return tensor

    def add_values(self, values: list[float]) -> list[float]:
        """Add up numbers for the script over all ranks, on connections of their own."""
        found: list[float] = self.add_up(torch.tensor(values, dtype=torch.float64), "values").tolist()
        return found

    def broadcast_from_first(self, tensor: Any) -> Any:
        """Give the tensor, in place, the values that it has on rank 0."""
        options = torch.distributed.BroadcastOptions()
        options.rootRank = 0
        self.group(tensor.device).broadcast([tensor], options).wait()
        return tensor

    def value_from_first(self, value: Any) -> Any:
        """Return the value that rank 0 has; one that JSON knows."""
        data = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        (length,) = self.broadcast_from_first(torch.tensor([len(data)])).tolist()
        data = self.broadcast_from_first(data if self.rank == 0 else data.new_empty(length))
        return json.loads(bytes(data.tolist()))

    def any_says(self, true: bool) -> bool:
        """Return whether it is true on any rank."""
        return bool(self.add_up(torch.tensor([float(true)])).item())

    def differ(self, tensors: list[Any], tolerance: float) -> bool:
        """Return whether the sum of one of the tensors is on some rank not that on rank 0, by more than `tolerance` and
        that part of it. NaN on both is no difference. All ranks must call this, with as many tensors."""
        mine = torch.tensor([float(tensor.detach().double().sum()) for tensor in tensors], dtype=torch.float64)
        first = self.broadcast_from_first(mine.clone())
        close = torch.isclose(mine, first, rtol=tolerance, atol=tolerance, equal_nan=True)
        return self.any_says(not close.all())

    def wait_for_others(self) -> None:
        """Make rank 0, with which the store ends, wait for the others, which may still be asking the store; a minute at
        the most. Returns at once where the store does not answer any more."""
        deadline = time.monotonic() + _LAST_SECONDS
        try:
            left = self.store.add("worldsize/left", 1)
            while self.rank == 0 and left < self.size and time.monotonic() < deadline:
                time.sleep(0.02)
                left = self.store.add("worldsize/left", 0)
        except RuntimeError:
            return

    def close(self) -> None:
        """End the connections' threads here: at the interpreter's end they would abort the process."""
        self._groups.clear()
        self._store = None
