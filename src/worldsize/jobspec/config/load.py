"""Choice of the configuration for a directory: from the site, the user, the projects above it, and the environment.

If there is no file, this costs a few system calls, and no import that other commands do not need.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from worldsize.jobspec.config.compute_types import LOCAL
from worldsize.jobspec.config.config import SITE_FILES, ComputeSettings, Config, ConfigFiles
from worldsize.trust.keys import config_home, user_home
from worldsize.trust.links import with_parents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.trust.projects import Ask

FILE_NAME = "worldsize.toml"

_DEFAULTS = {"home": "default", "default_compute": "default", "compute.local.type": "default"}


def config_directory() -> str:
    """Return the directory for which the configuration is loaded: the current directory. If that no longer exists,
    return the root directory, above which there is no project."""
    try:
        return os.getcwd()
    except OSError:
        return os.sep


def load_config(cwd: str, environ: Mapping[str, str], ask: Ask | None = None) -> Config:
    """Return the configuration for the directory `cwd` (absolute). `worldsize.trust` decides whether files count that
    other users could have written, and a project's files that decide what is executed. `ask` asks the user, once.

    Raise ConfigError, with file and line where known, for files that cannot be read, are not TOML, or contain unknown
    settings; all such problems are in one error.
    """
    files = config_files(cwd, environ)
    if any(files):
        from worldsize.jobspec.config.files import read_files

        config = read_files(files, environ, ask)
    else:
        config = Config(computes={LOCAL: ComputeSettings()})
    return _with_environment(config, cwd, environ)


def _with_environment(config: Config, cwd: str, environ: Mapping[str, str]) -> Config:
    origins = {**_DEFAULTS, **config.origins}
    home = config.home or os.path.join(user_home(environ), ".worldsize")
    default_compute = config.default_compute
    if environ.get("WORLDSIZE_HOME"):
        home = os.path.abspath(os.path.join(cwd, os.path.expanduser(environ["WORLDSIZE_HOME"])))
        origins["home"] = "WORLDSIZE_HOME"
    if environ.get("WORLDSIZE_COMPUTE"):
        default_compute = environ["WORLDSIZE_COMPUTE"]
        origins["default_compute"] = "WORLDSIZE_COMPUTE"
        config = config._replace(default_origin="WORLDSIZE_COMPUTE")
    if environ.get("WORLDSIZE_PRELOAD"):
        config = config._replace(preload=_preload_of(environ["WORLDSIZE_PRELOAD"]))
        origins["preload"] = "WORLDSIZE_PRELOAD"
    return config._replace(home=home, default_compute=default_compute, origins=origins)


def _preload_of(text: str) -> tuple[str, ...]:
    """Parse the value of the variable WORLDSIZE_PRELOAD, "auto", "off", or names of modules separated by commas, and
    return it as a tuple. Raise ConfigError for anything else."""
    from worldsize.errors import ConfigError
    from worldsize.jobspec.keys.key import Key
    from worldsize.jobspec.reading.problems import Problems
    from worldsize.jobspec.reading.tree import to_node
    from worldsize.jobspec.reading.values import PRELOAD_WORDS, read_preload

    is_word = text.strip().lower() in PRELOAD_WORDS
    value = text.strip() if is_word else [name.strip() for name in text.split(",")]
    report = Problems(error=ConfigError)
    found = read_preload(to_node(value, "WORLDSIZE_PRELOAD"), "", Key("preload", ""), report)
    report.check()
    return found or ()


def config_files(cwd: str, environ: Mapping[str, str]) -> ConfigFiles:
    """Return the paths of the configuration files that exist for the directory `cwd` (absolute)."""
    installed = next((path for path in SITE_FILES if os.path.isfile(path)), None)
    site = environ.get("WORLDSIZE_SITE_CONFIG") or installed
    own = os.path.join(config_home(environ), FILE_NAME)
    above = [os.path.join(directory, FILE_NAME) for directory in with_parents(cwd)]
    return ConfigFiles(
        site if site and os.path.isfile(site) else None,
        installed if installed != site else None,
        own if os.path.isfile(own) else None,
        tuple(path for path in above if path not in (site, installed, own) and os.path.isfile(path)),
    )
