"""Readers, one for each kind of key. Each reader adds problems to the report, and leaves the wrong values out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from worldsize.common.named_tuple import Any
from worldsize.jobspec.keys.key import Key, Keys
from worldsize.jobspec.paths import absolute_path, is_malformed, is_remote
from worldsize.jobspec.reading.nearest import did_you_mean
from worldsize.jobspec.reading.problems import Problems
from worldsize.jobspec.reading.tree import YamlNode, plain_value, value_description

PRELOAD_WORDS = ("auto", "off")


def join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def read_text(node: YamlNode, path: str, key: Key, report: Problems) -> str | None:
    value = node.value
    if not isinstance(value, str):
        if not (node.loose and node.text):
            hint = "write it in quotes" if isinstance(value, (bool, int, float)) else None
            report.add(node, path, f"expected text, found {value_description(node)}", hint)
            return None
        value = node.text
    return _check_text(value, node, path, key, report)


def read_as_text(node: YamlNode, path: str, key: Key, report: Problems) -> str | None:
    if not isinstance(node.value, (str, bool, int, float)):
        hint = 'write "" for empty text' if node.value is None else None
        report.add(node, path, f"expected text, found {node.kind}", hint)
        return None
    if key.warned and node.line and not isinstance(node.value, str):
        report.warn(node, path, f"is {node.kind}, which Azure's client refuses here; write it in quotes")
    return _check_text(node.value if isinstance(node.value, str) else node.text, node, path, key, report)


def _check_text(text: str, node: YamlNode, path: str, key: Key, report: Problems) -> str | None:
    fault = text_fault(text)
    if fault:
        report.add(node, path, fault)
        return None
    if not key.blank and not text.strip():
        report.add(node, path, "is empty")
        return None
    if not key.choices:
        return text
    for choice in key.choices:
        if text.lower() == choice.lower():
            return choice
    what = f"{text!r:.60} is not one of the allowed values"
    report.add(node, path, what, did_you_mean(text, key.choices))
    return None


def text_fault(text: str) -> str | None:
    """Return the reason why `text` cannot be passed to a process (a NUL byte, or a character that cannot be encoded);
    None if it can."""
    if "\0" in text:
        return "holds a NUL byte"
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return "holds a character that cannot be encoded"
    return None


def read_number(node: YamlNode, path: str, key: Key, report: Problems) -> float | None:
    whole = key.kind == "int"
    value = _unquoted(node, whole) if key.quoted else node.value
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        hint = "write it without quotes" if isinstance(value, str) and value.strip().isdigit() else None
        report.add(node, path, f"expected a {'whole ' * whole}number, found {value_description(node)}", hint)
        return None
    number: float = value
    low, high, above = key.minimum, key.maximum, key.above
    if number != number or (low is not None and number < low) or (above is not None and number <= above):
        least = f"at least {low:g}" if low is not None else f"more than {above or 0:g}"
        report.add(node, path, f"is {node.text}, must be {least}")
        return None
    if high is not None and number > high:
        report.add(node, path, f"is {node.text[:40]}, must be at most {int(high)}")
        return None
    return number


def _unquoted(node: YamlNode, whole: bool) -> Any:
    """Return the value of `node`, with text of digits converted to a whole number. With `whole`, a float without a
    fraction is converted, too."""
    value = node.value
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit() and len(value) < 20:
        return int(value)
    return int(value) if whole and isinstance(value, float) and value.is_integer() else value


def read_flag(node: YamlNode, path: str, key: Key, report: Problems) -> bool | None:
    if isinstance(node.value, bool):
        return node.value
    report.add(node, path, f"expected true or false, found {value_description(node)}")
    return None


def read_path(node: YamlNode, path: str, key: Key, report: Problems) -> str | None:
    text = read_text(node, path, key, report)
    if text is not None and is_malformed(text):
        report.add(node, path, "is not a readable address", "check its brackets and its port")
        return None
    return None if text is None else absolute_path(text, report.base)


def read_texts(node: YamlNode, path: str, key: Key, report: Problems) -> tuple[str, ...] | None:
    if not isinstance(node.value, list):
        report.add(node, path, f"expected a list of texts, found {value_description(node)}")
        return None
    items = [read_text(item, f"{path}[{index}]", key, report) for index, item in enumerate(node.value)]
    return tuple(item for item in items if item is not None)


def read_paths(node: YamlNode, path: str, key: Key, report: Problems) -> tuple[str, ...] | None:
    """Read a list of local paths from `node` and return them as absolute paths. A remote path is left out, and a
    problem in `report`; None, with a problem, if the value is no list."""
    texts = read_texts(node, path, key, report)
    for index, text in enumerate(texts or ()):
        if is_remote(text):
            report.add(node.value[index], f"{path}[{index}]", "is not a local path", "download it, and name that path")
    return texts and tuple(absolute_path(text, report.base) for text in texts if not is_remote(text))


def read_words(node: YamlNode, path: str, key: Key, report: Problems) -> str | tuple[str, ...] | None:
    reader = read_texts if isinstance(node.value, list) else read_text
    return reader(node, path, key, report)


def read_preload(node: YamlNode, path: str, key: Key, report: Problems) -> tuple[str, ...] | None:
    """Read a job's or compute's `preload` from `node` and return a tuple: names of modules, or one of the words "auto"
    and "off" alone. None, with a problem in `report`, for another value. The word may be in a list, as in a job.yml."""
    if word := _preload_word(node):
        return (word,)
    if not isinstance(node.value, list):
        what = f"expected auto, off or a list of modules, found {value_description(node)}"
        report.add(node, path, what, "such as [torch, torchvision]")
        return None
    if len(node.value) == 1 and (word := _preload_word(node.value[0])):
        return (word,)
    names = []
    for index, item in enumerate(node.value):
        place, word = f"{path}[{index}]", _preload_word(item)
        if word:
            report.add(item, place, f"{word} cannot be in a list", f"preload: {word}, or a list of modules")
        elif not isinstance(item.value, str) or not all(part.isidentifier() for part in item.value.split(".")):
            what = f"expected the name of a module, found {value_description(item)}"
            report.add(item, place, what, "as an import names it, such as torch.nn")
        else:
            names.append(item.value)
    return tuple(dict.fromkeys(names)) or ("off",)


def _preload_word(node: YamlNode) -> str:
    """Return the word "auto" or "off" that `node`, a value of `preload`, contains; "" if it contains neither. YAML
    reads a plain `off` as false."""
    word = "off" if node.value is False else node.value.lower() if isinstance(node.value, str) else ""
    return word if word in PRELOAD_WORDS else ""


def read_any(node: YamlNode, path: str, key: Key, report: Problems) -> dict[str, Any]:
    return {name: plain_value(item) for name, item in mapping_of(node, path, report).items()}


def read_text_map(node: YamlNode, path: str, key: Key, report: Problems) -> dict[str, str]:
    values = {}
    for name, item in mapping_of(node, path, report).items():
        if not name or ("=" in name and key.kind != "labels") or text_fault(name):
            report.add(item, join(path, name), "is not a name")
            continue
        if item.value is None:
            if not (item.loose or key.kind == "labels"):
                report.warn(item, join(path, name), 'has no value, and is set to empty text; write "" for it')
            item = item._replace(value=item.text if item.loose else "")
        value = read_as_text(item, join(path, name), key, report)
        if value is not None:
            values[name] = value
    return values


def read_object(node: YamlNode, path: str, key: Key, report: Problems) -> dict[str, Any]:
    return read_keys(mapping_of(node, path, report, key.keys), path, key.keys, report)


def read_objects(node: YamlNode, path: str, key: Key, report: Problems) -> dict[str, Any]:
    nodes = mapping_of(node, path, report)
    return {name: read_object(item, join(path, name), key, report) for name, item in nodes.items()}


def mapping_of(node: YamlNode, path: str, report: Problems, keys: Iterable[str] = ()) -> dict[str, YamlNode]:
    """Return the entries of `node` by key if its value is a mapping. Otherwise return an empty mapping, and add a
    problem at `path` to `report`, whose hint names the allowed `keys`."""
    if isinstance(node.value, dict):
        return node.value
    names = ", ".join(keys)
    hint = f"its keys: {names}" if names else None
    report.add(node, path, f"expected a mapping of keys, found {value_description(node)}", hint)
    return {}


ValueReader = Callable[[YamlNode, str, Key, Problems], Any]

READERS: Mapping[str, ValueReader] = {
    "text": read_text,
    "as_text": read_as_text,
    "path": read_path,
    "int": read_number,
    "number": read_number,
    "flag": read_flag,
    "texts": read_texts,
    "words": read_words,
    "paths": read_paths,
    "preload": read_preload,
    "text_map": read_text_map,
    "labels": read_text_map,
    "any": read_any,
    "object": read_object,
    "objects": read_objects,
}


def read_keys(
    nodes: dict[str, YamlNode],
    path: str,
    keys: Keys,
    report: Problems,
    readers: Mapping[str, ValueReader] = READERS,
    of: str = "a job",
) -> dict[str, Any]:
    """Read each of the entries `nodes` with the reader for its kind of key, and return the valid values by name. `keys`
    is the table of the allowed keys. An unknown key or a wrong value is a problem in `report`; a key without a value
    counts as absent."""
    values = {}
    for name, node in nodes.items():
        key = keys.get(name)
        if key is None:
            what = f"is not a key of {path or of}"
            report.add(node, join(path, name[:60]), what, did_you_mean(name, keys))
        elif node.value is None:
            if node.line:
                report.warn(node, join(path, name), "has no value: it is ignored, and Azure's client refuses it")
        else:
            value = readers[key.kind](node, join(path, name), key, report)
            if value is not None:
                values[name] = value
    return values
