"""Values with their place in the source: the tree from which a job is read, from YAML, Python or the command line."""

from __future__ import annotations

import os

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.errors import JobError, UsageError

MAX_DEPTH = 60


class YamlNode(NamedTuple):
    """A value and its place in the source.

    value   None, bool, int, float, str, list of YamlNode, dict of str to YamlNode, or an object that no reader accepts
    text    a scalar as it was written
    origin  a file, "command()", or an option of the command line; `line` counts from 1, 0 for no line
    loose   whether it was written on a command line, where text has no quotes
    """

    value: Any
    text: str
    origin: str
    line: int = 0
    loose: bool = False

    @property
    def where(self) -> str:
        return f"{self.origin}:{self.line}" if self.line else self.origin

    @property
    def kind(self) -> str:
        """The kind of the value, in a user's words, without the value itself."""
        for type_, name in _KINDS:
            if isinstance(self.value, type_):
                return name
        return f"a {type(self.value).__name__} object"


_KINDS: tuple[tuple[type, str], ...] = (
    (type(None), "nothing"),
    (bool, "a boolean"),
    (int, "a whole number"),
    (float, "a number"),
    (str, "text"),
    (list, "a list"),
    (dict, "a mapping"),
)


def to_node(value: Any, origin: str, depth: int = 0, error: type[UsageError] = JobError) -> YamlNode:
    """Convert the Python value `value`, such as a dictionary of a job's keys, to a tree of YamlNode with the place
    `origin`. Raise `error` for a key that is no text, a number that is too long, or a structure that is nested too deep
    or endless."""
    if depth > MAX_DEPTH:
        raise error(f"nested more than {MAX_DEPTH} deep", origin)
    if hasattr(value, "_asdict"):
        value = {name: item for name, item in value._asdict().items() if item is not None}
    if isinstance(value, dict):
        return YamlNode(_dict_of_nodes(value, origin, depth, error), "", origin)
    if isinstance(value, (list, tuple)):
        return YamlNode([to_node(item, origin, depth + 1, error) for item in value], "", origin)
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    elif hasattr(value, "isoformat"):
        value = value.isoformat()
    if value is None or isinstance(value, bool):
        return YamlNode(value, {None: "", True: "true", False: "false"}[value], origin)
    if isinstance(value, str):
        text = str.__str__(value)
        return YamlNode(text, text, origin)
    if isinstance(value, float):
        return YamlNode(float(value), float.__repr__(value), origin)
    if isinstance(value, int):
        return YamlNode(int(value), _digits(value, origin, error), origin)
    return YamlNode(value, "", origin)


def _digits(value: int, origin: str, error: type[UsageError]) -> str:
    if value.bit_length() > 1024:
        raise error("a number of more than 300 digits", origin)
    return int.__repr__(value)


def _dict_of_nodes(value: dict[Any, Any], origin: str, depth: int, error: type[UsageError]) -> dict[str, YamlNode]:
    for key in value:
        if not isinstance(key, str):
            raise error(f"the key {key!r:.40} is not text", origin, "write it in quotes")
    return {str.__str__(key): to_node(item, origin, depth + 1, error) for key, item in value.items()}


def plain_value(node: YamlNode) -> Any:
    """Convert a tree of YamlNode back to plain Python values (dict, list, scalars) without places."""
    if isinstance(node.value, dict):
        return {name: plain_value(item) for name, item in node.value.items()}
    if isinstance(node.value, list):
        return [plain_value(item) for item in node.value]
    return node.value


def value_description(node: YamlNode) -> str:
    """Return a text for messages about the value in `node`: its kind, such as "a list", preceded by the value itself if
    it is a short scalar: "3 (a whole number)"."""
    if node.value is None or isinstance(node.value, (list, dict)) or not node.text or len(node.text) > 40:
        return node.kind
    return f"{repr(node.value) if isinstance(node.value, str) else node.text} ({node.kind})"
