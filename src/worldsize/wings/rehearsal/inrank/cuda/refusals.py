"""Names that cannot be rehearsed: using one is an error that states this. docs/how-to/training/rehearsal.md contains
the same table.

The other names of torch.cuda and torch.accelerator are listed in `tests/rehearsal/cuda_names.py`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from worldsize_inrank.import_hook import call_after_import

from .substitutes import make_refusal, make_substitute

_GRAPHS = {"a CUDA graph": "CUDAGraph graph graph_pool_handle make_graphed_callables"}
_ALLOCATORS = {
    "an allocator of CUDA memory": "MemPool use_mem_pool CUDAPluggableAllocator change_current_allocator "
    "caching_allocator_alloc caching_allocator_delete"
}
_COMMUNICATION = "communication between the GPUs of one process"
_GREEN_CONTEXTS = {"a part of a GPU (a green context)": "GreenContext"}

REFUSED: dict[str, dict[str, str]] = {
    "torch.cuda": {
        **_GRAPHS,
        **_ALLOCATORS,
        **_GREEN_CONTEXTS,
        "a handle of a CUDA library": "current_blas_handle current_solver_handle",
        "CUDA source code": "_compile_kernel",
        "a storage of an old type": "BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage "
        "ComplexFloatStorage DoubleStorage FloatStorage HalfStorage IntStorage LongStorage ShortStorage",
    },
    "torch.cuda.comm": {
        _COMMUNICATION: "broadcast broadcast_coalesced gather reduce_add reduce_add_coalesced scatter",
    },
    "torch.cuda.gds": {"GPUDirect Storage": "GdsFile gds_deregister_buffer gds_register_buffer"},
    "torch.cuda.graphs": _GRAPHS,
    "torch.cuda.green_contexts": _GREEN_CONTEXTS,
    "torch.cuda.jiterator": {"CUDA source code": "_create_jit_fn _create_multi_output_jit_fn"},
    "torch.cuda.memory": _ALLOCATORS,
    "torch.cuda.nccl": {
        _COMMUNICATION: "all_gather all_reduce broadcast init_rank reduce reduce_scatter unique_id",
    },
    "torch.cuda.sparse": {
        "a sparse tensor of an old type": "BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor "
        "HalfTensor IntTensor LongTensor ShortTensor",
    },
    "torch.cuda.tunable": {"the tuning of CUDA kernels": "mgpu_tune_gemm_in_file tune_gemm_in_file"},
    "torch.accelerator": {"a CUDA graph": "Graph"},
    "torch.accelerator.graphs": {"a CUDA graph": "Graph"},
    "torch.nn.parallel": {_COMMUNICATION: "data_parallel gather replicate scatter"},
    "torch.nn.parallel.comm": {
        _COMMUNICATION: "broadcast broadcast_coalesced gather reduce_add reduce_add_coalesced scatter",
    },
    "torch.distributed._symmetric_memory": {
        "symmetric memory": "empty enable_symm_mem_for_group get_mem_pool get_mempool_allocator "
        "get_symm_mem_workspace put_signal reduce_scatter_offset rendezvous set_backend wait_signal",
    },
}
"""The refused names by module: the purpose of the names, in the words of the error message, and the names
themselves."""


def install() -> None:
    """Replace the names in REFUSED that this version of torch has by refusals, which raise RuntimeError when they are
    used, also in modules that torch imports later."""
    for module, names in REFUSED.items():
        call_after_import(module, partial(_refuse, names))


def _refuse(names: dict[str, str], module: Any) -> None:
    for what, group in names.items():
        for name in group.split():
            original = vars(module).get(name)
            if original is not None:
                refuse = make_refusal(what)
                setattr(module, name, make_substitute(original, refuse) if isinstance(original, type) else refuse)
