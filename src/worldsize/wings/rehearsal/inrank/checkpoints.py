"""The replacement of torch.load: devices in files and in `map_location` are checked as on a machine with GPUs, and
everything is loaded to the CPU."""

from __future__ import annotations

from typing import Any, Optional

from . import devices, messages
from .device_marks import put_marks
from .torch_module import patch, torch


def install() -> None:
    patch(torch.serialization, "load", _load, torch)
    for kind in (torch.storage.UntypedStorage, torch.storage.TypedStorage):
        kind.cuda = _keep_storage


def _load(load: Any, f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
    index = _gpu_index(map_location)
    if index is None:
        return load(f, _make_map_location(map_location), *args, **kwargs)
    _check(index)
    devices.begin_cuda()
    return put_marks(load(f, torch.device("cpu"), *args, **kwargs), index)


def _keep_storage(self: Any, device: Any = None, *args: Any, **kwargs: Any) -> Any:
    devices.valid_device(device)
    return self


def _gpu_index(place: Any) -> Optional[int]:
    """Return the index of the virtual GPU that `place`, a location in torch.load, names, without checking that the GPU
    exists; None if it names no GPU."""
    if isinstance(place, (str, torch.device)) and str(place).startswith("cuda"):
        return devices.index_of(place)
    return None


def _check(index: int) -> None:
    if devices.count() == 0:
        raise RuntimeError(messages.LOAD_WITHOUT)
    if index >= devices.count():
        raise RuntimeError(messages.LOAD % (index, devices.count()))


def _make_map_location(map_location: Any) -> Any:
    """Return a `map_location` function for torch.load that checks the GPU of each storage and leaves the storage on the
    CPU. A `map_location` that is neither None nor a dict is returned unchanged."""
    if map_location is not None and not isinstance(map_location, dict):
        return map_location

    def place(storage: Any, location: str) -> Any:
        index = _gpu_index((map_location or {}).get(location, location))
        if index is not None:
            _check(index)
        return storage

    return place
