"""The words of uv's command line, as the `options` of a build step may contain them: the paths that they name, and
their logins."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from worldsize.trust.secrets import mask_channel
from worldsize.wings.environments.sources import is_project

LIST_OPTIONS = frozenset((
    "-r", "--requirement", "--requirements", "-c", "--constraint", "--constraints", "--override", "--overrides",
    "-b", "--build-constraint", "--build-constraints", "--exclude", "--excludes",
))  # fmt: skip
"""Options whose value is a list of requirements."""

_NOT_BUILT = ("--project", "--directory", "--python", "--cache-dir")
_SHORT_SWITCHES, _SHORT_OPTIONS = "qvUn", "rcbeifpPC"
_SHORT_WORD = re.compile(f"(-[{_SHORT_SWITCHES}]*)(?:([{_SHORT_OPTIONS}])(.*))?", re.DOTALL)
_LONG_NAMES = {"-i": "--index-url", "-f": "--find-links"}
_INDEX_VARIABLES = {
    "--index-url": ("UV_INDEX_URL", " "),
    "--extra-index-url": ("UV_EXTRA_INDEX_URL", " "),
    "--default-index": ("UV_DEFAULT_INDEX", " "),
    "--index": ("UV_INDEX", " "),
    "--find-links": ("UV_FIND_LINKS", ","),
}
"""The variable that is equivalent to an option, and the separator of several values in it."""


def split_short_options(words: Iterable[str]) -> Iterator[str]:
    """Yield the words of a uv command line with each short option, and its value, in a word of its own: -q -r FILE for
    -qrFILE."""
    for word in words:
        found = _SHORT_WORD.fullmatch(word)
        if found is None or word == "-":
            yield word
            continue
        switches, option, value = found.groups()
        yield from ("-" + each for each in switches[1:])
        if option:
            yield "-" + option
        if value:
            yield value.removeprefix("=")


def named_paths(words: Sequence[str], directory: str) -> list[str]:
    """Return the paths of existing requirements lists, projects and directories that the words of a uv command name, in
    any form that uv accepts. Relative paths are resolved in the working directory `directory`."""
    found = []
    for before, word in pairwise(("", *words)):
        if before in _NOT_BUILT:
            continue
        option, _, value = word.partition("=")
        is_list = before in LIST_OPTIONS or option in LIST_OPTIONS
        for name in (word, value, word.rpartition(":")[0], value.rpartition(":")[0]):
            path = os.path.join(directory, name) if name else ""
            if os.path.isdir(path) or (os.path.isfile(path) and (is_list or is_project(path))):
                found.append(path)
    return found


def without_index_logins(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the words of a uv command without those index options that hold a login or a token, and the environment
    variables that are equivalent to the removed options."""
    kept: list[tuple[str, ...]] = []
    said: dict[str, list[str]] = {}
    left = iter(words)
    for word in left:
        name, equals, value = word.partition("=")
        name = _LONG_NAMES.get(name, name)
        if name not in _INDEX_VARIABLES:
            kept.append((word,))
            continue
        value = value if equals else next(left, "")
        said.setdefault(name, []).append(value)
        kept.append((name, value))
    hidden = {name for name, values in said.items() if any(mask_channel(each) != each for each in values)}
    variables = {_INDEX_VARIABLES[name][0]: _INDEX_VARIABLES[name][1].join(said[name]) for name in hidden}
    return [word for words in kept if words[0] not in hidden for word in words], variables
