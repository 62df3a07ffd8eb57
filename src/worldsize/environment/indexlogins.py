"""Users and passwords in the addresses of package indexes, kept out of pip's command lines.

pip starts another pip to build a source distribution, and tells it the addresses as words: everybody on the machine can
read them. So pip is given addresses without, and finds the rest in a file of netrc's form that it is told of.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from worldsize.errors import UsageError

_OPTIONS = r"(?:-i|--index-url|--extra-index-url|-f|--find-links)[\s=]+"
_LOGIN = re.compile(r"(https?://)([^\s/?#@]+)@(\S+)", re.IGNORECASE)
_VARIABLES = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS")


class IndexLogins:
    """Those of what one pip is given."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[str, str]] = {}

    def strip_line(self, line: str) -> str:
        """A line of a requirements file. UsageError for two logins at one host, which netrc cannot hold."""
        return _LOGIN.sub(self._take, line) if re.match(_OPTIONS, line) else line

    def variables(self, environ: Mapping[str, str], directory: str) -> dict[str, str]:
        """For the environment of pip, once all lines are stripped: its own variables without logins, and the file, in
        `directory`, with what the user's own holds behind it. OSError."""
        found = {name: _LOGIN.sub(self._take, environ[name]) for name in _VARIABLES if name in environ}
        if not self._found:
            return found
        path = os.path.join(directory, "netrc")
        own = environ.get("NETRC") or os.path.join(environ.get("HOME", ""), ".netrc")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            for host, (user, password) in self._found.items():
                file.write("machine %s login %s password %s\n" % (host, _quote(user), _quote(password)))
            file.write(_text_of(own))
        return {**found, "NETRC": path}

    def _take(self, address: re.Match[str]) -> str:
        start, said, rest = address.groups()
        host = urlsplit(start + rest).hostname or ""
        name, _, word = said.partition(":")
        login = unquote(name), unquote(word)
        if self._found.setdefault(host, login) != login:
            what = "two logins for one host: %s" % host
            raise UsageError(what, "stage.pip", "pip can be told one: leave the other out, or use a keyring")
        return start + rest


def _quote(word: str) -> str:
    if any(ord(each) < 32 for each in word):
        raise UsageError("a user or password of an index holds a control character", "stage.pip")
    return '"%s"' % re.sub(r'(["\\])', r"\\\1", word)


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().encode("utf-8", "replace").decode()
    except OSError:
        return ""
