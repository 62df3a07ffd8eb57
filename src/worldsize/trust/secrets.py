"""Masking of secrets in everything that is written to files or shown.

By name: a word in the name of a variable, key or option shows that the value is secret (`HF_TOKEN`, `--api-key`,
`dbPassword`). By shape: passwords in URLs, and the tokens in conda's URLs (`/t/TOKEN/`), `NAME=value` with such a name,
bearer tokens, private keys, tokens with their service's own prefix. A secret without either is not recognised.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from worldsize.trust.secret_names import SIMPLE, has_one, is_harmless, is_secret_name, may_name_secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MASK = "***"
"""The text that replaces a secret wherever it is written to a file or shown."""

# Each text with a secret contains one of these, so most need no regular expression. Compiling those takes longer than
# all the rest.
_TEXT_MARKS = (
    "@", "Bearer", "Basic", "ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "hf_", "xox", "sk-",
    "sk_", "rk_", "AKIA", "ASIA", "AIza", "eyJ", "npm_", "pypi-Ag", "tskey-",
)  # fmt: skip
_RARE_MARKS = ("':", '":', ": ", "PRIVATE KEY", "Key:", "-key:", "Token:", "-token:")
_DISTINCTIVE, _DISTINCTIVE_WORD = 4, 8
"""The least number of characters of a value that is searched for elsewhere, and of one that could be any word or
number."""

_NO_PASSWORDS = ("", "x", "x-oauth-basic")
_LONG_NAME = 20
_NESTED = 50
"""The most names, one within the other, in a value whose parts are examined one by one."""

_QUOTE = r"[\"'](?=[^\s,:;)\]}])"
"""Pattern of a quotation mark within a word, which is one that does not end a text in JSON or Python."""

# Each alternative starts only at the beginning of a word, so that the time is linear in the text's length.
_SHAPES = (
    r"(?P<scheme>(?:(?<![A-Za-z0-9+.-])|(?<=\s-)|(?<=^-))[A-Za-z][A-Za-z0-9+.-]*://)(?P<login>[^\s/'\"]*)@"
    r"|(?P<bearer>\b(?:Bearer|Basic)\s+)[A-Za-z0-9._~+/=-]{8,}"
    r"|(?<![\w-])(?:gh[opsur]_|github_pat_|glpat-|hf_|xox[abprs]-|sk-|[sr]k_(?:live|test)_|AKIA|AIza"
    r"|pypi-Ag|tskey-|eyJ[A-Za-z0-9_-]+\.)[A-Za-z0-9._-]{10,}|(?<![\w-])(?:npm_[A-Za-z0-9]{36}|ASIA[A-Z0-9]{16})(?![\w-])"
    r"|(?P<option>(?<![^\s'\"])--?[A-Za-z][\w.-]*)(?P<gap>(?:[ \t]|\\\n)+)"
    r"(?P<word>(?:\"[^\"]*\"|'[^']*'|\\.|[^\s;&|\"'\\-])(?:\\.|[^\s;&|\"'\\]|" + _QUOTE + r")*)"
    r"|(?P<name>(?<![A-Za-z0-9_.-])[A-Za-z_-][A-Za-z0-9_.-]*)=(?!=)"
    r"(?P<value>(?:\"[^\"]*\"|'[^']*'|\\.|[^\s;&\"'\\])(?:\\.|[^\s;&\"'\\]|" + _QUOTE + r")*)"
)

_RARE_SHAPES = (
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|(?P<header>\b(?:[A-Za-z]+-){0,4}[Aa]uthorization:\s*\w+\s+)[^\s\"']+"
    r"|(?P<field>(?<=[\"'])(?!keys?\b)[A-Za-z][\w.-]*|(?<![\w.-])[A-Za-z]+(?:-[A-Za-z]+)+)(?P<colon>[\"']?:\s*[\"']?)"
    r"(?P<content>(?<=\")(?:\\.|[^\"\\\n])+|(?<=')(?:\\.|[^'\\\n])+|[^\s\"',{}\[\]()]+)"
)
"""Pattern of rare shapes. It is separate, like the next one, since compiling it takes as much time as everything else
that is done with most texts."""

_ODD_PASSWORD = (
    r"((?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]*://[^\s/:'\"]*:)(?![0-9]*/)"
    r"(?:[^\s/'\"]|" + _QUOTE + r")+(?:/[^\s@:'\"]*)?@"
)
"""Pattern of a password in an address with characters that should be written as %27, %22 and %2F."""

_REFERENCE = r"\"?\$\(.*|(\"?)\$(?:\w+|\{\w+\})\1|([\"']?)\$\{\{[^{}]*\}\}\2"
_ADDRESS = r"(?<![A-Za-z0-9+.-])([A-Za-z][A-Za-z0-9+.-]*://[^\s'\"/]*)([^\s'\"]*)"
_CHANNEL_TOKEN = r"(?i)((?:/|%2f)+(?:t|%74)(?:/|%2f)+)[^/?#%\s]+"
"""Pattern of a token in an address's path, which conda's servers accept as a password."""

_TOKEN_MARKS = ("/t/", "t%2f", "%74")
_CHANNELS = frozenset(("channel", "channels", "channel_alias"))


class _Masking:
    """A way of masking. If `sparing`, harmless values are kept even if their names are those of secrets."""

    def __init__(self, sparing: bool) -> None:
        self._sparing = sparing

    def value(self, name: str, value: str) -> str:
        if name in _CHANNELS:
            return self.channel(value)
        return MASK if value and self._is_secret(name, value) else self.text(value)

    def text(self, text: str) -> str:
        if has_one(text, _RARE_MARKS) and may_name_secret(text):
            text = re.sub(_RARE_SHAPES, self._mask_rare, text)
        if has_one(text, _TEXT_MARKS) or (("=" in text or "-" in text) and may_name_secret(text)):
            text = re.sub(_SHAPES, self._mask_match, text)
            if "://" in text and text.count("@") > text.count(MASK + "@"):
                text = re.sub(_ODD_PASSWORD, r"\1" + MASK + "@", text)
        return mask_tokens_in_paths(text)

    def channel(self, text: str) -> str:
        """Return the text of a conda channel with secrets masked. A token is also recognised in a name below an alias:
        t/TOKEN/NAME."""
        return re.sub(r"^(t/+)[^/?#\s]+(?=/)", r"\1" + MASK, self.text(text))

    def argv(self, argv: Iterable[str]) -> list[str]:
        masked: list[str] = []
        option = ""
        for word in argv:
            is_option = word.startswith("-")
            hidden = option and not is_option and self._is_secret(option, word)
            masked.append(MASK if hidden and not _is_reference(word) else self.text(word))
            option = word if is_option and "=" not in word and " " not in word else ""
        return masked

    def tree(self, value: Any, name: str) -> Any:
        if isinstance(value, str):
            return self.value(name, value)
        if isinstance(value, Mapping):
            return {key: self.tree(item, str(key)) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            words = not is_secret_name(name) and name not in _CHANNELS
            if words and all(isinstance(item, str) for item in value):
                return self.argv(value)
            return [self.tree(item, name) for item in value]
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return MASK if is_secret_name(name) and not is_harmless(name, str(value)) else value
        return value

    def _is_secret(self, name: str, value: str) -> bool:
        return is_secret_name(name) and not (self._sparing and is_harmless(name, value))

    def _mask_match(self, match: re.Match[str]) -> str:
        if match["scheme"] is not None:
            return f"{match['scheme']}{_mask_login(match['scheme'], match['login'])}@"
        if match["bearer"] is not None:
            return match["bearer"] + MASK
        if match["option"] is not None:
            return match["option"] + match["gap"] + self._mask_named(match["option"], match["word"])
        if match["name"] is None:
            return MASK
        return f"{match['name']}={self._mask_named(match['name'], match['value'])}"

    def _mask_rare(self, match: re.Match[str]) -> str:
        if match["header"] is not None:
            return match["header"] + MASK
        if match["field"] is not None:
            return match["field"] + match["colon"] + self._mask_named(match["field"], match["content"])
        return MASK

    def _mask_named(self, name: str, value: str) -> str:
        """Return `value`, found under `name`, masked if the name is that of a secret, else with the secrets in it
        masked. A reference to a variable is not a secret: `--token $TOKEN`."""
        if self._is_secret(name, value):
            return value if _is_reference(value) else MASK
        if value.count("=") > _NESTED:
            return MASK if may_name_secret(value) else value
        return re.sub(_SHAPES, self._mask_match, value)


_ALL, _SPARING = _Masking(sparing=False), _Masking(sparing=True)


mask = _ALL.value
"""Function that masks the value of a name: `***` if the name is a secret's, else the value with its secrets masked."""

