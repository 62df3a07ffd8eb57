"""The program uv, which makes virtual environments and installs packages in place of pip."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise

from worldsize.environment.existing import ExistingEnvironment
from worldsize.errors import BuildError, NotFound
from worldsize.extras import missing_package_error
from worldsize.jobspec.paths import is_remote
from worldsize.trust.secrets import mask_channel
from worldsize.wings.environments.inspect.installed import site_packages
from worldsize.wings.environments.pip.git_logins import GitLogins, refuse_passwords, refuse_passwords_of_trees
from worldsize.wings.environments.pip.requirement_lines import lines_of
from worldsize.wings.environments.pip.requirements import local_directories, local_sources, reachable_trees
from worldsize.wings.environments.pip.uv_words import (
    LIST_OPTIONS,
    named_paths,
    split_short_options,
    without_index_logins,
)
from worldsize.wings.environments.pip.uv_workspaces import (
    has_settings,
    is_search_exposed,
    is_workspace,
    may_omit_sources,
    refuse_settings_above,
    settings_files,
    write_isolated_copy,
)
from worldsize.wings.environments.sources import is_project
from worldsize.wings.environments.workspace.builder import Build
from worldsize.wings.environments.workspace.programs import LineCallback, run, without_active_environment

_PROGRESS_LINE = re.compile(
    r"\s*(Resolved|Prepared|Installed|Downloading|Building|Downloaded|Built|Bytecode compiled)\b"
)
_UNFIT = re.compile(r"resolved to Python (\S+), which is incompatible with the project's Python requirement: `([^`]+)`")
_NO_LISTS = (".py", ".toml", ".cfg")
"""File name endings of other formats that uv also accepts as a list of requirements: a script with requirements in
comments, a lock."""

_COMMON = ("--no-progress", "--color=never")
_NO_SOLUTION = "No solution found"
_NO_PROJECT = "does not appear to be a Python project"
_NO_NETWORK = ("dns error", "error sending request", "Connection refused", "network was disabled", "timed out")


def find_uv(environ: Mapping[str, str]) -> str:
    """Return the path of the program uv, from the directory of the Python that runs this process, else from PATH. Raise
    ConfigError, with a hint, if there is none."""
    from worldsize.agent.posix.processes import find_program

    beside = os.path.join(os.path.dirname(sys.executable), "uv")
    if os.access(beside, os.X_OK):
        return beside
    try:
        return find_program("uv", environ)
    except OSError:
        raise missing_package_error("building environments", "uv", "env") from None


class Uv:
    """The program uv for one build. `environ` is the environment of the build. `project` is the directory of a project
    whose settings apply.

    uv reads settings, such as the sources of packages, from files in its working directory and all directories above
    it, and finds workspaces by files above each source tree. Without a project it is started in the root directory.
    Raise BuildError if another user could have written such a file above a project or a tree that the job names.
    """

    def __init__(self, work: Build, environ: Mapping[str, str], project: str | None = None) -> None:
        self.program = find_uv(environ)
        self._project = project
        self._directory = project or os.sep
        if project:
            refuse_settings_above(project, environ)
            if is_search_exposed(project, has_settings, environ):
                self._directory = os.sep
        self._work = work
        self._environ = {**without_active_environment(environ), "UV_NO_PROGRESS": "1", "UV_NO_EDITABLE": "1"}
        self._logins = GitLogins(self._environ)
        self.offline = environ.get("UV_OFFLINE", "").lower() in ("1", "true", "t", "yes", "y", "on")

    def __call__(
        self,
        what: str,
        *words: str,
        cwd: str | None = None,
        variables: Mapping[str, str] | None = None,
        on_line: LineCallback | None = None,
    ) -> str:
        """Execute uv with `words`, and return its standard output. `what` describes the step for the user. `on_line`
        receives each line of its standard error; without it, lines on uv's progress are reported as progress. Raise
        BuildError if uv fails, and for a word that would show a login."""
        words = tuple(split_short_options(words))
        directory = cwd or self._directory
        files = [word for word in words if word.startswith(self._work.inputs + os.sep) and os.path.isfile(word)]
        trees = _source_trees([*files, *(word for word in words if os.path.basename(word) == "pyproject.toml")])
        others = [path for path in named_paths(words, directory) if path not in files]
        refuse_passwords_of_trees([*trees, *_source_trees(others)], _override_lines(words))
        looked_at = [*reachable_trees(trees), *([cwd] if cwd else [self._project] if self._project else [])]
        for tree in looked_at:
            refuse_settings_above(tree, self._environ)
        for path in settings_files(directory, self._environ):
            refuse_passwords(path)
        given, indexes = without_index_logins(self._without_git_logins(words, files, directory))
        if may_omit_sources(trees, self._environ):
            given.append("--no-sources")
        for word in given:
            if mask_channel(word) != word:
                hint = "put it into a requirements file, or into variables: UV_INDEX, UV_FIND_LINKS"
                raise BuildError(f"a login on a command line, visible to every user: {mask_channel(word)}", what, hint)
        environ = {**self._environ, **(variables or {}), **self._logins.variables(), **indexes}
        argv = [self.program, *given, *_COMMON]
        on_line = on_line or partial(self._report_progress, what)
        try:
            said = run(self._work, argv, environ, what, on_line, directory)
        except BuildError as error:
            raise BuildError(error.what, error.where, self._hint(error, "--constraints" in words)) from None
        for tree in looked_at:
            refuse_settings_above(tree, self._environ)  # another user may have made them meanwhile
        return said

    def _without_git_logins(self, words: Sequence[str], files: Sequence[str], directory: str) -> list[str]:
        """Return the words of a uv command without git's logins. Logins are removed from copies of `files`, from
        requirements that are words, and from requirements lists that options of a build step name."""
        given: list[str] = []
        for before, word in pairwise(("", *words)):
            option, sign, value = word.partition("=")
            if word in files or (before in LIST_OPTIONS and not is_project(word)):
                word = self._strip_list(word, directory)
            elif sign and option in LIST_OPTIONS:
                word = f"{option}={self._strip_list(value, directory)}"
            given.append(self._logins.strip_line(word))
        return given

    def _strip_list(self, path: str, directory: str) -> str:
        """Return the path of the requirements file `path`, or of a copy of it without git's logins. Raise BuildError
        for a login in a file of another format."""
        if is_remote(path):
            return path
        path = os.path.join(directory, path)
        if not path.endswith(_NO_LISTS):
            return self._logins.strip_file(path, self._work.inputs)
        refuse_passwords(path)
        return path

    def export(self, what: str, directory: str, *words: str) -> str:
        """Return the output of `uv export` for the project in `directory`: its locked requirements. Raise BuildError,
        UsageError or OSError."""
        if is_search_exposed(directory, is_workspace, self._environ) and not local_sources(directory):
            directory = write_isolated_copy(directory, os.path.join(self._work.inputs, "apart"))
        return self(what, "export", *words, "--project", directory, cwd=directory)

    def read_messages(self, what: str, *words: str) -> str:
        """Execute uv with `words`, and return its messages: its unchanged standard error, which may include secrets.
        They are masked only in the log. Raise BuildError."""
        lines: list[str] = []

        def keep_line(line: str) -> None:
            lines.append(line + "\n")
            self._report_progress(what, line)

        self(what, *words, on_line=keep_line)
        return "".join(lines)

    def _report_progress(self, what: str, line: str) -> None:
        if _PROGRESS_LINE.match(line):
            self._work.report_progress(f"{what}: {line.strip()}")

    def _hint(self, error: BuildError, constrained: bool) -> str | None:
        if _NO_SOLUTION in error.what and constrained:
            theirs = "conda installed" if os.path.isdir(os.path.join(self._work.prefix, "conda-meta")) else "exists"
            return f"{error.hint}; pip may not change what {theirs}: move a package to the section that it belongs to"
        if _NO_PROJECT in error.what:
            return f"{error.hint}; its dependencies would be in a [project] table"
        if any(each in error.what for each in _NO_NETWORK):
            return f"{error.hint}; is the package index reachable from here? UV_INDEX_URL names another"
        return error.hint


def _source_trees(paths: Sequence[str]) -> list[str]:
    """Return the source trees that uv would read for `paths`, which are requirements files, projects and directories.
    Missing paths are skipped, since uv reports them. Raise UsageError or OSError."""
    found: list[str] = []
    for path in paths:
        with suppress(NotFound):
            found += [path] if os.path.isdir(path) else local_directories(["-r " + path])
    return reachable_trees(found, workspaces=False)


def _override_lines(words: Sequence[str]) -> list[str]:
    """Return the lines of the files that follow `--overrides` in the words of a uv command. They are requirements that
    replace those of projects."""
    named = [word for before, word in pairwise(words) if before == "--overrides"]
    return [line for path in named if os.path.isfile(path) for line in lines_of(path)]


def make_venv(uv: Uv, prefix: str, python: str, asked: bool = True) -> None:
    """Make a virtual environment in the directory `prefix` by uv, from the interpreter or version `python`. Raise
    BuildError, also if the user has not `asked` for that Python and the project wants another one, for which uv only
    prints a warning."""
    said = uv.read_messages("creating a virtual environment", "venv", "--allow-existing", "--python", python, prefix)
    unfit = _UNFIT.search(said)
    if unfit and not asked:
        what = f"the project requires Python {unfit[2]}, and {python} is {unfit[1]}"
        raise BuildError(what, None, f'set it: python: "{unfit[2]}"')


def make_layer(uv: Uv, prefix: str, upon: ExistingEnvironment) -> None:
    """Make a virtual environment in `prefix` on top of the existing environment `upon`, whose packages it sees. Its own
    packages have precedence. Raise BuildError.

    A line in a .pth file does this, since --system-site-packages leads past a virtual environment to its base.
    """
    make_venv(uv, prefix, upon.python)
    own, below = site_packages(prefix), site_packages(upon.prefix)
    if own is None or below is None:
        raise BuildError("has no site-packages directory", upon.prefix)
    with open(os.path.join(own, "_worldsize_upon.pth"), "w", encoding="utf-8") as file:
        file.write(f"import site; site.addsitedir({below!r})\n")


def install(
    uv: Uv,
    prefix: str,
    requirements: str,
    options: Sequence[str],
    variables: Mapping[str, str] | None = None,
    what: str = "pip",
    on_line: LineCallback | None = None,
) -> None:
    """Install the packages of the requirements file `requirements` by uv into the environment `prefix`, with bytecode.
    Otherwise each of many ranks would write the bytecode. Raise BuildError."""
    words = ("pip", "install", "--python", os.path.join(prefix, "bin", "python"), "--compile-bytecode")
    uv(what, *words, *options, "-r", requirements, variables=variables, on_line=on_line)
