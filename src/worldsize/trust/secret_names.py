"""Recognition of names of variables, keys and options that contain secrets: `HF_TOKEN`, `--api-key`, `dbPassword`.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import re

_SECRET_WORDS = frozenset((
    "AUTH", "AUTHORIZATION", "BEARER", "CONNECTIONSTRING", "CONNSTR", "COOKIE", "COOKIES", "CREDENTIAL", "CREDENTIALS",
    "CREDS", "DSN", "JWT", "KEY", "KEYS", "PASS", "PASSPHRASE", "PASSWD", "PASSWORD", "PASSWORDS", "PAT", "PW", "PWD",
    "SAS", "SECRET", "SECRETS", "SIG", "SIGNATURE", "TOKEN", "TOKENS", "WEBHOOK", "WEBHOOKS",
))  # fmt: skip
_SECRET_ENDS = (
    "APIKEY", "APIKEYS", "ACCESSKEY", "ACCOUNTKEY", "AUTHKEY", "PASSKEY", "PRIVATEKEY", "SECRETKEY", "SSHKEY", "BINDPW",
    "PASSWD", "PASSWORD", "SECRET", "TOKEN", "ADMINPASS", "DBPASS", "PGPASS", "ROOTPASS", "SQLPASS", "SSHPASS",
    "USERPASS",
)  # fmt: skip
_TOKENS_OF_TEXT = frozenset(("BOS", "CLS", "EOS", "MASK", "PAD", "SEP", "SPECIAL", "STOP", "UNK"))
"""Words with which TOKEN means a token of a language model: PAD_TOKEN."""

_KEPT_WORDS = frozenset((
    "AUTHORIZATION", "BEARER", "CONNECTIONSTRING", "CONNSTR", "COOKIE", "CREDENTIAL", "JWT", "TOKEN",
))  # fmt: skip
_KEPT_KEYS = frozenset((
    "ACCESS", "ACCOUNT", "ADMIN", "API", "AUTH", "DEPLOY", "ENCRYPTION", "LICENCE", "LICENSE", "MASTER", "PRIVATE",
    "SHARED", "SIGNING", "STORAGE",
))  # fmt: skip
"""Words before KEY that make it a secret. KEY alone may be the key of a dictionary."""

# Each name of a secret contains one of these, so most names need no regular expression. Compiling one takes longer than
# all the rest.
_NAME_MARKS = (
    "AUTH", "BEARER", "CONN", "COOKIE", "CRED", "DSN", "JWT", "KEY", "LICEN", "PASS", "PAT", "PW", "SAS", "SECRET",
    "SIG", "TOKEN", "WEBHOOK",
)  # fmt: skip
_LAST_WORDS = frozenset(("LICENSE", "LICENCE"))
"""Words that mean a secret only at the end of a name. With a word after them they name a file or a server:
LM_LICENSE_FILE."""

_NOT_SECRET = frozenset(("PWD", "OLDPWD"))
_WORDS = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+"

SIMPLE = (
    r"[\"']?(?:[-+]?[0-9][0-9.,:eE+-]{0,15}|[A-Z]?[a-z_]{1,20}|[A-Z_]{1,20}|(?:~|\.{0,2})/[\w.-]+(?:/[\w.-]+)*/?)[\"']?"
)
"""Pattern of numbers, words and paths: most values under secret-like names that are not secrets."""

_SWITCH_OR_FILE = (
    r"[\"']?(?:[01]|(?i:true|false|yes|no|on|off|none|null|auto|default)"
    r"|(?:(?:~|\.{1,2})|/[\w.-]+)(?:/[\w.-]+)+/?)[\"']?"
)


def is_secret_name(name: str) -> bool:
    """Return whether the value of a variable, key or option called `name` is a secret, judged by the words in the
    name."""
    if name in _NOT_SECRET or not may_name_secret(name):
        return False
    words = _words(name)
    if any(word in _SECRET_WORDS or word.endswith(_SECRET_ENDS) for word in words) or words[-1] in _LAST_WORDS:
        return True
    return "CONNECTION" in words and "STRING" in words


def _words(name: str) -> list[str]:
    words = [word.upper() for word in re.findall(_WORDS, name)]
    if _TOKENS_OF_TEXT.isdisjoint(words):
        return words
    return [word for word in words if word not in ("TOKEN", "TOKENS")]


def may_name_secret(text: str) -> bool:
    """Return whether `text` may contain the name of a secret. This is a fast test of its letters only."""
    # PATH does not count as PAT if it is a word or a part of one: its letters are all capitals, or small but the first.
    upper = text.replace("PATH", "/") if text.isupper() else text.replace("path", "/").replace("Path", "/").upper()
    return has_one(upper, _NAME_MARKS)


def has_one(text: str, marks: tuple[str, ...]) -> bool:
    for mark in marks:  # noqa: SIM110 a generator takes twice as long
        if mark in text:
            return True
    return False


def is_harmless(name: str, value: str) -> bool:
    """Return whether `value` is not a secret although `name` is a secret's name: `MAX_TOKENS=100`, `--sort-key loss`,
    `KEY_FILE=~/.ssh/key`. Under a name of a single secret (HF_TOKEN, API_KEY) only a switch or a file is harmless. If
    the name contains a word for password or secret, nothing is."""
    upper = name.upper()
    if any(word in upper for word in ("PASS", "PW", "SECRET")):
        return False
    return re.fullmatch(_SWITCH_OR_FILE if _is_kept(name) else SIMPLE, value) is not None


def _is_kept(name: str) -> bool:
    """Return whether `name` names one secret itself (HF_TOKEN, API_KEY), and not a number of secrets or information
    about one."""
    words = _words(name)
    while words[-1].isdigit() and len(words) > 1:
        words.pop()
    if words[-1] == "KEY":
        return words[-2:-1] != [] and words[-2] in _KEPT_KEYS
    return words[-1] in _KEPT_WORDS or words[-1].endswith(_SECRET_ENDS) or words[-2:] == ["CONNECTION", "STRING"]
