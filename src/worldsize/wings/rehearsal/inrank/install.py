"""Puts everything in its place, in the order in which it needs each other."""

from __future__ import annotations

import functools
import warnings

from . import autocast, checkpoint_loading, device_marks, devices, function_mode
from .caller import is_called_by_torch
from .cuda import devices as cuda_devices
from .cuda import memory, random_state, streams, types
from .torch_module import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def install_all() -> None:
    _patch_tensors()
    _patch_modules()
    _patch_cuda()
    _patch_default_device()
    _patch_accelerator()
    _patch_without_effect()
    autocast.install()
    checkpoint_loading.install()
    if torch.distributed.is_available():
        _patch_distributed()
    function_mode.enter_mode()


def _patch_tensors() -> None:
    for kind in (torch.Tensor, torch.nn.Parameter):
        kind.__reduce_ex__ = device_marks.without_mark(kind.__reduce_ex__)
    make = torch.nn.Parameter.__new__

    @functools.wraps(make)
    def __new__(cls: Any, data: Any = None, *args: Any, **kwargs: Any) -> Any:
        return device_marks.put_mark(
            make(cls, data, *args, **kwargs), None if data is None else device_marks.mark_of(data)
        )

    torch.nn.Parameter.__new__ = __new__
    # Intercepted as a whole, it would run hooks and custom backward functions outside the mode.
    torch.autograd.has_torch_function = lambda *_: False

    def backward(
        self: Any, gradient: Any = None, retain_graph: Any = None, create_graph: bool = False, inputs: Any = None
    ) -> None:
        torch.autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    torch.Tensor.backward = functools.wraps(torch.Tensor.backward)(backward)
    torch.Tensor.record_stream = lambda self, stream: None
    wrap = torch.from_numpy
    torch.from_numpy = lambda array: device_marks.put_mark(
        wrap(array), None if is_called_by_torch() else device_marks.CPU
    )


def _patch_modules() -> None:
    move = torch.nn.Module.to

    @functools.wraps(move)
    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        """`module.to(1)` means a GPU, which torch alone knows where it has one."""
        if args and isinstance(args[0], int) and not isinstance(args[0], bool):
            args = (torch.device("cuda", devices.valid_index(args[0])), *args[1:])
        if isinstance(kwargs.get("device"), int):
            kwargs["device"] = torch.device("cuda", devices.valid_index(kwargs["device"]))
        return move(self, *args, **kwargs)

    torch.nn.Module.to = to
    from . import sync_batch_norm

    sync_batch_norm.install()


def _patch_cuda() -> None:
    cuda = torch.cuda
    for name, function in {**cuda_devices.FUNCTIONS, **memory.FUNCTIONS, **random_state.FUNCTIONS}.items():
        setattr(cuda, name, function)
    for name, function in streams.FUNCTIONS.items():
        setattr(cuda, name, function)
    for module, functions in ((cuda.memory, memory.FUNCTIONS), (cuda.random, random_state.FUNCTIONS)):
        for name, function in functions.items():
            setattr(module, name, function)
    types.install()
    torch.Generator = random_state.Generator
    for name in ("range_push", "range_pop", "mark", "range_start", "range_end"):
        setattr(cuda.nvtx, name, cuda_devices.return_zero)
    cuda.nccl.version = lambda: (2, 21, 5)
    if torch.version.cuda is None:
        torch.version.cuda = "12.8"
    torch.backends.cuda.is_built = lambda: not is_called_by_torch()
    torch.backends.cudnn.version = lambda: None if is_called_by_torch() else 90100
    torch.backends.cudnn.is_available = lambda: not is_called_by_torch()


def _patch_default_device() -> None:
    _patch_default_types()
    use, ask = torch.set_default_device, getattr(torch, "get_default_device", None)

    def set_default_device(device: Any) -> None:
        index = None if device is None else devices.find_index(device)
        function_mode.DefaultDevice.index = index
        use(None if index is not None else device)

    torch.set_default_device = set_default_device
    if ask is not None:

        def get_default_device() -> Any:
            index = function_mode.DefaultDevice.index
            return ask() if index is None or is_called_by_torch() else torch.device("cuda", index)

        torch.get_default_device = get_default_device


