"""The redaction of a report that strangers read: it must not contain the user's identity, names of machines, or paths
of files. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from worldsize.common.named_tuple import NamedTuple
from worldsize.trust.secrets import mask_text

USER, EMAIL, ADDRESS, TOKEN, PATH, ACCOUNT = "USER", "EMAIL", "ADDRESS", "TOKEN", "$PATH", "ACCOUNT"
"""The replacements for secrets. Hosts are replaced by node1, node2, … in the order of their first occurrence."""

_ROUNDS = 10
"""The largest number of passes. A replacement may create text that looks like another secret; `leaks` finds what is
left after the last pass."""

_BEFORE, _AFTER = r"(?<![A-Za-z0-9])", r"(?![A-Za-z0-9])"
_SYSTEM = "bin|boot|dev|etc|lib|lib64|opt|proc|run|sbin|sys|usr|var/lib|app"
"""Directories that exist on every machine, so that their names reveal nothing."""

_EMAIL = r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
_IPV4 = r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\w)"
_IPV6 = (
    r"(?<![\w:])(?:(?:[0-9A-Fa-f]{1,4}:){3,7}[0-9A-Fa-f]{1,4}"
    r"|(?:[0-9A-Fa-f]{1,4}:)+:(?:[0-9A-Fa-f:]*)|::[0-9A-Fa-f:]+)(?![\w:])"
)
_MAC = r"(?<![\w:])(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}(?![\w:])"
_ID = r"(?<![A-Za-z0-9])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![A-Za-z0-9])"
_STORE = r"(?<![\w.-])[\w-]+\.(?:blob|dfs|file|table|queue|vault)\.[\w.-]*\w|(?<![\w.-])[\w-]+\.azurecr\.[\w.-]*\w"
"""A pattern for the address of an account for storage, secrets or images."""

_TOKEN = r"(?<![A-Za-z0-9])(?=[A-Za-z0-9_-]*\d)(?=[A-Za-z0-9_-]*[A-Za-z])[A-Za-z0-9]{20,}(?![A-Za-z0-9])"
_WHERE = r"(?<![\w$/.~-])/(?!(?:" + _SYSTEM + r")(?:/|\b))[\w.+@%~-]+(?:/[\w.+@%~-]*)*"
_SHARE = r"\\\\+[\w.$-]+(?:\\+[\w.$-]+)*"
_SHAPES: Mapping[str, str] = {
    "email": _EMAIL,
    "address": "|".join((_IPV4, _MAC, _IPV6)),
    "share": _SHARE,
    "path": _WHERE,
    "store": _STORE,
    "id": _ID,
    "token": _TOKEN,
}
_STANDS_FOR = {
    "email": EMAIL,
    "address": ADDRESS,
    "share": PATH,
    "path": PATH,
    "store": ADDRESS,
    "id": TOKEN,
    "token": TOKEN,
}


class Known(NamedTuple):
    """The known secrets of a user and a cluster.

    users     login names, also those of an account elsewhere
    hosts     names of machines, short and full
    accounts  names and ids of the accounts that are billed
    home      the user's home directory, by all its names
    runs      the directory of the self-test's runs, by all its names
    """

    users: Collection[str] = ()
    hosts: Collection[str] = ()
    accounts: Collection[str] = ()
    home: Collection[str] = ()
    runs: Collection[str] = ()


def redact(text: str, known: Known, names: dict[str, str] | None = None) -> str:
    """Return `text` with the secrets in `known`, and everything that looks like an e-mail address, a network address, a
    path or a token, replaced by placeholders. `names` maps hosts to their replacements and is extended, so that several
    texts use the same ones. Text that is redacted already is unchanged."""
    names = {} if names is None else names
    for _ in range(_ROUNDS):
        former, text = text, _redact_once(text, known, names)
        if text == former:
            break
    return text


def _redact_once(text: str, known: Known, names: dict[str, str]) -> str:
    for replacement, paths in (("$RUNS", known.runs), ("$HOME", known.home)):
        text = _without_paths(text, paths, replacement)
    text = _without_words(mask_text(text), {USER: known.users, ACCOUNT: known.accounts})
    return _without_hosts(_without_shapes(text), known.hosts, names)


def _without_paths(text: str, paths: Collection[str], replacement: str) -> str:
    for path in sorted(filter(_is_telling, paths), key=len, reverse=True):
        text = re.sub(re.escape(path.rstrip("/")) + r"(?![\w.-])", lambda _: replacement, text)
    return text


def _is_telling(path: str) -> bool:
    return path.startswith("/") and path.strip("/") != ""


def _without_words(text: str, words: Mapping[str, Collection[str]]) -> str:
    for replacement, values in words.items():
        pattern = _one_of(value for value in values if value not in words)
        if pattern:
            text = re.sub(pattern, lambda _, made=replacement: made, text, flags=re.IGNORECASE)  # type: ignore[misc]
    return text


def _without_shapes(text: str) -> str:
    for shape, pattern in _SHAPES.items():
        text = re.sub(pattern, lambda _, made=_STANDS_FOR[shape]: made, text)  # type: ignore[misc]
    return text


def _without_hosts(text: str, hosts: Collection[str], names: dict[str, str]) -> str:
    pattern = _one_of(host for host in hosts if not re.fullmatch(r"node\d+", host))
    if not pattern:
        return text

    def name(found: re.Match[str]) -> str:
        return names.setdefault(found[0].lower(), f"node{len(names) + 1}")

    return re.sub(pattern, name, text, flags=re.IGNORECASE)


def _one_of(values: object) -> str:
    """Return a regular expression that matches any of `values` as a word, the longest first; "" if there are no
    values."""
    found = sorted({value for value in values if value}, key=lambda value: (-len(value), value))  # type: ignore[attr-defined]
    return _BEFORE + "(?:" + "|".join(map(re.escape, found)) + ")" + _AFTER if found else ""


def leaks(text: str, known: Known) -> list[str]:
    """Return the kinds of secrets that a redacted text still contains: "user", "host", "account", "home" or "runs" for
    those in `known`, or the name of a pattern such as "email" or "path"."""
    made = {USER, ACCOUNT}
    words = {"user": known.users, "account": known.accounts}
    found = [kind for kind, values in words.items() if _has_word(text, [each for each in values if each not in made])]
    if _has_word(text, [host for host in known.hosts if not re.fullmatch(r"node\d+", host)]):
        found.append("host")
    found += [kind for kind, paths in (("home", known.home), ("runs", known.runs)) if _has_path(text, paths)]
    return found + [shape for shape, pattern in _SHAPES.items() if re.search(pattern, text)]


def _has_word(text: str, values: Collection[str]) -> bool:
    pattern = _one_of(values)
    return bool(pattern and re.search(pattern, text, re.IGNORECASE))


def _has_path(text: str, paths: Collection[str]) -> bool:
    return any(re.search(re.escape(path.rstrip("/")) + r"(?![\w.-])", text) for path in filter(_is_telling, paths))
