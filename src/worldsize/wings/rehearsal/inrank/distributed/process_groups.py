"""Process groups. A group of `nccl` is created with gloo, and reports nccl. What NCCL would refuse is refused."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from typing import Any, Optional

from .. import devices, messages
from ..caller import is_called_by_torch
from ..device_marks import CPU, mark_of
from ..torch_module import arguments_of, patch, torch

_UNDEFINED = "undefined"
_nccl_groups: dict[str, str] = {}
"""The groups with nccl for GPUs' tensors: by name, the backend that was requested, `undefined` if none was."""
_checked_groups: set[str] = set()
_LOOPBACK = ("localhost", "127.", "[::1]", "0.0.0.0")  # nosec B104  # only compared


def install() -> None:
    c10d: Any = torch.distributed.distributed_c10d
    wrappers: dict[str, Any] = {
        "init_process_group": _init_process_group,
        "new_group": _new_group,
        "get_backend": _get_backend,
        "destroy_process_group": _destroy_process_group,
        "is_backend_available": _is_backend_available,
        "is_nccl_available": lambda ask: not is_called_by_torch(),
    }
    for name, wrapper in wrappers.items():
        patch(c10d, name, wrapper, torch.distributed)
    if not hasattr(torch.distributed, "ProcessGroupNCCL"):
        torch.distributed.ProcessGroupNCCL = c10d.ProcessGroupNCCL = _ProcessGroupNCCL
    atexit.register(_destroy_left_group)  # registered before the script's own functions, so that it runs after them


def name_of(group: Any) -> str:
    group = torch.distributed.distributed_c10d._get_default_group() if group is None else group
    return str(getattr(group, "group_name", id(group)))


def is_nccl(group: Any) -> bool:
    return torch.distributed.is_initialized() and name_of(group) in _nccl_groups


def has_cpu(group: Any) -> bool:
    """Return whether a process group that was requested with nccl also has a backend for the CPU's tensors."""
    asked = _nccl_groups[name_of(group)]
    return "cpu:" in asked or (asked == _UNDEFINED and _is_undefined_for_all())


def _is_undefined_for_all() -> bool:
    """Return whether a process group that is created without a backend's name has backends for all devices, as in older
    versions of torch. In newer versions it has one for the accelerator only."""
    c10d: Any = torch.distributed.distributed_c10d
    return "cuda" in c10d.BackendConfig(c10d.Backend(_UNDEFINED)).device_backend_map


def check_place(group: Any, tensor: Any) -> Optional[int]:
    """Check that a tensor is where the process group can use it; with NCCL that is a GPU. Return the GPU's index; None
    if the tensor is on the CPU, if its place is unknown, or if the group is not nccl. Raise RuntimeError if the tensor
    is on the CPU and the group has no backend for it."""
    if not is_nccl(group) or not isinstance(tensor, torch.Tensor):
        return None
    mark = mark_of(tensor)
    if mark == CPU and not has_cpu(group):
        raise RuntimeError(messages.NO_BACKEND)
    return None if mark == CPU else mark


def check_tensor(group: Any, tensor: Any) -> None:
    """Check a tensor of a collective on a process group as NCCL does, which accepts only tensors on a GPU, and needs a
    different GPU for each process. Raise RuntimeError, DistBackendError."""
    check_devices(group, check_place(group, tensor))


def check_asynchronous_save(save: Any, *args: Any, **kwargs: Any) -> Any:
    """Save a checkpoint in the background with torch's function `save` (async_save), and return its result. Raise
    AssertionError if the process group is nccl without a backend for the CPU's tensors."""
    group = kwargs.get("process_group")
    if is_nccl(group) and not has_cpu(group):
        raise AssertionError(messages.ASYNCHRONOUS_SAVE)
    return save(*args, **kwargs)


def check_devices(group: Any, index: Optional[int]) -> None:
    """Check that the ranks of a process group with nccl use different GPUs; `index` is this rank's. The check is done
    once for each group, with the first tensor on a GPU. Raise DistBackendError if two processes use one GPU, which NCCL
    refuses."""
    if index is None or not is_nccl(group) or name_of(group) in _checked_groups:
        return
    _checked_groups.add(name_of(group))
    node = os.environ.get("WORLDSIZE_NODE_RANK") or os.environ.get("SLURMD_NODENAME")
    mine = (node, devices.visible_gpus()[index])
    c10d: Any = torch.distributed.distributed_c10d
    found: list[Any] = [None] * torch.distributed.get_world_size(group)
    c10d.all_gather_object(found, mine, group=group)
    me = torch.distributed.get_rank(group)
    for rank, other in enumerate(found):
        if rank != me and other == mine and node is not None:
            kind: Any = getattr(torch.distributed, "DistBackendError", RuntimeError)
            raise kind(messages.DUPLICATE % (me, rank, mine[1]))