mask_text = _ALL.text
"""Function that masks everything in free text that looks like a secret."""

mask_channel = _ALL.channel
"""Function that masks a conda channel, given by name or address, or a text about one."""

mask_argv = _ALL.argv
"""Function that masks the words of a command line, including the value that follows `--api-key`."""


def is_secret(name: str, value: str) -> bool:
    """Return whether `value` of a variable called `name` is a secret, or contains one. Numbers, words and files under a
    name that is only similar to a secret's are not secrets."""
    return _SPARING.value(name, value) != value


def mask_tokens_in_paths(text: str) -> str:
    """Return `text` with the access tokens masked that conda's servers accept in the paths of URLs (/t/TOKEN/), and
    otherwise unchanged."""
    if "://" in text and has_one(text.lower(), _TOKEN_MARKS):
        return re.sub(_ADDRESS, _without_token, text)
    return text


def mask_tree(value: Any, name: str = "", sparing: bool = False) -> Any:
    """Return a JSON value with every secret in it masked, by its key or its shape. Texts in a list are treated as words
    of a command line.

    With `sparing`, numbers, simple words and paths are kept under names that are only similar to a secret's
    (MAX_TOKENS, SORT_KEY). It is for places where a masked value is lost.
    """
    return (_SPARING if sparing else _ALL).tree(value, name)


