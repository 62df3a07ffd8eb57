"""All-reduce of torch.distributed, by NCCL or gloo.

    python -m allreduce.by_torch --sizes 8,1048576 --backend gloo

torch reduces only in place.
"""

from __future__ import annotations

import gc
import os
import sys

try:
    import torch
    import torch.distributed as dist
except ImportError as error:
    sys.exit(f"all-reduce by nccl or gloo needs torch ({error}): --environment with one that has it")

from .pattern import parts, repeats, sums
from .sweep import Reducer, parse_arguments, run_sweep, stop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_TEXT = 200
"""The maximum number of bytes of the text that each rank contributes to `gather`."""


class TorchReducer(Reducer):
    def __init__(self, backend: str, dtype: str, largest: int) -> None:
        self.backend = backend or ("nccl" if torch.cuda.is_available() else "gloo")
        on_gpu = self.backend == "nccl"
        self._torch_device = torch.device("cuda", choose_gpu(self.local_rank)) if on_gpu else torch.device("cpu")
        if on_gpu:
            torch.cuda.set_device(self._torch_device)
        dist.init_process_group(self.backend)
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.gpus = self.ranks if on_gpu else 0
        if on_gpu:
            properties = torch.cuda.get_device_properties(self._torch_device)
            self.device, self.bus = properties.name, f"0x{getattr(properties, 'pci_bus_id', 0):02x}"
        else:
            self.check_memory(largest, 1)
        self._dtype = getattr(torch, dtype)
        self.element = torch.empty((), dtype=self._dtype).element_size()
        self.software = self._software()
        try:
            self._buffer = torch.zeros(max(1, largest // self.element), dtype=self._dtype, device=self._torch_device)
        except RuntimeError as error:
            stop(f"all-reduce of {largest} bytes: {str(error).splitlines()[0]:.200}")
        self._last = self._buffer

    def _software(self) -> dict[str, str]:
        found = {"framework": f"torch {torch.__version__}"}
        if self.gpus:
            found.update({"CUDA": torch.version.cuda} if torch.version.cuda else {"ROCm": str(torch.version.hip)})
            found["NCCL"] = ".".join(map(str, torch.cuda.nccl.version()))
        return found

    def reduce(self, count: int) -> None:
        dist.all_reduce(self._part(count))

    def _part(self, count: int) -> torch.Tensor:
        """Return the first `count` elements of the buffer that is all-reduced. The same tensor object is returned while
        `count` does not change, because a new one for each all-reduce costs gloo time."""
        if len(self._last) != count:
            self._last = self._buffer[:count]
        return self._last

    def zero(self, count: int) -> None:
        self._part(count).zero_()

    def count_wrong(self, count: int, out: bool) -> int:
        part = self._part(count)
        for piece, own in self._pieces(part, parts(self.rank, self.ranks)):
            piece.copy_(own)
        dist.all_reduce(part)
        wrong = sum(int((piece != right).sum()) for piece, right in self._pieces(part, sums(self.ranks)))
        return int(self._reduced(wrong, dist.ReduceOp.SUM))

    def _pieces(self, part: torch.Tensor, values: list[int]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield each piece of the tensor `part`, as a pair with an equally long piece of the repeated `values`, to be
        filled from it or compared with it."""
        whole = torch.tensor(values, dtype=self._dtype, device=self._torch_device).repeat(repeats(values))
        for piece in part.split(len(whole)):
            yield piece, whole[: len(piece)]

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

    def gather(self, text: str) -> list[str]:
        """Return the texts of all ranks, in their order. They are exchanged as tensors of bytes, because torch's own
        gathering of objects needs numpy."""
        encoded = text.encode("utf-8", "replace")[:_TEXT].ljust(_TEXT)
        said = torch.tensor(list(encoded), dtype=torch.uint8, device=self._torch_device)
        everybody = [torch.empty_like(said) for _ in range(self.ranks)]
        dist.all_gather(everybody, said)
        return [bytes(each.tolist()).decode("utf-8", "replace").rstrip() for each in everybody]

    def _reduced(self, value: float, how: dist.ReduceOp) -> float:
        said = torch.tensor([value], dtype=torch.float64, device=self._torch_device)
        dist.all_reduce(said, how)
        return float(said.item())


def choose_gpu(local_rank: int) -> int:
    """Return the index of the GPU that the rank with `local_rank` on its node uses. Stop the rank if it has no GPU of
    its own, because NCCL cannot reduce two ranks on one GPU."""
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if gpus == 0:
        stop("all-reduce by nccl: torch sees no GPU on this node: --backend gloo, or an --environment with CUDA")
    if local_rank < gpus:
        return local_rank
    if gpus == 1 and "CUDA_VISIBLE_DEVICES" in os.environ:
        return 0  # each rank sees only its own, as Slurm may arrange
    return stop(f"all-reduce by nccl: torch sees {gpus} GPUs on this node: -w with at most {gpus} ranks per node")


def main() -> None:
    arguments = parse_arguments()
    reducer = TorchReducer(arguments.backend, arguments.dtype, arguments.sizes[-1])
    run_sweep(reducer, arguments)
    del reducer
    gc.collect()  # gloo may abort a process whose tensors outlive the process group
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)