def _init_process_group(init: Any, *args: Any, **kwargs: Any) -> Any:
    said = arguments_of(init, args, kwargs)
    _check_world(said)
    device, asked = said.pop("device_id", None), str(said.get("backend") or _UNDEFINED).lower()
    if device is not None:
        _check_device_id(device)
    if asked == _UNDEFINED and devices.count():
        asked = _UNDEFINED if device is None else "nccl"
    elif "nccl" not in asked:
        return init(**said)
    said.pop("pg_options", None)
    result = init(**{**said, "backend": "gloo"})
    _wait_for_all()
    _nccl_groups[name_of(None)] = asked
    return result


def _wait_for_all() -> None:
    """Wait until all ranks of the default process group are connected. gloo connects here: if a rank ended earlier, its
    peers would fail with "connectFullMesh failed". NCCL connects in the first collective, so that this does not occur
    on GPUs."""
    group: Any = torch.distributed.distributed_c10d._get_default_group()
    group.barrier().wait()


def _check_device_id(device: Any) -> None:
    """Check the `device_id` of init_process_group, the GPU to which the process group is bound, without beginning CUDA.
    Raise ValueError if it is the CPU, has no index, or does not exist."""
    place = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    if place.type == "cpu":
        raise ValueError(messages.BOUND_TO_CPU)
    if place.type == "cuda" and place.index is None:
        raise ValueError(messages.BOUND_TO_ANY)
    if place.type == "cuda" and place.index >= devices.count():
        raise ValueError(messages.BOUND_TO_MISSING % (place, devices.count()))


def _check_world(said: Any) -> None:
    """Check `said`, the arguments of init_process_group by name. Raise RuntimeError if their world size or address
    cannot be right on a cluster, where the script would wait until the time-out."""
    asked, has = said.get("world_size", -1), os.environ.get("WORLDSIZE_WORLD_SIZE")
    method = str(said.get("init_method") or "env://")
    address, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
    if method.startswith("tcp://"):
        address, _, port = method[len("tcp://") :].partition("?")[0].rpartition(":")
    elif method.startswith("env"):
        asked = int(os.environ.get("WORLD_SIZE", -1)) if asked in (None, -1) else asked
    if has is None or said.get("store") is not None or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") or not asked:
        return
    gpus, node = devices.node_gpu_count(), int(os.environ.get("WORLDSIZE_NODE_RANK", "0"))
    world = int(has) if _is_rank() else max(int(has), gpus * int(os.environ.get("WORLDSIZE_NODE_COUNT", "1")))
    if asked > world:
        raise RuntimeError(messages.WORLD % (asked, world))
    on_node = max(gpus, int(os.environ.get("WORLDSIZE_LOCAL_WORLD_SIZE", "1")))
    place = f"{address}:{port}"
    if node and asked > on_node and address.startswith(_LOOPBACK) and place != os.environ.get("WORLDSIZE_HEAD"):
        raise RuntimeError(messages.LOOPBACK % (int(os.environ.get("WORLDSIZE_RANK", "0")), node, place))


def _is_rank() -> bool:
    """Return whether this process is a rank, and not a process that a rank has started."""
    import multiprocessing

    return multiprocessing.current_process().name == "MainProcess"


def _new_group(make: Any, *args: Any, **kwargs: Any) -> Any:
    said = arguments_of(make, args, kwargs)
    asked = said.get("backend")
    backend = _nccl_groups.get(name_of(None), "") if asked is None else str(asked).lower()
    with_nccl = "nccl" in backend or (backend == _UNDEFINED and devices.count() > 0)
    plain = {name: value for name, value in said.items() if name not in ("device_id", "pg_options")}
    group = make(**{**plain, "backend": "gloo" if with_nccl else asked})
    if with_nccl and hasattr(group, "group_name"):
        _nccl_groups[name_of(group)] = backend
    return group


def _get_backend(ask: Any, group: Any = None) -> Any:
    backend = ask(group)
    return backend if is_called_by_torch() or not is_nccl(group) else _nccl_groups[name_of(group)]


def _is_backend_available(ask: Any, backend: str) -> bool:
    return "nccl" in backend.lower() or bool(ask(backend))


def _destroy_process_group(destroy: Any, group: Any = None) -> None:
    names = [name_of(group)] if group is not None else list(_nccl_groups)
    destroy(group)
    for name in names:
        _nccl_groups.pop(name, None)
        _checked_groups.discard(name)


def _destroy_left_group() -> None:
    """Destroy the process group at the exit of a script that has not done so, as is common with NCCL. Otherwise gloo's
    threads sometimes abort the process at its end, after all its work is done. If a reference keeps the group even
    then, the hook of every rank releases it later (`sitecustomize`). After an uncaught exception nothing is done: other
    ranks may wait for this process, which must end at once."""
    if getattr(sys, "last_type", None) is not None or not torch.distributed.is_initialized():
        return
    gc.collect()
    try:
        torch.distributed.destroy_process_group()
    except (RuntimeError, ValueError, AssertionError):
        pass  # the group ends with the process


class _ProcessGroupNCCL:
    """A replacement for torch's class, for scripts that set options of NCCL. The options have no effect."""

    class Options:
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.config = type("config", (), {})()
            self.is_high_priority_stream = False
