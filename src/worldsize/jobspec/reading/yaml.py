"""Conversion of YAML text to a tree of nodes with lines. The text is read safely as YAML 1.1, as a service's own reader
would read it.

These differences are deliberate: dates stay text, duplicate keys and keys that are no text are refused, and the
expansion of aliases is limited. JobError is raised for a text that is not one YAML document.
"""

from __future__ import annotations

import yaml

from worldsize.common.named_tuple import Any
from worldsize.errors import JobError
from worldsize.jobspec.reading.tree import MAX_DEPTH, YamlNode

MAX_NODES = 100_000
MAX_BITS = 1024

_TAG = "tag:yaml.org,2002:"
_TEXT_TAGS = frozenset(_TAG + name for name in ("str", "timestamp", "value", "merge"))
_MERGE = _TAG + "merge"


class _Loader(yaml.SafeLoader):
    """Safe loader with a limit for the depth of nesting, which no job reaches, instead of Python's recursion limit, and
    with a limit for the number of values."""

    depth = 0
    count = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.depth += 1
        self.count += 1
        if self.depth > MAX_DEPTH + 2:
            raise yaml.composer.ComposerError(
                problem=f"nested more than {MAX_DEPTH} deep", problem_mark=self.get_mark()
            )
        if self.count > MAX_NODES:
            raise yaml.composer.ComposerError(problem=f"more than {MAX_NODES} values", problem_mark=self.get_mark())
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def parse_yaml(text: str, origin: str, loose: bool = False) -> YamlNode:
    """Parse `text`, one YAML document, and return it as a tree of YamlNode with the places in `origin`. An empty
    document is a YamlNode of None. `loose` is whether the text was written on a command line. Raise JobError if the
    text is not one YAML document."""
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, origin) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        what = f"a character that YAML does not allow: {chr(error.character)!r}"
        raise JobError(what, f"{origin}:{line}") from None
    except (ValueError, OverflowError):
        raise JobError("not YAML: an escape that is not a character", f"{origin}:{loader.line + 1}") from None
    if root is None:
        return YamlNode(None, "", origin, 1, loose)
    return _TreeBuilder(loader, origin, loose).node(root)


def _syntax_error(error: yaml.MarkedYAMLError, origin: str) -> JobError:
    mark = error.problem_mark or error.context_mark
    problem = error.problem or "not YAML"
    place = f"{origin}:{mark.line + 1}" if mark else origin
    if "expected a single document" in (error.context or ""):
        return JobError("a second document begins here", place, "a file contains one job")
    column = f", column {mark.column + 1}" if mark else ""
    hint = "YAML is indented with spaces, not tabs" if "'\\t'" in problem else None
    return JobError(f"not YAML{column}: {problem}", place, hint)


