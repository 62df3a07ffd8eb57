"""Names of variables, keys and options that say that a secret is under them: `HF_TOKEN`, `--api-key`, `dbPassword`.

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
"""With one of these a token is a language model's: PAD_TOKEN."""

_KEPT_WORDS = frozenset((
    "AUTHORIZATION", "BEARER", "CONNECTIONSTRING", "CONNSTR", "COOKIE", "CREDENTIAL", "JWT", "TOKEN",
))  # fmt: skip
_KEPT_KEYS = frozenset((
    "ACCESS", "ACCOUNT", "ADMIN", "API", "AUTH", "DEPLOY", "ENCRYPTION", "LICENCE", "LICENSE", "MASTER", "PRIVATE",
    "SHARED", "SIGNING", "STORAGE",
))  # fmt: skip
"""Before KEY: what is kept from others. A key alone may be a dictionary's."""

# One of these is in every name of a secret: most names need no regular expression, and to compile one takes longer than
# all the rest.
_NAME_MARKS = (
    "AUTH", "BEARER", "CONN", "COOKIE", "CRED", "DSN", "JWT", "KEY", "LICEN", "PASS", "PAT", "PW", "SAS", "SECRET",
    "SIG", "TOKEN", "WEBHOOK",
)  # fmt: skip
_LAST_WORDS = frozenset(("LICENSE", "LICENCE"))
"""What names a file or a server with a word after it: LM_LICENSE_FILE."""

_NOT_SECRET = frozenset(("PWD", "OLDPWD"))
_WORDS = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+"

SIMPLE = (
    r"[\"']?(?:[-+]?[0-9][0-9.,:eE+-]{0,15}|[A-Z]?[a-z_]{1,20}|[A-Z_]{1,20}|(?:~|\.{0,2})/[\w.-]+(?:/[\w.-]+)*/?)[\"']?"
)
"""Numbers, words, paths: most of what is under a name like a secret's, and is none."""

_SWITCH_OR_FILE = (
    r"[\"']?(?:[01]|(?i:true|false|yes|no|on|off|none|null|auto|default)"
    r"|(?:(?:~|\.{1,2})|/[\w.-]+)(?:/[\w.-]+)+/?)[\"']?"
)


def is_secret_name(name: str) -> bool:
    """Return whether a variable, key or option of this name holds a secret."""
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
    """Return whether a secret's name may be in `text`, by its letters alone."""
    # PATH is no PAT where it is one word, or one word's end or middle: of its letters all are small but the first.
    upper = text.replace("PATH", "/") if text.isupper() else text.replace("path", "/").replace("Path", "/").upper()
    return has_one(upper, _NAME_MARKS)


def has_one(text: str, marks: tuple[str, ...]) -> bool:
    for mark in marks:  # noqa: SIM110 a generator takes twice as long
        if mark in text:
            return True
    return False


def is_harmless(name: str, value: str) -> bool:
    """Return whether what a name like a secret's holds is none: `MAX_TOKENS=100`, `--sort-key loss`,
    `KEY_FILE=~/.ssh/key`. Under a name that is of one secret itself (HF_TOKEN, API_KEY) only a switch or a file is; and
    nothing where the name says password or secret."""
    upper = name.upper()
    if any(word in upper for word in ("PASS", "PW", "SECRET")):
        return False
    return re.fullmatch(_SWITCH_OR_FILE if _is_kept(name) else SIMPLE, value) is not None


def _is_kept(name: str) -> bool:
    """Return whether a secret's name is of the secret itself: not how many, or what is known of it."""
    words = _words(name)
    while words[-1].isdigit() and len(words) > 1:
        words.pop()
    if words[-1] == "KEY":
        return words[-2:-1] != [] and words[-2] in _KEPT_KEYS
    return words[-1] in _KEPT_WORDS or words[-1].endswith(_SECRET_ENDS) or words[-2:] == ["CONNECTION", "STRING"]
