"""Users and passwords in git's addresses, `git+https://user:password@host/path`, which are kept out of command lines.

pip and uv start git with the address unchanged, and git passes it to other programs: every user of the machine can read
that. So pip and uv receive requirements files without credentials. Variables configure git to call a helper, a line of
shell that prints two other variables. The credentials are only in the environment of these processes.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import unquote

from worldsize.common.named_tuple import NamedTuple
from worldsize.errors import BuildError, UsageError
from worldsize.jobspec.requirement import absolute_requirement
from worldsize.trust.secrets import MASK, mask_text
from worldsize.wings.environments.pip.requirement_lines import (
    lines_of,
    parse_include,
    require_list,
    write_lines,
)
from worldsize.wings.environments.pip.requirements import (
    description_files,
    reachable_trees,
    text_of,
    toml_text_lines,
    with_variables,
)
from worldsize.wings.environments.sources import is_project

_LOGIN = re.compile(
    r"(?<![\w+.-])((?:git\+)?(https?)://)([^\s/?#]*)@([^\s/\\?#@]+)([^\s?#]*)", re.IGNORECASE | re.ASCII
)
_OTHER_LOGIN = re.compile(
    r"(?<![\w+.-])((?!(?:git\+)?https?:)(?:(git|svn|hg|bzr)\+)?[a-z][a-z0-9.-]*://)"
    r"(?:[^\s/?#:]*:[^\s/?#]*|[^\s/?#:]{20,})@([^\s/?#@]*)",
    re.IGNORECASE | re.ASCII,
)
"""Pattern of passwords outside of git over HTTP, and of a name that is too long for a user's name. uv turns ssh://…
without git+ into a path for git."""

_INCLUDES = re.compile(r"^-(?:.*\s-)?(?:[rc]|-req\w*|-const\w*)(?![\w-])|^-(?:.*\s-)?[rc]['\"]")
_UNREADABLE = re.compile(r"^['\"]|^file:|\s-")
_PASSWORD = re.compile(
    r"(?:\bgit\s*=\s*[\"'](?:git\+)?|\b(?:git|svn|hg|bzr)\+|(?<![\w+.-])(?=(?:ssh|git|svn|hg|bzr|ftp)://))"
    r"(([a-z-]+://)(?:[^\s/?#:]+:[^\s/?#]*|:[^\s/?#]+|[^\s/?#:]{20,})@([^\s\"'#@]+))",
    re.IGNORECASE | re.ASCII,
)
_BARE_PASSWORD = re.compile(
    r"(?<![\w+.-])((https?://)(?:[^\s/?#:\"']+:[^\s/?#\"']*|:[^\s/?#\"']+|[^\s/?#:\"']{20,})@([^\s\"'#@?]+\.git))(?![\w.-])",
    re.IGNORECASE | re.ASCII,
)
"""Pattern of an address with a password that uv takes for a git repository's only because of its end."""

_HELPER = (
    '!f() { if test "$1" = get; then '
    'printf "username=%%s\\npassword=%%s\\n" "$WORLDSIZE_GIT_USER_%d" "$WORLDSIZE_GIT_PASSWORD_%d"; fi; }; f'
)


class Login(NamedTuple):
    """The user and password for one repository. Without a password it is a hint for git's own helpers."""

    host: str
    path: str
    user: str
    password: str | None


def has_login(line: str) -> bool:
    return any(map(_is_git_address, _LOGIN.finditer(line)))


def _is_git_address(address: re.Match[str]) -> bool:
    """Return whether a matched address in a requirement is that of a git repository. uv also accepts an address without
    git+ as one if the last part of its path ends in .git."""
    if address[1][:4].lower() == "git+":
        return True
    path = address[5].lower().replace("\\", "/").replace("%2e", ".")
    return posixpath.normpath(path).endswith(".git")


def refuse_passwords(path: str, but: Iterable[str] = ()) -> None:
    """Raise BuildError if the file `path`, which describes a Python project, contains the address of a git repository
    with a password that is in none of the lines `but`: a program that builds the project puts the address into command
    lines."""
    text = text_of(path)
    if path.endswith(".toml"):
        text += "\n" + "\n".join(toml_text_lines(path))
    known = with_variables("\n".join(but), os.environ)
    text = with_variables(text, os.environ)
    for found in (*_PASSWORD.finditer(text), *_BARE_PASSWORD.finditer(text)):
        if found[1] not in known:
            what = "holds a password, in %s***@%s: git would be started with it, visible to every user on the machine"
            hint = "remove it there, and configure it in git: a credential helper, or ~/.netrc"
            raise BuildError(what % (found[2], found[3]), path, hint)


def refuse_passwords_of_trees(directories: Iterable[str], but: Iterable[str] = ()) -> None:
    """Raise BuildError, as `refuse_passwords` does, for the files that describe the Python source trees in
    `directories` and the trees that they take packages from."""
    known = list(but)
    for directory in reachable_trees(directories):
        for path in description_files(directory):
            refuse_passwords(path, known)


