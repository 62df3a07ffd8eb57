"""Requirements of a run on its environment: directories, variables and scripts, for the plan."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterable, Mapping

from worldsize.common.named_tuple import NamedTuple
from worldsize.environment.existing import ExistingEnvironment, venv_home
from worldsize.errors import UsageError
from worldsize.jobspec.environment import EnvironmentSpec
from worldsize.plan.conda_variables import conda_variables
from worldsize.plan.setup_script import MODULE_LINES, module_line
from worldsize.trust.secrets import is_secret, mask_values

_VARIABLE = r"\$(?:\{(\w+)\}|(\w+))"
_MAX_VALUE_LENGTH = 1 << 17
OLDEST_AGENT = (3, 8)
_SEPARATORS = {
    "PATH": ":",
    "PYTHONPATH": ":",
    "PYTHONHOME": ":",
    "PYTHONUSERBASE": "",
    "PYTHONSTARTUP": "",
    "LD_LIBRARY_PATH": ":;",
    "LD_PRELOAD": ": \t\n",
    "LD_AUDIT": ":",
    "BASH_ENV": "",
    "ENV": "",
}
"""Variables that are searched for paths, with the characters that separate the paths in each."""


class Activation(NamedTuple):
    """The settings that are applied before the ranks start.

    path, library_path  directories for the front of PATH and LD_LIBRARY_PATH
    variables           set for the ranks, with less priority than every convention; None: unset
    scripts             bash files that are sourced, in order
    modules             modules that are loaded first
    python              the interpreter that may run the agents; None: the compute's
    prefix              the environment; None: the current Python
    closed              names of variables that hold secrets
    """

    path: tuple[str, ...] = ()
    library_path: tuple[str, ...] = ()
    variables: Mapping[str, str | None] = {}
    scripts: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    python: str | None = None
    prefix: str | None = None
    closed: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return the lines of bash that activate the environment: that extend PATH and LD_LIBRARY_PATH, set or unset
        variables and source scripts. The modules, which are loaded earlier, are not included."""
        found = []
        if self.path:
            found.append(f"export PATH={_join_paths(self.path)}:$PATH")
        if self.library_path:
            tail = "${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
            found.append(f"export LD_LIBRARY_PATH={_join_paths(self.library_path)}{tail}")
        for name, value in self.variables.items():
            found.append(f"unset {name}" if value is None else f"export {name}={shlex.quote(value)}")
        return found + [f". {shlex.quote(script)}" for script in self.scripts]

    def loaded_paths(self, secrets: Collection[str] = ()) -> tuple[str, ...]:
        """Return the paths of this machine, of programs, libraries and scripts, from which ranks with this activation
        would execute or load something.

        Variables that hold secrets are left out: those of `closed`, and those whose values contain one of `secrets`.
        """
        python = (self.python,) if self.python else ()
        base = venv_home(self.prefix) if self.prefix else None
        home = (*with_interpreters([base]), os.path.join(os.path.dirname(base), "lib")) if base else ()
        found = (*with_interpreters(self.path), *python, *home, *self.library_path, *self.scripts)
        told = {name: value for name, value in self.variables.items() if value and name not in self.closed}
        return (
            *found,
            *paths_in_variables({name: value for name, value in told.items() if mask_values(value, secrets) == value}),
        )

    def has_effect(self) -> bool:
        """Return whether the activation changes anything: a directory, variable, script or module."""
        return bool(self.lines() or self.modules)

    def shell_lines(self) -> list[str]:
        """Return all lines of bash that activate the environment, for a shell that does not know `module` yet. Modules
        are loaded first."""
        return [*(MODULE_LINES if self.modules else ()), *self.module_lines(), *self.lines()]

    def module_lines(self) -> list[str]:
        return [module_line(module) for module in self.modules]


