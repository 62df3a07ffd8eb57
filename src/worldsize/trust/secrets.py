"""Secrets out of what is written down or shown.

By name: a word of a variable's, key's or option's name says what it holds (`HF_TOKEN`, `--api-key`, `dbPassword`).
By shape: passwords in URLs, and the tokens in conda's (`/t/TOKEN/`), `NAME=value` with such a name, bearer tokens,
private keys, tokens with their service's own prefix.
A secret without either is not recognised.

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
"""What stands for a secret, wherever it is written down or shown."""

# One of these is in every text with a secret: most need no regular expression, and to compile those takes longer than
# all the rest.
_TEXT_MARKS = (
    "@", "Bearer", "Basic", "ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "hf_", "xox", "sk-",
    "sk_", "rk_", "AKIA", "ASIA", "AIza", "eyJ", "npm_", "pypi-Ag", "tskey-",
)  # fmt: skip
_RARE_MARKS = ("':", '":', ": ", "PRIVATE KEY", "Key:", "-key:", "Token:", "-token:")
_DISTINCTIVE, _DISTINCTIVE_WORD = 4, 8
"""Characters of a value from which on it is looked for elsewhere; of one that could be any word or number."""

_NO_PASSWORDS = ("", "x", "x-oauth-basic")
_LONG_NAME = 20
_NESTED = 50
"""So many names in a value, one within the other, are looked at each for itself."""

_QUOTE = r"[\"'](?=[^\s,:;)\]}])"
"""Within a word: what follows does not follow the end of a text in JSON or Python."""

# Each alternative starts only where a word does: linear in the text's length.
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
"""Apart, as the next, since to compile them takes as long as all else that is done with most texts."""

_ODD_PASSWORD = (
    r"((?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]*://[^\s/:'\"]*:)(?![0-9]*/)"
    r"(?:[^\s/'\"]|" + _QUOTE + r")+(?:/[^\s@:'\"]*)?@"
)
"""Of an address, with what would have to be written as %27, %22 and %2F."""

_REFERENCE = r"\"?\$\(.*|(\"?)\$(?:\w+|\{\w+\})\1|([\"']?)\$\{\{[^{}]*\}\}\2"
_ADDRESS = r"(?<![A-Za-z0-9+.-])([A-Za-z][A-Za-z0-9+.-]*://[^\s'\"/]*)([^\s'\"]*)"
_CHANNEL_TOKEN = r"(?i)((?:/|%2f)+(?:t|%74)(?:/|%2f)+)[^/?#%\s]+"
"""In an address's path: what conda's servers take for a password."""

_TOKEN_MARKS = ("/t/", "t%2f", "%74")
_CHANNELS = frozenset(("channel", "channels", "channel_alias"))


class _Masking:
    """`sparing`: what is harmless stays, although its name is a secret's."""

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
        """Return a channel of conda's, masked; a token is also found in its name below an alias: t/TOKEN/NAME."""
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
        """What names a variable is no secret yet: `--token $TOKEN`."""
        if self._is_secret(name, value):
            return value if _is_reference(value) else MASK
        if value.count("=") > _NESTED:
            return MASK if may_name_secret(value) else value
        return re.sub(_SHAPES, self._mask_match, value)


_ALL, _SPARING = _Masking(sparing=False), _Masking(sparing=True)


mask = _ALL.value
"""The value of a name as it may be written down: `***` where the name is a secret's, else with its secrets masked."""

mask_text = _ALL.text
"""Free text with what looks like a secret in it masked."""

mask_channel = _ALL.channel
"""A channel of conda's, by name or address, or text about one."""

mask_argv = _ALL.argv
"""A command line: also the value that stands after `--api-key`."""


def is_secret(name: str, value: str) -> bool:
    """Return whether a variable of this name has a secret as, or in, its value; numbers, words and files under a name
    that is only like a secret's are none."""
    return _SPARING.value(name, value) != value


def mask_tokens_in_paths(text: str) -> str:
    """Addresses in `text` without what conda's servers take for a password, and otherwise as they are."""
    if "://" in text and has_one(text.lower(), _TOKEN_MARKS):
        return re.sub(_ADDRESS, _without_token, text)
    return text


def mask_tree(value: Any, name: str = "", sparing: bool = False) -> Any:
    """Return a value of JSON's kinds with every secret in it masked, by its key or its shape; texts in a list as words.

    `sparing`: where a secret that is masked is lost, numbers, simple words and paths stay under names that are only
    like a secret's (MAX_TOKENS, SORT_KEY).
    """
    return (_SPARING if sparing else _ALL).tree(value, name)


def secret_values(named: Mapping[str, str], also: Collection[str] = ()) -> list[str]:
    """Return the values of these variables, or inputs, that are secrets: by their names, or because `also` names them.
    Not those that are harmless, or too short to be told from other text."""
    found = {name: value for name, value in named.items() if len(value) >= _DISTINCTIVE}
    return [
        value
        for name, value in found.items()
        if name in also or (_SPARING.value(name, value) == MASK and _is_distinctive(value))
    ]


def _is_distinctive(value: str) -> bool:
    """Return whether it can be told from other text: `HF_TOKEN: train` may not take `train` out of a command."""
    return len(value) >= _DISTINCTIVE_WORD or re.fullmatch(SIMPLE, value) is None


def mask_values(value: Any, secrets: Collection[str]) -> Any:
    """Return a value of JSON's kinds without these texts, wherever they are in it, names too. Before names and shapes
    are masked: those may take the beginning of a value alone, and what is left is found no more."""
    if not secrets:
        return value
    if isinstance(value, str):
        for secret in sorted(secrets, key=len, reverse=True):  # one may be the beginning of another
            value = value.replace(secret, MASK)
        return value
    if isinstance(value, Mapping):
        return {mask_values(key, secrets): mask_values(item, secrets) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [mask_values(item, secrets) for item in value]
    return value


def _mask_login(scheme: str, login: str) -> str:
    """What stands before the last @ of an address. A user alone is a token where it is for a web server, also of git;
    one with nothing, or with a word that says so, in the password's place, too."""
    user, colon, word = login.partition(":")
    is_web = scheme.lower().rpartition("+")[2] in ("http://", "https://")
    if not colon:
        return MASK if user and (is_web or _is_like_token(user)) else user
    is_token = user and ((is_web and word in _NO_PASSWORDS) or _is_like_token(user))
    return f"{MASK if is_token else user}:{MASK}"


def _is_like_token(user: str) -> bool:
    """Return whether the name of a user is none, by its length or a service's own shape."""
    return (len(user) >= _LONG_NAME and any(map(str.isdigit, user))) or _ALL.text(user) != user


def _without_token(address: re.Match[str]) -> str:
    return address[1] + re.sub(_CHANNEL_TOKEN, r"\1" + MASK, address[2])


def _is_reference(value: str) -> bool:
    return re.fullmatch(_REFERENCE, value) is not None
