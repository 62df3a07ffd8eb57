"""Users and passwords in the addresses of package indexes, kept out of the command lines of pip and uv.

pip starts another pip to build a source distribution, and tells it the addresses as words: everybody on the machine can
read them. So pip is given addresses without, and finds the rest in a file of netrc's form that it is told of.
"""

from __future__ import annotations

import os
import re
from ast import literal_eval
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from worldsize.errors import UsageError

_LOGIN = re.compile(r"(?<!\+)(https?://)([^\s/?#]+)@([^\s/?#@]\S*)", re.IGNORECASE)
_ADDRESS = re.compile(r"(?<!\+)https?://[^\s/?#]+", re.IGNORECASE)
_INDEX_VARIABLES = ("PIP_INDEX_URL", "PIP_PYPI_URL")
"""Two names of one option of pip's."""

_ADDRESS_VARIABLES = (*_INDEX_VARIABLES, "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS")

_PROXY = "PIP_PROXY"
_CONFIGURATION_LINE = re.compile(r"(global|wheel)\.(index-url|pypi-url|extra-index-url|find-links|proxy)=(.+)")


class IndexLogins:
    """Those of what one pip is given."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[str, str]] = {}
        self._servers: dict[str, set[str]] = {}

    def strip_line(self, line: str) -> str:
        """A line of a requirements file. UsageError for two logins at one host, which netrc cannot hold."""
        self._note_servers(line)
        return _LOGIN.sub(self._take_login, line) if line.lstrip().startswith("-") else line

    def variables(self, environ: Mapping[str, str], directory: str, configured: str = "") -> dict[str, str]:
        """For the environment of pip, once all lines are stripped: its own variables without logins, and the file, in
        `directory`, with what the user's own holds behind it. `configured`: what `pip config list` prints, which its
        variables come before. OSError; UsageError for what pip would show, or send to another server."""
        said = _parse_configuration(configured)
        variables = {name: value for name, value in environ.items() if name.startswith("PIP_")}
        proxies = _proxy_variables(
            said.pop(_PROXY, ""), {_canonical_variable(name): (name, value) for name, value in variables.items()}
        )
        places = {name: value for name, value in variables.items() if _canonical_variable(name) in _ADDRESS_VARIABLES}
        for name in map(_canonical_variable, places):
            for other in _INDEX_VARIABLES if name in _INDEX_VARIABLES else (name,):
                said.pop(other, None)
        said.update(places)
        for text in said.values():
            self._note_servers(text)
        found = {
            name: _LOGIN.sub(self._take_login, text)
            for name, text in said.items()
            if name in environ or _LOGIN.search(text)
        }
        self._refuse_shared_hosts()
        found.update(proxies)
        if not self._found:
            return found
        path = os.path.join(directory, "netrc")
        own = environ.get("NETRC") or os.path.join(environ.get("HOME", ""), ".netrc")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            for host, (user, password) in self._found.items():
                file.write(f"machine {host} login {_quote(user)} password {_quote(password)}\n")
            file.write(_text_of(own))
        return {**found, "NETRC": path}

    def _note_servers(self, text: str) -> None:
        for address in _ADDRESS.findall(text):
            scheme, _, place = address.lower().partition("://")
            server = place.rpartition("@")[2].removesuffix(":443" if scheme == "https" else ":80")
            self._servers.setdefault(_host(f"{scheme}://{server}"), set()).add(f"{scheme} {server}")

    def _refuse_shared_hosts(self) -> None:
        """netrc knows hosts, and no ports: another server there would be sent what is not meant for it."""
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
            raise UsageError(what, "stage.pip", "pip can be told one: leave the other out, or use a keyring")
        return start + rest


def _parse_configuration(text: str) -> dict[str, str]:
    """What of pip's configuration says where packages are, by pip's variables: what is said for `wheel` goes first."""
    found: dict[str, str] = {}
    for section in ("global", "wheel"):
        for line in text.splitlines():
            match = _CONFIGURATION_LINE.fullmatch(line.strip())
            if match and match[1] == section:
                name = "PIP_" + match[2].replace("-", "_").upper()
                try:
                    found[name] = str(literal_eval(match[3]))
                except (ValueError, SyntaxError):
                    continue
    return found


def _canonical_variable(name: str) -> str:
    """A variable of pip's as it usually is: pip takes PIP_Index-Url for PIP_INDEX_URL."""
    return "PIP_" + name[4:].upper().replace("-", "_")


def _proxy_variables(configured: str, variables: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """pip tells the other pip its proxy as a word, unless it has it from the variables that all programs go by.
    UsageError for one in its configuration, which no variable replaces."""
    name, own = variables.get(_PROXY, (_PROXY, ""))
    if not own and "@" in configured:
        hint = "leave it out there, and export HTTPS_PROXY=…"
        what = "the proxy in pip's configuration has a password, which everybody could read"
        raise UsageError(what, "stage.pip", hint)
    if "@" not in own:
        return {}
    if "@" in configured:
        raise UsageError("pip's configuration has a proxy with a password, too", "stage.pip", "leave it out there")
    names = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
    return {name: "", **dict.fromkeys(names, own)}


def _host(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        raise UsageError(f"no address of a package index: {address}", "stage.pip", "mend it") from None


def _quote(word: str) -> str:
    if any(ord(each) < 32 for each in word):
        raise UsageError("a user or password of an index holds a control character", "stage.pip")
    return '"{}"'.format(re.sub(r'(["\\])', r"\\\1", word))


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().encode("utf-8", "replace").decode()
    except OSError:
        return ""
