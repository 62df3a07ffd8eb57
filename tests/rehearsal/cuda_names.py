"""What becomes of each public name of torch.cuda and torch.accelerator, and of symmetric memory, in a rehearsal.

Each entry is an expression, as after `from MODULE import *`; the name stands at its start. `emulated`: it answers as a
GPU would. `harmless`: it needs no GPU, or does nothing without one. `refused`: it is an error that names what cannot be
rehearsed (wings/rehearsal/inrank/cuda/refusals.py). Names of other versions of torch stand here, too.
Run on virtual GPUs by test_cuda_names.py, with a tensor `x` on one.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import sys
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_GRAPHS = "CUDAGraph() graph(None) graph_pool_handle() make_graphed_callables(abs,())"
_COMMUNICATION = """
    broadcast(x,[0,1]) broadcast_coalesced([x],[0,1]) gather([x,x]) reduce_add([x,x]) reduce_add_coalesced([[x],[x]])
    scatter(x,[0,1])
"""
_ALLOCATORS = (
    "CUDAPluggableAllocator('a.so','b','c') MemPool() caching_allocator_alloc(1) caching_allocator_delete(1) "
    "change_current_allocator(None) use_mem_pool(None)"
)
_MEMORY = """
    empty_cache() get_allocator_backend() get_per_process_memory_fraction() host_memory_stats()
    host_memory_stats_as_nested_dict() list_gpu_processes() max_memory_allocated() max_memory_cached()
    max_memory_reserved() mem_get_info() memory_allocated(0) memory_cached() memory_reserved() memory_snapshot()
    memory_stats()['allocated_bytes.all.current'] memory_stats_as_nested_dict()['allocated_bytes']['all']['current']
    memory_summary() reset_accumulated_host_memory_stats() reset_accumulated_memory_stats()
    reset_max_memory_allocated() reset_max_memory_cached() reset_peak_host_memory_stats() reset_peak_memory_stats()
    set_per_process_memory_fraction(0.5)
"""
_RANDOM = """
    get_rng_state() get_rng_state_all() initial_seed() manual_seed(1) manual_seed_all(1) seed() seed_all()
    set_rng_state(get_rng_state()) set_rng_state_all(get_rng_state_all())
"""
_STREAMS = "Event(enable_timing=True).record() ExternalStream(7).query() Stream(priority=-1).synchronize()"
_ACCELERATOR_MEMORY = """
    empty_cache() empty_host_cache() get_memory_info() max_memory_allocated() max_memory_reserved() memory_allocated()
    memory_reserved() memory_stats()['allocated_bytes.all.peak'] reset_accumulated_memory_stats()
    reset_peak_memory_stats()
