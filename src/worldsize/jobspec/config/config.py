"""Configuration: `worldsize.toml` in the project, of the user and of the site, key by key the nearest winning.

```
default_compute = "lab"

[compute.lab]
type = "slurm"
runs_dir = "/shared/me/runs"
python = "/shared/me/env/bin/python"
gpus_per_node = 4
partition = "gpu"          # other keys of a compute that is not local are its own: Compute.options
```
Paths are relative to the file that names them.
"""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.common.named_tuple import NamedTuple
from worldsize.errors import ConfigError, NotFound
from worldsize.jobspec.config.compute_types import LOCAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class ComputeSettings(NamedTuple):
    """A named place to run jobs.

    runs_dir        where its runs are kept; None: in the home
    gpus_per_node   None: found out, where possible
    python          the interpreter that runs agents and that `python` means in commands; None: this one, or the PATH's
    data_dir        where data that jobs name by URI is kept; None: with its runs
    local_dir       where nodes make directories of a run's own; may hold $VARIABLES of theirs; None: the usual places
    offline         its nodes cannot download anything
    container       what runs images on its nodes: "apptainer", "singularity", "pyxis", "none"; None: found out
    container_options  further options of it
    grace           seconds between TERM and KILL for jobs that say nothing; None: the job's default
    options         what else its table says, for the compute of its type
    envs_dir        where environments are built for it, if not where the configuration says
    virtual_packages  what conda may count on on its nodes: "__cuda=12.4"
    metrics         False: agents sample nothing, and ranks are not told where MLflow is to log
    preload         as of a job, for jobs that do not say; empty: the configuration's
    check           False: nodes are not checked before ranks start, where that would be of use
    """

    name: str = LOCAL
    type: str = LOCAL
    runs_dir: str | None = None
    gpus_per_node: int | None = None
    python: str | None = None
    data_dir: str | None = None
    local_dir: str | None = None
    offline: bool = False
    container: str | None = None
    container_options: tuple[str, ...] = ()
    grace: float | None = None
    options: Mapping[str, Any] = {}
    envs_dir: str | None = None
    virtual_packages: tuple[str, ...] = ()
    metrics: bool | None = None
    check: bool | None = None
    preload: tuple[str, ...] = ()

    @property
    def own_runs_dir(self) -> str | None:
        """`runs_dir`, or this user's own directory in one where others make directories too."""
        from worldsize.trust.directories import user_directory_in  # few commands need it

        return self.runs_dir and user_directory_in(self.runs_dir)


class Config(NamedTuple):
    """What is configured. `origins` tells for each dotted key where its value comes from: a file, an environment
    variable by name, or "default"; `default_origin` the same for default_compute, with the line in a file.

    envs_dir         where environments are built; None: in the home
    environments     named ones, each as a job's `environment:` is read
    environment_map  what names of Azure's mean here; "*" in a name stands for anything
    conda            "channels" of environments that name none, and the "channel_alias"
    notify           the command that is told of runs whose jobs name none; "": none
    preload          as of a job, for jobs and computes that do not say
    azure            what names of Azure's mean here: "computes" and "data", each from names to what they stand for
    notices          what a person should know of these files, such as one that does not count
    unusable         why computes cannot be used whose types are other packages', by name
    """

    home: str = ""
    default_compute: str = LOCAL
    computes: Mapping[str, ComputeSettings] = {}
    origins: Mapping[str, str] = {}
    default_origin: str = "default"
    envs_dir: str | None = None
    environments: Mapping[str, Any] = {}
    environment_map: Mapping[str, str] = {}
    conda: Mapping[str, Any] = {}
    notify: str = ""
    preload: tuple[str, ...] = ("auto",)
    azure: Mapping[str, Mapping[str, str]] = {}
    notices: tuple[str, ...] = ()
    unusable: Mapping[str, ConfigError] = {}

    def compute(self, name: str | None = None, where: str | None = None) -> ComputeSettings:
        """Return the compute `name`, or the default one. Raises NotFound, with the nearest name, when there is none,
        and ConfigError where it is `unusable`."""
        wanted = name or self.default_compute
        if wanted in self.unusable:
            raise self.unusable[wanted]
        if wanted in self.computes:
            return self.computes[wanted]
        from worldsize.jobspec.reading.nearest import did_you_mean

        origin = where if name else self.default_origin
        raise NotFound(f"there is no compute {wanted!r:.60}", origin, did_you_mean(wanted, self.computes, "there are"))
