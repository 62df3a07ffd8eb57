"""torch.load: places in files and in `map_location` are checked as on a machine with GPUs, and everything is loaded to
the CPU."""

from __future__ import annotations

import functools

from . import devices, messages
from .device_marks import put_marks
from .torch_module import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional


def install() -> None:
    original = torch.load

    @functools.wraps(original)
    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        index = _gpu_index(map_location)
        if index is not None:
            _check(index)
            place: Any = torch.device("cpu")
        else:
            place = _make_map_location(map_location)
        loaded = original(f, place, *args, **kwargs)
        return loaded if index is None else put_marks(loaded, index)

    torch.load = torch.serialization.load = load
    storage = torch.storage
    for kind in (storage.UntypedStorage, storage.TypedStorage):
        kind.cuda = _keep_storage


def _keep_storage(self: Any, device: Any = None, *args: Any, **kwargs: Any) -> Any:
    devices.valid_index(None if device is None else devices.index_of(device))
    return self


def _gpu_index(place: Any) -> Optional[int]:
    """The GPU that a location names, unchecked."""
    if isinstance(place, str) and place.startswith("cuda"):
        place = torch.device(place)
    if isinstance(place, torch.device) and place.type == "cuda":
        return devices.index_of(place)
    return None


def _check(index: int) -> None:
    if devices.count() == 0:
        raise RuntimeError(messages.LOAD_WITHOUT)
    if index >= devices.count():
        raise RuntimeError(messages.LOAD % (index, devices.count()))


def _make_map_location(map_location: Any) -> Any:
    """A function for torch.load that checks what it is told; what means no GPU is left as it is."""
    if callable(map_location):
        return map_location
    if map_location is not None and not isinstance(map_location, dict):
        return map_location

    def place(storage: Any, location: str) -> Any:
        index = _gpu_index((map_location or {}).get(location, location))
        if index is not None:
            _check(index)
        return storage

    return place
