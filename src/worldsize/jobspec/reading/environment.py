"""Reader of `environment:` in a job and in the configuration, loaded only if one of them contains it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from worldsize.common.named_tuple import Any
from worldsize.jobspec.environment import (
    FILE_ENDINGS,
    EnvironmentSpec,
    is_path,
    is_version,
    to_lines,
    with_conda_file,
)
from worldsize.jobspec.keys.environment import ENVIRONMENT, STEP
from worldsize.jobspec.keys.key import Key
from worldsize.jobspec.paths import absolute_path
from worldsize.jobspec.reading.problems import Problems
from worldsize.jobspec.reading.tree import YamlNode, plain_value, value_description
from worldsize.jobspec.reading.values import (
    READERS,
    ValueReader,
    join,
    read_as_text,
    read_keys,
    read_object,
    read_path,
    read_text,
    read_texts,
    read_words,
)
from worldsize.jobspec.requirement import absolute_requirement
from worldsize.jobspec.sizes import EXAMPLE, bytes_of

_SHA256 = r"[0-9a-f]{64}"
_NEEDED = {"url": "is missing", "sha256": "is missing: `sha256sum FILE` prints it"}


def read_environment(node: YamlNode, path: str, key: Key, report: Problems) -> str | dict[str, Any] | None:
    """Read the value of `environment:` in a job or the configuration from `node`. Return a name, an absolute path, or a
    mapping of the environment's keys to values; None for a wrong text. Problems are added to `report`."""
    if isinstance(node.value, dict):
        values = read_keys(node.value, path, ENVIRONMENT, report, ENVIRONMENT_READERS)
        if values.get("image", "").startswith(("./", "../", "~/")):
            values["image"] = absolute_path(values["image"], report.base)
        return values
    text = read_text(node, path, key._replace(blank=False), report)
    if text is None or not is_path(text):
        return text
    return ("file:" if text.startswith("file:") else "") + absolute_path(text, report.base)


def _read_conda(node: YamlNode, path: str, key: Key, report: Problems) -> Any:
    if not isinstance(node.value, dict):
        return read_path(node, path, key._replace(blank=False), report)
    content: dict[str, Any] = plain_value(node)
    try:
        with_conda_file(EnvironmentSpec(), content)
    except ValueError as error:
        report.add(node, path, str(error))
        return None
    return {**content, **_dependencies(content, report.base)}


def _dependencies(content: Mapping[str, Any], base: str) -> dict[str, Any]:
    """Return the entry `dependencies` of a conda environment that is written in the job file (`content`); an empty
    mapping without one. Relative paths in its pip section start at `base`, the job file's directory, as all paths in
    the file do."""
    if not content.get("dependencies"):
        return {}
    found = [
        {"pip": [absolute_requirement(str(line), base) for line in each["pip"] or ()]}
        if isinstance(each, dict)
        else each
        for each in content["dependencies"]
    ]
    return {"dependencies": found}


def _read_python(node: YamlNode, path: str, key: Key, report: Problems) -> str | None:
    text = read_as_text(node, path, key, report)
    return text if text is None or is_version(text) or not is_path(text) else absolute_path(text, report.base)


def _read_directories(node: YamlNode, path: str, key: Key, report: Problems) -> tuple[str, ...] | None:
    """Read the directories that an environment adds to a path variable, a text or a list, and return them as absolute
    paths; None, with a problem in `report`, for another value. A path that begins with a variable is completed later.
    """
    words = read_words(node, path, key, report)
    if words is None:
        return None
    return tuple(text if text.startswith("$") else absolute_path(text, report.base) for text in to_lines(words))


def _read_requirements(node: YamlNode, path: str, key: Key, report: Problems) -> tuple[str, ...] | None:
    """Read the pip requirements of an environment and return them as lines of a requirements file, with absolute paths.
    The value is a list, one requirement as text, or the path of a requirements file. None, with a problem in `report`,
    for another value."""
    if isinstance(node.value, list):
        lines = read_texts(node, path, key, report)
        return lines and tuple(absolute_requirement(line, report.base) for line in lines)
    text = read_text(node, path, key, report)
    if text is None:
        return None
    if text.endswith(FILE_ENDINGS) and not re.search(r"[\s<>=@$]", text):
        return ("-r " + absolute_path(text, report.base),)
    return (absolute_requirement(text, report.base),)


def _read_records(node: YamlNode, path: str, key: Key, report: Problems) -> list[dict[str, Any]] | None:
    """Read the list of downloads (`fetch:`) of an environment and return a mapping with url, sha256 and other keys for
    each; None, with a problem in `report`, if the value is no list."""
    if not isinstance(node.value, list):
        report.add(node, path, f"expected a list, found {value_description(node)}")
        return None
    found = []
    for index, item in enumerate(node.value):
        where = f"{path}[{index}]"
        count = len(report.problems)
        values = read_object(item, where, key, report)
        if len(report.problems) > count:
            continue
        for name, what in _NEEDED.items():
            if name not in values:
                report.add(item, join(where, name), what)
        values["sha256"] = values.get("sha256", "").lower()
        if values["sha256"] and not re.fullmatch(_SHA256, values["sha256"]):
            report.add(item, join(where, "sha256"), "is not a checksum", "64 hexadecimal digits: `sha256sum FILE`")
        if "max_size" in values and bytes_of(values["max_size"]) is None:
            report.add(item, join(where, "max_size"), "is not a size", EXAMPLE)
        found.append(values)
    return found


def _read_build(node: YamlNode, path: str, key: Key, report: Problems) -> Any:
    """Read `build:` of an environment and return it: a list of worldsize's build steps, each a line of bash or a
    mapping, or Azure's mapping."""
    if not isinstance(node.value, list):
        return read_object(node, path, key, report)
    found: list[Any] = []
    for index, item in enumerate(node.value):
        where = f"{path}[{index}]"
        if not isinstance(item.value, dict):
            found.append(read_text(item, where, Key("text", "", blank=False), report))
            continue
        count = len(report.problems)
        values = read_keys(item.value, where, STEP, report, ENVIRONMENT_READERS)
        if ("run" in values) == ("pip" in values) and len(report.problems) == count:
            report.add(item, where, "is one of: run, a line of bash; pip, what to compile")
        found.append(values)
    return [each for each in found if each is not None]


ENVIRONMENT_READERS: Mapping[str, ValueReader] = {
    **READERS,
    "conda": _read_conda,
    "python": _read_python,
    "requirements": _read_requirements,
    "places": _read_directories,
    "records": _read_records,
    "build": _read_build,
}
