"""The connections between the ranks: process groups that torch.distributed does not list, created when they are first
needed.

The script's libraries may check whether torch.distributed is initialised. They see the same as without these groups.
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
"""The timeout of values, in minutes. Without it, ranks that disagree on whether to exchange a value would wait for each
other in vain."""

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
        """Return the process group for tensors on `device`, created at the first call. A `kind` other than "all" names
        a group with connections of its own, whose messages need no common order with others: "values" for numbers that
        the script prints, "norm" for batch normalisation."""
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
        """Return whether the ranks can communicate by NCCL. False if there is no GPU (a rehearsal), or if ranks share a
        GPU, which NCCL refuses."""
        if os.environ.get("WORLDSIZE_VIRTUAL_GPUS") or not torch.distributed.is_nccl_available():
            return False
        device = torch.cuda.get_device_properties(torch.cuda.current_device())
        mine = f"{socket.gethostname()} {getattr(device, 'uuid', torch.cuda.current_device())}"
        self.store.set(f"worldsize/device/{self.rank}", mine)
        everyone = {self.store.get(f"worldsize/device/{rank}") for rank in range(self.size)}
        return len(everyone) == self.size

    def add_up(self, tensor: Any, kind: str = "all") -> Any:
        """Sum `tensor` over all ranks, in place, on the connections of `kind`. Return the same tensor."""
        self.group(tensor.device, kind).allreduce([tensor]).wait()
        return tensor

    def add_values(self, values: list[float]) -> list[float]:
        """Return the sum over all ranks of each number in `values`. The exchange uses connections of its own, for
        numbers that the script reads."""
        found: list[float] = self.add_up(torch.tensor(values, dtype=torch.float64), "values").tolist()
        return found

    def broadcast_from_first(self, tensor: Any) -> Any:
        """Set `tensor`, in place, to its values on rank 0. Return the same tensor. All ranks must call this."""
        options = torch.distributed.BroadcastOptions()
        options.rootRank = 0
        self.group(tensor.device).broadcast([tensor], options).wait()
        return tensor

    def value_from_first(self, value: Any) -> Any:
        """Return rank 0's `value` on every rank. The value must be representable in JSON. All ranks must call this."""
        data = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        (length,) = self.broadcast_from_first(torch.tensor([len(data)])).tolist()
        data = self.broadcast_from_first(data if self.rank == 0 else data.new_empty(length))
        return json.loads(bytes(data.tolist()))

    def any_says(self, true: bool) -> bool:
        """Return whether the flag `true` is true on at least one rank. All ranks must call this."""
        return bool(self.add_up(torch.tensor([float(true)])).item())

    def differ(self, tensors: list[Any], tolerance: float) -> bool:
        """Return whether the sum of any of the tensors differs on any rank from that on rank 0 by more than `tolerance`
        in absolute value plus the same part of rank 0's sum. NaN on both is no difference. All ranks must call this,
        with the same number of tensors."""
        mine = torch.tensor([float(tensor.detach().double().sum()) for tensor in tensors], dtype=torch.float64)
        first = self.broadcast_from_first(mine.clone())
        close = torch.isclose(mine, first, rtol=tolerance, atol=tolerance, equal_nan=True)
        return self.any_says(not close.all())

    def wait_for_others(self) -> None:
        """Wait on rank 0 for the other ranks to finish, at most a minute: the end of rank 0 stops the TCP store, which
        the others may still use. Return at once on other ranks, and if the store no longer answers."""
        deadline = time.monotonic() + _LAST_SECONDS
        try:
            left = self.store.add("worldsize/left", 1)
            while self.rank == 0 and left < self.size and time.monotonic() < deadline:
                time.sleep(0.02)
                left = self.store.add("worldsize/left", 0)
        except RuntimeError:
            return

    def close(self) -> None:
        """Close the rank's process groups and store, and so stop their threads now: at the interpreter's end these
        would abort the process."""
        self._groups.clear()
        self._store = None