"""
_AMP = "GradScaler().get_scale() autocast(dtype=torch.bfloat16).__enter__().__exit__(None,None,None)"
_CUSTOM = "custom_bwd(abs) custom_fwd(abs)"

TABLE: dict[str, dict[str, str]] = {
    "torch.cuda": {
        "emulated": f"""
            {_MEMORY} {_RANDOM} {_STREAMS}
            BFloat16Tensor(2).device BoolTensor(2).device ByteTensor(2).device CharTensor(2).device
            DoubleTensor(2).device FloatTensor(2).device HalfTensor(2).device IntTensor(2).device
            LongTensor(2).device ShortTensor(2).device CudaError(1) StreamContext(None).__enter__()
            can_device_access_peer(0,1) check_error(0) clock_rate() cudart().cudaProfilerStart() current_device()
            current_stream().query() default_generators[0].device default_stream().query() device(1).__enter__()
            device_count() device_memory_used() device_of(x).__enter__() get_arch_list()
            get_device_capability() get_device_name('cuda:1') get_device_properties(x.device).major
            get_gencode_flags() get_stream_from_external(7) get_sync_debug_mode() has_magma init()
            ipc_collect() is_available() is_bf16_supported() is_current_stream_capturing() is_initialized()
            is_tf32_supported() memory_usage() power_draw() set_device(1) set_stream(Stream())
            set_sync_debug_mode('warn') stream(Stream()).__enter__() synchronize() temperature() utilization()
        """,
        "harmless": """
            DEVICE_REQUIREMENT DeferredCudaCallError('x') PYTORCH_RELEASES_CODE_CC AcceleratorError OutOfMemoryError
            caching_allocator_disabled().__enter__() caching_allocator_enable() cudaStatus.SUCCESS has_half
        """,
        "refused": f"""
            {_GRAPHS} {_ALLOCATORS} GreenContext() current_blas_handle() current_solver_handle()
            BFloat16Storage(2) BoolStorage(2) ByteStorage(2) CharStorage(2) ComplexDoubleStorage(2)
            ComplexFloatStorage(2) DoubleStorage(2) FloatStorage(2) HalfStorage(2) IntStorage(2) LongStorage(2)
            ShortStorage(2)
        """,
    },
    "torch.cuda.amp": {"emulated": f"{_AMP} {_CUSTOM} amp_definitely_not_available()"},
    "torch.cuda.amp.autocast_mode": {"emulated": _AMP.partition(" ")[2] + " " + _CUSTOM},
    "torch.cuda.amp.common": {"emulated": "amp_definitely_not_available()"},
    "torch.cuda.amp.grad_scaler": {"emulated": _AMP.partition(" ")[0]},
    "torch.cuda.comm": {"refused": _COMMUNICATION},
    "torch.cuda.gds": {
        "refused": "GdsFile('a',0) gds_deregister_buffer(x.untyped_storage()) gds_register_buffer(x.untyped_storage())"
    },
    "torch.cuda.graphs": {"emulated": "is_current_stream_capturing()", "refused": _GRAPHS},
    "torch.cuda.green_contexts": {"harmless": "SUPPORTED", "refused": "GreenContext()"},
    "torch.cuda.jiterator": {"refused": "_create_jit_fn('x') _create_multi_output_jit_fn('x',2)"},
    "torch.cuda.memory": {
        "emulated": _MEMORY + "is_initialized() _dump_snapshot('/dev/null') _record_memory_history() _snapshot()",
        "harmless": "caching_allocator_disabled().__enter__() caching_allocator_enable()",
        "refused": _ALLOCATORS,
    },
    "torch.cuda.nccl": {
        "emulated": "is_available([x]) version()",
        "harmless": "SUM",
        "refused": """
            all_gather([x],[x]) all_reduce([x]) broadcast([x]) init_rank(1,0,0) reduce([x]) reduce_scatter([x],[x])
            unique_id()
        """,
    },
    "torch.cuda.nvtx": {
        "harmless": "mark('x') range('x').__enter__() range_end(0) range_pop() range_push('x') range_start('x')"
    },
    "torch.cuda.profiler": {
        "emulated": "check_error(0) cudart().cudaProfilerStop()",
        "harmless": "DEFAULT_FLAGS init('x') profile().__enter__() start() stop()",
    },
    "torch.cuda.random": {"emulated": _RANDOM + "current_device() device_count() is_initialized()"},
    "torch.cuda.sparse": {
        "refused": """
            BFloat16Tensor() BoolTensor() ByteTensor() CharTensor() DoubleTensor() FloatTensor() HalfTensor()
            IntTensor() LongTensor() ShortTensor()
        """
    },
    "torch.cuda.streams": {"emulated": _STREAMS},
    "torch.cuda.tunable": {
        "emulated": """
            enable(False) get_filename() get_max_tuning_duration() get_max_tuning_iterations() get_results()
            get_rotating_buffer_size() get_validators() is_enabled() read_file('none') record_untuned_enable(False)
            record_untuned_is_enabled() set_filename('x') set_max_tuning_duration(1) set_max_tuning_iterations(1)
            set_numerical_check_tolerances(True) set_rotating_buffer_size(1) tuning_enable(False) tuning_is_enabled()
        """,
        "refused": "mgpu_tune_gemm_in_file('x',1) tune_gemm_in_file('x')",
    },
    "torch.accelerator": {
        "emulated": f"""
            {_ACCELERATOR_MEMORY} current_accelerator(True).type current_device_idx() current_device_index()
            current_stream().query() device_count() device_index(1).__enter__()
            get_device_capability()['supported_dtypes'] is_available() set_device_idx(1) set_device_index(1)
            set_stream(current_stream()) synchronize()
        """,
        "refused": "Graph()",
    },
    "torch.accelerator.graphs": {"refused": "Graph()"},
    "torch.accelerator.memory": {"emulated": _ACCELERATOR_MEMORY},
    "torch.nn.parallel.comm": {"refused": _COMMUNICATION},
    "torch.distributed._symmetric_memory": {
        "harmless": """
            get_backend(torch.device('cpu')) get_signal_pad_size() is_nvshmem_available() is_symm_mem_tensor(x)
            set_signal_pad_size(64)
        """,
        "refused": """
            empty(2,device='cuda') enable_symm_mem_for_group('x') get_mem_pool('cuda') get_mempool_allocator('cuda')
            get_symm_mem_workspace('x',1) put_signal(x,None,0) reduce_scatter_offset(x,x,'x') rendezvous(x,'x')
            set_backend('NCCL') wait_signal(None,0)
        """,
    },
}
"""By module and by what becomes of them: expressions, without blanks inside."""

KINDS = ("emulated", "harmless", "refused")
_PACKAGES = ("torch.cuda", "torch.accelerator", "torch.nn.parallel.comm", "torch.distributed._symmetric_memory")


def name_of(expression: str) -> str:
    found = re.match(r"\w+", expression)
    assert found is not None
    return found[0]


def listed(module: str) -> dict[str, list[str]]:
    """The names that the table has of a module: each with the kinds that it has there."""
    kinds: dict[str, list[str]] = {}
    for kind in KINDS:
        for expression in TABLE.get(module, {}).get(kind, "").split():
            kinds.setdefault(name_of(expression), []).append(kind)
    return kinds


def public_modules() -> list[str]:
    """torch.cuda, torch.accelerator and the public modules in them."""
    found = []
    for package in _PACKAGES:
        try:
            folder = getattr(importlib.import_module(package), "__path__", ())
        except ImportError:  # torch.accelerator came with torch 2.6
            continue
        names = [each.name for each in pkgutil.walk_packages(folder, package + ".")]
        found += [package, *(name for name in names if "._" not in name[len(package) :])]
    return found


def public_names(module: ModuleType) -> set[str]:
    """The names that a module declares, and those without an underscore that come from torch.cuda; modules apart."""
    declared = set(getattr(module, "__all__", ()))
    others = {name for name, value in vars(module).items() if not name.startswith("_") and _is_of_torch_cuda(value)}
    found = declared | others - {"TYPE_CHECKING"}
    return {name for name in found if not isinstance(getattr(module, name, None), ModuleType)}


def _is_of_torch_cuda(value: object) -> bool:
    home = getattr(value, "__module__", None)
    return not isinstance(home, str) or home.startswith(("torch.cuda", "torch.accelerator", "worldsize_inrank"))


def answers() -> dict[str, dict[str, str]]:
    """What each expression of the table leads to here, by module: "" where it answers, or the error."""
    import torch

    x = torch.ones(2, device="cuda")
    found: dict[str, dict[str, str]] = {}
    for name in public_modules():
        module = importlib.import_module(name)
        expressions = [each for kind in KINDS for each in TABLE.get(name, {}).get(kind, "").split()]
        there = [each for each in expressions if hasattr(module, name_of(each))]
        found[name] = {
            each: _answer(each, {**vars(module), "__name__": "script", "torch": torch, "x": x}) for each in there
        }
    return found


def _answer(expression: str, names: dict[str, Any]) -> str:
    try:
        eval(expression, names)
    except Exception as error:  # noqa: BLE001  whatever it is, it is the answer
        return "%s: %s" % (type(error).__name__, error)
    return ""


if __name__ == "__main__":
    modules = {name: sorted(public_names(importlib.import_module(name))) for name in public_modules()}
    json.dump({"names": modules, "answers": answers()}, sys.stdout)
