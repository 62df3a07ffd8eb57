"""The keys of a compute's table in the configuration, by its type, and the types that other packages provide.

Such a type is an entry point in the group `worldsize.computes`. Its name is the type. Its object is a module that
serves both as the `compute` and as the `settings` of `ComputeType`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain

from worldsize.errors import ConfigError
from worldsize.jobspec.config.compute_types import COMPUTE_TYPES, LOCAL
from worldsize.jobspec.config.config import ComputeSettings
from worldsize.jobspec.keys.job import MAX_SECONDS
from worldsize.jobspec.keys.key import Key, Keys
from worldsize.jobspec.keys.slurm import SETUP, SLURM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from worldsize.entry_points import ExternalPart
    from worldsize.jobspec.reading.tree import YamlNode

GROUP = "worldsize.computes"
_NEEDED = ("KEYS", "open_compute", "compute_of_run")
"""Attributes that the module of an entry point must have."""
COMPUTE_KEYS: Keys = {
    "type": Key("text", "The type of the compute.", choices=tuple(COMPUTE_TYPES), harmless=True),
    "runs_dir": Key("path", "Where this compute's runs are kept.", blank=False),
    "gpus_per_node": Key("int", "GPUs on each node.", minimum=0, maximum=1024, harmless=True),
    "data_dir": Key("path", "Where data that jobs name by URI is kept.", blank=False),
    "local_dir": Key("text", "Where nodes create directories for each run, such as /scratch/$USER.", blank=False),
    "offline": Key("flag", "Nodes of this compute cannot download anything.", harmless=True),
    "container": Key(
        "text",
        "The program that runs container images on the nodes.",
        choices=("apptainer", "singularity", "pyxis", "none"),
        harmless=True,
    ),
    "container_options": Key("texts", "Further options of `apptainer exec`, or of srun with Pyxis.", blank=False),
    "python": Key("text", "The interpreter on the nodes.", blank=False),
    "preload": Key("preload", "auto, off, or modules that each node imports once for all of its ranks."),
    "grace": Key("number", "Seconds between TERM and KILL.", minimum=0, maximum=MAX_SECONDS, harmless=True),
    "envs_dir": Key("path", "Where environments are built for this compute.", blank=False),
    "virtual_packages": Key(
        "texts", "What conda may assume about the nodes: __cuda=12.4, __glibc=2.28.", blank=False, harmless=True
    ),
    "metrics": Key(
        "flag", "Whether agents sample the ranks' resource use, and ranks log metrics to the run.", harmless=True
    ),
    "check": Key("flag", "Whether nodes are checked before ranks start, where that is useful.", harmless=True),
}


_OWN_KEYS: Mapping[str, Keys] = {LOCAL: SETUP, "slurm": {**SLURM, **SETUP}}
"""Keys of the types whose settings are in no module."""


def call_settings(kind: str, function: str, otherwise: Any, *given: Any) -> Any:
    """Call the function named `function` of the settings module of the compute type `kind` with the arguments `given`,
    and return its result; return `otherwise` if there is no such function. Raise ConfigError if the code of another
    package raises an exception or returns a wrong value."""
    called = getattr(_find_settings(kind), function, None)
    if called is None:
        return otherwise
    if kind in COMPUTE_TYPES:
        return called(*given)
    return external_part(kind).call(function, partial(called, *given), *_RETURNS[function])


def _is_settings(made: Any) -> bool:
    return made is None or (isinstance(made, dict) and set(made) <= set(ComputeSettings._fields) - {"name"})


def _is_path_mapping(made: Any) -> bool:
    return isinstance(made, tuple) and all(len(pair) == 2 and all(isinstance(p, str) for p in pair) for pair in made)


_RETURNS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "complete_settings": (_is_settings, "the fields of a ComputeSettings"),
    "key_hint": (lambda made: made is None or isinstance(made, str), "a text or None"),
    "path_mapping": (_is_path_mapping, "a tuple of pairs of paths"),
}
"""Results of the functions of another package's settings: the test of whether a result is right, and its name in
messages."""


def external_part(kind: str) -> ExternalPart:
    """Return an ExternalPart for the compute type `kind` of another package, by which the type is looked up and named
    in messages."""
    from worldsize.entry_points import ExternalPart

    return ExternalPart(GROUP, kind, "the compute type")


def _find_settings(kind: str) -> ModuleType | None:
    """Return the module with the settings (`KEYS`) of the compute type `kind`; None if the type needs no such module,
    or if this installation lacks it. For a type of another package, raise ConfigError if it cannot be used."""
    if kind in COMPUTE_TYPES:
        from worldsize.registry import find_module

        name = COMPUTE_TYPES[kind].settings
        return find_module(name) if name else None
    return find_external_type(kind)


def find_external_type(kind: str) -> ModuleType | None:
    """Return the module that another package provides for the compute type `kind`; None if no package does. Raise
    ConfigError if the module cannot be used."""
    part = external_part(kind)
    module: ModuleType | None = part.load(_NEEDED)
    if module is None:
        return None
    missing = [name for name in _NEEDED[1:] if not callable(getattr(module, name))]
    if missing:
        raise part.problem(f"cannot be used: {', '.join(missing)} are not functions")
    if not _are_keys(module.KEYS):
        raise part.problem("cannot be used: its KEYS are not a mapping of names to keys")
    return module


def _are_keys(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, Key) for key in value.values())


def keys_of_type(kind: str) -> Keys | None:
    """Return the keys, by name, that the table of a compute of type `kind` may have in addition to COMPUTE_KEYS; None
    if they are not known, so that any key is accepted."""
    if kind in _OWN_KEYS:
        return _OWN_KEYS[kind]
    module = _find_settings(kind)
    return module.KEYS if module is not None else None


def type_key(said: object) -> Key:
    """Return the Key for `type` in a compute's table, with the allowed types as choices: worldsize's own types, and, if
    the written value `said` is none of these, also all types that installed packages provide."""
    key = COMPUTE_KEYS["type"]
    if not isinstance(said, str) or said.lower() in COMPUTE_TYPES:
        return key
    from worldsize.entry_points import entry_point_names

    return key._replace(choices=(*COMPUTE_TYPES, *entry_point_names(GROUP)))


def unknown_type(said: YamlNode, path: str) -> ConfigError | None:
    """Return the error of the compute whose table is at `path` if its type `said` seems to belong to a package that is
    not installed here; None if the type is known, not a text, or similar to a known one and so probably misspelled."""
    if not isinstance(said.value, str):
        return None
    from worldsize.jobspec.reading.nearest import nearest_word

    known = type_key(said.value).choices
    if said.value.lower() in map(str.lower, known) or nearest_word(said.value, known):
        return None
    what = f"{said.value!r:.60} is not one of the types that are installed here"
    hint = f"install the package that provides it, or use one of: {', '.join(known)}"
    return ConfigError(what, f"{said.where}: {path}.type", hint)


def is_harmless(name: str) -> bool:
    """Return whether a project's worldsize.toml may set the key `name` of a compute without being trusted. The first
    table of keys that has the name decides. Keys that only types of other packages have are not harmless. A module is
    imported only for a key that no earlier table has."""
    tables = chain((COMPUTE_KEYS,), (keys_of_type(kind) or {} for kind in COMPUTE_TYPES))
    return next((keys[name].harmless for keys in tables if name in keys), False)