class GitLogins:
    """The logins of git in the requirements files for one program. `environ` holds the variables that the files use.
    `strip` removes other secret parts from each line."""

    def __init__(self, environ: Mapping[str, str], strip: Callable[[str], str] = str) -> None:
        self._environ = environ
        self._strip = strip
        self._found: dict[Login, None] = {}

    def strip_file(self, path: str, directory: str, depth: int = 0) -> str:
        """Return the path of a requirements file without git credentials: `path` itself, or a private copy in
        `directory`. A copy is made if the file, or one that it includes, contains credentials, or a relative path of a
        package, which uv would resolve from its working directory. Raise NotFound or UsageError; OSError if the copy
        cannot be written."""
        lines = []
        copied = False
        for said in lines_of(path):
            line = self._to_absolute(said, os.path.dirname(path))
            include = parse_include(line)
            given = self._strip_included(*include, directory, depth) if include else self._strip_requirement(line)
            copied = copied or given != (" ".join(include) if include else said)
            lines.append(given)
        if not copied:
            return path
        name = hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:8]
        copy = os.path.join(directory, f"included-{name}-{os.path.basename(path)}")
        write_lines(copy, lines)
        return copy

    def strip_line(self, line: str) -> str:
        """Return a line of a requirements file without the user and password of its git address, which are kept for
        `variables`. Raise UsageError for a login that variables cannot pass to git."""
        if "://" not in line and "${" not in line:
            return line
        full = self._with_variables(line)
        others = _OTHER_LOGIN.search(full)
        if others:
            what = "holds a password, in %s***@%s: %s would be started with it, visible to every user on the machine"
            program = others[2] or "git"
            hint = f"remove it there, and configure it in {program} itself"
            raise UsageError("a requirement " + what % (others[1], others[3], program), None, hint)
        return _LOGIN.sub(self._take_login, full) if has_login(full) else line

    def variables(self) -> dict[str, str]:
        """Return the environment variables that pass the stripped git credentials to a program that receives the
        stripped requirements. The user's own settings of git stay in force. For a repository with credentials of its
        own only these are used; for others of its host they are the last resort."""
        if not self._found:
            return {}
        said: list[tuple[str, str]] = []
        helpers: dict[tuple[str, str], str] = {}
        hosts: dict[str, set[str]] = {}
        for host, path, user, password in self._found:
            at = f"credential.{host}{path}."
            if password is None:
                said.append((at + "username", user))
                continue
            helper = helpers.setdefault((user, password), _HELPER % (len(helpers), len(helpers)))
            said += [(at + "helper", ""), (at + "helper", helper)]
            hosts.setdefault(host, set()).add(helper)
        for host, those in hosts.items():
            if len(those) == 1:
                said.append((f"credential.{host}.helper", those.pop()))
        found: dict[str, str] = {}
        for number, (user, password) in enumerate(helpers):
            found[f"WORLDSIZE_GIT_USER_{number}"] = user
            found[f"WORLDSIZE_GIT_PASSWORD_{number}"] = password
        if found:
            found["GIT_TERMINAL_PROMPT"] = self._environ.get("GIT_TERMINAL_PROMPT", "0")
        count = self._environ.get("GIT_CONFIG_COUNT", "")
        first = int(count) if count.isdecimal() else 0
        for number, (key, value) in enumerate(said, first):
            found[f"GIT_CONFIG_KEY_{number}"], found[f"GIT_CONFIG_VALUE_{number}"] = key, value
        return {**found, "GIT_CONFIG_COUNT": str(first + len(said))}

    def _to_absolute(self, line: str, base: str) -> str:
        """Return a line of a requirements file in `base` with absolute paths, so that it has the same meaning in any
        directory. Raise UsageError for a line that includes a file in a way that pip follows, and this module does not.
        """
        include = parse_include(line)
        if _INCLUDES.search(line) and (include is None or _UNREADABLE.search(include[1])):
            hint = "use one option per line, and a plain path: -r FILE"
            raise UsageError(
                f"a line includes a file in a form that is not supported here: {mask_text(line)}", None, hint
            )
        names_files = include is not None or line.startswith(("-f", "--find-links"))
        return absolute_requirement(self._with_variables(line) if names_files else line, base)

    def _with_variables(self, line: str) -> str:
        return with_variables(line, self._environ)

    def _strip_requirement(self, line: str) -> str:
        full = self._with_variables(line)
        stripped = self._strip(full)
        return self.strip_line(line if stripped == full else stripped)

    def _strip_included(self, kind: str, path: str, directory: str, depth: int) -> str:
        if is_project(path):
            return f"{kind} {path}"
        require_list(path, depth)
        return f"{kind} {self.strip_file(path, directory, depth + 1)}"

    def _take_login(self, address: re.Match[str]) -> str:
        if not _is_git_address(address):
            return address[0]
        start, scheme, said, host, path = address.groups()
        name, colon, word = said.partition(":")
        user, password = unquote(name), unquote(word) if colon else None
        if any(ord(each) < 32 for each in user + (password or "")):
            raise UsageError("a user or password of git contains a control character", f"{start}***@{host}{path}")
        place = path.rpartition("@")[0] if "@" in path else path
        masked = MASK in (user, password)  # from a lock, which holds no secrets: git's own helpers may know it
        if (user or password) and not masked:
            self._found.setdefault(Login(f"{scheme.lower()}://{host}", place, user, password))
        return start + host + path
