"""The actions `env build` and `env lock`, which build an environment now, and write its lock file."""

from __future__ import annotations

import argparse
import os
import sys
import time

from worldsize.cli.console import load_current_config
from worldsize.cli.output import report_message, show, show_document, show_json
from worldsize.common.named_tuple import Any
from worldsize.errors import StorageError, UsageError
from worldsize.jobspec.config.config import Config
from worldsize.trust.directories import foreign_owner
from worldsize.trust.documents import write_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.service.environments.lookup import Environment


def build(options: argparse.Namespace) -> int:
    from worldsize.wings.environments.job_environment import read_built_description

    began = time.monotonic()
    environment, is_new = ensure_environment(options, options.name)
    prefix, description = environment.prefix, read_built_description(environment) or {}
    if options.output == "json":
        keys = ("name", "kind", "fingerprint", "digest", "python")
        known: dict[str, Any] = {key: description.get(key) for key in keys}
        show_json({"prefix": prefix, "built": is_new, "seconds": round(time.monotonic() - began, 3), **known})
    else:
        show(prefix)
    return 0


def lock(options: argparse.Namespace) -> int:
    from worldsize.wings.environments.job_environment import read_built_description
    from worldsize.wings.environments.sources import lock_text

    environment, _ = ensure_environment(options)
    description = read_built_description(environment)
    if description is None:
        what = f"{options.spec} was not built by worldsize: the origin of its packages is unknown"
        raise UsageError(what, None, "name its source: an environment.yml, a requirements.txt")
    text = lock_text(description)
    path = options.to or _lock_path(options.spec)
    if path != "-":
        _write(path, text)
    if path == "-" or options.output == "json":
        show_document(text)
    else:
        show(path)
    return 0


def _write(path: str, text: str) -> None:
    """Write `text` to the file `path`, whole or not at all: an older file is kept if there is no room. Raise
    StorageError."""
    try:
        write_document(path, text.encode())
    except OSError as error:
        raise StorageError(f"cannot write: {error.strerror}", path, "--to FILE writes it elsewhere") from None


def _lock_path(spec: str) -> str:
    base = spec.removesuffix(".yml").removesuffix(".yaml").removesuffix(".txt").removesuffix(".toml")
    return base.removesuffix(".lock.json").removesuffix(".lock") + ".lock.json"


def ensure_environment(options: argparse.Namespace, name: str | None = None, prefix: bool = True) -> tuple[Any, bool]:
    """Build the environment that the command line names, unless it exists. Return the Environment, and whether this
    process built it. Raise UsageError if the environment has no prefix, so that there is nothing to build. If `prefix`
    is false, an environment without a prefix is accepted if its activation has an effect."""
    from worldsize.cli.progress_line import NoticePrinter, ProgressLine
    from worldsize.service.submission.submit import start
    from worldsize.wings.environments.job_environment import ensure_ready

    config = load_current_config()
    found = look_up(options.spec, config, config.compute(options.compute, "--compute").name, name)
    for notice in found.notices if found else ():
        report_message("notice: " + notice)
    if found is None or (found.prefix is None and (prefix or not found.activation(os.environ).has_effect())):
        raise UsageError(f"{options.spec}: there is nothing to build", None, "worldsize env build --help")
    told = ProgressLine() if sys.stderr.isatty() else NoticePrinter()
    try:
        return found, ensure_ready(found, told, start)
    finally:
        told.clear()


def look_up(spec: str, config: Config, compute: str, name: str | None = None) -> Environment | None:
    """Return the environment that `spec` would mean as `environment:` of a job on the compute; for a job file, the
    environment that the job names. A name of the configuration has precedence over a file or directory of that name in
    the current directory. If another user owns that file or directory, it must be given by its path. Raise UsageError
    or NotFound."""
    from worldsize.jobspec.job import Job
    from worldsize.jobspec.reading.job_file import load_job
    from worldsize.service.environments.lookup import find_environment
    from worldsize.service.secrets import build_environ

    job = Job()
    wanted: Any = spec
    if spec not in config.environments and os.path.exists(spec):
        if _is_job(spec):
            job = load_job(spec).job
            wanted = job.environment
        else:
            wanted = _require_own_path(spec)
    return find_environment(wanted, config, compute, build_environ(job, os.environ), name, job.secrets)


def _require_own_path(spec: str) -> str:
    """Return the absolute path of the file or directory `spec`. Raise UsageError if `spec` is a bare name without a
    slash and another user owns what has that name in the current directory."""
    others = foreign_owner(spec) if os.sep not in spec else None
    if others:
        kind = "directory" if os.path.isdir(spec) else "file"
        raise UsageError(f"a {kind} here has that name, and {others}", spec, f"./{spec}, if it is meant")
    return os.path.abspath(spec)


def _is_job(path: str) -> bool:
    """Return whether the path is a YAML file that contains a command to run, rather than the contents of an
    environment; True for a pipe or device with the name of such a file, which `load_job` refuses."""
    if not path.endswith((".yml", ".yaml")) or os.path.isdir(path):
        return False
    if not os.path.isfile(path):
        return True
    from worldsize.common.atomic_files import read_file
    from worldsize.jobspec.reading.yaml import parse_yaml

    node = parse_yaml(read_file(path).decode("utf-8", "replace"), path)
    return isinstance(node.value, dict) and any(key in node.value for key in ("command", "argv", "batch_script"))