class _TreeBuilder:
    """Converter of composed YAML nodes to `YamlNode`s, which counts them as aliases expand."""

    def __init__(self, loader: _Loader, origin: str, loose: bool) -> None:
        self.loader = loader
        self.origin = origin
        self.loose = loose
        self.count = 0
        self.open: list[yaml.Node] = []

    def node(self, item: yaml.Node) -> YamlNode:
        self.count += 1
        if self.count > MAX_NODES:
            raise self.error(item, f"its aliases expand to more than {MAX_NODES} values")
        if isinstance(item, yaml.ScalarNode):
            return self.make_node(scalar_value(self.loader, item, self.origin), item.value, item)
        if any(item is other for other in self.open):
            raise self.error(item, "an anchor that contains itself")
        self.open.append(item)
        value = self.mapping(item) if isinstance(item, yaml.MappingNode) else self.sequence(item)
        self.open.pop()
        return self.make_node(value, "", item)

    def make_node(self, value: Any, text: str, item: yaml.Node) -> YamlNode:
        return YamlNode(value, text, self.origin, 0 if self.loose else item.start_mark.line + 1, self.loose)

    def error(self, item: yaml.Node, what: str, hint: str | None = None) -> JobError:
        return JobError(what, f"{self.origin}:{item.start_mark.line + 1}", hint)

    def sequence(self, item: yaml.Node) -> list[YamlNode]:
        self.check_tag(item, "seq")
        return [self.node(child) for child in item.value]

    def check_tag(self, item: yaml.Node, expected: str) -> None:
        if item.tag != _TAG + expected:
            raise self.error(item, f"the tag {_short_tag(item.tag)} is not allowed", "a job contains plain values only")

    def mapping(self, item: yaml.Node) -> dict[str, YamlNode]:
        self.check_tag(item, "map")
        merged: dict[str, YamlNode] = {}
        own: dict[str, YamlNode] = {}
        lines: dict[str, int] = {}
        for key, value in item.value:
            if key.tag == _MERGE:
                merged = {**self.read_merge(value), **merged}
                continue
            name = self.key(key)
            line = key.start_mark.line + 1
            if name in own:
                raise self.error(key, f"the key {name!r:.60} occurs twice: here and on line {lines[name]}")
            lines[name] = line
            own[name] = self.node(value)._replace(line=0 if self.loose else line)
        return {**merged, **own}

    def read_merge(self, value: yaml.Node) -> dict[str, YamlNode]:
        """Return the entries that the YAML merge key `<<` with the value `value`, a mapping or a list of mappings, adds
        to a mapping. Of several mappings, the first wins."""
        found: dict[str, YamlNode] = {}
        parts = value.value if isinstance(value, yaml.SequenceNode) else [value]
        for part in parts:
            if not isinstance(part, yaml.MappingNode):
                raise self.error(part, "<< takes a mapping, or a list of mappings")
            found = {**self.node(part).value, **found}
        return found

    def key(self, item: yaml.Node) -> str:
        if not isinstance(item, yaml.ScalarNode):
            raise self.error(item, "a key that is not text")
        value = scalar_value(self.loader, item, self.origin)
        if not isinstance(value, str):
            raise self.error(
                item, "the key {!s:.40} is not text".format(item.value or "(nothing)"), "write it in quotes"
            )
        return value


def scalar_value(loader: Any, item: yaml.ScalarNode, origin: str) -> Any:
    """Return the Python value of the YAML scalar `item` by its tag: text, None, bool, int or float, as in YAML 1.1;
    dates stay text. Raise JobError for other tags and for invalid values."""
    tag = item.tag
    where = f"{origin}:{item.start_mark.line + 1}" if item.start_mark else origin
    if tag in _TEXT_TAGS:
        return item.value
    kind = tag[len(_TAG) :] if tag.startswith(_TAG) else ""
    if kind not in ("null", "bool", "int", "float"):
        raise JobError(f"the tag {_short_tag(tag)} is not allowed", where, "a job contains plain values only")
    try:
        value = getattr(loader, "construct_yaml_" + kind)(item)
    except (ValueError, KeyError, IndexError, OverflowError):
        what = f"{item.value!s:.40} is not a value of the type {kind}"
        raise JobError(what, where, "write it in quotes if it is text") from None
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise JobError("a number of more than 300 digits", where, "write it in quotes")
    return value


def _short_tag(tag: str) -> str:
    return tag.replace(_TAG, "!!")[:60]


def plain_scalar(text: str, origin: str) -> Any:
    """Return the value of `text` as an unquoted YAML scalar, even if it contains characters with a meaning in YAML."""
    loader = _Loader("")
    tag = loader.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    if tag == _TAG + "yaml":  # a lone *, & or !, which have a meaning only in a document
        return text
    return scalar_value(loader, yaml.ScalarNode(tag, text), origin)


def read_setting(text: str, where: str) -> YamlNode:
    """Parse `text`, the value of a command-line option such as `--set`, and return it as a YamlNode: a quoted scalar, a
    list or mapping in brackets, or a plain scalar with its YAML type."""
    if text[:1] in ("'", '"', "[", "{"):
        try:
            node = parse_yaml(text, where, loose=True)
        except JobError:
            node = None
        if node is not None:
            return node._replace(line=0, text=node.value if isinstance(node.value, str) else text)
    return YamlNode(plain_scalar(text, where), text, where, 0, True)
