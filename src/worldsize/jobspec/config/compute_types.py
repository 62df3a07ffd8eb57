"""The types of compute in the configuration, and the keys of each; what they do is in `compute/`."""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.jobspec.config.config import LOCAL
from worldsize.jobspec.keys.hpcpack import HEAD, HPCPACK
from worldsize.jobspec.keys.job import MAX_SECONDS
from worldsize.jobspec.keys.key import Key, Keys
from worldsize.jobspec.keys.slurm import SETUP, SLURM

TYPES = (LOCAL, "slurm", "hpcpack", "azureml")
COMPUTE_KEYS: Keys = {
    "type": Key("text", "What kind of compute this is.", choices=TYPES, harmless=True),
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

KEYS_BY_TYPE: Mapping[str, Keys] = {
    LOCAL: SETUP,
    "slurm": {**SLURM, **SETUP},
    "hpcpack": {**HEAD, **HPCPACK, **SETUP},
}
"""What a compute of a type has besides these; types that are not here take what they are given."""

HARMLESS_KEYS = frozenset(
    name for keys in (COMPUTE_KEYS, *KEYS_BY_TYPE.values()) for name, key in keys.items() if key.harmless
)
"""Keys of a compute that a project's file may set without being trusted."""
