"""Puts everything in its place, in the order in which it needs each other."""

from __future__ import annotations

import functools
import warnings

from . import autocast, checkpoint_loading, device_marks, devices, function_mode
from .caller import torch_asks
from .cuda import devices as cuda_devices
from .cuda import memory, random_state, streams, types
from .torch_module import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def everything() -> None:
    _tensors()
    _modules()
    _cuda()
    _defaults()
    _accelerator()
    _harmless()
    autocast.install()
    checkpoint_loading.install()
    if torch.distributed.is_available():
        _distributed()
    function_mode.enter()


def _tensors() -> None:
    for kind in (torch.Tensor, torch.nn.Parameter):
        kind.__reduce_ex__ = device_marks.without_mark(kind.__reduce_ex__)
    make = torch.nn.Parameter.__new__

    @functools.wraps(make)
    def __new__(cls: Any, data: Any = None, *args: Any, **kwargs: Any) -> Any:
        return device_marks.put(make(cls, data, *args, **kwargs), None if data is None else device_marks.mark_of(data))

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
    torch.from_numpy = lambda array: device_marks.put(wrap(array), None if torch_asks() else device_marks.CPU)


def _modules() -> None:
    move = torch.nn.Module.to

    @functools.wraps(move)
    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        """`module.to(1)` means a GPU, which torch alone knows where it has one."""
        if args and isinstance(args[0], int) and not isinstance(args[0], bool):
            args = (torch.device("cuda", devices.checked(args[0])), *args[1:])
        if isinstance(kwargs.get("device"), int):
            kwargs["device"] = torch.device("cuda", devices.checked(kwargs["device"]))
        return move(self, *args, **kwargs)

    torch.nn.Module.to = to
    from . import sync_batch_norm

    sync_batch_norm.install()


def _cuda() -> None:
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
        setattr(cuda.nvtx, name, cuda_devices.zero)
    cuda.nccl.version = lambda: (2, 21, 5)
    if torch.version.cuda is None:
        torch.version.cuda = "12.8"
    torch.backends.cuda.is_built = lambda: not torch_asks()
    torch.backends.cudnn.version = lambda: None if torch_asks() else 90100
    torch.backends.cudnn.is_available = lambda: not torch_asks()


def _defaults() -> None:
    _default_types()
    use, ask = torch.set_default_device, getattr(torch, "get_default_device", None)

    def set_default_device(device: Any) -> None:
        index = None if device is None else devices.asked(device)
        function_mode.Default.index = index
        use(None if index is not None else device)

    torch.set_default_device = set_default_device
    if ask is not None:

        def get_default_device() -> Any:
            index = function_mode.Default.index
            return ask() if index is None or torch_asks() else torch.device("cuda", index)

        torch.get_default_device = get_default_device


def _default_types() -> None:
    use = torch.set_default_tensor_type

    def set_default_tensor_type(kind: Any) -> None:
        """The old way to make every new tensor on the GPU."""
        named = "%s.%s" % (getattr(kind, "__module__", ""), getattr(kind, "__name__", ""))
        text = kind if isinstance(kind, str) else named
        if not text.startswith("torch.cuda."):
            function_mode.Default.index = None
            use(kind)
        else:
            use("torch." + text.rpartition(".")[2])
            function_mode.Default.index = devices.checked(None)

    torch.set_default_tensor_type = set_default_tensor_type


def _accelerator() -> None:
    module = getattr(torch, "accelerator", None)
    if module is None:
        return
    truth = dict(vars(module))

    def seen(name: str, virtual: Any) -> Any:
        def function(*args: Any, **kwargs: Any) -> Any:
            return truth[name](*args, **kwargs) if torch_asks() else virtual(*args, **kwargs)

        return function

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
            setattr(module, name, seen(name, virtual))


def _harmless() -> None:
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
    _attention()


def _attention() -> None:
    """A GPU's choice of kernels: a CPU has fewer, and would find none."""
    from contextlib import contextmanager

    from ..import_hook import when_imported

    @contextmanager
    def choice(*args: Any, **kwargs: Any) -> Any:
        yield

    def of_module(module: Any) -> None:
        module.sdpa_kernel = choice

    when_imported("torch.nn.attention", of_module)
    torch.backends.cuda.sdp_kernel = choice
    for name in ("flash", "mem_efficient", "math", "cudnn"):
        if hasattr(torch.backends.cuda, "enable_%s_sdp" % name):
            setattr(torch.backends.cuda, "enable_%s_sdp" % name, cuda_devices.nothing)


def _distributed() -> None:
    from ..import_hook import when_imported
    from . import collectives, ddp_checks, device_meshes, process_exit, process_groups

    process_exit.install()
    process_groups.install()
    collectives.install(torch.distributed.distributed_c10d)
    ddp_checks.install()
    when_imported("torch.distributed.device_mesh", device_meshes.install_meshes)
    for name in ("torch.distributed.tensor", "torch.distributed._tensor"):
        when_imported(name, device_meshes.install_tensors)
    for name in ("torch.distributed.fsdp", "torch.distributed._composable.fsdp"):
        when_imported(name, device_meshes.install_fully_shard)
    when_imported("torch.distributed.fsdp", device_meshes.install_first_version)
