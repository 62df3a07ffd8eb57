"""Parser for one line of a requirements file, as pip and uv read it: a package of an index, an address, or a path on
this machine. All functions are pure."""

from __future__ import annotations

import os
import re

from worldsize.common.named_tuple import NamedTuple

_INCLUDE = r"(-r|-c|-f|--requirement|--constraint|--find-links)(?:\s+|=|(?<=-[rcf]))(\S.*)"
_EDITABLE = r"(-e|--ed[a-z]*)(?:\s+|=|(?<=-e))(?=\S)"
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\s*\[[^\]]*\])?"
"""Pattern for a package's name and extras. Blanks belong to the part that follows them. If two parts could match them,
a line of blanks would take forever."""

_OF_INDEX = "(?s)" + _NAME + r"(?:\s*(?:\(.*\)|(?:===|==|~=|!=|<=|>=|<|>).*))?\s*(?:;.*|\s--.*|\s#.*)?"
_NAME_BEFORE = _NAME + r"\s*@\s*(?=\S)"
_ADDRESS = r"[A-Za-z][A-Za-z0-9+.-]*:"
_ARCHIVE = r"[^@\s]+\.(?:whl|tar\.gz|zip)"
_AFTER = r"(?<!\s)\s+(?:;|--|#)|;"
_EXTRAS = r"\[[^\[\]]*\]$"


class RequirementParts(NamedTuple):
    """The parts of a line: `place`, an address or a path, with the text before and after it. `place` is "" for a
    package of an index, or an option."""

    before: str
    place: str
    after: str

    @property
    def is_address(self) -> bool:
        return re.match(_ADDRESS, self.place) is not None

    @property
    def path(self) -> str:
        """The path in `place`, without the extras that are requested of it."""
        return re.sub(_EXTRAS, "", self.place)


def split_requirement(line: str) -> RequirementParts:
    """Split `line`, one line of a requirements file such as `foo @ ../tree`, `./tree[all]; python_version > "3"` or `-e
    ../tree`, into the address or path in it and the text before and after that."""
    text = line.strip()
    before = re.match(_EDITABLE, text) or re.match(_NAME_BEFORE, text)
    if before is None and (text.startswith("-") or _is_of_index(text)):
        return RequirementParts(text, "", "")
    start = before.end() if before else 0
    rest = text[start:]
    after = re.search(_AFTER, rest)
    end = after.start() if after else len(rest)
    return RequirementParts(text[:start], rest[:end], rest[end:])


def _is_of_index(text: str) -> bool:
    """Return whether `text`, a line of a requirements file, names a package of an index such as PyPI rather than an
    address or path, as far as the line shows it."""
    if re.fullmatch(_ARCHIVE, text) or text.startswith(".") or re.match(_ADDRESS, text):
        return False
    return re.fullmatch(_OF_INDEX, text) is not None or "/" not in text


def is_editable(line: str) -> bool:
    return re.match(_EDITABLE, line.strip()) is not None


def absolute_requirement(line: str, base: str) -> str:
    """Return `line`, a line of a requirements file, with the local paths in it made absolute against the directory
    `base`. Paths that begin with a variable stay as they are."""
    text = line.strip()
    option = re.fullmatch(_INCLUDE, text)
    if option:
        return "{} {}".format(option[1], option[2] if "://" in option[2] else _absolute_path(option[2], base))
    parts = split_requirement(text)
    if not parts.place or parts.is_address or parts.place.startswith("$"):
        return text
    extras = parts.place[len(parts.path) :]
    return parts.before + _absolute_path(parts.path, base) + extras + parts.after


def _absolute_path(path: str, base: str) -> str:
    return os.path.abspath(os.path.join(base, os.path.expanduser(path)))