def _patch_default_types() -> None:
    use = torch.set_default_tensor_type

    def set_default_tensor_type(kind: Any) -> None:
        """The old way to make every new tensor on the GPU."""
        named = f"{getattr(kind, '__module__', '')}.{getattr(kind, '__name__', '')}"
        text = kind if isinstance(kind, str) else named
        if not text.startswith("torch.cuda."):
            function_mode.DefaultDevice.index = None
            use(kind)
        else:
            use("torch." + text.rpartition(".")[2])
            function_mode.DefaultDevice.index = devices.valid_index(None)

    torch.set_default_tensor_type = set_default_tensor_type


def _patch_accelerator() -> None:
    module = getattr(torch, "accelerator", None)
    if module is None:
        return
    truth = dict(vars(module))

    def make_patched(name: str, virtual: Any) -> Any:
        def patched_function(*args: Any, **kwargs: Any) -> Any:
            return truth[name](*args, **kwargs) if is_called_by_torch() else virtual(*args, **kwargs)

        return patched_function

    answers = {
        "is_available": cuda_devices.is_available,
        "device_count": cuda_devices.device_count,
        "current_accelerator": lambda check_available=False: torch.device("cuda"),
        "synchronize": cuda_devices.synchronize,
        "current_stream": streams.current_stream,
        "set_stream": streams.set_stream,
        **dict.fromkeys(("current_device_index", "current_device_idx"), cuda_devices.current_device),
        **dict.fromkeys(("set_device_index", "set_device_idx"), cuda_devices.set_device),
        **{name: memory.FUNCTIONS[name] for name in memory.FUNCTIONS if name in truth},
        "get_memory_info": memory.mem_get_info,
    }
    for name, virtual in answers.items():
        if name in truth:
            setattr(module, name, make_patched(name, virtual))


def _patch_without_effect() -> None:
    """What would only cost time, or what a CPU says about a request for a GPU."""

    def compile(model: Any = None, **kwargs: Any) -> Any:
        """What it is given, uncompiled; a module is its own original."""
        if isinstance(model, torch.nn.Module):
            model.__dict__["_orig_mod"] = model
        return model if model is not None else lambda function: function

    torch.compile = compile
    torch.nn.Module.compile = lambda self, *args, **kwargs: None
    warnings.filterwarnings("ignore", message="'pin_memory' argument is set as true but no accelerator is found")
    torch.cuda.graphs.make_graphed_callables = streams.FUNCTIONS["make_graphed_callables"]
    _patch_attention()


def _patch_attention() -> None:
    """A GPU's choice of kernels: a CPU has fewer, and would find none."""
    from contextlib import contextmanager

    from worldsize_inrank.import_hook import call_after_import

    @contextmanager
    def choice(*args: Any, **kwargs: Any) -> Any:
        yield

    def of_module(module: Any) -> None:
        module.sdpa_kernel = choice

    call_after_import("torch.nn.attention", of_module)
    torch.backends.cuda.sdp_kernel = choice
    for name in ("flash", "mem_efficient", "math", "cudnn"):
        if hasattr(torch.backends.cuda, f"enable_{name}_sdp"):
            setattr(torch.backends.cuda, f"enable_{name}_sdp", cuda_devices.do_nothing)


def _patch_distributed() -> None:
    from worldsize_inrank.import_hook import call_after_import

    from . import collectives, ddp_checks, device_meshes, process_exit, process_groups

    process_exit.install()
    process_groups.install()
    collectives.install(torch.distributed.distributed_c10d)
    ddp_checks.install()
    call_after_import("torch.distributed.device_mesh", device_meshes.install_meshes)
    for name in ("torch.distributed.tensor", "torch.distributed._tensor"):
        call_after_import(name, device_meshes.install_tensors)
    for name in ("torch.distributed.fsdp", "torch.distributed._composable.fsdp"):
        call_after_import(name, device_meshes.install_fully_shard)
    call_after_import("torch.distributed.fsdp", device_meshes.install_fsdp)
