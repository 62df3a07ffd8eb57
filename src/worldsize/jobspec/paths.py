"""Functions for local paths and URIs in a job."""

from __future__ import annotations

import os
import re

from worldsize.errors import JobError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.jobspec.job import Output
    from worldsize.plan.run_paths import RunPaths

_REMOTE = r"azureml:|[A-Za-z][A-Za-z0-9+.-]*://"


def is_remote(path: str) -> bool:
    """Return whether `path` is on a service: azureml:…, or a URI."""
    return ":" in path and re.match(_REMOTE, path) is not None and not path.startswith("file:")


def is_fetchable(uri: str) -> bool:
    """Return whether a download from `uri` may be tried. Azureml's own URIs (azureml://…) cannot be used without the
    service."""
    return "://" in uri and not uri.lower().startswith("azureml:")


def is_malformed(path: str) -> bool:
    """Return whether `path` begins like a URI but cannot be parsed: http://[anna@host."""
    if not is_remote(path):
        return False
    from urllib.parse import urlsplit

    try:
        _ = urlsplit(path).port
    except ValueError:
        return True
    return False


def absolute_path(path: str, base: str) -> str:
    """Return `path` made absolute against `base` (the current directory if empty). A remote path stays as it is."""
    if is_remote(path):
        return path
    if path.startswith("file:"):
        path = path[7:] if path.startswith("file:///") else path[5:]
    return os.path.abspath(os.path.join(base, _expand_home(path)))


def _expand_home(path: str) -> str:
    return os.path.expanduser(path) if path == "~" or path.startswith("~/") else path


def current_directory(origin: str) -> str:
    """Return the current directory. Raise JobError, with `origin` as its place, if it cannot be read, such as when it
    no longer exists."""
    try:
        return os.getcwd()
    except OSError as error:
        raise JobError(f"the current directory cannot be read: {error.strerror}", origin) from None


def printable_path(path: str) -> str:
    r"""Return a file's name for messages: undecodable bytes are shown as \x.., control characters escaped."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return text if text.isprintable() else repr(text)[1:-1]


def output_path(paths: RunPaths, name: str, output: Output) -> str:
    """Return the local path to which a run writes its output `name`: the path in the job's declaration `output` if that
    is local, else a path in the run's outputs/ directory."""
    if output.path and not is_remote(output.path):
        return output.path
    return os.path.join(paths.outputs, name)
