"""The CUDA runtime of torch.cuda.cudart: the profiler's switches, which do nothing, and the memory of a GPU."""

from __future__ import annotations

from typing import Any

from .. import devices, messages
from . import memory


class CudaError(RuntimeError):
    """The error that torch.cuda.check_error raises."""

    def __init__(self, code: int) -> None:
        super().__init__(f"CUDA error ({code})")


def check_error(result: int) -> None:
    if int(result) != 0:
        raise CudaError(int(result))


class _Runtime:
    """The result of torch.cuda.cudart. All other functions of the CUDA runtime are refused."""

    @staticmethod
    def cudaProfilerStart() -> int:
        return 0

    cudaProfilerStop = cudaProfilerStart

    @staticmethod
    def cudaMemGetInfo(device: int) -> Any:
        return memory.mem_get_info(device)

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(messages.REFUSED % f"the CUDA runtime's {name}")


_runtime = _Runtime()


def cudart() -> _Runtime:
    devices.begin_cuda()
    return _runtime


FUNCTIONS: dict[str, Any] = {"cudart": cudart, "check_error": check_error, "CudaError": CudaError}
"""The functions and classes by their names in torch.cuda."""
