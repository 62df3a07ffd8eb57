"""The creation of wheels for a list of requirements and their dependencies, on this machine, with the job's own
Python."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence

from worldsize.errors import UsageError
from worldsize.store.content_store import ContentStore
from worldsize.trust.keys import user_home
from worldsize.trust.secrets import mask_text, mask_values
from worldsize.wings.environments.pip.git_logins import GitLogins, refuse_passwords_of_trees
from worldsize.wings.environments.pip.index_logins import IndexLogins
from worldsize.wings.environments.pip.requirement_lines import list_lines, write_lines
from worldsize.wings.environments.pip.requirements import local_directories, text_of

_LOGIN = re.compile(r"://[^\s/?#]+@")
_MAX_MESSAGE_LENGTH = 600
# Python imports modules from its working directory, so no process is started in the user's, which may be foreign.
_TAGS_PROGRAM = "import sys, sysconfig; print(sys.implementation.cache_tag, sysconfig.get_platform())"


def make_wheels(
    requirements: Sequence[str],
    python: str,
    directory: str,
    data: ContentStore,
    environ: Mapping[str, str],
    secrets: Collection[str] = (),
) -> str:
    """Return a directory with the wheels of `requirements` and their dependencies, made once for these requirements,
    the lists that they include, and the job's Python `python`. `secrets` are masked in all messages.

    Raise UsageError if pip fails, or if there is no pip. Later changes of the package index do not change the wheels.
    """
    key = hashlib.sha256(
        repr((list(requirements), list(list_lines(requirements)), _tags(python, environ))).encode()
    ).hexdigest()[:32]
    path = os.path.join(directory, "wheels", key)

    def fill(part: str) -> None:
        os.makedirs(part, 0o700)
        data.report_notice(
            "pip: fetching wheels for {}".format(
                mask_text(mask_values(", ".join(requirements), secrets))[:_MAX_MESSAGE_LENGTH]
            )
        )
        _run_pip(_pip_command(python, environ), requirements, part, environ, secrets)
        for name in os.listdir(part):
            os.chmod(os.path.join(part, name), 0o444)

    data.make(path, fill, "pip")
    return path


def _run_pip(
    pip: list[str], requirements: Sequence[str], part: str, environ: Mapping[str, str], secrets: Collection[str]
) -> None:
    import shutil

    refuse_passwords_of_trees(local_directories(requirements))
    given = part + ".given"  # may hold passwords of indexes
    shutil.rmtree(given, ignore_errors=True)
    os.mkdir(given, 0o700)
    try:
        listed = os.path.join(given, "requirements.txt")
        write_lines(listed, requirements)
        indexes = IndexLogins()
        logins = GitLogins(environ, indexes.strip_line)
        argv = [*pip, "wheel", "--quiet", "--wheel-dir", part, "--requirement", logins.strip_file(listed, given)]
        own = indexes.environ(environ, given, _read_configuration(pip, environ))
        quiet = {**own, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", **logins.variables()}
        done = subprocess.run(argv, env=quiet, capture_output=True, text=True, check=False, cwd=part)
    finally:
        shutil.rmtree(given, ignore_errors=True)
    if done.returncode:
        said = mask_text(mask_values(done.stderr.strip() or done.stdout.strip(), secrets))[-_MAX_MESSAGE_LENGTH:]
        raise UsageError(f"pip could not fetch them:\n{said}", "stage.pip", "correct the requirements")


def _pip_command(python: str, environ: Mapping[str, str]) -> list[str]:
    """Return the command that starts the pip of the job's Python, else worldsize's pip, applied to the job's Python.
    Raise UsageError if neither has pip."""
    if _is_runnable([python, "-m", "pip", "--version"], environ):
        return [python, "-m", "pip"]
    if _is_runnable([sys.executable, "-m", "pip", "--version"], environ):
        return [sys.executable, "-m", "pip", "--python", python]
    hint = f"install pip there: {python} -m ensurepip, or `uv pip install pip`"
    raise UsageError("neither the job's Python nor worldsize's has pip", "stage.pip", hint)


def _read_configuration(pip: list[str], environ: Mapping[str, str]) -> str:
    """Return the output of `pip config list` for pip's own files, independent of its variables. "" from a pip that
    cannot print it. Raise UsageError if such a pip has a file with a login, which it would show."""
    kept = {name: value for name, value in environ.items() if name == "PIP_CONFIG_FILE" or not name.startswith("PIP_")}
    asked = {**kept, "PIP_QUIET": "0", "PIP_USER": "0"}
    done = subprocess.run([*pip, "config", "list"], env=asked, capture_output=True, text=True, check=False, cwd=os.sep)
    if done.returncode == 0:
        return done.stdout
    for path in _configuration_files(pip, environ):
        if _LOGIN.search(text_of(path)):
            what = "contains a login, and this pip does not show its settings: every user could read it"
            raise UsageError(what, path, "install a newer pip; or remove it there, and use ~/.netrc")
    return ""


def _configuration_files(pip: list[str], environ: Mapping[str, str]) -> list[str]:
    """Return the paths of the files in which the pip of the command `pip` may have settings, whether they exist or
    not."""
    home = user_home(environ)
    own = environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    shared = environ.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    directories = [own, *shared.split(os.pathsep)]
    prefixes = [os.path.dirname(os.path.dirname(each)) for each in pip if os.path.isabs(each)]
    return [
        environ.get("PIP_CONFIG_FILE", ""),
        "/etc/pip.conf",
        os.path.join(home, ".pip", "pip.conf"),
        *(os.path.join(each, "pip", "pip.conf") for each in directories),
        *(os.path.join(each, "pip.conf") for each in prefixes),
    ]


def _is_runnable(argv: list[str], environ: Mapping[str, str]) -> bool:
    """Return whether the command `argv` can be executed and exits with code 0."""
    try:
        nothing = subprocess.DEVNULL
        return subprocess.call(argv, env=environ, stdout=nothing, stderr=nothing, cwd=os.sep) == 0
    except OSError:
        return False


def _tags(python: str, environ: Mapping[str, str]) -> str:
    try:
        argv = [python, "-c", _TAGS_PROGRAM]
        return subprocess.run(argv, env=environ, capture_output=True, text=True, check=True, cwd=os.sep).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise UsageError(f"the job's Python does not run: {error}", python) from None
