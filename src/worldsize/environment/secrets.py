"""Secrets out of what is written down or shown.

By name: a word of a variable's, key's or option's name says what it holds (`HF_TOKEN`, `--api-key`, `dbPassword`).
By shape: passwords in URLs, and the tokens in conda's (`/t/TOKEN/`), `NAME=value` with such a name, bearer tokens,
tokens with their service's own prefix.
A secret without either is not recognised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MASK = "***"

_SECRET_WORDS = frozenset(
    (
        *("AUTH", "AUTHORIZATION", "CONNECTIONSTRING", "CONNSTR", "COOKIE", "COOKIES", "CREDENTIAL", "CREDENTIALS"),
        *("CREDS", "DSN", "KEY", "KEYS", "PASS", "PASSPHRASE", "PASSWD", "PASSWORD", "PASSWORDS", "PW", "PWD", "SAS"),
        *("SECRET", "SECRETS", "SIG", "SIGNATURE", "TOKEN", "TOKENS"),
    )
)
_SECRET_ENDS = ("APIKEY", "ACCESSKEY", "ACCOUNTKEY", "SECRETKEY", "PASSWD", "PASSWORD", "SECRET", "TOKEN")
# One of these is in every secret name or text: most need no regular expression.
_TEXT_MARKS = ("=", "@", "Bearer", "Basic", "gh", "glpat-", "hf_", "xox", "sk-", "AKIA", "eyJ")
_NAME_MARKS = ("AUTH", "CONN", "COOKIE", "CRED", "DSN", "KEY", "PASS", "PW", "SAS", "SECRET", "SIG", "TOKEN")
_NOT_SECRET = frozenset(("PWD", "OLDPWD"))
_WORDS = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+"

# Each alternative starts only where a word does: linear in the text's length.
_SHAPES = (
    r"(?P<scheme>(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]*://)(?P<user>[^\s/@:'\"]*):[^\s/'\"]*@"
    r"|(?P<web>\bhttps?://)[^\s/@:'\"]+@"
    r"|(?P<bearer>\b(?:Bearer|Basic)\s+)[A-Za-z0-9._~+/=-]{8,}"
    r"|(?<![\w-])(?:gh[opsur]_|github_pat_|glpat-|hf_|xox[abprs]-|sk-|AKIA|eyJ[A-Za-z0-9_-]+\.)[A-Za-z0-9._-]{10,}"
    r"|(?P<name>(?<![A-Za-z0-9_.-])[A-Za-z_-][A-Za-z0-9_.-]*)=(?P<value>\"[^\"]*\"|'[^']*'|[^\s;&\"']+)"
)

_ADDRESS = r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"]+"
_CHANNEL_TOKEN = r"(?<=[^/:]/t/)[^/?#\s]+|^t/[^/?#\s]+(?=/)"
"""In an address, and in the name of a channel below an alias: what conda's servers take for a password."""

_CHANNELS = frozenset(("channel", "channels", "channel_alias"))


def is_secret_name(name: str) -> bool:
    """Whether a variable, key or option of this name holds a secret."""
    upper = name.upper()
    if name in _NOT_SECRET or not any(mark in upper for mark in _NAME_MARKS):
        return False
    words = [word.upper() for word in re.findall(_WORDS, name)]
    if any(word in _SECRET_WORDS or word.endswith(_SECRET_ENDS) for word in words):
        return True
    return "CONNECTION" in words and "STRING" in words


def mask(name: str, value: str) -> str:
    """The value as it may be written down: `***` where the name is a secret's, else with its secrets masked."""
    if name in _CHANNELS:
        return mask_channel(value)
    return MASK if value and is_secret_name(name) else mask_text(value)


def mask_text(text: str) -> str:
    """Free text with what looks like a secret in it masked."""
    if any(mark in text for mark in _TEXT_MARKS):
        text = re.sub(_SHAPES, _masked, text)
    if "/t/" in text and "://" in text:
        text = re.sub(_ADDRESS, lambda found: re.sub(_CHANNEL_TOKEN, _masked_token, found[0]), text)
    return text


def mask_channel(text: str) -> str:
    """A channel of conda's, by name or address, or text about one."""
    return re.sub(_CHANNEL_TOKEN, _masked_token, mask_text(text))


def _masked_token(match: re.Match[str]) -> str:
    return "t/" + MASK if match[0].startswith("t/") else MASK


def mask_argv(argv: Iterable[str]) -> list[str]:
    """A command line: also the value that stands after `--api-key`."""
    masked: list[str] = []
    after_secret = False
    for word in argv:
        is_option = word.startswith("-")
        masked.append(MASK if after_secret and not is_option else mask_text(word))
        after_secret = is_option and "=" not in word and word.startswith("--") and is_secret_name(word)
    return masked


def mask_tree(value: Any, name: str = "") -> Any:
    """A value of JSON's kinds with every secret in it masked, by its key or its shape; texts in a list as words."""
    if isinstance(value, str):
        return mask(name, value)
    if isinstance(value, Mapping):
        return {key: mask_tree(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        words = not is_secret_name(name) and name not in _CHANNELS
        if words and all(isinstance(item, str) for item in value):
            return mask_argv(value)
        return [mask_tree(item, name) for item in value]
    return value


def _masked(match: re.Match[str]) -> str:
    if match["scheme"] is not None:
        return "%s%s:%s@" % (match["scheme"], match["user"], MASK)
    if match["web"] is not None:
        return "%s%s@" % (match["web"], MASK)
    if match["bearer"] is not None:
        return match["bearer"] + MASK
    if match["name"] is None:
        return MASK
    if is_secret_name(match["name"]):
        return "%s=%s" % (match["name"], MASK)
    return "%s=%s" % (match["name"], re.sub(_SHAPES, _masked, match["value"]))