def activation(
    spec: EnvironmentSpec,
    found: ExistingEnvironment | None,
    environ: Mapping[str, str],
    upon: ExistingEnvironment | None = None,
    secrets: Collection[str] = (),
) -> Activation:
    """Return the Activation of the existing environment `found` (None: the current Python), with the directories,
    variables and modules that `spec` adds to it. The environment may be a layer on top of the environment `upon`.

    `$NAME` in the spec's variables and directories is replaced by its value in `environ`, or by that of an earlier
    variable of the spec. $PREFIX is the environment itself. `secrets` are the names of variables that hold a secret, in
    addition to those that look like it. Raise UsageError if a directory contains a secret in its name.
    """
    base = prefix_activation(found) if found else Activation()
    if upon is not None:
        below = prefix_activation(upon)
        both = {**base.variables, **below.variables, "VIRTUAL_ENV": base.variables.get("VIRTUAL_ENV")}
        base = base._replace(path=(*base.path, *below.path), variables=both, scripts=below.scripts)
    known = {**environ, **{name: value for name, value in base.variables.items() if value is not None}}
    if found:
        known["PREFIX"] = found.prefix
    variables = dict(base.variables)

    def is_told(name: str, value: str) -> bool:
        return name in secrets or is_secret(name, value)

    closed = {name: is_told(name, value) for name, value in variables.items() if value is not None}

    def holds_secret(text: str) -> bool:
        """Return whether `text` refers to a variable (`$NAME`, or `~` for HOME) that holds a secret. A variable that
        the spec sets later still has its value in `environ`."""
        named = [match[1] or match[2] for match in re.finditer(_VARIABLE, text)] + ["HOME"] * text.startswith("~")
        return any(
            name in secrets or (closed[name] if name in closed else is_secret(name, environ.get(name, "")))
            for name in named
        )

    for name, text in spec.variables.items():
        value, told = expand_variables(text, known), holds_secret(text)
        known[name] = variables[name] = value
        closed[name] = bool(value) and (told or is_told(name, value))
    for directory in (*spec.path, *spec.ld_library_path):
        if holds_secret(directory):
            what = "contains a secret, and every user can read the names on PATH"
            raise UsageError(f"{directory} {what}", "environment", "leave it out")
    return base._replace(
        path=(*(expand_variables(each, known) for each in spec.path), *base.path),
        library_path=tuple(expand_variables(each, known) for each in spec.ld_library_path),
        variables=variables,
        modules=spec.modules,
        closed=tuple(name for name, told in closed.items() if told),
    )


def prefix_activation(found: ExistingEnvironment) -> Activation:
    prefix = found.prefix
    python = found.python if found.version is None or found.version >= OLDEST_AGENT else None
    variables: dict[str, str | None] = {"PYTHONHOME": None}
    scripts: tuple[str, ...] = ()
    if found.kind == "venv":
        variables.update(VIRTUAL_ENV=prefix, CONDA_PREFIX=None)
    else:
        variables["VIRTUAL_ENV"] = None
        if found.kind == "conda":
            variables.update(CONDA_PREFIX=prefix, CONDA_DEFAULT_ENV=os.path.basename(prefix), PYTHONNOUSERSITE="1")
            variables.update(conda_variables(prefix))
            scripts = _scripts(os.path.join(prefix, "etc", "conda", "activate.d"))
    return Activation((os.path.join(prefix, "bin"),), (), variables, scripts, (), python, prefix)


def expand_variables(text: str, known: Mapping[str, str]) -> str:
    """Return `text` with a leading `~` and each `$NAME` replaced by their values in the mapping `known`, without a
    shell. Unknown names stay as they are. Raise UsageError if the result is longer than a variable can be."""
    if text == "~" or text.startswith("~/"):
        text = known.get("HOME", "~") + text[1:]
    whole = re.sub(_VARIABLE, lambda match: known.get(match[1] or match[2], match[0]), text)
    if len(whole) > _MAX_VALUE_LENGTH:
        raise UsageError(f"{text:.40}… is longer than a variable can be", "environment", "remove some entries")
    return whole


def _scripts(directory: str) -> tuple[str, ...]:
    """Return the paths of the shell scripts (*.sh) in `directory`, sorted by name; none if the directory is missing or
    cannot be read."""
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return ()
    return tuple(os.path.join(directory, name) for name in names if name.endswith(".sh"))


def _join_paths(directories: tuple[str, ...]) -> str:
    return ":".join(map(shlex.quote, directories))


def paths_in_variables(variables: Mapping[str, str | None]) -> tuple[str, ...]:
    """Return the absolute paths of directories and files in those of the environment `variables` that decide what is
    executed: PATH (with the `python` in each directory), PYTHONPATH, LD_LIBRARY_PATH, LD_PRELOAD, BASH_ENV and the
    like."""
    found: list[str] = []
    for name, separators in _SEPARATORS.items():
        parts = [variables.get(name) or ""]
        for separator in separators:
            parts = [part for each in parts for part in each.split(separator)]
        found += with_interpreters(parts) if name == "PATH" else parts
    return _absolute_paths(found)


def with_interpreters(directories: Iterable[str]) -> tuple[str, ...]:
    """Return those of `directories` that are absolute paths, each followed by the path of the `python` in it if there
    is one, which may be a link to anywhere."""
    found = []
    for directory in _absolute_paths(directories):
        python = os.path.join(directory, "python")
        found += [directory, python] if os.path.lexists(python) else [directory]
    return tuple(found)


def _absolute_paths(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(each for each in paths if os.path.isabs(each))
