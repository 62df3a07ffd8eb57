"""All-reduce of torch.distributed, by NCCL or gloo.

    python -m allreduce.by_torch --sizes 8,1048576 --backend gloo

torch reduces in place alone. What each rank contributes is other elements of the sum than the others', so that every
sum is exact in every type, and one that lacks a rank, or counts it twice, is found.
"""

from __future__ import annotations

import gc
import os
import sys

try:
    import torch
    import torch.distributed as dist
except ImportError as error:
    sys.exit(f"all-reduce by nccl or gloo needs torch ({error}): name an environment that has it")

from .sweep import Reducer, parse_arguments, run_sweep, stop

_CHUNK = 1 << 22


class TorchReducer(Reducer):
    def __init__(self, backend: str, dtype: str, largest: int) -> None:
        local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
        self.backend = backend or ("nccl" if gpus else "gloo")
        if self.backend == "nccl" and local_rank >= gpus:
            stop(f"all-reduce by nccl: local rank {local_rank} has no GPU of its own: there are {gpus}")
        on_gpu = self.backend == "nccl"
        self._torch_device = torch.device("cuda", local_rank) if on_gpu else torch.device("cpu")
        if on_gpu:
            torch.cuda.set_device(self._torch_device)
        dist.init_process_group(self.backend)
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.gpus = self.ranks if on_gpu else 0
        self.device = torch.cuda.get_device_name(self._torch_device) if on_gpu else "CPU"
        self._dtype = getattr(torch, dtype)
        self.element = torch.empty((), dtype=self._dtype).element_size()
        self.software = self._software()
        try:
            self._buffer = torch.zeros(max(1, largest // self.element), dtype=self._dtype, device=self._torch_device)
        except RuntimeError as error:
            stop(f"all-reduce of {largest} bytes: {str(error).splitlines()[0]:.200}")

    def _software(self) -> dict[str, str]:
        found = {"framework": f"torch {torch.__version__}"}
        if self.gpus:
            found["CUDA"] = str(torch.version.cuda)
            found["NCCL"] = ".".join(map(str, torch.cuda.nccl.version()))
        return found

    def reduce(self, count: int) -> None:
        dist.all_reduce(self._buffer[:count])

    def zero(self) -> None:
        self._buffer.zero_()

    def count_wrong(self, count: int, out: bool) -> int:
        part = self._buffer[:count]
        for start in range(0, count, _CHUNK):
            piece, index = self._piece(part, start, count)
            piece.copy_((index % self.ranks == self.rank) * (index % 3 + 1))
        dist.all_reduce(part)
        wrong = 0
        for start in range(0, count, _CHUNK):
            piece, index = self._piece(part, start, count)
            wrong += int((piece != (index % 3 + 1).to(self._dtype)).sum())
        return int(self._sum(wrong))

    def _piece(self, part: torch.Tensor, start: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """A part of the buffer, and the numbers of its elements."""
        stop_at = min(start + _CHUNK, count)
        return part[start:stop_at], torch.arange(start, stop_at, device=self._torch_device)

    def synchronize(self) -> None:
        if self.gpus:
            torch.cuda.synchronize()

    def barrier(self) -> None:
        dist.barrier()
        self.synchronize()

    def slowest(self, value: float) -> float:
        return float(self._reduced(value, dist.ReduceOp.MAX))

    def from_first(self, value: int) -> int:
        said = torch.tensor([value], dtype=torch.int64, device=self._torch_device)
        dist.broadcast(said, 0)
        return int(said.item())

    def _sum(self, value: float) -> float:
        return self._reduced(value, dist.ReduceOp.SUM)

    def _reduced(self, value: float, how: dist.ReduceOp) -> float:
        said = torch.tensor([value], dtype=torch.float64, device=self._torch_device)
        dist.all_reduce(said, how)
        return float(said.item())


def main() -> None:
    arguments = parse_arguments()
    reducer = TorchReducer(arguments.backend, arguments.dtype, arguments.sizes[-1])
    run_sweep(reducer, arguments)
    del reducer
    gc.collect()  # gloo may abort a process whose tensors outlive the group
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)