def secret_values(named: Mapping[str, str], also: Collection[str] = ()) -> list[str]:
    """Return the values of variables or inputs in `named` that are secrets: by their names, or because `also` lists
    their names. Values that are harmless, or too short to be distinguished from other text, are left out."""
    found = {name: value for name, value in named.items() if len(value) >= _DISTINCTIVE}
    return [
        value
        for name, value in found.items()
        if name in also or (_SPARING.value(name, value) == MASK and _is_distinctive(value))
    ]


def _is_distinctive(value: str) -> bool:
    """Return whether a secret `value` can be distinguished from other text, so that it may be masked wherever it
    occurs. `HF_TOKEN: train` must not remove `train` from a command."""
    return len(value) >= _DISTINCTIVE_WORD or re.fullmatch(SIMPLE, value) is None


def mask_values(value: Any, secrets: Collection[str]) -> Any:
    """Return the JSON value `value` with each text of `secrets` masked wherever it occurs, also in names. Call it
    before names and shapes are masked: those may mask only the beginning of a value, and the rest would no longer be
    found."""
    if not secrets:
        return value
    if isinstance(value, str):
        for secret in sorted(secrets, key=len, reverse=True):  # a secret may be the beginning of another
            value = value.replace(secret, MASK)
        return value
    if isinstance(value, Mapping):
        return {mask_values(key, secrets): mask_values(item, secrets) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [mask_values(item, secrets) for item in value]
    return value


def _mask_login(scheme: str, login: str) -> str:
    """Return `login`, the part of a URL between the scheme and the last @ (USER:PASSWORD), masked. A user name without
    a password is a token in a web or git address. With an empty password, or with a word that means none, it is a
    token, too."""
    user, colon, word = login.partition(":")
    is_web = scheme.lower().rpartition("+")[2] in ("http://", "https://")
    if not colon:
        return MASK if user and (is_web or _is_like_token(user)) else user
    is_token = user and ((is_web and word in _NO_PASSWORDS) or _is_like_token(user))
    return f"{MASK if is_token else user}:{MASK}"


def _is_like_token(user: str) -> bool:
    """Return whether the user name in a URL is actually an access token, by its length or the shape of a service's
    tokens."""
    return (len(user) >= _LONG_NAME and any(map(str.isdigit, user))) or _ALL.text(user) != user


def _without_token(address: re.Match[str]) -> str:
    return address[1] + re.sub(_CHANNEL_TOKEN, r"\1" + MASK, address[2])


def _is_reference(value: str) -> bool:
    return re.fullmatch(_REFERENCE, value) is not None
