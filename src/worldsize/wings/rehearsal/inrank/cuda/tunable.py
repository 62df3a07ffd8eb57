"""The functions of torch.cuda.tunable. Settings are stored and returned; nothing is tuned (see refusals.py)."""

from __future__ import annotations

import os
from typing import Any, Callable, Optional

_settings: dict[str, Any] = {
    "is_enabled": False,
    "tuning_is_enabled": True,
    "record_untuned_is_enabled": False,
    "get_max_tuning_duration": 30,
    "get_max_tuning_iterations": 100,
    "get_filename": "tunableop_results.csv",
    "get_rotating_buffer_size": 0,
}
"""The settings by the name of the function that returns them. The initial values are those of torch."""

_SETTERS = {
    "enable": "is_enabled",
    "tuning_enable": "tuning_is_enabled",
    "record_untuned_enable": "record_untuned_is_enabled",
    "set_max_tuning_duration": "get_max_tuning_duration",
    "set_max_tuning_iterations": "get_max_tuning_iterations",
    "set_filename": "get_filename",
    "set_rotating_buffer_size": "get_rotating_buffer_size",
}


def _make_getter(name: str) -> Callable[[], Any]:
    return lambda: _settings[name]


def _make_setter(name: str) -> Callable[..., None]:
    def change(value: Any = True, insert_device_ordinal: bool = False) -> None:
        _settings[name] = value

    return change


def read_file(filename: Optional[str] = None) -> bool:
    """Return whether the file of tuning results exists: `filename`, or the one that was set. Its content is not
    read."""
    return os.path.isfile(filename or _settings["get_filename"])


FUNCTIONS: dict[str, Any] = {
    **{name: _make_getter(name) for name in _settings},
    **{name: _make_setter(setting) for name, setting in _SETTERS.items()},
    "read_file": read_file,
    "get_results": lambda: (),
    "get_validators": lambda: (),
    "set_numerical_check_tolerances": lambda *args, **kwargs: None,
}
"""The functions by their names in torch.cuda.tunable."""
