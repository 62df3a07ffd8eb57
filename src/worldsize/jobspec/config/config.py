"""Configuration from the `worldsize.toml` of the project and of the user, and from the site's file. For each key the
nearest file wins.

    default_compute = "lab"

    [compute.lab]
    type = "slurm"
    runs_dir = "/shared/me/runs"
    python = "/shared/me/env/bin/python"
    gpus_per_node = 4
    partition = "gpu"          # other keys of a compute that is not local are its own: Compute.options

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

    from worldsize.jobspec.reading.tree import YamlNode

SITE_FILES = ("/etc/worldsize/config.toml", "/etc/worldsize/worldsize.toml")
"""The site's file, by two names; the first one that exists counts."""
SITE = "site"
"""The layer of the site's files in `Config.files`."""


class ComputeSettings(NamedTuple):
    """The settings of a compute, a named place to run jobs.

    runs_dir        directory of its runs; None: in the home
    gpus_per_node   GPUs on each node; None: detected, where possible
    python          the interpreter that runs agents and that `python` means in commands; None: this one, or the PATH's
    data_dir        directory of data that jobs name by URI; None: with its runs
    local_dir       parent on the nodes of directories for one run; may contain $VARIABLES of the nodes; None: the
                    usual places
    offline         whether its nodes cannot download anything
    container       runtime for images on its nodes: "apptainer", "singularity", "pyxis", "none"; None: detected
    container_options  further options of the runtime
    grace           seconds between TERM and KILL for jobs that set none; None: the job's default
    options         the other keys of its table, for the compute of its type
    envs_dir        directory in which its environments are built, if not the configuration's
    virtual_packages  virtual packages that conda may assume on its nodes: "__cuda=12.4"
    metrics         False: agents sample nothing, and ranks do not get the address for MLflow's logs
    preload         as in a job, for jobs that set none; empty: the configuration's
    check           False: nodes are not checked before ranks start, even if that would be of use
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
        """The directory `runs_dir`, or this user's own directory in it if other users make directories there too."""
        from worldsize.trust.directories import user_directory_in  # few commands need it

        return self.runs_dir and user_directory_in(self.runs_dir)


class ConfigFiles(NamedTuple):
    """The paths of configuration files that exist.

    site       the site's file
    installed  the site's file in /etc, if WORLDSIZE_SITE_CONFIG names another one: only its `[[forbidden]]` counts
    own        the user's file
    projects   the projects' files, the nearest first
    """

    site: str | None
    installed: str | None
    own: str | None
    projects: tuple[str, ...]


class ForbiddenRule(NamedTuple):
    """A rule of the site's file about what jobs may not set.

    key       a key of a job, such as "slurm.exclusive"; all keys below it are meant too
    why       the reason, for messages
    where     the place of the rule, such as "/etc/worldsize/config.toml:12"
    values    the forbidden values, as text; empty: any value
    computes  the names of the computes that it is about; empty: all
    """

    key: str
    why: str
    where: str
    values: tuple[str, ...] = ()
    computes: tuple[str, ...] = ()


class Config(NamedTuple):
    """The configuration. `origins` contains for each dotted key the origin of its value: a file, an environment
    variable by name, or "default". `default_origin` is the same for default_compute, with the line in a file.

    files            the files in force, each with its layer: "site", "user" or "project"
    places           for each dotted key of a file, its place with the line
    defaults         the site's values of job keys, by dotted key, for jobs that do not set them
    forbidden        the site's rules about what jobs may not set
    envs_dir         directory in which environments are built; None: in the home
    environments     named environments, each read as a job's `environment:`
    environment_map  meanings of Azure's names here; "*" in a name matches any text
    conda            "channels" of environments that name none, and the "channel_alias"
    notify           the command that is notified of runs whose jobs name none; "": none
    preload          as in a job, for jobs and computes that set none
    azure            meanings of Azure's names here: "computes" and "data", each a mapping of names to their meanings
    notices          messages about these files for the user, such as one about a file that does not count
    unusable         errors of computes that cannot be used, whose types are other packages', by name
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
    files: Mapping[str, str] = {}
    places: Mapping[str, str] = {}
    defaults: Mapping[str, YamlNode] = {}
    forbidden: tuple[ForbiddenRule, ...] = ()

    def compute(self, name: str | None = None, where: str | None = None) -> ComputeSettings:
        """Return the settings of the compute `name`, or of the default one if `name` is None. Raise NotFound, at
        `where` and with the nearest name, if there is none, and ConfigError if it is `unusable`."""
        wanted = name or self.default_compute
        if wanted in self.unusable:
            raise self.unusable[wanted]
        if wanted in self.computes:
            return self.computes[wanted]
        from worldsize.jobspec.reading.nearest import did_you_mean

        origin = where if name else self.default_origin
        raise NotFound(f"there is no compute {wanted!r:.60}", origin, did_you_mean(wanted, self.computes, "there are"))
