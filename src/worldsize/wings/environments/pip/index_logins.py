"""Users and passwords in the addresses of package indexes, which are kept out of the command lines of pip and uv.

pip starts another pip to build a source distribution, and passes the addresses as arguments, which every user of the
machine can read. So pip receives addresses without logins, and finds the logins in a file in netrc format that a
variable names.
"""

from __future__ import annotations

import os
import re
from ast import literal_eval
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import unquote, urlsplit

from worldsize.common.atomic_files import write_text
from worldsize.errors import UsageError
from worldsize.wings.environments.pip.requirements import text_of

_LOGIN = re.compile(r"(?<!\+)(https?://)([^\s/?#]+)@([^\s/?#@]\S*)", re.IGNORECASE)
_ADDRESS = re.compile(r"(?<!\+)https?://[^\s/?#]+", re.IGNORECASE)
_VARIABLES = {
    "index-url": "PIP_INDEX_URL",
    "pypi-url": "PIP_INDEX_URL",
    "extra-index-url": "PIP_EXTRA_INDEX_URL",
    "find-links": "PIP_FIND_LINKS",
    "proxy": "PIP_PROXY",
}
"""Settings of pip, and the variable for each. index-url and pypi-url are one option."""

_SETTING = re.compile(r"(global|wheel)\.([a-z-]+)=(.+)")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")


class IndexLogins:
    """The logins in everything that one pip receives."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[str, str]] = {}
        self._servers: dict[str, set[str]] = {}

    def strip_line(self, line: str) -> str:
        """Return a line of a requirements file without the user and password in its index address, which are kept for
        `environ`. Raise UsageError for two logins at one host, which netrc cannot hold."""
        self._note_servers(line)
        return _LOGIN.sub(self._take_login, line) if line.lstrip().startswith("-") else line

    def environ(self, environ: Mapping[str, str], directory: str, configured: str) -> dict[str, str]:
        """Return the environment of pip, after all lines are stripped. It has no logins in its variables. If there are
        logins, it names a netrc file in `directory`, which holds them and ends with the contents of the user's own
        netrc. `configured` is the output of `pip config list` for its files. Raise OSError; UsageError for a login that
        pip would show, or send to another server."""
        settings = {name: _setting_of(name) for name, text in environ.items() if text}
        of_variables = {_VARIABLES[each]: environ[name] for name, each in settings.items() if each in _VARIABLES}
        of_files = _parse_settings(configured)
        found = _proxy_variables(of_files.pop("PIP_PROXY", ""), of_variables.pop("PIP_PROXY", ""))
        for name, text in {**of_files, **of_variables}.items():
            self._note_servers(text)
            if name in of_variables or _LOGIN.search(text):
                found[name] = _LOGIN.sub(self._take_login, text)
        self._refuse_shared_hosts()
        kept = {name: value for name, value in environ.items() if _setting_of(name) not in _VARIABLES}
        if not self._found:
            return {**kept, **found}
        path = os.path.join(directory, "netrc")
        own = environ.get("NETRC") or os.path.join(environ.get("HOME", ""), ".netrc")
        logins = [
            f"machine {host} login {_quote(user)} password {_quote(password)}\n"
            for host, (user, password) in self._found.items()
        ]
        write_text(path, "".join(logins) + text_of(own), private=True)
        return {**kept, **found, "NETRC": path}

    def _note_servers(self, text: str) -> None:
        for address in _ADDRESS.findall(text):
            scheme, _, place = address.lower().partition("://")
            server = place.rpartition("@")[2].removesuffix(":443" if scheme == "https" else ":80")
            self._servers.setdefault(_host(f"{scheme}://{server}"), set()).add(f"{scheme} {server}")

    def _refuse_shared_hosts(self) -> None:
        """Raise UsageError if pip would use a login at a host with two servers. netrc distinguishes hosts but not
        ports, so that the other server would receive a login that is not meant for it."""
        for host in self._found:
            if len(self._servers.get(host, ())) > 1:
                what = f"two servers at one host, {host}, and one of them with a login: pip would send it to both"
                raise UsageError(what, "stage.pip", "leave one out, or use a keyring")

    def _take_login(self, address: re.Match[str]) -> str:
        start, said, rest = address.groups()
        host = _host(start + rest)
        name, _, word = said.partition(":")
        login = unquote(name), unquote(word)
        if self._found.setdefault(host, login) != login:
            what = f"two logins for one host: {host}"
            raise UsageError(what, "stage.pip", "pip accepts one: remove the other, or use a keyring")
        return start + rest


def _parse_settings(text: str) -> dict[str, str]:
    """Return the settings that name the sources of packages in `text`, the output of `pip config list`, as a mapping of
    pip's variables to values. Settings for `wheel` have precedence. Lines that are not settings in pip's output format
    are ignored."""
    found: dict[str, str] = {}
    for section in ("global", "wheel"):
        for line in map(_SETTING.fullmatch, text.splitlines()):
            if line and line[1] == section and line[2] in _VARIABLES:
                with suppress(ValueError, SyntaxError):
                    found[_VARIABLES[line[2]]] = str(literal_eval(line[3]))
    return found


def _setting_of(variable: str) -> str:
    """Return the setting of pip that an environment variable is for, such as "index-url" for PIP_INDEX_URL. "" for
    none. pip accepts PIP_Index-Url for PIP_INDEX_URL."""
    return variable[4:].lower().replace("_", "-") if variable.startswith("PIP_") else ""


def _proxy_variables(of_files: str, own: str) -> dict[str, str]:
    """Return the environment variables that configure pip's proxy, given the proxy in pip's files (`of_files`) and that
    in its variable (`own`). pip passes its proxy to the other pip as an argument, unless the proxy comes from the
    variables that all programs use. Raise UsageError for a proxy with a password in pip's configuration, which no
    variable replaces."""
    if "@" in of_files and not own:
        hint = "remove it there, and export HTTPS_PROXY=…"
        what = "the proxy in pip's configuration has a password, which every user could read"
        raise UsageError(what, "stage.pip", hint)
    if "@" not in own:
        return {"PIP_PROXY": own} if own else {}
    if "@" in of_files:
        raise UsageError("pip's configuration also has a proxy with a password", "stage.pip", "remove it there")
    return dict.fromkeys(_PROXIES, own)


def _host(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        raise UsageError(f"not an address of a package index: {address}", "stage.pip", "correct it") from None


def _quote(word: str) -> str:
    if any(ord(each) < 32 for each in word):
        raise UsageError("a user or password of an index contains a control character", "stage.pip")
    return '"{}"'.format(re.sub(r'(["\\])', r"\\\1", word))
