"""Parser of one `worldsize.toml` file: a tree of its values with their lines."""

from __future__ import annotations

import re
import sys

from worldsize.errors import ConfigError
from worldsize.jobspec.reading.tree import YamlNode, to_node
from worldsize.trust.projects import ConfigFile

MAX_BYTES = 1 << 20
_POSITION = r"\(at line (\d+), column (\d+)\)$"
_HEADER = r"\s*\[([^\[\]]+)\]"
_ELEMENT = r"\s*\[\[([^\[\]]+)\]\]"
_KEY = r"\s*([A-Za-z0-9_.\"' -]+?)\s*="


def parse_toml(config: ConfigFile) -> YamlNode:
    """Parse the worldsize.toml file `config` and return its tables as a tree of YamlNode, with line numbers where
    known. Raise ConfigError if it is not a TOML file, or is too large."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    file, data = config.path, config.data
    if len(data) > MAX_BYTES:
        raise ConfigError(f"larger than {MAX_BYTES} bytes, so not a configuration", file)
    try:
        text = data.decode("utf-8-sig")
        tables = tomllib.loads(text)
        root = to_node(tables, file, error=ConfigError)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError("not UTF-8 text", f"{file}:{line}") from None
    except RecursionError:
        raise ConfigError("nested too deep", file) from None
    except tomllib.TOMLDecodeError as error:
        raise _toml_error(str(error), file) from None
    except ValueError:
        raise ConfigError("not TOML: a number with too many digits", file) from None
    return _with_lines(root, (), _key_lines(text))


def _toml_error(message: str, file: str) -> ConfigError:
    place = re.search(_POSITION, message)
    if not place:
        return ConfigError(f"not TOML: {message}", file)
    what = f"not TOML, column {place[2]}: {message[: place.start()].rstrip()}"
    return ConfigError(what, f"{file}:{place[1]}")


def _key_lines(text: str) -> dict[tuple[str, ...], int]:
    """Return the line number of each table and key in `text`, a TOML file, by its path, such as ("compute", "lab",
    "type"), or ("forbidden", "0", "key") in an array of tables. Keys that are not written in the usual notation have
    no line."""
    lines: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    elements: dict[tuple[str, ...], int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        element, header, key = (re.match(form, line) for form in (_ELEMENT, _HEADER, _KEY))
        if element:
            path = _key_path(element[1])
            table = (*path, str(elements.get(path, 0)))
            elements[path] = elements.get(path, 0) + 1
            lines.setdefault(table, number)
            lines.setdefault(path, number)
        elif header:
            table = _key_path(header[1])
            lines.setdefault(table, number)
        elif key:
            lines.setdefault(table + _key_path(key[1]), number)
    return lines


def _key_path(dotted: str) -> tuple[str, ...]:
    return tuple(step.strip().strip("\"'") for step in dotted.split("."))


def _with_lines(node: YamlNode, path: tuple[str, ...], lines: dict[tuple[str, ...], int], above: int = 0) -> YamlNode:
    """Return the tree `node` with the line of each value, or the line `above` of what contains it."""
    line = lines.get(path, above)
    value = node.value
    if isinstance(value, list):
        value = [_with_lines(item, (*path, str(number)), lines, line) for number, item in enumerate(value)]
    elif isinstance(value, dict):
        value = {name: _with_lines(item, (*path, *name.split(".")), lines, line) for name, item in value.items()}
    return node._replace(line=line, value=value)
