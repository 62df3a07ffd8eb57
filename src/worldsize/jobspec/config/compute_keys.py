"""The keys of a compute's table in the configuration, by its type; and the types that other packages bring.

Such a type is an entry point in the group `worldsize.computes`, whose name is the type, and whose object is a module:
both the `compute` and the `settings` of `ComputeType`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from worldsize.errors import ConfigError
from worldsize.jobspec.config.config import COMPUTE_TYPES, LOCAL
from worldsize.jobspec.keys.job import MAX_SECONDS
from worldsize.jobspec.keys.key import Key, Keys
from worldsize.jobspec.keys.slurm import SETUP, SLURM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any


GROUP = "worldsize.computes"
EXTERNAL = "the compute type"
"""What an entry point of that group is called in messages."""
FUNCTIONS = ("KEYS", "open_compute", "compute_of_run")
"""What the module of an entry point must have."""
COMPUTE_KEYS: Keys = {
    "type": Key("text", "What kind of compute this is.", choices=tuple(COMPUTE_TYPES), harmless=True),
    "runs_dir": Key("path", "Where this compute's runs are kept.", blank=False),
    "gpus_per_node": Key("int", "GPUs on each node.", minimum=0, maximum=1024, harmless=True),
    "data_dir": Key("path", "Where data that jobs name by URI is kept.", blank=False),
    "local_dir": Key("text", "Where nodes make directories of a run's own, such as /scratch/$USER.", blank=False),
    "offline": Key("flag", "Its nodes cannot download anything.", harmless=True),
    "container": Key(
        "text",
        "What runs container images on its nodes.",
        choices=("apptainer", "singularity", "pyxis", "none"),
        harmless=True,
    ),
    "container_options": Key("texts", "Further options of `apptainer exec`, or of srun with Pyxis.", blank=False),
    "python": Key("text", "The interpreter on the nodes.", blank=False),
    "grace": Key("number", "Seconds between TERM and KILL.", minimum=0, maximum=MAX_SECONDS, harmless=True),
    "envs_dir": Key("path", "Where environments are built for this compute.", blank=False),
    "virtual_packages": Key(
        "texts", "What conda may count on on its nodes: __cuda=12.4, __glibc=2.28.", blank=False, harmless=True
    ),
}


_OWN_KEYS: Mapping[str, Keys] = {LOCAL: SETUP, "slurm": {**SLURM, **SETUP}}
"""Of the types whose settings are no module's."""


def call_settings(kind: str, function: str, otherwise: Any, *given: Any) -> Any:
    """What a function of the type's settings returns, `otherwise` where they have none of this name. ConfigError for
    whatever the code of another package raises."""
    module = _find_settings(kind)
    called = getattr(module, function, None)
    if called is None:
        return otherwise
    if kind in COMPUTE_TYPES:
        return called(*given)
    from worldsize.entry_points import call_external

    return call_external(GROUP, kind, EXTERNAL, partial(called, *given))


def _find_settings(kind: str) -> ModuleType | None:
    """None where a type needs none, or this installation is without its wing."""
    if kind in COMPUTE_TYPES:
        from worldsize.registry import find_module

        name = COMPUTE_TYPES[kind].settings
        return find_module(name) if name else None
    return find_external_type(kind)


def find_external_type(kind: str) -> ModuleType | None:
    """The module that another package has for this type; None where none has. ConfigError where it cannot be used."""
    from worldsize.entry_points import load_entry_point

    module: ModuleType | None = load_entry_point(GROUP, kind, EXTERNAL, FUNCTIONS)
    if module is not None and not _are_keys(module.KEYS):
        raise ConfigError(f"KEYS of {EXTERNAL} {kind} are no mapping of names to keys")
    return module


def _are_keys(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, Key) for key in value.values())


def keys_of_type(kind: str) -> Keys | None:
    """What the table of a compute of this type has besides COMPUTE_KEYS; None: it takes what it is given."""
    if kind in _OWN_KEYS:
        return _OWN_KEYS[kind]
    module = _find_settings(kind)
    return module.KEYS if module is not None else None


def type_key(said: object) -> Key:
    """The key `type`, whose choices are our own types, or all that are installed where `said` is none of ours."""
    key = COMPUTE_KEYS["type"]
    if not isinstance(said, str) or said.lower() in COMPUTE_TYPES:
        return key
    from worldsize.entry_points import entry_point_names

    return key._replace(choices=(*COMPUTE_TYPES, *entry_point_names(GROUP)))


def is_harmless(name: str) -> bool:
    """Whether a project's file may set this key of a compute without being trusted. What only types of other packages
    have is not."""
    return any(name in keys and keys[name].harmless for keys in _own_keys())


def _own_keys() -> Iterator[Keys]:
    """The tables that need no import come first."""
    yield COMPUTE_KEYS
    yield from _OWN_KEYS.values()
    for kind, each in COMPUTE_TYPES.items():
        if each.settings:
            yield keys_of_type(kind) or {}
